// Does TensorFlow.js's native package work here, and on which device? The check loads it in a process of its own, as the training would: a missing
// library shows only then, and a crashing one takes nothing of ours with it.

import { execFile } from 'node:child_process';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { printable } from '@ranktrace/protocol';
import { z } from 'zod';

export interface TfjsCheck {
  readonly state: 'ok' | 'note' | 'failed';
  readonly text: string;
}

/** The better one first, in the SDK's order. */
const packages = ['@tensorflow/tfjs-node-gpu', '@tensorflow/tfjs-node'] as const;
/** A GPU's first contact with CUDA takes half a minute. */
const loadedWithinMs = 120_000;
const outputBytesMax = 1024 * 1024;

const program = `
  const tf = require(process.argv[1]);
  const backend = tf.backend();
  const about = { version: tf.version?.tfjs, library: backend?.binding?.TF_Version, isOnGpu: backend?.isUsingGpuDevice === true };
  // Printed after the library's own output.
  require('node:fs').writeSync(1, '\\n' + JSON.stringify(about) + '\\n');
  process.exit(0);`;

const answer = z.object({ version: z.string().max(64).optional(), library: z.string().max(64).optional(), isOnGpu: z.boolean() });

/** Searches from `directory`, as a program there would. `gpus`: those of the host, by nvidia-smi. Never rejects. */
export async function checkTfjs(directory: string, gpus: number): Promise<TfjsCheck> {
  const require = createRequire(join(directory, 'program.js'));
  for (const name of packages) {
    const path = resolved(require, name);
    if (path !== undefined) return loaded(name, path, directory, gpus);
  }
  return { state: 'note', text: 'no @tensorflow/tfjs-node or -gpu to be found from here: ops run in JavaScript or WebAssembly' };
}

async function loaded(name: string, path: string, directory: string, gpus: number): Promise<TfjsCheck> {
  const rebuild = `npm rebuild ${name} --build-from-source`;
  try {
    const options = { cwd: directory, timeout: loadedWithinMs, maxBuffer: outputBytesMax };
    const { stdout, stderr } = await promisify(execFile)(process.execPath, ['-e', program, path], options);
    const about = answer.parse(JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? ''));
    const versions = printable(`${name} ${about.version ?? ''}, TensorFlow ${about.library ?? 'of unknown version'}`);
    if (about.isOnGpu) return { state: 'ok', text: `${versions}, on a GPU` };
    if (!name.endsWith('-gpu')) return { state: 'ok', text: `${versions}, on the CPU` };
    const missing = missingLibraries(stderr);
    const why = missing.length > 0 ? `it misses ${missing.join(', ')}` : 'TensorFlow found none that it can use';
    return { state: gpus > 0 ? 'failed' : 'note', text: `${versions}, runs on the CPU: ${why} (CUDA 11.2 and cuDNN 8.1, docs/gpu.md)` };
  } catch (error) {
    const { stderr = '', message } = error as Error & { stderr?: string };
    const line = stderr.split('\n').find((text) => /^\w*Error\b/.test(text)) ?? message.split('\n', 1)[0] ?? '';
    return { state: 'failed', text: `${name} cannot be loaded: ${printable(line.slice(0, 300))}; ${rebuild} makes it anew` };
  }
}

/** Libraries that TensorFlow says it could not load. */
export function missingLibraries(stderr: string): readonly string[] {
  const found = [...stderr.slice(0, outputBytesMax).matchAll(/Could not load dynamic library '([\w.+-]{1,64})'/g)];
  return [...new Set(found.map(([, library = '']) => library))].slice(0, 16);
}

function resolved(require: NodeJS.Require, name: string): string | undefined {
  try {
    return require.resolve(name);
  } catch {
    return undefined;
  }
}

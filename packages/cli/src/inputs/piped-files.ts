// Pipes as files: `zcat rank0.json.gz | ranktrace report -`, or in a shell `report <(zcat rank0.json.gz)`.
//
// A reader looks at a file's beginning, reads it on another thread, and at times reads it again; a pipe gives its bytes once. So they are copied into a
// temporary file, which goes when the process ends, whoever ends it.

import { constants, createWriteStream, mkdtempSync, openSync, rmSync, statSync } from 'node:fs';
import { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { rankInName } from '@ranktrace/trace/torch';
import { CliError } from '../terminal/errors.ts';
import { exitCodes } from '../terminal/interrupt.ts';
import { showAs } from '../terminal/output.ts';

/** The operand that stands for the standard input. */
const standardInput = '-';

/** Largest copy: as large as a zipped trace may be unzipped. */
const bytesMax = 64 * 1024 ** 3;

/** The end of a pipe's name that its copy keeps. */
const nameCharsMax = 200;

/** Operands that were copied. */
const copied = new Set<string>();
let directory: string | undefined;
let isCopying = false;

/**
 * `paths`, with a file in place of each that is a pipe. Throws CliError `bad_input` where one cannot be copied or has no byte, `bad_usage` for one given
 * twice.
 */
export async function filesOf(paths: readonly string[]): Promise<readonly string[]> {
  const files: string[] = [];
  for (const path of paths) files.push(isPipe(path) ? await copyOf(path) : path);
  return files;
}

function isPipe(path: string): boolean {
  if (path === standardInput) return true;
  try {
    return statSync(path).isFIFO();
  } catch {
    // Its reader reports that.
    return false;
  }
}

async function copyOf(path: string): Promise<string> {
  if (copied.has(path)) throw new CliError('bad_usage', `"${path}" is given twice: a pipe is read once`);
  copied.add(path);
  const isStandard = path === standardInput;
  let bytes = 0;
  const counted = async function* (pieces: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    for await (const piece of pieces) {
      bytes += piece.length;
      if (bytes > bytesMax) throw new Error(`it has more than ${bytesMax / 1024 ** 3} GiB: save it as a file`);
      yield piece;
    }
  };
  isCopying = true;
  try {
    const copy = join(ownDirectory(), isStandard ? 'stdin' : copyName(basename(path), copied.size));
    await pipeline(isStandard ? process.stdin : pipeAt(path), counted, createWriteStream(copy, { flags: 'wx', mode: 0o600 }));
    if (bytes === 0) throw new Error('it ended without a byte');
    showAs(copy, path);
    return copy;
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const why = code === 'ENOSPC' ? `its copy does not fit into ${tmpdir()}; TMPDIR names another place` : message;
    throw new CliError('bad_input', `Cannot read "${path}": ${why}`, { cause: error });
  } finally {
    isCopying = false;
  }
}

/** Node reads files on threads, for which the end of the process waits: one that is blocked by a pipe without a writer would hold up Ctrl-C. */
const pipeAt = (path: string): Socket =>
  new Socket({ fd: openSync(path, constants.O_RDONLY | constants.O_NONBLOCK), readable: true, writable: false });

/** Keeps a name that says a rank. Where it says none (`/dev/fd/63`), nor may the copy's: digits at the end of a dump's name are its rank. */
const copyName = (name: string, number: number): string =>
  `${number}-${rankInName(name) === undefined ? 'pipe' : name.slice(-nameCharsMax)}`;

/** The directory of this process's copies. */
function ownDirectory(): string {
  if (directory !== undefined) return directory;
  const made = mkdtempSync(join(tmpdir(), 'ranktrace-pipes-'));
  process.once('exit', () => rmSync(made, { recursive: true, force: true }));
  for (const [name, code] of Object.entries(exitCodes)) {
    // A command that listens itself ends in good order, but none waits for a pipe.
    const end = (): void => {
      if (isCopying || process.listenerCount(name) === 1) process.exit(code);
    };
    process.on(name, end);
  }
  directory = made;
  return made;
}

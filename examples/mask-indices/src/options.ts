// The command line: which stages to run, and the form of the output.

import { parseArgs } from 'node:util';
import { type Stage, stages } from './stages.ts';

export interface Options {
  readonly stages: readonly Stage[];
  /** Print facts as JSON instead of tables. */
  readonly json: boolean;
  /** Folder of the traces. */
  readonly out: string;
}

/** Invalid command line; the message gives the valid form. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/**
 * Reads the options.
 * @throws UsageError
 * @example readOptions(['--stage', '2', '--json'])
 */
export function readOptions(args: readonly string[]): Options {
  const { stage, json = false, out = 'ranktrace-out' } = readFlags(args);
  const chosen = stages.filter(({ number }) => stage === undefined || String(number) === stage);
  if (chosen.length === 0) throw new UsageError(`Cannot use --stage "${stage}": it must be 1, 2 or 3`);
  if (out === '') throw new UsageError('Cannot use --out "": it must be the path of a folder');
  return { stages: chosen, json, out };
}

function readFlags(args: readonly string[]) {
  try {
    return parseArgs({ args: [...args], options: { stage: { type: 'string' }, json: { type: 'boolean' }, out: { type: 'string' } } })
      .values;
  } catch (cause) {
    throw new UsageError(`Cannot read the command line: ${(cause as Error).message}; known are --stage N, --json and --out DIR`, { cause });
  }
}

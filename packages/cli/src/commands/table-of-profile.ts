// `ranktrace table FILE` of a torch.profiler file (Kineto JSON, .gz too): torch's own key averages, as its `key_averages().table()` prints
// them. The file is read in pieces, so its size is bounded by the columns that are kept of it, not by memory for its text.

import { closeSync, createReadStream, openSync, readSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { createGunzip } from 'node:zlib';
import {
  averagesTable,
  functionAverages,
  functionEvents,
  KinetoReader,
  type KinetoTable,
  sortAverages,
  TraceError,
} from '@ranktrace/trace';
import { CliError } from '../errors.ts';
import { showProgress } from '../progress.ts';

export interface ProfileTableOptions {
  /** torch's name of a sort key, or its camelCase. */
  readonly sort: string;
  /** Rows, undefined for all. */
  readonly limit: number | undefined;
  readonly groupByShape: boolean;
  readonly groupByStack: number;
  readonly json: boolean;
}

const gzipMagic = [0x1f, 0x8b] as const;

/** Whether `path` is a file that begins like JSON or gzip: no segment, no directory. */
export function isProfile(path: string): boolean {
  return startsAsGzip(path) || /^\uFEFF?\s*[[{]/.test(headOf(path).toString());
}

const startsAsGzip = (path: string): boolean => gzipMagic.every((byte, index) => headOf(path)[index] === byte);

/** The first bytes; none of what is no file: whoever opens it as a store says so. */
function headOf(path: string): Buffer {
  const head = Buffer.alloc(64);
  try {
    const file = openSync(path, 'r');
    try {
      return head.subarray(0, readSync(file, head));
    } finally {
      closeSync(file);
    }
  } catch {
    return head.subarray(0, 0);
  }
}

export async function tableOfProfile(path: string, options: ProfileTableOptions): Promise<number> {
  return printAverages(await readProfile(path), options);
}

/** Prints torch's key averages. */
export function printAverages(table: KinetoTable, options: ProfileTableOptions): number {
  const { groupByShape: groupByInputShape, groupByStack: groupByStackN } = options;
  const averages = functionAverages(functionEvents(table), { groupByInputShape, groupByStackN });
  if (options.json) {
    process.stdout.write(`${JSON.stringify(sortAverages(averages, options.sort).slice(0, options.limit))}\n`);
    return 0;
  }
  const recorded = { profileMemory: table.isOn('profile_memory'), withFlops: table.isOn('with_flops') };
  process.stdout.write(averagesTable(averages, { sortBy: options.sort, rowLimit: options.limit ?? -1, ...recorded }));
  return 0;
}

async function readProfile(path: string): Promise<KinetoTable> {
  const { size } = await stat(path);
  const file = createReadStream(path, { highWaterMark: 1 << 20 });
  const reader = new KinetoReader();
  const progress = showProgress('reading');
  try {
    const text = startsAsGzip(path) ? file.pipe(createGunzip({ chunkSize: 1 << 20 })) : file;
    // `pipe` hands no errors on.
    file.on('error', (error) => text.destroy(error));
    for await (const chunk of text) {
      reader.push(chunk as Buffer);
      progress.update(file.bytesRead, size);
    }
    return reader.finish();
  } catch (error) {
    if (error instanceof TraceError) throw new TraceError(error.code, `"${path}": ${error.message}`, { cause: error });
    const code = error instanceof Error && 'code' in error ? String(error.code) : '';
    if (!code.startsWith('Z_')) throw error;
    throw new CliError('bad_input', `Cannot read "${path}": its gzip stream is broken or ends too early (${code})`, { cause: error });
  } finally {
    progress.stop();
    file.destroy();
  }
}

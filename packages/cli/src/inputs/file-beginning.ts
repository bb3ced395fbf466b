// How a file begins, zipped or not: what tells one kind of input from another before anything is read.

import { closeSync, openSync, readSync } from 'node:fs';
import { constants, gunzipSync } from 'node:zlib';

const beginningBytes = 65_536;
/** What so many zipped bytes can unfold to: gzip's ratio is at most 1032. */
const unzippedBytesMax = 128 * 1024 * 1024;

/** Whether the file at `path` is zipped; not one that cannot be read. */
export const startsAsGzip = (path: string): boolean => isGzip(bytesOf(path, 2));

export const isGzip = (bytes: Uint8Array): boolean => bytes[0] === 0x1f && bytes[1] === 0x8b;

/** The first bytes, unzipped; none of what is broken or no file: whoever reads it says so. */
export function beginningOf(path: string): Uint8Array {
  const beginning = bytesOf(path, beginningBytes);
  if (!isGzip(beginning)) return beginning;
  try {
    return gunzipSync(beginning, { finishFlush: constants.Z_SYNC_FLUSH, maxOutputLength: unzippedBytesMax });
  } catch {
    return beginning.subarray(0, 0);
  }
}

function bytesOf(path: string, count: number): Uint8Array {
  const bytes = new Uint8Array(count);
  try {
    const file = openSync(path, 'r');
    try {
      return bytes.subarray(0, readSync(file, bytes));
    } finally {
      closeSync(file);
    }
  } catch {
    return bytes.subarray(0, 0);
  }
}

// Reads the beginning of a file, zipped or not: it distinguishes the kinds of input before any full read.

import { closeSync, openSync, readSync } from 'node:fs';
import { constants, gunzipSync } from 'node:zlib';

const beginningBytes = 65_536;
/** Largest unzipped size of the zipped bytes read: gzip's ratio is at most 1032. */
const unzippedBytesMax = 128 * 1024 * 1024;

/** Whether the file at `path` is zipped; false for an unreadable one. */
export const startsAsGzip = (path: string): boolean => isGzip(bytesOf(path, 2));

export const isGzip = (bytes: Uint8Array): boolean => bytes[0] === 0x1f && bytes[1] === 0x8b;

/** The first bytes (`count` of the file itself), unzipped; none for a broken file or no file: its reader reports the error. */
export function beginningOf(path: string, count = beginningBytes): Uint8Array {
  const beginning = bytesOf(path, count);
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

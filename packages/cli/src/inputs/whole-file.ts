// Reads a file of bounded size as a whole, unzipped.

import { readFileSync, statSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { CliError } from '../terminal/errors.ts';
import { isGzip } from './file-beginning.ts';

/** Largest file in bytes, zipped or not: it is held as a whole. The trace package has the same bound for Zipkin files (`zipkinBytesMax`). */
const bytesMax = 128 * 1024 * 1024;

/** The bytes of the file at `path`, which is `what` (`a Zipkin file`). Throws CliError `bad_input` for one that is too large, or whose gzip stream is broken. */
export function wholeFile(path: string, what: string): Uint8Array {
  const { size } = statSync(path);
  if (size > bytesMax) throw new CliError('bad_input', `Cannot read "${path}": ${what} may have ${bytesMax} bytes, got ${size}`);
  const bytes = readFileSync(path);
  if (!isGzip(bytes)) return bytes;
  try {
    return gunzipSync(bytes, { maxOutputLength: bytesMax });
  } catch (cause) {
    const why = `its gzip stream is broken, ends too early or unfolds to over ${bytesMax} bytes`;
    throw new CliError('bad_input', `Cannot read "${path}": ${why}`, { cause });
  }
}

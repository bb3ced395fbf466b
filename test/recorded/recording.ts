// Recordings of others for the cases of this suite. Cases are named in the code, never found in the folder, so that they can be
// counted where there is none.

import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { recordedData } from './recorded-data.mjs';

/** Path of a file or folder of the recordings. */
export function recordingPath(path: string): string {
  const folder = recordedData();
  if (folder === undefined)
    throw new Error(`Cannot read the recording "${path}": RANKTRACE_RECORDED_DATA must name the folder that has it`);
  return join(folder, path);
}

/** Bytes of a file, unzipped where its name ends with `.gz`. */
export function recording(path: string): Uint8Array {
  const bytes = readFileSync(recordingPath(path));
  return path.endsWith('.gz') ? gunzipSync(bytes) : bytes;
}

export const recordingText = (path: string): string => new TextDecoder().decode(recording(path));

/** Rows of a CSV file without its head; only a field in quotes holds commas. */
export function recordingRows(path: string): string[][] {
  const [, ...lines] = recordingText(path).trim().split(/\r?\n/);
  return lines.map((line) => [...line.matchAll(/"([^"]*)"|([^,"]+)|(?<=,)(?=,|$)/g)].map(([, quoted, plain]) => quoted ?? plain ?? ''));
}

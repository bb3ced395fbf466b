// A file from the service, received by the page: it can show that the file is being made, count its bytes, stop it, and state why it failed. A bare link
// shows nothing until the first byte, which a merge of a large window sends late.
//
//   fetch ──► preparing ──first bytes──► receiving ──end──► saved by the browser
//                │                           ├──more than `bytesMax`──► the browser's own download, from the beginning
//                └───────── stop ────────────┴──connection breaks──► DownloadProblem
//
// Invariant: a file is saved whole or not at all. Received bytes go into blobs, which browsers keep outside of the page's memory.

import { formatBytes } from './format.ts';
import { saveBlob, saveLink } from './save-text.ts';

/** Largest file that the page receives itself, bytes. */
const bytesMax = 2 ** 30;
/** Bytes collected before they become a blob. */
const partBytes = 8 * 2 ** 20;
const problemCharsMax = 200;

/** Why a download failed, in one line for a person. */
export class DownloadProblem extends Error {}

/** Bytes so far, and of the whole file, if the service has announced them. */
export type OnBytes = (bytes: number, total: number | undefined) => void;

/**
 * Downloads the file at `url`; resolves when the browser has it, or has taken over: `browser`. Throws DownloadProblem, or the signal's reason.
 */
export async function download(url: string, signal: AbortSignal, onBytes: OnBytes): Promise<'saved' | 'browser'> {
  const stop = new AbortController();
  const response = await fetch(url, { signal: AbortSignal.any([signal, stop.signal]) }).catch((error: unknown) => {
    signal.throwIfAborted();
    throw new DownloadProblem('the service does not answer', { cause: error });
  });
  if (!response.ok) throw new DownloadProblem(await problemOf(response));
  const total = numberOf(response.headers.get('content-length'));
  const parts: BlobPart[] = [];
  let part: BlobPart[] = [];
  let [bytes, inPart] = [0, 0];
  const reader = response.body?.getReader();
  for (;;) {
    if (Math.max(bytes, total ?? 0) > bytesMax) {
      stop.abort();
      saveLink(url, '');
      return 'browser';
    }
    const chunk = await reader?.read().catch((error: unknown) => {
      signal.throwIfAborted();
      throw new DownloadProblem(`the service broke it off after ${formatBytes(bytes)}`, { cause: error });
    });
    if (chunk?.value === undefined) break;
    part.push(chunk.value);
    bytes += chunk.value.length;
    inPart += chunk.value.length;
    if (inPart >= partBytes) {
      parts.push(new Blob(part));
      [part, inPart] = [[], 0];
    }
    onBytes(bytes, total);
  }
  saveBlob(nameIn(response.headers.get('content-disposition')) ?? 'trace', new Blob([...parts, ...part]));
  return 'saved';
}

async function problemOf(response: Response): Promise<string> {
  const [line = ''] = (await response.text().catch(() => '')).trim().split('\n');
  return line === '' ? `the service answered ${response.status}` : line.slice(0, problemCharsMax);
}

const numberOf = (text: string | null): number | undefined => (text === null || !/^\d{1,15}$/.test(text) ? undefined : Number(text));

const nameIn = (disposition: string | null): string | undefined => /filename="([^"/\\]+)"/.exec(disposition ?? '')?.[1];

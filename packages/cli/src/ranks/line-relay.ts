// Output of several processes on one stream, a line at a time, so that lines of two ranks never mix.
//
// Invariants: memory per process is bounded by `lineBytesMax` (a longer line continues in the next one); a reader that has gone (`| head`) ends the
// relaying, never the ranks.

import { once } from 'node:events';
import type { Readable, Writable } from 'node:stream';

/** A longer line is relayed in pieces. */
const lineBytesMax = 64 * 1024;
const lineFeed = 0x0a;
const carriageReturn = 0x0d;

/** One stream that many processes write to. */
export class LineOutput {
  readonly #to: Writable;
  readonly #clear: string;
  #draining: Promise<unknown> | undefined;

  /** `clear` goes before each line: it removes a status line from a terminal that shows both. */
  constructor(to: Writable, clear = '') {
    this.#to = to;
    this.#clear = clear;
    to.on('error', () => undefined); // the reader has gone: `writable` shows it
  }

  /** Relays the bytes of `from`, each line after `prefix`; resolves at its end. */
  async relay(from: Readable, prefix: string): Promise<void> {
    const lines = new LineCutter();
    try {
      for await (const chunk of from) for (const line of lines.push(chunk as Buffer)) await this.#write(prefix, line);
    } catch {
      // The stream was cut off: the earlier bytes are relayed.
    }
    for (const line of lines.end()) await this.#write(prefix, line);
  }

  async #write(prefix: string, line: Buffer): Promise<void> {
    // Unread output is still taken from the rank, which would otherwise block.
    if (!this.#to.writable || this.#to.write(Buffer.concat([Buffer.from(this.#clear + prefix), line, Buffer.from('\n')]))) return;
    // One wait for all: 64 ranks on one pipe are 128 relays.
    const stop = new AbortController();
    this.#draining ??= Promise.race([once(this.#to, 'drain', { signal: stop.signal }), once(this.#to, 'close', { signal: stop.signal })])
      .catch(() => undefined)
      .finally(() => {
        stop.abort();
        this.#draining = undefined;
      });
    await this.#draining;
  }
}

/** Lines end with LF, CR LF, or CR alone (progress bars). */
class LineCutter {
  #rest: Buffer = Buffer.alloc(0);

  *push(chunk: Buffer): Generator<Buffer> {
    let text = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    // Searches from the end of the last chunk: a long line is not searched again with each piece.
    for (let from = this.#rest.length; ; from = 0) {
      const end = lineEnd(text, Math.max(0, from - 1));
      if (end === undefined) break;
      yield text.subarray(0, end.at);
      text = text.subarray(end.next);
    }
    while (text.length > lineBytesMax) {
      const at = characterStart(text, lineBytesMax);
      yield text.subarray(0, at);
      text = text.subarray(at);
    }
    this.#rest = text;
  }

  *end(): Generator<Buffer> {
    const rest = this.#rest.at(-1) === carriageReturn ? this.#rest.subarray(0, -1) : this.#rest;
    if (rest.length > 0) yield rest;
  }
}

function lineEnd(text: Buffer, from: number): { at: number; next: number } | undefined {
  const feed = text.indexOf(lineFeed, from);
  const within = feed === -1 ? text : text.subarray(0, feed);
  const at = within.indexOf(carriageReturn, from);
  // A CR at the very end may be the first half of CR LF.
  if (at === -1 || (feed === -1 && at === text.length - 1)) return feed === -1 ? undefined : { at: feed, next: feed + 1 };
  return { at, next: feed === at + 1 ? at + 2 : at + 1 };
}

/** The first place at or before `at` where a UTF-8 character begins. */
function characterStart(text: Buffer, at: number): number {
  for (let start = at; start > at - 4; start--) if (((text[start] as number) & 0xc0) !== 0x80) return start;
  return at;
}

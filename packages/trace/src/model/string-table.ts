// The distinct strings of a file, by index. Looking up a string seen before creates no JavaScript string.
//
// A direct-mapped cache finds recent strings by a hash of their bytes and compares them byte for byte; on a miss the table asks a
// Map, with a hash unknown to attackers. So a file made of collisions costs a decode and a look-up per string, never a long chain.
//
// Invariant: index 0 is the empty string, which also means "none".

import { decodeUtf8 } from './decode-utf8.ts';
import { TraceError } from './errors.ts';
import type { JsonScanner } from './json-scanner.ts';
import { limits } from './limits.ts';
import { ReadBudget } from './read-budget.ts';

const cacheEntries = 1 << 16;

export class StringTable {
  readonly strings: string[] = [''];
  readonly #indexes = new Map<string, number>([['', 0]]);
  readonly #cache = new Uint32Array(cacheEntries);
  readonly #budget: ReadBudget;

  constructor(budget = new ReadBudget()) {
    this.#budget = budget;
  }

  /** Index of the text; adds it if it is new. */
  index(text: string): number {
    let index = this.#indexes.get(text);
    if (index === undefined) {
      if (this.strings.length >= limits.stringsPerFileMax) {
        throw new TraceError('too_large', `Cannot read the trace: it may have ${limits.stringsPerFileMax} distinct strings, got more`);
      }
      this.#budget.takeText(text);
      index = this.strings.push(text) - 1;
      this.#indexes.set(text, index);
    }
    return index;
  }

  /** Index of the text; undefined where it does not occur. */
  find(text: string): number | undefined {
    return this.#indexes.get(text);
  }

  /** Index of the string that the scanner read last. */
  last(scanner: JsonScanner): number {
    return scanner.escaped ? this.index(scanner.text()) : this.slice(scanner.bytes, scanner.from, scanner.to);
  }

  /** Index of the text with the UTF-8 bytes `bytes[from, to)`. */
  slice(bytes: Uint8Array, from: number, to: number): number {
    let hash = 0x811c9dc5;
    for (let at = from; at < to; at++) hash = Math.imul(hash ^ (bytes[at] as number), 0x01000193);
    const entry = (hash ^ (hash >>> 16)) & (cacheEntries - 1);
    const cached = this.#cache[entry] as number;
    if (sameAscii(this.strings[cached] as string, bytes, from, to)) return cached;
    const index = this.index(decodeUtf8(bytes, from, to));
    this.#cache[entry] = index;
    return index;
  }

  get(index: number): string {
    return this.strings[index] as string;
  }
}

/** Whether the bytes are this text, and plain ASCII. */
function sameAscii(text: string, bytes: Uint8Array, from: number, to: number): boolean {
  if (text.length !== to - from) return false;
  for (let at = from; at < to; at++) {
    const byte = bytes[at] as number;
    if (byte >= 0x80 || text.charCodeAt(at - from) !== byte) return false;
  }
  return true;
}

// The distinct strings of a file, by index. Looking up a string seen before creates no JavaScript string.
//
// A direct-mapped cache finds recent strings by a hash of their bytes and compares them with the bytes it has seen; on a miss the table asks a
// Map, with a hash unknown to attackers. So a file made of collisions costs a decode and a look-up per string, never a long chain.
//
//   cache entry │ index  from  length │ ──► seen bytes │ aten::mm│[[4, 32], [32, 8]]│ …  │ free │
//
// Invariant: index 0 is the empty string, which also means "none".

import { decodeUtf8 } from './decode-utf8.ts';
import { TraceError } from './errors.ts';
import type { JsonScanner } from './json-scanner.ts';
import { limits } from './limits.ts';
import { ReadBudget } from './read-budget.ts';
import { sameBytes, type ViewedBytes } from './viewed-bytes.ts';

/** The cache has a fourfold of its entries as the table fills: most tables are of small files, and one of `cacheEntriesMax` takes 768 KiB. */
const cacheEntriesMin = 1 << 8;
const cacheEntriesMax = 1 << 16;
const seenBytesMin = 1 << 14;
/** When the seen bytes are more, the cache forgets all. */
const seenBytesMax = 1 << 23;
/** Longer strings are looked up in the Map each time. */
const cachedBytesMax = 1 << 16;

export class StringTable {
  readonly strings: string[] = [''];
  readonly #indexes = new Map<string, number>([['', 0]]);
  /** By entry of the cache: index of the string, 0 for none; where its bytes are in `#seen`, and how many. */
  #cache = new Uint32Array(cacheEntriesMin);
  #from = new Uint32Array(cacheEntriesMin);
  #lengths = new Uint32Array(cacheEntriesMin);
  #seen = new Uint8Array(seenBytesMin);
  #seenView = new DataView(this.#seen.buffer);
  #seenLength = 0;
  readonly #budget: ReadBudget;
  /** Budget that the texts take. */
  #charged = 0;

  constructor(budget = new ReadBudget()) {
    this.#budget = budget;
  }

  /** Index of the text; adds it if it is new. */
  index(text: string): number {
    let index = this.#indexes.get(text);
    if (index === undefined) {
      index = this.add(text);
      this.#indexes.set(text, index);
    }
    return index;
  }

  /** A new index for the text, under which `set` may put another one that is no longer; it is not found by its text. */
  add(text: string): number {
    if (this.strings.length >= limits.stringsPerFileMax) {
      throw new TraceError('too_large', `Cannot read the trace: it may have ${limits.stringsPerFileMax} distinct strings, got more`);
    }
    const before = this.#budget.held;
    this.#budget.takeText(text);
    this.#charged += this.#budget.held - before;
    return this.strings.push(text) - 1;
  }

  /** Changes a text that was put in by `add`. */
  set(index: number, text: string): void {
    this.strings[index] = text;
  }

  /** Forgets all texts: indexes given so far are void. */
  clear(): void {
    this.#budget.give(this.#charged);
    this.#charged = 0;
    this.strings.length = 1;
    this.#indexes.clear();
    this.#indexes.set('', 0);
    this.#forget();
  }

  /** Index of the text; undefined where it does not occur. */
  find(text: string): number | undefined {
    return this.#indexes.get(text);
  }

  /** Index of the string that the scanner read last. */
  last(scanner: JsonScanner): number {
    return scanner.escaped ? this.index(scanner.text()) : this.slice(scanner, scanner.from, scanner.to);
  }

  /** Index of the text with the UTF-8 bytes `bytes[from, to)`. */
  slice({ bytes, view }: ViewedBytes, from: number, to: number): number {
    const length = to - from;
    let hash = length;
    let at = from;
    for (; at + 4 <= to; at += 4) {
      hash = Math.imul(hash ^ view.getInt32(at, true), 0x9e3779b1);
      hash ^= hash >>> 15;
    }
    for (; at < to; at++) hash = Math.imul(hash ^ (bytes[at] as number), 0x01000193);
    hash ^= hash >>> 16;
    const entry = hash & (this.#cache.length - 1);
    if (this.#lengths[entry] === length && sameBytes(view, from, this.#seenView, this.#from[entry] as number, length))
      return this.#cache[entry] as number;
    const index = this.index(decodeUtf8(bytes, from, to));
    if (length <= cachedBytesMax) this.#remember(hash, index, bytes, from, to);
    return index;
  }

  #remember(hash: number, index: number, bytes: Uint8Array, from: number, to: number): void {
    const length = to - from;
    if (2 * this.strings.length > this.#cache.length && this.#cache.length < cacheEntriesMax) this.#widenCache();
    else if (this.#seenLength + length > seenBytesMax) this.#forget();
    const entry = hash & (this.#cache.length - 1);
    if (this.#seenLength + length > this.#seen.length) {
      let room = this.#seen.length;
      while (room < this.#seenLength + length) room *= 2;
      this.#budget.take(room - this.#seen.length);
      const wider = new Uint8Array(room);
      wider.set(this.#seen);
      this.#seen = wider;
      this.#seenView = new DataView(wider.buffer);
    }
    this.#cache[entry] = index;
    this.#from[entry] = this.#seenLength;
    this.#lengths[entry] = length;
    this.#seen.set(bytes.subarray(from, to), this.#seenLength);
    this.#seenLength += length;
  }

  /** A cache of four times the entries, empty. */
  #widenCache(): void {
    const entries = 4 * this.#cache.length;
    [this.#cache, this.#from, this.#lengths] = [new Uint32Array(entries), new Uint32Array(entries), new Uint32Array(entries)];
    this.#seenLength = 0;
  }

  /** Empties the cache. */
  #forget(): void {
    this.#lengths.fill(0);
    this.#cache.fill(0);
    this.#seenLength = 0;
  }

  get(index: number): string {
    return this.strings[index] as string;
  }
}

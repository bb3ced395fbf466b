// What events are told with beside their columns, as JSON, one after the other in chunks on the store; found by a number that a column holds.
//
//   number = chunk · 2^20 + place in it + 1        0: none
//   entry    u32 bytes   JSON [key, value, key, value, …]; a value is a number, a text, or [number] of a long text that many events share
//
// Invariant: memory holds one chunk, a number per chunk, and the long texts of late, up to `timelineTextCharsMax` characters.

import { decodeUtf8 } from '../read/decode-utf8.ts';
import { ByteBuffer } from '../write/byte-buffer.ts';
import type { BlockStore } from './block-store.ts';
import { timelineLimits } from './timeline-limits.ts';

export type Detail = readonly [key: string, value: string | number];

const chunkShift = 2 ** 20;
const lengthBytes = 4;
/** Texts from this length on are written once. */
const sharedChars = 48;

export class DetailStore extends ByteBuffer {
  readonly #store: BlockStore;
  /** Place of each chunk that is on the store. */
  readonly #places: number[];
  readonly #shared = new Map<string, number>();
  #sharedChars = 0;
  #pairs: (string | number | readonly number[])[] = [];
  #chars = 0;

  constructor(store: BlockStore) {
    const places: number[] = [];
    super((chunk) => places.push(store.write(chunk)));
    this.#store = store;
    this.#places = places;
  }

  /** Begins the details of one event. */
  begin(): void {
    this.#pairs = [];
    this.#chars = 0;
  }

  number(key: string, value: number): void {
    this.#push(key, Number.isFinite(value) ? value : String(value), 16);
  }

  text(key: string, value: string): void {
    this.#push(key, value.length < sharedChars ? value : [this.#share(value)], Math.min(value.length, sharedChars));
  }

  /** Writes what was told since `begin`; gives its number, 0 for nothing. */
  end(): number {
    return this.#pairs.length === 0 ? 0 : this.#append(JSON.stringify(this.#pairs));
  }

  /** What a number stands for. */
  details(number: number): Detail[] {
    if (number === 0) return [];
    const pairs = JSON.parse(this.#textAt(number)) as (string | number | [number])[];
    const details: Detail[] = [];
    for (let at = 0; at + 1 < pairs.length; at += 2) {
      const value = pairs[at + 1] as string | number | [number];
      details.push([pairs[at] as string, Array.isArray(value) ? this.#textAt(value[0]) : value]);
    }
    return details;
  }

  #push(key: string, value: string | number | readonly number[], chars: number): void {
    this.#chars += key.length + chars;
    if (this.#chars <= timelineLimits.timelineDetailCharsMax) this.#pairs.push(key, value);
  }

  #share(text: string): number {
    const known = this.#shared.get(text);
    if (known !== undefined) return known;
    this.#sharedChars += text.length + 32;
    if (this.#sharedChars > timelineLimits.timelineTextCharsMax) {
      this.#shared.clear();
      this.#sharedChars = text.length;
    }
    const number = this.#append(text.slice(0, timelineLimits.timelineDetailCharsMax));
    this.#shared.set(text, number);
    return number;
  }

  #append(text: string): number {
    this.next();
    const number = this.#places.length * chunkShift + this.at + 1;
    this.reserve(lengthBytes);
    const from = this.at;
    this.at += lengthBytes;
    this.utf8(text);
    new DataView(this.bytes.buffer).setUint32(from, this.at - from - lengthBytes, true);
    return number;
  }

  #textAt(number: number): string {
    const chunk = Math.floor((number - 1) / chunkShift);
    const from = (number - 1) % chunkShift;
    const place = this.#places[chunk];
    if (place === undefined) {
      const length = new DataView(this.bytes.buffer).getUint32(from, true);
      return decodeUtf8(this.bytes, from + lengthBytes, from + lengthBytes + length);
    }
    const head = this.#store.read(place + from, lengthBytes);
    const length = new DataView(head.buffer, head.byteOffset).getUint32(0, true);
    return decodeUtf8(this.#store.read(place + from + lengthBytes, length), 0, length);
  }
}

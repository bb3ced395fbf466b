// Details of events beyond their columns, one after another in chunks on the store; a number in a column refers to them.
//
//   number = chunk · 2^20 + place in it + 1        0: none
//   entry    u32 bytes   pair …
//   pair     u16 key (keyInline: text of the key)   u8 tag   value: f64 · i32 · text · f64 number of a text stored elsewhere
//   text     u32 bytes   UTF-8
//
// Long texts (stacks, shapes, whole names) are written at their first use; later ones refer to it.
// Invariant: memory holds one chunk, a number per chunk, the keys, and recent long texts, up to `timelineTextCharsMax` characters.

import type { BlockStore } from '../model/block-store.ts';
import { ByteBuffer } from '../model/byte-buffer.ts';
import { decodeUtf8 } from '../model/decode-utf8.ts';
import { timelineLimits } from './timeline-limits.ts';

export type Detail = readonly [key: string, value: string | number];

const chunkShift = 2 ** 20;
const lengthBytes = 4;
/** Texts from this length on are written once. */
const sharedChars = 32;
/** Marks a key given by the text that follows, in place of its index. */
const keyInline = 65_535;
const tag = { f64: 0, i32: 1, text: 2, elsewhere: 3 } as const;
/** Rough size of a pair beside its texts. */
const pairChars = 8;

export class DetailStore extends ByteBuffer {
  readonly #store: BlockStore;
  /** Places of the chunks on the store. */
  readonly #places: number[];
  readonly #keys: string[] = [];
  readonly #keyIndexes = new Map<string, number>();
  /** Numbers of long texts. */
  readonly #shared = new Map<string, number>();
  #sharedChars = 0;
  #view: DataView;
  /** Start of the entry being written, and its remaining characters. */
  #from = 0;
  #charsLeft = 0;

  constructor(store: BlockStore) {
    const places: number[] = [];
    super((chunk) => places.push(store.write(chunk)));
    this.#store = store;
    this.#places = places;
    this.#view = new DataView(this.bytes.buffer);
  }

  /** Begins the details of one event. */
  begin(): void {
    this.next();
    this.#from = this.at;
    this.#charsLeft = timelineLimits.timelineDetailCharsMax;
    this.reserve(lengthBytes);
    this.at += lengthBytes;
  }

  number(key: string, value: number): void {
    if (!this.#key(key, 0)) return;
    const isSmall = (value | 0) === value && !Object.is(value, -0);
    this.byte(isSmall ? tag.i32 : tag.f64);
    if (isSmall) this.#view.setInt32(this.at, value, true);
    else this.#view.setFloat64(this.at, value, true);
    this.at += isSmall ? 4 : 8;
  }

  text(key: string, value: string): void {
    const known = value.length < sharedChars ? undefined : this.#shared.get(value);
    if (!this.#key(key, known === undefined ? value.length : 0)) return;
    if (known !== undefined) {
      this.byte(tag.elsewhere);
      this.#view.setFloat64(this.at, known, true);
      this.at += 8;
      return;
    }
    this.byte(tag.text);
    if (value.length >= sharedChars) this.#remember(value, this.#places.length * chunkShift + this.at + 1);
    this.#text(value);
  }

  /** Ends the entry since `begin`; returns its number, 0 if it is empty. */
  end(): number {
    const from = this.#from;
    if (this.at === from + lengthBytes) {
      this.at = from;
      return 0;
    }
    this.#view.setUint32(from, this.at - from - lengthBytes, true);
    return this.#places.length * chunkShift + from + 1;
  }

  /** The details behind a number. */
  details(number: number): Detail[] {
    if (number === 0) return [];
    const bytes = this.#bytesAt(number);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const details: Detail[] = [];
    let at = 0;
    const text = (): string => {
      const from = at + lengthBytes;
      at = from + view.getUint32(at, true);
      return decodeUtf8(bytes, from, at);
    };
    while (at < bytes.length) {
      const index = view.getUint16(at, true);
      at += 2;
      const key = index === keyInline ? text() : (this.#keys[index] as string);
      const kind = view.getUint8(at++);
      if (kind === tag.text) {
        details.push([key, text()]);
        continue;
      }
      const value = kind === tag.i32 ? view.getInt32(at, true) : view.getFloat64(at, true);
      at += kind === tag.i32 ? 4 : 8;
      if (kind !== tag.elsewhere) {
        details.push([key, value]);
        continue;
      }
      const shared = this.#bytesAt(value);
      details.push([key, decodeUtf8(shared, 0, shared.length)]);
    }
    return details;
  }

  protected override grown(bytes: Uint8Array<ArrayBuffer>): void {
    super.grown(bytes);
    this.#view = new DataView(bytes.buffer);
  }

  /** Writes a key, with room for a fixed-size value; false if `chars` more exceed the event's share. */
  #key(key: string, chars: number): boolean {
    let index = this.#keyIndexes.get(key);
    if (index === undefined && this.#keys.length < timelineLimits.timelineDetailKeysMax) {
      index = this.#keys.push(key) - 1;
      this.#keyIndexes.set(key, index);
    }
    const cost = pairChars + chars + (index === undefined ? key.length : 0);
    if (cost > this.#charsLeft) return false;
    this.#charsLeft -= cost;
    this.reserve(2);
    this.#view.setUint16(this.at, index ?? keyInline, true);
    this.at += 2;
    if (index === undefined) this.#text(key);
    return true;
  }

  #text(text: string): void {
    const from = this.at;
    this.reserve(lengthBytes);
    this.at += lengthBytes;
    this.utf8(text);
    this.#view.setUint32(from, this.at - from - lengthBytes, true);
  }

  #remember(text: string, number: number): void {
    this.#sharedChars += text.length + sharedChars;
    if (this.#sharedChars > timelineLimits.timelineTextCharsMax) {
      this.#shared.clear();
      this.#sharedChars = text.length;
    }
    this.#shared.set(text, number);
  }

  /** The bytes after the length at a number's place. */
  #bytesAt(number: number): Uint8Array {
    const chunk = Math.floor((number - 1) / chunkShift);
    const from = (number - 1) % chunkShift;
    const place = this.#places[chunk];
    if (place === undefined) return this.bytes.slice(from + lengthBytes, from + lengthBytes + this.#view.getUint32(from, true));
    const head = this.#store.read(place + from, lengthBytes);
    const length = new DataView(head.buffer, head.byteOffset).getUint32(0, true);
    return this.#store.read(place + from + lengthBytes, length);
  }
}

// The keys of JSON objects that are alike, such as a trace's events: from bytes to what is known of each key, without a string.
//
// Writers print the members of one kind of object in one order. So the key that followed the last one before is compared first, byte by byte;
// then the key that a hash of a few of its bytes gives; a Map decides the rest.
//
// Invariant: the answer is the Map's. A guess only spares the look-up.

import { decodeUtf8 } from './decode-utf8.ts';
import { type JsonScanner, json } from './json-scanner.ts';
import { sameBytes } from './viewed-bytes.ts';

/** Keys remembered, known or not: more are looked up each time. */
const keysMax = 1024;
const keyBytesMax = 256;
const slots = 1024;

export class JsonKeys<Known> {
  readonly #known: ReadonlyMap<string, Known>;
  /** By index of a key: what is known of it, and its bytes between the quotes. Index 0 is no key. */
  readonly #values: (Known | undefined)[] = [undefined];
  readonly #bytes: Uint8Array[] = [new Uint8Array(0)];
  readonly #views: DataView[] = [new DataView(new ArrayBuffer(0))];
  readonly #indexes = new Map<string, number>();
  readonly #slots = new Uint16Array(slots);
  /** The key that followed each key. */
  readonly #next = new Uint16Array(keysMax);
  #last = 0;

  constructor(known: ReadonlyMap<string, Known>) {
    this.#known = known;
  }

  /** Begins an object. */
  begin(): void {
    this.#last = 0;
  }

  /** Reads a key and its colon; returns what is known of it. */
  read(scanner: JsonScanner): Known | undefined {
    let index = this.#next[this.#last] as number;
    if (!this.#isNext(scanner, index)) {
      scanner.string();
      // A remembered key is not scanned again, so it must be plain.
      if (scanner.escaped || scanner.unfit) {
        const known = this.#known.get(scanner.text());
        this.#expectColon(scanner);
        return known;
      }
      index = this.#find(scanner);
      this.#next[this.#last] = index;
      if (index === 0) {
        const known = this.#known.get(scanner.text());
        this.#expectColon(scanner);
        return known;
      }
    }
    this.#last = index;
    this.#expectColon(scanner);
    return this.#values[index];
  }

  #expectColon(scanner: JsonScanner): void {
    if (scanner.at < scanner.end && scanner.bytes[scanner.at] === json.colon) scanner.at++;
    else scanner.expect(json.colon);
  }

  /** Consumes the key if it is this one. */
  #isNext(scanner: JsonScanner, index: number): boolean {
    if (index === 0) return false;
    const key = this.#bytes[index] as Uint8Array;
    const { bytes, at } = scanner;
    const close = at + 1 + key.length;
    if (close >= scanner.end || bytes[at] !== json.quote || bytes[close] !== json.quote) return false;
    if (!sameBytes(scanner.view, at + 1, this.#views[index] as DataView, 0, key.length)) return false;
    scanner.at = close + 1;
    return true;
  }

  /** Index of the string that the scanner read last; 0 if it is not remembered. */
  #find({ bytes, from, to }: JsonScanner): number {
    const length = to - from;
    if (length === 0 || length > keyBytesMax) return 0;
    const middle = bytes[from + (length >> 1)] as number;
    const slot = (length * 31 + (bytes[from] as number) * 7 + (bytes[to - 1] as number) * 131 + middle * 17) % slots;
    const guess = this.#slots[slot] as number;
    const key = this.#bytes[guess] as Uint8Array;
    let isGuess = key.length === length;
    for (let place = 0; isGuess && place < length; place++) isGuess = key[place] === bytes[from + place];
    if (isGuess) return guess;
    const index = this.#add(bytes.slice(from, to));
    this.#slots[slot] = index;
    return index;
  }

  #add(key: Uint8Array): number {
    const text = decodeUtf8(key, 0, key.length);
    let index = this.#indexes.get(text);
    if (index === undefined) {
      if (this.#bytes.length === keysMax) return 0;
      index = this.#bytes.push(key) - 1;
      this.#views.push(new DataView(key.buffer));
      this.#values.push(this.#known.get(text));
      this.#indexes.set(text, index);
    }
    return index;
  }
}

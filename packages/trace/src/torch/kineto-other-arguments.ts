// Arguments without a column, as the bytes in the file: the members one after another, kept once per distinct text. Kernels of one name and
// shape share theirs, so a million of them need a few thousand texts.

import { decodeUtf8 } from '../model/decode-utf8.ts';
import { json } from '../model/json-scanner.ts';
import { limits } from '../model/limits.ts';
import { copyBytes, type ViewedBytes } from '../model/viewed-bytes.ts';
import type { KinetoTable } from './kineto-table.ts';

/** Digits that a double holds exactly; characters of the longest number that is judged. */
const exactDigits = 15;
const wholeCharsMax = 64;

/** Whether the value in `bytes[from, to)` is a whole number that no double holds. */
function isInexact(bytes: Uint8Array, from: number, to: number): boolean {
  if (to - from > wholeCharsMax) return false;
  for (let at = bytes[from] === json.minus ? from + 1 : from; at < to; at++) {
    const byte = bytes[at] as number;
    if (byte < 0x30 || byte > 0x39) return false;
  }
  return !Number.isSafeInteger(Number(decodeUtf8(bytes, from, to)));
}

export class OtherArguments implements ViewedBytes {
  /** The members so far, joined by commas, and room. */
  bytes = new Uint8Array(1024);
  view = new DataView(this.bytes.buffer);
  #length = 0;
  /** Bytes of all distinct texts. */
  #kept = 0;

  /** Begins to count anew: the table's texts are on disk. */
  forget(): void {
    this.#kept = 0;
  }

  clear(): void {
    this.#length = 0;
  }

  /** Adds `bytes[from, to)`: a key, its colon and its value, which begins at `value`. A whole number that no double holds becomes text. */
  add({ bytes, view }: ViewedBytes, from: number, value: number, to: number): void {
    if (to - value > exactDigits && isInexact(bytes, value, to)) {
      this.#add({ bytes, view }, from, value);
      this.bytes[this.#length++] = json.quote;
      copyBytes({ bytes, view }, value, to, this, this.#length);
      this.#length += to - value;
      this.bytes[this.#length++] = json.quote;
    } else this.#add({ bytes, view }, from, to);
  }

  #add({ bytes, view }: ViewedBytes, from: number, to: number): void {
    // With room for a number as text.
    const needed = this.#length + 1 + to - from + wholeCharsMax + 2;
    if (needed > this.bytes.length) {
      const wider = new Uint8Array(2 * needed);
      wider.set(this.bytes.subarray(0, this.#length));
      this.bytes = wider;
      this.view = new DataView(wider.buffer);
    }
    if (this.#length > 0) this.bytes[this.#length++] = json.comma;
    copyBytes({ bytes, view }, from, to, this, this.#length);
    this.#length += to - from;
  }

  /** Index into `arguments` of all that was added; 0 if nothing or too much was. */
  index({ arguments: texts, skipped }: KinetoTable): number {
    if (this.#length === 0) return 0;
    if (this.#kept + this.#length > limits.argumentBytesMax) {
      skipped.arguments++;
      return 0;
    }
    const known = texts.strings.length;
    const index = texts.slice(this, 0, this.#length);
    if (index >= known) this.#kept += this.#length;
    return index;
  }

  /** The members, as JSON.parse has them. */
  parsed(): Readonly<Record<string, unknown>> {
    return JSON.parse(`{${decodeUtf8(this.bytes, 0, this.#length)}}`) as Record<string, unknown>;
  }
}

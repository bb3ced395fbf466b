// Protobuf wire format, read with every bound checked: invalid input gives one TraceError, and no byte beyond a message is ever read
// as part of it. Written by hand, like the writer (perfetto/protobuf-buffer.ts): libraries trust lengths, and allocate per message.
//
//   |  … packet …  [tag][value]  [tag][length][ nested … ]  …  |
//                  ^ at                                        ^ end
//
// Invariant: at ≤ end after every call that returns.

import { decodeUtf8 } from '../model/decode-utf8.ts';
import { TraceError, type TraceErrorCode } from '../model/errors.ts';
import { perfettoLimits as limits } from './perfetto-limits.ts';

const two32 = 2 ** 32;

/** Tags of a field: its number and wire type. */
export const varintTag = (field: number): number => field * 8;
export const fixed64Tag = (field: number): number => field * 8 + 1;
export const lengthTag = (field: number): number => field * 8 + 2;

/** Begin of every message. */
export const cannotRead = 'Cannot read the Perfetto trace: ';

export class Wire {
  bytes: Uint8Array = new Uint8Array(0);
  at = 0;
  /** End of the packet. */
  end = 0;
  /** Offset of `bytes` in the file. */
  origin = 0;
  /** The halves of the last number read, unsigned 32 bits each. */
  low = 0;
  high = 0;
  #view: DataView = new DataView(new ArrayBuffer(0));

  /** The tag of the next field of the message that ends at `end`; 0 when there is none. */
  next(end: number): number {
    if (this.at >= end) {
      if (this.at > end) throw this.broken('a field ends after the message it is in');
      return 0;
    }
    const tag = this.varint();
    if (tag < 8) throw this.broken('a field has the number 0');
    return tag;
  }

  /** An unsigned number; exact up to 2^53, beyond that by its halves. */
  varint(): number {
    const { bytes } = this;
    let { at } = this;
    let byte = bytes[at++] as number;
    if (byte < 0x80) return this.#read(at, byte, 0);
    let low = byte & 0x7f;
    for (let shift = 7; shift < 28; shift += 7) {
      byte = bytes[at++] as number;
      low |= (byte & 0x7f) << shift;
      if (byte < 0x80) return this.#read(at, low, 0);
    }
    byte = bytes[at++] as number;
    low = (low | (byte << 28)) >>> 0;
    let high = (byte >> 4) & 0x07;
    if (byte < 0x80) return this.#read(at, low, high);
    for (let shift = 3; shift < 32; shift += 7) {
      byte = bytes[at++] as number;
      high |= (byte & 0x7f) << shift;
      if (byte < 0x80) return this.#read(at, low, high >>> 0);
    }
    throw at > this.end ? this.broken('a number goes beyond its packet') : this.broken('a number has more than 10 bytes');
  }

  /** The last varint as a signed number of 64 bits; exact from −2^53 to 2^53. */
  get signed(): number {
    return (this.high | 0) * two32 + this.low;
  }

  /** The last number, exact. */
  get whole(): bigint {
    return (BigInt(this.high) << 32n) | BigInt(this.low);
  }

  bool(): boolean {
    this.varint();
    return this.low !== 0 || this.high !== 0;
  }

  double(): number {
    this.#take(8);
    return this.#view.getFloat64(this.at - 8, true);
  }

  /** Sets `low` and `high`. */
  fixed64(): void {
    this.#take(8);
    this.low = this.#view.getUint32(this.at - 8, true);
    this.high = this.#view.getUint32(this.at - 4, true);
  }

  /** The end of the nested message (or text) that begins here, inside one that ends at `end`. */
  nested(end: number): number {
    const length = this.varint();
    if (length > end - this.at)
      throw this.broken(`a field of ${length} bytes is in a message of which ${Math.max(0, end - this.at)} are left`);
    return this.at + length;
  }

  /** The text that begins here, cut where it is too long. */
  text(end: number): string {
    const until = this.nested(end);
    const text = decodeUtf8(this.bytes, this.at, Math.min(until, this.at + limits.perfettoTextBytesMax));
    this.at = until;
    return text;
  }

  /** Skips the value of a field with this tag. */
  skip(tag: number, end: number): void {
    const type = tag & 7;
    if (type === 0) this.varint();
    else if (type === 1) this.#take(8);
    else if (type === 2) this.at = this.nested(end);
    else if (type === 5) this.#take(4);
    else throw this.broken(`a field has the wire type ${type}`);
  }

  /** Continues in `bytes`, which begins at byte `origin` of the file. */
  turnTo(bytes: Uint8Array, at: number, end: number, origin: number): void {
    if (bytes !== this.bytes) this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.bytes = bytes;
    this.at = at;
    this.end = end;
    this.origin = origin;
  }

  broken(what: string, code: TraceErrorCode = 'not_perfetto'): TraceError {
    return new TraceError(code, `${cannotRead}at byte ${this.origin + Math.min(this.at, this.end)} ${what}`);
  }

  #read(at: number, low: number, high: number): number {
    this.at = at;
    if (at > this.end) throw this.broken('a number goes beyond its packet');
    this.low = low;
    this.high = high;
    return high === 0 ? low : high * two32 + low;
  }

  #take(count: number): void {
    if (count > this.end - this.at) throw this.broken('a number goes beyond its packet');
    this.at += count;
  }
}

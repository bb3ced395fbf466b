// Protobuf wire format, as far as a trace needs it: https://protobuf.dev/programming-guides/encoding
//
//   field  = tag varint (number · 8 + wire type) | value        wire types: 0 varint, 1 fixed 64 bits, 2 length + bytes
//   nested = tag | length | bytes                               the length is written afterwards, see `open`
//
// Written by hand, without a library, because two packets of ~20 bytes per span are the whole cost of a merge.

import { ByteBuffer } from '../model/byte-buffer.ts';

const two28 = 2 ** 28;
const two32 = 2 ** 32;

export class ProtobufBuffer extends ByteBuffer {
  #view = new DataView(this.bytes.buffer);

  /** An unsigned whole number up to 2^53. */
  varint(value: number): void {
    const bytes = this.bytes;
    let at = this.at;
    let rest = value;
    if (rest >= two28) {
      // The low 28 bits are four full groups; the bits above them fit 25 bits.
      const above = Math.floor(rest / two28);
      const low = rest - above * two28;
      bytes[at++] = low | 0x80;
      bytes[at++] = (low >> 7) | 0x80;
      bytes[at++] = (low >> 14) | 0x80;
      bytes[at++] = (low >> 21) | 0x80;
      rest = above;
    }
    while (rest > 0x7f) {
      bytes[at++] = (rest & 0x7f) | 0x80;
      rest >>>= 7;
    }
    bytes[at++] = rest;
    this.at = at;
  }

  /** 64 bits given as two unsigned halves. */
  varint64(low: number, high: number): void {
    let [lower, upper] = [low >>> 0, high >>> 0];
    while (upper > 0 || lower > 0x7f) {
      this.byte((lower & 0x7f) | 0x80);
      lower = ((lower >>> 7) | (upper << 25)) >>> 0;
      upper >>>= 7;
    }
    this.byte(lower);
  }

  /** A tag of any field number; for numbers below 16 `byte(number * 8 + wireType)` is the same. */
  tag(field: number, wireType: 0 | 1 | 2): void {
    this.varint(field * 8 + wireType);
  }

  /** An unsigned integer field, up to 2^53. */
  uint(field: number, value: number): void {
    this.tag(field, 0);
    this.varint(value);
  }

  /** An int64 field holding a safe integer of either sign. */
  int(field: number, value: number): void {
    this.tag(field, 0);
    const high = Math.floor(value / two32);
    if (value >= 0) this.varint(value);
    else this.varint64(value - high * two32, high);
  }

  bool(field: number, value: boolean): void {
    this.tag(field, 0);
    this.byte(value ? 1 : 0);
  }

  double(field: number, value: number): void {
    this.tag(field, 1);
    this.#view.setFloat64(this.at, value, true);
    this.at += 8;
  }

  /** The same 64 bits as a fixed64 field. */
  fixed64(field: number, value: bigint): void {
    this.tag(field, 1);
    this.#view.setBigUint64(this.at, value, true);
    this.at += 8;
  }

  /** The same 64 bits as a varint field. */
  uint64(field: number, value: bigint): void {
    this.tag(field, 0);
    this.#view.setBigUint64(this.at, value, true);
    this.varint64(this.#view.getUint32(this.at, true), this.#view.getUint32(this.at + 4, true));
  }

  string(field: number, text: string): void {
    const mark = this.open(field);
    this.utf8(text);
    this.close(mark);
  }

  /** Begins a nested message; one byte is kept for its length. Pass the result to `close`. */
  open(field: number): number {
    this.reserve(0);
    this.tag(field, 2);
    return this.at++;
  }

  /** Ends the nested message begun at `mark`; the rare one of 128 bytes or more moves up to make room for its length. */
  close(mark: number): void {
    const length = this.at - mark - 1;
    if (length < 0x80) {
      this.bytes[mark] = length;
      return;
    }
    const more = length < 0x4000 ? 1 : length < 0x20_0000 ? 2 : length < two28 ? 3 : 4;
    this.reserve(more);
    this.bytes.copyWithin(mark + 1 + more, mark + 1, this.at);
    const end = this.at + more;
    this.at = mark;
    this.varint(length);
    this.at = end;
  }

  protected override grown(bytes: Uint8Array<ArrayBuffer>): void {
    super.grown(bytes);
    this.#view = new DataView(bytes.buffer);
  }
}

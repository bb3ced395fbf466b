// The output buffer of a trace file: one array, filled from the front and passed on whenever it holds a chunk.
//
//   |  written, not passed on yet  |   room   | slack |
//   0                              ^ at       ^ chunkBytes
//
// Invariant: after `next()` or `reserve(n)` there is room for `n` plus `slackBytes` bytes, so fixed-size pieces (numbers, tags) are
// written without a check, and only text of unknown size asks for room. One piece is never split over two chunks unless
// it ends before the `next()` call; nothing is allocated while pieces stay below the slack.

import type { WriteBytes } from './trace-sink.ts';

/** Bytes passed on at once. */
const chunkBytes = 256 * 1024;
const slackBytes = 1024;

const zero = 0x30;

export class ByteBuffer {
  protected bytes = new Uint8Array(chunkBytes + 2 * slackBytes);
  protected at = 0;
  readonly #write: WriteBytes;

  constructor(write: WriteBytes) {
    this.#write = write;
  }

  /** Begins a new piece (a packet, a line): passes the buffer on when it holds a chunk. */
  next(): void {
    if (this.at >= chunkBytes) this.flush();
  }

  /** Passes on everything written so far. */
  flush(): void {
    if (this.at > 0) this.#write(this.bytes.subarray(0, this.at));
    this.at = 0;
  }

  /** Makes room for `count` more bytes within the current piece. */
  reserve(count: number): void {
    const wanted = this.at + count + slackBytes;
    if (wanted <= this.bytes.length) return;
    const grown = new Uint8Array(Math.max(wanted, this.bytes.length * 2));
    grown.set(this.bytes.subarray(0, this.at));
    this.grown(grown);
  }

  byte(value: number): void {
    this.bytes[this.at++] = value;
  }

  raw(source: Uint8Array): void {
    this.reserve(source.length);
    this.bytes.set(source, this.at);
    this.at += source.length;
  }

  /** `text` as UTF-8; a lone surrogate becomes U+FFFD, as in every encoder of the web. */
  utf8(text: string): void {
    this.reserve(text.length * 3);
    const bytes = this.bytes;
    let at = this.at;
    for (let index = 0; index < text.length; index++) {
      let code = text.charCodeAt(index);
      if (code < 0x80) {
        bytes[at++] = code;
        continue;
      }
      if (code >= 0xd800 && code < 0xe000) {
        const low = code < 0xdc00 ? text.charCodeAt(index + 1) : 0;
        if (low >= 0xdc00 && low < 0xe000) {
          code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
          index++;
        } else code = 0xfffd;
      }
      if (code < 0x800) bytes[at++] = 0xc0 | (code >> 6);
      else {
        if (code < 0x10000) bytes[at++] = 0xe0 | (code >> 12);
        else {
          bytes[at++] = 0xf0 | (code >> 18);
          bytes[at++] = 0x80 | ((code >> 12) & 0x3f);
        }
        bytes[at++] = 0x80 | ((code >> 6) & 0x3f);
      }
      bytes[at++] = 0x80 | (code & 0x3f);
    }
    this.at = at;
  }

  /** Text that is known to be ASCII and shorter than the slack. */
  ascii(text: string): void {
    for (let index = 0; index < text.length; index++) this.bytes[this.at++] = text.charCodeAt(index);
  }

  /** A whole number of ns (|ns| ≤ 2^53) as µs with three decimals, printed from integers: `-1.007`, `12.000`. */
  micros(ns: number): void {
    let rest = ns;
    if (rest < 0) {
      this.byte(0x2d);
      rest = -rest;
    }
    const micros = Math.floor(rest / 1000);
    this.integer(micros);
    const below = rest - micros * 1000;
    const { bytes, at } = this;
    bytes[at] = 0x2e;
    bytes[at + 1] = zero + Math.floor(below / 100);
    bytes[at + 2] = zero + (Math.floor(below / 10) % 10);
    bytes[at + 3] = zero + (below % 10);
    this.at = at + 4;
  }

  /** A whole number from 0 to 2^53 in decimal. */
  integer(value: number): void {
    let digits = 1;
    for (let bound = 10; bound <= value; bound *= 10) digits++;
    const bytes = this.bytes;
    const end = this.at + digits;
    this.at = end;
    let rest = value;
    let at = end;
    // Beyond 31 bits the engine divides doubles; taking nine low digits at a time needs only one or two such divisions.
    while (rest >= 1e9) {
      const above = Math.floor(rest / 1e9);
      let low = rest - above * 1e9;
      for (let digit = 0; digit < 9; digit++) {
        bytes[--at] = zero + (low % 10);
        low = (low / 10) | 0;
      }
      rest = above;
    }
    let low = rest | 0;
    while (at > end - digits) {
      bytes[--at] = zero + (low % 10);
      low = (low / 10) | 0;
    }
  }

  /** Called with the larger array that replaces `bytes`. */
  protected grown(bytes: Uint8Array<ArrayBuffer>): void {
    this.bytes = bytes;
  }
}

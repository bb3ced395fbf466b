// Reads a pickle that holds plain data: dictionaries, lists, tuples, texts, numbers, booleans, None.
//
// A pickle is a program: some of its instructions import a module and call what is in it. This reader has none of them, so a hostile file can ask for
// nothing; it is refused with the place of the instruction. Source of the instructions: Python's Lib/pickletools.py, protocols 2 to 5.
//
// Invariant: values are at most `limits.pickleValuesMax`, each made once: a text that the file refers to a million times is one text. Containers may
// contain themselves; a caller walks only as deep as the fields that it knows.

import { decodeUtf8 } from '../model/decode-utf8.ts';
import { TraceError } from '../model/errors.ts';
import { limits } from '../model/limits.ts';

export type PickleValue = null | boolean | number | bigint | string | readonly PickleValue[] | PickleMap;
export type PickleMap = ReadonlyMap<PickleValue, PickleValue>;

const mark: unique symbol = Symbol('mark');
type Stacked = PickleValue | PickleValue[] | Map<PickleValue, PickleValue> | typeof mark;

/** Instructions that import, call or look up objects outside of the file. */
const calls: ReadonlyMap<number, string> = new Map([
  ...([...'cRbioPQ'].map((letter) => [letter.charCodeAt(0), letter]) as [number, string][]),
  ...[0x81, 0x82, 0x83, 0x84, 0x92, 0x93, 0x97].map((code): [number, string] => [code, `0x${code.toString(16)}`]),
]);

/** Whether the bytes begin as a pickle of protocol 2 to 5 does, with a dictionary. */
export const looksLikePickle = (bytes: Uint8Array): boolean =>
  bytes[0] === 0x80 && (bytes[1] ?? 0) >= 2 && (bytes[1] ?? 9) <= 5 && (bytes[2] === 0x7d || bytes[2] === 0x95);

/** @throws TraceError `truncated`, `too_large`, `not_pickle` for anything but plain data */
export function readPickle(bytes: Uint8Array): PickleValue {
  return new PickleReader(bytes).read();
}

class PickleReader {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  #at = 0;
  #values = 0;
  readonly #stack: Stacked[] = [];
  readonly #memo: Stacked[] = [];

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  read(): PickleValue {
    for (;;) {
      const at = this.#at;
      const code = this.#bytes[this.#take(1)] as number;
      if (code === 0x2e) return this.#value(this.#stack.pop());
      if (!this.#step(code)) {
        const asked = calls.get(code);
        const why =
          asked === undefined ? `instruction 0x${code.toString(16)} is no part of plain data` : `instruction ${asked} asks to call code`;
        throw new TraceError('not_pickle', `Cannot read the pickle: ${why}, at byte ${at}`);
      }
      if (this.#values > limits.pickleValuesMax) {
        throw new TraceError('too_large', `Cannot read the pickle: it holds over ${limits.pickleValuesMax} values`);
      }
    }
  }

  /** Runs one instruction; false for an unknown one. */
  #step(code: number): boolean {
    switch (code) {
      case 0x80: // PROTO
        this.#take(1);
        return true;
      case 0x95: // FRAME
        this.#take(8);
        return true;
      case 0x28: // MARK
        return this.#push(mark);
      case 0x30: // POP
        this.#stack.pop();
        return true;
      case 0x4e:
        return this.#push(null);
      case 0x88:
        return this.#push(true);
      case 0x89:
        return this.#push(false);
      case 0x4b: // BININT1
        return this.#push(this.#view.getUint8(this.#take(1)));
      case 0x4d: // BININT2
        return this.#push(this.#view.getUint16(this.#take(2), true));
      case 0x4a: // BININT
        return this.#push(this.#view.getInt32(this.#take(4), true));
      case 0x8a: // LONG1
        return this.#push(this.#long(this.#view.getUint8(this.#take(1))));
      case 0x47: // BINFLOAT
        return this.#push(this.#view.getFloat64(this.#take(8)));
      case 0x8c: // SHORT_BINUNICODE
        return this.#push(this.#text(this.#view.getUint8(this.#take(1))));
      case 0x58: // BINUNICODE
        return this.#push(this.#text(this.#view.getUint32(this.#take(4), true)));
      case 0x7d:
        return this.#push(new Map());
      case 0x5d:
        return this.#push([]);
      case 0x29:
        return this.#push([]);
      case 0x85:
      case 0x86:
      case 0x87: // TUPLE1 to TUPLE3
        return this.#push(this.#popped(code - 0x84));
      case 0x74: // TUPLE
        return this.#push(this.#sinceMark());
      case 0x61: // APPEND
        return this.#append(this.#popped(1));
      case 0x65: // APPENDS
        return this.#append(this.#sinceMark());
      case 0x73: // SETITEM
        return this.#set(this.#popped(2));
      case 0x75: // SETITEMS
        return this.#set(this.#sinceMark());
      case 0x71: // BINPUT
        return this.#remember(this.#view.getUint8(this.#take(1)));
      case 0x72: // LONG_BINPUT
        return this.#remember(this.#view.getUint32(this.#take(4), true));
      case 0x94: // MEMOIZE
        return this.#remember(this.#memo.length);
      case 0x68: // BINGET
        return this.#recall(this.#view.getUint8(this.#take(1)));
      case 0x6a: // LONG_BINGET
        return this.#recall(this.#view.getUint32(this.#take(4), true));
      default:
        return false;
    }
  }

  /** The place of the next `count` bytes. */
  #take(count: number): number {
    const at = this.#at;
    if (at + count > this.#bytes.length) throw new TraceError('truncated', `Cannot read the pickle: it ends at byte ${this.#bytes.length}`);
    this.#at = at + count;
    return at;
  }

  #push(value: Stacked): true {
    this.#values++;
    this.#stack.push(value);
    return true;
  }

  #text(length: number): string {
    const at = this.#take(length);
    return decodeUtf8(this.#bytes, at, at + length);
  }

  /** A little-endian two's complement; as a number where that is exact. */
  #long(length: number): number | bigint {
    const at = this.#take(length);
    let value = 0n;
    for (let byte = length - 1; byte >= 0; byte--) value = (value << 8n) | BigInt(this.#bytes[at + byte] as number);
    if (length > 0) value = BigInt.asIntN(8 * length, value);
    return Number.isSafeInteger(Number(value)) ? Number(value) : value;
  }

  #popped(count: number): PickleValue[] {
    if (this.#stack.length < count) throw this.#malformed();
    return this.#stack.splice(-count).map((value) => this.#value(value));
  }

  #sinceMark(): PickleValue[] {
    const at = this.#stack.lastIndexOf(mark);
    if (at < 0) throw this.#malformed();
    const values = this.#stack.splice(at).slice(1);
    return values.map((value) => this.#value(value));
  }

  #append(values: readonly PickleValue[]): true {
    const list = this.#stack.at(-1);
    if (!Array.isArray(list)) throw this.#malformed();
    this.#values += values.length;
    for (const value of values) list.push(value);
    return true;
  }

  #set(values: readonly PickleValue[]): true {
    const map = this.#stack.at(-1);
    if (!(map instanceof Map) || values.length % 2 !== 0) throw this.#malformed();
    this.#values += values.length;
    for (let at = 0; at < values.length; at += 2) map.set(values[at] as PickleValue, values[at + 1] as PickleValue);
    return true;
  }

  #remember(place: number): true {
    const value = this.#stack.at(-1);
    // Python numbers its memo from 0 without gaps: another place would make an array with holes.
    if (value === undefined || value === mark || place > this.#memo.length) throw this.#malformed();
    this.#memo[place] = value;
    return true;
  }

  #recall(place: number): true {
    const value = this.#memo[place];
    if (value === undefined) throw this.#malformed();
    return this.#push(value);
  }

  #value(value: Stacked | undefined): PickleValue {
    if (value === undefined || value === mark) throw this.#malformed();
    return value;
  }

  #malformed(): TraceError {
    return new TraceError('not_pickle', `Cannot read the pickle: its instructions do not fit together, before byte ${this.#at}`);
  }
}

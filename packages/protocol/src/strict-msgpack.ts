// Checks msgpack bytes before msgpackr reads them: it accepts only complete, plain data of bounded size.
//
// msgpackr 2.1 honours its own extensions on any input, whatever its options: records (0x72, compiled with `new Function`), sets, regular
// expressions, big integers, and pointers (0x69, 0x70), with which 500 bytes describe a value of 2^30 parts. After one excess byte it also
// prints the decoded value as JSON into its error: with such pointers that never ends, with 16 MiB of `bin` it takes 5 s and 700 MB.
// A batch uses none of these, so none may reach msgpackr.
//
//   allowed: nil, false, true, integers, floats, str, bin, array, map with str keys; one value, at most `depthMax` deep
//
// Invariant: O(bytes) time without recursion, no allocation but the stack of `depthMax` counters.

import { ProtocolError } from './errors.ts';
import { limits } from './limits.ts';

/** Batch, tables, table, column: the envelope is 2 deep, a body 4. The rest is for deeper nesting in later versions. */
const depthMax = 8;

/** Throws ProtocolError `truncated`, `oversized` or `corrupt` that begins with `where`, unless `bytes` are one value of plain msgpack. */
export function checkMsgpack(bytes: Uint8Array, where: string): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const end = bytes.length;
  // Values still to come in each open array or map, and whether it is a map: every other value of a map is a key.
  const left = new Float64Array(depthMax + 1);
  const isMap = new Uint8Array(depthMax + 1);
  let depth = 0;
  left[0] = 1;
  let at = 0;
  let values = 0;

  for (;;) {
    while ((left[depth] as number) === 0) {
      if (depth === 0) {
        if (at === end) return;
        throw new ProtocolError('corrupt', `${where}: it must end after its value, got ${end - at} more bytes`);
      }
      depth--;
    }
    const isKey = isMap[depth] === 1 && (left[depth] as number) % 2 === 0;
    left[depth] = (left[depth] as number) - 1;
    if (++values > limits.valuesPerBatchMax) {
      throw new ProtocolError('oversized', `${where}: it may have ${limits.valuesPerBatchMax} msgpack values, got more`);
    }
    if (at >= end) throw truncated(where, end);
    const token = bytes[at] as number;
    const lengthBytes = lengthBytesOf(token);
    if (lengthBytes === undefined) throw new ProtocolError('corrupt', `${where}: byte ${at} must begin plain msgpack, got ${hex(token)}`);
    at += 1;
    if (at + lengthBytes > end) throw truncated(where, end);
    const given =
      lengthBytes === 1 ? view.getUint8(at) : lengthBytes === 2 ? view.getUint16(at) : lengthBytes === 4 ? view.getUint32(at) : 0;
    at += lengthBytes;
    if (isKey && !isString(token)) throw new ProtocolError('corrupt', `${where}: byte ${at} must begin a key of text, got ${hex(token)}`);

    const items = itemsOf(token, given);
    if (items === undefined) {
      at += payloadOf(token, given);
      if (at > end) throw truncated(where, end);
      continue;
    }
    // Every value has at least one byte: reject an impossible count before allocating for it.
    if (items > end - at) throw truncated(where, end);
    if (depth === depthMax) throw new ProtocolError('corrupt', `${where}: it may be ${depthMax} levels deep, got more`);
    depth++;
    left[depth] = items;
    isMap[depth] = isMapToken(token) ? 1 : 0;
  }
}

/** Bytes of the length or count after the token; undefined for tokens outside plain msgpack (extensions, the never-used 0xc1). */
function lengthBytesOf(token: number): 0 | 1 | 2 | 4 | undefined {
  if (token < 0xc0 || token >= 0xe0) return 0;
  switch (token) {
    case 0xc4: // bin 8
    case 0xd9: // str 8
      return 1;
    case 0xc5: // bin 16
    case 0xda: // str 16
    case 0xdc: // array 16
    case 0xde: // map 16
      return 2;
    case 0xc6: // bin 32
    case 0xdb: // str 32
    case 0xdd: // array 32
    case 0xdf: // map 32
      return 4;
    case 0xc1:
      return undefined;
    default:
      // 0xc7…0xc9 and 0xd4…0xd8 are extensions; nil, booleans, floats and integers have no length.
      return (token >= 0xc7 && token <= 0xc9) || (token >= 0xd4 && token <= 0xd8) ? undefined : 0;
  }
}

/** Values inside an array (n) or a map (2n); undefined for anything else. */
function itemsOf(token: number, given: number): number | undefined {
  if (token >= 0x80 && token < 0x90) return 2 * (token & 0x0f);
  if (token >= 0x90 && token < 0xa0) return token & 0x0f;
  if (token === 0xdc || token === 0xdd) return given;
  return token === 0xde || token === 0xdf ? 2 * given : undefined;
}

/** Bytes after token and length. */
function payloadOf(token: number, given: number): number {
  if (isString(token)) return token < 0xc0 ? token & 0x1f : given;
  switch (token) {
    case 0xc4:
    case 0xc5:
    case 0xc6:
      return given;
    case 0xcc: // uint 8
    case 0xd0: // int 8
      return 1;
    case 0xcd: // uint 16
    case 0xd1: // int 16
      return 2;
    case 0xca: // float 32
    case 0xce: // uint 32
    case 0xd2: // int 32
      return 4;
    case 0xcb: // float 64
    case 0xcf: // uint 64
    case 0xd3: // int 64
      return 8;
    default:
      return 0;
  }
}

const isString = (token: number): boolean => (token >= 0xa0 && token < 0xc0) || (token >= 0xd9 && token <= 0xdb);
const isMapToken = (token: number): boolean => (token >= 0x80 && token < 0x90) || token === 0xde || token === 0xdf;
const hex = (token: number): string => `0x${token.toString(16).padStart(2, '0')}`;

function truncated(where: string, end: number): ProtocolError {
  return new ProtocolError('truncated', `${where}: it ends too early, after ${end} bytes`);
}

// How one column of numbers becomes bytes: byte planes.
//
//   value i = Σ plane[k][i] · 256^k          bytes of a column of n rows and width w:
//
//   | plane 0: lowest byte of row 0 … n−1 | plane 1 | … | plane w−1 |
//
// The low bytes of nanosecond times are noise and the high ones nearly constant; separated, they compress well: 4.8 B a span after
// deflate, where varints of the same deltas need 5.2, and a decoder is a few lines in any language.
//
// A time is the difference to the row before (zigzag: 2d, or −2d−1 below 0), in units; the first row's value stands before them as a double:
//
//   | first: float64 LE | planes of the differences (row 0: 0) |
//
// Successive times of one column must therefore lie within 2^52 units (52 days) of each other.
//
// Invariant: decoders return only checked values; every integer is within ±2^53, every width is whole.

import { ProtocolError } from './errors.ts';
import { type ColumnType, elementsPerRow } from './event-tables.ts';

const maxInteger = Number.MAX_SAFE_INTEGER;
const two32 = 2 ** 32;

/**
 * Encodes a column's first `rows` rows; `unit` is the ns per tick for `time` and `length` columns. Throws ProtocolError `bad_table` that
 * begins with `where` for a value the type cannot hold: it never encodes a wrong number.
 */
export function encodeColumn(
  type: ColumnType,
  column: Float64Array | Uint32Array | Uint8Array,
  rows: number,
  unit: number,
  where = 'Cannot encode column',
): Uint8Array {
  switch (type) {
    case 'time':
      return encodeTimes(column as Float64Array, rows, unit, where);
    case 'length':
      return encodeIntegers(column as Float64Array, rows, unit, where);
    case 'number':
      return encodeDoubles(column as Float64Array, rows);
    case 'id8':
    case 'id16':
      return column.slice(0, rows * elementsPerRow(type)) as Uint8Array;
    default:
      return encodeIntegers(column as Float64Array | Uint32Array, rows, 1, where);
  }
}

/** Decodes a column; throws ProtocolError `bad_table` that begins with `where`. */
export function decodeColumn(
  type: ColumnType,
  bytes: Uint8Array,
  rows: number,
  unit: number,
  where: string,
): Float64Array | Uint32Array | Uint8Array {
  switch (type) {
    case 'time':
      return decodeTimes(bytes, rows, unit, where);
    case 'length':
    case 'count':
      return decodeIntegers(bytes, 0, rows, type === 'length' ? unit : 1, where);
    case 'number':
      return decodeDoubles(bytes, rows, where);
    case 'id8':
    case 'id16':
      if (bytes.length !== rows * elementsPerRow(type)) throw wrongSize(where, bytes.length, `${rows} × ${elementsPerRow(type)} bytes`);
      // Buffer's own slice would not copy, and the column would keep the whole body in memory.
      return new Uint8Array(bytes);
    default:
      return decodeSmalls(bytes, rows, where);
  }
}

/** The largest unit, 1000 or 1 ns, that all times and lengths of a table share: µs traces need 10 bits less a value. */
export function sharedUnit(columns: readonly Float64Array[], rows: number): 1 | 1000 {
  for (const column of columns) {
    for (let row = 0; row < rows; row++) if ((column[row] as number) % 1000 !== 0) return 1;
  }
  return 1000;
}

function encodeTimes(column: Float64Array, rows: number, unit: number, where: string): Uint8Array {
  if (rows === 0) return new Uint8Array(0);
  const differences = new Float64Array(rows);
  let before = column[0] as number;
  if (!Number.isSafeInteger(before)) throw outOfRange(where, before);
  for (let row = 1; row < rows; row++) {
    const value = column[row] as number;
    if (!Number.isSafeInteger(value)) throw outOfRange(where, value);
    const ticks = (value - before) / unit;
    differences[row] = ticks >= 0 ? 2 * ticks : -2 * ticks - 1;
    before = value;
  }
  const planes = encodeIntegers(differences, rows, 1, `${where}: the differences of times`);
  const bytes = new Uint8Array(8 + planes.length);
  new DataView(bytes.buffer).setFloat64(0, column[0] as number, true);
  bytes.set(planes, 8);
  return bytes;
}

function decodeTimes(bytes: Uint8Array, rows: number, unit: number, where: string): Float64Array {
  if (rows === 0) return new Float64Array(0);
  if (bytes.length < 8) throw wrongSize(where, bytes.length, 'at least 8 bytes');
  const times = decodeIntegers(bytes, 8, rows, 1, where);
  let value = new DataView(bytes.buffer, bytes.byteOffset).getFloat64(0, true);
  if (!Number.isSafeInteger(value)) throw outOfRange(where, value);
  const half = unit / 2;
  for (let row = 0; row < rows; row++) {
    const zigzag = times[row] as number;
    value += zigzag % 2 === 0 ? zigzag * half : -(zigzag + 1) * half;
    if (!(value <= maxInteger && value >= -maxInteger)) throw outOfRange(where, value);
    times[row] = value;
  }
  return times;
}

function encodeIntegers(column: Float64Array | Uint32Array, rows: number, unit: number, where: string): Uint8Array {
  let largest = 0;
  for (let row = 0; row < rows; row++) {
    const value = column[row] as number;
    if (!(value >= 0 && value <= maxInteger && value === Math.floor(value))) throw outOfRange(where, value);
    if (value > largest) largest = value;
  }
  const width = bytesFor(largest / unit);
  const bytes = new Uint8Array(width * rows);
  for (let row = 0; row < rows; row++) {
    const value = (column[row] as number) / unit;
    let low = value >>> 0;
    for (let plane = 0, at = row; plane < Math.min(width, 4); plane++, at += rows) {
      bytes[at] = low;
      low >>>= 8;
    }
    if (width > 4) {
      let high = Math.floor(value / two32);
      for (let plane = 4, at = 4 * rows + row; plane < width; plane++, at += rows) {
        bytes[at] = high;
        high >>>= 8;
      }
    }
  }
  return bytes;
}

function bytesFor(largest: number): number {
  let width = 1;
  for (let bound = 256; largest >= bound; bound *= 256) width++;
  return width;
}

function decodeIntegers(bytes: Uint8Array, from: number, rows: number, unit: number, where: string): Float64Array {
  const width = planeCount(bytes.length - from, rows, 7, where);
  const column = new Float64Array(rows);
  for (let row = 0; row < rows; row++) {
    const at = from + row;
    let low = bytes[at] as number;
    if (width > 1) low |= (bytes[at + rows] as number) << 8;
    if (width > 2) low |= (bytes[at + 2 * rows] as number) << 16;
    if (width > 3) low |= (bytes[at + 3 * rows] as number) << 24;
    column[row] = (low >>> 0) * unit;
  }
  for (let plane = 4; plane < width; plane++) {
    const weight = 256 ** plane * unit;
    const at = from + plane * rows;
    for (let row = 0; row < rows; row++) column[row] = (column[row] as number) + (bytes[at + row] as number) * weight;
  }
  if (width > 6 || unit > 1) {
    for (let row = 0; row < rows; row++) if ((column[row] as number) > maxInteger) throw outOfRange(where, column[row] as number);
  }
  return column;
}

function decodeSmalls(bytes: Uint8Array, rows: number, where: string): Uint32Array {
  const width = planeCount(bytes.length, rows, 4, where);
  const column = new Uint32Array(rows);
  for (let plane = 0; plane < width; plane++) {
    const shift = 8 * plane;
    const at = plane * rows;
    for (let row = 0; row < rows; row++) column[row] = (column[row] as number) | ((bytes[at + row] as number) << shift);
  }
  return column;
}

function encodeDoubles(column: Float64Array, rows: number): Uint8Array {
  const raw = new Uint8Array(column.buffer, column.byteOffset, rows * 8);
  const bytes = new Uint8Array(rows * 8);
  for (let row = 0; row < rows; row++) for (let plane = 0; plane < 8; plane++) bytes[plane * rows + row] = raw[row * 8 + plane] as number;
  return bytes;
}

function decodeDoubles(bytes: Uint8Array, rows: number, where: string): Float64Array {
  if (bytes.length !== rows * 8) throw wrongSize(where, bytes.length, `${rows} × 8 bytes`);
  const raw = new Uint8Array(rows * 8);
  for (let row = 0; row < rows; row++) for (let plane = 0; plane < 8; plane++) raw[row * 8 + plane] = bytes[plane * rows + row] as number;
  return new Float64Array(raw.buffer);
}

function planeCount(length: number, rows: number, widthMax: number, where: string): number {
  if (rows === 0 && length === 0) return 0;
  const width = length / rows;
  if (!Number.isInteger(width) || width < 1 || width > widthMax) throw wrongSize(where, length, `1 to ${widthMax} planes of ${rows} bytes`);
  return width;
}

function wrongSize(where: string, got: number, wanted: string): ProtocolError {
  return new ProtocolError('bad_table', `${where}: it must hold ${wanted}, got ${got} bytes`);
}

function outOfRange(where: string, value: number): ProtocolError {
  return new ProtocolError('bad_table', `${where}: every value must be an integer its column type can hold, within ±2^53, got ${value}`);
}

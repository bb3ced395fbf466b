// Rows of typed columns in order of arrival: full blocks go to the store, the last one stays in memory until it is full.
//
//   block    0            1            2 (unfinished)
//          | 4096 rows  | 4096 rows  | rows … room |
//   first    0            4096         8192                number of a row = first of its block + place in it
//   from     least start of its rows;  until   greatest end: a query checks both before it reads a block
//
//   bytes    u32 mask   u32 rows   column …      each padded to 8; a column that is 0 in all rows has no bit in the mask, and no bytes
//
// Invariant: memory holds the unfinished block and a few numbers per finished one. Rows may come out of order: ranges of blocks then overlap.

import type { BlockCache } from './block-cache.ts';

const arrays = { f64: Float64Array, f32: Float32Array, u32: Uint32Array, u16: Uint16Array, u8: Uint8Array } as const;

export type ColumnKind = keyof typeof arrays;

/** Columns by name, in the order of their bytes. */
export type ColumnSchema = Readonly<Record<string, ColumnKind>>;

type ArrayOf<K extends ColumnKind> = K extends 'f64'
  ? Float64Array
  : K extends 'f32'
    ? Float32Array
    : K extends 'u32'
      ? Uint32Array
      : K extends 'u16'
        ? Uint16Array
        : Uint8Array;

export type ColumnsOf<S extends ColumnSchema> = { readonly [F in keyof S]: ArrayOf<S[F]> };

type AnyColumns = Record<string, InstanceType<(typeof arrays)[ColumnKind]>>;

const headerBytes = 8;
const firstRows = 32;
const padded = (bytes: number): number => (bytes + 7) & ~7;

export class BlockLog<S extends ColumnSchema> {
  /** Columns of the unfinished block; replaced when it grows. */
  columns: ColumnsOf<S>;
  /** Rows of the unfinished block. */
  rows = 0;
  /** Least start and greatest end of the unfinished block. */
  least = Number.POSITIVE_INFINITY;
  greatest = Number.NEGATIVE_INFINITY;
  readonly #cache: BlockCache;
  readonly #schema: readonly (readonly [field: string, kind: ColumnKind])[];
  #capacity = 0;
  #finishedRows = 0;
  readonly #places: number[] = [];
  readonly #sizes: number[] = [];
  readonly #masks: number[] = [];
  readonly #firsts: number[] = [];
  readonly #froms: number[] = [];
  readonly #untils: number[] = [];

  constructor(cache: BlockCache, schema: S) {
    this.#cache = cache;
    this.#schema = Object.entries(schema);
    this.columns = allocate(this.#schema, 0) as ColumnsOf<S>;
  }

  /** Number of blocks, with the unfinished one if it has rows. */
  get blocks(): number {
    return this.#places.length + (this.rows > 0 ? 1 : 0);
  }

  get finished(): number {
    return this.#places.length;
  }

  /** Rows of all blocks. */
  get length(): number {
    return this.#finishedRows + this.rows;
  }

  /** Least start of a block's rows. */
  from(block: number): number {
    return block === this.#places.length ? this.least : (this.#froms[block] as number);
  }

  /** Greatest end of a block's rows. */
  until(block: number): number {
    return block === this.#places.length ? this.greatest : (this.#untils[block] as number);
  }

  /** Number of a block's first row. */
  first(block: number): number {
    return block === this.#places.length ? this.#finishedRows : (this.#firsts[block] as number);
  }

  rowsOf(block: number): number {
    return block === this.#places.length ? this.rows : this.first(block + 1) - this.first(block);
  }

  /** The block that holds row `number`. */
  blockOf(number: number): number {
    if (number >= this.#finishedRows) return this.#places.length;
    let [low, high] = [0, this.#places.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.#firsts[middle] as number) <= number) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** Columns of a block; read them before adding rows, and never change them. */
  read(block: number): ColumnsOf<S> {
    if (block === this.#places.length) return this.columns;
    const place = this.#places[block] as number;
    const columns = this.#cache.get(place) ?? this.#load(block, place);
    return columns as ColumnsOf<S>;
  }

  /** Makes room for one more row; returns its place in `columns`. The caller fills every column, `cover`s its times and increments `rows`. */
  next(): number {
    if (this.rows === this.#capacity) this.#grow();
    return this.rows;
  }

  /** Extends the unfinished block's range to these times. */
  cover(start: number, end: number): void {
    if (start < this.least) this.least = start;
    if (end > this.greatest) this.greatest = end;
  }

  /** Writes the unfinished block. `kept`: columns that may be patched later, so they are written even if they are 0 in all rows. */
  finish(kept: readonly string[] = []): void {
    const { rows } = this;
    let mask = 0;
    let size = headerBytes;
    for (const [index, [field, kind]] of this.#schema.entries()) {
      if (!kept.includes(field) && isZero((this.columns as AnyColumns)[field] as Uint8Array, rows)) continue;
      mask |= 1 << index;
      size += padded(rows * arrays[kind].BYTES_PER_ELEMENT);
    }
    const bytes = new Uint8Array(size);
    const header = new Uint32Array(bytes.buffer, 0, 2);
    header[0] = mask;
    header[1] = rows;
    let at = headerBytes;
    for (const [index, [field, kind]] of this.#schema.entries()) {
      if ((mask & (1 << index)) === 0) continue;
      const column = (this.columns as AnyColumns)[field] as Uint8Array;
      bytes.set(new Uint8Array(column.buffer, column.byteOffset, rows * arrays[kind].BYTES_PER_ELEMENT), at);
      at += padded(rows * arrays[kind].BYTES_PER_ELEMENT);
    }
    this.#places.push(this.#cache.store.write(bytes));
    this.#sizes.push(size);
    this.#masks.push(mask);
    this.#firsts.push(this.#finishedRows);
    this.#froms.push(this.least);
    this.#untils.push(this.greatest);
    this.#finishedRows += rows;
    this.rows = 0;
    this.least = Number.POSITIVE_INFINITY;
    this.greatest = Number.NEGATIVE_INFINITY;
  }

  /** Changes one f64 of an existing row. Its column must have been `kept`, or hold some value. */
  patch(block: number, row: number, field: string, value: number): void {
    if (block === this.#places.length) {
      ((this.columns as AnyColumns)[field] as Float64Array)[row] = value;
      return;
    }
    const place = this.#places[block] as number;
    const mask = this.#masks[block] as number;
    let at = headerBytes;
    for (const [index, [name, kind]] of this.#schema.entries()) {
      if ((mask & (1 << index)) === 0) continue;
      if (name === field) break;
      at += padded(this.rowsOf(block) * arrays[kind].BYTES_PER_ELEMENT);
    }
    this.#cache.store.overwrite(place + at + row * 8, new Uint8Array(Float64Array.of(value).buffer));
    const cached = this.#cache.get(place) as AnyColumns | undefined;
    if (cached !== undefined) (cached[field] as Float64Array)[row] = value;
  }

  /** Extends `block` for a row that ends later than was known. */
  extend(block: number, end: number): void {
    if (block === this.#places.length) this.cover(Number.POSITIVE_INFINITY, end);
    else if (end > (this.#untils[block] as number)) this.#untils[block] = end;
  }

  #load(block: number, place: number): unknown {
    const read = this.#cache.store.read(place, this.#sizes[block] as number);
    const bytes = (read.byteOffset & 7) === 0 ? read : read.slice();
    const rows = this.rowsOf(block);
    const mask = this.#masks[block] as number;
    const columns: AnyColumns = {};
    let at = headerBytes;
    for (const [index, [field, kind]] of this.#schema.entries()) {
      const Column = arrays[kind];
      if ((mask & (1 << index)) === 0) {
        columns[field] = zeros(kind, rows);
        continue;
      }
      columns[field] = new Column(bytes.buffer as ArrayBuffer, bytes.byteOffset + at, rows);
      at += padded(rows * Column.BYTES_PER_ELEMENT);
    }
    this.#cache.put(place, columns, bytes.length);
    return columns;
  }

  #grow(): void {
    this.#capacity = Math.max(firstRows, this.#capacity * 2);
    const grown = allocate(this.#schema, this.#capacity);
    for (const [field] of this.#schema) (grown[field] as Uint8Array).set((this.columns as AnyColumns)[field] as Uint8Array);
    this.columns = grown as ColumnsOf<S>;
  }
}

function allocate(schema: readonly (readonly [field: string, kind: ColumnKind])[], rows: number): AnyColumns {
  const columns: AnyColumns = {};
  for (const [field, kind] of schema) columns[field] = new arrays[kind](rows);
  return columns;
}

function isZero(column: Uint8Array, rows: number): boolean {
  for (let row = 0; row < rows; row++) if (column[row] !== 0) return false;
  return true;
}

/** A column of zeros, never written to. */
const zeros = (kind: ColumnKind, rows: number): InstanceType<(typeof arrays)[ColumnKind]> => new arrays[kind](rows);

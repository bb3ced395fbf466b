// Rows as typed columns that grow together: struct of arrays, never an object per row.
//
// A column is 0 where it was not written. One that nobody wrote takes no memory: the system gives zeroed pages only when they are written to,
// and a growing table copies no such column.

import { ReadBudget } from './read-budget.ts';

export type Column = Float64Array | Uint32Array | Uint8Array;
export type ColumnKind = 'f64' | 'u32' | 'u8';

interface ColumnOf {
  readonly f64: Float64Array;
  readonly u32: Uint32Array;
  readonly u8: Uint8Array;
}

export const kindBytes = { f64: 8, u32: 4, u8: 1 } as const;

const roomMin = 64;
/** Rows from which on a table is large. */
const largeRows = 1 << 18;

export const allocateColumn = (kind: ColumnKind, rows: number): Column =>
  kind === 'f64' ? new Float64Array(rows) : kind === 'u32' ? new Uint32Array(rows) : new Uint8Array(rows);

/** Columns that grow together. `Schema` names them and their kinds. */
export class ColumnTable<Schema extends Readonly<Record<string, ColumnKind>>> {
  readonly columns: { -readonly [Name in keyof Schema]: ColumnOf[Schema[Name]] };
  length = 0;
  readonly schema: Schema;
  readonly #budget: ReadBudget;
  readonly #rowBytes: number;
  #room = roomMin;

  constructor(schema: Schema, budget = new ReadBudget()) {
    this.schema = schema;
    this.#budget = budget;
    this.#rowBytes = Object.values(schema).reduce((sum, kind) => sum + kindBytes[kind], 0);
    this.#charge(this.#room);
    this.columns = Object.fromEntries(Object.entries(schema).map(([name, kind]) => [name, allocateColumn(kind, this.#room)])) as never;
  }

  /** Adds a row of zeros; the caller fills its columns: all of them where `length` was ever lowered. */
  add(): number {
    if (this.length === this.#room) this.#grow();
    return this.length++;
  }

  /** Adds `count` rows, of which the caller fills all columns; returns the first. */
  addRows(count: number): number {
    while (this.length + count > this.#room) this.#grow();
    const first = this.length;
    this.length += count;
    return first;
  }

  /** Takes all rows out. The room stays, for as many rows again. */
  clear(): void {
    for (const column of Object.values(this.columns as Record<string, Column>)) if (!isZero(column)) column.fill(0);
    this.length = 0;
  }

  /** Takes all rows out, and gives their room back. */
  release(): void {
    this.#budget.give(2 * (this.#room - roomMin) * this.#rowBytes);
    this.#room = roomMin;
    this.length = 0;
    for (const [name, kind] of Object.entries(this.schema)) (this.columns as Record<string, Column>)[name] = allocateColumn(kind, roomMin);
  }

  /** Gives the memory of one column back; the table gets no more rows, and is released in the end. */
  drop(name: keyof Schema): void {
    (this.columns as Record<keyof Schema, Column>)[name] = allocateColumn(this.schema[name] as ColumnKind, 0);
  }

  /** Charges twice the size: readers also sort the rows. */
  #charge(rows: number): void {
    this.#budget.take(2 * rows * this.#rowBytes);
  }

  #grow(): void {
    // Large tables grow by half: doubling would leave as much room unused as there is data.
    const more = this.#room < largeRows ? this.#room : this.#room >> 1;
    this.#charge(more);
    this.#room += more;
    const columns = this.columns as Record<string, Column>;
    for (const [name, kind] of Object.entries(this.schema)) {
      const wider = allocateColumn(kind, this.#room);
      const column = columns[name] as Column;
      if (!isZero(column)) wider.set(column);
      columns[name] = wider;
    }
  }
}

function isZero(column: Column): boolean {
  for (let row = 0; row < column.length; row++) if (column[row] !== 0) return false;
  return true;
}

// Rows as typed columns that grow together: struct of arrays, never an object per row.
//
// A column is 0 where it was not written. One that nobody wrote takes no memory: the system gives zeroed pages only when they are written to,
// and a growing table copies no such column.

import { ReadBudget } from './read-budget.ts';

type Column = Float64Array | Uint32Array | Uint8Array;
export type ColumnKind = 'f64' | 'u32' | 'u8';

interface ColumnOf {
  readonly f64: Float64Array;
  readonly u32: Uint32Array;
  readonly u8: Uint8Array;
}

const kindBytes = { f64: 8, u32: 4, u8: 1 } as const;

/** Rows from which on a table is large. */
const largeRows = 1 << 18;

const allocate = (kind: ColumnKind, rows: number): Column =>
  kind === 'f64' ? new Float64Array(rows) : kind === 'u32' ? new Uint32Array(rows) : new Uint8Array(rows);

/** Columns that grow together. `Schema` names them and their kinds. */
export class ColumnTable<Schema extends Readonly<Record<string, ColumnKind>>> {
  readonly columns: { -readonly [Name in keyof Schema]: ColumnOf[Schema[Name]] };
  length = 0;
  readonly #schema: Schema;
  readonly #budget: ReadBudget;
  readonly #rowBytes: number;
  #room = 64;

  constructor(schema: Schema, budget = new ReadBudget()) {
    this.#schema = schema;
    this.#budget = budget;
    this.#rowBytes = Object.values(schema).reduce((sum, kind) => sum + kindBytes[kind], 0);
    this.#charge(this.#room);
    this.columns = Object.fromEntries(Object.entries(schema).map(([name, kind]) => [name, allocate(kind, this.#room)])) as never;
  }

  /** Adds a row of zeros; the caller fills its columns: all of them where `length` was ever lowered. */
  add(): number {
    if (this.length === this.#room) this.#grow();
    return this.length++;
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
    for (const [name, kind] of Object.entries(this.#schema)) {
      const wider = allocate(kind, this.#room);
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

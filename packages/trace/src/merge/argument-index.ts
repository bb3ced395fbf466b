// Arguments of a batch's events, found by (table, row).

import { type Batch, type TableName, tableNames } from '@ranktrace/protocol';

export class ArgumentIndex {
  readonly #byTable = new Map<TableName, Map<number, ReadonlyMap<string, string | number>>>();

  constructor(batch: Batch) {
    const { numberArguments, stringArguments } = batch.tables;
    for (let index = 0; index < numberArguments.length; index++) {
      this.#add(batch, numberArguments.columns, index, numberArguments.columns.value[index] as number);
    }
    for (let index = 0; index < stringArguments.length; index++) {
      this.#add(batch, stringArguments.columns, index, batch.strings[stringArguments.columns.value[index] as number] as string);
    }
  }

  /** The arguments of one event, in the order they were given. */
  of(table: TableName, row: number): ReadonlyMap<string, string | number> | undefined {
    return this.#byTable.size === 0 ? undefined : this.#byTable.get(table)?.get(row);
  }

  /** Puts `values` in place of the event's arguments. */
  set(table: TableName, row: number, values: ReadonlyMap<string, string | number>): void {
    this.#rows(table).set(row, values);
  }

  #rows(table: TableName): Map<number, ReadonlyMap<string, string | number>> {
    let rows = this.#byTable.get(table);
    if (rows === undefined) {
      rows = new Map();
      this.#byTable.set(table, rows);
    }
    return rows;
  }

  #add(batch: Batch, columns: { table: Uint32Array; row: Uint32Array; key: Uint32Array }, index: number, value: string | number): void {
    const rows = this.#rows(tableNames[columns.table[index] as number] as TableName);
    const row = columns.row[index] as number;
    const values = (rows.get(row) ?? new Map()) as Map<string, string | number>;
    values.set(batch.strings[columns.key[index] as number] as string, value);
    rows.set(row, values);
  }
}

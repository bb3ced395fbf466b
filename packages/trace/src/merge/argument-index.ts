// Arguments of a batch's events, found by (table, row).

import { type Batch, type TableName, tableNames } from '@ranktrace/protocol';

export class ArgumentIndex {
  readonly #byTable = new Map<TableName, Map<number, Map<string, string | number>>>();

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

  #add(batch: Batch, columns: { table: Uint32Array; row: Uint32Array; key: Uint32Array }, index: number, value: string | number): void {
    const table = tableNames[columns.table[index] as number] as TableName;
    let rows = this.#byTable.get(table);
    if (rows === undefined) {
      rows = new Map();
      this.#byTable.set(table, rows);
    }
    const row = columns.row[index] as number;
    let values = rows.get(row);
    if (values === undefined) {
      values = new Map();
      rows.set(row, values);
    }
    values.set(batch.strings[columns.key[index] as number] as string, value);
  }
}

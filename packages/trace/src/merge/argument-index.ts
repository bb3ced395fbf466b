// Arguments of a batch's events, by (table, row): those that the program gave, and those that an op carries, under Kineto's names.

import { type Batch, type TableName, tableNames } from '@ranktrace/protocol';
import { limits } from '../model/limits.ts';

type Values = ReadonlyMap<string, string | number>;

/** Signatures kept parsed, over all batches of a merge. */
const signaturesMax = 65_536;

/** JSON texts of ops' signatures → arguments; the same few in every batch. */
export class Signatures {
  readonly #known = new Map<string, readonly (readonly [string, string | number])[]>();

  /** Members that are no plain value stay JSON. A text that is no JSON object, or hostile, gives none. */
  arguments(text: string): readonly (readonly [string, string | number])[] {
    let known = this.#known.get(text);
    if (known === undefined) {
      known = parse(text);
      if (this.#known.size >= signaturesMax) this.#known.clear();
      this.#known.set(text, known);
    }
    return known;
  }
}

function parse(text: string): readonly (readonly [string, string | number])[] {
  try {
    const members: unknown = JSON.parse(text);
    if (typeof members !== 'object' || members === null || Array.isArray(members)) return [];
    return Object.entries(members).map(([key, value]: [string, unknown]) =>
      typeof value === 'string' || typeof value === 'number' ? [key, value] : [key, JSON.stringify(value)],
    );
  } catch {
    return [];
  }
}

export class ArgumentIndex {
  readonly #byTable = new Map<TableName, Map<number, Values>>();
  readonly #batch: Batch;
  readonly #signatures: Signatures;
  /** Row of `ops` + 1, by row of spans; undefined without ops. */
  readonly #ops: Uint32Array | undefined;
  #leftOut = 0;

  constructor(batch: Batch, signatures: Signatures) {
    this.#batch = batch;
    this.#signatures = signatures;
    const { numberArguments, stringArguments, ops, spans } = batch.tables;
    for (let index = 0; index < numberArguments.length; index++) {
      this.#add(batch, numberArguments.columns, index, numberArguments.columns.value[index] as number);
    }
    for (let index = 0; index < stringArguments.length; index++) {
      this.#add(batch, stringArguments.columns, index, batch.strings[stringArguments.columns.value[index] as number] as string);
    }
    if (ops.length === 0) return;
    this.#ops = new Uint32Array(spans.length);
    for (let index = 0; index < ops.length; index++) this.#ops[ops.columns.row[index] as number] = index + 1;
  }

  /** Arguments dropped from events that have more than `argumentsPerEventMax`. */
  get leftOut(): number {
    return this.#leftOut;
  }

  /** The arguments of one event, in the order in which they were given. */
  of(table: TableName, row: number): Values | undefined {
    const given = this.#byTable.size === 0 ? undefined : this.#byTable.get(table)?.get(row);
    if (this.#ops === undefined || table !== 'spans') return given;
    const op = this.#ops[row] as number;
    return op === 0 ? given : this.#ofOp(op - 1, given);
  }

  /** Replaces the event's arguments by `values`. */
  set(table: TableName, row: number, values: Values): void {
    this.#rows(table).set(row, values);
    if (table === 'spans' && this.#ops !== undefined) this.#ops[row] = 0;
  }

  #ofOp(op: number, given: Values | undefined): Values {
    const { columns } = this.#batch.tables.ops;
    const text = (index: number): string => this.#batch.strings[index] as string;
    const signature = text(columns.signature[op] as number);
    const values = new Map<string, string | number>(signature === '' ? [] : this.#signatures.arguments(signature));
    for (const [key, value] of given ?? []) values.set(key, value);
    const sequence = columns.sequence[op] as number;
    if (sequence > 0) values.set('Sequence number', sequence);
    // Kineto numbers threads from 1, with 0 for none; of a rank's threads only one is known.
    if (columns.isBackward[op] === 1) values.set('Fwd thread id', 1);
    if ((columns.allocated[op] as number) > 0) values.set('Bytes allocated', columns.allocated[op] as number);
    if ((columns.freed[op] as number) > 0) values.set('Bytes freed', columns.freed[op] as number);
    if ((columns.step[op] as number) > 0) values.set('Step', (columns.step[op] as number) - 1);
    if (columns.module[op] !== 0) values.set('Module Hierarchy', text(columns.module[op] as number));
    if (columns.stack[op] !== 0) values.set('Call stack', text(columns.stack[op] as number));
    return values;
  }

  #rows(table: TableName): Map<number, Values> {
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
    if (values.size >= limits.argumentsPerEventMax) {
      this.#leftOut++;
      return;
    }
    values.set(batch.strings[columns.key[index] as number] as string, value);
    rows.set(row, values);
  }
}

// Arguments of a batch's events, by (table, row): those that the program gave, and those that an op carries, under Kineto's names.

import { type Batch, type TableName, tableNames } from '@ranktrace/protocol';
import { limits } from '../model/limits.ts';

type Values = ReadonlyMap<string, string | number>;

/** Signatures kept parsed, over all batches of a merge. */
const signaturesMax = 65_536;

/** JSON texts of ops' signatures → arguments; the same few in every batch. */
export class Signatures {
  readonly #known = new Map<string, Values>();

  /** Members that are no plain value stay JSON. A text that is no JSON object, or hostile, gives none. */
  arguments(text: string): Values {
    let known = this.#known.get(text);
    if (known === undefined) {
      known = parse(text);
      if (this.#known.size >= signaturesMax) this.#known.clear();
      this.#known.set(text, known);
    }
    return known;
  }
}

function parse(text: string): Values {
  try {
    const members: unknown = JSON.parse(text);
    if (typeof members !== 'object' || members === null || Array.isArray(members)) return new Map();
    return new Map(
      Object.entries(members).map(([key, value]: [string, unknown]) =>
        typeof value === 'string' || typeof value === 'number' ? [key, value] : [key, JSON.stringify(value)],
      ),
    );
  } catch {
    return new Map();
  }
}

/** Rows of arguments by the row of one table that they belong to, in the order in which they were given. */
interface RowsByOwner {
  /** Those of row r are `rows[firsts[r]]` to `rows[firsts[r + 1] - 1]`. */
  readonly firsts: Uint32Array;
  /** Row of `numberArguments`; the rows of `stringArguments` follow after its last one. */
  readonly rows: Uint32Array;
}

export class ArgumentIndex {
  readonly #batch: Batch;
  readonly #signatures: Signatures;
  readonly #given = new Map<TableName, RowsByOwner>();
  /** Arguments that `set` gave, by table and row. */
  readonly #set = new Map<TableName, Map<number, Values>>();
  /** Row of `ops` + 1, by row of spans; undefined without ops. */
  readonly #ops: Uint32Array | undefined;
  #leftOut = 0;

  constructor(batch: Batch, signatures: Signatures) {
    this.#batch = batch;
    this.#signatures = signatures;
    const { numberArguments, stringArguments, ops, spans } = batch.tables;
    if (numberArguments.length + stringArguments.length > 0) this.#index();
    if (ops.length === 0) return;
    this.#ops = new Uint32Array(spans.length);
    for (let index = 0; index < ops.length; index++) this.#ops[ops.columns.row[index] as number] = index + 1;
  }

  /** Arguments dropped from events that have more than `argumentsPerEventMax`. */
  get leftOut(): number {
    return this.#leftOut;
  }

  /** The arguments of one event, in the order in which they were given; made for each call. */
  of(table: TableName, row: number): Values | undefined {
    const op = table === 'spans' && this.#ops !== undefined ? (this.#ops[row] as number) : 0;
    if (op > 0) return this.#ofOp(op - 1, row);
    const set = this.#set.size === 0 ? undefined : this.#set.get(table)?.get(row);
    if (set !== undefined) return set;
    if (this.#countOf(table, row) === 0) return undefined;
    const values = new Map<string, string | number>();
    this.#addGiven(table, row, values);
    return values;
  }

  /** One of these arguments, without a map of all. */
  value(table: TableName, row: number, key: string): string | number | undefined {
    const op = table === 'spans' && this.#ops !== undefined ? (this.#ops[row] as number) : 0;
    const given = this.#given.get(table);
    const isWithin = given !== undefined && row + 1 < given.firsts.length;
    const [first, end] = isWithin ? [given.firsts[row] as number, given.firsts[row + 1] as number] : [0, 0];
    if (this.#set.size > 0 || end - first > limits.argumentsPerEventMax || (op > 0 && opKeys.has(key)))
      return this.of(table, row)?.get(key);
    for (let at = end - 1; at >= first; at--) {
      const index = (given as RowsByOwner).rows[at] as number;
      if (this.#keyOf(index) === key) return this.#valueOf(index);
    }
    return op === 0 ? undefined : this.#signatureOf(op - 1)?.get(key);
  }

  /** About how many arguments an event has: those of an op are not counted one by one. */
  sizeOf(table: TableName, row: number): number {
    const op = table === 'spans' && this.#ops !== undefined ? (this.#ops[row] as number) : 0;
    return this.#countOf(table, row) + (op > 0 ? argumentsOfOp : 0);
  }

  /** Replaces the event's arguments by `values`. */
  set(table: TableName, row: number, values: Values): void {
    const rows = this.#set.get(table) ?? new Map<number, Values>();
    this.#set.set(table, rows.set(row, values));
    if (table === 'spans' && this.#ops !== undefined) this.#ops[row] = 0;
  }

  #ofOp(op: number, row: number): Values {
    const { columns } = this.#batch.tables.ops;
    const text = (index: number): string => this.#batch.strings[index] as string;
    const values = new Map<string, string | number>(this.#signatureOf(op));
    const count = this.#countOf('spans', row);
    if (count > limits.argumentsPerEventMax) {
      const given = new Map<string, string | number>();
      this.#addGiven('spans', row, given);
      for (const [key, value] of given) values.set(key, value);
    } else if (count > 0) this.#addGiven('spans', row, values, Number.POSITIVE_INFINITY);
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

  /** Arguments that many calls of an op share. */
  #signatureOf(op: number): Values | undefined {
    const signature = this.#batch.strings[this.#batch.tables.ops.columns.signature[op] as number] as string;
    return signature === '' ? undefined : this.#signatures.arguments(signature);
  }

  #countOf(table: TableName, row: number): number {
    const given = this.#given.size === 0 ? undefined : this.#given.get(table);
    return given === undefined || row + 1 >= given.firsts.length ? 0 : (given.firsts[row + 1] as number) - (given.firsts[row] as number);
  }

  /** Adds what the program gave; returns how many arguments there was no room for. */
  #addGiven(table: TableName, row: number, values: Map<string, string | number>, valuesMax: number = limits.argumentsPerEventMax): number {
    const { firsts, rows } = this.#given.get(table) as RowsByOwner;
    let leftOut = 0;
    for (let at = firsts[row] as number; at < (firsts[row + 1] as number); at++) {
      if (values.size >= valuesMax) {
        leftOut++;
        continue;
      }
      const index = rows[at] as number;
      values.set(this.#keyOf(index), this.#valueOf(index));
    }
    return leftOut;
  }

  /** Key of the argument at `index` of `RowsByOwner.rows`. */
  #keyOf(index: number): string {
    const { numberArguments, stringArguments } = this.#batch.tables;
    const other = index - numberArguments.length;
    return this.#batch.strings[(other < 0 ? numberArguments.columns.key[index] : stringArguments.columns.key[other]) as number] as string;
  }

  #valueOf(index: number): string | number {
    const { numberArguments, stringArguments } = this.#batch.tables;
    const other = index - numberArguments.length;
    return other < 0
      ? (numberArguments.columns.value[index] as number)
      : (this.#batch.strings[stringArguments.columns.value[other] as number] as string);
  }

  #index(): void {
    const { numberArguments, stringArguments } = this.#batch.tables;
    const both = [numberArguments, stringArguments];
    const owners: (RowsByOwner | undefined)[] = tableNames.map(() => undefined);
    const counts = new Uint32Array(tableNames.length);
    const lasts = new Uint32Array(tableNames.length);
    for (const { columns, length } of both) {
      for (let index = 0; index < length; index++) {
        const table = columns.table[index] as number;
        counts[table] = (counts[table] as number) + 1;
        lasts[table] = Math.max(lasts[table] as number, columns.row[index] as number);
      }
    }
    for (const [table, name] of tableNames.entries()) {
      if (counts[table] === 0) continue;
      // A row that does not exist belongs to no event.
      const rows = Math.min((lasts[table] as number) + 1, this.#batch.tables[name].length);
      const owner = { firsts: new Uint32Array(rows + 1), rows: new Uint32Array(counts[table] as number) };
      owners[table] = owner;
      this.#given.set(name, owner);
    }
    for (const { columns, length } of both) {
      for (let index = 0; index < length; index++) {
        const { firsts } = owners[columns.table[index] as number] as RowsByOwner;
        const next = (columns.row[index] as number) + 1;
        if (next < firsts.length) firsts[next] = (firsts[next] as number) + 1;
      }
    }
    for (const { firsts } of this.#given.values()) {
      for (let row = 1; row < firsts.length; row++) firsts[row] = (firsts[row] as number) + (firsts[row - 1] as number);
    }
    // Filling moves each row's first on to the next row's: they are moved back afterwards.
    let first = 0;
    for (const { columns, length } of both) {
      for (let index = 0; index < length; index++) {
        const { firsts, rows } = owners[columns.table[index] as number] as RowsByOwner;
        const row = columns.row[index] as number;
        if (row + 1 >= firsts.length) continue;
        const place = firsts[row] as number;
        rows[place] = first + index;
        firsts[row] = place + 1;
      }
      first += length;
    }
    for (const [name, { firsts }] of this.#given) {
      firsts.copyWithin(1, 0, firsts.length - 1);
      firsts[0] = 0;
      for (let row = 0; row + 1 < firsts.length; row++) {
        if (this.#countOf(name, row) > limits.argumentsPerEventMax) this.#leftOut += this.#addGiven(name, row, new Map());
      }
    }
  }
}

/** Keys of arguments that an op has in columns. */
const opKeys: ReadonlySet<string> = new Set([
  ...['Sequence number', 'Fwd thread id', 'Bytes allocated', 'Bytes freed', 'Step', 'Module Hierarchy', 'Call stack'],
]);
/** Arguments that an op usually has. */
const argumentsOfOp = 8;

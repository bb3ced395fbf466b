// Collects rows until they make a batch: tables, the strings they use, and an upper bound of the batch's size.
//
// Invariants: index 0 of the strings is ''. `full` comes early enough that one more event with all its arguments, or one step's phases,
// still fit a batch, so encoding never fails for its size (an upper bound per row is counted; deflate only makes it smaller).
// In a taken batch spans, collectives and rpcs are sorted by (track, start, −length): outer before inner. Argument rows follow their events, in the
// same order: numbers of rows that rise take a fifth of the bytes on the wire.

import {
  type Batch,
  type ColumnType,
  createEventTables,
  EventTable,
  type EventTables,
  elementsPerRow,
  type Row,
  type TableName,
  tableColumns,
  tableNames,
} from '@ranktrace/protocol';
import { recordingLimits } from '../model/recording-limits.ts';

/** Upper bound of the bytes of one row of each table in an encoded body. */
const rowBytes = Object.fromEntries(
  Object.entries(tableColumns).map(([name, columns]) => [name, Object.values(columns).reduce((sum, type) => sum + fieldBytes(type), 0)]),
) as Record<TableName, number>;

const sortedTables = ['spans', 'collectives', 'rpcs'] as const;
/** They name rows of the sorted ones. */
const argumentTables = ['ops', 'numberArguments', 'stringArguments'] as const;

/** Numbers of batches under construction, shared by all builders of a process. */
export class Serials {
  #last = 0;

  next(): number {
    return ++this.#last;
  }
}

/** Events by kind, as `recordedKey` (protocol) carries them. */
export type RecordedCounts = Record<'span' | 'instant' | 'counter' | 'step' | 'collective' | 'rpc', number>;

export const noneRecorded = (): RecordedCounts => ({ span: 0, instant: 0, counter: 0, step: 0, collective: 0, rpc: 0 });

/** Adds `more` to `to`. */
export function addCounts(to: RecordedCounts, more: RecordedCounts): void {
  for (const kind of Object.keys(to) as (keyof RecordedCounts)[]) to[kind] += more[kind];
}

export class BatchBuilder {
  /** Number of the batch under construction: a row index is valid only with the serial of its batch. */
  serial: number;
  tables: EventTables = createEventTables();
  /** Whether this batch may never be sent (flight-recorder.ts). */
  readonly held: boolean;
  /** Events of the batch: spans are counted where they end. */
  recorded = noneRecorded();
  readonly #serials: Serials;
  #reachesBack = Number.POSITIVE_INFINITY;
  #strings: string[] = [''];
  #indexes = new Map<string, number>([['', 0]]);
  #bytes = 0;
  #full = false;

  constructor(serials: Serials = new Serials(), held = false) {
    this.#serials = serials;
    this.serial = serials.next();
    this.held = held;
  }

  /** Earliest start of an event that came too late for the watermark: RankTime, ns; Infinity when there is none. */
  get reachesBack(): number {
    return this.#reachesBack;
  }

  /** Notes an event that starts at `start`, before the watermark. */
  reachBack(start: number): void {
    if (start < this.#reachesBack) this.#reachesBack = start;
  }

  get empty(): boolean {
    return this.#bytes === 0;
  }

  /** Whether the caller must `take` before it adds anything further. */
  get full(): boolean {
    return this.#full;
  }

  /** Index of `text` in this batch's strings. */
  string(text: string): number {
    const known = this.#indexes.get(text);
    if (known !== undefined) return known;
    const index = this.#strings.push(text) - 1;
    this.#indexes.set(text, index);
    this.#grow(5 + Buffer.byteLength(text));
    if (index >= recordingLimits.stringsPerBatchFull) this.#full = true;
    return index;
  }

  /** The number by which argument rows name their table. */
  tableIndex(name: TableName): number {
    return tableNames.indexOf(name);
  }

  /** Adds a row; returns its index. */
  append<N extends TableName>(name: N, row: Row<N>): number {
    this.#grow(rowBytes[name]);
    const index = (this.tables[name] as EventTable<N>).append(row);
    if (index >= recordingLimits.rowsPerBatchMax) this.#full = true;
    return index;
  }

  /** `append('spans', …)`, unrolled: ten times as fast, and nearly all events are spans. Times in ns; names are string indexes. */
  appendSpan(
    start: number,
    length: number,
    track: number,
    name: number,
    category: number,
    id: number,
    parent: number,
    state: number,
  ): number {
    this.#grow(rowBytes.spans);
    const spans = this.tables.spans;
    const row = spans.length;
    if (row === spans.columns.start.length) spans.grow();
    const columns = spans.columns;
    columns.start[row] = start;
    columns.length[row] = length;
    columns.track[row] = track;
    columns.name[row] = name;
    columns.category[row] = category;
    columns.id[row] = id;
    columns.parent[row] = parent;
    columns.state[row] = state;
    spans.length = row + 1;
    if (row >= recordingLimits.rowsPerBatchMax) this.#full = true;
    return row;
  }

  /** `append('ops', …)`, unrolled: an op has one of these beside its span. Texts are string indexes. */
  appendOp(
    row: number,
    signature: number,
    sequence: number,
    isBackward: number,
    allocated: number,
    freed: number,
    step: number,
    module: number,
    stack: number,
  ): void {
    this.#grow(rowBytes.ops);
    const { ops } = this.tables;
    const at = ops.length;
    if (at === ops.columns.row.length) ops.grow();
    const { columns } = ops;
    columns.row[at] = row;
    columns.signature[at] = signature;
    columns.sequence[at] = sequence;
    columns.isBackward[at] = isBackward;
    columns.allocated[at] = allocated;
    columns.freed[at] = freed;
    columns.step[at] = step;
    columns.module[at] = module;
    columns.stack[at] = stack;
    ops.length = at + 1;
  }

  /** `append('memory', …)`, unrolled. */
  appendMemory(time: number, track: number, bytes: number, total: number, address: number, device: number, category: number): void {
    this.#grow(rowBytes.memory);
    const { memory } = this.tables;
    const at = memory.length;
    if (at === memory.columns.time.length) memory.grow();
    const { columns } = memory;
    columns.time[at] = time;
    columns.track[at] = track;
    columns.bytes[at] = bytes;
    columns.total[at] = total;
    columns.address[at] = address;
    columns.device[at] = device;
    columns.category[at] = category;
    memory.length = at + 1;
    if (at >= recordingLimits.rowsPerBatchMax) this.#full = true;
  }

  /** Strings and tables of everything added since the last `take`. */
  take(): Pick<Batch, 'strings' | 'tables'> {
    const tables = { ...this.tables } as Record<TableName, EventTable<TableName>>;
    for (const name of sortedTables) {
      const order = spanOrder(tables[name] as unknown as EventTable<'spans'>);
      if (order === undefined) continue;
      tables[name] = permuted(tables[name], order);
      moveArguments(this.tables, name, order);
    }
    for (const name of argumentTables) {
      const { columns, length } = tables[name];
      const order = argumentOrder(columns as unknown as ArgumentColumns, length);
      if (order !== undefined) tables[name] = permuted(tables[name], order);
    }
    const taken = { strings: this.#strings, tables: tables as unknown as EventTables };
    this.serial = this.#serials.next();
    this.recorded = noneRecorded();
    this.#reachesBack = Number.POSITIVE_INFINITY;
    this.tables = createEventTables();
    this.#strings = [''];
    this.#indexes = new Map([['', 0]]);
    this.#bytes = 0;
    this.#full = false;
    return taken;
  }

  #grow(bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes >= recordingLimits.batchBytesFull) this.#full = true;
  }
}

function fieldBytes(type: ColumnType): number {
  if (type === 'id8' || type === 'id16') return elementsPerRow(type);
  return type === 'number' ? 8 : type === 'small' || type === 'string' ? 4 : 7;
}

function spanOrder({ columns, length }: EventTable<'spans'>): Uint32Array | undefined {
  const compare = (left: number, right: number) =>
    (columns.track[left] as number) - (columns.track[right] as number) ||
    (columns.start[left] as number) - (columns.start[right] as number) ||
    (columns.length[right] as number) - (columns.length[left] as number);
  return sortedOrder(length, compare);
}

/** All ops are those of spans. */
interface ArgumentColumns {
  readonly table?: Uint32Array;
  readonly row: Uint32Array;
}

function argumentOrder({ table, row }: ArgumentColumns, length: number): Uint32Array | undefined {
  const compare = (left: number, right: number) =>
    (table === undefined ? 0 : (table[left] as number) - (table[right] as number)) || (row[left] as number) - (row[right] as number);
  return sortedOrder(length, compare);
}

/** Row indexes in order, or `undefined` when the rows already are, as those of a single thread are. */
function sortedOrder(length: number, compare: (left: number, right: number) => number): Uint32Array | undefined {
  let row = 1;
  while (row < length && compare(row - 1, row) <= 0) row++;
  if (row >= length) return undefined;
  // An ordinary array: its sort is adaptive, and rows come as a few runs in order.
  return Uint32Array.from(Array.from({ length }, (_, index) => index).sort(compare));
}

function permuted(table: EventTable<TableName>, order: Uint32Array): EventTable<TableName> {
  const types = tableColumns[table.name] as Record<string, ColumnType>;
  const columns: Record<string, Float64Array | Uint32Array | Uint8Array> = {};
  for (const [name, column] of Object.entries(table.columns) as [string, Float64Array | Uint32Array | Uint8Array][]) {
    const size = elementsPerRow(types[name] as ColumnType);
    const sorted = column.slice(0, order.length * size);
    for (let to = 0; to < order.length; to++) {
      const from = (order[to] as number) * size;
      for (let element = 0; element < size; element++) sorted[to * size + element] = column[from + element] as number;
    }
    columns[name] = sorted;
  }
  return EventTable.of(table.name, columns as never, order.length);
}

function moveArguments(tables: EventTables, owner: TableName, order: Uint32Array): void {
  const ownerIndex = tableNames.indexOf(owner);
  let moved: Uint32Array | undefined;
  if (owner === 'spans') {
    const { columns, length } = tables.ops;
    if (length > 0) moved = inverse(order);
    for (let index = 0; index < length; index++) columns.row[index] = (moved as Uint32Array)[columns.row[index] as number] as number;
  }
  for (const name of ['numberArguments', 'stringArguments'] as const) {
    const { columns, length } = tables[name];
    for (let index = 0; index < length; index++) {
      if (columns.table[index] !== ownerIndex) continue;
      moved ??= inverse(order);
      columns.row[index] = moved[columns.row[index] as number] as number;
    }
  }
}

function inverse(order: Uint32Array): Uint32Array {
  const moved = new Uint32Array(order.length);
  for (let to = 0; to < order.length; to++) moved[order[to] as number] = to;
  return moved;
}

// Rows of one table of a batch in order of their keys: what the merger takes events from, one after the other.
//
//   table   [ 3 5 9 ] [ 4 8 ]      a table in two ascending runs; one in no order is sorted and becomes one run
//
// Keys: spans by start, `close` rows and steps by their end (the time when they are known).

import { type Batch, type Columns, type EventTable, spanState, tableNames } from '@ranktrace/protocol';
import { onAxis, type RankClock } from '../align/clock-model.ts';
import type { Lanes } from '../model/lanes.ts';
import type { TraceProcess } from '../model/trace-sink.ts';
import type { ArgumentIndex } from './argument-index.ts';
import type { BatchRows, EventTableName } from './event-reader.ts';

export type SpanTableName = 'spans' | 'collectives' | 'rpcs';

/** The life of a rank that rows are of. */
interface RunMember {
  readonly process: TraceProcess;
}

/** Rows of one table that are emitted one after the other, in order of key. */
export class RowRun<Member extends RunMember> implements BatchRows {
  readonly batch: Batch;
  readonly strings: readonly string[];
  readonly table: EventTableName;
  readonly columns: BatchRows['columns'];
  readonly arguments: ArgumentIndex;
  readonly clock: RankClock;
  readonly member: Member;
  /** Each row's key on its rank's clock. */
  readonly keys: Float64Array;
  readonly order: Uint32Array | undefined;
  readonly serial: number;
  index: number;
  readonly end: number;
  /** The row at `index`, and its trace time. */
  row = 0;
  key = Number.NaN;
  /** Events written so far. */
  emitted = 0;
  /** The lanes of `track`, found for an earlier row. */
  track = -1;
  lanes: Lanes | undefined;

  constructor(
    { batch, strings, table, columns, arguments: args, clock }: BatchRows,
    about: Pick<RowRun<Member>, 'member' | 'keys' | 'order' | 'serial' | 'index' | 'end'>,
  ) {
    this.batch = batch;
    this.strings = strings;
    this.table = table;
    this.columns = columns;
    this.arguments = args;
    this.clock = clock;
    this.member = about.member;
    this.keys = about.keys;
    this.order = about.order;
    this.serial = about.serial;
    this.index = about.index;
    this.end = about.end;
    this.lanes = undefined;
    this.moveTo(this.index);
  }

  /** Takes the row at `index`; behind the last one, none. */
  moveTo(index: number): void {
    this.index = index;
    if (index >= this.end) return;
    this.row = this.order === undefined ? index : (this.order[index] as number);
    this.key = onAxis(this.clock, this.keys[this.row] as number);
  }

  /** Trace time of the first row behind `count` rows of one stretch; ∞ where there are no more rows. */
  keyAfter(count: number): number {
    const index = this.index + count;
    if (index >= this.end) return Number.POSITIVE_INFINITY;
    const key = onAxis(this.clock, this.keys[this.order === undefined ? index : (this.order[index] as number)] as number);
    // Rows of one time stay together.
    return key > this.key ? key : Number.POSITIVE_INFINITY;
  }

  /** Rows of the run before a time of the trace. */
  countBelow(time: number): number {
    const { index } = this;
    let count = 0;
    for (; this.index < this.end; this.moveTo(this.index + 1)) if (this.key < time) count++;
    this.moveTo(index);
    return count;
  }
}

/** Rows in no order (from another client) are sorted instead of becoming more runs than this. */
const runsPerTableMax = 64;

/** The runs of a table with rows; the first one's number in the order of arrival is `serial`. */
export function rowRuns<Member extends RunMember>(rows: BatchRows, member: Member, serial: number): RowRun<Member>[] {
  const { batch, table } = rows;
  const { length } = batch.tables[table];
  const keys = rowKeys(batch, table);
  const bounds = ascendingRuns(keys, length);
  const order = bounds.length > runsPerTableMax ? sortedRows(keys, length) : undefined;
  const ends = order === undefined ? bounds : [length];
  return ends.map((end, at) => new RowRun(rows, { member, keys, order, serial: serial + at, index: ends[at - 1] ?? 0, end }));
}

/** Each row's key on its rank's clock. */
function rowKeys(batch: Batch, name: EventTableName): Float64Array {
  switch (name) {
    case 'instants':
    case 'memory':
    case 'counters':
      return batch.tables[name].columns.time;
    case 'steps': {
      const { start, length } = batch.tables.steps.columns;
      return start.map((begin, row) => begin + (length[row] as number));
    }
    default: {
      const { columns, length: rows } = batch.tables[name] as EventTable<SpanTableName>;
      let keys = columns.start;
      for (let row = 0; row < rows; row++) {
        if (columns.state[row] !== spanState.close) continue;
        if (keys === columns.start) keys = columns.start.slice();
        keys[row] = (columns.start[row] as number) + (columns.length[row] as number);
      }
      return keys;
    }
  }
}

/** Ends of the maximal ascending runs. */
function ascendingRuns(keys: Float64Array, rows: number): number[] {
  const ends: number[] = [];
  for (let row = 1; row < rows; row++) if ((keys[row] as number) < (keys[row - 1] as number)) ends.push(row);
  ends.push(rows);
  return ends;
}

function sortedRows(keys: Float64Array, rows: number): Uint32Array {
  const order = new Uint32Array(rows);
  for (let row = 0; row < rows; row++) order[row] = row;
  return order.sort((a, b) => (keys[a] as number) - (keys[b] as number) || a - b);
}

/** Order among rows of one key: ends first, then the longer, which is the parent. */
function rankAtKey(run: RowRun<RunMember>): number {
  if (run.table === 'instants' || run.table === 'memory' || run.table === 'counters') return 0;
  const columns = run.columns as Columns<SpanTableName>;
  const { row } = run;
  if (run.table === 'steps' || columns.state[row] === spanState.close) return Number.POSITIVE_INFINITY;
  return columns.length[row] as number;
}

/** Order of runs of one key. */
export function isAhead(a: RowRun<RunMember>, b: RowRun<RunMember>): boolean {
  const [rankA, rankB] = [rankAtKey(a), rankAtKey(b)];
  if (rankA !== rankB) return rankA > rankB;
  if (a.member !== b.member) return a.member.process.index < b.member.process.index;
  if (a.batch !== b.batch) return a.batch.header.sequence < b.batch.header.sequence;
  if (a.table !== b.table) return tableNames.indexOf(a.table) < tableNames.indexOf(b.table);
  return a.serial < b.serial;
}

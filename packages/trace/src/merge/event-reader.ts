// One row of a batch → one event in trace time. The event object is reused for every row: a merge of millions allocates none.

import { type Batch, type Columns, type Nanos, nanos, pairOf, spanState, type TraceTime, traceTime } from '@ranktrace/protocol';
import { onAxis, type RankClock } from '../align/clock-model.ts';
import type { TraceEvent, TraceLane } from '../model/trace-sink.ts';
import { phasesOfSteps } from '../steps/batch-steps.ts';
import type { ArgumentIndex } from './argument-index.ts';
import { collectiveFlow, rpcFlow } from './flow-id.ts';

export type EventTableName = 'spans' | 'instants' | 'counters' | 'steps' | 'collectives' | 'rpcs' | 'memory';

/** The tables with events as rows, in schema order. */
export const eventTables: readonly EventTableName[] = ['spans', 'instants', 'counters', 'steps', 'collectives', 'rpcs', 'memory'];

/** The kind of a table's events. */
export const kindOfTable: Readonly<Record<EventTableName, TraceEvent['kind']>> = {
  ...{ spans: 'span', instants: 'instant', counters: 'counter', steps: 'step', collectives: 'collective', rpcs: 'rpc', memory: 'instant' },
};

/** Rows of one table of a batch. */
export interface BatchRows {
  readonly batch: Batch;
  readonly strings: readonly string[];
  readonly table: EventTableName;
  /** The columns of that table. */
  readonly columns: Columns<EventTableName>;
  readonly arguments: ArgumentIndex;
  readonly clock: RankClock;
}

export function rowsOf(batch: Batch, table: EventTableName, clock: RankClock, args: ArgumentIndex): BatchRows {
  return { batch, strings: batch.strings, table, columns: batch.tables[table].columns, arguments: args, clock };
}

class MutableEvent implements TraceEvent {
  kind: TraceEvent['kind'] = 'span';
  state: TraceEvent['state'] = 'whole';
  lane: TraceLane = undefined as unknown as TraceLane;
  start: TraceTime = traceTime(0);
  length: Nanos = nanos(0);
  name = '';
  category = '';
  unit = '';
  value = 0;
  step = 0;
  overhead: Nanos = nanos(0);
  isAsync = false;
  phases: ReadonlyMap<string, Nanos> | undefined = undefined;
  group = '';
  sequence = 0;
  bytes = 0;
  peerRank = -1;
  side = '';
  peer = '';
  status = '';
  traceId = '';
  spanId = '';
  parentSpanId = '';
  flow: bigint | undefined = undefined;
  declare readonly arguments: ReadonlyMap<string, string | number> | undefined;

  readonly #reader: EventReader;

  constructor(reader: EventReader) {
    this.#reader = reader;
    Object.defineProperty(this, 'arguments', MutableEvent.#arguments);
  }

  argument(key: string): string | number | undefined {
    return this.#reader.argument(key);
  }

  /**
   * Arguments are read where a sink asks for them: most events are never asked. As a property of its own it is copied with the others, and with one
   * getter for all events, V8 keeps them as fast as plain objects.
   */
  static readonly #arguments: PropertyDescriptor & ThisType<MutableEvent> = {
    enumerable: true,
    get(): TraceEvent['arguments'] {
      return this.#reader.arguments;
    },
  };
}

const states = { [spanState.whole]: 'whole', [spanState.open]: 'open', [spanState.close]: 'close' } as const;

export class EventReader {
  readonly event = new MutableEvent(this);
  /** Where the event was read. */
  #rows: BatchRows | undefined;
  #row = 0;
  /** Its arguments, once they are read. */
  #read: TraceEvent['arguments'];
  #isRead = false;
  /** Phases by step, per batch: batches of many ranks take turns. */
  readonly #phases = new WeakMap<Batch, ReadonlyMap<number, ReadonlyMap<string, Nanos>>>();

  /** Fills `event` from a row, except for its lane. */
  read(rows: BatchRows, row: number): void {
    const { event } = this;
    const { strings, table } = rows;
    if (event.kind !== 'span') this.#reset();
    this.#rows = rows;
    this.#row = row;
    this.#isRead = false;
    if (table === 'spans') {
      const columns = rows.columns as Columns<'spans'>;
      this.#place(columns, row, rows.clock);
      event.name = strings[columns.name[row] as number] as string;
      event.category = strings[columns.category[row] as number] as string;
      event.isAsync = columns.id[row] !== 0;
      return;
    }
    this.#reset();
    event.kind = kindOfTable[table];
    switch (table) {
      case 'instants': {
        const columns = rows.columns as Columns<'instants'>;
        this.#placeWhole(columns.time[row] as number, 0, rows.clock);
        event.name = strings[columns.name[row] as number] as string;
        event.category = strings[columns.category[row] as number] as string;
        return;
      }
      case 'memory': {
        const columns = rows.columns as Columns<'memory'>;
        const category = strings[columns.category[row] as number] as string;
        this.#placeWhole(columns.time[row] as number, 0, rows.clock);
        event.name = category === '' ? '[memory]' : '[memory category]';
        event.category = 'cpu_instant_event';
        return;
      }
      case 'counters': {
        const columns = rows.columns as Columns<'counters'>;
        this.#placeWhole(columns.time[row] as number, 0, rows.clock);
        event.name = strings[columns.name[row] as number] as string;
        event.unit = strings[columns.unit[row] as number] as string;
        event.value = columns.value[row] as number;
        return;
      }
      case 'steps': {
        const columns = rows.columns as Columns<'steps'>;
        this.#placeWhole(columns.start[row] as number, columns.length[row] as number, rows.clock);
        event.step = columns.step[row] as number;
        event.name = `ProfilerStep#${event.step}`;
        event.overhead = nanos(columns.overhead[row] as number);
        event.phases = this.#phasesOfStep(rows.batch, event.step);
        return;
      }
      case 'collectives': {
        const columns = rows.columns as Columns<'collectives'>;
        this.#place(columns, row, rows.clock);
        event.name = strings[columns.op[row] as number] as string;
        event.category = 'collective';
        event.group = strings[columns.group[row] as number] as string;
        event.sequence = columns.sequence[row] as number;
        event.bytes = columns.bytes[row] as number;
        event.isAsync = columns.id[row] !== 0;
        event.peerRank = (columns.peer[row] as number) - 1;
        const pair = pairOf(rows.batch.header.rank, event.peerRank, event.name);
        event.flow = collectiveFlow(event.group, event.sequence, pair);
        return;
      }
      case 'rpcs': {
        const columns = rows.columns as Columns<'rpcs'>;
        this.#place(columns, row, rows.clock);
        event.name = strings[columns.method[row] as number] as string;
        event.category = 'rpc';
        event.side = strings[columns.side[row] as number] as string;
        event.peer = strings[columns.peer[row] as number] as string;
        event.status = strings[columns.status[row] as number] as string;
        event.isAsync = columns.id[row] !== 0;
        event.traceId = hex(columns.trace, row, 16);
        event.spanId = hex(columns.span, row, 8);
        event.parentSpanId = hex(columns.parentSpan, row, 8);
        // The client's span id names the call: the server has it as its parent.
        event.flow = event.side === 'server' ? rpcFlow(columns.parentSpan, row) : rpcFlow(columns.span, row);
        return;
      }
    }
  }

  /** Arguments of the event that was read last. */
  get arguments(): TraceEvent['arguments'] {
    const rows = this.#rows;
    if (this.#isRead || rows === undefined) return this.#read;
    this.#isRead = true;
    this.#read = rows.table === 'memory' ? memoryArguments(rows.batch, this.#row) : rows.arguments.of(rows.table, this.#row);
    return this.#read;
  }

  /** One argument of that event. */
  argument(key: string): string | number | undefined {
    const rows = this.#rows;
    if (this.#isRead || rows === undefined || rows.table === 'memory') return this.arguments?.get(key);
    return rows.arguments.value(rows.table, this.#row, key);
  }

  #place({ start, length, state }: Columns<'spans' | 'collectives' | 'rpcs'>, row: number, clock: RankClock): void {
    this.#placeWhole(start[row] as number, length[row] as number, clock);
    if (state[row] !== spanState.whole) this.event.state = states[state[row] as 0 | 1 | 2] ?? 'whole';
  }

  #placeWhole(start: number, length: number, clock: RankClock): void {
    const { event } = this;
    event.state = 'whole';
    event.start = onAxis(clock, start);
    event.length = nanos(clock.exact === undefined ? onAxis(clock, start + length) - event.start : length);
  }

  #reset(): void {
    const { event } = this;
    event.kind = 'span';
    event.unit = event.category = event.group = event.side = event.peer = event.status = '';
    event.traceId = event.spanId = event.parentSpanId = '';
    event.value = event.step = event.sequence = event.bytes = 0;
    event.peerRank = -1;
    event.overhead = nanos(0);
    event.isAsync = false;
    event.flow = event.phases = undefined;
  }

  #phasesOfStep(batch: Batch, step: number): ReadonlyMap<string, Nanos> | undefined {
    let phases = this.#phases.get(batch);
    if (phases === undefined) {
      phases = phasesOfSteps(batch);
      this.#phases.set(batch, phases);
    }
    return phases.get(step);
  }
}

/** Arguments of a memory event, under Kineto's names. */
function memoryArguments({ strings, tables }: Batch, row: number): Map<string, string | number> {
  const { columns } = tables.memory;
  const category = strings[columns.category[row] as number] as string;
  const given = new Map<string, string | number>([
    ['Bytes', columns.bytes[row] as number],
    ['Addr', columns.address[row] as number],
    ['Device Type', columns.device[row] as number],
  ]);
  if (category === '') given.set('Total Allocated', columns.total[row] as number);
  else given.set('category', category);
  return given;
}

const digits = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'));

function hex(ids: Uint8Array, row: number, width: number): string {
  let text = '';
  let bits = 0;
  for (let at = row * width; at < (row + 1) * width; at++) {
    bits |= ids[at] as number;
    text += digits[ids[at] as number];
  }
  return bits === 0 ? '' : text;
}

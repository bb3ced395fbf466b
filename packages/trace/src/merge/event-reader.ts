// One row of a batch → one event in trace time. The event object is reused for every row: a merge of millions allocates none.

import { type Batch, type Nanos, nanos, pairOf, spanState, type TraceTime, traceTime } from '@ranktrace/protocol';
import { onAxis, type RankClock } from '../align/clock-model.ts';
import type { TraceEvent, TraceLane } from '../model/trace-sink.ts';
import { phasesOfSteps } from '../steps/batch-steps.ts';
import type { ArgumentIndex } from './argument-index.ts';
import { collectiveFlow, rpcFlow } from './flow-id.ts';

export type EventTableName = 'spans' | 'instants' | 'counters' | 'steps' | 'collectives' | 'rpcs' | 'memory';

/** The tables with events as rows, in schema order. */
export const eventTables: readonly EventTableName[] = ['spans', 'instants', 'counters', 'steps', 'collectives', 'rpcs', 'memory'];

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
  /** Where the event's arguments are, until they are read. */
  #unread: ArgumentIndex | undefined;
  #batch: Batch | undefined;
  #table: EventTableName = 'spans';
  #row = 0;
  #read: TraceEvent['arguments'];
  /** Phases by step, per batch: batches of many ranks take turns. */
  readonly #phases = new WeakMap<Batch, ReadonlyMap<number, ReadonlyMap<string, Nanos>>>();

  /** Fills `event` from a row, except for its lane. */
  read(batch: Batch, name: EventTableName, row: number, clock: RankClock, args: ArgumentIndex): void {
    const { event } = this;
    if (event.kind !== 'span') this.#reset();
    const { strings } = batch;
    this.#unread = args;
    this.#batch = batch;
    this.#table = name;
    this.#row = row;
    if (name === 'spans') {
      const { columns } = batch.tables.spans;
      this.#place(columns.start[row] as number, columns.length[row] as number, columns.state[row] as number, clock);
      event.name = strings[columns.name[row] as number] as string;
      event.category = strings[columns.category[row] as number] as string;
      event.isAsync = columns.id[row] !== 0;
      return;
    }
    this.#reset();
    switch (name) {
      case 'instants': {
        const { columns } = batch.tables.instants;
        event.kind = 'instant';
        this.#place(columns.time[row] as number, 0, spanState.whole, clock);
        event.name = strings[columns.name[row] as number] as string;
        event.category = strings[columns.category[row] as number] as string;
        return;
      }
      case 'memory': {
        const { columns } = batch.tables.memory;
        const category = strings[columns.category[row] as number] as string;
        event.kind = 'instant';
        this.#place(columns.time[row] as number, 0, spanState.whole, clock);
        event.name = category === '' ? '[memory]' : '[memory category]';
        event.category = 'cpu_instant_event';
        return;
      }
      case 'counters': {
        const { columns } = batch.tables.counters;
        event.kind = 'counter';
        this.#place(columns.time[row] as number, 0, spanState.whole, clock);
        event.name = strings[columns.name[row] as number] as string;
        event.unit = strings[columns.unit[row] as number] as string;
        event.value = columns.value[row] as number;
        return;
      }
      case 'steps': {
        const { columns } = batch.tables.steps;
        event.kind = 'step';
        this.#place(columns.start[row] as number, columns.length[row] as number, spanState.whole, clock);
        event.step = columns.step[row] as number;
        event.name = `ProfilerStep#${event.step}`;
        event.overhead = nanos(columns.overhead[row] as number);
        event.phases = this.#phasesOfStep(batch, event.step);
        return;
      }
      case 'collectives': {
        const { columns } = batch.tables.collectives;
        event.kind = 'collective';
        this.#place(columns.start[row] as number, columns.length[row] as number, columns.state[row] as number, clock);
        event.name = strings[columns.op[row] as number] as string;
        event.category = 'collective';
        event.group = strings[columns.group[row] as number] as string;
        event.sequence = columns.sequence[row] as number;
        event.bytes = columns.bytes[row] as number;
        event.isAsync = columns.id[row] !== 0;
        event.peerRank = (columns.peer[row] as number) - 1;
        const pair = pairOf(batch.header.rank, event.peerRank, event.name);
        event.flow = collectiveFlow(event.group, event.sequence, pair);
        return;
      }
      case 'rpcs': {
        const { columns } = batch.tables.rpcs;
        event.kind = 'rpc';
        this.#place(columns.start[row] as number, columns.length[row] as number, columns.state[row] as number, clock);
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
    const [args, batch] = [this.#unread, this.#batch];
    if (args === undefined || batch === undefined) return this.#read;
    this.#unread = undefined;
    this.#read = this.#table === 'memory' ? memoryArguments(batch, this.#row) : args.of(this.#table, this.#row);
    return this.#read;
  }

  /** One argument of that event. */
  argument(key: string): string | number | undefined {
    if (this.#unread === undefined || this.#table === 'memory') return this.arguments?.get(key);
    return this.#unread.value(this.#table, this.#row, key);
  }

  #place(start: number, length: number, state: number, clock: RankClock): void {
    const { event } = this;
    event.state = states[state as 0 | 1 | 2] ?? 'whole';
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

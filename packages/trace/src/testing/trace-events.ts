// Inputs of sinks for tests: whole values made of the few fields a test is about, so that a field added to ../model/trace-sink.ts gets its
// default here and in no test. A test states the fields it expects to see: defaults are meant to be irrelevant.

import { type Dropped, nanos, traceTime } from '@ranktrace/protocol';
import type { Alignment, EventCounts, ProcessTotals, TraceEvent, TraceHeader, TraceLane, TraceProcess } from '../model/trace-sink.ts';

export const exact: Alignment = { method: 'exact', bound: nanos(0) };
export const unaligned: Alignment = { method: 'unaligned', bound: undefined };
/** Alignment with a bound of ± `bound` ns. */
export const sampled = (bound: number): Alignment => ({ method: 'sampled', bound: nanos(bound) });

/** The first process, rank 0, on the reference's clock. */
export function traceProcess(about: Partial<TraceProcess> = {}): TraceProcess {
  return {
    index: 1,
    rank: 0,
    incarnation: 'a-1',
    host: 'boot',
    hostName: 'host',
    pid: 1,
    alignment: exact,
    metadata: new Map(),
    ...about,
  };
}

// Writers distinguish processes by identity: a lane without a process belongs to this one, and an event without a lane to this one lane.
const first = traceProcess();
const main = traceLane();

/** The main thread's line of the first process. */
export function traceLane(about: Partial<TraceLane> = {}): TraceLane {
  return { index: 1, process: first, kind: 'thread', name: 'main', tid: 0, overflow: 0, unit: '', ...about };
}

/** A whole span of no length at TraceTime 0; other fields have `TraceEvent`'s values for not applicable. */
export function traceEvent(about: Partial<TraceEvent> = {}): TraceEvent {
  return {
    kind: 'span',
    state: 'whole',
    lane: main,
    start: traceTime(0),
    length: nanos(0),
    name: '',
    category: '',
    value: 0,
    step: 0,
    overhead: nanos(0),
    isAsync: false,
    phases: undefined,
    group: '',
    sequence: 0,
    bytes: 0,
    peerRank: -1,
    side: '',
    peer: '',
    status: '',
    traceId: '',
    spanId: '',
    parentSpanId: '',
    flow: undefined,
    arguments: undefined,
    ...about,
  };
}

/** A run with exactly these `processes`, without a wall clock. */
export function traceHeader(processes: readonly TraceProcess[], about: Partial<TraceHeader> = {}): TraceHeader {
  return { run: 'r', worldSize: processes.length, unixEpoch: undefined, processes, ...about };
}

/** Zero counts, except as given. */
export function eventCounts(about: Partial<EventCounts> = {}): EventCounts {
  return { span: 0, instant: 0, counter: 0, step: 0, collective: 0, rpc: 0, ...about };
}

/** Zero drops, except as given. */
export function droppedCounts(about: Partial<Dropped> = {}): Dropped {
  return { events: 0, arguments: 0, names: 0, batches: 0, ...about };
}

/** Totals of a process that lost nothing and ended in good order; its recorder's own counts never came. */
export function processTotals(about: Partial<ProcessTotals> = {}): ProcessTotals {
  return {
    process: first,
    batches: 1,
    missing: 0,
    dropped: droppedCounts(),
    late: 0,
    crowded: 0,
    counts: eventCounts(),
    recorded: undefined,
    ended: true,
    ...about,
  };
}

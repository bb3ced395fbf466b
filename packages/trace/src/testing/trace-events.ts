// What tests tell a sink: whole values made of the few fields a test is about, so that a field added to ../trace-sink.ts gets its default
// here and in no test. What a test expects to see it says itself: defaults are there to be of no interest.

import { type Dropped, nanos, traceTime } from '@ranktrace/protocol';
import type { Alignment, EventCounts, ProcessTotals, TraceEvent, TraceHeader, TraceLane, TraceProcess } from '../model/trace-sink.ts';

export const exact: Alignment = { method: 'exact', bound: nanos(0) };
export const unaligned: Alignment = { method: 'unaligned', bound: undefined };
/** Known to within ± `bound` ns. */
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

// Writers tell processes apart by identity: whatever names none is of this one process, and every event that names none on this one lane.
const first = traceProcess();
const main = traceLane();

/** The main thread's line of the first process. */
export function traceLane(about: Partial<TraceLane> = {}): TraceLane {
  return { index: 1, process: first, kind: 'thread', name: 'main', tid: 0, overflow: 0, unit: '', ...about };
}

/** A whole span of no length at TraceTime 0; fields that do not apply are as `TraceEvent` says. */
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

/** A run of `processes`, all there are, without a wall clock. */
export function traceHeader(processes: readonly TraceProcess[], about: Partial<TraceHeader> = {}): TraceHeader {
  return { run: 'r', worldSize: processes.length, unixEpoch: undefined, processes, ...about };
}

/** None, but for what is given. */
export function eventCounts(about: Partial<EventCounts> = {}): EventCounts {
  return { span: 0, instant: 0, counter: 0, step: 0, collective: 0, rpc: 0, ...about };
}

/** Nothing, but for what is given. */
export function droppedCounts(about: Partial<Dropped> = {}): Dropped {
  return { events: 0, arguments: 0, names: 0, batches: 0, ...about };
}

/** Of a process that lost nothing and ended in good order; what its recorder counted never came. */
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

// What merge tells a writer, event by event. Writers are small because everything that all of them need (time axis, lanes, flows) is
// decided before: a test's sink just prints.

import type { Dropped, Nanos, TraceTime } from '@ranktrace/protocol';

/** The run as a whole; every process is known before the first event. */
export interface TraceHeader {
  readonly run: string;
  readonly worldSize: number;
  /** Unix time in ns at TraceTime 0; undefined when no rank read a wall clock. */
  readonly unixEpoch: bigint | undefined;
  /** Sorted by rank, then incarnation. */
  readonly processes: readonly TraceProcess[];
  /** Where clocks contradict each other. Absent: nowhere. */
  readonly clockConflicts?: readonly ClockConflictAt[];
}

/** Messages that no correction of clocks can put in order: some of them are shown reversed. */
export interface ClockConflictAt {
  /** About when, to within 10 s, ns. */
  readonly time: number;
  /** A cycle of hosts whose messages contradict each other. */
  readonly hosts: readonly string[];
  /** By how much a message is reversed at most, ns. */
  readonly slack: number;
  /** Whether a clock stepped there, and nobody knows when exactly. */
  readonly isAtStep: boolean;
}

/** How a host's clock was placed on the run's axis. */
export interface Alignment {
  /**
   * `exact`: the reference's own clock. `sampled`: from clock pings, within `bound`. `messages`: from collectives and remote calls alone,
   * within `bound`. `shared`: its own times, as nothing contradicts that it reads the wall clock that others read, within `bound`.
   * `unaligned`: no evidence; placed by its wall clock.
   */
  readonly method: 'exact' | 'sampled' | 'messages' | 'shared' | 'unaligned';
  /** Times of this process are within ± this of the reference clock, at its worst time; undefined when unaligned. */
  readonly bound: Nanos | undefined;
  /** The same at one time, never above `bound`. Absent: `bound` at every time. */
  readonly boundAt?: (time: TraceTime) => Nanos;
  /** Times at which the host's clock stepped. Absent: none. */
  readonly clockSteps?: readonly TraceTime[];
  /** ns by which it was set ahead at each of them (below 0: back). Absent: not known. */
  readonly clockJumps?: readonly Nanos[];
  /** Its clock is reckoned to run up to so many ppm too fast or too slow, because its pings show more than the usual 50. Absent: 50. */
  readonly driftPpm?: number;
  /**
   * Where clocks contradict each other, events are shown later than their clocks say, by up to `most`, so that none comes before its cause.
   * Absent: nowhere.
   */
  readonly shifted?: readonly { readonly from: TraceTime; readonly until: TraceTime; readonly most: Nanos }[];
}

/** One life of one rank. */
export interface TraceProcess {
  /** 1, 2, … in the order of `TraceHeader.processes`; unique in the trace, used as its pid. */
  readonly index: number;
  readonly rank: number;
  readonly incarnation: string;
  /** Processes of one host have the same. */
  readonly host: string;
  /** The input does not say where it ran: `host` is then this process's alone. */
  readonly hostUnknown?: true;
  readonly hostName: string;
  /** The system's own process id. */
  readonly pid: number;
  readonly alignment: Alignment;
  readonly metadata: ReadonlyMap<string, string>;
}

/** A line of the timeline on which spans nest properly: a track, or one more line of it where spans partly overlap. */
export interface TraceLane {
  /** 1, 2, … unique in the trace. */
  readonly index: number;
  readonly process: TraceProcess;
  /** `steps`: the step line of a process. `counter`: one counter, named and with its unit. Others: the track's own kind. */
  readonly kind: 'thread' | 'stream' | 'device' | 'steps' | 'counter';
  /** Shown name, such as `main`, `main (2)` for an overflow lane, `ProfilerSteps`, or the counter's name. */
  readonly name: string;
  /** The system's thread number of the track; 0 where there is none. */
  readonly tid: number;
  /** 0 for the track's own line, 1, 2, … for its overflow lanes. */
  readonly overflow: number;
  readonly unit: string;
}

/**
 * One event in trace time. The object is reused for every event: read it during the call. Fields that do not apply are '' or 0 or
 * undefined.
 */
export interface TraceEvent {
  readonly kind: 'span' | 'instant' | 'counter' | 'step' | 'collective' | 'rpc';
  /** `whole`: start and length known. `open`: begins here, its end comes as a later event or never. `close`: ends at start + length. */
  readonly state: 'whole' | 'open' | 'close';
  readonly lane: TraceLane;
  readonly start: TraceTime;
  readonly length: Nanos;
  /** Shown name: span name, `ProfilerStep#N`, collective op, rpc method, counter name. */
  readonly name: string;
  readonly category: string;
  /** Counter value. */
  readonly value: number;
  /** Step number. A step comes at its end: its start may lie before events that came earlier. */
  readonly step: number;
  /** Step: what of it the recording itself took of the thread. */
  readonly overhead: Nanos;
  /** Span, collective, rpc: whether it may overlap others of its thread, for it began and ended in different turns of the program. */
  readonly isAsync: boolean;
  /** Step: time of each of its phases. */
  readonly phases: ReadonlyMap<string, Nanos> | undefined;
  /** Collective: group and sequence, and this rank's payload bytes. */
  readonly group: string;
  readonly sequence: number;
  readonly bytes: number;
  /** Collective: the rank at the other side of a send or receive, −1 for none. */
  readonly peerRank: number;
  /** Rpc: `client` or `server`, the other side's name, `ok` or `error`; hex W3C ids. */
  readonly side: string;
  readonly peer: string;
  readonly status: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string;
  /** The same for all events that one arrow links: the ranks of a collective, the two sides of an rpc. 64 bits, never 0n. */
  readonly flow: bigint | undefined;
  readonly arguments: ReadonlyMap<string, string | number> | undefined;
}

/** Events by kind. */
export type EventCounts = Readonly<Record<TraceEvent['kind'], number>>;

/** What pruning took out of a store before it was merged. */
export interface PrunedPart {
  /** `detail`: everything but what is known of each step as a whole. `steps`: that, too. */
  readonly what: 'detail' | 'steps';
  /** The first and the last step; undefined where none is known. */
  readonly steps: readonly [number, number] | undefined;
  /** The day it was pruned on, the last of them: `2026-01-31`. */
  readonly on: string;
}

/** What a process was inside of when it was last heard of, as it said itself: known of steps that it did not record, too. */
export interface ProcessPlace {
  readonly step: number;
  readonly phase: { readonly name: string; readonly since: TraceTime } | undefined;
  /** The collective that it entered last and did not leave. */
  readonly collective: { readonly op: string; readonly group: string; readonly sequence: number; readonly since: TraceTime } | undefined;
  /** By group, the last collective that it entered. */
  readonly entered: ReadonlyMap<string, number>;
}

/** What was merged and what is known to be missing, per process. */
export interface ProcessTotals {
  readonly process: TraceProcess;
  readonly batches: number;
  /** Batches missing in the sequence. */
  readonly missing: number;
  readonly dropped: Dropped;
  /** Events that came after their time had been written. */
  readonly late: number;
  /** Spans that overlapped more others on their track than there are lines: not written. */
  readonly crowded: number;
  readonly counts: EventCounts;
  /** What the recorder itself counted, told with its last batch; undefined when that never came. */
  readonly recorded: EventCounts | undefined;
  /** What was pruned of it, and how many events by kind; absent: nothing. */
  readonly pruned?: { readonly parts: readonly PrunedPart[]; readonly events: EventCounts };
  /** Since when it is known to have run: its first watermark. */
  readonly from?: TraceTime;
  /** Up to when it is known to have run: its last watermark. */
  readonly until?: TraceTime;
  /** Undefined of one that ended in good order, or never said. */
  readonly place?: ProcessPlace;
  /** Whether it ended in good order. */
  readonly ended: boolean;
}

/** Where a merge puts its events: in order of begin, process, lane before use, events by time, end. */
export interface TraceSink {
  begin(header: TraceHeader): void;
  /** A lane, before the first event on it. */
  lane(lane: TraceLane): void;
  event(event: TraceEvent): void;
  end(totals: readonly ProcessTotals[]): void;
}

/** Takes a trace file's bytes in order; keeps no reference to `chunk` after the call. */
export type WriteBytes = (chunk: Uint8Array) => void;

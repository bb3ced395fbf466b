// The interface between merge and writers, called event by event. Writers are small because merge decides everything that all of them need
// (time axis, lanes, flows): a test's sink just prints.

import type { Dropped, Nanos, TraceTime } from '@ranktrace/protocol';

/** The run as a whole; every process is known before the first event. */
export interface TraceHeader {
  readonly run: string;
  readonly worldSize: number;
  /** Unix time in ns at TraceTime 0; undefined when no rank read a wall clock. */
  readonly unixEpoch: bigint | undefined;
  /** Sorted by rank, then incarnation. */
  readonly processes: readonly TraceProcess[];
  /** Contradictions between clocks. Absent: none. */
  readonly clockConflicts?: readonly ClockConflictAt[];
  /** By the index of a process: until when its devices worked on steps before the wanted part. Absent: the run is whole, or none did. */
  readonly busyBefore?: ReadonlyMap<number, number>;
  /** Events come in stretches, as `TraceSink.endStretch` says. Absent: all of them by time. */
  readonly inStretches?: true;
}

/** Messages that no correction of clocks can put in order: some of them are shown reversed. */
export interface ClockConflictAt {
  /** Approximate time, to within 10 s, ns. */
  readonly time: number;
  /** A cycle of hosts with contradictory messages. */
  readonly hosts: readonly string[];
  /** The most that a message is reversed by, ns. */
  readonly slack: number;
  /** Whether a clock stepped there at a time not known exactly. */
  readonly isAtStep: boolean;
}

/** How a host's clock was placed on the run's axis. */
export interface Alignment {
  /**
   * `exact`: the reference's own clock. `sampled`: from clock pings, within `bound`. `messages`: from collectives and remote calls alone,
   * within `bound`. `shared`: its own times within `bound`, as no evidence contradicts that it reads the same wall clock as others; of a later attempt
   * of its job, the reference of that attempt, or within `bound` of it.
   * `unaligned`: no evidence; placed by its wall clock.
   */
  readonly method: 'exact' | 'sampled' | 'messages' | 'shared' | 'unaligned';
  /** Times of this process are within ± this of the reference clock, at the worst time; undefined when unaligned. */
  readonly bound: Nanos | undefined;
  /** The bound at one time, never above `bound`. Absent: `bound` at every time. */
  readonly boundAt?: (time: TraceTime) => Nanos;
  /** At least the largest `boundAt` between two times. Absent: `bound`. */
  readonly boundWithin?: (from: TraceTime, until: TraceTime) => Nanos;
  /**
   * Times of this process are within ± this of those of one host that all others are compared with, whatever the reference clock shows; infinite
   * where nothing proves it. So for two processes both add up. Absent: not known at any time.
   */
  readonly apartAt?: (time: TraceTime) => number;
  /** At least the largest `apartAt` between two times. Absent: infinite. */
  readonly apartWithin?: (from: TraceTime, until: TraceTime) => number;
  /** Times at which the host's clock stepped. Absent: none. */
  readonly clockSteps?: readonly TraceTime[];
  /** ns by which the clock was set ahead at each of them (below 0: back). Absent: not known. */
  readonly clockJumps?: readonly Nanos[];
  /** The bound assumes that the clock runs up to this many ppm fast or slow, because its pings show more than the usual 50. Absent: 50. */
  readonly driftPpm?: number;
  /**
   * Stretches in which events are shown later than their clocks say, by up to `most`, so that none comes before its cause: there, clocks
   * contradict each other. Absent: none.
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
  /** The input does not name the host: `host` is then this process's alone. */
  readonly hostUnknown?: true;
  readonly hostName: string;
  /** The system's own process id. */
  readonly pid: number;
  /** Whether any of its lanes is a device's or a stream's. Absent: not known beforehand. */
  readonly hasDevices?: boolean;
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
  /**
   * `whole`: start and length known. `open`: begins here, its end comes as a later event or never. `close`: ends at start + length, under the start and name
   * of its `open`.
   */
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
  /** Step: time of it that the recording itself took on the thread. */
  readonly overhead: Nanos;
  /** Span, collective, rpc: whether it may overlap others of its thread, because it began and ended in different turns of the event loop. */
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
  /** One of its arguments, without a map of all. Absent: `arguments` has it. */
  argument?(key: string): string | number | undefined;
}

/** Events by kind. */
export type EventCounts = Readonly<Record<TraceEvent['kind'], number>>;

/** A part that pruning removed from a store before the merge. */
export interface PrunedPart {
  /** `detail`: everything except the summary of each step. `steps`: that, too. */
  readonly what: 'detail' | 'steps';
  /** The first and the last step; undefined where none is known. */
  readonly steps: readonly [number, number] | undefined;
  /** The day of the last pruning: `2026-01-31`. */
  readonly on: string;
}

/** The place that a process last reported; also known for steps that it did not record. */
export interface ProcessPlace {
  readonly step: number;
  readonly phase: { readonly name: string; readonly since: TraceTime } | undefined;
  /** Between phases: the last phase of this step. */
  readonly after?: string | undefined;
  /** The last collective that it entered and did not leave. */
  readonly collective: { readonly op: string; readonly group: string; readonly sequence: number; readonly since: TraceTime } | undefined;
  /** The last collective that it entered in each group, by sequence. */
  readonly entered: ReadonlyMap<string, number>;
}

/** Merged events and known losses of one process. */
export interface ProcessTotals {
  readonly process: TraceProcess;
  readonly batches: number;
  /** Batches missing in the sequence. */
  readonly missing: number;
  readonly dropped: Dropped;
  /** Events that arrived after the merge had passed their time. */
  readonly late: number;
  /** Spans not written, because they overlapped more others on their track than there are lines. */
  readonly crowded: number;
  readonly counts: EventCounts;
  /** The recorder's own counts, reported with its last batch; undefined when that never came. */
  readonly recorded: EventCounts | undefined;
  /** Pruned parts, and pruned events by kind; absent: none. */
  readonly pruned?: { readonly parts: readonly PrunedPart[]; readonly events: EventCounts };
  /** Earliest time at which it is known to have run: its first watermark. */
  readonly from?: TraceTime;
  /** Latest time at which it is known to have run: its last watermark, or where it did not end, the begin of a later event. */
  readonly until?: TraceTime;
  /** Undefined for a process that ended cleanly other than by a signal or an error, or that never reported one. */
  readonly place?: ProcessPlace;
  /** Whether it ended cleanly. */
  readonly ended: boolean;
  /** A part of its time alone: it went on after that. */
  readonly goesOn?: boolean;
}

/** The output of a merge, called in this order: begin, process, lane before use, events by time, end. */
export interface TraceSink {
  begin(header: TraceHeader): void;
  /** Announces a lane, before the first event on it. */
  lane(lane: TraceLane): void;
  event(event: TraceEvent): void;
  /**
   * A sink with this method may get events in stretches of time, as the header says: in each, all events of one process by time, then those of the next.
   * Called after each stretch.
   */
  endStretch?(): void;
  end(totals: readonly ProcessTotals[]): void;
}

/** Takes a trace file's bytes in order; keeps no reference to `chunk` after the call. */
export type WriteBytes = (chunk: Uint8Array) => void;

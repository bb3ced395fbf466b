// One life of a rank to look at: its tracks, steps and gaps on its own clock, and the clock that maps them to trace time.
//
// The clock may be fitted anew while the process runs: nothing is indexed again, `version` grows and tiles made before are void.

import type { ViewGap } from '@ranktrace/protocol';
import type { TraceEvent, TraceLane, TraceProcess, TraceSink } from '../model/trace-sink.ts';
import { CounterTrack } from './counter-track.ts';
import type { IndexParts } from './index-parts.ts';
import { SpanTrack } from './span-track.ts';
import { StepHistory } from './step-history.ts';
import type { TimelineClock } from './timeline-clock.ts';
import { timelineLimits } from './timeline-limits.ts';
import type { TrackTimeline } from './track-timeline.ts';

/** Times of the process at which two clocks are compared. */
const clockChecks = 64;
/** What nobody sees, ns. */
const clockToleranceNs = 500;

/** Gives the next track of the timeline its number; undefined when there are too many. */
export type CreateTrack = (create: (id: number) => TrackTimeline) => TrackTimeline | undefined;

export class ProcessTimeline {
  /** Key: its position in `Timeline.processes`. */
  readonly index: number;
  readonly tracks: TrackTimeline[] = [];
  readonly steps: StepHistory;
  /** Whether more of it is known to be there than was read so far; whoever reads it says so. */
  isBeingRead = false;
  readonly #parts: IndexParts;
  readonly #createTrack: CreateTrack;
  /** Merges give lanes by identity. */
  #byLane = new Map<TraceLane, TrackTimeline>();
  /** Tracks that were cleared, and that no lane has taken up again; by what their lanes are called. */
  readonly #cleared = new Map<string, TrackTimeline[]>();
  #lane: TraceLane | undefined;
  #track: TrackTimeline | undefined;
  #groups = new Set<string>();
  #process: TraceProcess;
  #clock: TimelineClock;
  #version = 1;
  #from = Number.POSITIVE_INFINITY;
  #until = Number.NEGATIVE_INFINITY;
  #advanced = Number.NEGATIVE_INFINITY;
  #ended = false;
  /** Whether something came before a time until which all was said to be there. */
  #hasLate = false;
  #gaps: ViewGap[] = [];
  #missing = 0;
  #droppedEvents = 0;
  #leftOut = 0;
  /** By which tiles of the present version were made first. */
  #versionClock: TimelineClock;

  constructor(index: number, process: TraceProcess, clock: TimelineClock, parts: IndexParts, createTrack: CreateTrack) {
    this.index = index;
    this.#process = process;
    this.#clock = clock;
    this.#versionClock = clock;
    this.#parts = parts;
    this.steps = new StepHistory(parts.steps);
    this.#createTrack = createTrack;
  }

  get process(): TraceProcess {
    return this.#process;
  }

  get clock(): TimelineClock {
    return this.#clock;
  }

  /** Grows when what was shown before may be wrong: another clock, or events read again. */
  get version(): number {
    return this.#version;
  }

  /** First start on its own clock, ns; Infinity without events. */
  get from(): number {
    return this.#from;
  }

  /** Up to when something is known, on its own clock, ns; −Infinity when nothing is. */
  get until(): number {
    return this.#until;
  }

  /** Up to when spans that have not ended are shown, own clock, ns. */
  get now(): number {
    return this.#until;
  }

  /** Whether it ended in good order. */
  get ended(): boolean {
    return this.#ended;
  }

  /** Where something was lost, own clock. */
  get gaps(): readonly ViewGap[] {
    return this.#gaps;
  }

  /** Where something was lost, trace time. */
  get shownGaps(): ViewGap[] {
    return this.#gaps.map((gap) => ({ ...gap, from: this.#clock.toTrace(gap.from), until: this.#clock.toTrace(gap.until) }));
  }

  /** Batches missing in the sequence, as far as was told. */
  get missing(): number {
    return this.#missing;
  }

  /** Events the rank dropped, as far as was told. */
  get droppedEvents(): number {
    return this.#droppedEvents;
  }

  /** Events that are shown nowhere: there were too many tracks. */
  get leftOut(): number {
    return this.#leftOut;
  }

  /** Adds a line, or takes up one of the same name that was cleared. */
  lane(lane: TraceLane): void {
    if (this.#byLane.has(lane)) return;
    const known = this.#cleared.get(lineOf(lane))?.shift();
    const track =
      known ??
      this.#createTrack((id) =>
        lane.kind === 'counter' ? new CounterTrack(id, this, lane, this.#parts) : new SpanTrack(id, this, lane, this.#parts),
      );
    if (track === undefined) return;
    track.lane = lane;
    if (known === undefined) this.tracks.push(track);
    this.#byLane.set(lane, track);
  }

  /** Takes the next event, in its own time. */
  event(event: TraceEvent): void {
    const track = event.lane === this.#lane ? this.#track : this.#find(event.lane);
    const { start } = event;
    if (track === undefined || !Number.isFinite(start)) {
      this.#leftOut++;
      return;
    }
    track.add(event);
    if (start < this.#advanced && event.kind !== 'step' && event.state !== 'close') this.#hasLate = true;
    if (start < this.#from) this.#from = start;
    const end = start + event.length;
    if (end > this.#until && end < Number.POSITIVE_INFINITY) this.#until = end;
    else if (start > this.#until) this.#until = start;
    if (event.kind === 'collective') this.#seeGroup(event.group);
    else if (event.kind === 'step') this.steps.add(event.step, start, event.length, event.phases);
  }

  /** Nothing that starts before `own` is to come: what is before it is complete. */
  advance(own: number): void {
    this.#voidIfLate();
    if (own > this.#advanced) this.#advanced = own;
    if (Number.isFinite(own) && own > this.#until) this.#until = own;
  }

  /** Tells that batches, or events, are missing between two of its own times, ns. */
  lost(from: number, until: number, batches: number, events: number): void {
    this.lostSomewhere(batches, events);
    const last = this.#gaps.at(-1);
    const isNext = last !== undefined && from >= last.from && from <= last.until;
    if (last !== undefined && (isNext || this.#gaps.length >= timelineLimits.timelineGapsMax)) {
      this.#gaps[this.#gaps.length - 1] = {
        from: Math.min(last.from, from),
        until: Math.max(last.until, until),
        batches: last.batches + batches,
        events: last.events + events,
      };
      return;
    }
    this.#gaps.push({ from, until, batches, events });
    if (last !== undefined && from < last.from) this.#gaps.sort((a, b) => a.from - b.from);
  }

  /** Tells that batches, or events, are missing nobody knows where. */
  lostSomewhere(batches: number, events: number): void {
    this.#missing += batches;
    this.#droppedEvents += events;
  }

  /** Maps its times by another clock from now on; `process` says how that was found. */
  setClock(clock: TimelineClock, process: TraceProcess): void {
    this.#clock = clock;
    this.#process = process;
    // Against the clock of the version, not the last one: many small changes add up.
    const before = this.#versionClock;
    if (!(this.#from <= this.#until)) {
      this.#versionClock = clock;
      return;
    }
    for (let check = 0; check <= clockChecks; check++) {
      const own = this.#from + ((this.#until - this.#from) * check) / clockChecks;
      if (Math.abs(before.toTrace(own) - clock.toTrace(own)) <= clockToleranceNs) continue;
      this.#versionClock = clock;
      this.#version++;
      return;
    }
  }

  /** Nothing more is to come. */
  end(inGoodOrder = true): void {
    this.#voidIfLate();
    this.#advanced = Number.POSITIVE_INFINITY;
    this.#ended = inGoodOrder;
  }

  /** Whether nothing more is to come. */
  get isOver(): boolean {
    return this.#advanced === Number.POSITIVE_INFINITY;
  }

  /** Whether nothing can begin before a trace time. */
  isCompleteUntil(time: number): boolean {
    return this.isOver || (Number.isFinite(this.#advanced) && this.#clock.toTrace(this.#advanced) >= time);
  }

  /** Forgets all events, gaps and steps: they are read again. Tracks keep their numbers. */
  clear(): void {
    for (const track of this.tracks) track.clear();
    this.steps.clear();
    this.#byLane = new Map();
    this.#cleared.clear();
    for (const track of this.tracks) {
      const line = lineOf(track.lane);
      const cleared = this.#cleared.get(line);
      if (cleared === undefined) this.#cleared.set(line, [track]);
      else cleared.push(track);
    }
    this.#lane = this.#track = undefined;
    this.#gaps = [];
    this.#missing = this.#droppedEvents = this.#leftOut = 0;
    this.#from = Number.POSITIVE_INFINITY;
    this.#until = Number.NEGATIVE_INFINITY;
    this.#advanced = Number.NEGATIVE_INFINITY;
    this.#ended = this.#hasLate = false;
    this.#versionClock = this.#clock;
    this.#version++;
  }

  /** Takes what a merge of this process alone says. How it ended and what it lost is told by `end` and `lost`. */
  sink(): TraceSink {
    return { begin: () => {}, lane: (lane) => this.lane(lane), event: (event) => this.event(event), end: () => {} };
  }

  /** Tiles that were said to be complete, and are not: once for all that came late since they were. */
  #voidIfLate(): void {
    if (!this.#hasLate) return;
    this.#hasLate = false;
    this.#version++;
  }

  #find(lane: TraceLane): TrackTimeline | undefined {
    if (!this.#byLane.has(lane)) this.lane(lane);
    this.#lane = lane;
    this.#track = this.#byLane.get(lane);
    return this.#track;
  }

  #seeGroup(group: string): void {
    if (this.#groups.has(group)) return;
    if (this.#groups.size < timelineLimits.timelineGroupsMax) this.#groups.add(group);
    this.#parts.groups.see(group, this.#process.rank);
  }
}

const lineOf = ({ kind, tid, overflow, unit, name }: TraceLane): string => `${kind} ${tid} ${overflow} ${unit} ${name}`;

// One life of a rank: its tracks, steps and gaps on its own clock, and the clock that maps them to trace time.
//
// The clock may be fitted again while the process runs: nothing is indexed again, but `version` grows, and earlier tiles become void.

import type { ViewGap } from '@ranktrace/protocol';
import { memoryDevice } from '../model/memory-device.ts';
import type { TraceEvent, TraceLane, TraceProcess, TraceSink } from '../model/trace-sink.ts';
import { StepHistory } from '../steps/step-history.ts';
import { CounterTrack } from './counter-track.ts';
import type { IndexParts } from './index-parts.ts';
import { SpanTrack } from './span-track.ts';
import type { TimelineClock } from './timeline-clock.ts';
import { timelineLimits } from './timeline-limits.ts';
import type { TrackTimeline } from './track-timeline.ts';

/** Number of times at which two clocks are compared. */
const clockChecks = 64;
/** Clock changes below this many ns are invisible. */
const clockToleranceNs = 500;

/** Creates a track with the timeline's next number; undefined if there are too many. */
export type CreateTrack = (create: (id: number) => TrackTimeline) => TrackTimeline | undefined;

export class ProcessTimeline {
  /** Key: its position in `Timeline.processes`. */
  readonly index: number;
  readonly tracks: TrackTimeline[] = [];
  readonly steps: StepHistory;
  /** Whether more of it exists than was read so far; the reader sets this. */
  isBeingRead = false;
  readonly #parts: IndexParts;
  readonly #createTrack: CreateTrack;
  /** Tracks by lane: merges identify lanes by identity. */
  #byLane = new Map<TraceLane, TrackTimeline>();
  /** Cleared tracks not yet taken up again by a lane; by the lanes' names. */
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
  /** Lanes of the memory counters, by type of device. */
  readonly #memoryLanes = new Map<string, MemoryOfDevice>();
  /** Whether an event came before a time up to which all was announced as complete. */
  #hasLate = false;
  #gaps: ViewGap[] = [];
  #missing = 0;
  #droppedEvents = 0;
  #leftOut = 0;
  /** The clock of the present version's first tiles. */
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

  /** Grows when earlier tiles may be wrong: another clock, or events read again. */
  get version(): number {
    return this.#version;
  }

  /** First start on its own clock, ns; Infinity without events. */
  get from(): number {
    return this.#from;
  }

  /** End of known data on its own clock, ns; −Infinity if there is none. */
  get until(): number {
    return this.#until;
  }

  /** Time up to which open spans are shown, own clock, ns. */
  get now(): number {
    return this.#until;
  }

  /** Whether it ended in good order. */
  get ended(): boolean {
    return this.#ended;
  }

  /** Stretches with loss, own clock. */
  get gaps(): readonly ViewGap[] {
    return this.#gaps;
  }

  /** Stretches with loss, trace time. */
  get shownGaps(): ViewGap[] {
    return this.#gaps.map((gap) => ({ ...gap, from: this.#clock.toTrace(gap.from), until: this.#clock.toTrace(gap.until) }));
  }

  /** Batches reported as missing in the sequence. */
  get missing(): number {
    return this.#missing;
  }

  /** Events reported as dropped by the rank. */
  get droppedEvents(): number {
    return this.#droppedEvents;
  }

  /** Events not shown anywhere because there were too many tracks. */
  get leftOut(): number {
    return this.#leftOut;
  }

  /** Adds a line, or takes up a cleared one of the same name. */
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

  /** Takes the next event, in own time. */
  event(event: TraceEvent): void {
    const track = event.lane === this.#lane ? this.#track : this.#find(event.lane);
    const { start } = event;
    if (track === undefined || !Number.isFinite(start)) {
      this.#leftOut++;
      return;
    }
    if (!(event.kind === 'instant' && event.name === memoryName && this.#addMemory(event))) track.add(event);
    if (start < this.#advanced && event.kind !== 'step' && event.state !== 'close') this.#hasLate = true;
    if (start < this.#from) this.#from = start;
    const end = start + event.length;
    if (end > this.#until && end < Number.POSITIVE_INFINITY) this.#until = end;
    else if (start > this.#until) this.#until = start;
    if (event.kind === 'collective') this.#seeCollective(event);
    else if (event.kind === 'step') this.steps.add(event.step, start, event.length, event.phases);
  }

  /** Marks everything before `own` as complete: no later event starts before it. */
  advance(own: number): void {
    this.#voidIfLate();
    if (own > this.#advanced) this.#advanced = own;
    if (Number.isFinite(own) && own > this.#until) this.#until = own;
  }

  /** Records that batches, or events, are missing between two of its own times, ns. */
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

  /** Records that batches, or events, are missing at an unknown time. */
  lostSomewhere(batches: number, events: number): void {
    this.#missing += batches;
    this.#droppedEvents += events;
  }

  /** Maps its times by another clock from now on; `process` describes how that was fitted. */
  setClock(clock: TimelineClock, process: TraceProcess): void {
    this.#clock = clock;
    this.#process = process;
    // Compare with the clock of the version, not with the last one: many small changes add up.
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

  /** Ends the input. */
  end(inGoodOrder = true): void {
    this.#voidIfLate();
    this.#advanced = Number.POSITIVE_INFINITY;
    this.#ended = inGoodOrder;
  }

  /** Whether the input has ended. */
  get isOver(): boolean {
    return this.#advanced === Number.POSITIVE_INFINITY;
  }

  /** Whether no event can begin before a trace time any more. */
  isCompleteUntil(time: number): boolean {
    return this.isOver || (Number.isFinite(this.#advanced) && this.#clock.toTrace(this.#advanced) >= time);
  }

  /** Clears all events, gaps and steps before they are read again. Tracks keep their numbers. */
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
    for (const memory of this.#memoryLanes.values()) memory.sum = 0;
    this.#gaps = [];
    this.#missing = this.#droppedEvents = this.#leftOut = 0;
    this.#from = Number.POSITIVE_INFINITY;
    this.#until = Number.NEGATIVE_INFINITY;
    this.#advanced = Number.NEGATIVE_INFINITY;
    this.#ended = this.#hasLate = false;
    this.#versionClock = this.#clock;
    this.#version++;
  }

  /** A sink for a merge of this process alone. `end` and `lost` report its end and its losses. */
  sink(): TraceSink {
    return { begin: () => {}, lane: (lane) => this.lane(lane), event: (event) => this.event(event), end: () => {} };
  }

  /** Voids tiles that were wrongly marked complete: once for all events that came late since. */
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

  /** Allocations, which torch.profiler reports as marks, are a counter for each device of what is allocated; returns false if the event is no such mark. */
  #addMemory(event: TraceEvent): boolean {
    const total = event.arguments?.get('Total Allocated');
    const bytes = event.arguments?.get('Bytes') ?? 0;
    if (typeof event.arguments?.get('Device Type') !== 'number' || typeof total !== 'number' || typeof bytes !== 'number') return false;
    const device = memoryDevice(event);
    let lane = this.#memoryLanes.get(device)?.lane;
    if (lane === undefined) {
      if (this.#memoryLanes.size >= timelineLimits.timelineMemoryDevicesMax) return false;
      const name = `Memory allocated · ${device === 'CPU' ? 'host' : device}`;
      lane = { index: 0, process: event.lane.process, kind: 'counter', name, tid: 0, overflow: 0, unit: 'B' };
      this.#memoryLanes.set(device, { lane, sum: 0, hasTotal: false });
    }
    const memory = this.#memoryLanes.get(device) as MemoryOfDevice;
    memory.sum += bytes;
    // Files of 2021 have no totals: there, the allocations since the begin are summed up.
    memory.hasTotal ||= total > 0;
    if (!this.#byLane.has(lane)) this.lane(lane);
    const track = this.#byLane.get(lane);
    track?.add({ ...event, kind: 'counter', lane, name: lane.name, category: '', value: memory.hasTotal ? total : memory.sum });
    return track !== undefined;
  }

  #seeCollective({ group, sequence }: TraceEvent): void {
    this.#parts.groups.count(group, sequence);
    if (this.#groups.has(group)) return;
    if (this.#groups.size < timelineLimits.timelineGroupsMax) this.#groups.add(group);
    this.#parts.groups.see(group, this.#process.rank);
  }
}

interface MemoryOfDevice {
  readonly lane: TraceLane;
  /** Bytes allocated and not released since the begin of the recording. */
  sum: number;
  hasTotal: boolean;
}

/** Name of torch.profiler's marks at each allocation and release. */
const memoryName = '[memory]';

const lineOf = ({ kind, tid, overflow, unit, name }: TraceLane): string => `${kind} ${tid} ${overflow} ${unit} ${name}`;

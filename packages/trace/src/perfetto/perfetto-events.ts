// Second pass over a Perfetto trace: passes its events to a sink.
//
//   BEGIN, END of the same track right behind it    a whole span (the form of our writer)
//   BEGIN, anything else                            an open span, closed by the END that ends it
//
// so the sink gets spans in order of start, as from a merge, and memory holds only the open ones.
//
// Invariant: every track event reaches the sink, or is counted in `skipped`.

import { nanos, traceTime } from '@ranktrace/protocol';
import { launchFlow } from '../model/launch-flow.ts';
import { type ReadBudget, textBytes } from '../model/read-budget.ts';
import type { EventCounts, ProcessTotals, TraceEvent, TraceLane, TraceProcess, TraceSink } from '../model/trace-sink.ts';
import { PerfettoClocks } from './perfetto-clocks.ts';
import { eventType, sequenceFlags } from './perfetto-fields.ts';
import { perfettoLimits as limits } from './perfetto-limits.ts';
import { laneOfTrack, recogniseKind, type WritableEvent } from './perfetto-own.ts';
import type { PerfettoPackets } from './perfetto-packets.ts';
import { type PerfettoSequence, PerfettoSequences } from './perfetto-sequence.ts';
import type { PerfettoSurvey } from './perfetto-survey.ts';
import { PerfettoTrackEvent } from './perfetto-track-event.ts';
import type { TrackAbout, TrackKey } from './perfetto-tracks.ts';

/** Parts of a Perfetto trace that the sink did not get. */
export interface PerfettoSkipped {
  /** Packets of other data sources. */
  packets: number;
  /** Bundles of compressed packets that are damaged (then from there on), too large once inflated, or inside of others. */
  bundles: number;
  /** Events that lack a needed state, time (below 2^53 ns) or type, ends without a BEGIN, and spans beyond the limit of open ones. */
  events: number;
  /** Spans that end before they begin: passed on with length 0. */
  reversed: number;
  /** Arguments, or parts of them, beyond the limit. */
  arguments: number;
}

/** A track that has events. */
interface Track {
  readonly lane: TraceLane;
  readonly counter: TrackAbout['counter'];
  /** Begun and not ended, outermost first. */
  readonly open: TraceEvent[];
  /** Open spans inside skipped ones. */
  unheld: number;
  /** Sum of an incremental counter, which restarts when its sequence's state is cleared; and the number of that clearing. */
  sum: number;
  cleared: number;
}

/** Memory of an open span: itself, and a name and arguments that may be its own. */
function openBytes({ name, category, arguments: given = noArguments }: TraceEvent): number {
  let bytes = 512 + 2 * (name.length + category.length);
  for (const [key, value] of given) bytes += textBytes + 2 * (key.length + (typeof value === 'string' ? value.length : 0));
  return bytes;
}
const noArguments: ReadonlyMap<string, string | number> = new Map();

export class PerfettoEvents {
  readonly skipped: PerfettoSkipped;
  readonly #survey: PerfettoSurvey;
  readonly #sink: TraceSink;
  readonly #budget: ReadBudget;
  readonly #packets: PerfettoPackets;
  readonly #clocks = new PerfettoClocks();
  readonly #sequences = new PerfettoSequences();
  /** Undefined for tracks of facts that our writer leaves about a process: those are no events. */
  readonly #tracks = new Map<TrackKey, Track | undefined>();
  readonly #fields = new PerfettoTrackEvent();
  readonly #counts = new Map<TraceProcess, Record<keyof EventCounts, number>>();
  /** The one event object, reused for every event. */
  readonly #event: WritableEvent = emptyEvent();
  /** The track of the span in `#event`, which has begun but was not passed on yet. */
  #begun: Track | undefined;
  #lanes = 0;
  #open = 0;

  constructor(survey: PerfettoSurvey, packets: PerfettoPackets, sink: TraceSink, budget: ReadBudget) {
    this.#budget = budget;
    this.#survey = survey;
    this.#sink = sink;
    this.#packets = packets;
    this.#clocks.setOrigin(survey.origin);
    this.skipped = { packets: survey.otherPackets, bundles: survey.lostBundles, events: 0, reversed: 0, arguments: 0 };
  }

  /** Passes on the content of the current packet. */
  packet(): void {
    const packets = this.#packets;
    const sequence = this.#sequences.of(packets);
    if (packets.snapshot.at >= 0) this.#clocks.snapshot(packets.wire, packets.snapshot, sequence.clocks);
    // Our writer writes a lane's descriptor when the merge announces the lane.
    if (packets.descriptor.at >= 0 && this.#survey.isOurs) this.#trackOf(this.#survey.tracks.add(packets.wire, packets.descriptor));
    // Read for every packet, as incremental clocks add up.
    const time = packets.hasTime ? this.#time(sequence) : Number.NaN;
    if (packets.event.at >= 0) this.#trackEvent(sequence, time);
  }

  /** Passes on what is left. */
  end(): void {
    this.#reportBegun();
    this.skipped.arguments = this.#fields.leftOut;
  }

  /** Totals per process, counted here where the trace itself does not hold them. */
  totals(): readonly ProcessTotals[] {
    const { totals, header, isOurs } = this.#survey;
    const reported = new Map(totals.map((total) => [total.process, total]));
    return header.processes.map((process): ProcessTotals => {
      const counts = this.#counts.get(process) ?? noEvents();
      const dropped = { events: 0, arguments: 0, names: 0, batches: 0 };
      return (
        reported.get(process) ?? {
          process,
          batches: 0,
          missing: 0,
          dropped,
          late: 0,
          crowded: 0,
          counts,
          recorded: undefined,
          ended: !isOurs,
        }
      );
    });
  }

  #trackEvent(sequence: PerfettoSequence, time: number): void {
    const packets = this.#packets;
    const { wire, flags } = packets;
    const fields = this.#fields;
    fields.read(wire, packets.event);
    const needsState = (flags & sequenceFlags.needsState) !== 0;
    if (!(Math.abs(time) <= Number.MAX_SAFE_INTEGER) || (needsState && sequence.cleared === 0)) {
      this.skipped.events++;
      return;
    }
    const track = this.#trackOf(fields.track ?? sequence.defaultTrack ?? 0);
    if (track === undefined) return;
    const { type } = fields;
    if (type === eventType.sliceEnd) {
      if (track === this.#begun && fields.arguments === 0) this.#reportWhole(time);
      else {
        this.#reportBegun();
        this.#close(track, time, sequence);
      }
      return;
    }
    this.#reportBegun();
    if (type === eventType.counter) this.#counter(track, time, sequence);
    else if (type === eventType.instant) {
      this.#fill(track, time, sequence);
      this.#event.kind = 'instant';
      this.#report();
    } else if (type === eventType.sliceBegin) this.#begin(track, time, sequence);
    else this.skipped.events++;
  }

  #time({ defaultClock, clocks }: PerfettoSequence): number {
    const { timeLow, timeHigh, clock } = this.#packets;
    return this.#clocks.time(timeLow, timeHigh, clock === 0 ? defaultClock : clock, clocks);
  }

  #begin(track: Track, time: number, sequence: PerfettoSequence): void {
    if (this.#open >= limits.perfettoOpenSpansMax) {
      track.unheld++;
      this.skipped.events++;
      return;
    }
    this.#fill(track, time, sequence);
    this.#recognise();
    this.#begun = track;
  }

  /** Ends the begun span at once, as a whole span. */
  #reportWhole(time: number): void {
    this.#begun = undefined;
    this.#endAt(time);
    this.#report();
  }

  /** Passes the begun span on as open. */
  #reportBegun(): void {
    const track = this.#begun;
    if (track === undefined) return;
    this.#begun = undefined;
    this.#event.state = 'open';
    this.#budget.take(openBytes(this.#event));
    track.open.push({ ...this.#event });
    this.#open++;
    this.#report();
  }

  #close(track: Track, time: number, sequence: PerfettoSequence): void {
    if (track.unheld > 0) {
      track.unheld--;
      this.skipped.events++;
      return;
    }
    const begun = track.open.pop();
    if (begun === undefined) {
      this.skipped.events++;
      return;
    }
    this.#open--;
    this.#budget.give(openBytes(begun));
    const event = this.#event;
    Object.assign(event, begun);
    event.state = 'close';
    this.#endAt(time);
    event.arguments = this.#fields.readArguments(this.#packets.wire, sequence);
    if (event.arguments !== undefined) this.#recognise();
    // Our writer ends a span with all that it knows of it; others add to what they began it with.
    if (!this.#survey.isOurs && event.arguments !== undefined && begun.arguments !== undefined) {
      event.arguments = new Map([...begun.arguments, ...event.arguments]);
    }
    this.#report();
  }

  #endAt(time: number): void {
    const event = this.#event;
    if (time < event.start) this.skipped.reversed++;
    event.length = nanos(Math.max(0, time - event.start));
  }

  #counter(track: Track, time: number, { cleared }: PerfettoSequence): void {
    const { counter } = track;
    const event = this.#event;
    clear(event, track.lane, time);
    event.kind = 'counter';
    event.name = track.lane.name;
    const value = this.#fields.value * (counter?.multiplier ?? 1);
    track.sum = track.cleared === cleared ? track.sum + value : value;
    track.cleared = cleared;
    event.value = counter?.isIncremental === true ? track.sum : value;
    this.#report();
  }

  #fill(track: Track, time: number, sequence: PerfettoSequence): void {
    const fields = this.#fields;
    const event = this.#event;
    clear(event, track.lane, time);
    event.name = fields.name(sequence);
    event.category = fields.category(sequence);
    event.flow = fields.flow;
    event.arguments = fields.readArguments(this.#packets.wire, sequence);
  }

  #recognise(): void {
    const given = this.#event.arguments as Map<string, string | number> | undefined;
    if (given === undefined || !this.#survey.isOurs) return;
    recogniseKind(this.#event, given);
    // Writers make these anew.
    if (this.#event.flow !== undefined && this.#event.flow === launchFlow(this.#event)) this.#event.flow = undefined;
  }

  #report(): void {
    const event = this.#event;
    this.#sink.event(event);
    if (event.state === 'close') return;
    const { process } = event.lane;
    let counts = this.#counts.get(process);
    if (counts === undefined) {
      counts = noEvents();
      this.#counts.set(process, counts);
    }
    counts[event.kind]++;
  }

  #trackOf(key: TrackKey): Track | undefined {
    const known = this.#tracks.get(key);
    if (known !== undefined || this.#tracks.has(key)) return known;
    if (this.#tracks.size >= limits.perfettoTracksMax) {
      throw this.#packets.wire.broken(`events are on more than ${limits.perfettoTracksMax} tracks`, 'too_large');
    }
    const lane = this.#laneOf(key);
    const track =
      lane === undefined ? undefined : { lane, counter: this.#survey.tracks.get(key)?.counter, open: [], unheld: 0, sum: 0, cleared: 0 };
    this.#tracks.set(key, track);
    if (lane !== undefined) {
      this.#reportBegun();
      this.#sink.lane(lane);
    }
    return track;
  }

  #laneOf(key: TrackKey): TraceLane | undefined {
    const { tracks, processes, header, isOurs } = this.#survey;
    const about = tracks.get(key);
    const process = processes.get(tracks.pidOf(key)) ?? (isOurs ? undefined : header.processes[0]);
    if (process === undefined) return undefined;
    const index = ++this.#lanes;
    if (!isOurs) return foreignLane(index, process, about);
    if (about === undefined || about.isProcess) {
      this.#lanes--;
      return undefined;
    }
    return laneOfTrack(ownIndexOf(key) ?? limits.perfettoTracksMax + index, process, about);
  }
}

/** Our writer numbers tracks of lanes 3, 5, 7, …: lists by lane are as long as the largest number. Undefined for any other track. */
function ownIndexOf(key: TrackKey): number | undefined {
  const index = (Number(key) - 1) / 2;
  return Number.isInteger(index) && index >= 1 && index <= limits.perfettoTracksMax ? index : undefined;
}

function foreignLane(index: number, process: TraceProcess, about: TrackAbout | undefined): TraceLane {
  const tid = about?.isThread === true ? (about.tid ?? 0) : 0;
  const named = about?.threadName ?? about?.name ?? about?.processName;
  const name = named === undefined || named === '' ? (tid > 0 ? `thread ${tid}` : 'events') : named;
  const { counter } = about ?? {};
  return { index, process, kind: counter === undefined ? 'thread' : 'counter', name, tid, overflow: 0, unit: counter?.unit ?? '' };
}

const noEvents = (): Record<keyof EventCounts, number> => ({ span: 0, instant: 0, counter: 0, step: 0, collective: 0, rpc: 0 });

const noProcess: TraceProcess = {
  ...{ index: 0, rank: 0, incarnation: '', host: '', hostName: '', pid: 0 },
  alignment: { method: 'unaligned', bound: undefined },
  metadata: new Map(),
};
const noLane: TraceLane = { index: 0, process: noProcess, kind: 'thread', name: '', tid: 0, overflow: 0, unit: '' };

/** An event with every field empty. */
function emptyEvent(): WritableEvent {
  return {
    kind: 'span',
    state: 'whole',
    lane: noLane,
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
  };
}

/** Resets `event` to an empty one that begins at `time`. Field by field: this path is hot. */
function clear(event: WritableEvent, lane: TraceLane, time: number): void {
  event.kind = 'span';
  event.state = 'whole';
  event.lane = lane;
  event.start = traceTime(time);
  event.length = nanos(0);
  event.name = '';
  event.category = '';
  event.value = 0;
  event.step = 0;
  event.overhead = nanos(0);
  event.phases = undefined;
  event.group = '';
  event.sequence = 0;
  event.bytes = 0;
  event.peerRank = -1;
  event.side = '';
  event.peer = '';
  event.status = '';
  event.traceId = '';
  event.spanId = '';
  event.parentSpanId = '';
  event.flow = undefined;
  event.arguments = undefined;
}

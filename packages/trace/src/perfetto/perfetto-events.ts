// Second pass over a Perfetto trace: passes its events to a sink.
//
//   BEGIN, END of the same track right behind it    a whole span (the form of our writer)
//   BEGIN, anything else                            an open span, closed by the END that ends it
//
// so the sink gets spans in order of start, as from a merge, and memory holds only the open ones. Other writers may write packets in any order, such as
// one thread after the other: where a first look (`learnOrder`) finds times that go back, all events are held in memory, and passed on by time.
//
// Invariant: every track event reaches the sink, or is counted in `skipped`.

import { nanos, traceTime } from '@ranktrace/protocol';
import { launchFlow } from '../model/launch-flow.ts';
import { type ReadBudget, textBytes } from '../model/read-budget.ts';
import type { EventCounts, ProcessTotals, TraceEvent, TraceLane, TraceProcess, TraceSink } from '../model/trace-sink.ts';
import { PerfettoClocks } from './perfetto-clocks.ts';
import { eventType } from './perfetto-fields.ts';
import { perfettoLimits as limits } from './perfetto-limits.ts';
import { inOrder, isReadable, timeOfPacket, trackOf } from './perfetto-order.ts';
import { laneOfTrack, recogniseKind, type WritableEvent } from './perfetto-own.ts';
import type { PerfettoPackets } from './perfetto-packets.ts';
import { type PerfettoSequence, PerfettoSequences } from './perfetto-sequence.ts';
import type { PerfettoSurvey } from './perfetto-survey.ts';
import { type Arguments, PerfettoTrackEvent } from './perfetto-track-event.ts';
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
  /** Flows of an event beside its first. */
  flows: number;
  /** Counter values beside events of other types. */
  counters: number;
}

/** An event as its packet has it, with its texts. */
interface PacketEvent {
  time: number;
  type: number;
  track: Track;
  name: string;
  category: string;
  flow: bigint | undefined;
  /** A counter's value, with the sum of an incremental one. */
  value: number;
  arguments: Arguments | undefined;
}

/** An event held, and its place among them: its time, or that of its begin right before it, if that is later. */
interface HeldEvent extends PacketEvent {
  readonly place: number;
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

/** Memory of an open span or a held event: itself, and a name and arguments that may be its own. */
function openBytes({ name, category, arguments: given = noArguments }: Pick<TraceEvent, 'name' | 'category' | 'arguments'>): number {
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
  readonly #clocks: PerfettoClocks;
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
  /** The packet's event, reused. */
  #now: PacketEvent | undefined;
  /** All events, where they do not lie in the trace by time. */
  readonly #held: HeldEvent[] | undefined;

  constructor(survey: PerfettoSurvey, packets: PerfettoPackets, sink: TraceSink, budget: ReadBudget, order = inOrder) {
    this.#budget = budget;
    this.#survey = survey;
    this.#sink = sink;
    this.#packets = packets;
    this.#clocks = new PerfettoClocks(order.firstOffsets);
    this.#clocks.setOrigin(survey.origin);
    this.#held = order.isByTime ? undefined : [];
    const { otherPackets: packetsSkipped, lostBundles: bundles } = survey;
    this.skipped = { packets: packetsSkipped, bundles, events: 0, reversed: 0, arguments: 0, flows: 0, counters: 0 };
  }

  /** Passes on the content of the current packet. */
  packet(): void {
    const packets = this.#packets;
    const sequence = this.#sequences.of(packets);
    // Our writer writes a lane's descriptor when the merge announces the lane.
    if (packets.descriptor.at >= 0 && this.#survey.isOurs) this.#trackOf(this.#survey.tracks.add(packets.wire, packets.descriptor));
    const time = timeOfPacket(packets, sequence, this.#clocks);
    if (packets.event.at >= 0) this.#trackEvent(sequence, time);
  }

  /** Passes on what is left; yields after each event that was held. */
  *end(): Generator<undefined, void> {
    const held = this.#held ?? [];
    held.sort((a, b) => a.place - b.place);
    for (const event of held) {
      this.#pass(event);
      this.#budget.give(openBytes(event));
      yield;
    }
    this.#reportBegun();
    this.skipped.arguments = this.#fields.leftOut;
    this.skipped.flows = this.#fields.flowsLeftOut;
    this.skipped.counters = this.#fields.countersLeftOut;
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
    const { wire } = packets;
    const fields = this.#fields;
    fields.read(wire, packets.event);
    if (!isReadable(packets, sequence, time)) {
      this.skipped.events++;
      return;
    }
    const track = this.#trackOf(trackOf(fields, sequence));
    if (track === undefined) return;
    this.#now ??= { time, type: 0, track, name: '', category: '', flow: undefined, value: 0, arguments: undefined };
    const now = this.#now;
    now.time = time;
    now.type = fields.type;
    now.track = track;
    now.name = fields.name(sequence);
    now.category = fields.category(sequence);
    now.flow = fields.flow;
    now.value = now.type === eventType.counter ? this.#valueOf(track, sequence) : 0;
    now.arguments = fields.readArguments(wire, sequence);
    if (this.#held === undefined) this.#pass(now);
    else this.#hold(this.#held, now);
  }

  #hold(held: HeldEvent[], event: PacketEvent): void {
    this.#budget.take(openBytes(event));
    const { time, type, track } = event;
    const before = held.at(-1);
    const isEnd = type === eventType.sliceEnd && before?.type === eventType.sliceBegin && before.track === track;
    held.push({ ...event, place: isEnd ? Math.max(time, before.place) : time });
  }

  #pass(event: PacketEvent): void {
    const { track, type, time } = event;
    if (type === eventType.sliceEnd) {
      if (track === this.#begun && event.arguments === undefined) this.#reportWhole(time);
      else {
        this.#reportBegun();
        this.#close(event);
      }
      return;
    }
    this.#reportBegun();
    if (type === eventType.counter) this.#counter(event);
    else if (type === eventType.instant) {
      this.#fill(event);
      this.#event.kind = 'instant';
      this.#report();
    } else if (type === eventType.sliceBegin) this.#begin(event);
    else this.skipped.events++;
  }

  #begin(begun: PacketEvent): void {
    const { track } = begun;
    if (this.#open >= limits.perfettoOpenSpansMax) {
      track.unheld++;
      this.skipped.events++;
      return;
    }
    this.#fill(begun);
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

  #close({ track, time, arguments: given }: PacketEvent): void {
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
    event.arguments = given;
    if (given !== undefined) this.#recognise();
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

  /** The counter's value in the packet's event. */
  #valueOf(track: Track, { cleared }: PerfettoSequence): number {
    const value = this.#fields.value * (track.counter?.multiplier ?? 1);
    track.sum = track.cleared === cleared ? track.sum + value : value;
    track.cleared = cleared;
    return track.counter?.isIncremental === true ? track.sum : value;
  }

  #counter({ track, time, value }: PacketEvent): void {
    const event = this.#event;
    clear(event, track.lane, time);
    event.kind = 'counter';
    event.name = track.lane.name;
    event.value = value;
    this.#report();
  }

  #fill({ track, time, name, category, flow, arguments: given }: PacketEvent): void {
    const event = this.#event;
    clear(event, track.lane, time);
    event.name = name;
    event.category = category;
    event.flow = flow;
    event.arguments = given;
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

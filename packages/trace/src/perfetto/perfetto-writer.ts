// Perfetto protobuf traces (.pftrace), for ui.perfetto.dev and trace_processor.
//
//   rank process      process track, pid = TraceProcess.index        thread lanes    thread tracks of that process
//   other lanes       named child tracks of the process track        counter lanes   counter tracks of the process track
//   span              a BEGIN and an END packet, both at once when it is whole: readers sort by time, stably
//   collective, rpc   spans with arguments; their flow id draws the arrows, as that of a launch does (model/launch-flow.ts)
//   run, totals       an instant per process at the first and at the last time of the trace: known facts, and losses
//
// Perfetto's times are unsigned (ns, BOOTTIME), TraceTime may begin below 0 (a host that started before the reference, or one placed by its
// wall clock alone). So `timestamp = TraceTime + origin`, with perfettoOrigin as origin, or more where the first event lies further back; the clock
// snapshot pairs the origin with the run's unix epoch, so wall-clock times are right. An event that has no time in range even so (52 days before the
// epoch, or no number) is left out and counted in `totals` as `outOfRange`.
//
// Order that readers need: on one lane, a span comes before those inside it, and a `close` before a span that starts at its end.
// Field numbers: perfetto-fields.ts. Invariant: an event with known strings and without arguments allocates nothing.

import { type ArgumentVisitor, hasArguments, visitArguments } from '../model/event-arguments.ts';
import { launchFlow } from '../model/launch-flow.ts';
import type {
  Alignment,
  ProcessTotals,
  TraceEvent,
  TraceHeader,
  TraceLane,
  TraceProcess,
  TraceSink,
  WriteBytes,
} from '../model/trace-sink.ts';
import { alignmentText, LaneOrder, laneName, processNames } from '../write/process-names.ts';
import { boundsText } from './bounds-text.ts';
import { clockFacts, conflictFacts, type Facts, placeFacts, prefixed, prunedFacts } from './perfetto-facts.ts';
import * as field from './perfetto-fields.ts';
import { type InternedUse, PerfettoLane } from './perfetto-lane.ts';
import { originOf, perfettoOrigin } from './perfetto-origin.ts';
import { ProtobufBuffer } from './protobuf-buffer.ts';

/** Sequence of packets that belong to no lane; lane N has N + 1. */
const runSequence = 1;
const category = 'ranktrace';

const { sliceBegin, sliceEnd, instant, counter } = field.eventType;

/** A sink that writes a Perfetto trace. Chunks of about 256 KiB; the last one at `end`. */
export function perfettoWriter(write: WriteBytes): TraceSink {
  return new PerfettoWriter(write);
}

class PerfettoWriter implements TraceSink {
  readonly #out: ProtobufBuffer;
  readonly #lanes: PerfettoLane[] = [];
  readonly #order = new LaneOrder();
  readonly #use: InternedUse = { count: 0 };
  readonly #interning: InterningVisitor;
  readonly #arguments: AnnotationVisitor;
  readonly #outOfRange = new Map<TraceProcess, number>();
  #header: TraceHeader = { run: '', worldSize: 0, unixEpoch: undefined, processes: [] };
  #origin = perfettoOrigin;
  /** Perfetto times of the earliest and the latest moment of the trace so far; below 0 before the first event. */
  #first = -1;
  #last = -1;
  /** Bounds of each clock over the whole trace, made once: ranks of one host share a clock. */
  readonly #bounds = new Map<Alignment, Facts>();

  constructor(write: WriteBytes) {
    this.#out = new ProtobufBuffer(write);
    this.#interning = new InterningVisitor();
    this.#arguments = new AnnotationVisitor(this.#out);
  }

  begin(header: TraceHeader): void {
    this.#header = header;
    this.#writeBegin();
    const names = processNames(header);
    for (const process of header.processes) this.#writeProcess(process, names.get(process) ?? '');
  }

  lane(lane: TraceLane): void {
    const entry = new PerfettoLane(lane, laneUuid(lane), lane.index + 1, this.#out, this.#use);
    this.#lanes[lane.index] = entry;
    this.#writeLane(entry, this.#order.rank(lane));
  }

  event(event: TraceEvent): void {
    const lane = this.#lanes[event.lane.index];
    if (lane === undefined) return;
    if (this.#last < 0) this.#origin = originOf(Math.round(event.start));
    const start = Math.round(event.start) + this.#origin;
    // Rounding start and end, rather than the length, keeps a span inside the one around it.
    const end = Math.round(event.start + event.length) + this.#origin;
    if (!(start >= 0 && end <= Number.MAX_SAFE_INTEGER)) {
      this.#outOfRange.set(event.lane.process, (this.#outOfRange.get(event.lane.process) ?? 0) + 1);
      return;
    }
    if (this.#last < 0) this.#writeRun(start);
    if (start < this.#first) this.#first = start;
    if (end > this.#last) this.#last = end;
    if (event.kind === 'counter') this.#writeCounter(lane, start, event.value);
    else if (event.kind === 'instant') this.#writeEvent(lane, start, instant, event);
    else if (event.state === 'close') this.#writeClose(lane, end, event);
    else {
      this.#writeEvent(lane, start, sliceBegin, event);
      if (event.state === 'whole') this.#writeEnd(lane, end);
    }
  }

  end(totals: readonly ProcessTotals[]): void {
    if (this.#last < 0) this.#writeRun(this.#origin);
    for (const total of totals) this.#writeTotals(total);
    this.#out.flush();
  }

  /** Writes the BEGIN of a span, or an instant. */
  #writeEvent(lane: PerfettoLane, time: number, type: number, event: TraceEvent): void {
    // Every step has its own name, `ProfilerStep#N`: not worth interning.
    const nameIid = event.kind === 'step' ? 0 : lane.intern('names', event.name);
    const categoryIid = event.category === '' ? 0 : lane.intern('categories', event.category);
    const withArguments = hasArguments(event);
    if (withArguments) this.#internArguments(lane, event);
    const out = this.#out;
    const whole = this.#openPacket(lane, time);
    const inner = out.open(field.packet.trackEvent);
    out.byte(field.event.type * 8);
    out.byte(type);
    if (nameIid > 0) {
      out.byte(field.event.nameIid * 8);
      out.varint(nameIid);
    } else out.string(field.event.name, event.name);
    if (categoryIid > 0) {
      out.byte(field.event.categoryIid * 8);
      out.varint(categoryIid);
    } else if (event.category !== '') out.string(field.event.category, event.category);
    if (withArguments) this.#writeArguments(lane, event);
    const flow = event.flow ?? launchFlow(event);
    if (flow !== undefined) {
      out.uint64(field.event.flowIdsOld, flow);
      out.fixed64(field.event.flowIds, flow);
    }
    out.close(inner);
    out.close(whole);
  }

  #writeEnd(lane: PerfettoLane, time: number): void {
    const out = this.#out;
    const whole = this.#openPacket(lane, time);
    out.byte(field.packet.trackEvent * 8 + 2);
    out.byte(2);
    out.byte(field.event.type * 8);
    out.byte(sliceEnd);
    out.close(whole);
  }

  /** Writes the END of a span announced as open, with the facts known by now; readers merge both sets of arguments. */
  #writeClose(lane: PerfettoLane, time: number, event: TraceEvent): void {
    if (!hasArguments(event)) {
      this.#writeEnd(lane, time);
      return;
    }
    this.#internArguments(lane, event);
    const out = this.#out;
    const whole = this.#openPacket(lane, time);
    const inner = out.open(field.packet.trackEvent);
    out.uint(field.event.type, sliceEnd);
    this.#writeArguments(lane, event);
    out.close(inner);
    out.close(whole);
  }

  #writeCounter(lane: PerfettoLane, time: number, value: number): void {
    const out = this.#out;
    const whole = this.#openPacket(lane, time);
    const inner = out.open(field.packet.trackEvent);
    out.uint(field.event.type, counter);
    if (Number.isSafeInteger(value)) out.int(field.event.counterValue, value);
    else out.double(field.event.doubleCounterValue, value);
    out.close(inner);
    out.close(whole);
  }

  #openPacket(lane: PerfettoLane, time: number): number {
    const out = this.#out;
    out.next();
    const whole = out.open(field.trace.packet);
    out.byte(field.packet.timestamp * 8);
    out.varint(time);
    out.byte(field.packet.sequenceId * 8);
    out.varint(lane.sequenceId);
    out.byte(field.packet.sequenceFlags * 8);
    out.byte(field.sequenceFlags.needsState);
    return whole;
  }

  #internArguments(lane: PerfettoLane, event: TraceEvent): void {
    this.#interning.lane = lane;
    visitArguments(event, this.#interning);
  }

  #writeArguments(lane: PerfettoLane, event: TraceEvent): void {
    this.#arguments.lane = lane;
    visitArguments(event, this.#arguments);
  }

  #writeBegin(): void {
    const out = this.#out;
    const whole = out.open(field.trace.packet);
    out.uint(field.packet.sequenceId, runSequence);
    out.uint(field.packet.sequenceFlags, field.sequenceFlags.stateCleared);
    out.close(whole);
  }

  #writeClocks(unixEpoch: bigint): void {
    const out = this.#out;
    out.next();
    const whole = out.open(field.trace.packet);
    out.uint(field.packet.sequenceId, runSequence);
    const snapshot = out.open(field.packet.clockSnapshot);
    for (const [id, time] of [
      [field.clockId.boottime, BigInt(this.#origin)],
      [field.clockId.realtime, unixEpoch],
    ] as const) {
      const clock = out.open(field.clockSnapshot.clocks);
      out.uint(field.clock.id, id);
      out.uint64(field.clock.timestamp, time);
      out.close(clock);
    }
    out.uint(field.clockSnapshot.primaryClock, field.clockId.boottime);
    out.close(snapshot);
    out.close(whole);
  }

  #writeProcess(process: TraceProcess, name: string): void {
    const out = this.#out;
    out.next();
    const whole = out.open(field.trace.packet);
    out.uint(field.packet.sequenceId, runSequence);
    const track = out.open(field.packet.trackDescriptor);
    out.uint(field.track.uuid, processUuid(process));
    const descriptor = out.open(field.track.process);
    out.uint(field.process.pid, process.index);
    out.uint(field.process.legacySortIndex, process.index);
    out.string(field.process.name, name);
    out.string(field.process.labels, alignmentText(process.alignment));
    out.close(descriptor);
    out.uint(field.track.childOrdering, field.childOrdering.explicit);
    out.uint(field.track.siblingOrderRank, process.index);
    out.string(field.track.description, describe(process));
    out.close(track);
    out.close(whole);
  }

  #writeLane({ lane, uuid, sequenceId }: PerfettoLane, rank: number): void {
    const out = this.#out;
    out.next();
    const whole = out.open(field.trace.packet);
    out.uint(field.packet.sequenceId, sequenceId);
    out.uint(field.packet.sequenceFlags, field.sequenceFlags.stateCleared);
    const defaults = out.open(field.packet.defaults);
    const events = out.open(field.defaults.trackEvent);
    out.uint(field.event.trackUuid, uuid);
    out.close(events);
    out.close(defaults);
    const track = out.open(field.packet.trackDescriptor);
    out.uint(field.track.uuid, uuid);
    if (lane.kind === 'thread' && lane.overflow === 0) {
      const thread = out.open(field.track.thread);
      out.uint(field.thread.pid, lane.process.index);
      // Perfetto identifies threads by tid alone, and takes a tid that equals a pid for that process's main thread: so tids start above all pids.
      out.uint(field.thread.tid, this.#header.processes.length + lane.index);
      out.uint(field.thread.legacySortIndex, rank);
      out.string(field.thread.name, laneName(lane));
      out.close(thread);
    } else {
      out.string(field.track.name, lane.kind === 'counter' ? lane.name : laneName(lane));
      out.uint(field.track.parentUuid, processUuid(lane.process));
      if (lane.kind === 'counter') this.#writeUnit(lane.unit);
      // Lanes are laid out already; merging those of one name would put partly overlapping spans on one line again.
      out.uint(field.track.siblingMergeBehavior, field.siblingMergeBehavior.none);
    }
    out.uint(field.track.siblingOrderRank, rank);
    out.close(track);
    out.close(whole);
  }

  #writeUnit(unit: string): void {
    const out = this.#out;
    const descriptor = out.open(field.track.counter);
    if (unit === 'bytes' || unit === 'B') out.uint(field.counter.unit, field.counterUnit.bytes);
    else if (unit === 'ns') out.uint(field.counter.unit, field.counterUnit.nanos);
    else if (unit !== '') out.string(field.counter.unitName, unit);
    out.close(descriptor);
  }

  /** At the first event, not at TraceTime 0: a capture of hour 20 must not open as a line of 20 hours. */
  #writeRun(time: number): void {
    const { run, worldSize, unixEpoch, processes } = this.#header;
    if (unixEpoch !== undefined) this.#writeClocks(unixEpoch);
    this.#first = time;
    this.#last = time;
    for (const process of processes) {
      this.#writeFacts(process, 'run', time, {
        run,
        worldSize,
        // Hardly any trace has another one.
        origin: this.#origin === perfettoOrigin ? undefined : this.#origin,
        rank: process.rank,
        incarnation: process.incarnation,
        host: process.host,
        // Hardly any input lacks the host.
        hostUnknown: process.hostUnknown,
        hostName: process.hostName,
        pid: process.pid,
        alignment: process.alignment.method,
        boundNs: process.alignment.bound,
        ...clockFacts(process.alignment),
        ...(process === processes[0] && conflictFacts(this.#header.clockConflicts)),
        ...prefixed('metadata', Object.fromEntries(process.metadata)),
      });
    }
  }

  #writeTotals({
    process,
    batches,
    missing,
    dropped,
    late,
    crowded,
    counts,
    ended,
    goesOn,
    from,
    until,
    place,
    pruned,
  }: ProcessTotals): void {
    const facts = {
      batches,
      missing,
      late,
      // Hardly any process has crowded spans.
      crowded: crowded > 0 ? crowded : undefined,
      ended,
      // Hardly any trace is of a part of a run.
      goesOn: goesOn === true ? goesOn : undefined,
      // Reports compare ends of ranks by these, and count spans that never ended up to there.
      from,
      until,
      ...placeFacts(place),
      ...prunedFacts(pruned),
      outOfRange: this.#outOfRange.get(process) ?? 0,
      ...this.#boundsOf(process.alignment),
    };
    this.#writeFacts(process, 'totals', this.#last, { ...facts, ...prefixed('dropped', dropped), ...prefixed('count', counts) });
  }

  #boundsOf(alignment: Alignment): Facts {
    let facts = this.#bounds.get(alignment);
    if (facts === undefined) {
      const { boundWithin, apartWithin } = alignment;
      const [from, until] = [this.#first - this.#origin, this.#last - this.#origin];
      facts = {
        boundsNs: (boundWithin && boundsText(boundWithin, from, until)) || undefined,
        apartNs: (apartWithin && boundsText(apartWithin, from, until)) || undefined,
      };
      this.#bounds.set(alignment, facts);
    }
    return facts;
  }

  /** An instant on the process's own track, with nothing interned. */
  #writeFacts(process: TraceProcess, name: string, time: number, facts: Facts): void {
    const out = this.#out;
    out.next();
    const whole = out.open(field.trace.packet);
    out.uint(field.packet.timestamp, time);
    out.uint(field.packet.sequenceId, runSequence);
    const event = out.open(field.packet.trackEvent);
    out.uint(field.event.type, instant);
    out.uint(field.event.trackUuid, processUuid(process));
    out.string(field.event.name, name);
    out.string(field.event.category, category);
    for (const [key, value] of Object.entries(facts)) {
      if (value === undefined) continue;
      const annotation = out.open(field.event.annotation);
      out.string(field.annotation.name, key);
      if (typeof value === 'string') out.string(field.annotation.string, value);
      else if (typeof value === 'boolean') out.bool(field.annotation.bool, value);
      else writeNumber(out, value);
      out.close(annotation);
    }
    out.close(event);
    out.close(whole);
  }
}

// Tracks of processes and of lanes share one space of ids: even and odd.
const processUuid = (process: TraceProcess): number => process.index * 2;
const laneUuid = (lane: TraceLane): number => lane.index * 2 + 1;

function describe(process: TraceProcess): string {
  const facts = [...process.metadata].map(([key, value]) => `${key}: ${value}`);
  const life = `host ${process.host}, pid ${process.pid}, incarnation ${process.incarnation}, ${alignmentText(process.alignment)}`;
  return [life, ...facts].join('\n');
}

function writeNumber(out: ProtobufBuffer, value: number): void {
  out.reserve(0);
  if (Number.isSafeInteger(value)) out.int(field.annotation.int, value);
  else out.double(field.annotation.double, value);
}

/** Interns the keys of arguments, before the packet that holds them begins. */
class InterningVisitor implements ArgumentVisitor {
  lane: PerfettoLane | undefined;

  number(key: string): void {
    this.lane?.intern('annotationNames', key);
  }

  text(key: string): void {
    this.lane?.intern('annotationNames', key);
  }
}

/** Writes arguments as debug annotations of the current event. */
class AnnotationVisitor implements ArgumentVisitor {
  lane: PerfettoLane | undefined;
  readonly #out: ProtobufBuffer;

  constructor(out: ProtobufBuffer) {
    this.#out = out;
  }

  number(key: string, value: number): void {
    const annotation = this.#open(key);
    writeNumber(this.#out, value);
    this.#out.close(annotation);
  }

  text(key: string, value: string): void {
    const annotation = this.#open(key);
    this.#out.string(field.annotation.string, value);
    this.#out.close(annotation);
  }

  #open(key: string): number {
    const annotation = this.#out.open(field.event.annotation);
    const iid = this.lane?.iid('annotationNames', key) ?? 0;
    if (iid > 0) this.#out.uint(field.annotation.nameIid, iid);
    else this.#out.string(field.annotation.name, key);
    return annotation;
  }
}

// One rank of the cluster as its SDK would report it: events in true time in, batches on its own clock out.
//
//   events ──► pending, by start ──cut──► whole │ open ──next cut──► close          batch = events that start before the cut
//
// Cuts are like the collector's (packages/sdk/src/collect/collector.ts): an event that runs across one is announced and closed later, the
// watermark stays 100 ms behind, and a batch that reaches back behind an earlier watermark (the clock was stepped back) states how far in `since`.
//
// Invariant: before a cut, the caller has added every event that starts before it. Losses are counted where a real SDK counts them: events that
// the rank could not record in `dropped.events`, batches as gaps in the sequence.

import {
  type Batch,
  type BatchHeader,
  createEventTables,
  type EventTables,
  nanosPerSecond,
  rankTime,
  recordedKey,
  spanState,
} from '@ranktrace/protocol';
import type { EventCounts } from '../model/trace-sink.ts';
import type { Random } from './random.ts';
import type { SimulatedClock } from './simulated-clock.ts';
import { simulationLimits } from './simulation-limits.ts';

/** An event with a begin and an end; ns of true time. `id`: not 0 if it may overlap others of its track. */
interface Lasting {
  readonly start: number;
  readonly end: number;
  readonly track: number;
}

export interface SimulatedSpan extends Lasting {
  readonly kind: 'span';
  readonly name: string;
}

export interface SimulatedCollective extends Lasting {
  readonly kind: 'collective';
  readonly op: string;
  readonly group: string;
  readonly sequence: number;
  readonly bytes: number;
  /** The other side's rank for a `send` or `recv`, else −1. */
  readonly peer: number;
}

export interface SimulatedRpc extends Lasting {
  readonly kind: 'rpc';
  readonly id: number;
  readonly parent: number;
  readonly method: string;
  readonly side: 'client' | 'server';
  readonly peer: string;
  readonly status: 'ok' | 'error';
  readonly trace: Uint8Array;
  readonly span: Uint8Array;
  readonly parentSpan: Uint8Array;
}

interface SimulatedStep extends Lasting {
  readonly kind: 'step';
  readonly step: number;
  readonly phases: ReadonlyMap<string, { readonly length: number; readonly calls: number }>;
}

interface SimulatedCounter extends Lasting {
  readonly kind: 'counter';
  readonly name: string;
  readonly unit: string;
  readonly value: number;
}

interface SimulatedInstant extends Lasting {
  readonly kind: 'instant';
  readonly name: string;
}

type SimulatedEvent = SimulatedSpan | SimulatedCollective | SimulatedRpc | SimulatedStep | SimulatedCounter | SimulatedInstant;

/** A ping; `sent` and `received` after the rank's epoch, the others after the aggregator's, ns. `at`: true time of the answer. */
export interface SimulatedPing {
  readonly at: number;
  readonly sent: number;
  readonly received: number;
  readonly remoteReceived: number;
  readonly remoteSent: number;
}

/** A wall clock reading at true time `at`: unix ns, and its duration. */
export interface SimulatedWallClock {
  readonly at: number;
  readonly width: number;
  readonly unix: bigint;
}

/** Losses of a rank, by reason. */
export interface RankLosses {
  readonly rank: number;
  /** Parts of collectives, and halves of remote calls, that were not recorded. */
  collectives: number;
  rpcs: number;
  /** Batches that did not arrive, and their rows. */
  batches: number;
  rows: number;
}

export interface SimulatedRankAbout {
  readonly run: string;
  readonly rank: number;
  readonly worldSize: number;
  readonly incarnation: string;
  readonly hostIndex: number;
  readonly host: string;
  readonly hostName: string;
  readonly pid: number;
  /** The host's clock at its epoch, ns. */
  readonly hostEpoch: bigint;
  readonly clock: SimulatedClock;
  /** True time at which the rank begins; its RankTime 0. */
  readonly start: number;
  readonly lost: number;
  readonly reference: { readonly host: string; readonly epoch: bigint };
  readonly metadata: Readonly<Record<string, string>>;
  readonly flushNs: number;
  readonly random: Random;
}

/** Track of the training loop and of the remote calls. */
export const mainTrack = 0;
export const rpcTrack = 1;

const watermarkMarginNs = 100e6;

export class SimulatedRank {
  readonly about: SimulatedRankAbout;
  readonly losses: RankLosses;
  /** The rank's epoch, ns after its host's. */
  readonly epochOffset: number;
  #pending: SimulatedEvent[] = [];
  #open: (SimulatedSpan | SimulatedCollective | SimulatedRpc)[] = [];
  #pings: SimulatedPing[] = [];
  #wallClocks: SimulatedWallClock[] = [];
  readonly #recorded: Record<keyof EventCounts, number> = { span: 0, instant: 0, counter: 0, step: 0, collective: 0, rpc: 0 };
  #phases = new Map<string, { length: number; calls: number }>();
  #sequence = 0;
  #watermark = 0;
  #dropped = 0;
  #nextFlush: number;
  #lastEnd: number;
  #ids = 0;

  constructor(about: SimulatedRankAbout) {
    this.about = about;
    this.losses = { rank: about.rank, collectives: 0, rpcs: 0, batches: 0, rows: 0 };
    this.epochOffset = Math.floor(about.clock.read(about.start));
    this.#nextFlush = about.start + about.random.uniform(0, about.flushNs);
    this.#lastEnd = about.start;
  }

  /** Events recorded so far. */
  get events(): number {
    return Object.values(this.#recorded).reduce((sum, count) => sum + count, 0);
  }

  /** The rank's clock at true time `time`: RankTime, whole ns. */
  read(time: number): number {
    return Math.round(this.about.clock.read(time)) - this.epochOffset;
  }

  /** A number for an event that may overlap others. */
  nextId(): number {
    return ++this.#ids;
  }

  /** A part of the step, which is also one of its phases. */
  span(start: number, end: number, name: string): void {
    this.#add({ kind: 'span', start, end, track: mainTrack, name });
    this.#addPhase(name, start, end);
  }

  /** This rank's part of a collective; false if it was lost. `isPhase`: it lies directly below the step. */
  collective(part: Omit<SimulatedCollective, 'kind' | 'track'>, isPhase: boolean): boolean {
    if (this.#isDropped()) {
      this.losses.collectives++;
      return false;
    }
    this.#add({ kind: 'collective', track: mainTrack, ...part });
    if (isPhase) this.#addPhase(part.op, part.start, part.end);
    return true;
  }

  /** One half of a remote call; false if it was lost. */
  rpc(half: Omit<SimulatedRpc, 'kind' | 'track'>): boolean {
    if (this.#isDropped()) {
      this.losses.rpcs++;
      return false;
    }
    this.#add({ kind: 'rpc', track: rpcTrack, ...half });
    return true;
  }

  /** Ends a step: its phases are the spans and collectives since the last one. */
  step(start: number, end: number, step: number): void {
    this.#add({ kind: 'step', start, end, track: mainTrack, step, phases: this.#phases });
    this.#phases = new Map();
  }

  counter(time: number, name: string, unit: string, value: number): void {
    this.#add({ kind: 'counter', start: time, end: time, track: mainTrack, name, unit, value });
  }

  instant(time: number, name: string): void {
    this.#add({ kind: 'instant', start: time, end: time, track: mainTrack, name });
  }

  ping(ping: SimulatedPing): void {
    this.#pings.push(ping);
  }

  wallClock(reading: SimulatedWallClock): void {
    this.#wallClocks.push(reading);
  }

  /** The arriving batches that are due until true time `horizon`. */
  *flushUntil(horizon: number): Generator<Batch> {
    while (this.#nextFlush <= horizon) {
      yield* this.#flush(this.#nextFlush);
      this.#nextFlush += this.about.flushNs;
    }
  }

  /** All remaining batches; the last one always arrives, so that the recorded counts can be compared. */
  *finish(): Generator<Batch> {
    yield* this.#flush(Number.POSITIVE_INFINITY);
  }

  #add(event: SimulatedEvent): void {
    this.#pending.push(event);
    this.#recorded[event.kind]++;
    if (event.end > this.#lastEnd) this.#lastEnd = event.end;
  }

  #addPhase(name: string, start: number, end: number): void {
    let phase = this.#phases.get(name);
    if (phase === undefined) {
      phase = { length: 0, calls: 0 };
      this.#phases.set(name, phase);
    }
    phase.length += this.#length(start, end);
    phase.calls++;
  }

  /** Length on the rank's clock. If the clock is stepped back meanwhile, it would be negative, which is not allowed. */
  #length(start: number, end: number): number {
    return Math.max(0, this.read(end) - this.read(start));
  }

  #isDropped(): boolean {
    const { random, lost } = this.about;
    if (!random.chance(lost)) return false;
    this.#dropped++;
    return true;
  }

  *#flush(until: number): Generator<Batch> {
    const rowsMax = simulationLimits.simulatedRowsPerBatchMax;
    const starts = this.#pending.filter((event) => event.start < until).map((event) => event.start);
    if (starts.length > rowsMax) {
      starts.sort((a, b) => a - b);
      for (let row = rowsMax; row < starts.length; row += rowsMax) yield* this.#arrived(this.#cut(starts[row] as number));
    }
    yield* this.#arrived(this.#cut(until));
  }

  *#arrived(batch: Batch): Generator<Batch> {
    const { random, lost } = this.about;
    if (batch.header.last || !random.chance(lost)) {
      yield batch;
      return;
    }
    this.losses.batches++;
    this.losses.rows += Object.values(batch.tables).reduce((sum, table) => sum + table.length, 0);
  }

  #cut(until: number): Batch {
    const last = until === Number.POSITIVE_INFINITY;
    const rows = new BatchRows((time) => this.read(time), this.about.reference);
    this.#open = this.#open.filter((event) => {
      if (event.end >= until) return true;
      rows.add(event, spanState.close);
      return false;
    });
    const later: SimulatedEvent[] = [];
    for (const event of this.#pending) {
      if (event.kind === 'step' ? event.end >= until : event.start >= until) later.push(event);
      else if (event.end < until || event.kind === 'step' || event.kind === 'counter' || event.kind === 'instant')
        rows.add(event, spanState.whole);
      else {
        rows.add(event, spanState.open);
        this.#open.push(event);
      }
    }
    this.#pending = later;
    this.#pings = this.#pings.filter((ping) => ping.at >= until || !rows.addPing(ping));
    this.#wallClocks = this.#wallClocks.filter((reading) => reading.at >= until || !rows.addWallClock(reading));
    if (this.#sequence === 0) for (const [key, value] of Object.entries(this.about.metadata)) rows.addMetadata(key, value);
    if (last) rows.addMetadata(recordedKey, JSON.stringify(this.#recorded));
    rows.addTracks(this.about.pid);
    const end = last ? this.read(this.#lastEnd) : this.read(until) - watermarkMarginNs;
    const taken = rows.take();
    return { header: this.#header(end, taken.earliest, last), strings: taken.strings, tables: taken.tables };
  }

  #header(complete: number, earliest: number, last: boolean): BatchHeader {
    const { run, rank, worldSize, incarnation, host, hostName, pid, hostEpoch } = this.about;
    const promised = this.#watermark;
    this.#watermark = Math.max(promised, Math.floor(complete));
    return {
      run,
      rank,
      worldSize,
      incarnation,
      sequence: this.#sequence++,
      host,
      hostName,
      pid,
      epoch: String(hostEpoch + BigInt(this.epochOffset)),
      watermark: rankTime(this.#watermark),
      ...(earliest < promised && { since: rankTime(earliest) }),
      last,
      dropped: { events: this.#dropped, arguments: 0, names: 0, batches: 0 },
    };
  }
}

/** The rows of one batch, ordered when it is taken: by track, start, and outer before inner. */
class BatchRows {
  readonly #read: (time: number) => number;
  readonly #reference: SimulatedRankAbout['reference'];
  readonly #strings = [''];
  readonly #indexes = new Map([['', 0]]);
  readonly #tables: EventTables = createEventTables();
  readonly #events: { event: SimulatedEvent; state: number; start: number; length: number }[] = [];
  #earliest = Number.POSITIVE_INFINITY;

  constructor(read: (time: number) => number, reference: SimulatedRankAbout['reference']) {
    this.#read = read;
    this.#reference = reference;
  }

  add(event: SimulatedEvent, state: number): void {
    const start = this.#read(event.start);
    const end = state === spanState.open ? start : Math.max(start, this.#read(event.end));
    this.#events.push({ event, state, start, length: end - start });
    // Closing rows, and steps, which come only at their end, are known at the end.
    const known = state === spanState.close || event.kind === 'step' ? end : start;
    if (known < this.#earliest) this.#earliest = known;
  }

  addPing({ sent, received, remoteReceived, remoteSent }: SimulatedPing): true {
    const { host, epoch } = this.#reference;
    const remote = { host: this.#string(host), hostEpoch: this.#string(String(epoch)) };
    this.#tables.clockSamples.append({ sent, received, remoteReceived, remoteSent, ...remote });
    return true;
  }

  addWallClock({ at, width, unix }: SimulatedWallClock): true {
    const nanos = Number(unix % BigInt(nanosPerSecond));
    this.#tables.wallClocks.append({ time: this.#read(at), width, seconds: Number(unix / BigInt(nanosPerSecond)), nanos });
    return true;
  }

  addMetadata(key: string, value: string): void {
    this.#tables.metadata.append({ key: this.#string(key), value: this.#string(value) });
  }

  addTracks(pid: number): void {
    const kind = this.#string('thread');
    this.#tables.tracks.append({ track: mainTrack, kind, name: this.#string('main'), tid: pid });
    this.#tables.tracks.append({ track: rpcTrack, kind, name: this.#string('rpc'), tid: pid + 1 });
  }

  take(): { strings: readonly string[]; tables: EventTables; earliest: number } {
    this.#events.sort((a, b) => a.event.track - b.event.track || a.start - b.start || b.length - a.length);
    for (const { event, state, start, length } of this.#events) this.#append(event, state, start, length);
    return { strings: this.#strings, tables: this.#tables, earliest: this.#earliest };
  }

  #append(event: SimulatedEvent, state: number, start: number, length: number): void {
    const tables = this.#tables;
    const { track } = event;
    switch (event.kind) {
      case 'span':
        tables.spans.append({ start, length, track, name: this.#string(event.name), category: 0, id: 0, parent: 0, state });
        return;
      case 'collective': {
        const { sequence, bytes } = event;
        const texts = { op: this.#string(event.op), group: this.#string(event.group) };
        tables.collectives.append({ start, length, track, ...texts, sequence, bytes, id: 0, parent: 0, state, peer: event.peer + 1 });
        return;
      }
      case 'rpc': {
        const { id, parent, trace, span, parentSpan } = event;
        // An open half has no outcome yet.
        const status = state === spanState.open ? 0 : this.#string(event.status);
        const texts = { method: this.#string(event.method), side: this.#string(event.side), peer: this.#string(event.peer), status };
        tables.rpcs.append({ start, length, track, ...texts, trace, span, parentSpan, id, parent, state });
        return;
      }
      case 'step': {
        tables.steps.append({ start, length, track, step: event.step, overhead: Math.round(length / 2000) });
        for (const [name, phase] of event.phases) tables.phases.append({ step: event.step, name: this.#string(name), ...phase });
        return;
      }
      case 'counter':
        tables.counters.append({ time: start, track, name: this.#string(event.name), unit: this.#string(event.unit), value: event.value });
        return;
      case 'instant':
        tables.instants.append({ time: start, track, name: this.#string(event.name), category: 0 });
    }
  }

  #string(text: string): number {
    const known = this.#indexes.get(text);
    if (known !== undefined) return known;
    const index = this.#strings.push(text) - 1;
    this.#indexes.set(text, index);
    return index;
  }
}

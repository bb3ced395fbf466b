// The shipper worker's work, without the worker: drains the rings of all threads, makes batches, and passes them to the shipper.
//
//   rings ──drain──► summary ──every flushIntervalMs, or when full──► encode ──────────► shipper
//               └──► detail ────────────────────────────────────────► encode ──► flight recorder ──pull──► shipper
//
// While detail is sent (no schedule, or its active steps), both are one builder, and the flight recorder keeps a copy.
//
// Invariants: sequence numbers have no gaps, except that a dropped batch leaves one, which reveals the loss; the watermark never goes back;
// drop counts never go back, also when a thread ends.

import { hostname } from 'node:os';
import { deflateRawSync } from 'node:zlib';
import {
  type BatchHeader,
  batchId,
  type Captured,
  capturedKey,
  collectionsSuffix,
  type EncodedBody,
  encodeBatchOf,
  encodeBody,
  limits,
  ProtocolError,
  rankTime,
  recordedKey,
  ringFillCounter,
  runningKey,
} from '@ranktrace/protocol';
import { recordingLimits } from '../model/recording-limits.ts';
import { type StepRequest, StepRequests } from '../record/capture-slots.ts';
import { type RingDrops, sumDrops } from '../record/ring.ts';
import { type AttachedThread, captureWords, type Session } from '../record/session.ts';
import type { Shipper } from '../ship/shipper.ts';
import { addCounts, BatchBuilder, noneRecorded, type RecordedCounts, Serials } from './batch-builder.ts';
import { ClockRows } from './clock-rows.ts';
import { FlightRecorder, type HeldResults } from './flight-recorder.ts';
import { type Builders, type ReadAction, RingDrain } from './ring-drain.ts';
import { ReportedPlace } from './running-place.ts';

export interface CollectorParts {
  readonly session: Session;
  readonly identity: {
    readonly run: string;
    readonly rank: number;
    readonly worldSize: number;
    readonly host: string;
    readonly pid: number;
  };
  readonly shipper: Shipper;
  readonly flushIntervalMs: number;
  /** Steps and bytes of detail kept in memory. */
  readonly flightRecorderSteps: number;
  readonly flightRecorderBytes: number;
  /** `threadId` of the thread that opened the session. */
  readonly mainThread: number;
  /** This host's monotonic clock, ns; that of `session.epochNs`. */
  readonly monotonicNs: () => bigint;
  /** ns on it in a ms of the threads' clocks. Default 1e6. */
  readonly nsPerMs?: number;
  /** Whether the system's thread `tid` has certainly ended. */
  readonly threadEnded: (tid: number) => boolean;
}

interface Thread {
  readonly about: AttachedThread;
  readonly drain: RingDrain;
}

/** A counter that the worker itself samples. */
export interface Sample {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
}

const deflate = (body: Uint8Array) => deflateRawSync(body);

export class Collector {
  readonly #parts: CollectorParts;
  readonly #serials = new Serials();
  readonly #summary = new BatchBuilder(this.#serials);
  /** `detail` is `#summary` while detail is sent. */
  #builders: Builders = { summary: this.#summary, detail: this.#summary };
  /** Start of the unbroken time in which the collector sends all detail; RankTime, ns. */
  #sendsSince = Number.NEGATIVE_INFINITY;
  /** End of the last stretch in which it was sent; RankTime, ns. */
  #sentUntil = Number.NEGATIVE_INFINITY;
  /** Whether the summary under construction has detail of that stretch, which came late. */
  #hasLateDetail = false;
  /** Events of devices that were lost on their way here. */
  deviceLost = 0;
  /** The latest begin of a device's work that has come; RankTime, ns; −∞: none yet; undefined: no device is recorded. */
  deviceSeenUntil: number | undefined;
  readonly #flightRecorder: FlightRecorder;
  readonly #requests: StepRequests;
  readonly #place = new ReportedPlace();
  /** None yet: the interval is empty. */
  #results = { since: Number.POSITIVE_INFINITY, until: Number.NEGATIVE_INFINITY };
  readonly #threads = new Map<number, Thread>();
  /** Threads beyond `threadsMax`: the collector only counts their events, as lost. */
  readonly #excess = new Map<number, Thread>();
  /** Threads that ended during this batch: it still has to name their tracks. */
  readonly #ended: Thread[] = [];
  readonly #clocks: ClockRows;
  #gone: RingDrops = { events: 0, arguments: 0, names: 0 };
  /** Events passed to the shipper. */
  readonly #recorded = noneRecorded();
  readonly #excessRecorded = noneRecorded();
  #refusedBatches = 0;
  #sequence = 0;
  #watermark = 0;
  #flushedMs = Number.NEGATIVE_INFINITY;
  #endsCheckedMs = Number.NEGATIVE_INFINITY;

  constructor(parts: CollectorParts) {
    this.#parts = parts;
    this.#clocks = new ClockRows(parts.session.epochNs, parts.monotonicNs);
    this.#flightRecorder = new FlightRecorder(parts.flightRecorderBytes);
    this.#requests = new StepRequests(captureWords(parts.session));
  }

  /** Begins to drain a thread; repeated announcements have no effect. */
  attach(about: AttachedThread): void {
    if (about.session !== this.#parts.session.id) return;
    const { flightRecorderSteps, mainThread, nsPerMs = 1e6 } = this.#parts;
    const thread = { ring: about.ring, origin: about.origin, track: about.thread, nsPerMs };
    const drain = new RingDrain(thread, about.thread === mainThread ? Math.max(1, flightRecorderSteps) : 0);
    if (!drain.claim()) return;
    const threads = this.#threads.size < recordingLimits.threadsMax ? this.#threads : this.#excess;
    threads.set(about.thread, { about, drain });
  }

  /** Drains, and ships when due. */
  tick(): void {
    const nowMs = this.#now() / 1e6;
    const drained = this.#drainAll();
    const waited = nowMs - this.#flushedMs;
    const due = waited >= (this.#isEmpty ? recordingLimits.heartbeatIntervalMs : this.#parts.flushIntervalMs);
    if (due) this.#cut(drained, false);
    if (this.#requests.open.length > 0 && this.#answerRequests(false)) this.flush();
  }

  /** Whether an answer waits for what a device has done and not reported yet. */
  get awaitsDevice(): boolean {
    return this.#requests.open.some(({ overMs }) => overMs !== undefined);
  }

  /** Ships everything recorded so far. */
  flush(last = false): void {
    const complete = this.#drainAll();
    if (last) this.#answerRequests(true);
    // If the spool is short, a small last batch, with the counts of losses, still fits where a large one does not.
    if (last && this.#parts.shipper.isShort && !this.#isEmpty) this.#cut(complete, false);
    // Nothing follows the last batch, so its watermark may be the present.
    this.#cut(last ? this.#now() : complete, last);
  }

  /** Highest fill of any ring since the last call. */
  sampleRings(): Sample {
    const fullest = [...this.#threads.values()].map(({ drain }) => drain.takeFullest());
    return { name: ringFillCounter, value: 100 * Math.max(0, ...fullest), unit: '%' };
  }

  /** Counters sampled now, which tell of the time up to `until` (RankTime, ns) if that is over. */
  addSamples(samples: readonly Sample[], until = Number.POSITIVE_INFINITY): void {
    const time = Math.min(this.#now(), until);
    if (time < this.#watermark) this.#summary.reachBack(time);
    // Results hold what was sent in their time.
    if (time < this.#sentUntil) this.#hasLateDetail = true;
    for (const { name, value, unit } of samples) {
      this.#summary.recorded.counter++;
      const row = { time, track: this.#parts.mainThread, name: this.#summary.string(name), unit: this.#summary.string(unit), value };
      this.#summary.append('counters', row);
    }
  }

  /** The last time that results tell of; infinite while they go on, and where there are none. RankTime, ns. */
  get resultsEnd(): number {
    const { since, until } = this.#results;
    return until > since ? until - 1 : Number.POSITIVE_INFINITY;
  }

  /** Reads what threads have recorded by now. */
  catchUp(): void {
    this.tick();
  }

  /** The batch for an event that starts at this RankTime, ns, and came late, as those of devices do: of what was sent then, or of what was held. */
  builderAt(start: number): BatchBuilder {
    const { summary, detail } = this.#builders;
    const builder = start < this.#sentUntil ? summary : detail;
    if (builder !== detail) this.#hasLateDetail = true;
    if (start < this.#watermark) builder.reachBack(start);
    return builder;
  }

  /** Called after an event was added there. */
  added(): void {
    const { summary, detail } = this.#builders;
    if (summary.full || detail.full) this.#cut(this.#watermark, false);
  }

  /** The track of the thread that the system numbers so, if it records. */
  trackOf(tid: number): number | undefined {
    for (const { about } of this.#threads.values()) if (about.tid === tid) return about.thread;
    return undefined;
  }

  /** Adds a fact to the rank's metadata. */
  addFact(key: string, value: string): void {
    this.#summary.append('metadata', { key: this.#summary.string(key), value: this.#summary.string(value) });
  }

  /**
   * Records these steps, both included, at full detail and ships them; once they are over, reports which of them it has (`capturedKey`). Steps
   * that are already over come from the flight recorder, as far as it goes back. Each call ships everything recorded so far: a repeated request
   * asks for this rank's progress.
   */
  record(fromStep: number, toStep: number): void {
    const isTaken = fromStep > toStep || this.#requests.ask(fromStep, toStep);
    if (!isTaken) this.#answer({ fromStep, toStep, firstStep: null, lastStep: null });
    this.flush();
  }

  /** Ships the flight recorder's detail of these steps, both included; by default all that was not shipped. */
  pull(fromStep = 0, toStep = Number.POSITIVE_INFINITY): void {
    this.flush();
    const wanted = this.#recentSteps.filter(({ step }) => step >= fromStep && step <= toStep);
    const newest = this.#recentSteps.at(-1);
    // The running step begins at the end of the newest finished one, and has no end.
    const runsIn = newest !== undefined && newest.step + 1 >= fromStep && newest.step < toStep;
    const running = runsIn ? newest.end : undefined;
    const from = fromStep === 0 ? Number.NEGATIVE_INFINITY : (wanted[0]?.start ?? running ?? Number.POSITIVE_INFINITY);
    const to = toStep === Number.POSITIVE_INFINITY || runsIn ? Number.POSITIVE_INFINITY : (wanted.at(-1)?.end ?? Number.NEGATIVE_INFINITY);
    for (const { body, since, recorded } of this.#flightRecorder.takeUnsent(from, to)) {
      this.#send(body, recorded, since, false);
    }
  }

  /** The batches behind `events()` and `keyAverages()`: the last active steps. */
  results(): HeldResults {
    this.flush();
    const { since, until } = this.#results;
    return { ...this.#flightRecorder.between(since, until), since, until: Math.min(until, this.#now()) };
  }

  /** The last finished steps, oldest first. */
  get #recentSteps(): RingDrain['recentSteps'] {
    return this.#threads.get(this.#parts.mainThread)?.drain.recentSteps ?? [];
  }

  /** Answers requests whose steps are over, all of them when nothing follows; returns whether there were any. Late ones get the held detail. */
  #answerRequests(last: boolean): boolean {
    const newest = this.#recentSteps.at(-1)?.step ?? -1;
    let answers = false;
    for (const request of this.#requests.open) {
      const { fromStep, toStep } = request;
      const isOver = last || newest >= toStep;
      // The training thread looks at requests when it steps, so it cannot have recorded steps that ended earlier.
      const began = request.began ?? (isOver ? Math.max(fromStep, newest + 1) : undefined);
      if (began === undefined) continue;
      const pastTo = Math.min(began - 1, toStep, last ? newest : toStep);
      if (fromStep <= pastTo && newest >= pastTo && request.heldFrom === undefined) {
        request.heldFrom = this.#heldFrom(fromStep, pastTo) ?? null;
        this.pull(fromStep, pastTo);
      }
      if (!isOver || (!last && this.#isDeviceBehind(request))) continue;
      const lastStep = Math.min(newest, toStep);
      const firstStep = request.heldFrom ?? Math.max(began, fromStep);
      const range = firstStep <= lastStep ? { firstStep, lastStep } : { firstStep: null, lastStep: null };
      this.#answer({ fromStep, toStep, ...range });
      answers = true;
    }
    return answers;
  }

  /** Whether work of a request's steps may still come from a device; after `deviceWaitMs` the device has nothing to do. */
  #isDeviceBehind(request: StepRequest): boolean {
    if (this.deviceSeenUntil === undefined) return false;
    const nowMs = this.#now() / 1e6;
    request.overMs ??= nowMs;
    const end = this.#recentSteps.findLast(({ step }) => step <= request.toStep)?.end ?? Number.NEGATIVE_INFINITY;
    return this.deviceSeenUntil < end && nowMs - request.overMs < recordingLimits.deviceWaitMs;
  }

  #answer(captured: Captured): void {
    this.#requests.answered(captured.fromStep, captured.toStep);
    this.addFact(capturedKey, JSON.stringify(captured));
  }

  /** The first of these steps from which on all detail is held or sent; undefined: none. */
  #heldFrom(fromStep: number, toStep: number): number | undefined {
    if (this.#sendsSince === Number.NEGATIVE_INFINITY) return fromStep;
    const isThere = (start: number): boolean =>
      start >= this.#sendsSince ||
      (this.#parts.flightRecorderSteps > 0 && this.#flightRecorder.between(start, Number.POSITIVE_INFINITY).complete);
    return this.#recentSteps.find(({ step, start }) => step >= fromStep && step <= toStep && isThere(start))?.step;
  }

  get #isEmpty(): boolean {
    return this.#builders.summary.empty && this.#builders.detail.empty;
  }

  /** Drains all rings; returns the RankTime, ns, before which everything is read: an empty ring counts up to the clock before the drain. */
  #drainAll(): number {
    let complete = this.#now() - recordingLimits.watermarkMarginMs * 1e6;
    const ended = this.#endedThreads();
    for (const { about, drain } of this.#threads.values()) {
      const batchesMax = ringBatches(about);
      let empty = drain.drain(this.#builders, this.#watermark);
      for (let batches = 0; !empty && batches < batchesMax; batches++) {
        const action = drain.takeAction();
        if (action !== undefined) this.#drainOthers(drain);
        // An action on an empty batch needs no cut: nothing precedes it.
        if (action === undefined || !this.#isEmpty) this.#cut(this.#watermark, false);
        if (action !== undefined) this.#change(action);
        empty = drain.drain(this.#builders, this.#watermark);
      }
      if (!empty) complete = Math.min(complete, drain.newest);
      // The thread that opened the session closes its ring last of all.
      if ((drain.finished || (empty && ended.has(about.thread))) && about.thread !== this.#parts.mainThread) this.#forget(about, drain);
    }
    for (const { about, drain } of this.#excess.values()) {
      this.#drainExcess(drain, ringBatches(about));
      if (!drain.finished && !ended.has(about.thread)) continue;
      drain.countOpen(this.#excessRecorded);
      this.#excess.delete(about.thread);
      this.#gone = sumDrops(this.#gone, drain.dropped);
    }
    return complete;
  }

  /** Other threads perform no actions: drains what they recorded before this action to the destination valid before it. */
  #drainOthers(one: RingDrain): void {
    for (const { about, drain } of this.#threads.values()) {
      if (drain === one) continue;
      const batchesMax = ringBatches(about);
      for (let batches = 0; !drain.drain(this.#builders, this.#watermark) && batches < batchesMax; batches++)
        this.#cut(this.#watermark, false);
    }
  }

  /** Counts every event of a thread beyond the limit as lost. */
  #drainExcess(drain: RingDrain, batchesMax: number): void {
    for (let batches = 0, empty = false; batches < batchesMax && !empty; batches++) {
      const builder = new BatchBuilder();
      empty = drain.drain({ summary: builder, detail: builder }, 0);
      addCounts(this.#excessRecorded, builder.recorded);
    }
  }

  /** Switches between sending and holding detail. */
  #change({ sends, begins, ends, time }: ReadAction): void {
    const isSending = this.#builders.detail === this.#summary;
    if (sends !== isSending) {
      this.#sendsSince = sends ? time : Number.POSITIVE_INFINITY;
      if (!sends) this.#sentUntil = time;
      this.#builders = { summary: this.#summary, detail: sends ? this.#summary : new BatchBuilder(this.#serials, true) };
      if (sends) for (const { drain } of this.#threads.values()) drain.announceOpen(this.#summary);
    }
    if (begins) this.#results = { since: time, until: Number.POSITIVE_INFINITY };
    else if (ends && this.#results.until > time) this.#results = { ...this.#results, until: time };
  }

  /** Threads that ended without notice (`worker.terminate`): nothing more enters their rings. Checked once a heartbeat. */
  #endedThreads(): Set<number> {
    const nowMs = this.#now() / 1e6;
    const ended = new Set<number>();
    if (nowMs - this.#endsCheckedMs < recordingLimits.heartbeatIntervalMs) return ended;
    this.#endsCheckedMs = nowMs;
    for (const { about } of [...this.#threads.values(), ...this.#excess.values()]) {
      if (this.#parts.threadEnded(about.tid)) ended.add(about.thread);
    }
    return ended;
  }

  #forget(about: AttachedThread, drain: RingDrain): void {
    this.#gone = sumDrops(this.#gone, drain.dropped);
    drain.countOpen(this.#recorded);
    this.#threads.delete(about.thread);
    this.#ended.push({ about, drain });
  }

  /** Ends the batches under construction: sends them, but holds detail back while it is not sent. */
  #cut(complete: number, last: boolean): void {
    const promised = this.#watermark;
    this.#watermark = Math.max(promised, Math.floor(complete));
    const { detail } = this.#builders;
    if (detail !== this.#summary && !detail.empty) {
      this.#addTracks(detail);
      const { reachesBack, recorded, serial } = detail;
      const body = this.#encoded(detail);
      const since = Math.min(promised, reachesBack);
      if (body !== undefined) this.#flightRecorder.add({ serial, body, since, until: this.#now(), recorded }, false);
    }
    this.#addTracks(this.#summary);
    this.#ended.length = 0;
    this.#clocks.add(this.#summary, this.#parts.shipper.takeClockSamples());
    if (last) this.#addRecorded();
    else this.#addPlace();
    const { reachesBack, recorded, serial } = this.#summary;
    const body = this.#encoded(this.#summary);
    const since = Math.min(promised, reachesBack);
    if (body !== undefined) {
      this.#send(body, recorded, since < promised ? since : undefined, last);
      if (detail === this.#summary || this.#hasLateDetail)
        this.#flightRecorder.add({ serial, body, since, until: this.#now(), recorded }, true);
    }
    this.#hasLateDetail = false;
    this.#forgetOld();
    this.#flushedMs = this.#now() / 1e6;
  }

  #send(body: EncodedBody, recorded: RecordedCounts, since: number | undefined, last: boolean): void {
    const { session, identity, shipper } = this.#parts;
    const header: BatchHeader = {
      run: identity.run,
      rank: identity.rank,
      worldSize: identity.worldSize,
      incarnation: session.id,
      sequence: this.#sequence++,
      host: identity.host,
      hostName: hostname().slice(0, limits.hostCharsMax) || 'unknown',
      pid: identity.pid,
      epoch: String(session.epochNs),
      watermark: rankTime(this.#watermark),
      since: since === undefined ? undefined : rankTime(since),
      last,
      dropped: this.#dropped(),
    };
    addCounts(this.#recorded, recorded);
    this.#try(() => shipper.ship(encodeBatchOf(header, body), batchId(header), last));
  }

  #encoded(builder: BatchBuilder): EncodedBody | undefined {
    return this.#try(() => encodeBody(builder.take(), deflate));
  }

  /** The builder keeps batches below the limit; one that exceeds it all the same is dropped and counted. */
  #try<T>(encode: () => T): T | undefined {
    try {
      return encode();
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      this.#refusedBatches++;
      return undefined;
    }
  }

  /** Drops held batches outside the last steps and the results. */
  #forgetOld(): void {
    const oldest = this.#parts.flightRecorderSteps === 0 ? this.#watermark : (this.#recentSteps[0]?.start ?? Number.NEGATIVE_INFINITY);
    this.#flightRecorder.forgetBefore(oldest, this.#results.since, this.#results.until);
  }

  #addTracks(builder: BatchBuilder): void {
    const append = (track: number, name: string, tid: number): void => {
      builder.append('tracks', { track, kind: builder.string('thread'), name: builder.string(name), tid });
    };
    for (const { about, drain } of [...this.#ended, ...this.#threads.values()]) {
      append(about.thread, about.name, about.tid);
      if (drain.hasPauses) append(recordingLimits.extraLineBase + about.thread, `${about.name}${collectionsSuffix}`, about.tid);
    }
  }

  /** The recorder's own counts: the merge compares them with what arrived. */
  #addRecorded(): void {
    const counts = { ...this.#recorded };
    addCounts(counts, this.#summary.recorded);
    for (const { drain } of this.#threads.values()) drain.countOpen(counts);
    this.addFact(recordedKey, JSON.stringify(counts));
  }

  #addPlace(): void {
    const drain = this.#threads.get(this.#parts.mainThread)?.drain;
    const place = drain?.running;
    if (drain === undefined || place === undefined) return;
    const text = this.#place.next(place, drain.entered, this.#now() / 1e6);
    if (text !== undefined) this.addFact(runningKey, text);
  }

  #dropped(): BatchHeader['dropped'] {
    let sum = this.#gone;
    for (const { drain } of this.#threads.values()) sum = sumDrops(sum, drain.dropped);
    for (const { drain } of this.#excess.values()) sum = sumDrops(sum, drain.dropped);
    const excess = Object.values(this.#excessRecorded).reduce((events, count) => events + count, 0);
    sum = { ...sum, events: sum.events + excess + this.deviceLost };
    return { ...sum, batches: this.#parts.shipper.droppedBatches + this.#refusedBatches };
  }

  /** RankTime, ns. */
  #now(): number {
    return Number(this.#parts.monotonicNs() - this.#parts.session.epochNs);
  }
}

/** Most batches that one full ring can make: a recorder faster than the collector must not hold it at its ring. */
const ringBatches = (about: AttachedThread) => 8 + about.ring.byteLength / recordingLimits.batchBytesFull;

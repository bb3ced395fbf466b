// The shipper worker's work, without the worker: drains the rings of all threads, makes batches, and passes them to the shipper.
//
//   rings ──drain──► summary ──every flushIntervalMs, or when full──► encode ──────────► shipper
//               └──► detail ────────────────────────────────────────► encode ──► flight recorder ──pull──► shipper
//
// While detail is sent (no schedule, or its active steps), both are one builder, and the flight recorder keeps a copy.
//
// One file, because a batch's number, watermark and losses must agree whoever cuts it: the clock, a full builder, a request or the end.
// Invariants: sequence numbers have no gaps, except that a dropped batch leaves one, which reveals the loss; the watermark never goes back.

import { hostname } from 'node:os';
import { deflateRawSync } from 'node:zlib';
import {
  type BatchHeader,
  batchId,
  type Captured,
  capturedKey,
  type Dropped,
  deviceStepsKey,
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
import { reportFailure } from '../process/guarded.ts';
import { type HeldSteps, type StepRequest, StepRequests } from '../record/capture-slots.ts';
import { type AttachedThread, captureWords, type Session } from '../record/session.ts';
import type { Shipper } from '../ship/shipper.ts';
import { addCounts, BatchBuilder, noneRecorded, type RecordedCounts, Serials } from './batch-builder.ts';
import { ClockRows } from './clock-rows.ts';
import { type DeviceProgress, DeviceStretches } from './device-steps.ts';
import { FlightRecorder, type HeldResults } from './flight-recorder.ts';
import { type RecordedThread, RecordedThreads, ringBatches } from './recorded-threads.ts';
import { ResultsWindow } from './results-window.ts';
import type { Builders, ReadAction, RingDrain } from './ring-drain.ts';
import { ReportedPlace } from './running-place.ts';
import { SentStretches } from './sent-stretches.ts';

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
  /** Detail that is not sent; while detail is sent, what devices did before and reported late. */
  readonly #held = new BatchBuilder(this.#serials, true);
  /** `detail` is `#summary` while detail is sent, else `#held`. */
  #builders: Builders = { summary: this.#summary, detail: this.#summary };
  readonly takesLaunches = true;
  readonly #sent = new SentStretches();
  /** Whether the summary under construction has detail that was sent late. */
  #hasLateDetail = false;
  /** Events of devices that were lost on their way here. */
  deviceLost = 0;
  /** How far a device has come; undefined: none is recorded. */
  device: DeviceProgress | undefined;
  readonly #deviceSteps = new DeviceStretches();
  readonly #flightRecorder: FlightRecorder;
  readonly #requests: StepRequests;
  readonly #place = new ReportedPlace();
  readonly #results = new ResultsWindow();
  readonly #threads: RecordedThreads;
  readonly #clocks: ClockRows;
  /** Events passed to the shipper. */
  readonly #recorded = noneRecorded();
  /** Batches that could not be encoded, and the events in them. */
  #refusedBatches = 0;
  #refusedEvents = 0;
  #sequence = 0;
  #watermark = 0;
  #flushedMs = Number.NEGATIVE_INFINITY;
  #sentMs = Number.NEGATIVE_INFINITY;

  constructor(parts: CollectorParts) {
    this.#parts = parts;
    this.#threads = new RecordedThreads(parts);
    this.#clocks = new ClockRows(parts.session.epochNs, parts.monotonicNs);
    this.#flightRecorder = new FlightRecorder(parts.flightRecorderBytes);
    this.#requests = new StepRequests(captureWords(parts.session));
  }

  /** Begins to drain a thread; repeated announcements have no effect. */
  attach(about: AttachedThread): void {
    const thread = about.session === this.#parts.session.id ? this.#threads.attach(about) : undefined;
    if (thread === undefined || this.#builders.detail === this.#summary || !this.#sent.has(thread.drain.nextTime)) return;
    // It began while detail was sent, and is heard of after that was over: what it has recorded by now is sent, too.
    this.#drainInto({ summary: this.#summary, detail: this.#summary }, thread);
  }

  /** Drains, and ships when due. */
  tick(): void {
    const nowMs = this.#now() / 1e6;
    const drained = this.#drainAll();
    const waited = nowMs - this.#flushedMs;
    const due = waited >= (this.#isEmpty ? recordingLimits.heartbeatIntervalMs : this.#parts.flushIntervalMs);
    if (due) this.#cut(drained, false);
    else if (nowMs - this.#sentMs >= recordingLimits.heartbeatIntervalMs) this.#beat();
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
    // Nothing follows the last batch, so its watermark may be the present, or the end of recording: what is open then lasts until there.
    this.#cut(last ? Math.min(this.#now(), this.#threads.closedAt) : complete, last);
  }

  /** Highest fill of any ring since the last call. */
  sampleRings(): Sample {
    const fullest = [...this.#threads.all].map(({ drain }) => drain.takeFullest());
    return { name: ringFillCounter, value: 100 * Math.max(0, ...fullest), unit: '%' };
  }

  /** Counters sampled now, which tell of the time up to `until` (RankTime, ns) if that is over. */
  addSamples(samples: readonly Sample[], until = Number.POSITIVE_INFINITY): void {
    const time = Math.min(this.#now(), until);
    if (time < this.#watermark) this.#summary.reachBack(time);
    // Results hold what was sent in their time.
    if (time < this.#sent.until) this.#hasLateDetail = true;
    for (const { name, value, unit } of samples) {
      this.#summary.recorded.counter++;
      const row = { time, track: this.#parts.mainThread, name: this.#summary.string(name), unit: this.#summary.string(unit), value };
      this.#summary.append('counters', row);
    }
  }

  /** The last time that results tell of; infinite while they go on, and where there are none. RankTime, ns. */
  get resultsEnd(): number {
    return this.#results.last;
  }

  /** Reads what threads have recorded by now. */
  catchUp(): void {
    this.tick();
  }

  /**
   * The batch for an event that starts at this RankTime, ns, and came late, as those of devices do. Whether it is sent depends on its launch: so a window of a
   * schedule has all work of its steps, and none of the steps around it.
   */
  builderAt(start: number, launched: number): BatchBuilder {
    const { summary, detail } = this.#builders;
    const isSent = this.#sent.has(launched);
    const builder = isSent ? summary : this.#held;
    if (isSent && detail !== summary) this.#hasLateDetail = true;
    // A pull finds held work by the time of its steps, in which it was launched.
    const since = isSent ? start : Math.min(start, launched);
    if (since < this.#watermark) builder.reachBack(since);
    return builder;
  }

  /** Called after an event was added there. */
  added(): void {
    if (this.#summary.full || this.#held.full) this.#cut(this.#watermark, false);
  }

  /** Work of devices is recorded from now on, or since the process began; or no more. */
  recordDevices(from: 'now' | 'begin' | 'never'): void {
    if (from === 'never' && !this.#deviceSteps.isRecording) return;
    const now = this.#now();
    this.tick();
    const running = this.#runningStep;
    if (from === 'never') this.#deviceSteps.stop(this.#lastSeenStep);
    else this.#deviceSteps.record(from === 'begin' ? 0 : running.start < now ? running.number + 1 : running.number);
    this.#addDeviceSteps();
  }

  /** The track of the thread that the system numbers so, if it records. */
  trackOf(tid: number): number | undefined {
    return this.#threads.trackOf(tid);
  }

  /** Adds a fact to the rank's metadata. */
  addFact(key: string, value: string): void {
    addFact(this.#summary, key, value);
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
    this.#sendHeld(this.#heldSteps(fromStep, toStep));
  }

  /** These steps as far as the recorder goes back, and the time in which their detail lies. */
  #heldSteps(fromStep: number, toStep: number): HeldSteps {
    this.flush();
    const wanted = this.#recentSteps.filter(({ step }) => step >= fromStep && step <= toStep);
    const newest = this.#recentSteps.at(-1);
    // The running step begins at the end of the newest finished one, and has no end.
    const runsIn = newest !== undefined && newest.step + 1 >= fromStep && newest.step < toStep;
    const running = runsIn ? newest.end : undefined;
    const from = fromStep === 0 ? Number.NEGATIVE_INFINITY : (wanted[0]?.start ?? running ?? Number.POSITIVE_INFINITY);
    const to = toStep === Number.POSITIVE_INFINITY || runsIn ? Number.POSITIVE_INFINITY : (wanted.at(-1)?.end ?? Number.NEGATIVE_INFINITY);
    return { steps: wanted, from, to };
  }

  #sendHeld({ steps, from, to }: HeldSteps): void {
    for (const { body, since, recorded } of this.#flightRecorder.takeUnsent(from, to)) {
      this.#send(body, recorded, since, false);
    }
    // It may lack work that devices had not reported yet: steps before the last launch that they did are whole.
    const seen = this.#parts.flightRecorderSteps > 0 ? (this.device?.seenUntil ?? Number.NEGATIVE_INFINITY) : Number.NEGATIVE_INFINITY;
    const whole = steps.filter(({ start, end }) => end <= seen && this.#flightRecorder.between(start, end).complete);
    const [first, last] = [whole[0], whole.at(-1)];
    if (first === undefined || last === undefined) return;
    this.#deviceSteps.add(first.step, last.step);
    this.#addDeviceSteps();
  }

  /** The batches behind `events()` and `keyAverages()`: the last active steps. */
  results(): HeldResults {
    this.flush();
    const { since, until } = this.#results;
    const dropped = this.#results.lost(this.#lost);
    return { ...this.#flightRecorder.between(since, until), since, until: Math.min(until, this.#now()), dropped };
  }

  /** The last finished steps, oldest first. */
  get #recentSteps(): RingDrain['recentSteps'] {
    return this.#threads.main?.recentSteps ?? [];
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
        request.held = this.#heldSteps(fromStep, pastTo);
        this.#sendHeld(request.held);
      }
      if (!isOver || (!last && this.#isDeviceBehind(request))) continue;
      // Devices may have reported more of it since.
      if (request.held !== undefined && this.device !== undefined) {
        this.flush();
        this.#sendHeld(request.held);
      }
      const lastStep = Math.min(newest, toStep);
      const firstStep = request.heldFrom ?? Math.max(began, fromStep);
      const range = firstStep <= lastStep ? { firstStep, lastStep } : { firstStep: null, lastStep: null };
      this.#answer({ fromStep, toStep, ...range });
      answers = true;
    }
    return answers;
  }

  /** Whether work of a request's steps may still come from a device; if none is known to run, after `deviceWaitMs` the device has nothing to do. */
  #isDeviceBehind(request: StepRequest): boolean {
    if (this.device === undefined) return false;
    const { seenUntil, busyFrom } = this.device;
    const nowMs = this.#now() / 1e6;
    request.overMs ??= nowMs;
    const end = this.#recentSteps.findLast(({ step }) => step <= request.toStep)?.end ?? Number.NEGATIVE_INFINITY;
    return seenUntil < end && nowMs - request.overMs < (busyFrom < end ? recordingLimits.deviceBusyMsMax : recordingLimits.deviceWaitMs);
  }

  #answer(captured: Captured): void {
    this.#requests.answered(captured.fromStep, captured.toStep);
    this.addFact(capturedKey, JSON.stringify(captured));
  }

  /** The first of these steps from which on all detail is held or sent; undefined: none. */
  #heldFrom(fromStep: number, toStep: number): number | undefined {
    if (this.#sent.since === Number.NEGATIVE_INFINITY) return fromStep;
    const isThere = (start: number): boolean =>
      start >= this.#sent.since ||
      (this.#parts.flightRecorderSteps > 0 && this.#flightRecorder.between(start, Number.POSITIVE_INFINITY).complete);
    return this.#recentSteps.find(({ step, start }) => step >= fromStep && step <= toStep && isThere(start))?.step;
  }

  get #isEmpty(): boolean {
    return this.#summary.empty && this.#held.empty;
  }

  /** The last step all of whose work devices have reported: later work has come. What ended before the oldest step that is remembered has been reported by now. */
  get #lastSeenStep(): number {
    const [steps, seen] = [this.#recentSteps, this.device?.seenUntil ?? Number.NEGATIVE_INFINITY];
    return steps.findLast(({ end }) => end <= seen)?.step ?? (steps[0]?.step ?? 0) - 1;
  }

  /** Before the first step, that one. */
  get #runningStep(): { readonly number: number; readonly start: number } {
    return this.#threads.main?.runningStep ?? { number: 0, start: Number.POSITIVE_INFINITY };
  }

  /** Drains all rings; returns the RankTime, ns, before which everything is read: an empty ring counts up to the clock before the drain. */
  #drainAll(): number {
    let complete = this.#now() - recordingLimits.watermarkMarginMs * 1e6;
    const ended = this.#threads.ended(this.#now() / 1e6);
    for (const { about, drain } of this.#threads.all) {
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
      if ((drain.finished || (empty && ended.has(about.thread))) && about.thread !== this.#parts.mainThread)
        this.#threads.forget(about, drain, this.#recorded);
    }
    this.#threads.drainExcess(ended);
    this.#results.drained(this.#lost);
    return Math.min(complete, this.#threads.closedAt);
  }

  /** Other threads perform no actions: drains what they recorded before this action to the destination valid before it. */
  #drainOthers(one: RingDrain): void {
    for (const thread of this.#threads.all) if (thread.drain !== one) this.#drainInto(this.#builders, thread);
  }

  #drainInto(builders: Builders, { about, drain }: RecordedThread): void {
    const batchesMax = ringBatches(about);
    for (let batches = 0; !drain.drain(builders, this.#watermark) && batches < batchesMax; batches++) this.#cut(this.#watermark, false);
  }

  /** Switches between sending and holding detail. */
  #change({ sends, begins, ends, time }: ReadAction): void {
    const isSending = this.#builders.detail === this.#summary;
    if (sends !== isSending) {
      if (sends) this.#sent.open(time);
      else this.#sent.close(time);
      this.#builders = { summary: this.#summary, detail: sends ? this.#summary : this.#held };
      // The step that runs here has just begun.
      if (sends) this.#deviceSteps.send(this.#runningStep.number);
      else this.#deviceSteps.hold(this.#runningStep.number - 1);
      this.#addDeviceSteps();
      if (sends) for (const { drain } of this.#threads.all) drain.announceOpen(this.#summary);
    }
    if (begins) this.#results.begin(time);
    else if (ends) this.#results.end(time, this.#lost);
  }

  /** Ends the batches under construction: sends them, but holds detail back while it is not sent. */
  #cut(complete: number, last: boolean): void {
    const promised = this.#watermark;
    this.#watermark = Math.max(promised, Math.floor(complete));
    const { detail } = this.#builders;
    if (!this.#held.empty) {
      this.#threads.addTracks(this.#held);
      const { reachesBack, recorded, serial } = this.#held;
      const body = this.#encoded(this.#held);
      const since = Math.min(promised, reachesBack);
      if (body === undefined) this.#refused(recorded);
      else this.#flightRecorder.add({ serial, body, since, until: this.#now(), recorded }, false);
    }
    this.#threads.addTracks(this.#summary);
    this.#threads.forgetEnded();
    this.#clocks.add(this.#summary, this.#parts.shipper.takeClockSamples());
    if (last) {
      this.#addRecorded();
      this.#deviceSteps.hold(this.#runningStep.number - 1);
      this.#addDeviceSteps();
    } else this.#addPlace(this.#summary);
    const { reachesBack, recorded, serial } = this.#summary;
    const body = this.#encoded(this.#summary);
    const since = Math.min(promised, reachesBack);
    if (body !== undefined) {
      this.#send(body, recorded, since < promised ? since : undefined, last);
      if (detail === this.#summary || this.#hasLateDetail)
        this.#flightRecorder.add({ serial, body, since, until: this.#now(), recorded }, true);
    } else {
      this.#refused(recorded);
      this.#sendEmpty(last);
    }
    this.#hasLateDetail = false;
    this.#forgetOld();
    this.#flushedMs = this.#now() / 1e6;
  }

  #send(body: EncodedBody, recorded: RecordedCounts, since: number | undefined, last: boolean): void {
    const { session, identity, shipper } = this.#parts;
    const lost = this.#lost;
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
      dropped: { ...lost, batches: lost.batches + shipper.droppedBatches },
    };
    addCounts(this.#recorded, recorded);
    this.#sentMs = this.#now() / 1e6;
    this.#try(() => shipper.ship(encodeBatchOf(header, body), batchId(header), last));
  }

  /** Where `flushIntervalMs` is long: a batch with nothing but the thread's place. The one under construction goes on, so the watermark stays. */
  #beat(): void {
    const builder = new BatchBuilder(this.#serials);
    this.#addPlace(builder);
    const body = this.#encoded(builder);
    if (body !== undefined) this.#send(body, noneRecorded(), undefined, false);
  }

  #encoded(builder: BatchBuilder): EncodedBody | undefined {
    return this.#try(() => encodeBody(builder.take(), deflate));
  }

  /** A batch with these events is lost: the next one counts them, and results and captures of this time are not complete. */
  #refused(recorded: RecordedCounts): void {
    this.#refusedEvents += Object.values(recorded).reduce((events, count) => events + count, 0);
    this.#flightRecorder.lost(this.#now());
  }

  /** Reports a lost batch in its stead: the rank's next ones may be lost, too, or there may be none. */
  #sendEmpty(last: boolean): void {
    this.#threads.addTracks(this.#summary);
    if (last) this.#addRecorded();
    const body = this.#encoded(this.#summary);
    if (body !== undefined) this.#send(body, noneRecorded(), undefined, last);
  }

  /** The builder makes only batches that can be encoded; one that cannot all the same is dropped, counted and reported. */
  #try<T>(encode: () => T): T | undefined {
    try {
      return encode();
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      this.#refusedBatches++;
      reportFailure('making a batch', error);
      return undefined;
    }
  }

  /** Drops held batches outside the last steps and the results. */
  #forgetOld(): void {
    const oldest = this.#parts.flightRecorderSteps === 0 ? this.#watermark : (this.#recentSteps[0]?.start ?? Number.NEGATIVE_INFINITY);
    this.#flightRecorder.forgetBefore(oldest, this.#results.since, this.#results.until);
  }

  /** The recorder's own counts: the merge compares them with what arrived. */
  #addRecorded(): void {
    const counts = { ...this.#recorded };
    addCounts(counts, this.#summary.recorded);
    for (const { drain } of this.#threads.all) drain.countOpen(counts);
    this.addFact(recordedKey, JSON.stringify(counts));
  }

  #addDeviceSteps(): void {
    if (this.#deviceSteps.isKnown) this.addFact(deviceStepsKey, this.#deviceSteps.text);
  }

  #addPlace(builder: BatchBuilder): void {
    const drain = this.#threads.main;
    const place = drain?.running;
    if (drain === undefined || place === undefined) return;
    const text = this.#place.next(place, drain.entered, this.#now() / 1e6);
    if (text !== undefined) addFact(builder, runningKey, text);
  }

  /** Losses before the shipper. */
  get #lost(): Dropped {
    const lost = this.#threads.dropped;
    return { ...lost, events: lost.events + this.deviceLost + this.#refusedEvents, batches: this.#refusedBatches };
  }

  /** RankTime, ns. */
  #now(): number {
    return Number(this.#parts.monotonicNs() - this.#parts.session.epochNs);
  }
}

function addFact(builder: BatchBuilder, key: string, value: string): void {
  builder.append('metadata', { key: builder.string(key), value: builder.string(value) });
}

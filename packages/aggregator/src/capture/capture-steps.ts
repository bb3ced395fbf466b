// The same steps of all ranks in one trace, on demand.
//
//   live ranks? ──► record [from, to] ──► answers ──► write the trace of these steps
//   flush, ≤ 1 s    again each second     or: dead, ended, stuck
//
// Ranks record by step number (the SDK's capture-slots.ts), so the request only has to arrive before the step: `from` lies a little ahead of the
// furthest rank. A rank that is past it all the same mostly has the step in its flight recorder. Ranks that stop progressing are not waited for: a
// silent rank is dead after `captureSilenceMsMax`; ranks are late when none of those awaited finishes a step for long, or when one is past the steps
// without an answer. The result reports both; the trace holds whatever arrived of them.

import { existsSync, readdirSync, rmSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { type CaptureRequest, type CaptureResult, type ControlMessage, isBeside } from '@ranktrace/protocol';
import { mergeSteps, type StepsSource, teeSink } from '@ranktrace/trace';
import type { LiveState, RankProgress, RankWindow, Sender } from '../live/live-state.ts';
import { driveSteps } from '../model/drive-steps.ts';
import { AggregatorError, messageOf } from '../model/errors.ts';
import { aggregatorLimits as limits } from '../model/limits.ts';
import { capturesDirectory } from '../store/capture-files.ts';
import type { RunStore } from '../store/run-store.ts';
import { guard, makeDirectory } from '../store/segment-writer.ts';
import { createTraceWriter, TraceFile } from '../store/trace-file.ts';
import type { StoredSource } from '../store/write-trace.ts';
import { overlapOf, type RecordedWindow, recordWindow, takesWindows } from './record-window.ts';
import { type StepRange, stepsOf, windowOf } from './step-windows.ts';
import { StepsWritten } from './steps-written.ts';

/**
 * Records steps of all ranks of a run and writes their trace. Throws AggregatorError `nothing_captured`, `too_many_captures`, `bad_option`, `closed`,
 * and any error of opening the store or writing the file; rejects with the signal's reason when it is aborted.
 */
export type CaptureSteps = (run: string, request: Omit<CaptureRequest, 'run'>, signal?: AbortSignal) => Promise<CaptureResult>;

export interface StepCapturesParts {
  readonly live: LiveState;
  /** The store of a run; throws AggregatorError `store_…`. */
  readonly store: (run: string) => RunStore;
  /** Throws AggregatorError `store_missing` where there is no such run; opens none. */
  readonly checkRun: (run: string) => void;
  readonly broadcast: (message: ControlMessage) => void;
  readonly onNotice: (notice: string) => void;
  /** Replaces `captureSilenceMsMax`; for tests. */
  readonly silenceMsMax?: number;
}

/** Result of one rank at the end of a capture. */
interface Outcome {
  readonly rank: number;
  readonly is: 'whole' | 'late' | 'dead';
  readonly note: string;
}

export class StepCaptures {
  readonly #parts: StepCapturesParts;
  readonly #closed = new AbortController();
  readonly #running = new Set<Promise<unknown>>();
  /** Paths of traces that are being written. */
  readonly #writing = new Set<string>();

  constructor(parts: StepCapturesParts) {
    this.#parts = parts;
  }

  readonly capture: CaptureSteps = async (run, request, signal) => {
    if (this.#closed.signal.aborted) throw closed();
    if (this.#running.size >= limits.capturesAtOnceMax) {
      throw new AggregatorError(
        'too_many_captures',
        `Cannot capture steps of run "${run}": ${this.#running.size} captures are running already`,
      );
    }
    const ends = signal === undefined ? this.#closed.signal : AbortSignal.any([this.#closed.signal, signal]);
    const capture = this.#capture(run, request, ends);
    this.#running.add(capture);
    try {
      return await capture;
    } finally {
      this.#running.delete(capture);
    }
  };

  /** Aborts the captures in progress. */
  async close(): Promise<void> {
    this.#closed.abort(closed());
    await Promise.allSettled([...this.#running]);
  }

  async #capture(run: string, request: Omit<CaptureRequest, 'run'>, signal: AbortSignal): Promise<CaptureResult> {
    const { live } = this.#parts;
    const { pull, steps = 1, seconds } = request;
    const alive = await this.#whoLives(run, signal);
    const asked = live.progress(run).filter(({ rank }) => alive.has(rank));
    const isByTime = seconds !== undefined || (asked.length > 0 && asked.every(({ recordsWindows }) => recordsWindows));
    if (isByTime) return await this.#captureWindow(run, request, signal);
    if (request.last === true) return await this.#captureLast(run, this.#lastOf(run, alive, { fromStep: request.fromStep, steps }), signal);
    // A recorder beside a rank has what its devices do, for the time of the steps.
    const besides = asked.filter(({ beside }) => beside !== undefined && performance.now() - beside.heardAt <= this.#silenceMsMax);
    const hasBeside = besides.length > 0;
    const fromStep = request.fromStep ?? this.#soon(run, alive, hasBeside ? limits.captureWindowLeadMs : 0);
    const range = { fromStep, toStep: fromStep + steps - 1 };
    // Requests for past steps look the same: ranks have them in their flight recorders, and answer which.
    const ranges = pull === undefined ? [range] : [pull, range];
    const recording = hasBeside ? this.#recordWindow(run, this.#windowMs(run, steps), signal) : undefined;
    const [window] = await Promise.all([recording, this.#answers(run, ranges, signal)]);
    const trace = await this.#writeSteps(run, ranges, signal, { answers: window?.answers });
    const notes = [...(pull === undefined ? [] : pullNotes(live.progress(run), pull)), ...besideNotes(besides, window?.answers)];
    return this.#result(run, trace, range, notes);
  }

  /** Captures steps that are over, and after them the running one. */
  async #captureLast(run: string, range: StepRange, signal: AbortSignal): Promise<CaptureResult> {
    const { fromStep, toStep } = range;
    const wanted = { fromStep, toStep: Math.max(fromStep, toStep) };
    if (fromStep <= toStep) await this.#answers(run, [range], signal);
    const withRunning = { fromStep, toStep: Math.max(fromStep, toStep + 1) };
    this.#parts.broadcast({ type: 'pull', run, ...withRunning });
    await this.#quiet(run, signal);
    const trace = await this.#writeSteps(run, [withRunning], signal, { called: wanted });
    return this.#result(run, trace, wanted, []);
  }

  /** The wanted steps that are over on all live ranks; none is over where the last is before the first. */
  #lastOf(
    run: string,
    alive: ReadonlySet<number>,
    { fromStep, steps }: { readonly fromStep: number | undefined; readonly steps: number },
  ): StepRange {
    const ranks = this.#parts.live.progress(run);
    const asked = ranks.filter(({ rank }) => alive.has(rank));
    const over = Math.min(...(asked.length > 0 ? asked : ranks).map(({ step }) => step));
    const from = fromStep ?? Math.max(0, over - steps + 1);
    return { fromStep: from, toStep: Math.min(from + steps - 1, over) };
  }

  /** Captures a window of time of the ranks whose recorder knows times. */
  async #captureWindow(
    run: string,
    { seconds, steps, last, pull }: Omit<CaptureRequest, 'run'>,
    signal: AbortSignal,
  ): Promise<CaptureResult> {
    if (!this.#parts.live.progress(run).some((rank) => takesWindows(rank) && !rank.ended)) {
      const wanted = 'no agent (ranktrace agent) records its ranks, and a window in seconds is for PyTorch ranks beside one: give --steps';
      throw new AggregatorError('nothing_captured', `Cannot capture a window of run "${run}": ${wanted}`);
    }
    const durationMs = seconds === undefined ? this.#windowMs(run, steps ?? 1) : Math.max(1, Math.round(1000 * seconds));
    const { answers, unixMs } = await this.#recordWindow(run, durationMs, signal);
    const owns = new Map(this.#parts.live.progress(run).map(({ rank, sender }) => [rank, sender]));
    const { path, written } = await this.#write(
      run,
      `window-${new Date(unixMs).toISOString().replaceAll(/[-:]/g, '').replace(/\..*/, 'Z')}`,
      (source, onUnreadable) => windowIn(source, answers.get(source.rank), owns.get(source.rank), onUnreadable),
      `a window of ${durationMs / 1000} s of run "${run}": ${[...answers].map(([rank, { note = 'no detail' }]) => `rank ${rank}: ${note}`).join('; ') || 'no rank answered'}`,
      signal,
    );
    const range = { unixMs, seconds: durationMs / 1000, overlap: overlapOf(answers.values()) };
    const isForward = last === true || pull !== undefined;
    const notes = isForward ? ['PyTorch ranks record forward only: the window lies after the request'] : [];
    return this.#resultOf(run, path, { window: range }, this.#windowOutcomes(run, answers), [...notes, ...lossNotes(written)]);
  }

  #recordWindow(run: string, durationMs: number, signal: AbortSignal): Promise<RecordedWindow> {
    const { live, broadcast } = this.#parts;
    return recordWindow({ live, broadcast, silenceMsMax: this.#silenceMsMax }, run, durationMs, signal);
  }

  /** Time for `steps` steps, ms: their length where one is known, for PyTorch ranks from earlier captures. */
  #windowMs(run: string, steps: number): number {
    const stepMs = this.#stepMs(run);
    if (!Number.isFinite(stepMs)) return limits.captureWindowMsDefault;
    // One more, for the window begins in the midst of a step.
    return Math.round(Math.min(limits.captureWindowMsMax, Math.max(limits.captureWindowMsDefault / 4, (steps + 1) * stepMs)));
  }

  #windowOutcomes(run: string, answers: RecordedWindow['answers']): readonly Outcome[] {
    const now = performance.now();
    return this.#ofAllRanks(run, (progress): Outcome => {
      const { rank, ended, heardAt } = progress;
      const answer = answers.get(rank);
      if (answer?.state === 'shipped') return { rank, is: 'whole', note: answer.note === undefined ? '' : `rank ${rank}: ${answer.note}` };
      const why = answer?.note === undefined ? '' : `: ${answer.note}`;
      if (ended) return { rank, is: 'dead', note: `rank ${rank} ended${why}` };
      if (!takesWindows(progress)) return { rank, is: 'late', note: `rank ${rank} records steps, not windows: --steps` };
      if (now - heardAt > this.#silenceMsMax)
        return {
          rank,
          is: 'dead',
          note: `rank ${rank} says nothing for ${Math.round((now - heardAt) / 1000)} s: its agent, or its host, is gone${why}`,
        };
      return { rank, is: 'late', note: `rank ${rank} has no part in it${why || ': its file did not come in time'}` };
    });
  }

  #result(run: string, { path, written }: CapturedTrace, range: StepRange, more: readonly string[]): CaptureResult {
    const outcomes = this.#outcomes(run, range).map((outcome) => asWritten(outcome, range, written.steps.get(outcome.rank)));
    return this.#resultOf(run, path, range, outcomes, [...more, ...lossNotes(written)]);
  }

  #resultOf(
    run: string,
    path: string,
    range: Pick<CaptureResult, 'fromStep' | 'toStep' | 'window'>,
    outcomes: readonly Outcome[],
    more: readonly string[],
  ): CaptureResult {
    const ranks = (is: Outcome['is']): number[] => outcomes.flatMap((outcome) => (outcome.is === is ? [outcome.rank] : []));
    const notes = [...outcomes.flatMap(({ note }) => (note === '' ? [] : [note])), ...more];
    return { run, path, ...range, ranks: ranks('whole'), late: ranks('late'), dead: ranks('dead'), notes };
  }

  /** Ranks that answer a flush. Throws AggregatorError `nothing_captured` where all have ended. */
  async #whoLives(run: string, signal: AbortSignal): Promise<ReadonlySet<number>> {
    const { live, broadcast } = this.#parts;
    const asked = performance.now();
    const goOn = (): RankProgress[] => live.progress(run).filter(({ ended }) => !ended);
    if (goOn().length === 0) {
      this.#parts.checkRun(run);
      throw new AggregatorError('nothing_captured', `Cannot capture steps of run "${run}": none of its ranks goes on`);
    }
    broadcast({ type: 'flush' });
    const heard = (): RankProgress[] => goOn().filter(({ heardAt }) => heardAt >= asked);
    while (heard().length < goOn().length && performance.now() - asked < limits.captureAskMs) await pause(signal);
    return new Set(heard().map(({ rank }) => rank));
  }

  /** A step that no rank will have reached when the request arrives, and none `aheadMs` before that. */
  #soon(run: string, alive: ReadonlySet<number>, aheadMs: number): number {
    const ranks = this.#parts.live.progress(run);
    const asked = ranks.filter(({ rank }) => alive.has(rank));
    const newest = Math.max(-1, ...(asked.length > 0 ? asked : ranks).map(({ step }) => step));
    const stepMs = Math.max(this.#stepMs(run), 0.01);
    const lead = Math.min(Math.ceil(limits.captureLeadMs / stepMs), limits.captureLeadStepsMax);
    // `newest` is over; the step after it is running.
    return newest + 2 + lead + Math.round(aheadMs / stepMs);
  }

  /** Mean length of the last steps of the rank with the shortest ones; Infinity while there are none. */
  #stepMs(run: string): number {
    const { live } = this.#parts;
    const means = live.progress(run).map(({ rank }) => {
      const last = live.steps(run, rank).slice(-16);
      return last.length === 0 ? Number.POSITIVE_INFINITY : last.reduce((sum, { length }) => sum + length, 0) / last.length / 1e6;
    });
    return Math.min(Number.POSITIVE_INFINITY, ...means);
  }

  /** Asks until each rank has answered or is no longer waited for. */
  async #answers(run: string, ranges: readonly StepRange[], signal: AbortSignal): Promise<void> {
    const { live, broadcast } = this.#parts;
    const began = performance.now();
    const stepMs = this.#stepMs(run);
    const stallMs = Math.min(limits.captureStallMsMax, Math.max(limits.captureStallMsMin, limits.captureStallSteps * stepMs));
    let moved = { key: '', at: began };
    let askedAt = Number.NEGATIVE_INFINITY;
    /** Time when a rank was seen past all of the steps, ms: a client that does not know `record` never answers. */
    const past = new Map<number, number>();
    const last = Math.max(...ranges.map(({ toStep }) => toStep));
    for (;;) {
      const now = performance.now();
      const ranks = live.progress(run);
      for (const { rank, step } of ranks) if (step >= last && !past.has(rank)) past.set(rank, now);
      const waiting = ranks.filter(
        (rank) => isWaitedFor(rank, ranges) && now - Math.min(rank.heardAt, past.get(rank.rank) ?? now) <= this.#silenceMsMax,
      );
      const key = `${waiting.length} ranks, ${waiting.reduce((sum, { step }) => sum + step, 0)} steps`;
      if (key !== moved.key) moved = { key, at: now };
      const isStuck = waiting.length > 0 && now - moved.at > stallMs;
      if (isStuck || now - began > limits.captureWaitMsMax) {
        // The steps in progress are still in the flight recorders.
        for (const range of ranges) broadcast({ type: 'pull', run, ...range });
        await this.#quiet(run, signal);
        return;
      }
      // An answer comes after the events that it is about.
      if (waiting.length === 0) return;
      if (now - askedAt >= limits.captureAskMs) {
        askedAt = now;
        // Repeats the request: a rank that was not connected missed it, and the others report their progress.
        for (const range of ranges) broadcast({ type: 'record', run, ...range });
      }
      await pause(signal);
    }
  }

  /** Resolves when every rank that lives was heard, and then no batch of the run came for a moment: the last requested data has arrived. */
  async #quiet(run: string, signal: AbortSignal): Promise<void> {
    const { live } = this.#parts;
    const begin = performance.now();
    const isHeard = ({ ended, heardAt }: RankProgress): boolean => ended || heardAt >= begin || begin - heardAt > this.#silenceMsMax;
    const isQuiet = (): boolean =>
      live.progress(run).every(isHeard) && performance.now() - Math.max(begin, live.lastBatchAt(run)) >= limits.flushQuietMs;
    while (performance.now() - begin < limits.flushWaitMsMax && !isQuiet()) await pause(signal);
  }

  /** `answers`: of recorders beside ranks. `called`: the steps that name the file. Default: all. */
  #writeSteps(
    run: string,
    ranges: readonly StepRange[],
    signal: AbortSignal,
    { answers, called }: { readonly answers?: RecordedWindow['answers'] | undefined; readonly called?: StepRange } = {},
  ): Promise<CapturedTrace> {
    const named = called === undefined ? ranges : [called];
    const [from, to] = [Math.min(...named.map(({ fromStep }) => fromStep)), Math.max(...named.map(({ toStep }) => toStep))];
    const which = from === to ? `step ${from}` : `steps ${from} to ${to}`;
    const read = (source: StoredSource, onUnreadable: (error: unknown) => void) =>
      isBeside(source.incarnation)
        ? windowIn(source, answers?.get(source.rank), undefined, onUnreadable)
        : driveSteps(stepsOf(source, ranges, onUnreadable), { signal });
    return this.#write(
      run,
      `steps-${from}-${to}`,
      read,
      `${which} of run "${run}": no rank has ${from === to ? 'it' : 'any of them'}`,
      signal,
    );
  }

  /** `read`: the part of a source that is wanted. `what`: that is missing where no source has any. */
  async #write(
    run: string,
    name: string,
    read: (source: StoredSource, onUnreadable: (error: unknown) => void) => Promise<StepsSource | undefined> | StepsSource | undefined,
    what: string,
    signal: AbortSignal,
  ): Promise<CapturedTrace> {
    const store = this.#parts.store(run);
    // Takes the latest life of each rank, and what is beside it.
    const latest = store.sources().filter(({ isLatest, incarnation }) => isLatest || isBeside(incarnation));
    const onUnreadable = (error: unknown): void => this.#parts.onNotice(`A batch is left out of a capture: ${messageOf(error)}`);
    const lost = this.#lost(run);
    const sources: StepsSource[] = [];
    for (const source of latest) {
      const found = await read(source, onUnreadable);
      if (found !== undefined) sources.push({ ...found, isLost: lost.has(found.rank) });
    }
    if (sources.length === 0) throw new AggregatorError('nothing_captured', `Cannot capture ${what}`);
    const directory = resolve(capturesDirectory(store.directory));
    guard(directory, () => makeDirectory(directory));
    this.#makeRoom(directory);
    const path = this.#freePath(join(directory, name));
    this.#writing.add(path);
    const file = new TraceFile(path);
    try {
      const written = new StepsWritten();
      const sink = teeSink(createTraceWriter('perfetto', file.write), written);
      await driveSteps(mergeSteps(sources, sink), { signal, between: () => file.drained() });
      await file.commit();
      return { path, written };
    } catch (error) {
      await file.discard();
      throw error;
    } finally {
      this.#writing.delete(path);
    }
  }

  #outcomes(run: string, range: StepRange): readonly Outcome[] {
    const now = performance.now();
    return this.#ofAllRanks(run, (rank) => outcomeOf(rank, range, now - rank.heardAt, now - rank.heardAt > this.#silenceMsMax));
  }

  /** The outcome of each rank of the run, those included of which nothing came. */
  #ofAllRanks(run: string, of: (rank: RankProgress) => Outcome): readonly Outcome[] {
    const { live } = this.#parts;
    const known = live.progress(run).map(of);
    const seen = new Set(known.map(({ rank }) => rank));
    const missing = Array.from({ length: live.worldSize(run) }, (_, rank) => rank).filter((rank) => !seen.has(rank));
    const never = missing.map((rank): Outcome => ({ rank, is: 'dead', note: `rank ${rank}: nothing came from it yet` }));
    return [...known, ...never].sort((a, b) => a.rank - b.rank);
  }

  /** Ranks that have not said goodbye, and say nothing any more. */
  #lost(run: string): ReadonlySet<number> {
    const now = performance.now();
    const isLost = ({ ended, heardAt }: RankProgress): boolean => !ended && now - heardAt > this.#silenceMsMax;
    return new Set(this.#parts.live.progress(run).flatMap((rank) => (isLost(rank) ? [rank.rank] : [])));
  }

  get #silenceMsMax(): number {
    return this.#parts.silenceMsMax ?? limits.captureSilenceMsMax;
  }

  /** `BASE.pftrace`, with a number if that name is taken or reserved. */
  #freePath(base: string): string {
    for (let number = 1; ; number++) {
      const path = number === 1 ? `${base}.pftrace` : `${base}-${number}.pftrace`;
      if (!existsSync(path) && !this.#writing.has(path)) return path;
    }
  }

  /** Deletes the oldest captures to make room for a new one. */
  #makeRoom(directory: string): void {
    const paths = readdirSync(directory)
      .filter((name) => name.endsWith('.pftrace'))
      .map((name) => ({ path: join(directory, name), at: statSync(join(directory, name)).mtimeMs }))
      .sort((a, b) => a.at - b.at);
    for (const { path } of paths.slice(0, Math.max(0, paths.length + 1 - limits.capturesPerRunMax))) {
      rmSync(path, { force: true });
      this.#parts.onNotice(`"${path}" was removed: a run keeps ${limits.capturesPerRunMax} captures`);
    }
  }
}

interface CapturedTrace {
  readonly path: string;
  readonly written: StepsWritten;
}

/** Notes about what ranks lost in the time of the trace. */
const lossNotes = ({ dropped }: StepsWritten): string[] =>
  [...dropped].flatMap(([rank, { events, batches }]) => {
    const lost = [events > 0 ? `${events} events` : '', batches > 0 ? `${batches} batches` : ''].filter((text) => text !== '');
    return lost.length === 0 ? [] : [`rank ${rank} lost ${lost.join(' and ')} in that time`];
  });

/** The outcome of a rank by its trace: an answer is no proof that its steps are there. */
function asWritten(outcome: Outcome, { fromStep, toStep }: StepRange, steps: ReadonlySet<number> = new Set()): Outcome {
  if (outcome.is !== 'whole') return outcome;
  const { rank } = outcome;
  let lacking = 0;
  for (let step = fromStep; step <= toStep; step++) if (!steps.has(step)) lacking++;
  if (lacking === 0) return outcome;
  return { rank, is: 'late', note: `rank ${rank} says that it has the steps, and ${lacking} of them are not in the trace` };
}

/**
 * The window in a source: of the recording that has it, or of the rank's `own` recording of that time, where one beside it has the window and both read one
 * clock.
 */
function windowIn(
  source: StoredSource,
  { state, from, until, sender }: Partial<RankWindow> = {},
  own: Sender | undefined,
  onUnreadable: (error: unknown) => void,
): StepsSource | undefined {
  if (state !== 'shipped' || from === undefined || until === undefined || sender === undefined) return undefined;
  if (source.incarnation === sender.incarnation) return windowOf(source, from, until, onUnreadable);
  if (source.incarnation !== own?.incarnation || own.host !== sender.host) return undefined;
  const later = Number(BigInt(sender.epoch) - BigInt(own.epoch));
  return windowOf(source, from + later, until + later, onUnreadable);
}

/** Notes about ranks whose recorder beside them has no part. */
const besideNotes = (ranks: readonly RankProgress[], answers: RecordedWindow['answers'] = new Map()): string[] =>
  ranks.flatMap(({ rank }) => {
    const { state, note = 'no file came in time' } = answers.get(rank) ?? {};
    return state === 'shipped' ? [] : [`rank ${rank}: what PyTorch records beside it is missing: ${note}`];
  });

type Answer = RankProgress['captured'][number];

function answerOf({ captured }: RankProgress, { fromStep, toStep }: StepRange): Answer | undefined {
  return captured.find((answer) => answer.fromStep === fromStep && answer.toStep === toStep);
}

const isWaitedFor = (rank: RankProgress, ranges: readonly StepRange[]): boolean =>
  !rank.ended && ranges.some((range) => answerOf(rank, range) === undefined);

const isWhole = (answer: Answer | undefined): boolean => answer?.firstStep === answer?.fromStep && answer?.lastStep === answer?.toStep;

/** Notes about past steps that ranks reported as missing. */
function pullNotes(ranks: readonly RankProgress[], pull: StepRange): string[] {
  const sorted = [...ranks].sort((a, b) => a.rank - b.rank);
  return sorted.flatMap((progress) => {
    const answer = answerOf(progress, pull);
    if (answer === undefined || isWhole(answer)) return [];
    const { firstStep, lastStep } = answer;
    const there = firstStep === null ? 'none' : `steps ${firstStep} to ${lastStep}`;
    return [`rank ${progress.rank}: of steps ${pull.fromStep} to ${pull.toStep} its flight recorder had ${there}`];
  });
}

/** `isSilent`: nothing came from the rank for `silentMs`. */
function outcomeOf(progress: RankProgress, range: StepRange, silentMs: number, isSilent: boolean): Outcome {
  const { rank, step, ended } = progress;
  const answer = answerOf(progress, range);
  if (answer !== undefined && isWhole(answer)) return { rank, is: 'whole', note: '' };
  const some =
    answer?.firstStep === undefined || answer.firstStep === null
      ? 'it has none of the steps at full detail'
      : `it has steps ${answer.firstStep} to ${answer.lastStep}`;
  if (ended) return { rank, is: 'dead', note: `rank ${rank} ended after step ${step}: ${some}` };
  if (answer !== undefined) return { rank, is: 'late', note: `rank ${rank} is late: ${some}` };
  const seconds = Math.round(silentMs / 1000);
  if (isSilent) return { rank, is: 'dead', note: `rank ${rank} says nothing for ${seconds} s, since step ${step}` };
  const note = step >= range.toStep ? 'does not say what it recorded' : `is stuck after step ${step}`;
  return { rank, is: 'late', note: `rank ${rank} ${note}` };
}

const pause = (signal: AbortSignal): Promise<unknown> =>
  wait(limits.captureLookMs, undefined, { signal }).catch(() => signal.throwIfAborted());

const closed = (): AggregatorError => new AggregatorError('closed', 'Cannot capture steps: the service ends');

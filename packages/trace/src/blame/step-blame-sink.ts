// Collects blame's input from the merge that writes the trace: steps, their phases with places, and collectives of all ranks.
//
//   spans of phases ─┐
//   collectives ─────┼─► all since the rank's last step ─► step of the rank ─► the last steps of all ranks ─► BlameWindow
//   steps (at end) ──┘        (matched with the other ranks' parts meanwhile)                                     ▲
//   counter `cpu wait` ──────────────────────────────────────────────────────────────────────────────────────────┘
//
// Memory: `blameLimits`: the last steps at full detail; of the run's beginning the levels for `blameOf`.

import { cpuWaitCounter, cpuWaitTimeCounter, isBeside, isWaitingRole, loaderWorkersKey } from '@ranktrace/protocol';
import { finish } from '../model/finish.ts';
import { isOverflowOf } from '../model/lanes.ts';
import { StretchQueue } from '../model/stretch-queue.ts';
import type { TraceEvent, TraceHeader, TraceLane, TraceProcess, TraceSink } from '../model/trace-sink.ts';
import { type PhaseRoles, phaseRolesOf } from '../steps/phase-role.ts';
import { stepLimits } from '../steps/step-limits.ts';
import { isLapOver } from '../steps/step-summary.ts';
import { type Blame, judgeWindow } from './blame.ts';
import { type BlameLevels, baselineSteps, blameOf, changeStepsMin, levelsOf, warmUpSteps } from './blame-change.ts';
import { blameLimits as limits } from './blame-limits.ts';
import type { BlameRank, BlameWindow, RankStep } from './blame-window.ts';
import { CollectiveParts } from './collective-parts.ts';
import { ExposedTime } from './exposed-time.ts';
import { LoaderQueues, type LoaderTimes } from './loader-queues.ts';
import { OpNames, OpTimer } from './op-times.ts';
import { PhaseNames } from './phase-names.ts';
import { cutWindow, type RawCollective, type RawStep } from './raw-steps.ts';

interface Candidate {
  /** Line of its track: phases that overlap slightly, by clocks and threads, lie on several lanes of one track. */
  readonly track: number;
  readonly name: string;
  readonly from: number;
  readonly until: number;
  readonly isAsync: boolean;
}

interface Process {
  readonly about: TraceProcess;
  readonly exposed: ExposedTime;
  readonly ops: OpTimer;
  /** Its threads' own lines. */
  readonly threads: TraceLane[];
  spans: Candidate[];
  collectives: RawCollective[];
  /** Latest samples of what its threads waited for a CPU, in order of time: of the time that they wanted one, and of all time. */
  readonly cpuWaits: Sample[];
  readonly cpuWaitTimes: Sample[];
  steps: number;
  /** The greatest number of a step since numbers went back, and how often they did. */
  lastStep: number;
  laps: number;
  lastEnd: number;
}

export interface StepBlameOptions {
  /** Default `blameLimits.blameStepsMax`. */
  readonly stepsMax?: number;
  /** The run's beginning, if the sink does not see it. */
  readonly beginning?: BlameLevels | undefined;
  /** Called with the numbers of all held steps, ascending, before the first of them is forgotten. */
  readonly onForget?: ((held: readonly number[]) => void) | undefined;
  /** Called with the numbers of the steps of lives that are over, ascending, before they are forgotten; they are the held ones meanwhile. */
  readonly onRestart?: ((over: readonly number[]) => void) | undefined;
  /** Called with each step as it comes; `waited`: ns of it in which the rank waited for others, undefined where nothing is known of it. */
  readonly onStep?: ((process: TraceProcess, step: number, length: number, waited: number | undefined) => void) | undefined;
  /** Collectives of the same merge, which they get before the sink; default its own. */
  readonly parts?: CollectiveParts | undefined;
}

/** Names of phases are learnt in these first steps. */
const learningSteps = 2;

export class StepBlameSink implements TraceSink {
  readonly #stepsMax: number;
  readonly #onForget: StepBlameOptions['onForget'];
  readonly #onRestart: StepBlameOptions['onRestart'];
  readonly #onStep: StepBlameOptions['onStep'];
  #roles: PhaseRoles | undefined;
  readonly #parts: CollectiveParts;
  readonly #ownsParts: boolean;
  readonly #processes = new Map<number, Process>();
  /** The same by process index. */
  readonly #byIndex: (Process | undefined)[] = [];
  /** By rank, its last life that has ended a step. */
  readonly #begun = new Map<number, number>();
  /** Overflow lane → the line that it overflows from. */
  readonly #trackOf = new Map<number, number>();
  readonly #phases = new PhaseNames();
  /** Steps of all ranks, in order of time. */
  readonly #toKeep = new StretchQueue<{
    readonly step: number;
    readonly process: TraceProcess;
    readonly raw: RawStep;
    readonly isFirst: boolean;
  }>(({ step, process, raw, isFirst }) => {
    if (isFirst) this.#begin(process);
    this.#keep(step, process.index, raw);
  });
  /** By step number, then process index. */
  #steps = new Map<number, Map<number, RawStep>>();
  /** The same of lives that are over. */
  #over: Map<number, Map<number, RawStep>> | undefined;
  /** Steps cut into pieces, which several windows share; undefined before the end, as meetings and phases may still come. */
  #cutSteps: Map<RawStep, RankStep> | undefined;
  #hasDevices = false;
  readonly #queues = new LoaderQueues();
  #loaders: { readonly range: string; readonly times: LoaderTimes | undefined } | undefined;
  #pieces = 0;
  #forgotten = 0;
  #forgottenUpTo = Number.NEGATIVE_INFINITY;
  #isRestarted = false;
  #beginning: BlameLevels | undefined;
  #header: TraceHeader | undefined;
  readonly #opNames = new OpNames();

  constructor({ stepsMax = limits.blameStepsMax, beginning, onForget, onRestart, onStep, parts }: StepBlameOptions = {}) {
    this.#parts = parts ?? new CollectiveParts();
    this.#ownsParts = parts === undefined;
    this.#stepsMax = stepsMax;
    this.#beginning = beginning;
    this.#onForget = onForget;
    this.#onRestart = onRestart;
    this.#onStep = onStep;
  }

  begin(header: TraceHeader): void {
    this.#header = header;
    this.#roles = phaseRolesOf(header.processes);
    this.#toKeep.begin(header);
    if (this.#ownsParts) this.#parts.begin(header);
    for (const about of header.processes) {
      const process = {
        about,
        exposed: new ExposedTime(),
        ops: new OpTimer(),
        threads: [],
        spans: [],
        collectives: [],
        cpuWaits: [],
        cpuWaitTimes: [],
        steps: 0,
        lastStep: Number.NEGATIVE_INFINITY,
        laps: 0,
      };
      const begun: Process = { ...process, lastEnd: Number.NaN };
      this.#processes.set(about.index, begun);
      this.#byIndex[about.index] = begun;
    }
  }

  lane(lane: TraceLane): void {
    if (lane.kind === 'stream') this.#hasDevices = true;
    const threads = this.#processes.get(lane.process.index)?.threads;
    if (threads === undefined || lane.kind !== 'thread') return;
    const own = threads.findLast((thread) => isOverflowOf(lane, thread));
    if (own !== undefined) this.#trackOf.set(lane.index, own.index);
    else if (threads.length < limits.blameThreadsMax) threads.push(lane);
  }

  event(event: TraceEvent): void {
    if (this.#ownsParts) this.#parts.event(event);
    const process = this.#byIndex[event.lane.process.index];
    if (process === undefined) return;
    if (event.kind === 'span') this.#span(process, event);
    else if (event.kind === 'collective') this.#collective(process, event);
    else if (event.kind === 'step') this.#step(process, event);
    else if (event.kind === 'counter' && event.name === cpuWaitCounter && event.value <= 100) sample(process.cpuWaits, event);
    else if (event.kind === 'counter' && event.name === cpuWaitTimeCounter) sample(process.cpuWaitTimes, event);
  }

  endStretch(): void {
    if (this.#ownsParts) this.#parts.endStretch();
    this.#toKeep.endStretch();
  }

  end(): void {
    if (this.#ownsParts) this.#parts.end([]);
    this.#toKeep.endStretch();
    this.#cutSteps = new Map();
  }

  /** The last steps, as far as all ranks have reported them. */
  get window(): BlameWindow {
    return finish(this.cutting());
  }

  /** The same, of those that `isIn` takes; yields after each step. */
  *cutting(isIn: (step: number) => boolean = () => true): Generator<void, BlameWindow> {
    return yield* this.#cut(this.held.filter(isIn));
  }

  /** Numbers of the held steps, ascending. */
  get held(): number[] {
    return [...this.#steps.keys()].sort((a, b) => a - b);
  }

  /** Length of the step on its slowest rank, ns; 0 if it is not held. */
  lengthOf(step: number): number {
    let longest = 0;
    for (const { length } of this.#steps.get(step)?.values() ?? []) longest = Math.max(longest, length);
    return longest;
  }

  /** A window of the given held steps. */
  windowOf(numbers: readonly number[]): BlameWindow {
    return finish(this.#cut(numbers));
  }

  /** Blame of the last steps, and their change from the run's beginning. */
  get blame(): Blame {
    return finish(this.judging());
  }

  /** The same for steps from `since` on; yields as often as it can. */
  *judging(since = Number.NEGATIVE_INFINITY): Generator<void, Blame> {
    this.settleOver();
    const numbers = this.held;
    const last = numbers.filter((step) => step >= since);
    const window = yield* this.#cut(last);
    // A life that has just begun warms up.
    const isLong = this.#isRestarted
      ? last.length >= warmUpSteps + baselineSteps
      : this.#beginning !== undefined || numbers.length + this.#forgotten >= changeStepsMin;
    if (isLong) this.#beginning ??= levelsOf(yield* this.#cut(numbers.slice(warmUpSteps, warmUpSteps + baselineSteps)));
    const before = isLong ? this.#beginning : undefined;
    const now = before === undefined ? undefined : levelsOf(yield* this.#cut(last.slice(-baselineSteps)));
    yield;
    const missing = this.missingRanks;
    return yield* judgeWindow(window, { missing, change: before && now && blameOf(before, now) });
  }

  /** The run's beginning, once it is judged or the run is so long that steps are forgotten. */
  get beginning(): BlameLevels | undefined {
    return this.#beginning;
  }

  /** Ranks that sent nothing. */
  get missingRanks(): number[] {
    const seen = new Set((this.#header?.processes ?? []).map(({ rank }) => rank));
    return Array.from({ length: this.#header?.worldSize ?? 0 }, (_, rank) => rank).filter((rank) => !seen.has(rank));
  }

  #span(process: Process, { lane, state, start, length, name, category, isAsync }: TraceEvent): void {
    if (state === 'open') return;
    const isThread = lane.kind === 'thread';
    if (isThread && (process.steps < learningSteps || (this.#phases.size > 0 && this.#phases.has(name)))) {
      if (process.spans.length < limits.blameSpansPendingMax) {
        process.spans.push({ track: this.#trackOf.get(lane.index) ?? lane.index, name, from: start, until: start + length, isAsync });
      }
    }
    process.exposed.span(lane, category, start, start + length);
    // A span begun in an earlier batch comes late: its place among the others is lost.
    if (isThread && state === 'whole') process.ops.span(lane.index, name, start, start + length);
  }

  #collective(process: Process, event: TraceEvent): void {
    const { lane, state, start, length, name: op, isAsync } = event;
    const raw = this.#parts.part;
    if (raw !== undefined && process.collectives.length < limits.blameCollectivesPerStepMax) {
      process.collectives.push(raw);
      process.exposed.collective(lane, raw);
    }
    if (lane.kind === 'thread' && state !== 'open' && process.spans.length < limits.blameSpansPendingMax) {
      process.spans.push({ track: this.#trackOf.get(lane.index) ?? lane.index, name: op, from: start, until: start + length, isAsync });
    }
  }

  #step(process: Process, { step, start, length, phases }: TraceEvent): void {
    const end = start + length;
    const isNextLap = isLapOver({ last: process.lastStep, until: process.lastEnd }, step, start) && process.laps < stepLimits.stepLapsMax;
    if (isNextLap) process.laps++;
    process.lastStep = isNextLap ? step : Math.max(process.lastStep, step);
    const isFirst = process.steps === 0;
    if (phases !== undefined) this.#phases.learn(phases, end, isFirst);
    process.steps++;
    const gap = start - process.lastEnd;
    process.lastEnd = end;
    const spans =
      phases === undefined ? [] : process.spans.filter(({ from, until, name }) => from >= start && until <= end && phases.has(name));
    const collectives = process.collectives.filter(({ entry, exit = Number.POSITIVE_INFINITY }) => entry < end && exit > start);
    process.spans = process.spans.filter(({ until }) => until > end);
    process.exposed.until(end);
    this.#onStep?.(process.about, step, length, waitedIn(start, end, collectives) ?? this.#waitedIn(phases));
    const track = trackOf(spans);
    // The thread of the steps has left what held it before its step ended: an end that is still unknown was lost.
    const isLeft = ({ exit, isAsync, lane }: RawCollective): boolean =>
      exit === undefined ? !isAsync && (this.#trackOf.get(lane) ?? lane) === track : exit <= end;
    process.collectives = process.collectives.filter((collective) => !isLeft(collective));
    process.exposed.stepLane = track ?? process.exposed.stepLane;
    const placed = spans.filter((span) => span.track === track);
    const isNear = gap >= 0 && gap < length;
    const raw: RawStep = {
      start,
      length,
      gap: isNear ? gap : 0,
      phases: phases && withinStep(phases, length),
      placed,
      collectives,
      ops: process.ops.take(end, placed, this.#opNames),
    };
    this.#toKeep.add(end, { step, process: process.about, raw, isFirst: isFirst || isNextLap });
  }

  /** Time in phases that wait. */
  #waitedIn(phases: TraceEvent['phases']): number | undefined {
    if (phases === undefined) return undefined;
    let waited = 0;
    for (const [name, time] of phases) if (isWaitingRole(this.#roles?.of(name))) waited += time;
    return waited;
  }

  #keep(number: number, process: number, raw: RawStep): void {
    if (number <= this.#forgottenUpTo) return;
    let step = this.#steps.get(number);
    if (step === undefined) {
      step = new Map();
      this.#steps.set(number, step);
    }
    this.#pieces += sizeOf(raw) - sizeOf(step.get(process));
    step.set(process, raw);
    while (this.#steps.size > 1 && this.#isFull) {
      if (this.#over === undefined) this.#forgetOldest();
      else this.settleOver();
    }
  }

  get #isFull(): boolean {
    const most = this.#over === undefined ? this.#stepsMax : this.#stepsMax >> 1;
    return this.#steps.size > most || this.#pieces > limits.blamePiecesMax;
  }

  /** The first step of a life, or since numbers went back in it: windows hold one lap of each rank. */
  #begin(about: TraceProcess): void {
    if (isBeside(about.incarnation)) return;
    const earlier = this.#begun.get(about.rank);
    this.#begun.set(about.rank, about.index);
    const over = earlier === undefined ? [] : this.held.filter((step) => this.#steps.get(step)?.has(earlier));
    if (over.length === 0) return;
    this.settleOver();
    this.#over = new Map();
    for (const step of over) {
      this.#over.set(step, this.#steps.get(step) as Map<number, RawStep>);
      this.#steps.delete(step);
    }
    this.#forgottenUpTo = Number.NEGATIVE_INFINITY;
  }

  /** Has the steps of lives that are over judged, and forgets them. Not before it must be: meetings may still come. */
  settleOver(): void {
    if (this.#over === undefined) return;
    const held = this.#steps;
    this.#steps = this.#over;
    this.#over = undefined;
    const numbers = this.held;
    this.#keepBeginning(numbers);
    this.#onRestart?.(numbers);
    for (const step of numbers) this.#forget(step);
    this.#steps = held;
    this.#isRestarted = true;
  }

  /** Keeps the run's beginning as a baseline before it is forgotten. */
  #keepBeginning(numbers: readonly number[]): void {
    if (this.#beginning !== undefined || this.#forgotten > 0) return;
    this.#beginning = levelsOf(finish(this.#cut(numbers.slice(warmUpSteps, warmUpSteps + baselineSteps))));
  }

  #forgetOldest(): void {
    const numbers = this.held;
    this.#keepBeginning(numbers);
    this.#onForget?.(numbers);
    const oldest = numbers[0] as number;
    this.#forget(oldest);
    this.#forgottenUpTo = Math.max(this.#forgottenUpTo, oldest);
  }

  #forget(step: number): void {
    for (const raw of this.#steps.get(step)?.values() ?? []) this.#pieces -= sizeOf(raw);
    this.#steps.delete(step);
    this.#forgotten++;
  }

  *#cut(numbers: readonly number[]): Generator<void, BlameWindow> {
    const processes = [...this.#processes.values()].map(({ about }) => about);
    const raw = numbers.map((step) => ({ step, ranks: this.#steps.get(step) ?? new Map() }));
    const cpuWaits = new Map(processes.map(({ index }) => [index, this.#cpuWaitDuring(index, raw[0]?.ranks, raw.at(-1)?.ranks)]));
    const about = {
      groups: this.#parts.groups,
      cpuWaits,
      hasDevices: this.#hasDevices,
      loaders: this.#loaderTimes(),
      known: this.#cutSteps,
    };
    const window = yield* cutWindow(processes, this.#phases.inOrder, raw, about);
    return { ...window, opAt: (op) => this.#opNames.at(op) };
  }

  /** Whether loaders work ahead of the loop; undefined: nothing states it. */
  get #loadAhead(): boolean | undefined {
    const told = [...this.#processes.values()].flatMap(({ about }) => loaderWorkersOf(about) ?? []);
    if (told.length > 0) return told.some((workers) => workers > 0);
    // PyTorch's profiler names spans by the loader's class.
    const names = [...this.#phases.names];
    if (names.some((name) => name.includes('_MultiProcessingDataLoaderIter'))) return true;
    return names.some((name) => name.includes('_SingleProcessDataLoaderIter')) ? false : undefined;
  }

  /** By all held steps: a loader's own time shows in the few in which it has no batches in stock. */
  #loaderTimes(): LoaderTimes | undefined {
    const { held } = this;
    const range = `${held[0]} ${held.at(-1)} ${held.length}`;
    if (this.#loaders?.range !== range) {
      const raw = held.map((step) => ({ step, ranks: this.#steps.get(step) ?? new Map() }));
      const phases = [...this.#phases.names].filter((phase) => this.#roles?.of(phase) === 'data');
      const workersOf = (index: number): number => loaderWorkersOf(this.#processes.get(index)?.about) ?? 1;
      this.#loaders = { range, times: this.#queues.times(raw, phases, this.#loadAhead, workersOf) };
    }
    return this.#loaders.times;
  }

  /** Share of the time from a process's first step to the end of its last one, or its last sample; a sample tells of the time since the one before. */
  #cpuWaitDuring(
    index: number,
    first?: ReadonlyMap<number, RawStep>,
    last?: ReadonlyMap<number, RawStep>,
  ): Pick<BlameRank, 'cpuWait' | 'cpuWaitTime'> {
    const [process, from, until] = [this.#processes.get(index), first?.get(index), last?.get(index)];
    if (process === undefined || from === undefined || until === undefined) return {};
    const end = until.start + until.length;
    return { cpuWait: meanOf(process.cpuWaits, from.start, end), cpuWaitTime: meanOf(process.cpuWaitTimes, from.start, end) };
  }
}

/** A share since the sample before. */
interface Sample {
  readonly at: number;
  readonly share: number;
}

function sample(samples: Sample[], { start, value }: TraceEvent): void {
  if (!(value >= 0 && value < Number.POSITIVE_INFINITY)) return;
  samples.push({ at: start, share: value / 100 });
  if (samples.length > 2 * limits.blameSamplesMax) samples.splice(0, limits.blameSamplesMax);
}

/** From `from` to `end`, or to the last sample before it; undefined without any. */
function meanOf(samples: readonly Sample[], from: number, end: number): number | undefined {
  let [sum, told] = [0, from];
  for (const { at, share } of samples) {
    if (at <= told || told >= end) continue;
    sum += share * (Math.min(at, end) - told);
    told = Math.min(at, end);
  }
  return told > from ? sum / (told - from) : undefined;
}

/** Time of a step in collectives that nothing hides; undefined without collectives. */
function waitedIn(start: number, end: number, collectives: readonly RawCollective[]): number | undefined {
  if (collectives.length === 0) return undefined;
  const stretches = collectives.flatMap(({ entry, exit = end, exposed = [[entry, exit]] }) => exposed).sort(([a], [b]) => a - b);
  let [waited, until] = [0, start];
  for (const [from, to] of stretches) {
    const [since, up] = [Math.max(from, until), Math.min(to, end)];
    if (up <= since) continue;
    waited += up - since;
    until = up;
  }
  return waited;
}

/** Size in pieces, of about 150 bytes each. */
const sizeOf = (raw: RawStep | undefined): number =>
  raw === undefined ? 0 : 1 + raw.placed.length + (raw.phases?.size ?? 0) + 4 * raw.collectives.length + (raw.ops === undefined ? 0 : 3);

/** The track of a step's phases: the one with most time in spans of the same names. */
function trackOf(spans: readonly Candidate[]): number | undefined {
  const time = new Map<number, number>();
  for (const { track, from, until } of spans) time.set(track, (time.get(track) ?? 0) + until - from);
  return [...time].sort(([a, x], [b, y]) => y - x || a - b)[0]?.[0];
}

/** The phases as lengths that fit into the step: where some ran beside others, each has its share of it. */
function withinStep(phases: ReadonlyMap<string, number>, length: number): ReadonlyMap<string, number> {
  let sum = 0;
  for (const phase of phases.values()) sum += phase;
  return sum <= length ? new Map(phases) : new Map([...phases].map(([name, phase]) => [name, (phase * length) / sum]));
}

/** Processes in which a rank's loaders work ahead; 0: none do. Undefined where it is not stated. */
function loaderWorkersOf(process: TraceProcess | undefined): number | undefined {
  const [told] = /^\d{1,9}$/.exec(process?.metadata.get(loaderWorkersKey) ?? '') ?? [];
  return told === undefined ? undefined : Number(told);
}

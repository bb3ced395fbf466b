// The window of each step on a rank's devices, while events come, without holding the work: what a step takes where hosts run ahead of their devices.
//
//   host     │ step 4 ─────│ step 5 ─────│ step 6 ─────│
//   device          ████ 4 ██████████████│██ 5 ███████ 5 ██████│ 6 …
//   window   │ 4 ────────────────────────│ 5 ──────────────────│ 6 …
//
// A window begins where the one before ends, or with the host's step if that is later, and ends with the last work that the step launched, or with the
// host's step. This is the rule of the TensorBoard plugin. Work whose launch is not known is of no step; where no launch is known at all, it belongs to
// the step in which it began.
//
// Memory: 100 bytes a step, up to `deviceStepsMax`; beyond, no windows are known.

import { besideOwners } from '../model/beside-owners.ts';
import { argumentOf } from '../model/event-arguments.ts';
import { kernelCategories } from '../model/kineto-categories.ts';
import { isDeviceKind } from '../model/lanes.ts';
import { LaunchTimes } from '../model/launch-times.ts';
import { isOfFile } from '../model/of-file.ts';
import type { TraceEvent, TraceHeader, TraceProcess } from '../model/trace-sink.ts';
import { stepLimits as limits } from './step-limits.ts';

export interface StepSpan {
  readonly number: number;
  /** ns on the trace's axis. */
  readonly start: number;
  readonly end: number;
}

/** The windows of steps in order of time. `lasts`: by step, the end of the last work that it launched, −∞ for none; `before`: earlier work runs until then. */
export function windowsOf(steps: readonly StepSpan[], lasts: ArrayLike<number>, before: number): StepSpan[] {
  let free = before;
  return steps.map(({ number, start, end }, index) => {
    const from = Math.max(free, start);
    const until = Math.max(from, end, lasts[index] as number);
    free = until;
    return { number, start: from, end: until };
  });
}

/** A step of a host, and its window. */
export interface DeviceWindow {
  readonly host: StepSpan;
  readonly window: StepSpan;
}

interface Step extends StepSpan {
  /** Begin of the first and end of the last work that it launched; infinite for none. */
  first: number;
  last: number;
}

interface Work {
  readonly at: number;
  readonly start: number;
  readonly end: number;
}

interface RankSteps {
  readonly process: TraceProcess;
  /** By start. */
  steps: Step[];
  /** Work that was launched after all these steps. */
  waiting: Work[];
  /** Ends of work of no step, which may be of earlier ones. */
  strays: number[];
  hasWork: boolean;
  /** Whether the launch of any work is known. */
  isLaunched: boolean;
  /** Not all steps are there. */
  isCut: boolean;
}

const workCategories: ReadonlySet<string> = new Set([
  ...kernelCategories,
  ...['collective', 'gpu_memcpy', 'gpu_memset', 'Memcpy', 'Memset'],
]);

/** Whether an event keeps a device busy; waits and annotations there do not. */
const isWork = ({ kind, category, lane }: TraceEvent): boolean =>
  isDeviceKind(lane.kind) && (kind === 'collective' || (kind === 'span' && workCategories.has(category)));

export class DeviceWindows {
  readonly #launches = new LaunchTimes();
  readonly #ranks = new Map<number, RankSteps>();
  #owners: ReadonlyMap<number, TraceProcess> = new Map();
  #owning: ReadonlySet<TraceProcess> = new Set();
  #busyBefore: TraceHeader['busyBefore'];
  #steps = 0;

  begin({ processes, busyBefore }: TraceHeader): void {
    this.#owners = besideOwners(processes);
    this.#owning = new Set(this.#owners.values());
    this.#busyBefore = busyBefore;
  }

  /** Takes every event in order of time; returns the begin of the call that launched it, undefined for all but work of devices with a known one. */
  event(event: TraceEvent): number | undefined {
    const { kind, lane, start, length } = event;
    if (kind === 'step') {
      if (lane.process.hasDevices !== false || this.#owning.has(lane.process)) this.#addStep(this.#rankOf(lane.process), event);
      return undefined;
    }
    if (kind !== 'span' && kind !== 'collective') return undefined;
    const launched = this.#launches.launchOf(event);
    if (event.state === 'open' || !isWork(event)) return launched;
    const rank = this.#rankOf(lane.process);
    rank.hasWork = true;
    if (launched !== undefined && !rank.isLaunched) useLaunches(rank);
    const work = { at: launched ?? start, start, end: start + length };
    if (launched === undefined && rank.isLaunched) addStray(rank, work);
    else addWork(rank, work);
    return launched;
  }

  /** Whether work without a known launch has a number as its process's calls have: it was launched before the recording. */
  isLaunchedBefore(event: TraceEvent): boolean {
    return this.#launches.has(event.lane.process) && (argumentOf(event, 'correlation') ?? 0) !== 0;
  }

  /** Processes that show device work, each as the rank's own. */
  get processes(): readonly TraceProcess[] {
    return [...this.#ranks.values()].filter(({ hasWork }) => hasWork).map(({ process }) => process);
  }

  /** The process that counts the steps of one that an agent recorded beside it; any other is its own. */
  ownerOf(process: TraceProcess): TraceProcess {
    return this.#owners.get(process.index) ?? process;
  }

  /**
   * All steps of a process, in order, each with its window; undefined where they are not all known. Only a file shows that a step without work had none: a
   * rank may record the work of some steps alone.
   */
  of(process: TraceProcess): readonly DeviceWindow[] | undefined {
    const rank = this.#ranks.get(process.index);
    if (rank === undefined || !rank.hasWork || rank.isCut) return undefined;
    const { steps } = rank;
    if (!isOfFile(process) && steps.some(({ last }) => last === Number.NEGATIVE_INFINITY)) return undefined;
    const lasts = steps.map(({ last }) => last);
    return windowsOf(steps, lasts, this.#before(rank)).map((window, at) => ({ host: steps[at] as StepSpan, window }));
  }

  #rankOf(recorded: TraceProcess): RankSteps {
    const process = this.ownerOf(recorded);
    let rank = this.#ranks.get(process.index);
    if (rank === undefined) {
      rank = { process, steps: [], waiting: [], strays: [], hasWork: false, isLaunched: false, isCut: false };
      this.#ranks.set(process.index, rank);
    }
    return rank;
  }

  #addStep(rank: RankSteps, { step: number, start, length }: TraceEvent): void {
    const { steps } = rank;
    const step: Step = { number, start, end: start + length, first: Number.POSITIVE_INFINITY, last: Number.NEGATIVE_INFINITY };
    let at = steps.length;
    while (at > 0 && (steps[at - 1] as Step).start > start) at--;
    steps.splice(at, 0, step);
    this.#steps++;
    const waiting = rank.waiting;
    rank.waiting = [];
    for (const work of waiting) addWork(rank, work);
    const isOver = this.#steps > limits.deviceStepsMax || (!rank.hasWork && steps.length > limits.deviceStepsPendingMax);
    if (!isOver) return;
    this.#steps -= steps.length;
    Object.assign(rank, { steps: [], isCut: true });
  }

  /** When a rank's devices are free for the first step: work of an earlier one may still run as it begins. */
  #before({ process, steps, strays }: RankSteps): number {
    const { start = 0, first = 0 } = steps[0] ?? {};
    let before = Math.max(start, this.#busyBefore?.get(process.index) ?? start);
    if (Number.isFinite(first)) for (const end of strays) if (end <= first) before = Math.max(before, end);
    return before;
  }
}

/** The first launch that is known: work without one before it is of no step. */
function useLaunches(rank: RankSteps): void {
  rank.isLaunched = true;
  for (const step of rank.steps) {
    if (step.last !== Number.NEGATIVE_INFINITY) rank.strays.push(step.last);
    Object.assign(step, { first: Number.POSITIVE_INFINITY, last: Number.NEGATIVE_INFINITY });
  }
  for (const work of rank.waiting) addStray(rank, work);
  rank.waiting = [];
}

function addWork(rank: RankSteps, work: Work): void {
  const { steps, waiting } = rank;
  let at = steps.length - 1;
  while (at >= 0 && (steps[at] as Step).start > work.at) at--;
  const step = steps[at];
  if (step !== undefined && work.at < step.end) {
    step.first = Math.min(step.first, work.start);
    step.last = Math.max(step.last, work.end);
  } else if (step !== undefined && at < steps.length - 1) addStray(rank, work);
  else if (step === undefined && steps.length > 0) addStray(rank, work);
  else {
    waiting.push(work);
    if (waiting.length > 2 * limits.deviceWorkWaitingMax) rank.waiting = waiting.slice(-limits.deviceWorkWaitingMax);
  }
}

/** Only what ends before the first step's own work counts. */
function addStray({ steps, strays }: RankSteps, { start, end }: Work): void {
  if (start > (steps[0]?.first ?? Number.POSITIVE_INFINITY)) return;
  strays.push(end);
  if (strays.length > limits.deviceWorkWaitingMax) strays.splice(0, strays.length / 2);
}

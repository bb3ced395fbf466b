// Summary of each step over all ranks: length, slowest rank, phases. It is a sink, so it rides on the merge that writes the trace.
//
// A cluster's step time is its slowest rank's. Ranks that are started again may count the same steps once more, and so may a program with several
// profilers, one after the other: those are further steps.
//
// Memory: one record a step for the last `stepsMax` steps, and one a life of a rank; the number of steps and the ranks' means cover all.

import { isBeside, type Nanos, nanos } from '@ranktrace/protocol';
import type { TraceEvent, TraceHeader, TraceProcess, TraceSink } from '../model/trace-sink.ts';
import { stepLimits as limits } from './step-limits.ts';

/** One step over the cluster; lengths in ns. */
export interface StepSummary {
  readonly step: number;
  readonly ranks: number;
  readonly shortest: Nanos;
  readonly longest: Nanos;
  /** Over its ranks. Where a rank is late beyond the last collective, the others are in the next step: only means add up to the time that passed. */
  readonly mean: Nanos;
  /** The rank of `longest`. */
  readonly slowestRank: number;
}

/** Breakdown of a rank's step time. */
export interface RankSummary {
  readonly rank: number;
  readonly steps: number;
  /** Number of its last step. */
  readonly last: number;
  /** Begin of its first step and end of its last one, ns of trace time. */
  readonly from: number;
  readonly until: number;
  /** Mean step, ns. */
  readonly mean: Nanos;
  /** Where that is of devices, the mean of the host's, which the phases are parts of. Absent: the same. */
  readonly hostMean?: Nanos;
  /** Share of the steps that recording took on the thread that counts them, 0 … 1. */
  readonly overhead: number;
  /** Mean time per step of each phase, ns, in order of size; last `other`, the rest of the step and any phase of that name. */
  readonly phases: ReadonlyMap<string, Nanos>;
}

/** The steps of one life of a rank; times in ns of trace time. */
export interface LifeSteps {
  /** `TraceProcess.index`. */
  readonly process: number;
  /** Numbers of its first step, and of the greatest one. */
  readonly first: number;
  readonly last: number;
  /** Begin of the first one, end of the last one. */
  readonly from: number;
  readonly until: number;
}

/**
 * Whose steps count: those of hosts, of a run without device work; of devices; of `both`, which agree; or of hosts, because those of devices are `unknown`
 * for some ranks or steps.
 */
export type StepTakers = 'hosts' | 'devices' | 'both' | 'unknown';

export interface RunSummary {
  /** In order of step number; steps that ranks repeat follow. */
  readonly steps: readonly StepSummary[];
  readonly stepCount: number;
  /** Begin of the first step of any rank, ns of trace time: reports and the page count times from there. Undefined without steps. */
  readonly firstStart: number | undefined;
  /** Median over the steps of each step's longest rank, ns; undefined without steps. */
  readonly median: Nanos | undefined;
  readonly p95: Nanos | undefined;
  readonly ranks: readonly RankSummary[];
  /** All lives that ended a step, by process. */
  readonly lives: readonly LifeSteps[];
  /** Whose steps these are, as `CountedStepsSink` finds out. Absent: those of hosts. */
  readonly takenBy?: StepTakers;
  /** Where they are those of devices, the steps of hosts. */
  readonly hosts?: RunSummary;
  /** Phases of the last of the steps with most of them, in their order; where ranks have other ones each, those of the first rank with most. */
  readonly phaseOrder: readonly string[];
}

export const stepsMax = 100_000;

/** Whether a step is one of the next lap: it comes later, and its number does not go on. */
export const isLapOver = ({ last, until }: { readonly last: number; readonly until: number }, step: number, start: number): boolean =>
  step <= last && start >= until;

interface Step {
  ranks: number;
  shortest: number;
  longest: number;
  total: number;
  slowestRank: number;
}

type Life = { -readonly [Field in keyof LifeSteps]: LifeSteps[Field] };

/** Steps of one life of a rank with numbers that go up. */
interface Lap {
  readonly first: number;
  last: number;
  /** ns. */
  until: number;
}

interface Rank {
  /** In order of time. */
  readonly laps: Lap[];
  steps: number;
  last: number;
  from: number;
  until: number;
  total: number;
  overhead: number;
  readonly phases: Map<string, number>;
  fullest: ReadonlyMap<string, unknown>;
}

export class StepSummarySink implements TraceSink {
  /** By how many earlier laps of a rank had the step, then by number. */
  readonly #laps: Map<number, Step>[] = [];
  #size = 0;
  readonly #ranks = new Map<number, Rank>();
  readonly #lives = new Map<number, Life & { lap: Lap }>();
  #forgotten = 0;
  /** The largest step number evicted, and where: a rank that comes so late must not bring an evicted step back as a new one. */
  #forgottenUpTo = Number.NEGATIVE_INFINITY;
  #forgottenLap = 0;

  begin(_header: TraceHeader): void {}

  lane(): void {}

  event(event: TraceEvent): void {
    if (event.kind === 'step') this.add(event.lane.process, event);
  }

  /** Takes a step of a process, after those before it. */
  add(
    { rank, index, incarnation }: TraceProcess,
    event: Pick<TraceEvent, 'step' | 'length' | 'overhead' | 'phases'> & { readonly start: number },
  ): void {
    let totals = this.#ranks.get(rank);
    if (totals === undefined) {
      totals = {
        laps: [],
        steps: 0,
        last: event.step,
        from: event.start,
        until: event.start,
        total: 0,
        overhead: 0,
        phases: new Map(),
        fullest: new Map(),
      };
      this.#ranks.set(rank, totals);
    }
    const end = event.start + event.length;
    let life = this.#lives.get(index);
    const isBack = life !== undefined && isLapOver(life.lap, event.step, event.start) && totals.laps.length < limits.stepLapsMax;
    if (life === undefined || isBack) {
      const lap = { first: event.step, last: event.step, until: end };
      totals.laps.push(lap);
      life = life === undefined ? { process: index, first: event.step, last: event.step, from: event.start, until: end, lap } : life;
      life.lap = lap;
      this.#lives.set(index, life);
    }
    const { lap } = life;
    let before = 0;
    if (totals.laps.length > 1 && !isBeside(incarnation))
      for (const one of totals.laps) if (one !== lap && event.step >= one.first && event.step <= one.last) before++;
    lap.last = Math.max(lap.last, event.step);
    lap.until = Math.max(lap.until, end);
    life.last = Math.max(life.last, event.step);
    life.until = Math.max(life.until, end);
    this.#addStep(before, event.step, rank, event.length);
    totals.steps++;
    totals.last = Math.max(totals.last, event.step);
    totals.from = Math.min(totals.from, event.start);
    totals.until = Math.max(totals.until, end);
    totals.total += event.length;
    totals.overhead += event.overhead;
    if (event.phases !== undefined && event.phases.size >= totals.fullest.size) totals.fullest = event.phases;
    for (const [name, length] of event.phases ?? []) totals.phases.set(name, (totals.phases.get(name) ?? 0) + length);
  }

  endStretch(): void {}

  end(): void {}

  /** Whether a rank has ended this step, or it is among those evicted. */
  has(step: number): boolean {
    return this.#laps.some((steps) => steps.has(step)) || step <= this.#forgottenUpTo;
  }

  get summary(): RunSummary {
    const inOrder = this.#laps.flatMap((steps) => [...steps].sort(([a], [b]) => a - b));
    const steps = inOrder.map(([step, about]) => summarise(step, about));
    const sorted = steps.map((step) => step.longest).sort((a, b) => a - b);
    const ranks = [...this.#ranks].sort(([a], [b]) => a - b).map(([rank, totals]) => rankSummary(rank, totals));
    const stepCount = steps.length + this.#forgotten;
    const lives = [...this.#lives.values()].map(({ lap: _, ...life }) => life).sort((a, b) => a.process - b.process);
    const firstStart = ranks.length === 0 ? undefined : Math.min(...ranks.map(({ from }) => from));
    const [median, p95] = [quantile(sorted, 0.5), quantile(sorted, 0.95)];
    return { steps, stepCount, firstStart, median, p95, ranks, lives, phaseOrder: this.#phaseOrder };
  }

  get #phaseOrder(): string[] {
    const ofRanks = [...this.#ranks].sort(([a], [b]) => a - b).map(([, { fullest }]) => fullest);
    return [...ofRanks.reduce((most, phases) => (phases.size > most.size ? phases : most), new Map<string, unknown>()).keys()];
  }

  #addStep(lap: number, number: number, rank: number, length: number): void {
    while (this.#laps.length <= lap) this.#laps.push(new Map());
    const steps = this.#laps[lap] as Map<number, Step>;
    const step = steps.get(number);
    if (step === undefined) {
      if (lap < this.#forgottenLap || (lap === this.#forgottenLap && number <= this.#forgottenUpTo)) return;
      steps.set(number, { ranks: 1, shortest: length, longest: length, total: length, slowestRank: rank });
      if (++this.#size > stepsMax) this.#forgetOldest();
      return;
    }
    step.ranks++;
    step.total += length;
    step.shortest = Math.min(step.shortest, length);
    if (length > step.longest) {
      step.longest = length;
      step.slowestRank = rank;
    }
  }

  #forgetOldest(): void {
    const lap = this.#laps.findIndex(({ size }) => size > 0);
    const steps = this.#laps[lap] as Map<number, Step>;
    const oldest = steps.keys().next().value as number;
    steps.delete(oldest);
    this.#size--;
    this.#forgotten++;
    this.#forgottenUpTo = lap > this.#forgottenLap ? oldest : Math.max(this.#forgottenUpTo, oldest);
    this.#forgottenLap = lap;
  }
}

function summarise(step: number, { ranks, shortest, longest, total, slowestRank }: Step): StepSummary {
  return { step, ranks, shortest: nanos(shortest), longest: nanos(longest), mean: nanos(total / ranks), slowestRank };
}

function rankSummary(rank: number, totals: Rank): RankSummary {
  const per = (length: number): Nanos => nanos(length / totals.steps);
  const named = [...totals.phases].filter(([name]) => name !== 'other').sort(([, a], [, b]) => b - a);
  const phases = named.map(([name, length]): [string, Nanos] => [name, per(length)]);
  // Phases that ran at the same time may add up to more than the step; then there is no rest.
  const rest = totals.total - named.reduce((sum, [, length]) => sum + length, 0);
  if (totals.phases.size > 0) phases.push(['other', per(Math.max(totals.phases.get('other') ?? 0, rest))]);
  const overhead = totals.total === 0 ? 0 : totals.overhead / totals.total;
  const { steps, last, from, until } = totals;
  return { rank, steps, last, from, until, mean: per(totals.total), overhead, phases: new Map(phases) };
}

/** Linear interpolation between order statistics (Hyndman and Fan's type 7); undefined when empty. */
export function quantile(sorted: readonly Nanos[], share: number): Nanos | undefined {
  if (sorted.length === 0) return undefined;
  const at = (sorted.length - 1) * share;
  const low = sorted[Math.floor(at)] as number;
  const high = sorted[Math.ceil(at)] as number;
  return nanos(low + (high - low) * (at - Math.floor(at)));
}

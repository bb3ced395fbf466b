// The first page of a run: step times of the cluster and of every rank over its steps, in as many bins as a page can show.
//
//   StepHistory of rank 0   │ │ │ │ │ │ │ │ │ │ │ │ │      1 step a bin
//   StepHistory of rank 1   │   │   │   │   │   │   │      2 steps a bin: it ran longer
//   unit                    │   │   │   │   │   │   │      the coarsest of them: ranks compare at this width
//   bin                     │           │           │      some units, as many as needed to stay within `request.bins`
//
// While ranks are still being read, it covers only the steps that each of them has reported: a mean of 70 steps is never compared with one of 900.
//
// Where hosts run ahead of their devices, and the analysis knows the devices' steps, these are the steps; phases stay parts of the hosts' steps.
//
// A cluster's step is as long as its slowest rank's. With units of one step all of this is exact; with wider units a rank's mean over the
// unit stands for its steps in the bins, but never in a percentile: those are of single steps, from what knows them, or they are absent.
//
//   single steps in the range      they
//   else, all steps of the run     the analysis, which keeps the length of each step; without it, the slowest of the ranks' own sketches
//   else                           nothing

import {
  type HeatCells,
  isBeside,
  type Overview,
  type OverviewRank,
  otherPhase,
  type StepPercentiles,
  type ViewFinding,
} from '@ranktrace/protocol';
import type { RunAnalysis } from '../analyse/run-analysis.ts';
import type { StepMeasure } from '../analyse/step-measures.ts';
import type { TraceProcess } from '../model/trace-sink.ts';
import { phaseRolesOf } from '../steps/phase-role.ts';
import type { StepHistory } from '../steps/step-history.ts';
import { stepLimits } from '../steps/step-limits.ts';

/** The steps of one process, and the mapping of their times to trace times. */
export interface StepsOfProcess {
  readonly process: TraceProcess;
  /** ViewProcess.index. */
  readonly index: number;
  readonly clock: { toTrace(own: number): number };
  readonly steps: StepHistory;
  /** Whether some of its steps are still unread; default false. */
  readonly isBeingRead?: boolean;
  /** Where `steps` are those of devices, the host's. */
  readonly hostSteps?: StepHistory;
}

export interface OverviewRequest {
  /** First and last requested step; default: all. */
  readonly fromStep?: number | undefined;
  readonly toStep?: number | undefined;
  /** Largest number of bins. */
  readonly bins: number;
}

/** Part of a rank's steps that a row has at least, if it is a row of all of them. */
const nearlyAll = 0.99;

/** Beyond this many, units become wider. */
const unitsMax = 2 ** 20;

/**
 * The overview of `processes`, in order of rank, without those that have no steps in the range. `analysis` gives findings and waits;
 * `isCurrent`: it covers all present data.
 */
export function overviewOf(
  hosts: readonly StepsOfProcess[],
  request: OverviewRequest,
  analysis?: RunAnalysis,
  isCurrent: boolean = analysis !== undefined,
): Overview {
  const processes = countedProcesses(hosts, isCurrent ? analysis : undefined);
  const grid = gridOf(processes, request);
  const cluster = new ClusterSteps(grid);
  const rows = (grid.bins === 0 ? [] : processes)
    .map((of) => rowOf(of, grid, cluster, !isCurrent))
    .filter((row) => row !== undefined)
    .sort((a, b) => a.rank - b.rank || a.process - b.process);
  const phases = phasesOf(rows);
  const lives = livesOf(hosts);
  const roles = phaseRolesOf(processes.map(({ process }) => process));
  const ranks = rows.map(({ phaseTotals, phaseMedians, sketched, starts, ...row }, at): OverviewRank => {
    const typical = phaseMedians && partsOf(row.p50 ?? row.mean, phaseMedians, phases);
    // Lives of a rank lie beside each other in the rows; they may have the same steps at different times.
    const hasOthers = rows[at - 1]?.rank === row.rank || rows[at + 1]?.rank === row.rank;
    const life = lives.get(row.process) ?? 1;
    const parts = { phases: meanPhases(row, phaseTotals, phases), ...(typical && { typical }) };
    return { ...row, ...(life > 1 && { life }), ...parts, ...(hasOthers && { starts }) };
  });
  const { slowest, median, fastest } = clusterOf(ranks, grid.bins);
  const known = isCurrent ? analysis?.stepTimes : undefined;
  // By their numbers alone, steps that two lives have would count once, each as long as the longer one.
  const isRepeating = known !== undefined && request.fromStep === undefined && request.toStep === undefined && repeatsSteps(processes);
  const percentiles = isRepeating ? { of: known, from: 'steps' as const } : percentilesOf(rows, cluster, known);
  return {
    allRead: !processes.some(({ isBeingRead }) => isBeingRead),
    fromStep: grid.from,
    toStep: grid.to,
    steps: (isRepeating ? analysis?.stepCount : undefined) ?? cluster.steps,
    bins: Array.from({ length: grid.bins }, (_, bin) => grid.from + bin * grid.width),
    times: cluster.times(),
    slowest,
    median,
    fastest,
    percentiles: percentiles.of,
    percentilesOf: percentiles.from,
    ...(isCurrent ? takersOf(analysis) : {}),
    ranks,
    phases,
    phaseRoles: phases.map((name) => roles.of(name)),
    findings: (analysis?.findings ?? []).filter((finding) => !isOver(finding, hosts)),
    measures: analysis?.measures?.known ?? [],
    ...(analysis?.gpus && { gpus: analysis.gpus }),
    waiting: analysis?.waiting ?? [],
    waitingWhole: analysis?.waitingWhole ?? 0,
    waitingStepTime: analysis?.stepTime ?? 0,
    analysed: isCurrent,
    analysedSince: analysis?.since ?? null,
  };
}

/** Whether a hang that an earlier analysis found is over: every rank has ended a step since. */
function isOver({ kind, until }: ViewFinding, processes: readonly StepsOfProcess[]): boolean {
  if (kind !== 'hang' || until === undefined) return false;
  const goesOn = new Map<number, boolean>();
  for (const { process, clock, steps } of processes) {
    if (steps.count > 0) goesOn.set(process.rank, goesOn.get(process.rank) === true || clock.toTrace(steps.lastEnd) > until);
  }
  return goesOn.size > 0 && [...goesOn.values()].every((goes) => goes);
}

/** By index, which life of its rank a process is. What an agent recorded beside a rank is none. */
function livesOf(processes: readonly StepsOfProcess[]): ReadonlyMap<number, number> {
  const known = new Map<number, number>();
  const own = processes.filter(({ process }) => !isBeside(process.incarnation));
  const orderOf = (
    { process: { incarnation: a }, index }: StepsOfProcess,
    { process: { incarnation: b }, index: other }: StepsOfProcess,
  ) => (a < b ? -1 : a > b ? 1 : index - other);
  return new Map(
    own.sort(orderOf).map(({ process: { rank }, index }) => {
      const life = (known.get(rank) ?? 0) + 1;
      known.set(rank, life);
      return [index, life];
    }),
  );
}

/** The processes with their steps as they count; `analysis`: one that covers all data. */
function countedProcesses(hosts: readonly StepsOfProcess[], analysis: RunAnalysis | undefined): readonly StepsOfProcess[] {
  if (analysis?.stepsTakenBy !== 'devices') return hosts;
  return hosts.map((of): StepsOfProcess => {
    const { process, index, isBeingRead = false, steps: hostSteps } = of;
    const steps = hostSteps.count === 0 ? undefined : analysis.measures?.of(process);
    return steps === undefined ? of : { process, index, isBeingRead, clock: traceClock, steps, hostSteps };
  });
}

/** Steps of devices are at trace times already. */
const traceClock = { toTrace: (time: number): number => time };

function takersOf(analysis: RunAnalysis | undefined): Pick<Overview, 'stepsTakenBy' | 'hostMedian'> {
  const { stepsTakenBy, hostMedian } = analysis ?? {};
  if (stepsTakenBy !== 'devices' && stepsTakenBy !== 'unknown') return {};
  return { stepsTakenBy, ...(hostMedian !== undefined && { hostMedian }) };
}

/** The values of steps that the cells of a heat map show. */
export interface HeatMeasure {
  readonly measure: StepMeasure | 'phase';
  readonly phase?: string | undefined;
}

/** The heat map's cells of one measure, over the bins of an overview of the same request. */
export function heatCellsOf(
  hosts: readonly StepsOfProcess[],
  request: OverviewRequest,
  { measure, phase = '' }: HeatMeasure,
  analysis: RunAnalysis | undefined,
  isCurrent: boolean = analysis !== undefined,
): HeatCells {
  const processes = countedProcesses(hosts, isCurrent ? analysis : undefined);
  const { from, to, width, bins } = gridOf(processes, request);
  const rows = (bins === 0 ? [] : processes).flatMap(({ process, index, steps, hostSteps = steps }) => {
    const history = measure === 'phase' ? hostSteps : analysis?.measures?.of(process);
    const [counts, totals] = [new Float64Array(bins), new Float64Array(bins)];
    history?.visitPhase(measure === 'phase' ? phase : measure, from, to, (step, count, total) => {
      const bin = Math.max(0, Math.floor((step - from) / width));
      counts[bin] = (counts[bin] as number) + count;
      totals[bin] = (totals[bin] as number) + total;
    });
    if (counts.every((count) => count === 0)) return [];
    const cells = Array.from(totals, (total, bin) => (counts[bin] === 0 ? null : Math.round(total / (counts[bin] as number))));
    return [{ process: index, cells }];
  });
  return { bins: Array.from({ length: bins }, (_, bin) => from + bin * width), rows };
}

/** Division of the steps: all widths are multiples of the unit, which is a power of two. */
interface Grid {
  readonly from: number;
  readonly to: number;
  readonly unit: number;
  readonly units: number;
  readonly width: number;
  readonly bins: number;
}

function gridOf(processes: readonly StepsOfProcess[], { fromStep = 0, toStep = Number.POSITIVE_INFINITY, bins }: OverviewRequest): Grid {
  let [least, greatest, unit] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 1];
  for (const { steps } of processes) {
    if (steps.range === undefined) continue;
    least = Math.min(least, steps.range[0]);
    greatest = Math.max(greatest, steps.range[1]);
    unit = Math.max(unit, steps.binSteps);
  }
  // A bin that only some ranks have reported in full would compare different steps.
  const reported = Math.floor((lastReportedByAll(processes) + 1) / unit) * unit - 1;
  const [first, last] = [Math.max(least, fromStep), Math.min(greatest, toStep, reported)];
  if (first > last) return { from: 0, to: 0, unit, units: 0, width: 1, bins: 0 };
  while ((last - first) / unit >= unitsMax) unit *= 2;
  // A unit cannot be divided: both ends widen to whole ones, so that `from` and `to` name the steps that are counted.
  const [from, to] = [Math.floor(first / unit) * unit, Math.min(greatest, reported, (Math.floor(last / unit) + 1) * unit - 1)];
  const units = Math.floor((to - from) / unit) + 1;
  const binsMax = Math.max(1, Math.min(bins, Math.floor(stepLimits.overviewCellsMax / processes.length)));
  const unitsPerBin = Math.ceil(units / binsMax);
  return { from, to, unit, units, width: unit * unitsPerBin, bins: Math.ceil(units / unitsPerBin) };
}

/** Whether several lives of a rank have steps of the same numbers. */
function repeatsSteps(processes: readonly StepsOfProcess[]): boolean {
  const lives = processes.flatMap(({ process: { rank }, steps: { range } }) => (range === undefined ? [] : [{ rank, range }]));
  const lasts = new Map<number, number>();
  for (const { rank, range } of lives.sort((a, b) => a.range[0] - b.range[0])) {
    const last = lasts.get(rank);
    if (last !== undefined && range[0] <= last) return true;
    lasts.set(rank, range[1]);
  }
  return false;
}

/** The last step reported by every process; fully read ones have nothing more to report, and are not waited for. */
function lastReportedByAll(processes: readonly StepsOfProcess[]): number {
  let last = Number.POSITIVE_INFINITY;
  for (const { isBeingRead, steps } of processes) if (isBeingRead) last = Math.min(last, steps.range?.[1] ?? -1);
  return last;
}

/** Data of the cluster's steps, unit by unit. */
class ClusterSteps {
  readonly #grid: Grid;
  /** Mean step of the slowest rank, ns, and number of steps, by unit. */
  readonly #slowest: Float64Array;
  readonly #steps: Float64Array;
  /** Start of each bin. */
  readonly #starts: Float64Array;
  /** Whether every value above is a single step's. */
  areSingle = true;

  constructor(grid: Grid) {
    this.#grid = grid;
    this.#slowest = new Float64Array(grid.units);
    this.#steps = new Float64Array(grid.units);
    this.#starts = new Float64Array(grid.bins).fill(Number.POSITIVE_INFINITY);
  }

  add(unit: number, count: number, total: number): void {
    this.#slowest[unit] = Math.max(this.#slowest[unit] as number, total / count);
    this.#steps[unit] = Math.max(this.#steps[unit] as number, Math.min(count, this.#grid.unit));
  }

  begins(bin: number, time: number): void {
    this.#starts[bin] = Math.min(this.#starts[bin] as number, time);
  }

  get steps(): number {
    return this.#steps.reduce((sum, steps) => sum + steps, 0);
  }

  /** Start times; a bin without steps begins where the next one does. */
  times(): number[] {
    const times = Array.from(this.#starts, Math.round);
    for (let bin = times.length - 2; bin >= 0; bin--) if (!Number.isFinite(times[bin])) times[bin] = times[bin + 1] as number;
    for (let bin = 0; bin < times.length; bin++) if (!Number.isFinite(times[bin])) times[bin] = times[bin - 1] ?? 0;
    return times;
  }

  percentiles(): StepPercentiles | undefined {
    return this.areSingle ? namedPercentiles(weightedQuantiles(this.#slowest, this.#steps, percentileShares)) : undefined;
  }
}

const percentileShares = [0.5, 0.9, 0.95, 0.99] as const;

function namedPercentiles(values: readonly number[] | undefined): StepPercentiles | undefined {
  const [p50, p90, p95, p99] = values ?? [];
  return p50 === undefined || p90 === undefined || p95 === undefined || p99 === undefined ? undefined : { p50, p90, p95, p99 };
}

/** `known`: those that the analysis has of all steps. */
function percentilesOf(
  rows: readonly Row[],
  cluster: ClusterSteps,
  known: StepPercentiles | undefined,
): { readonly of: StepPercentiles | null; readonly from: Overview['percentilesOf'] } {
  const exact = cluster.percentiles();
  if (exact !== undefined) return { of: exact, from: 'steps' };
  const sketches = rows.map(({ sketched }) => sketched);
  // Without a sketch, the row is a part of its rank's steps.
  if (sketches.length === 0 || sketches.includes(undefined)) return { of: null, from: 'steps' };
  if (known !== undefined) return { of: known, from: 'steps' };
  // A rank that left early has too few steps to speak for the run.
  const most = Math.max(...rows.map(({ steps }) => steps));
  const lasting = rows.flatMap(({ steps, sketched }) => (2 * steps >= most && sketched !== undefined ? [sketched] : []));
  const slowest = (key: keyof StepPercentiles): number => lasting.reduce((longest, of) => Math.max(longest, of[key]), 0);
  return { of: { p50: slowest('p50'), p90: slowest('p90'), p95: slowest('p95'), p99: slowest('p99') }, from: 'rank' };
}

interface Row extends Omit<OverviewRank, 'phases' | 'typical'> {
  readonly starts: readonly (number | null)[];
  /** Percentiles of all of the rank's steps; undefined where the row is a part of them. */
  readonly sketched: StepPercentiles | undefined;
  readonly phaseTotals: ReadonlyMap<string, number>;
  readonly phaseMedians: ReadonlyMap<string, number> | undefined;
}

function rowOf(
  { process, index, clock, steps, hostSteps }: StepsOfProcess,
  grid: Grid,
  cluster: ClusterSteps,
  hasMedians: boolean,
): Row | undefined {
  const { from, to, unit, width, bins } = grid;
  const [counts, totals, peaks] = [new Float64Array(bins), new Float64Array(bins), new Float64Array(bins)];
  const starts: (number | null)[] = Array.from({ length: bins }, () => null);
  const singles: number[] = [];
  let [all, sum, longest] = [0, 0, 0];
  let [current, countOfUnit, totalOfUnit] = [-1, 0, 0];
  const closeUnit = (): void => {
    if (countOfUnit > 0) cluster.add(current, countOfUnit, totalOfUnit);
    [countOfUnit, totalOfUnit] = [0, 0];
  };
  steps.visit(from, to, (step, start, count, total, most) => {
    const bin = Math.floor((step - from) / width);
    const here = Math.floor((step - from) / unit);
    if (here !== current) {
      closeUnit();
      current = here;
    }
    countOfUnit += count;
    totalOfUnit += total;
    if (counts[bin] === 0) {
      const begin = clock.toTrace(start);
      starts[bin] = Math.round(begin);
      cluster.begins(bin, begin);
    }
    counts[bin] = (counts[bin] as number) + count;
    totals[bin] = (totals[bin] as number) + total;
    peaks[bin] = Math.max(peaks[bin] as number, most);
    all += count;
    sum += total;
    longest = Math.max(longest, most);
    if (count === 1) singles.push(total);
  });
  closeUnit();
  if (all === 0) return undefined;
  const areSingle = singles.length === all;
  cluster.areSingle &&= areSingle && unit === 1;
  // Over all steps, or nearly all where the other ranks have not reported the newest, the lengths are known within 1 %.
  const sketched = all >= nearlyAll * steps.count ? namedPercentiles(steps.lengths.quantiles(percentileShares)) : undefined;
  const own = areSingle ? namedPercentiles(sortedQuantiles(singles, percentileShares)) : sketched;
  const known = (bin: number, value: number): number | null => (counts[bin] === 0 ? null : Math.round(value));
  return {
    rank: process.rank,
    process: index,
    steps: all,
    mean: sum / all,
    p50: own?.p50 ?? null,
    p95: own?.p95 ?? null,
    longest,
    ...(hostSteps && { hostMean: meanStep(hostSteps, from, to) }),
    sketched,
    phaseTotals: (hostSteps ?? steps).phaseTotals(from, to),
    phaseMedians: hasMedians ? steps.phaseMedians(from, to) : undefined,
    cells: Array.from(totals, (total, bin) => known(bin, total / (counts[bin] as number))),
    peaks: Array.from(peaks, (peak, bin) => known(bin, peak)),
    starts,
  };
}

function meanStep(history: StepHistory, from: number, to: number): number {
  let [steps, sum] = [0, 0];
  history.visit(from, to, (_step, _start, count, total) => {
    steps += count;
    sum += total;
  });
  return sum / Math.max(1, steps);
}

/** Names of the phases with most time, over all ranks; last the time outside them. */
function phasesOf(rows: readonly Row[]): string[] {
  const totals = new Map<string, number>();
  for (const { phaseTotals } of rows) {
    for (const [name, total] of phaseTotals) totals.set(name, (totals.get(name) ?? 0) + total);
  }
  if (totals.size === 0) return [];
  const bySize = [...totals].sort(([, a], [, b]) => b - a).map(([name]) => name);
  return [...bySize.slice(0, stepLimits.stepPhasesMax), otherPhase];
}

function meanPhases(
  { steps, mean, hostMean = mean }: Pick<OverviewRank, 'steps' | 'mean' | 'hostMean'>,
  totals: ReadonlyMap<string, number>,
  names: readonly string[],
): number[] {
  return partsOf(hostMean, new Map([...totals].map(([name, total]) => [name, total / steps])), names);
}

/** The parts of a step of this length, by `names`, the last of which is the rest. */
function partsOf(length: number, times: ReadonlyMap<string, number>, names: readonly string[]): number[] {
  if (names.length === 0) return [];
  const named = names.slice(0, -1).map((name) => times.get(name) ?? 0);
  // Concurrent phases may add up to more than the step; then nothing is left over.
  return [...named, Math.max(0, length - named.reduce((sum, part) => sum + part, 0))];
}

function clusterOf(ranks: readonly OverviewRank[], bins: number): Pick<Overview, 'slowest' | 'median' | 'fastest'> {
  const cluster: Record<'slowest' | 'median' | 'fastest', (number | null)[]> = { slowest: [], median: [], fastest: [] };
  for (let bin = 0; bin < bins; bin++) {
    const means = ranks.map(({ cells }) => cells[bin] ?? null).filter((mean) => mean !== null);
    means.sort((a, b) => a - b);
    const middle = (means.length - 1) / 2;
    const median = ((means[Math.floor(middle)] ?? 0) + (means[Math.ceil(middle)] ?? 0)) / 2;
    cluster.slowest.push(means.at(-1) ?? null);
    cluster.median.push(means.length === 0 ? null : median);
    cluster.fastest.push(means[0] ?? null);
  }
  return cluster;
}

const sortedQuantiles = (values: readonly number[], shares: readonly number[]): number[] | undefined =>
  weightedQuantiles(
    values,
    values.map(() => 1),
    shares,
  );

/** Quantiles at `shares`; each value counts by its weight (whole numbers; 0 excludes it). Undefined without values. */
function weightedQuantiles(values: ArrayLike<number>, weights: ArrayLike<number>, shares: readonly number[]): number[] | undefined {
  const order = Array.from(values, (_, place) => place)
    .filter((place) => (weights[place] as number) > 0)
    .sort((a, b) => (values[a] as number) - (values[b] as number));
  if (order.length === 0) return undefined;
  let all = 0;
  const upTo = order.map((place) => {
    all += weights[place] as number;
    return all;
  });
  const at = (rank: number): number => {
    let [low, high] = [0, upTo.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((upTo[middle] as number) > rank) high = middle;
      else low = middle + 1;
    }
    return values[order[low] as number] as number;
  };
  return shares.map((share) => {
    const place = (all - 1) * share;
    const [below, above] = [at(Math.floor(place)), at(Math.ceil(place))];
    return below + (above - below) * (place - Math.floor(place));
  });
}

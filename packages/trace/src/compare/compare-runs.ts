// Two runs compared, name by name: the answer of `ranktrace diff` and of the page's Compare tab.
//
//   A   names × steps ──► middle ± error ─┐
//   B   names × steps ──► middle ± error ─┴► difference, its 95 % interval, and whether it is more than scatter
//
// Many names are compared at once, so each difference must be as improbable as the verdict on the steps asks for (detect/compare-series.ts), and as
// large as `failOn`: runs of the same code differ by a per cent or two of their own.
// Invariant: nothing is compared with a value that was not measured. A name that a run lacks is gone or added, and only where that run recorded work
// of its kind.

import {
  type ComparedRun,
  type DifferenceStatus,
  type NameDifference,
  type NameTimes,
  type Nanos,
  printable,
  type RunDifference,
} from '@ranktrace/protocol';
import { certainty, interval95, seriesStepsMin } from '../detect/compare-series.ts';
import { errorOf, studentQuantile } from '../detect/student.ts';
import { lengthText } from '../model/quantity-text.ts';
import { quantile, type RunSummary } from '../steps/step-summary.ts';
import { compareLimits as limits } from './compare-limits.ts';
import { ofHosts, sidesTakenBy, sidesText } from './counted-sides.ts';
import type { NameSums, RunTimes } from './run-times.ts';
import type { SeriesMiddle } from './step-series.ts';
import { type JudgedSteps, judgeSteps, longLine, provableLine, stepLevelOf, stepTimesOf, verdictLine } from './step-verdict.ts';

const binsOfSteps = 24;

/** Compares B with A. `failOn`: the share from which a difference counts. */
export function compareRuns(a: RunTimes, b: RunTimes, failOn: number): RunDifference {
  const takenBy = sidesTakenBy(a.summary, b.summary);
  const [stepsA, stepsB] = [a.summary, b.summary].map((summary) => (takenBy === 'hosts' ? ofHosts(summary) : summary)) as [
    RunSummary,
    RunSummary,
  ];
  const [levelA, levelB] = [stepLevelOf(stepsA), stepLevelOf(stepsB)];
  const judged = levelA === undefined || levelB === undefined ? undefined : judgeSteps(levelA, levelB, failOn);
  const [timesA, timesB] = [stepTimesOf(stepsA), stepTimesOf(stepsB)];
  const both = [...timesA, ...timesB].sort((left, right) => left - right);
  // A few long steps, such as those with a checkpoint, share the last bin: the others would share the first.
  const binsFrom = both[0] ?? 0;
  const binsUntil = Math.max(both[Math.floor(0.99 * (both.length - 1))] ?? 0, binsFrom + 1);
  const names = namesOf(a, b, failOn);
  return {
    verdict: judged?.verdict ?? null,
    verdictText: judged === undefined ? whyNoVerdict(a, b) : verdictLine(judged, sidesText(a.summary, b.summary)),
    longText: longText(judged, names),
    provableText: judged === undefined ? '' : provableLine(judged),
    failOn,
    stepsTakenBy: takenBy,
    a: comparedRun(a, b, timesA, binsFrom, binsUntil),
    b: comparedRun(b, a, timesB, binsFrom, binsUntil),
    binsFrom,
    binsUntil,
    names: names.slice(0, limits.compareRowsMax),
    namesLeftOut: Math.max(0, names.length - limits.compareRowsMax),
  };
}

/** The line about long steps, with the phases that are longer or shorter in the mean where their medians do not show it. */
function longText(judged: JudgedSteps | undefined, names: readonly NameDifference[]): string {
  const line = judged && longLine(judged);
  if (judged === undefined || line === undefined) return '';
  const worth = judged.failOn * judged.comparison.before.level;
  const means = names
    .filter(({ kind, basis }) => kind === 'phase' && basis === 'median')
    .map(({ name, a, b, more }) => ({ name, mean: (b?.total ?? 0) - (a?.total ?? 0), more }))
    .filter(({ mean, more }) => Math.abs(mean) >= worth && Math.abs(more) < Math.abs(mean) / 2)
    .sort((left, right) => Math.abs(right.mean) - Math.abs(left.mean))
    .slice(0, limits.compareRanksShownMax);
  if (means.length === 0) return line;
  const shown = means.map(({ name, mean }) => `${printable(name)} ${mean < 0 ? '−' : '+'}${lengthText(Math.abs(mean))}`);
  return `${line}; means of phases: ${shown.join(', ')}`;
}

function whyNoVerdict(a: RunTimes, b: RunTimes): string {
  const few = [
    { side: 'A', count: stepTimesOf(a.summary).length },
    { side: 'B', count: stepTimesOf(b.summary).length },
  ].filter(({ count }) => count < seriesStepsMin);
  const has = few.map(({ side, count }) => `${side} has ${count}`).join(', ');
  return `no verdict: it needs ${seriesStepsMin} steps that all ranks recorded, and ${has}`;
}

function comparedRun(
  { run, ranks, steps, detailSteps, lateParts, leftOut }: RunTimes,
  other: RunTimes,
  times: readonly Nanos[],
  from: number,
  until: number,
): ComparedRun {
  const sorted = [...times].sort((left, right) => left - right);
  const at = (share: number): number => quantile(sorted, share) ?? 0;
  const bins = new Array<number>(binsOfSteps).fill(0);
  for (const time of times) {
    const bin = Math.min(binsOfSteps - 1, Math.floor(((time - from) / (until - from)) * binsOfSteps));
    bins[bin] = (bins[bin] as number) + 1;
  }
  const stepTimes = times.length === 0 ? null : { least: at(0), p10: at(0.1), p50: at(0.5), p90: at(0.9), p99: at(0.99), most: at(1) };
  const others = new Set(other.ranks);
  const ownRanks = ranks.filter((rank) => !others.has(rank)).slice(0, limits.compareRanksShownMax);
  return { run, ranks: ranks.length, ownRanks, steps, detailSteps, lateParts, stepTimes, bins: times.length === 0 ? [] : bins, leftOut };
}

/** All names of both, in order of cost. */
function namesOf(a: RunTimes, b: RunTimes, failOn: number): NameDifference[] {
  const keyOf = ({ kind, on, name, group }: NameSums): string => `${kind}\0${on}\0${name}\0${group}`;
  const ofB = new Map(b.names.map((row) => [keyOf(row), row]));
  const pairs: [NameSums | undefined, NameSums | undefined][] = a.names.map((row) => {
    const key = keyOf(row);
    const other = ofB.get(key);
    ofB.delete(key);
    return [row, other];
  });
  for (const row of ofB.values()) pairs.push([undefined, row]);
  const sides = { a: new Side(a), b: new Side(b) };
  return pairs
    .map(([rowA, rowB]) => differenceOf(rowA, rowB, sides, failOn))
    .sort((left, right) => Math.abs(right.more) - Math.abs(left.more) || (left.name < right.name ? -1 : 1));
}

/** One run's times, with the numbers that they are divided by. */
class Side {
  readonly run: RunTimes;
  readonly #kinds: ReadonlySet<string>;

  constructor(run: RunTimes) {
    this.run = run;
    this.#kinds = new Set(run.names.map(recordedAs));
  }

  /** Whether work of this kind was recorded at all. */
  has(row: NameSums): boolean {
    return this.#kinds.has(recordedAs(row));
  }

  /** Steps that a name's series is over. */
  steps({ kind }: NameSums): number {
    const { steps, detailSteps } = this.run;
    return kind === 'phase' ? steps : Math.max(1, detailSteps);
  }

  /** A name's times per step and rank. */
  times(row: NameSums, middle: SeriesMiddle): NameTimes {
    const all = this.steps(row);
    // Each step is the mean of its ranks, and steps count alike.
    const divider = Math.max(1, row.kind === 'phase' ? this.run.stepParts : this.run.rankStepsAll);
    const { count, total, self, series } = row;
    return {
      ...{ count: count / divider, total: total / divider, self: self / divider },
      ...{ steps: series.steps, level: middle.level, p90: series.quantile(0.9, all) },
    };
  }

  /** A rank's self time per step with detail. */
  ofRank(row: NameSums | undefined, rank: number): number | undefined {
    const place = this.run.ranks.indexOf(rank);
    const steps = place < 0 ? 0 : (this.run.rankSteps[place] as number);
    if (steps === 0) return undefined;
    return row === undefined ? 0 : row.ranks === undefined ? undefined : (row.ranks[place] as number) / steps;
  }
}

/** Phases, spans of hosts and work of devices are recorded together; collectives and calls may be missing because there are none. */
const recordedAs = ({ kind, on }: NameSums): string => (kind === 'phase' ? kind : on);

interface Sides {
  readonly a: Side;
  readonly b: Side;
}

function differenceOf(rowA: NameSums | undefined, rowB: NameSums | undefined, sides: Sides, failOn: number): NameDifference {
  const row = (rowA ?? rowB) as NameSums;
  const { kind, on, name, group } = row;
  const [stepsA, stepsB] = [sides.a.steps(row), sides.b.steps(row)];
  const isInMost = 2 * (rowA?.series.steps ?? 0) > stepsA || 2 * (rowB?.series.steps ?? 0) > stepsB;
  const isUnsure = rowA?.series.isMedianUnsure(stepsA) === true || rowB?.series.isMedianUnsure(stepsB) === true;
  const isUsual = isInMost && !isUnsure;
  const middle = (of: NameSums | undefined, steps: number): SeriesMiddle => {
    if (of === undefined) return { level: 0, error: steps < seriesStepsMin ? undefined : 0, degrees: steps };
    return isUsual ? of.series.median(steps) : of.series.middleMean(steps);
  };
  const [middleA, middleB] = [middle(rowA, stepsA), middle(rowB, stepsB)];
  const more = middleB.level - middleA.level;
  const interval = intervalOf(middleA, middleB);
  return {
    ...{ kind, on, name, group },
    status: statusOf(rowA, rowB, sides, { more, level: middleA.level, failOn, interval }),
    a: rowA === undefined ? null : sides.a.times(rowA, middleA),
    b: rowB === undefined ? null : sides.b.times(rowB, middleB),
    more,
    low: interval === undefined ? null : more - interval.within,
    high: interval === undefined ? null : more + interval.within,
    part: rowB !== undefined && middleA.level > 0 ? more / middleA.level : null,
    basis: isUsual ? 'median' : 'mean',
    ranks: kind === 'phase' ? [] : ranksOf(rowA, rowB, sides),
  };
}

interface Interval {
  /** Half of the 95 % interval, and the difference that is no chance. */
  readonly within: number;
  readonly needed: number;
}

/** Undefined where the scatter of a side is not known. */
function intervalOf(a: SeriesMiddle, b: SeriesMiddle): Interval | undefined {
  if (a.error === undefined || b.error === undefined) return undefined;
  const { error, degrees } = errorOf([a, b].map((side) => ({ variance: (side.error as number) ** 2, degrees: Math.max(1, side.degrees) })));
  if (error === 0) return { within: 0, needed: 0 };
  return { within: studentQuantile(interval95, degrees) * error, needed: studentQuantile(certainty, degrees) * error };
}

interface Judged {
  readonly more: number;
  readonly level: number;
  readonly failOn: number;
  readonly interval: Interval | undefined;
}

function statusOf(a: NameSums | undefined, b: NameSums | undefined, sides: Sides, judged: Judged): DifferenceStatus {
  const { more, level, failOn, interval } = judged;
  if (a === undefined) return sides.a.has(b as NameSums) ? 'added' : 'unrecorded';
  if (b === undefined) return sides.b.has(a) ? 'gone' : 'unrecorded';
  if (interval === undefined) return more === 0 ? 'noise' : 'unknown';
  const size = Math.abs(more);
  if (more === 0 || size < failOn * level || size < interval.within) return 'noise';
  if (size < interval.needed) return more > 0 ? 'probably_slower' : 'probably_faster';
  return more > 0 ? 'slower' : 'faster';
}

/** The ranks that both runs have, most changed first. */
function ranksOf(rowA: NameSums | undefined, rowB: NameSums | undefined, sides: Sides): NameDifference['ranks'] {
  const found: { rank: number; a: number; b: number }[] = [];
  for (const rank of sides.a.run.ranks) {
    const [a, b] = [sides.a.ofRank(rowA, rank), sides.b.ofRank(rowB, rank)];
    if (a !== undefined && b !== undefined) found.push({ rank, a, b });
  }
  if (found.length < 2) return [];
  return found.sort((left, right) => Math.abs(right.b - right.a) - Math.abs(left.b - left.a)).slice(0, limits.compareRanksShownMax);
}

// Compares two recorded series of step times with the detector's statistics: its work at the end of a block, done once for whole runs.
//
//   steps    ││││││││ ││││││││ …     ln of each; the midmean of a block is its level: checkpoints and other spikes fall out
//   blocks   ▅ ▂ ▁ ▁ ▁ ▂ ▁ ▁ ▁       warm-up, until blocks differ by less than warmUpShare, is left out
//   series   mean of the middle half of its blocks; with fewer than 16 blocks, trimmed mean of its steps
//
// T = difference of the levels over its standard error. It must be as improbable as `holdT` is where noise is known: the quantile of Student's t
// (Welch's degrees of freedom). A detector, which looks after every block, requires `thresholdT`. `provable` is the resulting limit.
//
// Noise that is alike from step to step leaves fewer independent values than there are steps, and a level that wanders leaves fewer still. So the error
// is the largest of those from steps (or blocks), pairs of them, fours, …, each with the correlation of its neighbours. One clear jump is no noise.
//
// Differences between runs of the same code (placement, neighbours, clocks of the hardware) do not show as noise within a run, nor does a level that
// wanders more slowly than the run is long: the caller allows for them by how much slower a run may be.

import { deviation, mean, median } from '../model/robust.ts';
import { fitStep, midmean, type ShapeFit } from './block-statistics.ts';
import { steadyShare } from './change-doubts.ts';
import { type DetectorOptions, defaultDetectorOptions, shortSeriesOptions } from './detector-options.ts';
import { addedBy, type LongSteps, longStepsOf, varianceOfAdded } from './long-steps.ts';
import type { ChangeConfidence } from './step-time-finding.ts';
import { errorOf, studentQuantile, type VariancePart } from './student.ts';

/** Standard error of a median over that of a mean, for normal noise: √(π/2). */
const medianError = 1.2533;
/** Significance of the reported interval. */
export const interval95 = { share: 0.05, normal: 1.96 };
/** Significance of a certain difference: as improbable as four deviations of normal noise. */
export const certainty = { share: 6.334248e-5, normal: defaultDetectorOptions.holdT };
/** Fewest blocks for a comparison by blocks. */
const blocksMin = 16;
/**
 * Share left out at either end: of ten steps and more, a spike drops out. Of steps whose median counts, so do spikes in each ten, from the first on;
 * more would leave out bursts, and what two runs differ by where one has a burst more.
 */
const cutOf = { blocks: 0.25, steps: 0.1, 'middle steps': 0.15 } as const;
/** Fewest means of neighbours that show how much these differ. */
const meansMin = 8;
/** Fewest blocks in which a jump is looked for, and fewest on each of its sides. */
const [jumpBlocksMin, jumpSideMin] = [32, 4] as const;
const jump: ShapeFit = { squares: 0, at: 0 };
/** Correlation of neighbours up to which values count: so few cannot show a higher one. */
const alikeMax = 0.7;
/** Largest share of a series that may count as warm-up. */
const warmUpShareMax = 0.25;
/** From this many steps on, blocks are as long as a detector's; shorter series have shorter ones. */
const longSeriesSteps = 320;

/** A series as a few numbers. */
export interface SeriesLevel {
  /** Middle of the blocks, in the unit of the series. */
  readonly level: number;
  /** Deviation of the blocks, as a share of the level. */
  readonly noise: number;
  /** Blocks it rests on (or steps, if too few for blocks), and steps in them. */
  readonly blocks: number;
  readonly steps: number;
  /** Steps left out at the beginning. */
  readonly warmUp: number;
  /** Standard error of the level, as a share of it. Absent in what earlier versions saved: as if steps and blocks were independent. */
  readonly error?: number | undefined;
  /** Degrees of freedom of that error; absent: enough for it to count as known. */
  readonly degrees?: number | undefined;
  /** Steps that the level leaves out because they are much longer. Absent in what earlier versions saved. */
  readonly long?: LongSteps | undefined;
}

/** A difference: after ÷ before − 1. */
export interface SeriesChange {
  readonly change: number;
  readonly confidence: ChangeConfidence;
  /** Whether T is large enough for a real difference. */
  readonly isCertain: boolean;
}

export interface SeriesComparison extends SeriesChange {
  readonly before: SeriesLevel;
  readonly after: SeriesLevel;
  /** The mean of all steps, the long ones too; undefined where neither side has a long one, or one does not tell. */
  readonly ofAll: SeriesChange | undefined;
  /** The smallest change, as a share, that would be certain here; a smaller one is indistinguishable from scatter. */
  readonly provable: number;
}

/** The fewest steps for which `levelOfSeries` gives a level. */
export const seriesStepsMin: number = 3;

/**
 * The level of a series of step times (any unit; values not above 0 are left out); undefined for fewer than `seriesStepsMin`. `passed`: the time that
 * passed in each, where a step's time is not just that.
 */
export function levelOfSeries(series: readonly number[], passed: readonly number[] = series): SeriesLevel | undefined {
  const isTime = (_: unknown, at: number): boolean => (series[at] as number) > 0 && (series[at] as number) < Number.POSITIVE_INFINITY;
  const times = series.filter(isTime);
  const logs = times.map(Math.log);
  const options = logs.length >= longSeriesSteps ? defaultDetectorOptions : shortSeriesOptions;
  const { blockSteps, noiseFloor } = options;
  const levels = blocksOf(logs, blockSteps);
  const warmUp = warmUpOf(levels, options);
  const used = levels.subarray(warmUp);
  const level =
    used.length < blocksMin
      ? levelOfFew(logs, options)
      : {
          ...levelFrom(Array.from(used), 'blocks', noiseFloor),
          noise: Math.max(deviation(used), noiseFloor),
          blocks: used.length,
          steps: used.length * blockSteps,
          warmUp: warmUp * blockSteps,
        };
  if (level === undefined) return undefined;
  // Against the level, which holds some of the long steps where they are many: where about half are, a median would be one of them, or none.
  const [judged, lasting] = [times, passed.filter(isTime)].map((of) => of.slice(level.warmUp)) as [number[], number[]];
  return { ...level, long: longStepsOf(lasting, (level.level * median(lasting)) / median(judged)) };
}

/** From single steps. */
function levelOfFew(logs: readonly number[], { noiseFloor, warmUpShare }: DetectorOptions): SeriesLevel | undefined {
  // The first steps are warm-up if each is longer than all after it.
  let warmUp = 0;
  const most = Math.floor(logs.length * warmUpShareMax);
  while (warmUp < most && (logs[warmUp] as number) > Math.max(...logs.slice(warmUp + 1)) + warmUpShare) warmUp++;
  const used = logs.slice(warmUp);
  if (used.length < seriesStepsMin) return undefined;
  return {
    ...levelFrom(used, 'steps', noiseFloor),
    noise: Math.max(deviation(used), noiseFloor),
    blocks: used.length - 2 * Math.floor(cutOf.steps * used.length),
    steps: used.length,
    warmUp,
  };
}

/** The middle of a series, its standard error, and the degrees of freedom of that. */
interface Middle {
  readonly level: number;
  readonly error: number;
  readonly degrees: number;
}

function levelFrom(logs: readonly number[], are: keyof typeof cutOf, noiseFloor: number): Middle {
  const { level, error, degrees } = trimmedMean(logs, are, noiseFloor);
  return { level: Math.exp(level), error, degrees };
}

/**
 * The mean of values in the order of their steps, without the smallest and largest ones. Its error does not take them for independent: n values whose
 * neighbours have a correlation r count for n (1 − r) / (1 + r).
 * Sources: K. K. Yuen, The two-sample trimmed t for unequal population variances, Biometrika 61 (1974); G. V. Bayley and J. M. Hammersley, The
 * "effective" number of independent observations in an autocorrelated time series, J. R. Stat. Soc. Suppl. 8 (1946).
 */
export function trimmedMean(of: readonly number[], are: keyof typeof cutOf, noiseFloor: number): Middle {
  const left = Math.floor(cutOf[are] * of.length);
  const kept = of.toSorted((a, b) => a - b).slice(left, of.length - left);
  const [least, most] = [kept[0] as number, kept.at(-1) as number];
  const widened = of.length / kept.length;
  let [worst, floor] = [{ error: 0, degrees: 1 }, noiseFloor];
  // In their own order, where those left out count as the last one kept.
  let values: readonly number[] = of.map((value) => Math.min(Math.max(value, least), most));
  if (are === 'blocks') values = withoutJump(values);
  do {
    const count = values.length;
    const middle = mean(values);
    const squares = values.reduce((sum, value) => sum + (value - middle) ** 2, 0);
    const products = values.reduce((sum, value, at) => sum + (value - middle) * ((values[at - 1] ?? middle) - middle), 0);
    // Neighbours among n independent values seem to be unlike by 1 / n.
    const alike = Math.min(alikeMax, Math.max(0, (squares === 0 ? 0 : products / squares) + 1 / count));
    const variance = Math.max(squares / (count - 1), floor ** 2);
    const error = widened * Math.sqrt((variance / count) * ((1 + alike) / (1 - alike)));
    if (error > worst.error) worst = { error, degrees: Math.min(count, kept.length) - 1 };
    values = Array.from({ length: count >> 1 }, (_, at) => ((values[2 * at] as number) + (values[2 * at + 1] as number)) / 2);
    floor /= Math.SQRT2;
  } while (values.length >= meansMin);
  return { level: mean(kept), ...worst };
}

/** Blocks of which one clear jump is taken out: a series that becomes slower within is slower for certain, and does not wander. */
function withoutJump(values: readonly number[]): readonly number[] {
  const count = values.length;
  if (count < jumpBlocksMin) return values;
  const middle = mean(values);
  const squares = values.reduce((sum, value) => sum + (value - middle) ** 2, 0);
  fitStep(Float64Array.from(values), 0, count, jumpSideMin, count - jumpSideMin, jump);
  if (jump.squares > (1 - steadyShare) * squares) return values;
  const [before, after] = [mean(values.slice(0, jump.at)), mean(values.slice(jump.at))];
  return values.map((value, at) => value - (at < jump.at ? before : after));
}

/**
 * How much longer the steps of one series take than those of another.
 * @example compareSeries(levelOfSeries(baseline), levelOfSeries(run)).change >= 0.03
 */
export function compareSeries(before: SeriesLevel, after: SeriesLevel): SeriesComparison {
  const parts = [before, after].map((side) => ({ variance: varianceOf(side), degrees: side.degrees ?? Number.POSITIVE_INFINITY }));
  const usual = Math.log(after.level / before.level);
  const { needed, error, ...compared } = changeOf(usual, parts);
  return { before, after, ...compared, ofAll: changeOfAll(before, after, usual, parts), provable: Math.expm1(needed * error) };
}

/** `change` is a difference of logarithms. */
function changeOf(change: number, parts: readonly VariancePart[]): SeriesChange & { readonly needed: number; readonly error: number } {
  const { error, degrees } = errorOf(parts);
  const within = studentQuantile(interval95, degrees) * error;
  const needed = studentQuantile(certainty, degrees);
  const t = change / error;
  const confidence = { t, low: Math.expm1(change - within), high: Math.expm1(change + within) };
  return { change: Math.expm1(change), confidence, isCertain: Math.abs(t) >= needed, needed, error };
}

/** With what long steps add on both sides. */
function changeOfAll(
  { long: longBefore }: SeriesLevel,
  { long: longAfter }: SeriesLevel,
  usual: number,
  parts: readonly VariancePart[],
): SeriesChange | undefined {
  if (longBefore === undefined || longAfter === undefined || longBefore.count + longAfter.count === 0) return undefined;
  const more = Math.log1p(addedBy(longAfter)) - Math.log1p(addedBy(longBefore));
  const ofLong = [varianceOfAdded(longBefore, longAfter), varianceOfAdded(longAfter, longBefore)];
  const { change, confidence, isCertain } = changeOf(usual + more, [...parts, ...ofLong]);
  return { change, confidence, isCertain };
}

/** Variance of a level: of a median of blocks, or of a mean of steps. */
const varianceOf = ({ noise, blocks, error, degrees }: SeriesLevel): number =>
  error === undefined ? ((degrees === undefined ? medianError : 1) * noise) ** 2 / blocks : error ** 2;

/** Midmean of each whole block. */
function blocksOf(logs: readonly number[], blockSteps: number): Float64Array {
  const levels = new Float64Array(Math.floor(logs.length / blockSteps));
  const scratch = new Float64Array(blockSteps);
  for (let block = 0; block < levels.length; block++) {
    for (let at = 0; at < blockSteps; at++) scratch[at] = logs[block * blockSteps + at] as number;
    levels[block] = midmean(scratch, blockSteps);
  }
  return levels;
}

/** Blocks before the first run of blocks that differ little. If there is none, the series is noisy, and nothing is warm-up. */
function warmUpOf(levels: Float64Array, { warmUpBlocks, warmUpShare }: DetectorOptions): number {
  const most = Math.floor(levels.length * warmUpShareMax);
  for (let first = 0; first <= most; first++) {
    let calm = 0;
    while (calm < warmUpBlocks && differs(levels, first + calm) < warmUpShare) calm++;
    if (calm === warmUpBlocks || first + calm + 1 >= levels.length) return first;
  }
  return 0;
}

const differs = (levels: Float64Array, at: number): number => Math.abs((levels[at + 1] ?? Number.NaN) - (levels[at] as number));

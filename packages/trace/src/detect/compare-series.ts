// Compares two recorded series of step times with the detector's statistics: its work at the end of a block, done once for whole runs.
//
//   steps    ││││││││ ││││││││ …     ln of each; the midmean of a block is its level: checkpoints and other spikes fall out
//   blocks   ▅ ▂ ▁ ▁ ▁ ▂ ▁ ▁ ▁       warm-up, until blocks differ by less than warmUpShare, is left out
//   series   median of its blocks, and their deviation
//
// T = difference of the medians over its standard error. One comparison needs a smaller T than a detector that looks after every block:
// `holdT`, which the detector requires of one window, and not `thresholdT`.
//
// The 3 to 10 steps that a profiler's schedule records are too few for blocks. They are compared one by one, by means, and need a larger T:
// the quantile of Student's t that is as improbable as `holdT` is for many (Welch's degrees of freedom). `provable` is the resulting limit.
//
// Differences between runs of the same code (placement, neighbours, clocks of the hardware) do not show as noise within a run: the caller
// allows for them by how much slower a run may be.

import { deviation, mean, median } from '../model/robust.ts';
import { midmean } from './block-statistics.ts';
import { type DetectorOptions, defaultDetectorOptions, shortSeriesOptions } from './detector-options.ts';
import type { ChangeConfidence } from './step-time-finding.ts';
import { studentQuantile } from './student.ts';

/** Standard error of a median over that of a mean, for normal noise: √(π/2). */
const medianError = 1.2533;
/** Significance of the reported interval. */
export const interval95 = { share: 0.05, normal: 1.96 };
/** Significance of a certain difference: as improbable as four deviations of normal noise. */
export const certainty = { share: 6.334248e-5, normal: defaultDetectorOptions.holdT };
/** Fewest blocks for a comparison by blocks. */
const blocksMin = 4;
/** Largest share of a series that may count as warm-up. */
const warmUpShareMax = 0.25;
/** From this many steps on, blocks are as long as a detector's; shorter series have shorter ones. */
const longSeriesSteps = 320;

/** A series as a few numbers. */
export interface SeriesLevel {
  /** Median of the blocks, in the unit of the series. */
  readonly level: number;
  /** Deviation of the blocks, as a share of the level. */
  readonly noise: number;
  /** Blocks it rests on (or steps, if too few for blocks), and steps in them. */
  readonly blocks: number;
  readonly steps: number;
  /** Steps left out at the beginning. */
  readonly warmUp: number;
  /** Degrees of freedom of the noise, if it rests on single steps; absent: enough for it to count as known. */
  readonly degrees?: number | undefined;
}

export interface SeriesComparison {
  readonly before: SeriesLevel;
  readonly after: SeriesLevel;
  /** after ÷ before − 1. */
  readonly change: number;
  readonly confidence: ChangeConfidence;
  /** Whether T is large enough for a real difference. */
  readonly isCertain: boolean;
  /** The smallest change, as a share, that would be certain here; a smaller one is indistinguishable from scatter. */
  readonly provable: number;
}

/** The fewest steps for which `levelOfSeries` gives a level. */
export const seriesStepsMin: number = 3;

/** The level of a series of step times (any unit; values not above 0 are left out); undefined for fewer than `seriesStepsMin`. */
export function levelOfSeries(times: readonly number[]): SeriesLevel | undefined {
  const logs = times.filter((time) => time > 0 && time < Number.POSITIVE_INFINITY).map(Math.log);
  const options = logs.length >= longSeriesSteps ? defaultDetectorOptions : shortSeriesOptions;
  const { blockSteps, noiseFloor } = options;
  const levels = blocksOf(logs, blockSteps);
  const warmUp = warmUpOf(levels, options);
  const used = levels.subarray(warmUp);
  if (used.length < blocksMin) return levelOfFew(logs, options);
  return {
    level: Math.exp(median(used)),
    noise: Math.max(deviation(used), noiseFloor),
    blocks: used.length,
    steps: used.length * blockSteps,
    warmUp: warmUp * blockSteps,
  };
}

/**
 * From single steps: a mean trimmed by a tenth at each end, so that from ten steps on a spike drops out, and its winsorized deviation.
 * Source: K. K. Yuen, The two-sample trimmed t for unequal population variances, Biometrika 61 (1974).
 */
function levelOfFew(logs: readonly number[], { noiseFloor, warmUpShare }: DetectorOptions): SeriesLevel | undefined {
  // The first steps are warm-up if each is longer than all after it.
  let warmUp = 0;
  const most = Math.floor(logs.length * warmUpShareMax);
  while (warmUp < most && (logs[warmUp] as number) > Math.max(...logs.slice(warmUp + 1)) + warmUpShare) warmUp++;
  const used = logs.slice(warmUp).sort((a, b) => a - b);
  if (used.length < seriesStepsMin) return undefined;
  const cut = Math.floor(used.length / 10);
  const kept = used.slice(cut, used.length - cut);
  const winsorized = used.map((log) => Math.min(Math.max(log, kept[0] as number), kept.at(-1) as number));
  const middle = mean(winsorized);
  const squares = winsorized.reduce((sum, log) => sum + (log - middle) ** 2, 0);
  const degrees = kept.length - 1;
  const noise = Math.max(Math.sqrt(squares / degrees), noiseFloor);
  return { level: Math.exp(mean(kept)), noise, blocks: kept.length, steps: used.length, warmUp, degrees };
}

/**
 * How much longer the steps of one series take than those of another.
 * @example compareSeries(levelOfSeries(baseline), levelOfSeries(run)).change >= 0.03
 */
export function compareSeries(before: SeriesLevel, after: SeriesLevel): SeriesComparison {
  const change = Math.log(after.level / before.level);
  const variances = [before, after].map(varianceOf);
  const variance = variances.reduce((sum, one) => sum + one, 0);
  const error = Math.sqrt(variance);
  // Welch and Satterthwaite; known noise does not contribute.
  const rest = [before, after].reduce(
    (sum, { degrees }, at) => sum + (degrees === undefined ? 0 : (variances[at] as number) ** 2 / degrees),
    0,
  );
  const degrees = rest === 0 ? Number.POSITIVE_INFINITY : variance ** 2 / rest;
  const within = studentQuantile(interval95, degrees) * error;
  const needed = studentQuantile(certainty, degrees);
  const t = change / error;
  const confidence = { t, low: Math.expm1(change - within), high: Math.expm1(change + within) };
  return { before, after, change: Math.expm1(change), confidence, isCertain: Math.abs(t) >= needed, provable: Math.expm1(needed * error) };
}

/** Variance of a level: of a median of blocks, or of a mean of steps. */
const varianceOf = ({ noise, blocks, degrees }: SeriesLevel): number => ((degrees === undefined ? medianError : 1) * noise) ** 2 / blocks;

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

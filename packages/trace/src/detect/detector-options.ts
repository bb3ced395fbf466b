// A detector's settings, checked once, with the scratch space shared by all series.

import { TraceError } from '../model/errors.ts';
import type { ShapeFit } from './block-statistics.ts';
import { detectLimits } from './detect-limits.ts';
import { habitsLength } from './series-habits.ts';
import { NoiseMeasure, noiseLength } from './series-noise.ts';

/** Settings of a step-time detector. Shares are of step time: 0.03 is 3 %. */
export interface DetectorOptions {
  /** Steps per block: a multiple of a known period (gradient accumulation, parity of the optimiser). */
  readonly blockSteps: number;
  /** Blocks in the reference before the recent window, and in the golden baseline. */
  readonly referenceBlocks: number;
  /** Blocks in the widest recent window; windows are 2, 4, 8, … up to it. */
  readonly windowBlocksMax: number;
  /** |T| from which on a change may be real. */
  readonly thresholdT: number;
  /** |T| required of the preceding blocks in a row. */
  readonly holdT: number;
  /** Number of consecutive blocks that must agree. */
  readonly confirmBlocks: number;
  /** Consecutive blocks that must differ by less than `warmUpShare` to end warm-up. */
  readonly warmUpBlocks: number;
  readonly warmUpShare: number;
  /** Blocks after which warm-up ends in any case. */
  readonly warmUpBlocksMax: number;
  /** |T| against the usual differences of such levels in this series (series-noise.ts); larger while little is learnt, and below `changePlain`. */
  readonly learntT: number;
  /** Noise (deviation of blocks) from which on blocks are twice as long. */
  readonly noisyShare: number;
  /** Smallest reported change, as is `noiseFactor` times the noise. */
  readonly changeMin: number;
  readonly noiseFactor: number;
  /** Smallest reported change before the series has a long record at one level. */
  readonly changeMinYoung: number;
  /** Changes from this size on need no more than `learntT`, and are reported on top of an open incident. */
  readonly changePlain: number;
  /** Lower limit for noise: clocks and logs are rounded. */
  readonly noiseFloor: number;
  /** A slow rise is reported when it exceeds the golden baseline by this. */
  readonly driftMin: number;
  /** The same during an open incident: the excess over the slowest level reported. */
  readonly driftFurtherMin: number;
  /** The shortest window in which a rise may be a ramp rather than a step. */
  readonly driftBlocks: number;
  /** Blocks back at the old level that end an incident. */
  readonly returnBlocks: number;
}

/** The reference's settings (step-time-regression, §4): no false alarm on 245 121 stationary steps, +3 % found in 32 steps. */
export const defaultDetectorOptions: DetectorOptions = {
  blockSteps: 8,
  referenceBlocks: 32,
  windowBlocksMax: 64,
  thresholdT: 6,
  holdT: 4,
  confirmBlocks: 3,
  warmUpBlocks: 4,
  warmUpShare: 0.02,
  warmUpBlocksMax: 64,
  learntT: 5,
  noisyShare: 0.01,
  changeMin: 0.015,
  noiseFactor: 3,
  changeMinYoung: 0.024,
  changePlain: 0.03,
  noiseFloor: 0.002,
  driftMin: 0.05,
  driftFurtherMin: 0.2,
  driftBlocks: 16,
  returnBlocks: 16,
};

/** For series of a few hundred steps, such as benchmark submissions: ready after 70 steps instead of 180. */
export const shortSeriesOptions: DetectorOptions = {
  ...defaultDetectorOptions,
  blockSteps: 4,
  referenceBlocks: 16,
  windowBlocksMax: 16,
  confirmBlocks: 2,
  learntT: 3.5,
};

/** How certain a change must be to be reported. */
export type Sensitivity = (typeof sensitivities)[number];
export const sensitivities = ['low', 'normal', 'high'] as const;

/** Users' settings; each leaves the other settings unchanged. */
export interface DetectorWishes {
  /** Smallest change to report, as a share. */
  readonly minChange?: number | undefined;
  readonly sensitivity?: Sensitivity | undefined;
}

/**
 * Settings with a user's wishes applied to `base`.
 * @example new DetectorPlan(detectorOptionsFor({ minChange: 0.05, sensitivity: 'low' }))
 */
export function detectorOptionsFor({ minChange, sensitivity = 'normal' }: DetectorWishes, base = defaultDetectorOptions): DetectorOptions {
  const changeMin = minChange ?? base.changeMin;
  // Users of small changes want them soon, too.
  const scale = Math.min(1, changeMin / base.changeMin);
  const [changeMinYoung, changePlain] = [scale * base.changeMinYoung, scale * base.changePlain];
  const options = { ...base, changeMin, changeMinYoung, changePlain, driftMin: Math.max(base.driftMin, changeMin) };
  const { learntT, confirmBlocks } = base;
  switch (sensitivity) {
    case 'low':
      return { ...options, learntT: 1.6 * learntT, changeMinYoung: changePlain, confirmBlocks: 2 * confirmBlocks };
    case 'high':
      return { ...options, learntT: 0.6 * learntT, changeMinYoung: changeMin };
    default:
      return options;
  }
}

/** Single levels that a series remembers: golden baseline and its noise; for an open incident: before, slowest, least change. */
export const levelsOfSeries = 5;

/** Checked settings and scratch space, shared by any number of series: a series alone stays below 1 KB. */
export class DetectorPlan {
  readonly options: DetectorOptions;
  /** Widths of the recent window, blocks. */
  readonly windows: readonly number[];
  /** Fewest blocks for a reference. */
  readonly referenceBlocksMin: number;
  /** Blocks that a series keeps. */
  readonly blocksMax: number;
  /** Offsets in a series' memory: block values, first-step distances, the open block's steps, single levels, noise and habits. */
  readonly spansAt: number;
  readonly stepsAt: number;
  readonly levelsAt: number;
  readonly noiseAt: number;
  readonly habitsAt: number;
  readonly valuesLength: number;
  readonly scratch: Float64Array;
  readonly noise: NoiseMeasure;
  readonly step: ShapeFit = { squares: 0, at: 0 };
  readonly ramp: ShapeFit = { squares: 0, at: 0 };

  /**
   * Takes the differences from `defaultDetectorOptions`.
   * @throws TraceError `bad_option`
   */
  constructor(options: Partial<DetectorOptions> = {}) {
    this.options = checkOptions({ ...defaultDetectorOptions, ...options });
    const { referenceBlocks, windowBlocksMax, blockSteps } = this.options;
    const windows: number[] = [];
    for (let width = 2; width <= windowBlocksMax; width *= 2) windows.push(width);
    this.windows = windows;
    this.referenceBlocksMin = Math.max(8, referenceBlocks >> 1);
    this.blocksMax = referenceBlocks + windowBlocksMax;
    this.spansAt = this.blocksMax;
    this.stepsAt = this.spansAt + detectLimits.detectOnsetBlocksMax;
    this.levelsAt = this.stepsAt + 2 * blockSteps;
    this.noiseAt = this.levelsAt + levelsOfSeries;
    this.habitsAt = this.noiseAt + noiseLength;
    this.valuesLength = this.habitsAt + habitsLength;
    this.scratch = new Float64Array(Math.max(this.blocksMax, 2 * blockSteps));
    this.noise = new NoiseMeasure(this.blocksMax, this.scratch);
  }
}

function checkOptions(options: DetectorOptions): DetectorOptions {
  const whole = (name: keyof DetectorOptions, min: number, max: number): void => {
    const value = options[name];
    if (Number.isInteger(value) && value >= min && value <= max) return;
    throw new TraceError('bad_option', `Cannot detect with ${name} ${value}: it must be a whole number from ${min} to ${max}`);
  };
  const share = (name: keyof DetectorOptions, min = 0): void => {
    const value = options[name];
    if (value > min && value < 10) return;
    throw new TraceError('bad_option', `Cannot detect with ${name} ${value}: it must be more than ${min} and less than 10`);
  };
  const blocks = detectLimits.detectBlocksMax;
  whole('blockSteps', 1, detectLimits.detectBlockStepsMax / 2);
  whole('referenceBlocks', 8, blocks / 2);
  whole('windowBlocksMax', 2, blocks / 2);
  whole('confirmBlocks', 1, blocks);
  whole('warmUpBlocks', 1, options.referenceBlocks);
  whole('warmUpBlocksMax', options.warmUpBlocks, 65_536);
  whole('driftBlocks', 2, options.windowBlocksMax);
  whole('returnBlocks', 1, 65_536);
  for (const name of [
    'warmUpShare',
    'noisyShare',
    'changeMin',
    'changeMinYoung',
    'changePlain',
    'driftMin',
    'driftFurtherMin',
    'noiseFactor',
  ] as const) {
    share(name);
  }
  share('noiseFloor', 1e-6);
  for (const name of ['thresholdT', 'learntT'] as const) {
    if (options[name] > 0 && options[name] < 1e6) continue;
    throw new TraceError('bad_option', `Cannot detect with ${name} ${options[name]}: it must be more than 0 and less than 1e6`);
  }
  return options;
}

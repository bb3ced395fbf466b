// How a detector is set, checked once, with the room to think that all series share.

import { TraceError } from '../model/errors.ts';
import type { ShapeFit } from './block-statistics.ts';
import { detectLimits } from './detect-limits.ts';
import { habitsLength } from './series-habits.ts';
import { NoiseMeasure, noiseLength } from './series-noise.ts';

/** Settings of a step-time detector. Shares are of step time: 0.03 is 3 %. */
export interface DetectorOptions {
  /** Steps of one block: a multiple of a known period (gradient accumulation, parity of the optimiser). */
  readonly blockSteps: number;
  /** Blocks of the reference before the recent window, and of the golden baseline. */
  readonly referenceBlocks: number;
  /** Blocks of the widest recent window; windows are 2, 4, 8, … up to it. */
  readonly windowBlocksMax: number;
  /** |T| from which a change may be real. */
  readonly thresholdT: number;
  /** |T| that the blocks before, in a row, must have had. */
  readonly holdT: number;
  /** Blocks in a row that must say the same. */
  readonly confirmBlocks: number;
  /** Blocks in a row that must differ by less than `warmUpShare` before anything counts. */
  readonly warmUpBlocks: number;
  readonly warmUpShare: number;
  /** Blocks after which warm-up ends in any case. */
  readonly warmUpBlocksMax: number;
  /** |T| against what levels of such lengths differ by in this series anyhow (series-noise.ts); more while that rests on little, and for less than `changePlain`. */
  readonly learntT: number;
  /** The noise from which blocks are twice as long (deviation of blocks). */
  readonly noisyShare: number;
  /** No change smaller than this is told, nor than `noiseFactor` times the noise. */
  readonly changeMin: number;
  readonly noiseFactor: number;
  /** Nor one smaller than this before the series has a long record at one level. */
  readonly changeMinYoung: number;
  /** Changes from this size on need no more than `learntT`, and count on top of what is open. */
  readonly changePlain: number;
  /** Noise is never taken for less: clocks and logs are rounded. */
  readonly noiseFloor: number;
  /** Slow rises are told when they pass the golden baseline by this. */
  readonly driftMin: number;
  /** The same while something is open: by how much a slow rise must pass the slowest level reported. */
  readonly driftFurtherMin: number;
  /** The shortest window in which a rise may be a ramp instead of a step. */
  readonly driftBlocks: number;
  /** Blocks back at the old level with which an incident is over. */
  readonly returnBlocks: number;
}

/** The settings of the reference (step-time-regression, §4): no false alarm on 245 121 stationary steps, +3 % found in 32 steps. */
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

/** For series of a few hundred steps, as benchmark submissions are: it is ready after 70 steps instead of 180. */
export const shortSeriesOptions: DetectorOptions = {
  ...defaultDetectorOptions,
  blockSteps: 4,
  referenceBlocks: 16,
  windowBlocksMax: 16,
  confirmBlocks: 2,
  learntT: 3.5,
};

/** How sure a detector is before it tells a change. */
export type Sensitivity = (typeof sensitivities)[number];
export const sensitivities = ['low', 'normal', 'high'] as const;

/** What people set: each leaves the rest of the settings as they are. */
export interface DetectorWishes {
  /** No change smaller than this share is told. */
  readonly minChange?: number | undefined;
  readonly sensitivity?: Sensitivity | undefined;
}

/**
 * Settings for what somebody wants, on top of `base`.
 * @example new DetectorPlan(detectorOptionsFor({ minChange: 0.05, sensitivity: 'low' }))
 */
export function detectorOptionsFor({ minChange, sensitivity = 'normal' }: DetectorWishes, base = defaultDetectorOptions): DetectorOptions {
  const changeMin = minChange ?? base.changeMin;
  // Who asks for small changes wants them soon, too.
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

/** Single levels that a series remembers: golden baseline and its noise; of what is open: before, slowest, least change. */
export const levelsOfSeries = 5;

/** Checked settings and scratch space, shared by any number of series: a series by itself stays below 1 KB. */
export class DetectorPlan {
  readonly options: DetectorOptions;
  /** Widths of the recent window, blocks. */
  readonly windows: readonly number[];
  /** Blocks without which there is no reference. */
  readonly referenceBlocksMin: number;
  /** Blocks that a series keeps. */
  readonly blocksMax: number;
  /** Where block values, first-step distances, the steps of the open block, single levels, noise and habits lie in a series' memory. */
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
   * Takes what differs from `defaultDetectorOptions`.
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
  whole('warmUpBlocks', 1, blocks);
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

// How a detector is set, checked once, with the room to think that all series share.

import { TraceError } from '../errors.ts';
import type { ShapeFit } from './block-statistics.ts';
import { detectLimits } from './detect-limits.ts';

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
  /** Noise of a series that is taken for quiet, and the noise from which blocks are twice as long (deviation of blocks). */
  readonly quietShare: number;
  readonly noisyShare: number;
  /** No change smaller than this is told: of a quiet series, of any other (or `noiseFactor` times its noise, if that is more). */
  readonly changeMinQuiet: number;
  readonly changeMin: number;
  readonly noiseFactor: number;
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
  quietShare: 0.01,
  noisyShare: 0.01,
  changeMinQuiet: 0.015,
  changeMin: 0.03,
  noiseFactor: 3,
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
};

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
  /** Where block values, first-step distances, the steps of the open block and single levels lie in a series' memory. */
  readonly spansAt: number;
  readonly stepsAt: number;
  readonly levelsAt: number;
  readonly valuesLength: number;
  readonly scratch: Float64Array;
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
    this.valuesLength = this.levelsAt + levelsOfSeries;
    this.scratch = new Float64Array(Math.max(this.blocksMax, 2 * blockSteps));
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
    'quietShare',
    'noisyShare',
    'changeMinQuiet',
    'changeMin',
    'driftMin',
    'driftFurtherMin',
    'noiseFactor',
  ] as const) {
    share(name);
  }
  share('noiseFloor', 1e-6);
  if (!(options.thresholdT > 0 && options.thresholdT < 1e6)) {
    throw new TraceError('bad_option', `Cannot detect with thresholdT ${options.thresholdT}: it must be more than 0 and less than 1e6`);
  }
  return options;
}

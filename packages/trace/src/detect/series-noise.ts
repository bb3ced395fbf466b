// Usual differences between the levels of one series without any change, for every length of a stretch.
//
//   blocks    1   2   3   4   5   6   7   8 …
//   scale 0   └───┘   └───┘   └───┘   └───┘      half the squared difference of neighbours,
//   scale 1   └───────────┘   └───────────┘      of means of two blocks, of four, … of 32
//
// This is the Allan variance (D. W. Allan, Statistics of atomic frequency standards, Proc. IEEE 54, 1966). For plain noise each scale has half
// the variance of the one before. Noise that is correlated, drifts or jumps to and fro averages away more slowly, and the scales measure by
// how much. The last blocks of a series give it in every position (most precise while a series is young); a sum for each scale remembers
// earlier blocks.
//
// Invariant: learning and measuring allocate nothing. A series keeps `noiseLength` numbers, the rest is scratch space of the plan.
//
//   values from `at`   | blocks learnt | a mean that waits for its neighbour, per scale | variance, per scale |
//                      0               waitingAt                                      varianceAt

import { deviationOfSorted, medianOfRange } from './block-statistics.ts';

const noiseScales = 6;
const [waitingAt, varianceAt] = [1, 1 + noiseScales] as const;
export const noiseLength: number = varianceAt + noiseScales;

/** Differences that a scale remembers: older ones fade. */
const remembered = 64;
/** Cap of a difference, in deviations, or as this share of a step: one fault teaches a series little. */
const differenceDeviationsMax = 4;
const differenceMax = 0.03;
/** Prior of a scale, as a share of the scale before, and the number of differences it counts for. */
const assumed = { ratioMin: 0.7, ratioMax: 1, differences: 4 } as const;
/** Prior of the first scale, as a share of the noise floor. */
const assumedFirst = 0.5;

/** Learns the level of the next old block. */
export function learnNoise(values: Float32Array, at: number, level: number): void {
  const count = learntBlocks(values, at) + 1;
  values[at] = count;
  let mean = level;
  for (let scale = 0; scale < noiseScales; scale++) {
    const waiting = values[at + waitingAt + scale] as number;
    if (Number.isNaN(waiting)) {
      values[at + waitingAt + scale] = mean;
      return;
    }
    values[at + waitingAt + scale] = Number.NaN;
    const place = at + varianceAt + scale;
    const known = values[place] as number;
    const most = Number.isNaN(known) ? differenceMax : Math.max(differenceMax, differenceDeviationsMax * Math.sqrt(2 * known));
    const variance = Math.min(most, Math.abs(mean - waiting)) ** 2 / 2;
    const samples = Math.max(1, Math.min(remembered, count >> (scale + 1)));
    values[place] = Number.isNaN(known) ? variance : known + (variance - known) / samples;
    mean = (mean + waiting) / 2;
  }
}

/** Starts another level: means that wait for a neighbour are forgotten. */
export function breakNoise(values: Float32Array, at: number): void {
  values.fill(Number.NaN, at + waitingAt, at + varianceAt);
}

/** Doubles the length of blocks from here on. */
export function coarsenNoise(values: Float32Array, at: number): void {
  breakNoise(values, at);
  values.copyWithin(at + varianceAt, at + varianceAt + 1, at + noiseLength);
  values[at + noiseLength - 1] = Number.NaN;
  values[at] = learntBlocks(values, at) >> 1;
}

function learntBlocks(values: Float32Array, at: number): number {
  const count = values[at] as number;
  return Number.isNaN(count) ? 0 : count;
}

/** Scratch space for measuring, shared by all series, and the last result. */
export class NoiseMeasure {
  /** Variance of one block. */
  blockVariance = 0;
  /** Variance of the difference of two levels, and the number of independent differences behind it. */
  variance = 0;
  degrees = 0;
  readonly #sums: Float64Array;
  readonly #scales = new Float64Array(noiseScales);
  readonly #degrees = new Float64Array(noiseScales);
  readonly #scratch: Float64Array;

  constructor(blocksMax: number, scratch: Float64Array) {
    this.#sums = new Float64Array(blocksMax + 1);
    this.#scratch = scratch;
  }

  /**
   * Measures the usual difference between the means of `recent` blocks and of the `before` blocks ahead of them. `values` begins with the
   * `blocks` latest levels, and holds the learnt noise from `at` on; `floor`: lower limit of a block's deviation; `rise`: what the levels rise by
   * from block to block, which is no noise.
   */
  measure(values: Float32Array, blocks: number, at: number, recent: number, before: number, floor: number, rise = 0): void {
    this.#sum(values, blocks, floor, rise);
    const count = learntBlocks(values, at);
    let ratio: number = assumed.ratioMin;
    for (let scale = 0; scale < noiseScales; scale++) {
      const width = 2 ** scale;
      const least = floor ** 2 / width;
      let [variance, degrees] = [0, 0];
      if (2 * width <= blocks) {
        variance = this.#varianceOf(blocks, width);
        // Equivalent degrees of freedom of white noise, overlapping (Howe, Allan, Barnes 1981).
        degrees = Math.max(1, (((1.5 * (blocks - 1)) / width - 2) * 4 * width ** 2) / (4 * width ** 2 + 5));
      }
      const older = Math.min(remembered, Math.max(0, count - blocks) / (2 * width));
      const long = values[at + varianceAt + scale] as number;
      if (older >= 1 && !Number.isNaN(long)) {
        variance = (degrees * variance + older * long) / (degrees + older);
        degrees += older;
      }
      const weight = scale === 0 ? assumedFirst : assumed.differences;
      const expected = scale === 0 ? least : Math.max(least, ratio * (this.#scales[scale - 1] as number));
      const known = Math.max(least, (weight * expected + degrees * variance) / (weight + degrees));
      this.#scales[scale] = known;
      this.#degrees[scale] = weight + degrees;
      if (scale > 0) ratio = Math.min(assumed.ratioMax, Math.max(assumed.ratioMin, known / (this.#scales[scale - 1] as number)));
    }
    this.blockVariance = this.#scales[0] as number;
    this.#combine(recent, before);
  }

  /** Sums of the levels, with single outliers clipped. */
  #sum(values: Float32Array, blocks: number, floor: number, rise: number): void {
    const sums = this.#sums;
    for (let at = 0; at < blocks; at++) sums[at + 1] = (values[at] as number) - rise * at;
    const middle = medianOfRange(sums, 1, blocks + 1, this.#scratch);
    const most = differenceDeviationsMax * Math.max(floor, deviationOfSorted(this.#scratch, blocks, middle));
    for (let at = 1; at <= blocks; at++) {
      const level = Math.max(-most, Math.min(most, (sums[at] as number) - middle));
      sums[at] = (sums[at - 1] as number) + level;
    }
  }

  /** Half the mean squared difference of means of `width` blocks and of the `width` blocks before them. */
  #varianceOf(blocks: number, width: number): number {
    const sums = this.#sums;
    let squares = 0;
    for (let to = 2 * width; to <= blocks; to++) {
      squares += ((sums[to] as number) - 2 * (sums[to - width] as number) + (sums[to - 2 * width] as number)) ** 2;
    }
    return squares / (2 * width ** 2 * (blocks - 2 * width + 1));
  }

  /**
   * The mean of a stretch differs from that of the enclosing stretch of twice the length by half a difference of neighbours, that one from the
   * next, and so on up to the whole: the variances of these halves add up.
   */
  #combine(recent: number, before: number): void {
    const [short, long] = recent < before ? [recent, before] : [before, recent];
    const [first, last] = [Math.log2(short), Math.log2(short + long)];
    let [sum, squares] = [0, 0];
    for (let scale = Math.floor(first); scale < last; scale++) {
      const part = Math.min(scale + 1, last) - Math.max(scale, first);
      const known = Math.min(scale, noiseScales - 1);
      const variance = (part * (this.#scales[known] as number)) / 2;
      sum += variance;
      squares += variance ** 2 / (this.#degrees[known] as number);
    }
    this.variance = ((short + long) / long) ** 2 * sum;
    // Welch and Satterthwaite.
    this.degrees = sum ** 2 / squares;
  }
}

// Whether a change of level exceeds the series' usual behaviour: the last check before it is reported.
//
// Each doubt comes from real false alarms: a level that wanders by 2 % (the record is too short to show it), bursts (they have come and gone
// before, or end just now, or scatter more than a new level would), noise correlated from step to step (levels of such lengths differ by as
// much), steps that take one of two paths (as many slow blocks in a row occur by chance).

import { deviationOfSorted, medianOfRange, steadyRise } from './block-statistics.ts';
import type { DetectorPlan } from './detector-options.ts';
import { isHabit } from './series-habits.ts';

/** Few differences make noise uncertain: T must be larger by this divided by their number. */
const fewDegrees = 3;
/** A change smaller than this share of `changePlain` must be clearer in inverse proportion to its size. */
const plainShare = 0.8;
/** Variance of a median over that of a mean, for few blocks. */
const medianVariance = 1.4;
/** A new level with more than this times the variance of the blocks before it is as uncertain as its own scatter. */
const unsteadyFactor = 16;
/** Up to this chance of so many blocks beyond the middle of a change, it counts as a change. */
const chanceMax = 1e-4;
/** A line that explains this share of a series' variation is a steady rise: one step in its middle is explained to three quarters. */
export const steadyShare = 0.85;
/** Record required for a small change, as a share of the blocks that a series remembers. */
const recordShare = 0.68;

/** A change of level from block `at` on, compared with the `count` blocks before it. Levels are logarithms. */
export interface LevelStep {
  readonly at: number;
  readonly count: number;
  readonly before: number;
  readonly after: number;
  /** Whether it is far larger than any stretch that has come and gone. */
  readonly isLeap: boolean;
}

/** `values` holds `size` blocks of a series and its learnt noise and habits. */
export function isNews(plan: DetectorPlan, values: Float32Array, size: number, step: LevelStep): boolean {
  const { at, count, before, after, isLeap } = step;
  const { options, noise, noiseAt, habitsAt, blocksMax, scratch } = plan;
  const { changeMinYoung, changePlain, noiseFactor, noiseFloor, learntT } = options;
  const held = size - at;
  const change = Math.abs(after - before);
  if (!isLeap && isHabit(values, habitsAt, held)) return false;
  // The last block is nearer to the level before: the change may be over.
  const last = values[size - 1] as number;
  if ((last - before) / (after - before) < 0.5) return false;
  if (isChance(values, size, step)) return false;
  noise.measure(values, at, noiseAt, held, count, noiseFloor);
  // Allow half a standard error, as the change may be measured too small.
  if (at < recordShare * blocksMax && change + Math.sqrt(noise.variance) / 2 < changeMinYoung) return false;
  if (change < Math.min(changePlain, noiseFactor * Math.sqrt(noise.blockVariance))) return false;
  medianOfRange(values, at, size, scratch);
  const scatter = deviationOfSorted(scratch, held, after) ** 2;
  const unsteady = scatter > unsteadyFactor * noise.blockVariance ? scatter / held : 0;
  const t = change / Math.sqrt(medianVariance * noise.variance + unsteady);
  return t >= learntT * (1 + fewDegrees / noise.degrees) * Math.max(1, (plainShare * changePlain) / change);
}

/**
 * Whether earlier blocks already resembled the new ones, so often that as many in a row occur by chance: steps that take one of two paths
 * have such blocks, and their levels scatter too little to show it.
 */
function isChance(values: Float32Array, size: number, { at, count, before, after }: LevelStep): boolean {
  const [middle, sign] = [(before + after) / 2, Math.sign(after - before)];
  const beyond = (from: number, until: number): number => {
    let blocks = 0;
    for (let block = from; block < until; block++) if (sign * ((values[block] as number) - middle) > 0) blocks++;
    return blocks;
  };
  const usual = beyond(at - count, at);
  if (usual === 0) return false;
  const share = (usual + 1) / (count + 2);
  const held = size - at;
  // The binomial's upper tail.
  let [term, tail] = [(1 - share) ** held, 0];
  const seen = beyond(at, size);
  for (let blocks = 0; blocks <= held; blocks++) {
    if (blocks >= seen) tail += term;
    term *= ((held - blocks) / (blocks + 1)) * (share / (1 - share));
  }
  return tail > chanceMax;
}

/**
 * The difference that block-to-block correlated noise makes between the last `held` blocks and a baseline. It is measured within stretches of
 * the same length: over longer ones a rise would be noise, too. A series that rises steadily wanders only beside that rise.
 */
export function wanderOver({ options, noise, noiseAt }: DetectorPlan, values: Float32Array, size: number, held: number): number {
  const rise = steadyRise(values, size - held, steadyShare);
  noise.measure(values, size - held, noiseAt, held, held, options.noiseFloor, rise);
  return options.learntT * Math.sqrt((noise.variance / 2) * (1 + held / options.referenceBlocks));
}

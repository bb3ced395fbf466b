// Long steps, such as those with a checkpoint: the level of a series leaves them out, so this says what they add to its time.
//
//   steps   ▁▁▁▁█▁▁▁▁█▂▁▁▁█▁     added = number of delays × mean of what each takes beyond the usual step, over all steps
//
// Long steps in a row are one delay: where one rank writes a checkpoint behind the last collective, the others wait for it in the next step.
//
// How well is that known? Other steps of the same code have about as many: exactly as many where delays come regularly, or one more or less where the
// stretch begins or ends between two; but not so where they come by chance, or in bursts. The gaps between them show which: if the gaps have the
// coefficient of variation c, n come n ± c √n times. Source: D. R. Cox, Renewal Theory (1962), section 3.3.

import { median } from '../model/robust.ts';

/** A step over so many times the usual one is long. */
export const longOver = 1.5;
/** Fewest gaps that show how regular they are; of fewer, delays count as coming by chance. */
const gapsMin = 2;
/** From this irregularity on, delays come by chance. */
const byChance = 0.5;
/** Variance of the number of those that come regularly: a stretch may begin anywhere between two. */
const countedFrom = 0.25;

/** The delays of a stretch of steps; lengths in usual steps. */
export interface LongSteps {
  readonly steps: number;
  /** Delays: long steps in a row are one. */
  readonly count: number;
  /** Mean length of one, beyond the usual steps. */
  readonly size: number;
  /** Variance of their lengths. */
  readonly scatter: number;
  /** Square of the coefficient of variation of the gaps between them: 0 for regular ones, 1 for those that come by chance. */
  readonly irregularity: number;
}

/** The share that they add to the time of all steps: 0.1 where one of ten steps takes twice as long. */
export const addedBy = ({ steps, count, size }: LongSteps): number => (steps === 0 ? 0 : (count * size) / steps);

/**
 * Variance of ln (1 + added) and its degrees of freedom, as if both stretches had the same delays: those of the `other` may be missing here by chance,
 * and a few may seem regular, or alike, by chance. So their rate is that of both, and the larger irregularity, size and scatter count.
 */
export function varianceOfAdded(own: LongSteps, other: LongSteps): { readonly variance: number; readonly degrees: number } {
  if (own.steps === 0) return { variance: 0, degrees: 1 };
  const irregularity = Math.max(own.irregularity, other.irregularity);
  const [mine, theirs] = [own, other].map(({ size, scatter }) => size ** 2 * irregularity + scatter) as [number, number];
  const expected = (own.steps * (own.count + other.count)) / (own.steps + other.steps);
  // Roots of counts are normal: more than expected are less improbable than a variance says, and fewer are more so (F. J. Anscombe, Biometrika 35, 1948).
  const ofRoots = (Math.sqrt(own.count) + Math.sqrt(expected)) ** 2 / 4;
  const count = own.count >= expected ? ofRoots : (ofRoots + expected) / 2;
  const variance = count * Math.max(mine, theirs) + countedFrom * Math.max(own.size, other.size) ** 2;
  // Where delays come by chance, the variance of their number follows from that, and rests less on these few.
  const known = (theirs > mine ? other.count : own.count) * (irregularity < byChance ? 1 : 2);
  return { variance: variance / (own.steps * (1 + addedBy(own))) ** 2, degrees: Math.max(1, known - 1) };
}

/** The delays that are over by a step, in JSON's types; places are numbers of steps. */
export interface DelayTally {
  readonly steps: number;
  readonly count: number;
  readonly lengths: number;
  readonly lengthSquares: number;
  readonly gapSquares: number;
  /** Where the last delay began; -1: there is none. */
  readonly last: number;
}

const nothing: DelayTally = { steps: 0, count: 0, lengths: 0, lengthSquares: 0, gapSquares: 0, last: -1 };

/** Counts delays. Long steps from the first one on are warm-up, and not counted. */
export class DelayCounter {
  #steps = 0;
  #count = 0;
  #lengths = 0;
  #lengthSquares = 0;
  #gapSquares = 0;
  /** Length of the open delay; 0: there is none. */
  #open = 0;
  /** Where the last delay began; -1: there is none. */
  last = -1;

  /** Continues from a tally and the length of the delay that was open then. */
  constructor(from = nothing, open = 0) {
    [this.#steps, this.#count, this.#lengths, this.#lengthSquares] = [from.steps, from.count, from.lengths, from.lengthSquares];
    [this.#gapSquares, this.last, this.#open] = [from.gapSquares, from.last, open];
  }

  /** Takes the next step, in usual steps; returns whether a delay begins with it. */
  add(length: number): boolean {
    const isLong = length > longOver;
    if (isLong && this.#steps === 0) return false;
    this.#steps++;
    const begins = isLong && this.#open === 0;
    if (begins) {
      if (this.last >= 0) this.#gapSquares += (this.#steps - this.last) ** 2;
      this.last = this.#steps;
    }
    if (isLong) this.#open += length - 1;
    else this.end();
    return begins;
  }

  /** Ends the open delay. */
  end(): void {
    if (this.#open === 0) return;
    this.#count++;
    this.#lengths += this.#open;
    this.#lengthSquares += this.#open ** 2;
    this.#open = 0;
  }

  /** Length of the open delay, which no tally holds; 0: there is none. */
  get open(): number {
    return this.#open;
  }

  get tally(): DelayTally {
    const [steps, count, lengths, lengthSquares] = [this.#steps, this.#count, this.#lengths, this.#lengthSquares];
    return { steps, count, lengths, lengthSquares, gapSquares: this.#gapSquares, last: this.last };
  }
}

/** The delays between two tallies of one counter; `next`: where the first one after `from` began. */
export function delaysBetween(from: DelayTally, next: number, until: DelayTally): LongSteps {
  const steps = until.steps - from.steps;
  const count = until.count - from.count;
  if (count === 0) return { steps, count, size: 0, scatter: 0, irregularity: 0 };
  const size = (until.lengths - from.lengths) / count;
  const squares = until.lengthSquares - from.lengthSquares - count * size ** 2;
  const scatter = count < 2 ? 0 : Math.max(0, squares) / (count - 1);
  return { steps, count, size, scatter, irregularity: irregularityOf(from, next, until) };
}

function irregularityOf(from: DelayTally, first: number, until: DelayTally): number {
  const count = until.count - from.count;
  if (count - 1 < gapsMin) return 1;
  const { last } = until;
  const usual = (last - first) / (count - 1);
  // Without them, delays that all come at the end would seem regular.
  const edges = [first - from.steps, until.steps - last].filter((gap) => gap > usual);
  const gaps = count - 1 + edges.length;
  const total = last - first + edges.reduce((sum, gap) => sum + gap, 0);
  const before = from.last < 0 ? 0 : (first - from.last) ** 2;
  const squares = until.gapSquares - from.gapSquares - before + edges.reduce((sum, gap) => sum + gap ** 2, 0);
  const middle = total / gaps;
  return Math.max(0, squares - gaps * middle ** 2) / ((gaps - 1) * middle ** 2);
}

/** The delays of a whole series, against the usual step. */
export function longStepsOf(times: readonly number[], usual: number = median(times)): LongSteps {
  const counter = new DelayCounter();
  let first = -1;
  for (const time of times) if (counter.add(time / usual) && first < 0) first = counter.last;
  counter.end();
  return delaysBetween(nothing, first, counter.tally);
}

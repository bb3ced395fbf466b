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
/** Variance of the number of those that come regularly: a stretch may begin anywhere between two. */
const countedFrom = 0.25;

/** The delays of a stretch of steps; lengths in usual steps. */
export interface LongSteps {
  readonly steps: number;
  /** Delays: long steps in a row are one. */
  readonly count: number;
  /** Mean length of one, beyond the usual steps. */
  readonly size: number;
  /** Variance of the sum of their lengths, per step. */
  readonly variance: number;
}

/** What they add to the time of all steps, as a share: 0.1 where one of ten steps takes twice as long. */
export const addedBy = ({ steps, count, size }: LongSteps): number => (steps === 0 ? 0 : (count * size) / steps);

/**
 * Variance of ln (1 + added) and its degrees of freedom. Delays like those of the `other` stretch may be missing here by chance: of the two
 * variances the larger one counts.
 */
export function varianceOfAdded(own: LongSteps, other: LongSteps): { readonly variance: number; readonly degrees: number } {
  if (own.steps === 0) return { variance: 0, degrees: 1 };
  const [mine, theirs] = [own, other].map(({ variance, size }) => (variance * own.steps + countedFrom * size ** 2) / own.steps ** 2) as [
    number,
    number,
  ];
  const { count } = theirs > mine ? other : own;
  return { variance: Math.max(mine, theirs) / (1 + addedBy(own)) ** 2, degrees: Math.max(1, count - 1) };
}

/** Delays up to a step, in JSON's types; places are numbers of steps. */
export interface DelayTally {
  readonly steps: number;
  readonly count: number;
  readonly lengths: number;
  readonly lengthSquares: number;
  readonly gapSquares: number;
  /** Where the last delay began, and the first one after these steps; -1: there is none. */
  readonly last: number;
  next: number;
}

/** Counts delays. Long steps from the first one on are warm-up, and not counted. */
export class DelayCounter {
  #steps = 0;
  #count = 0;
  #lengths = 0;
  #lengthSquares = 0;
  #gapSquares = 0;
  #last = -1;
  /** Length of the open delay; 0: there is none. */
  #open = 0;
  readonly #watched: DelayTally[] = [];

  /** Takes the next step, in usual steps. */
  add(length: number): void {
    const isLong = length > longOver;
    if (isLong && this.#steps === 0) return;
    this.#steps++;
    if (!isLong) this.#close();
    else {
      if (this.#open === 0) this.#begin(this.#steps);
      this.#open += length - 1;
    }
  }

  /** Whether the last step was ordinary: a tally then holds whole delays. */
  get isCalm(): boolean {
    return this.#open === 0;
  }

  /** The delays that are over; `next` is filled in when another begins. */
  tally(): DelayTally {
    const [steps, count, lengths, lengthSquares] = [this.#steps, this.#count, this.#lengths, this.#lengthSquares];
    const tally = { steps, count, lengths, lengthSquares, gapSquares: this.#gapSquares, last: this.#last, next: -1 };
    this.#watched.push(tally);
    return tally;
  }

  /** Continues from its newest tally. */
  restore({ steps, count, lengths, lengthSquares, gapSquares, last, next }: DelayTally): void {
    [this.#steps, this.#count, this.#lengths, this.#lengthSquares] = [steps, count, lengths, lengthSquares];
    [this.#gapSquares, this.#last, this.#open] = [gapSquares, Math.max(last, next), 0];
  }

  #begin(at: number): void {
    if (this.#last >= 0) this.#gapSquares += (at - this.#last) ** 2;
    this.#last = at;
    for (const tally of this.#watched) tally.next = at;
    this.#watched.length = 0;
  }

  #close(): void {
    if (this.#open === 0) return;
    this.#count++;
    this.#lengths += this.#open;
    this.#lengthSquares += this.#open ** 2;
    this.#open = 0;
  }
}

/** The delays between two tallies of one counter. */
export function delaysBetween(from: DelayTally, until: DelayTally): LongSteps {
  const steps = until.steps - from.steps;
  const count = until.count - from.count;
  if (count === 0) return { steps, count, size: 0, variance: 0 };
  const size = (until.lengths - from.lengths) / count;
  const squares = until.lengthSquares - from.lengthSquares - count * size ** 2;
  const scatter = count < 2 ? 0 : Math.max(0, squares) / (count - 1);
  return { steps, count, size, variance: (count * (size ** 2 * irregularity(from, until, count) + scatter)) / steps };
}

/** The square of the gaps' coefficient of variation. */
function irregularity(from: DelayTally, until: DelayTally, count: number): number {
  if (count - 1 < gapsMin) return 1;
  const [first, last] = [from.next, until.last];
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

/** The delays of a whole series, against its median. */
export function longStepsOf(times: readonly number[]): LongSteps {
  const usual = median(times);
  const counter = new DelayCounter();
  const begin = counter.tally();
  for (const time of times) counter.add(time / usual);
  // Closes a delay that the series ends in.
  if (!counter.isCalm) counter.add(0);
  return delaysBetween(begin, counter.tally());
}

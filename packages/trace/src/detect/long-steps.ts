// Long steps, such as those with a checkpoint: the level of a series leaves them out, so this says what they add to its time.
//
//   steps   ▁▁▁▁█▁▁▁▁█▂▁▁▁█▁     added = number of delays × mean of what each takes beyond the median, over all steps
//
// Long steps in a row are one delay: where one rank writes a checkpoint behind the last collective, the others wait for it in the next step.
//
// How well is that known? The next run of the same code has about as many: exactly as many where they come regularly, or one more or less where the run
// begins or ends between two; but not so where they come by chance, or in bursts. The gaps between them show which: if the gaps have the coefficient
// of variation c, n come n ± c √n times. Source: D. R. Cox, Renewal Theory (1962), section 3.3.

import { mean, median } from '../model/robust.ts';

/** A step over so many times the median is a long one. */
export const longOver = 1.5;
/** Fewest gaps that show how regular they are; of fewer, delays count as coming by chance. */
const gapsMin = 2;
/** Variance of the number of those that come regularly: the run may have begun anywhere between two. */
const countedFrom = 0.25;

export interface LongSteps {
  /** Delays: long steps in a row are one. */
  readonly count: number;
  /** What they add to the time of all steps, as a share of it: 0.1 where ten steps have one that takes twice the median. */
  readonly added: number;
  /** Standard error of that. */
  readonly error: number;
}

/** A delay: the step that it begins with, and its length beyond the median, in medians. */
interface Delay {
  readonly at: number;
  length: number;
}

/** Of steps in their order. Long ones from the first step on are warm-up. */
export function longStepsOf(times: readonly number[]): LongSteps {
  const usual = median(times);
  const isLong = (time: number | undefined): boolean => time !== undefined && time > longOver * usual;
  let first = 0;
  while (isLong(times[first])) first++;
  const delays: Delay[] = [];
  for (let at = first; at < times.length; at++) {
    const time = times[at] as number;
    if (!isLong(time)) continue;
    const length = time / usual - 1;
    const last = delays.at(-1);
    if (last !== undefined && isLong(times[at - 1])) last.length += length;
    else delays.push({ at, length });
  }
  const count = delays.length;
  if (count === 0) return { count, added: 0, error: 0 };
  const steps = times.length - first;
  const size = mean(delays.map(({ length }) => length));
  const scatter = count < 2 ? 0 : delays.reduce((sum, { length }) => sum + (length - size) ** 2, 0) / (count - 1);
  const variance = size ** 2 * varianceOfCount(delays, first, times.length) + count * scatter;
  return { count, added: (count * size) / steps, error: Math.sqrt(variance) / steps };
}

function varianceOfCount(delays: readonly Delay[], first: number, until: number): number {
  const count = delays.length;
  const gaps = delays.slice(1).map(({ at }, index) => at - (delays[index] as Delay).at);
  if (gaps.length < gapsMin) return count;
  const usual = mean(gaps);
  // Without them, delays that all come at the end would seem regular.
  gaps.push(...[(delays[0] as Delay).at - first + 1, until - (delays.at(-1) as Delay).at].filter((gap) => gap > usual));
  const middle = mean(gaps);
  const squares = gaps.reduce((sum, gap) => sum + (gap - middle) ** 2, 0) / (gaps.length - 1);
  return (count * squares) / middle ** 2 + countedFrom;
}

// A change of level in readable numbers: times, a share, and its confidence.

import type { LevelChange } from './step-time-finding.ts';

/** Standard error of a median over that of a mean, for normal noise: √(π/2). */
export const medianError = 1.2533;
const normal95 = 1.96;

/** From `before` to `after` (logarithms), medians of `count` and of `held` blocks with noise `noise`. */
export function levelChange(
  step: number,
  onsetStep: number,
  before: number,
  after: number,
  noise: number,
  held: number,
  count: number,
): LevelChange {
  const error = medianError * noise * Math.sqrt(1 / held + 1 / count);
  const change = after - before;
  const [low, high] = [Math.expm1(change - normal95 * error), Math.expm1(change + normal95 * error)];
  return {
    step,
    onsetStep,
    change: Math.expm1(change),
    before: Math.exp(before),
    after: Math.exp(after),
    confidence: { t: change / error, low, high },
  };
}

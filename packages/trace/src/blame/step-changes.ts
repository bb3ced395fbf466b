// Steps at which a run's steps become longer or shorter for good, found by the alerts' detector on the cluster's steps as they pass. Blame
// begins and ends its windows there.
//
//   steps   ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▁▁▁▁▁▁▁▁▁
//   found                     ^ 400, certain at step 431     ^ 1000
//
// The detector finds the block with a change. Within it, the step is the one that best divides the steps around it into the level before and
// the level after (least squares; values beyond the two levels are clipped to them, so that a single long step decides nothing).
//
// Memory: the detector's, the last `blameStepsMax` lengths and `blameChangesMax` changes.

import { fitStep, type ShapeFit } from '../detect/block-statistics.ts';
import { DetectorPlan, shortSeriesOptions } from '../detect/detector-options.ts';
import { SeriesDetector } from '../detect/series-detector.ts';
import type { LevelChange } from '../detect/step-time-finding.ts';
import { blameLimits as limits } from './blame-limits.ts';

/** Steps on either side of the detector's change to search for its first step: two of its longest blocks. */
const aroundSteps = 4 * shortSeriesOptions.blockSteps;

export class StepChanges {
  readonly #detector = new SeriesDetector(new DetectorPlan(shortSeriesOptions));
  /** Numbers and lengths (logarithms of ns) of the last steps. */
  readonly #numbers: number[] = [];
  readonly #lengths: number[] = [];
  #changes: number[] = [];

  /** The first step of each new level, ascending. */
  get changes(): readonly number[] {
    return this.#changes;
  }

  /** Adds the next step, with its slowest rank's length, ns. */
  add(step: number, length: number): void {
    if (!(length > 0)) return;
    this.#numbers.push(step);
    this.#lengths.push(Math.log(length));
    if (this.#numbers.length > limits.blameStepsMax) {
      this.#numbers.shift();
      this.#lengths.shift();
    }
    const found = this.#detector.add(step, length);
    // A slow rise has no first step.
    if (found === undefined || found.kind === 'drift' || found.kind === 'rebaselined') return;
    const first = this.#firstStepOf(found);
    if (!this.#changes.includes(first)) this.#changes = [...this.#changes, first].sort((a, b) => a - b).slice(-limits.blameChangesMax);
  }

  #firstStepOf({ onsetStep, before, after }: LevelChange): number {
    const near = this.#numbers.findIndex((step) => step >= onsetStep);
    const [from, until] = [Math.max(0, near - aroundSteps), Math.min(this.#numbers.length, near + aroundSteps)];
    if (near < 0 || near - from < 2 || until - near < 2) return onsetStep;
    const [low, high] = [Math.log(Math.min(before, after)), Math.log(Math.max(before, after))];
    const levels = Float64Array.from(this.#lengths.slice(from, until), (length) => Math.min(high, Math.max(low, length)));
    const fit: ShapeFit = { squares: 0, at: 0 };
    fitStep(levels, 0, levels.length, 1, levels.length - 1, fit);
    return this.#numbers[from + fit.at] as number;
  }
}

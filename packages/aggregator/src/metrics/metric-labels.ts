// Names as label values, a bounded number of them: what a trace calls its phases must not fill the memory of whoever scrapes.
//
// Invariant: a name keeps its label for as long as the set lives; those that found no room share `other`.

import { displayText } from '@ranktrace/trace';
import { aggregatorLimits as limits } from '../limits.ts';

/** The label of what found no room. */
export const otherLabel = 'other';

export class MetricLabels {
  readonly #labelsMax: number;
  readonly #labels = new Map<string, string>();

  constructor(labelsMax: number) {
    this.#labelsMax = labelsMax;
  }

  /** All labels there may be. */
  get all(): readonly string[] {
    return [...new Set(this.#labels.values()), otherLabel];
  }

  /** `name` without what hides or turns text round, and cut; `other` when there are `labelsMax` different names already. */
  labelOf(name: string): string {
    const known = this.#labels.get(name);
    if (known !== undefined) return known;
    if (this.#labels.size >= this.#labelsMax) return otherLabel;
    const label = displayText(name, limits.metricsLabelCharsMax);
    this.#labels.set(name, label);
    return label;
  }
}

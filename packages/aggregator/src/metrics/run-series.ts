// The histograms' series of one run: one for its steps, one for the delay of its batches, one for each of a bounded number of phases: phase names of
// a trace must not fill a scraper's memory.
//
// Invariant: a phase keeps its series for as long as the run is reported; phases that found no room share `other`.

import { displayText, isWaitingPhase } from '@ranktrace/trace';
import { aggregatorLimits as limits } from '../model/limits.ts';
import type { HistogramSeries, SeriesHistogram } from './histogram.ts';

/** The label of series that found no room. */
export const otherLabel = 'other';

/** The histograms of all runs. */
export interface RunHistograms {
  readonly steps: SeriesHistogram;
  readonly phases: SeriesHistogram;
  readonly lag: SeriesHistogram;
}

/** Cached facts of a phase, by its name. */
export interface PhaseSeries {
  readonly series: HistogramSeries;
  /** Whether a rank waits in it for others. */
  readonly isWaiting: boolean;
}

export class RunSeries {
  /** Label of the run. */
  readonly label: string;
  readonly steps: HistogramSeries;
  readonly lag: HistogramSeries;
  readonly #histograms: RunHistograms;
  /** By the phase's name. Names without room are cached for a while, too, so that each is not examined anew. */
  readonly #phases = new Map<string, PhaseSeries>();
  readonly #own = new Set<HistogramSeries>();
  readonly #phasesMax: number;

  /** All runs with the label `other` share their series. */
  constructor(label: string, histograms: RunHistograms) {
    this.label = label;
    this.#histograms = histograms;
    this.steps = histograms.steps.series({ run: label });
    this.lag = histograms.lag.series({ run: label });
    this.#phasesMax = label === otherLabel ? 0 : limits.metricsPhasesMax;
  }

  phase(name: string): PhaseSeries {
    const known = this.#phases.get(name);
    if (known !== undefined) return known;
    const label = this.#own.size < this.#phasesMax ? displayText(name, limits.metricsLabelCharsMax) : otherLabel;
    const series = this.#histograms.phases.series({ run: this.label, phase: label });
    if (label !== otherLabel) this.#own.add(series);
    const phase = { series, isWaiting: isWaitingPhase(name) };
    if (this.#phases.size < limits.metricsPhaseNamesMax) this.#phases.set(name, phase);
    return phase;
  }

  /** Removes the series from the histograms. */
  remove(): void {
    if (this.label === otherLabel) return;
    const { steps, phases, lag } = this.#histograms;
    steps.remove(this.steps);
    lag.remove(this.lag);
    for (const series of this.#own) phases.remove(series);
    phases.remove(phases.series({ run: this.label, phase: otherLabel }));
  }
}

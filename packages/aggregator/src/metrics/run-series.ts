// The histograms' series of one run: one for its steps, one for the delay of its batches, one for each of a bounded number of phases: phase names of
// a trace must not fill a scraper's memory.
//
// Invariant: a phase keeps its series for as long as the run is reported; phases that found no room share `other`.

import { isWaitingRole, otherPhase } from '@ranktrace/protocol';
import { displayText, PhaseRoles } from '@ranktrace/trace';
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

export class RunSeries {
  /** Label of the run. */
  readonly label: string;
  readonly steps: HistogramSeries;
  readonly lag: HistogramSeries;
  readonly #histograms: RunHistograms;
  /** The roles of the run's phases. */
  readonly roles = new PhaseRoles();
  /** By the phase's name. Names without room are cached for a while, too, so that each is not examined anew. */
  readonly #phases = new Map<string, HistogramSeries>();
  readonly #ownPhases = new Map<string, number>();
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

  /** The place of a phase of own work among those whose lengths are kept; undefined for waiting, `other`, and further ones. */
  ownPhase(name: string): number | undefined {
    const known = this.#ownPhases.get(name);
    if (known !== undefined || this.#ownPhases.size >= limits.metricsOwnPhasesMax || name === otherPhase) return known;
    if (this.isWaiting(name)) return undefined;
    this.#ownPhases.set(name, this.#ownPhases.size);
    return this.#ownPhases.get(name);
  }

  /** Whether a rank waits in this phase. */
  isWaiting(name: string): boolean {
    return isWaitingRole(this.roles.of(name));
  }

  phase(name: string): HistogramSeries {
    const known = this.#phases.get(name);
    if (known !== undefined) return known;
    const label = this.#own.size < this.#phasesMax ? displayText(name, limits.metricsLabelCharsMax) : otherLabel;
    const series = this.#histograms.phases.series({ run: this.label, phase: label });
    if (label !== otherLabel) this.#own.add(series);
    if (this.#phases.size < limits.metricsPhaseNamesMax) this.#phases.set(name, series);
    return series;
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

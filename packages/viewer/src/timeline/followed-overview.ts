// The overview of a run for the timeline: for the strip of the whole run, for outliers, for bands of folded ranks. It is first requested together
// with the model, and again as the run grows, at most every two seconds.
//
//   follow(undefined) ──► few bins, while the number of ranks is unknown
//   follow(model)     ──► as many as those ranks can have, at once; the same number is not asked again of a run that is all there
//
// Invariant: an answer never replaces that of a later request.

import { type ReadonlySignal, type Signal, signal } from '@preact/signals';
import type { Overview, RunModel } from '@ranktrace/protocol';
import { pageTimers, Refresher, type Timers } from '../client/refresh.ts';
import type { RunClient } from '../client/run-client.ts';
import { binsFor } from '../overview/step-bins.ts';
import { type Band, bandOf } from './outliers.ts';
import type { Row } from './rows.ts';

/** Two pixels a bin on most screens. */
const width = 1024;
const askedMsMin = 2000;
/** An analysis ends without anything else of the run changing; it identifies slow ranks. */
const unanalysedMs = 4000;

export class FollowedOverview {
  readonly #client: Pick<RunClient, 'overview' | 'overviewOfAll'>;
  readonly #timers: Timers;
  readonly #refresher: Refresher;
  readonly #now: Signal<Overview | undefined> = signal(undefined);
  readonly #isSettled = signal(false);
  readonly #bands = new Map<string, Band>();
  #model: RunModel | undefined;
  #bins = 0;
  #asked = 0;
  #answered = 0;
  /** Whether the last answer was an error. */
  #hasFailed = false;
  #stopWaiting: (() => void) | undefined;
  #isDisposed = false;

  constructor(client: Pick<RunClient, 'overview' | 'overviewOfAll'>, timers: Timers = pageTimers) {
    this.#client = client;
    this.#timers = timers;
    this.#refresher = new Refresher(() => this.#ask(), askedMsMin, timers);
  }

  get now(): ReadonlySignal<Overview | undefined> {
    return this.#now;
  }

  /** Whether there is an overview, or there will be none. */
  get isSettled(): ReadonlySignal<boolean> {
    return this.#isSettled;
  }

  /** The run is being opened (undefined), or has this model now. */
  follow(model: RunModel | undefined): void {
    const [before, bins] = [this.#model, binsFor(model?.processes.length, width)];
    const isFirst = this.#bins === 0;
    this.#model = model;
    if (!isFirst && model !== undefined && model === before) return;
    if (!isFirst && bins !== this.#bins) {
      this.#bins = bins;
      void this.#ask();
      return;
    }
    this.#bins = bins;
    if (isFirst && this.#client.overviewOfAll !== undefined) {
      // Uses another view's overview until there is an own one.
      this.#now.value = this.#client.overviewOfAll;
      this.#isSettled.value = true;
    }
    // An overview that came together with the model covers everything in the model.
    const isToldAll = model !== undefined && before === undefined && !model.live && model.read === model.total;
    if (isFirst || !isToldAll || this.#hasFailed) this.#refresher.changed();
  }

  /** The band of step times of a row that stands for several ranks. */
  bandOf(row: Row): Band | undefined {
    const overview = this.#now.peek();
    if (overview === undefined) return undefined;
    // Another rank may have taken the place of one of them.
    const key = row.ranks.join();
    let band = this.#bands.get(key);
    if (band === undefined) {
      band = bandOf(overview, row.ranks);
      this.#bands.set(key, band);
    }
    return band;
  }

  /** Drops the overview: it is of another epoch. */
  clear(): void {
    this.#bands.clear();
    this.#now.value = undefined;
    this.#answered = this.#asked;
  }

  dispose(): void {
    this.#isDisposed = true;
    this.#stopWaiting?.();
    this.#refresher.close();
  }

  async #ask(): Promise<void> {
    const asked = ++this.#asked;
    this.#stopWaiting?.();
    try {
      const overview = await this.#client.overview(this.#bins);
      if (this.#isDisposed || asked <= this.#answered) return;
      this.#answered = asked;
      this.#hasFailed = false;
      this.#bands.clear();
      this.#now.value = overview;
      if (!overview.analysed) this.#stopWaiting = this.#timers.after(unanalysedMs, () => this.#refresher.changed());
    } catch {
      this.#hasFailed = true;
      // A recorded run does not change: nothing else asks again.
      if (!this.#isDisposed && this.#model !== undefined) {
        this.#stopWaiting = this.#timers.after(unanalysedMs, () => this.#refresher.changed());
      }
    }
    // Before the model there is nothing to settle.
    if (!this.#isDisposed && (this.#model !== undefined || !this.#hasFailed)) this.#isSettled.value = true;
  }
}

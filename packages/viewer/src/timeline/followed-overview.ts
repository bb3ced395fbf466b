// The overview of a run as the timeline needs it: for the strip of the whole run, for who stands out, for bands of folded ranks. Asked again as the
// run grows, at most every two seconds.

import { type ReadonlySignal, type Signal, signal } from '@preact/signals';
import type { Overview } from '@ranktrace/protocol';
import type { RunClient } from '../run-client.ts';
import { type Band, bandOf } from './outliers.ts';
import type { Row } from './rows.ts';

const bins = 512;
const askedMsMin = 2000;

export class FollowedOverview {
  readonly #client: RunClient;
  readonly #now: Signal<Overview | undefined> = signal(undefined);
  readonly #isSettled = signal(false);
  readonly #bands = new Map<string, Band>();
  #askedAt = Number.NEGATIVE_INFINITY;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isAsking = false;
  #isDisposed = false;

  constructor(client: RunClient) {
    this.#client = client;
  }

  get now(): ReadonlySignal<Overview | undefined> {
    return this.#now;
  }

  /** Whether there is one, or there will be none. */
  get isSettled(): ReadonlySignal<boolean> {
    return this.#isSettled;
  }

  /** The run has grown: it is asked, now or when it may be. */
  ask(): void {
    if (this.#isDisposed || this.#isAsking || this.#timer !== undefined) return;
    const wait = this.#askedAt + askedMsMin - performance.now();
    if (wait > 0) {
      this.#timer = setTimeout(() => {
        this.#timer = undefined;
        this.ask();
      }, wait);
      return;
    }
    this.#isAsking = true;
    this.#askedAt = performance.now();
    this.#client
      .overview(bins)
      .then(
        (overview) => {
          if (this.#isDisposed) return;
          this.#bands.clear();
          this.#now.value = overview;
        },
        () => undefined,
      )
      .finally(() => {
        this.#isAsking = false;
        this.#isSettled.value = true;
      });
  }

  /** The band of step times of a row that stands for several ranks. */
  bandOf(row: Row): Band | undefined {
    const overview = this.#now.peek();
    if (overview === undefined) return undefined;
    const key = `${row.key} ${row.ranks.length}`;
    let band = this.#bands.get(key);
    if (band === undefined) {
      band = bandOf(overview, row.ranks);
      this.#bands.set(key, band);
    }
    return band;
  }

  /** Forgets it: it is of another epoch. */
  clear(): void {
    this.#bands.clear();
    this.#now.value = undefined;
    this.#askedAt = Number.NEGATIVE_INFINITY;
  }

  dispose(): void {
    this.#isDisposed = true;
    clearTimeout(this.#timer);
  }
}

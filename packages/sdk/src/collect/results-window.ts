// The time of the last active steps, from which `events()` and `keyAverages()` come, and what was lost in it.
//
//   drain   |        |        |        |        |        |        |
//   window                |------------------------|
//   lost              counted here ────────────────────►|            whole drains: up to one more at either end
//
// Rings count their losses without times, so a loss belongs to the drain that saw it.

import { type Dropped, lessDropped, noneDropped } from '@ranktrace/protocol';

export class ResultsWindow {
  /** RankTime, ns. Empty before the first active steps. */
  since = Number.POSITIVE_INFINITY;
  until = Number.NEGATIVE_INFINITY;
  /** Losses by the last drain, by the one before the window, and by its end. */
  #drained = noneDropped;
  #before = noneDropped;
  #atEnd: Dropped | undefined;

  /** A drain is over; `lost`: all losses so far. */
  drained(lost: Dropped): void {
    this.#drained = lost;
  }

  begin(time: number): void {
    [this.since, this.until] = [time, Number.POSITIVE_INFINITY];
    [this.#before, this.#atEnd] = [this.#drained, undefined];
  }

  end(time: number, lost: Dropped): void {
    if (this.until <= time) return;
    this.until = time;
    this.#atEnd = lost;
  }

  /** The last time that it tells of; infinite while it goes on, and where there is none. */
  get last(): number {
    return this.until > this.since ? this.until - 1 : Number.POSITIVE_INFINITY;
  }

  /** Losses in it; `now`: all losses so far. */
  lost(now: Dropped): Dropped {
    return lessDropped(this.#atEnd ?? now, this.#before);
  }
}

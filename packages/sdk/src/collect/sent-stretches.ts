// The times in which all detail is sent, by a schedule or because somebody asked. What a device did is reported late: by then several of them may be over.
//
//   detail      ┤ sent ├───held───┤ sent ├───held───┤ sent …
//   reported                                          ▲ a kernel that was launched in the first of them
//
// Invariant: closed stretches are in order and apart; at most `limits.deviceStretchesMax`, the last ones.

import { limits } from '@ranktrace/protocol';

export class SentStretches {
  /** Start of the open stretch, RankTime in ns; infinite while detail is held. */
  #since = Number.NEGATIVE_INFINITY;
  readonly #closed: { readonly from: number; readonly until: number }[] = [];

  get since(): number {
    return this.#since;
  }

  /** End of the last closed stretch. */
  get until(): number {
    return this.#closed.at(-1)?.until ?? Number.NEGATIVE_INFINITY;
  }

  open(time: number): void {
    this.#since = time;
  }

  close(time: number): void {
    this.#closed.push({ from: this.#since, until: time });
    if (this.#closed.length > limits.deviceStretchesMax) this.#closed.shift();
    this.#since = Number.POSITIVE_INFINITY;
  }

  /** Whether detail of this time is sent. */
  has(time: number): boolean {
    if (time >= this.#since) return true;
    for (let at = this.#closed.length - 1; at >= 0; at--) {
      const { from, until } = this.#closed[at] as { from: number; until: number };
      if (time >= from) return time < until;
    }
    return false;
  }
}

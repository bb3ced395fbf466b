// Whether one counter of memory grows step by step and continuously: a leak.
//
//   steps   │ 25 │ 25 │ 25 │ … │ 25 │      eighths of the window; each by its lowest value, after garbage collection
//   lowest    a  <  b  <  c  < … <  h      a continuous rise, by (h − a) per step
//
// An eighth is long enough to hold a value, so that a counter read once a second suits steps of a millisecond.

import { alertLimits as limits } from './alert-limits.ts';

const parts = 8;

export class MemoryGrowth {
  readonly #stepsMin: number;
  /** Lowest value of each closed part, and its step. */
  #lowest: { readonly step: number; readonly value: number }[] = [];
  #partFrom = -1;
  #open: { readonly step: number; readonly value: number } | undefined = undefined;
  #growth: number | undefined = undefined;

  constructor(stepsMin: number) {
    this.#stepsMin = stepsMin;
  }

  /** Bytes per step while it rises throughout the window, 0 if it does not, undefined before there is a window. */
  get growth(): number | undefined {
    return this.#growth;
  }

  /** The first step of the window. */
  get fromStep(): number {
    return this.#lowest[0]?.step ?? 0;
  }

  /** Takes a value; returns whether `growth` was judged anew. */
  add(step: number, value: number): boolean {
    if (!(step >= limits.alertMemoryWarmUpSteps) || !Number.isFinite(value)) return false;
    if (step < this.#partFrom) this.#reset();
    if (this.#partFrom < 0) this.#partFrom = step;
    let isClosed = false;
    if (this.#open !== undefined && step - this.#partFrom >= this.#stepsMin / parts) {
      this.#lowest.push(this.#open);
      if (this.#lowest.length > parts) this.#lowest.shift();
      this.#open = undefined;
      this.#partFrom = step;
      isClosed = this.#lowest.length === parts;
      if (isClosed) this.#growth = this.#judge();
    }
    if (this.#open === undefined || value < this.#open.value) this.#open = { step, value };
    return isClosed;
  }

  #judge(): number {
    for (let at = 1; at < parts; at++) {
      if ((this.#lowest[at]?.value ?? 0) <= (this.#lowest[at - 1]?.value ?? 0)) return 0;
    }
    const [first, last] = [this.#lowest[0], this.#lowest[parts - 1]];
    if (first === undefined || last === undefined || last.step <= first.step) return 0;
    return (last.value - first.value) / (last.step - first.step);
  }

  /** Resets when step numbers begin anew. */
  #reset(): void {
    this.#lowest = [];
    this.#open = undefined;
    this.#partFrom = -1;
    this.#growth = undefined;
  }
}

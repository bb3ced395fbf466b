// Whether one counter of memory grows step by step and throughout: a leak.
//
//   steps   │ 25 │ 25 │ 25 │ … │ 25 │      eighths of the window; of each its lowest value: what garbage collection leaves
//   lowest    a  <  b  <  c  < … <  h      rising throughout, by (h − a) per step
//
// An eighth is as long as it must be to hold a value, so that a counter that is read once a second fits steps of a millisecond.

import { alertLimits as limits } from './alert-limits.ts';

const parts = 8;

export class MemoryGrowth {
  readonly #stepsMin: number;
  /** Lowest value of each closed part, and the step it was seen at. */
  #lowest: { readonly step: number; readonly value: number }[] = [];
  #partFrom = -1;
  #open: { readonly step: number; readonly value: number } | undefined = undefined;
  #growth: number | undefined = undefined;

  constructor(stepsMin: number) {
    this.#stepsMin = stepsMin;
  }

  /** Bytes per step while it rises throughout the window, 0 when it does not, undefined before there is a window. */
  get growth(): number | undefined {
    return this.#growth;
  }

  /** The first step of the window. */
  get fromStep(): number {
    return this.#lowest[0]?.step ?? 0;
  }

  /** Takes a value; whether `growth` was judged anew. */
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

  /** Step numbers began anew. */
  #reset(): void {
    this.#lowest = [];
    this.#open = undefined;
    this.#partFrom = -1;
    this.#growth = undefined;
  }
}

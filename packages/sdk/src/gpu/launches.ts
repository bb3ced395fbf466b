// Which call launched which work. CUPTI hands over what devices did before the calls that made them do it: most calls come with the same flush, those of graphs
// one or two later. So work waits for its call.
//
//   ring   k1 k2 k3 │ c1 c2 ║ k4 │ c3 c4          k3 waits until c3 has come
//
// Invariant: waiting work is in the order in which it came.

import { GpuRows } from '@ranktrace/gpu';
import { recordingLimits } from '../model/recording-limits.ts';

const callsMask = recordingLimits.gpuCallsMax - 1;

export class Launches {
  /** The last calls, by the low bits of their correlation: that, and their begin; RankTime, ns. */
  readonly #correlation = new Uint32Array(recordingLimits.gpuCallsMax);
  readonly #start = new Float64Array(recordingLimits.gpuCallsMax);
  #newest = Number.NEGATIVE_INFINITY;
  /** Made when the first work waits. */
  #waiting: GpuRows | undefined;
  /** Of each waiting row, the latest launch whose work had come before. */
  readonly #seenBefore: number[] = [];

  /** The latest launch whose work had come before the oldest that waits; undefined: none waits. */
  get seenBefore(): number | undefined {
    return this.#seenBefore[0];
  }

  called(correlation: number, start: number): void {
    this.#correlation[correlation & callsMask] = correlation;
    this.#start[correlation & callsMask] = start;
    this.#newest = Math.max(this.#newest, start);
  }

  /** Begin of the call that launched this work; undefined: it has not come. Work without a correlation has no call. */
  launchOf(correlation: number, start: number): number | undefined {
    if (correlation === 0) return start;
    const isKnown = this.#correlation[correlation & callsMask] === correlation;
    return isKnown ? Math.min(start, this.#start[correlation & callsMask] as number) : undefined;
  }

  /** Lets work wait for its call. False: there is no room. */
  wait(rows: GpuRows, row: number, seenBefore: number): boolean {
    this.#waiting ??= new GpuRows(recordingLimits.gpuCallsMax);
    if (this.#waiting.length === this.#waiting.capacity) return false;
    this.#waiting.copy(this.#waiting.length++, rows, row);
    this.#seenBefore.push(seenBefore);
    return true;
  }

  /**
   * Hands over the work whose call has come; also that whose call never will, for calls have come that began long after it (`isOver`: all the rest), which
   * counts by its own begin. `scale`: from the ring's times to RankTime.
   */
  settle(place: (rows: GpuRows, row: number, launched: number) => void, scale: number, isOver = false): void {
    const rows = this.#waiting;
    if (rows === undefined || rows.length === 0) return;
    let kept = 0;
    for (let row = 0; row < rows.length; row++) {
      const start = (rows.start[row] as number) * scale;
      const launched = this.launchOf(rows.correlation[row] as number, start);
      const isLate = isOver || start + 1e6 * recordingLimits.gpuCallWaitMs < this.#newest;
      if (launched !== undefined || isLate) place(rows, row, launched ?? start);
      else {
        if (kept < row) rows.copy(kept, rows, row);
        this.#seenBefore[kept++] = this.#seenBefore[row] as number;
      }
    }
    rows.length = this.#seenBefore.length = kept;
  }
}

// Which call launched which work. CUPTI hands over what devices did before the calls that made them do it: most calls come with the same flush, those of graphs
// one or two later. So work waits for its call. And work of one stream may come long after that of another which was launched later.
//
//   ring    k1 k2 k4 │ c1 c2 c3 ║ c4 k3         k4 waits for c4; until k3 has come, work is seen up to the begin of c3
//
// Invariant: waiting work, and launches, are in the order in which they came.

import { GpuRows } from '@ranktrace/gpu';
import { recordingLimits } from '../model/recording-limits.ts';

const { gpuCallsMax } = recordingLimits;
const callsMask = gpuCallsMax - 1;
const [waitNs, lateNs] = [1e6 * recordingLimits.gpuCallWaitMs, 1e6 * recordingLimits.gpuCallsLateMs];
const launchNs = 1e6 * recordingLimits.gpuLaunchWaitMs;

export class Launches {
  /** The last calls, by the low bits of their correlation: that, their begin (RankTime, ns), and whether work of theirs has come. */
  readonly #correlation = new Uint32Array(gpuCallsMax);
  readonly #start = new Float64Array(gpuCallsMax);
  readonly #hasWorked = new Uint8Array(gpuCallsMax);
  /** Latest begins of a call, and of work; RankTime, ns. */
  #newest = Number.NEGATIVE_INFINITY;
  #newestWork = Number.NEGATIVE_INFINITY;
  /** Work has come, and its time for any call is over: none waits any more, until one comes. */
  lacksCalls = false;
  /** Correlations of the last launches; those before `#from` have worked, or never will. */
  readonly #launched = new Uint32Array(gpuCallsMax);
  #from = 0;
  #until = 0;
  /** Until something changes. */
  #busyFrom: number | undefined;
  /** Made when the first work waits. */
  #waiting: GpuRows | undefined;
  /** `seenUntil` when each waiting row came. */
  readonly #seenBefore: number[] = [];

  get isWaiting(): boolean {
    return this.#seenBefore.length > 0;
  }

  /** Begin of the oldest launch of which no work has come; RankTime, ns; ∞: none. */
  get busyFrom(): number {
    this.#busyFrom ??= this.#oldest();
    return this.#busyFrom;
  }

  #oldest(): number {
    while (this.#from < this.#until && !this.#isBusy(this.#from)) this.#from++;
    let oldest = Number.POSITIVE_INFINITY;
    // Those of one thread come in order, but threads one after the other.
    for (let at = this.#from; at < this.#until; at++) {
      if (this.#isBusy(at)) oldest = Math.min(oldest, this.#start[(this.#launched[at & callsMask] as number) & callsMask] as number);
    }
    return oldest;
  }

  /** Whether work of the launch may still come: one into a graph that is captured does nothing. */
  #isBusy(at: number): boolean {
    const correlation = this.#launched[at & callsMask] as number;
    const slot = correlation & callsMask;
    return (
      this.#correlation[slot] === correlation && this.#hasWorked[slot] === 0 && (this.#start[slot] as number) + launchNs >= this.#newest
    );
  }

  /** All work of launches that began before has come; RankTime, ns; −∞: no call has come. Calls of other threads may come a little later. */
  get seenUntil(): number {
    return Math.min(this.busyFrom, this.#newest - lateNs, this.#seenBefore[0] ?? Number.POSITIVE_INFINITY);
  }

  /** `launches`: whether it makes a device do something. */
  called(correlation: number, start: number, launches: boolean): void {
    // A row without a time, or with none that can be: no later comparison would hold.
    if (!Number.isSafeInteger(Math.round(start))) return;
    const slot = correlation & callsMask;
    this.#correlation[slot] = correlation;
    this.#start[slot] = start;
    this.#hasWorked[slot] = 0;
    this.#newest = Math.max(this.#newest, start);
    this.lacksCalls = false;
    this.#busyFrom = undefined;
    if (!launches) return;
    this.#launched[this.#until++ & callsMask] = correlation;
    this.#from = Math.max(this.#from, this.#until - gpuCallsMax);
  }

  /** Begin of the call that launched this work, which has come; undefined: the call has not. Work without a correlation has no call. */
  launchOf(correlation: number, start: number): number | undefined {
    this.#newestWork = Math.max(this.#newestWork, start);
    if (correlation === 0 || this.lacksCalls) return start;
    const slot = correlation & callsMask;
    if (this.#correlation[slot] !== correlation) return undefined;
    this.#hasWorked[slot] = 1;
    this.#busyFrom = undefined;
    return Math.min(start, this.#start[slot] as number);
  }

  /** Lets work wait for its call. False: there is no room. */
  wait(rows: GpuRows, row: number): boolean {
    this.#waiting ??= new GpuRows(gpuCallsMax);
    if (this.#waiting.length === this.#waiting.capacity) return false;
    this.#seenBefore.push(this.#seenBefore[0] ?? this.seenUntil);
    this.#waiting.copy(this.#waiting.length++, rows, row);
    return true;
  }

  /**
   * Hands over the work whose call has come; also that whose call never will, for calls have come that began long after it, or none ever did (`isOver`: all the
   * rest), which counts by its own begin. `scale`: from the ring's times to RankTime.
   */
  settle(place: (rows: GpuRows, row: number, launched: number) => void, scale: number, isOver = false): void {
    const rows = this.#waiting;
    if (rows === undefined || rows.length === 0) return;
    this.lacksCalls = this.#newest === Number.NEGATIVE_INFINITY && (rows.start[0] as number) * scale + waitNs < this.#newestWork;
    let kept = 0;
    for (let row = 0; row < rows.length; row++) {
      const start = (rows.start[row] as number) * scale;
      const launched = this.launchOf(rows.correlation[row] as number, start);
      if (launched !== undefined || isOver || start + waitNs < this.#newest) place(rows, row, launched ?? start);
      else {
        if (kept < row) rows.copy(kept, rows, row);
        this.#seenBefore[kept++] = this.#seenBefore[row] as number;
      }
    }
    rows.length = this.#seenBefore.length = kept;
  }
}

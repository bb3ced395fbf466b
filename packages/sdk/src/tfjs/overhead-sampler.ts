// The cost of recording in the training thread, from a sample: one call in 31 is measured and counts for all.
//
//   hook called │ begin   our work       reading │ the engine's own work │ reading   our work       end │ returns
//
// Measured from the first line of a hook on: earlier kernels have driven its data out of the caches, so the first touch of it costs most.
// A measured call reads the clock more often than the rest, so we subtract the price of a reading, found by one more: except for one of them,
// which stands for the unmeasurable part of each call, its frame, its return, and the count until the next measured call.

import type { OpRecorder } from './op-recorder.ts';

/** Odd, and no small multiple: ops, allocations and frees come in patterns of two, three or four, and the sample must hit each of them. */
const sampledEvery = 31;
/** A longer call was interrupted; counted in full it would stand for many that were not. Capturing a stack takes most. */
const timeMsMax = 0.05;

export class OverheadSampler {
  readonly #recorder: OpRecorder;
  readonly #now: () => number;
  /** Calls until the next one is measured. */
  #unmeasured = sampledEvery;

  /** `now`: clock, ms. */
  constructor(recorder: OpRecorder, now: () => number) {
    this.#recorder = recorder;
    this.#now = now;
  }

  /** The clock, ms, if the call that begins now is to be measured; else 0. */
  begin(): number {
    if (--this.#unmeasured > 0) return 0;
    this.#unmeasured = sampledEvery;
    return this.#now();
  }

  /** The clock, ms, in a measured call (`began` is not 0); else 0. */
  reading(began: number): number {
    return began === 0 ? 0 : this.#now();
  }

  /** Ends a call; `began` is from `begin`. The time between two `reading`s, `entered` and `left`, ms, 0 for none, was the engine's. */
  end(began: number, entered = 0, left = 0): void {
    if (began === 0) return;
    const ended = this.#now();
    const reading = this.#now() - ended;
    const time = ended - began - (left - entered) - (entered === 0 ? 0 : 1) * reading;
    if (time > 0) this.#recorder.addOverhead(Math.min(time, timeMsMax) * sampledEvery);
  }
}

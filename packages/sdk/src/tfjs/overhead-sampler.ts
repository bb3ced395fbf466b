// What recording itself costs the training thread, from a sample: one call in 31 is measured and counts for all.
//
//   hook called │ begin   what is ours   reading │ the engine's own work │ reading   what is ours   end │ returns
//
// From the first line of a hook on: the kernels before it have driven what it needs out of the caches, so the first touch of it costs most.
// What is measured reads the clock more often than the rest does, so the price of a reading, found by one more, is taken off again: but for one
// of them, which stands for what no reading can see of each call, its frame, its return, and the count until the next one that is measured.

import type { OpRecorder } from './op-recorder.ts';

/** Odd, and no small multiple: ops, allocations and frees come in patterns of two, three or four, and each must have its turn. */
const sampledEvery = 31;
/** What took longer was interrupted by something else; counted in full it would stand for many that were not. Looking at a stack takes most. */
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

  /** The clock, ms, when what begins now is to be measured; else 0. */
  begin(): number {
    if (--this.#unmeasured > 0) return 0;
    this.#unmeasured = sampledEvery;
    return this.#now();
  }

  /** The clock, ms, in a call that is measured (`began` is not 0); else 0. */
  reading(began: number): number {
    return began === 0 ? 0 : this.#now();
  }

  /** Ends what `begin` answered `began` for. From one `reading` to the other it was not ours: `entered` and `left`, ms, 0 for none. */
  end(began: number, entered = 0, left = 0): void {
    if (began === 0) return;
    const ended = this.#now();
    const reading = this.#now() - ended;
    const time = ended - began - (left - entered) - (entered === 0 ? 0 : 1) * reading;
    if (time > 0) this.#recorder.addOverhead(Math.min(time, timeMsMax) * sampledEvery);
  }
}

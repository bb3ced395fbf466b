// What recording itself costs the training thread, from a sample: one call in 31 is measured and counts for all. What is measured reads the
// clock more often than the rest does, so the price of a reading, found when this begins, is taken off again.

import type { OpRecorder } from './op-recorder.ts';

/** Odd, and no small multiple: ops, allocations and frees come in patterns of two, three or four, and each must have its turn. */
const sampledEvery = 31;
const calibrationReadings = 256;
/** What took longer was interrupted by something else; counted in full it would stand for many that were not. Looking at a stack takes most. */
const timeMsMax = 0.05;

export class OverheadSampler {
  readonly #recorder: OpRecorder;
  readonly #now: () => number;
  /** ms */
  readonly #readingTime: number;
  /** Calls until the next one is measured. */
  #unmeasured = sampledEvery;

  /** `now`: clock, ms. */
  constructor(recorder: OpRecorder, now: () => number) {
    this.#recorder = recorder;
    this.#now = now;
    const began = now();
    for (let reading = 0; reading < calibrationReadings; reading++) now();
    this.#readingTime = (now() - began) / calibrationReadings;
  }

  /** The clock, ms, when what begins now is to be measured; else 0. */
  begin(): number {
    if (--this.#unmeasured > 0) return 0;
    this.#unmeasured = sampledEvery;
    return this.#now();
  }

  /** Ends what `begin` answered `began` for. `inside`: time since then that was not ours, ms, and was found by two more readings. */
  end(began: number, inside?: number): void {
    if (began === 0) return;
    const readings = inside === undefined ? 1 : 2;
    const time = this.#now() - began - (inside ?? 0) - readings * this.#readingTime;
    if (time > 0) this.#recorder.addOverhead(Math.min(time, timeMsMax) * sampledEvery);
  }
}

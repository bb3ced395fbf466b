// The steps of which all work of devices was sent, as `deviceStepsKey` tells readers: in a step of which only some work is there, no device was as idle as
// it looks.
//
//   steps       │ 7 │ 8 │ 9 │10 │11 │12 │13 │14 │15 │
//   recorded            ├─────────────────────────────►    CUPTI began in the midst of step 8: whole from step 9
//   sent              ├───────────┤               ├───►    steps 8 to 10 and from 14 on, by a schedule
//   told                [9, 10]                   [14, …
//
// Invariant: stretches are in order and apart; at most `limits.deviceStretchesMax`, the last ones.

import { type DeviceSteps, limits } from '@ranktrace/protocol';

/** How far a device has come; RankTimes, ns. */
export interface DeviceProgress {
  /** All work of launches that began before has come; −∞: none has. */
  readonly seenUntil: number;
  /** Begin of the oldest launch of which no work has come; ∞: none. */
  readonly busyFrom: number;
}

export class DeviceStretches {
  #stretches: DeviceSteps = [];
  /** The first step whose work was recorded whole; infinite: none is recorded. */
  #recordedFrom = Number.POSITIVE_INFINITY;
  /** The first step of which detail is sent, infinite while none is. */
  #sentFrom = 0;

  /** Whether any step's work was ever recorded. */
  get isKnown(): boolean {
    return this.#stretches.length > 0 || this.isRecording;
  }

  get isRecording(): boolean {
    return this.#recordedFrom < Number.POSITIVE_INFINITY;
  }

  get text(): string {
    return JSON.stringify(this.#stretches);
  }

  /** Work of devices is recorded from the begin of this step on. */
  record(fromStep: number): void {
    if (this.isRecording) return;
    this.#recordedFrom = fromStep;
    this.#open();
  }

  /** It is recorded no more, or some was lost: `lastStep` is the last of which all has come. */
  stop(lastStep: number): void {
    this.#close(lastStep);
    const whole = this.#stretches.map(([first, last]) => [first, Math.min(last ?? lastStep, lastStep)] as DeviceSteps[number]);
    this.#stretches = whole.filter(([first, last]) => first <= (last as number));
    this.#recordedFrom = Number.POSITIVE_INFINITY;
  }

  /** Detail is sent from the begin of this step on. */
  send(fromStep: number): void {
    this.#sentFrom = fromStep;
    this.#open();
  }

  /** It is held back from now on; `lastStep` has ended. */
  hold(lastStep: number): void {
    this.#close(lastStep);
    this.#sentFrom = Number.POSITIVE_INFINITY;
  }

  /** Detail of these past steps, both included, was held and is sent now. */
  add(fromStep: number, lastStep: number): void {
    const first = Math.max(fromStep, this.#recordedFrom);
    if (first <= lastStep) this.#insert(first, lastStep);
  }

  #open(): void {
    const first = Math.max(this.#recordedFrom, this.#sentFrom);
    if (first < Number.POSITIVE_INFINITY) this.#insert(first, null);
  }

  #close(lastStep: number): void {
    const open = this.#stretches.at(-1);
    if (open?.[1] !== null) return;
    this.#stretches.pop();
    if (open[0] <= lastStep) this.#insert(open[0], lastStep);
  }

  /** Adds a stretch, one with those that it touches. */
  #insert(first: number, last: number | null): void {
    const until = last ?? Number.POSITIVE_INFINITY;
    const endOf = (end: number | null): number => end ?? Number.POSITIVE_INFINITY;
    const apart = this.#stretches.filter(([from, to]) => endOf(to) + 1 < first || from > until + 1);
    const touched = this.#stretches.filter((stretch) => !apart.includes(stretch));
    const end = Math.max(until, ...touched.map(([, to]) => endOf(to)));
    const stretch = [Math.min(first, ...touched.map(([from]) => from)), end < Number.POSITIVE_INFINITY ? end : null] as const;
    this.#stretches = [...apart, [...stretch] as DeviceSteps[number]].sort((a, b) => a[0] - b[0]).slice(-limits.deviceStretchesMax);
  }
}

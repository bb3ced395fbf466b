// The steps that an aggregator requested by number, in shared memory: the shipper writes requests, the training thread its answers.
//
//   | requests | from | to | began | from | to | began | …        `slots` times three words
//
//   shipper           asks:     from, began = −1, to; then requests + 1
//   training thread   steps:    reads one word while nothing is requested; began = the first step that it recorded for it, past `to` when late
//   shipper           answers:  once step `to` has ended; to = −1 frees the slot
//
// Invariants: the training thread neither waits nor allocates; a slot is reused only after its steps are over, so both sides may read it at
// any time.

import { recordingLimits } from '../model/recording-limits.ts';

const wordsPerSlot = 3;
const free = -1;
const notBegun = -1;

/** Size of the shared memory, bytes. */
export const captureSlotsBytes = 4 * (1 + wordsPerSlot * recordingLimits.captureSlots);

/** The training thread's side. */
export class AskedSteps {
  readonly #words: Int32Array;
  #seen = 0;
  /** Whether requested steps are still to come, or run. */
  #isPending = false;

  constructor(words: Int32Array) {
    this.#words = words;
  }

  /** Step `number` begins; returns whether it was requested. */
  step(number: number): boolean {
    const words = this.#words;
    const requests = Atomics.load(words, 0);
    if (requests === this.#seen && !this.#isPending) return false;
    this.#seen = requests;
    this.#isPending = false;
    let isAsked = false;
    for (let slot = 1; slot < words.length; slot += wordsPerSlot) {
      const to = Atomics.load(words, slot + 1);
      if (to === free) continue;
      if (number < Atomics.load(words, slot)) {
        this.#isPending = true;
        continue;
      }
      if (Atomics.load(words, slot + 2) === notBegun) Atomics.store(words, slot + 2, number);
      if (number > to) continue;
      isAsked = this.#isPending = true;
    }
    return isAsked;
  }
}

/** Past steps, and the time that they took; RankTime, ns. */
export interface HeldSteps {
  readonly steps: readonly { readonly step: number; readonly start: number; readonly end: number }[];
  readonly from: number;
  readonly to: number;
}

/** One open request for steps. */
export class StepRequest {
  readonly fromStep: number;
  readonly toStep: number;
  /** The first past step that the flight recorder held, once it was searched; null: none. */
  heldFrom: number | null | undefined;
  /** The past steps that were sent: devices may report more of them. */
  held: HeldSteps | undefined;
  /** When its steps were over, ms: its answer waits for what devices have not reported yet. */
  overMs: number | undefined;
  readonly #words: Int32Array;
  readonly #slot: number;

  constructor(words: Int32Array, slot: number, fromStep: number, toStep: number) {
    this.#words = words;
    this.#slot = slot;
    this.fromStep = fromStep;
    this.toStep = toStep;
    Atomics.store(words, slot, fromStep);
    Atomics.store(words, slot + 2, notBegun);
    Atomics.store(words, slot + 1, toStep);
    Atomics.add(words, 0, 1);
  }

  /** The first step that the training thread recorded for the request; undefined until then. */
  get began(): number | undefined {
    const began = Atomics.load(this.#words, this.#slot + 2);
    return began === notBegun ? undefined : began;
  }

  free(): void {
    Atomics.store(this.#words, this.#slot + 1, free);
  }
}

/** The shipper's side. */
export class StepRequests {
  readonly #words: Int32Array;
  #open: StepRequest[] = [];
  /** The last answered requests, oldest first: an aggregator may repeat one before the answer reaches it. */
  readonly #answered: string[] = [];

  constructor(words: Int32Array) {
    this.#words = words;
    for (let slot = 1; slot < words.length; slot += wordsPerSlot) words[slot + 1] = free;
  }

  /** Open requests, oldest first. */
  get open(): readonly StepRequest[] {
    return this.#open;
  }

  /** Requests steps, both included, unless that was done before; false: too many requests are open. */
  ask(fromStep: number, toStep: number): boolean {
    if (this.#answered.includes(`${fromStep} ${toStep}`)) return true;
    if (this.#open.some((open) => open.fromStep === fromStep && open.toStep === toStep)) return true;
    for (let slot = 1; slot < this.#words.length; slot += wordsPerSlot) {
      if (this.#words[slot + 1] !== free) continue;
      this.#open.push(new StepRequest(this.#words, slot, fromStep, toStep));
      return true;
    }
    return false;
  }

  /** Closes the request for these steps. */
  answered(fromStep: number, toStep: number): void {
    const isIt = (open: StepRequest): boolean => open.fromStep === fromStep && open.toStep === toStep;
    for (const open of this.#open) if (isIt(open)) open.free();
    this.#open = this.#open.filter((open) => !isIt(open));
    this.#answered.push(`${fromStep} ${toStep}`);
    if (this.#answered.length > recordingLimits.captureSlots) this.#answered.shift();
  }
}

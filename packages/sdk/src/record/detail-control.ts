// How much is recorded at this moment: from the options, the schedule's action for this step, toggles by hand, and the detail shed because
// recording took too much of the steps.
//
//   wanted   ops shapes memory stacks modules flops spans nestedSpans        options
//   shed      4    3      2       1      2      3     –       5              in this order, one more each time recording exceeds the budget
//
// Ops are sampled instead: those of every 2nd, 4th, … step are recorded, as the budget requires, and at least in one of 64 steps. When
// the cost falls far enough below the budget, they become more frequent again. The numbers of these steps are multiples of the interval, so
// ranks share the steps of the longest interval. Nested spans, which the program names itself, go only when recording takes several budgets.
// Steps that an aggregator requests by number are recorded as active ones are, without shedding.
// Detail requested by name is not shed: not in the active steps of a schedule, and without a schedule not when an option requests more
// about ops. Steps, and the spans right below them, are never shed.
//
// Invariant: one thread writes the word, at steps; all threads read it.

import { detail } from '../model/detail.ts';
import { recordingLimits } from '../model/recording-limits.ts';

/** The detail that is sampled instead of shed. */
const sampled = 'ops';

/** `over`: by how many times recording must exceed the budget; `options`: the options that request the detail, by the bit of each. */
const shedding: readonly {
  readonly bits: number;
  readonly what: string;
  readonly over: number;
  readonly options: readonly (readonly [bit: number, option: string])[];
}[] = [
  { bits: detail.stacks, what: 'stacks', over: 1, options: [[detail.stacks, 'withStack: false']] },
  {
    bits: detail.memory | detail.modules,
    what: 'memory and modules',
    over: 1,
    options: [
      [detail.memory, 'profileMemory: false'],
      [detail.modules, 'withModules: false'],
    ],
  },
  {
    bits: detail.shapes | detail.flops,
    what: 'shapes and FLOPs',
    over: 1,
    options: [
      [detail.shapes, 'recordShapes: false'],
      [detail.flops, 'withFlops: false'],
    ],
  },
  {
    bits: detail.ops,
    what: sampled,
    over: 1,
    options: [[detail.ops, 'a schedule that records few steps, such as schedule: { wait: 90, warmup: 1, active: 9 }']],
  },
  {
    bits: detail.nestedSpans,
    what: 'nested spans',
    over: 4,
    options: [[detail.nestedSpans, 'fewer spans inside of others (recordFunction)']],
  },
];

/** Share of the budget below which ops are recorded more often. */
const sampleMoreBelow = 0.8;

export interface DetailControlParts {
  /** The session's word. */
  readonly word: Int32Array;
  /** Bits that the options request. */
  readonly wanted: number;
  /** Bits while the schedule does not record: those of the flight recorder, or just enough for the phases of steps. */
  readonly idle: number;
  /** Whether options request the detail of active steps by name, so that it is never shed. */
  readonly asked: boolean;
  /** Share of a step that recording may take; 1: nothing is ever shed. */
  readonly budget: number;
  /** Whether there are ops at all, recorded in this step or not: a program without tfjs has none. */
  readonly hasOps: () => boolean;
}

/** The detail shed, and the reason. */
export interface Shed {
  readonly what: string;
  /** Share of the steps that recording took. */
  readonly share: number;
  /** Settings with which recording stays within its budget. */
  readonly remedies: readonly string[];
  /** From now on it is recorded in one of this many steps, 1 for all; undefined: not at all. */
  readonly every?: number;
}

export class DetailControl {
  readonly #parts: DetailControlParts;
  #active = false;
  #captures = false;
  #switchedOff = 0;
  #shedBits = 0;
  #overheadMs = 0;
  #stepsMs = 0;
  #steps = 0;
  #judgements = 0;
  #every = 1;
  /** Half of this interval exceeded the budget. */
  #everyMin = 1;
  #isSampled = true;
  #skipped = 0;

  constructor(parts: DetailControlParts) {
    this.#parts = parts;
    this.#apply();
  }

  /** Ops are recorded in one of this many steps; 1: in all. */
  get every(): number {
    return this.#every;
  }

  /** Whether only the detail that the flight recorder holds is shed and sampled: a schedule's active steps have all. */
  get isOfHeld(): boolean {
    return this.#parts.asked;
  }

  /** Whether the caller must call `beginStep` at each step. */
  get isSampling(): boolean {
    return this.#every > 1 || !this.#isSampled;
  }

  /** Steps that ended without their ops. */
  get skipped(): number {
    return this.#skipped;
  }

  /** Step `number` begins. */
  beginStep(number: number): void {
    if (((this.#parts.word[0] as number) & detail.ops) === 0) this.#skipped++;
    const isSampled = number % this.#every === 0;
    if (isSampled === this.#isSampled) return;
    this.#isSampled = isSampled;
    this.#apply();
  }

  /** Whether the schedule warms up or records. */
  set active(active: boolean) {
    this.#active = active;
    this.#overheadMs = this.#stepsMs = this.#steps = 0;
    this.#apply();
  }

  /** Whether the step was requested by its number. */
  get captures(): boolean {
    return this.#captures;
  }

  set captures(captures: boolean) {
    this.#captures = captures;
    this.#overheadMs = this.#stepsMs = this.#steps = 0;
    this.#apply();
  }

  /** Switches `bits` off, or on again where they are wanted. */
  toggle(bits: number, on: boolean): void {
    this.#switchedOff = on ? this.#switchedOff & ~bits : this.#switchedOff | bits;
    this.#overheadMs = this.#stepsMs = this.#steps = 0;
    this.#apply();
  }

  /** Ends all recording. */
  close(): void {
    this.#parts.word[0] = 0;
  }

  /** Judges `steps` that took `stepMs`, of which recording took `overheadMs`; returns what it shed, if anything. */
  step(overheadMs: number, stepMs: number, steps = 1): Shed | undefined {
    const { budget, asked } = this.#parts;
    if (budget >= 1 || this.#captures || this.#switchedOff !== 0 || (this.#active && asked)) return undefined;
    this.#overheadMs += overheadMs;
    this.#stepsMs += stepMs;
    this.#steps += steps;
    if (this.#steps < recordingLimits.budgetStepsMin || this.#stepsMs < recordingLimits.budgetMsMin) return undefined;
    // Judge only whole intervals, with recorded and other steps in their proportion.
    if (this.#steps % this.#every !== 0) return undefined;
    const share = this.#overheadMs / this.#stepsMs;
    this.#overheadMs = this.#stepsMs = this.#steps = 0;
    const counts = ++this.#judgements > recordingLimits.budgetJudgementsUncounted;
    if (!counts) return undefined;
    return share > budget ? this.#shed(share) : this.#sampleMore(share);
  }

  #shed(share: number): Shed | undefined {
    const { word, budget, hasOps } = this.#parts;
    for (const { bits, what, over, options } of shedding) {
      const on = (word[0] as number) | (this.#isSampled ? 0 : detail.ops);
      if ((on & bits) === 0 || (bits !== detail.nestedSpans && !hasOps())) continue;
      if (share <= over * budget) return undefined;
      const remedies = options.filter(([bit]) => (on & bit) !== 0).map(([, option]) => option);
      if (what === sampled) {
        if (this.#every >= recordingLimits.sampledEveryMax) continue;
        const seldomer = 2 ** Math.ceil(Math.log2((this.#every * share) / budget));
        this.#everyMin = 2 * this.#every;
        this.#every = Math.min(Math.max(seldomer, this.#everyMin), recordingLimits.sampledEveryMax);
        return { what, share, remedies, every: this.#every };
      }
      this.#shedBits |= bits;
      this.#apply();
      return { what, share, remedies };
    }
    return undefined;
  }

  /** Halves the interval, which at most doubles the cost. Never retries an interval that exceeded the budget. */
  #sampleMore(share: number): Shed | undefined {
    if (this.#every === 1 || this.#every <= this.#everyMin || 2 * share > sampleMoreBelow * this.#parts.budget) return undefined;
    this.#every /= 2;
    return { what: sampled, share, remedies: [], every: this.#every };
  }

  #apply(): void {
    const { wanted, idle, asked, word } = this.#parts;
    const bits = (this.#active || this.#captures ? wanted : idle) & ~this.#switchedOff;
    if (this.#captures || (this.#active && asked)) word[0] = bits;
    else word[0] = bits & ~(this.#isSampled ? this.#shedBits : this.#shedBits | detail.ops);
  }
}

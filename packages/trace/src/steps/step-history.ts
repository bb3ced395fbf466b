// The steps of one process in bounded memory: single steps while there is room, then pairs, fours, …
//
//   steps      0 1 2 3 4 5 6 7 8 …
//   binSteps 1 │ │ │ │ │ │ │ │ │        one step a bin
//   binSteps 2 │   │   │   │   │        after there were too many bins for the first time
//   binSteps 4 │       │       │        …
//
// Bins are kept in order of step, and only if they hold a step, so steps may jump (a run resumed at step 10⁷), come out of order and
// repeat (a second fit() counts from 0): a repeated step is one more step of its bin.
//
// Invariant: bin b holds steps b · binSteps … (b + 1) · binSteps − 1, and binSteps is a power of two, so the bins of two processes nest.
// Invariant: counts and lengths cover all steps ever added; merging bins loses only the steps' places within the bin.

import { lowerMedian, otherPhase } from '@ranktrace/protocol';
import { QuantileSketch } from '../model/quantile-sketch.ts';
import { stepLimits } from './step-limits.ts';

/** Divides the room for bins among the processes of a run; all of them share one budget. */
export class StepBudget {
  readonly #binsMax: number;
  #processes = 0;

  constructor(binsMax: number = stepLimits.stepBinsMax) {
    this.#binsMax = binsMax;
  }

  /** Registers another process. */
  join(): void {
    this.#processes++;
  }

  /** Number of bins that a process may have now. */
  get binsPerProcess(): number {
    const share = Math.floor(this.#binsMax / Math.max(1, this.#processes));
    return Math.max(stepLimits.stepBinsPerProcessMin, Math.min(stepLimits.stepBinsPerProcessMax, share));
  }
}

/** Takes a bin: its first possible step, the least start, number of steps, their total and greatest length (ns). */
export type StepBinVisitor = (step: number, start: number, count: number, total: number, longest: number) => void;

/** Steps of one life of a rank; starts in the caller's clock, ns. */
export class StepHistory {
  readonly #budget: StepBudget;
  #binSteps = 1;
  #size = 0;
  /** Columns of the bins, in order of key = step / binSteps. */
  #keys = new Float64Array(16);
  #starts = new Float64Array(16);
  #counts = new Uint32Array(16);
  #totals = new Float64Array(16);
  #longest = new Float64Array(16);
  /** Time in each named phase, by bin. */
  #phases = new Map<string, Float32Array>();
  #lengths = new QuantileSketch();
  #least = Number.POSITIVE_INFINITY;
  #greatest = Number.NEGATIVE_INFINITY;
  #lastEnd = Number.NEGATIVE_INFINITY;
  #skipped = 0;

  constructor(budget: StepBudget = new StepBudget()) {
    this.#budget = budget;
    budget.join();
  }

  /** Steps added. */
  get count(): number {
    return this.#lengths.count;
  }

  /** Rejected steps: a number or a time that cannot be a step's. */
  get skipped(): number {
    return this.#skipped;
  }

  /** Steps a bin covers: 1, 2, 4, … */
  get binSteps(): number {
    return this.#binSteps;
  }

  /** The least and the greatest step number; undefined without steps. */
  get range(): readonly [number, number] | undefined {
    return this.#size === 0 ? undefined : [this.#least, this.#greatest];
  }

  /** Start of the step with the least number, ns; undefined without steps. */
  get firstStart(): number | undefined {
    return this.#size === 0 ? undefined : this.#starts[0];
  }

  /** The latest end of a step, ns; −Infinity without steps. */
  get lastEnd(): number {
    return this.#lastEnd;
  }

  /** Lengths of all steps, ns: accurate to 1 %, exact for up to 256 of them. */
  get lengths(): Pick<QuantileSketch, 'quantiles' | 'most'> {
    return this.#lengths;
  }

  /** Adds a step of `length` ns that began at `start` ns, with the time in each of its phases, ns. */
  add(step: number, start: number, length: number, phases: ReadonlyMap<string, number> | undefined): void {
    if (!(Number.isSafeInteger(step) && step >= 0 && Number.isFinite(start) && length >= 0 && length < Number.POSITIVE_INFINITY)) {
      this.#skipped++;
      return;
    }
    const bin = this.#binOf(step);
    this.#starts[bin] = Math.min(this.#starts[bin] as number, start);
    this.#counts[bin] = (this.#counts[bin] as number) + 1;
    this.#totals[bin] = (this.#totals[bin] as number) + length;
    this.#longest[bin] = Math.max(this.#longest[bin] as number, length);
    this.#least = Math.min(this.#least, step);
    this.#greatest = Math.max(this.#greatest, step);
    this.#lastEnd = Math.max(this.#lastEnd, start + length);
    this.#lengths.add(length);
    if (phases === undefined) return;
    for (const [name, time] of phases) {
      const column = this.#phaseColumn(name);
      if (column !== undefined && time >= 0) column[bin] = (column[bin] as number) + time;
    }
  }

  /** Forgets every step. */
  clear(): void {
    this.#binSteps = 1;
    this.#size = 0;
    this.#phases = new Map();
    this.#lengths = new QuantileSketch();
    this.#least = Number.POSITIVE_INFINITY;
    this.#greatest = Number.NEGATIVE_INFINITY;
    this.#lastEnd = Number.NEGATIVE_INFINITY;
    this.#skipped = 0;
  }

  /** Calls `visit` for every bin that holds some of the steps `from` … `to`, in order. */
  visit(from: number, to: number, visit: StepBinVisitor): void {
    for (let bin = this.#lowerBound(Math.floor(from / this.#binSteps)); bin < this.#size; bin++) {
      const step = (this.#keys[bin] as number) * this.#binSteps;
      if (step > to) return;
      const start = this.#starts[bin] as number;
      visit(step, start, this.#counts[bin] as number, this.#totals[bin] as number, this.#longest[bin] as number);
    }
  }

  /** Time in each named phase over the bins that hold some of the steps `from` … `to`, ns. */
  phaseTotals(from: number, to: number): ReadonlyMap<string, number> {
    const first = this.#lowerBound(Math.floor(from / this.#binSteps));
    const end = this.#lowerBound(Math.floor(to / this.#binSteps) + 1);
    const totals = new Map<string, number>();
    for (const [name, column] of this.#phases) {
      let total = 0;
      for (let bin = first; bin < end; bin++) total += column[bin] as number;
      totals.set(name, total);
    }
    return totals;
  }

  /** Median time in each named phase of a step, ns: over at most `typicalBinsMax` of the bins that hold some of the steps `from` … `to`. */
  phaseMedians(from: number, to: number): ReadonlyMap<string, number> {
    const first = this.#lowerBound(Math.floor(from / this.#binSteps));
    const bins = this.#lowerBound(Math.floor(to / this.#binSteps) + 1) - first;
    const taken = Math.min(bins, stepLimits.typicalBinsMax);
    const medians = new Map<string, number>();
    for (const [name, column] of this.#phases) {
      const times = Array.from({ length: taken }, (_, at) => {
        const bin = first + Math.floor((at * bins) / taken);
        return (column[bin] as number) / (this.#counts[bin] as number);
      });
      medians.set(name, lowerMedian(times) ?? 0);
    }
    return medians;
  }

  /** Calls `visit` for every bin that holds some of the steps `from` … `to`, in order, with its number of steps and its time in `name`, ns. */
  visitPhase(name: string, from: number, to: number, visit: (step: number, count: number, total: number) => void): void {
    const column = this.#phases.get(name);
    if (column === undefined) return;
    for (let bin = this.#lowerBound(Math.floor(from / this.#binSteps)); bin < this.#size; bin++) {
      const step = (this.#keys[bin] as number) * this.#binSteps;
      if (step > to) return;
      visit(step, this.#counts[bin] as number, column[bin] as number);
    }
  }

  /** The place of the step's bin; created if missing. */
  #binOf(step: number): number {
    let key = Math.floor(step / this.#binSteps);
    let bin = this.#size > 0 && key > (this.#keys[this.#size - 1] as number) ? this.#size : this.#lowerBound(key);
    if (bin < this.#size && this.#keys[bin] === key) return bin;
    const binsMax = this.#budget.binsPerProcess;
    if (this.#size >= binsMax) {
      while (this.#size >= binsMax) this.#coarsen();
      key = Math.floor(step / this.#binSteps);
      bin = this.#lowerBound(key);
      if (bin < this.#size && this.#keys[bin] === key) return bin;
    }
    this.#insert(bin, key);
    return bin;
  }

  #insert(bin: number, key: number): void {
    if (this.#size === this.#keys.length) this.#grow();
    for (const column of this.#columns()) {
      if (bin < this.#size) column.copyWithin(bin + 1, bin, this.#size);
      column[bin] = 0;
    }
    this.#keys[bin] = key;
    this.#starts[bin] = Number.POSITIVE_INFINITY;
    this.#size++;
  }

  /** Doubles the width of the bins. */
  #coarsen(): void {
    this.#binSteps *= 2;
    let kept = -1;
    for (let bin = 0; bin < this.#size; bin++) {
      const key = Math.floor((this.#keys[bin] as number) / 2);
      const start = this.#starts[bin] as number;
      if (kept >= 0 && this.#keys[kept] === key) {
        this.#starts[kept] = Math.min(this.#starts[kept] as number, start);
        this.#longest[kept] = Math.max(this.#longest[kept] as number, this.#longest[bin] as number);
        for (const column of this.#sums()) column[kept] = (column[kept] as number) + (column[bin] as number);
      } else {
        kept++;
        for (const column of this.#columns()) column[kept] = column[bin] as number;
        this.#keys[kept] = key;
      }
    }
    this.#size = kept + 1;
  }

  #phaseColumn(name: string): Float32Array | undefined {
    const known = this.#phases.get(name);
    // A phase named `other` counts with the rest of the step.
    if (known !== undefined || name === otherPhase || this.#phases.size >= stepLimits.stepPhasesMax) return known;
    const column = new Float32Array(this.#keys.length);
    this.#phases.set(name, column);
    return column;
  }

  #grow(): void {
    const length = this.#keys.length * 2;
    const wider = (column: Float64Array<ArrayBuffer>): Float64Array<ArrayBuffer> => {
      const grown = new Float64Array(length);
      grown.set(column);
      return grown;
    };
    this.#keys = wider(this.#keys);
    this.#starts = wider(this.#starts);
    this.#totals = wider(this.#totals);
    this.#longest = wider(this.#longest);
    const counts = new Uint32Array(length);
    counts.set(this.#counts);
    this.#counts = counts;
    for (const [name, column] of this.#phases) {
      const grown = new Float32Array(length);
      grown.set(column);
      this.#phases.set(name, grown);
    }
  }

  #sums(): (Float64Array | Uint32Array | Float32Array)[] {
    return [this.#counts, this.#totals, ...this.#phases.values()];
  }

  #columns(): (Float64Array | Uint32Array | Float32Array)[] {
    return [this.#keys, this.#starts, this.#longest, ...this.#sums()];
  }

  /** The first bin with a key of at least `key`. */
  #lowerBound(key: number): number {
    let [low, high] = [0, this.#size];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#keys[middle] as number) < key) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

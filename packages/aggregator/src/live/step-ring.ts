// The last steps of one rank, in columns: 64 ranks × 4096 steps × 5 phases are 15 MB, as objects they were ten times that.
//
//   slot      0     1     2   …  capacity−1        slot = how many steps came before, modulo capacity
//   step    [ 12 ][ 13 ][  6 ] …                   the oldest step is overwritten
//   phases  [ a b c ][ a b c ] …                   `names.length` lengths per slot
//
// A step's row and its phases may come in either order and in different batches, so both find their slot by step number.

import { type Nanos, nanos } from '@ranktrace/protocol';
import { aggregatorLimits as limits } from '../model/limits.ts';

/** One finished step. `phases`: name to length in ns. */
export interface FinishedStep {
  readonly step: number;
  readonly length: Nanos;
  readonly phases: ReadonlyMap<string, Nanos>;
}

export class StepRing {
  readonly #capacityMax: number;
  readonly #phaseOf = new Map<string, number>();
  #capacity = 16;
  #count = 0;
  /** Steps of earlier incarnations, which no row of this one means. */
  #countBefore = 0;
  /** Of this incarnation. */
  #greatest = Number.NEGATIVE_INFINITY;
  #steps = new Float64Array(16);
  /** NaN until the step's own row came. */
  #lengths = new Float64Array(16);
  readonly #phases: Float64Array[] = [];

  constructor(capacityMax: number = limits.stepsPerRankMax) {
    this.#capacityMax = capacityMax;
  }

  /** A step ended after `length` ns. */
  addStep(step: number, length: number): void {
    this.#lengths[this.#slot(step)] = length;
  }

  /** Adds `length` ns to a phase of a step. Drops names beyond `phaseNamesPerRankMax`. */
  addPhase(step: number, name: string, length: number): void {
    const slot = this.#slot(step);
    let phase = this.#phaseOf.get(name);
    if (phase === undefined) {
      if (this.#phases.length >= limits.phaseNamesPerRankMax) return;
      phase = this.#phases.push(new Float64Array(this.#capacity)) - 1;
      this.#phaseOf.set(name, phase);
    }
    const lengths = this.#phases[phase] as Float64Array;
    lengths[slot] = (lengths[slot] as number) + length;
  }

  /** A new incarnation begins: repeated step numbers are new steps. */
  restart(): void {
    this.#countBefore = this.#count;
    this.#greatest = Number.NEGATIVE_INFINITY;
  }

  /** Finished steps, oldest first. */
  *summaries(): Generator<FinishedStep> {
    const first = Math.max(0, this.#count - this.#capacity);
    for (let index = first; index < this.#count; index++) {
      const slot = index % this.#capacity;
      const length = this.#lengths[slot] as number;
      if (Number.isNaN(length)) continue;
      const phases = new Map<string, Nanos>();
      for (const [name, phase] of this.#phaseOf) {
        const spent = this.#phases[phase]?.[slot] as number;
        if (spent > 0) phases.set(name, nanos(spent));
      }
      yield { step: this.#steps[slot] as number, length: nanos(length), phases };
    }
  }

  #slot(step: number): number {
    const known = this.#find(step);
    if (known !== undefined) return known;
    if (this.#count === this.#capacity && this.#capacity < this.#capacityMax) this.#grow();
    const slot = this.#count % this.#capacity;
    this.#count++;
    this.#greatest = Math.max(this.#greatest, step);
    this.#steps[slot] = step;
    this.#lengths[slot] = Number.NaN;
    for (const lengths of this.#phases) lengths[slot] = 0;
    return slot;
  }

  /** The slot of a step of this incarnation. Steps count up by one, so the distance to the newest is the place; others are searched, newest first. */
  #find(step: number): number | undefined {
    const oldest = Math.max(this.#countBefore, this.#count - this.#capacity);
    if (step > this.#greatest || this.#count <= oldest) return undefined;
    const newest = this.#count - 1;
    const place = newest - ((this.#steps[newest % this.#capacity] as number) - step);
    if (place >= oldest && place <= newest && this.#steps[place % this.#capacity] === step) return place % this.#capacity;
    for (let at = newest; at >= oldest; at--) if (this.#steps[at % this.#capacity] === step) return at % this.#capacity;
    return undefined;
  }

  // Only before the first overwriting, so slot = index still holds.
  #grow(): void {
    this.#capacity = Math.min(this.#capacity * 2, this.#capacityMax);
    const grow = (from: Float64Array) => {
      const to = new Float64Array(this.#capacity);
      to.set(from);
      return to;
    };
    this.#steps = grow(this.#steps);
    this.#lengths = grow(this.#lengths);
    for (const [phase, lengths] of this.#phases.entries()) this.#phases[phase] = grow(lengths);
  }
}

// Assembles a cluster's steps from the steps of its ranks, which come in batches of many steps, rank by rank.
//
//   rank 0  │ 7 8 9 10 11 │            reported up to 11
//   rank 1  │ 7 8 9 │                  reported up to 9   steps up to 9 are complete: judged in order
//
// Invariant: a step is judged once, in ascending order. A rank that restarts from a lower step takes the others back with it.

import type { StepTag } from '../detect/step-time-finding.ts';
import { alertLimits as limits } from './alert-limits.ts';

/** One step of one rank; lengths in ns. */
export interface RankStepFact {
  readonly step: number;
  readonly length: number;
  /** ns of it spent on recording. */
  readonly overhead: number;
  readonly phases: ReadonlyMap<string, number>;
  /** `contextKeyOf` the conditions that determine the step's length. */
  readonly context: number;
  readonly tag?: StepTag | undefined;
}

/** The step after this one; the last number that a step can have is followed by itself. */
export const stepAfter = (step: number): number => Math.min(step + 1, Number.MAX_SAFE_INTEGER);

export class StepAssembly {
  readonly #pending = new Map<number, Map<number, RankStepFact>>();
  readonly #lastOf = new Map<number, number>();
  #judged = -1;
  /** The rank that the others' steps wait for, and its last step. */
  #slowest: readonly [rank: number, last: number] | undefined = undefined;

  /** The last step that a rank reported; −1 before the first. */
  lastOf(rank: number): number {
    return this.#lastOf.get(rank) ?? -1;
  }

  /** Adds a step; steps already judged are ignored. */
  add(rank: number, fact: RankStepFact): void {
    const { step } = fact;
    if (step > this.lastOf(rank)) this.#lastOf.set(rank, step);
    if (step <= this.#judged) return;
    let ranks = this.#pending.get(step);
    if (ranks === undefined) {
      ranks = new Map();
      this.#pending.set(step, ranks);
    }
    ranks.set(rank, fact);
  }

  /** Starts a rank's new life with `step`. */
  restart(rank: number, step: number): void {
    this.#lastOf.set(rank, step - 1);
    if (step > this.#judged) return;
    this.#judged = step - 1;
    // Steps that others reported in their earlier lives are not the coming ones.
    this.#pending.clear();
  }

  /** The rank with the next step that all wait for; undefined if that may have changed. */
  get waitsFor(): number | undefined {
    if (this.#slowest === undefined || this.#pending.size > limits.alertStepsPendingMax) return undefined;
    const [rank, last] = this.#slowest;
    return this.lastOf(rank) === last ? rank : undefined;
  }

  /** Steps that all of `ranks` have reported, and those beyond the waiting limit, in order. */
  *whole(ranks: Iterable<number>): Generator<readonly [number, ReadonlyMap<number, RankStepFact>]> {
    let upTo = Number.POSITIVE_INFINITY;
    this.#slowest = undefined;
    for (const rank of ranks) {
      const last = this.lastOf(rank);
      if (last < upTo) this.#slowest = [rank, last];
      upTo = Math.min(upTo, last);
    }
    const isTooMany = this.#pending.size > limits.alertStepsPendingMax;
    if (!isTooMany && !this.#hasUpTo(upTo)) return;
    const steps = [...this.#pending.keys()].sort((a, b) => a - b);
    const surplus = this.#pending.size - limits.alertStepsPendingMax;
    for (const [index, step] of steps.entries()) {
      if (step > upTo && index >= surplus) return;
      const facts = this.#pending.get(step) as Map<number, RankStepFact>;
      this.#pending.delete(step);
      this.#judged = step;
      yield [step, facts];
    }
  }

  get judged(): number {
    return this.#judged;
  }

  /** Continues after `judged`. */
  restore(judged: number): void {
    this.#judged = judged;
  }

  #hasUpTo(step: number): boolean {
    for (const pending of this.#pending.keys()) if (pending <= step) return true;
    return false;
  }
}

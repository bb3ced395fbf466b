// The last steps of a run's ranks side by side: the cluster's step length, and each rank's excess of work over the median rank.
//
//   step      rank 0   rank 1   rank 2   median   rank 2's excess
//   412          200      202      280      202   78
//   413          199      203      276      203   73     ► the median of these
//
// Leaves out steps that less than half of the ranks reported: the others are late, or ended before.
//
// Invariant: the median of an even number is the lower one. Of two ranks, the slower one then has an excess, and the faster one has none.

import type { WindowStep } from './rank-metrics.ts';

export interface StepWindow {
  /** Median over steps of the slowest rank's; undefined without any. ns. */
  readonly step: number | undefined;
  /** By rank, ns per step; of those that have steps in common with others. */
  readonly excess: ReadonlyMap<number, number>;
}

/** Steps of each rank, by rank. */
export function stepWindow(ranks: ReadonlyMap<number, Iterable<WindowStep>>): StepWindow {
  const steps = new Map<number, { longest: number; readonly work: Map<number, number> }>();
  let telling = 0;
  for (const [rank, window] of ranks) {
    let tells = false;
    for (const { step, length, work } of window) {
      tells = true;
      let known = steps.get(step);
      if (known === undefined) {
        known = { longest: 0, work: new Map() };
        steps.set(step, known);
      }
      known.longest = Math.max(known.longest, length);
      known.work.set(rank, work);
    }
    if (tells) telling++;
  }
  const longest: number[] = [];
  const excesses = new Map<number, number[]>();
  for (const { longest: length, work } of steps.values()) {
    if (2 * work.size < telling) continue;
    longest.push(length);
    if (work.size < 2) continue;
    const middle = lowerMedian([...work.values()]) ?? 0;
    for (const [rank, own] of work) {
      const of = excesses.get(rank);
      if (of === undefined) excesses.set(rank, [own - middle]);
      else of.push(own - middle);
    }
  }
  return {
    step: lowerMedian(longest),
    excess: new Map([...excesses].map(([rank, values]) => [rank, lowerMedian(values) ?? 0])),
  };
}

function lowerMedian(values: readonly number[]): number | undefined {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[(sorted.length - 1) >> 1];
}

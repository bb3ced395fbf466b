// The last steps of a run's ranks side by side: the cluster's step length, and each rank's excess over the median rank, in all its own work or in one
// phase of it, whichever is larger: ranks may wait for others inside any phase, and then their work as a whole is equally long.
//
//   step      rank 0   rank 1   rank 2   median   rank 2's excess
//   412          200      202      280      202   78
//   413          199      203      276      203   73     ► the median of these
//
// Leaves out steps that less than half of the ranks reported: the others are late, or ended before.

import { excessesOver, lowerMedian } from '@ranktrace/protocol';
import type { WindowStep } from './rank-metrics.ts';

export interface StepWindow {
  /** Median over steps of the slowest rank's; undefined without any. ns. */
  readonly step: number | undefined;
  /** By rank, ns per step; of those that have steps in common with others. As `RankExcess.most`. */
  readonly excess: ReadonlyMap<number, number>;
}

export interface RankWindow {
  readonly steps: Iterable<WindowStep>;
  /** ns per step. */
  readonly phases: readonly number[];
}

/** `ranks`: the steps of each rank, and its median time in each phase of own work. */
export function stepWindow(ranks: ReadonlyMap<number, RankWindow>): StepWindow {
  const steps = new Map<number, { longest: number; readonly work: Map<number, number> }>();
  let reporting = 0;
  for (const [rank, { steps: window }] of ranks) {
    let reports = false;
    for (const { step, length, work } of window) {
      reports = true;
      let known = steps.get(step);
      if (known === undefined) {
        known = { longest: 0, work: new Map() };
        steps.set(step, known);
      }
      known.longest = Math.max(known.longest, length);
      known.work.set(rank, work);
    }
    if (reports) reporting++;
  }
  const longest: number[] = [];
  const excesses = new Map<number, number[]>();
  for (const { longest: length, work } of steps.values()) {
    if (2 * work.size < reporting) continue;
    longest.push(length);
    if (work.size < 2) continue;
    const ranks = [...work.keys()];
    for (const [place, more] of excessesOver([...work.values()]).entries()) {
      const rank = ranks[place] as number;
      const of = excesses.get(rank);
      if (of === undefined) excesses.set(rank, [more]);
      else of.push(more);
    }
  }
  const inPhases = excessInPhases([...excesses.keys()].map((rank) => [rank, ranks.get(rank)?.phases ?? []]));
  return {
    step: lowerMedian(longest),
    excess: new Map([...excesses].map(([rank, values]) => [rank, Math.max(lowerMedian(values) ?? 0, inPhases.get(rank) ?? 0)])),
  };
}

/** The largest excess of each rank in one phase. */
function excessInPhases(ranks: readonly (readonly [number, readonly number[]])[]): Map<number, number> {
  const most = new Map<number, number>();
  for (let phase = 0; phase < (ranks[0]?.[1].length ?? 0); phase++) {
    for (const [place, more] of excessesOver(ranks.map(([, phases]) => phases[phase] ?? 0)).entries()) {
      const [rank] = ranks[place] as (typeof ranks)[number];
      most.set(rank, Math.max(most.get(rank) ?? 0, more));
    }
  }
  return most;
}

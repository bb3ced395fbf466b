// A rank's excess over the median rank, phase by phase. The page, `top` and the metrics all compare ranks by it.
//
//   phase       rank 0   rank 1   rank 2   rank 3   median   rank 3's excess
//   backward       200      202      199      280      202   +78   ◄ its worst phase
//   all_reduce     90       88       91       11       90    none: waiting is never a rank's own work
//
// Invariant: the median of an even number is the lower one. Of two ranks, the slower one then has an excess, and the faster one has none.

import { isWaitingRole } from './phase-role.ts';
import type { Overview, OverviewRank } from './view-messages.ts';

/** The time of a step outside all its named phases: the last of `Overview.phases`. Its content is unknown. */
export const otherPhase = 'other';

/** One rank against the median rank; ns per step. */
export interface RankExcess {
  readonly rank: OverviewRank;
  /** By `Overview.phases`; may be negative. */
  readonly phases: readonly number[];
  /** The larger of its excess in all own work (the step outside phases of waiting) and in `worst`: ranks may wait inside any phase. */
  readonly most: number;
  /** The phase with the largest excess among those that are neither waiting nor `other`; undefined where no phase is known. */
  readonly worst: number | undefined;
}

/** The lower median of the finite values; undefined without any. */
export function lowerMedian(values: readonly number[]): number | undefined {
  const sorted = values.filter(Number.isFinite).sort((a, b) => a - b);
  return sorted[(sorted.length - 1) >> 1];
}

/** By how much each value exceeds their median. */
export function excessesOver(values: readonly number[]): number[] {
  const middle = lowerMedian(values) ?? 0;
  return values.map((value) => value - middle);
}

/** The median rank's time per step in each phase, ns. */
export const phaseMedians = ({ phases, ranks }: Pick<Overview, 'phases' | 'ranks'>): number[] =>
  phases.map((_, at) => lowerMedian(ranks.filter(hasSteps).map((rank) => rank.phases[at] ?? 0)) ?? 0);

/** All ranks with steps, in their order. */
export function rankExcesses(overview: Pick<Overview, 'phases' | 'phaseRoles' | 'ranks'>): RankExcess[] {
  const { phases, phaseRoles } = overview;
  const ranks = overview.ranks.filter(hasSteps);
  const medians = phaseMedians(overview);
  const own = phases.flatMap((name, at) => (isWaitingRole(phaseRoles[at]) || name === otherPhase ? [] : [at]));
  const waited = (rank: OverviewRank): number => sumOf(phases.map((_, at) => (isWaitingRole(phaseRoles[at]) ? (rank.phases[at] ?? 0) : 0)));
  const works = excessesOver(ranks.map((rank) => Math.max(0, rank.mean - waited(rank))));
  return ranks.map((rank, place) => {
    const excess = medians.map((median, at) => (rank.phases[at] ?? 0) - median);
    let worst: number | undefined;
    for (const at of own) if (worst === undefined || (excess[at] as number) > (excess[worst] as number)) worst = at;
    const [inAll, inWorst] = [works[place] as number, worst === undefined ? 0 : (excess[worst] as number)];
    return { rank, phases: excess, most: inWorst > 0 ? Math.max(inAll, inWorst) : inAll, worst };
  });
}

const hasSteps = ({ steps }: OverviewRank): boolean => steps > 0;
const sumOf = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0);

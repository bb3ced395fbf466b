// A rank's excess over the median rank, phase by phase. The page, `top` and the metrics all compare ranks by it. None of them calls a rank slow by it
// once findings know who waits for whom; before that, the page names a rank that stands apart (`rankApart`).
//
//   phase       rank 0   rank 1   rank 2   rank 3   median   rank 3's excess
//   backward       200      202      199      280      202   +78   ◄ its worst phase
//   all_reduce     90       88       91       11       90    none: waiting is never a rank's own work
//
// Invariant: the median of an even number is the lower one. Of two ranks, the slower one then has an excess, and the faster one has none.

import { isWaitingRole } from './phase-role.ts';
import type { Overview, OverviewRank } from './view-overview.ts';

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

/** The one rank that is slow by phases alone. */
export interface RankApart {
  readonly rank: OverviewRank;
  /** Its phase, as in RankExcess. */
  readonly worst: number | undefined;
  /** Excess over the median rank in that phase of a typical step, ns; of the whole step where no phase is known. */
  readonly excess: number;
}

/** Steps of a rank before phases say anything: the first ones wait for connections and compilers. */
const apartStepsMin = 8;
/** Least excess in robust standard deviations of the ranks: the median distance from the median, scaled for normal noise. */
const apartDeviations = 5 * 1.4826;
/** A second rank with this share of the largest excess may be the cause of the first one's, or its victim. */
const apartNearPart = 0.6;

/**
 * A quick estimate of who is slow, for as long as no analysis has looked at who waits for whom: one rank, or nobody (undefined). `least`: excess that
 * is worth a person's time, ns.
 *
 * Ranks also wait inside phases of work: a tensor group meets in the middle of `forward`. There the peers of a slow rank are as long as the rank
 * itself, and whole stages may be longer than others. So a rank is named only if it stands apart: in the middle one of its steps, beyond the spread of
 * the ranks, and far beyond the second.
 */
export function rankApart(overview: Pick<Overview, 'phases' | 'phaseRoles' | 'ranks'>, least: number): RankApart | undefined {
  const ranks = overview.ranks.filter(({ steps }) => steps >= apartStepsMin);
  if (ranks.length < 2) return undefined;
  const typical = { ...overview, ranks: ranks.map((rank) => ({ ...rank, phases: rank.typical ?? rank.phases })) };
  const steps = ranks.map(({ p50, mean }) => p50 ?? mean);
  const lengths = excessesOver(steps);
  const all = rankExcesses(typical).map(({ phases, worst }, place): RankApart => {
    const rank = ranks[place] as OverviewRank;
    return { rank, worst, excess: (worst === undefined ? lengths[place] : phases[worst]) as number };
  });
  const [first, second] = all.sort((a, b) => b.excess - a.excess) as [RankApart, RankApart];
  const { worst } = first;
  const values = worst === undefined ? steps : typical.ranks.map(({ phases }) => phases[worst] as number);
  const spread = lowerMedian(excessesOver(values).map(Math.abs)) ?? 0;
  const isApart = first.excess > Math.max(least, apartDeviations * spread) && second.excess < apartNearPart * first.excess;
  return isApart ? first : undefined;
}

const hasSteps = ({ steps }: OverviewRank): boolean => steps > 0;
const sumOf = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0);

// Two runs compared: A is before, B is after, and a difference is B − A.
//
//   A   steps   0 ├──────────────────────┤ 99        by number: step 50 above step 50
//   B   steps        50 ├──────────────────────┤ 149     since the first: step 50 of A above step 100 of B (offset 50)
//
// These are the page's own charts; names and the verdict are compared by the service (`RunDifference`).
// Invariant: a value that one run lacks is undefined, never 0: nothing is compared with a value that was not measured.

import { type Overview, type OverviewRank, otherPhase, type RunDifference } from '@ranktrace/protocol';
import { binOfStep } from '../overview/step-bins.ts';

/** B against A; `part` 0.1 is 10 % more. Undefined where either is missing; `part` also where A is 0. */
export interface Difference {
  readonly a: number | undefined;
  readonly b: number | undefined;
  readonly more: number | undefined;
  readonly part: number | undefined;
}

export function differenceOf(a: number | undefined, b: number | undefined): Difference {
  const more = a === undefined || b === undefined ? undefined : b - a;
  return { a, b, more, part: more === undefined || a === undefined || a === 0 ? undefined : more / a };
}

/** The verdict on a difference of times: less than 1 % is `same`. */
export const verdictOf = ({ part, more }: Difference): 'slower' | 'faster' | 'same' | undefined => {
  if (more === undefined) return undefined;
  if (part !== undefined && Math.abs(part) < 0.01) return 'same';
  return more > 0 ? 'slower' : more < 0 ? 'faster' : 'same';
};

/** The service's verdict as a sentence: `B is slower: +3.4 % …`, `No verdict: it needs 3 steps …`. */
export const verdictSentence = ({ verdict, verdictText }: Pick<RunDifference, 'verdict' | 'verdictText'>): string =>
  verdict === null ? `${verdictText.charAt(0).toUpperCase()}${verdictText.slice(1)}` : `B is ${verdictText}`;

export interface AlignedSteps {
  /** Steps of A, or in A's numbers. */
  readonly steps: readonly number[];
  readonly a: readonly (number | null)[];
  readonly b: readonly (number | null)[];
}

type Series = Pick<Overview, 'bins' | 'toStep' | 'median'>;

/** Both runs' median step time at the first step of each bin of either run. `offset`: step of B minus the step of A it is compared with. */
export function alignSteps(a: Series, b: Series, offset: number): AlignedSteps {
  const steps = [...new Set([...a.bins, ...b.bins.map((step) => step - offset)])].sort((left, right) => left - right);
  const at = (series: Series, step: number): number | null => {
    const bin = binOfStep(series, step);
    return bin === undefined ? null : (series.median[bin] ?? null);
  };
  return { steps, a: steps.map((step) => at(a, step)), b: steps.map((step) => at(b, step + offset)) };
}

/** Steps that both runs have, in A's numbers, both ends included; undefined when there are none. */
export function commonSteps(
  a: Pick<Overview, 'fromStep' | 'toStep' | 'steps'>,
  b: Pick<Overview, 'fromStep' | 'toStep' | 'steps'>,
  offset: number,
): { readonly fromStep: number; readonly toStep: number } | undefined {
  const [fromStep, toStep] = [Math.max(a.fromStep, b.fromStep - offset), Math.min(a.toStep, b.toStep - offset)];
  return a.steps === 0 || b.steps === 0 || fromStep > toStep ? undefined : { fromStep, toStep };
}

/** One rank of both runs, phases in the order of `phases`. */
export interface RankPair {
  readonly rank: number;
  readonly a: OverviewRank | undefined;
  readonly b: OverviewRank | undefined;
  readonly phasesA: readonly number[];
  readonly phasesB: readonly number[];
  readonly mean: Difference;
  /** The phase with the largest change, and the change (ns per step); undefined where a side is missing or no phase is known. */
  readonly changed: { readonly phase: number; readonly more: number } | undefined;
}

export interface PhasePairs {
  /** Names of both runs: A's in its order, then B's further ones; `other` last. */
  readonly phases: readonly string[];
  /** By `phases`. */
  readonly roles: Overview['phaseRoles'];
  /** Largest change first. */
  readonly ranks: readonly RankPair[];
}

type Phased = Pick<Overview, 'phases' | 'phaseRoles' | 'ranks'>;

export function pairPhases(a: Phased, b: Phased): PhasePairs {
  const named = [...new Set([...a.phases, ...b.phases])];
  const phases = [...named.filter((name) => name !== otherPhase), ...named.filter((name) => name === otherPhase)];
  const roles = phases.map((name) => a.phaseRoles[a.phases.indexOf(name)] ?? b.phaseRoles[b.phases.indexOf(name)] ?? 'work');
  const inOrder = ({ phases: own }: Phased, rank: OverviewRank | undefined): readonly number[] =>
    phases.map((name) => rank?.phases[own.indexOf(name)] ?? 0);
  const [ofA, ofB] = [byRank(a.ranks), byRank(b.ranks)];
  const ranks = [...new Set([...ofA.keys(), ...ofB.keys()])].map((rank): RankPair => {
    const [rankA, rankB] = [ofA.get(rank), ofB.get(rank)];
    const [phasesA, phasesB] = [inOrder(a, rankA), inOrder(b, rankB)];
    const pair = { rank, a: rankA, b: rankB, phasesA, phasesB, mean: differenceOf(rankA?.mean, rankB?.mean) };
    return { ...pair, changed: rankA === undefined || rankB === undefined ? undefined : mostChanged(phasesA, phasesB) };
  });
  const weight = ({ changed, mean }: RankPair): number => Math.max(Math.abs(changed?.more ?? 0), Math.abs(mean.more ?? 0));
  return { phases, roles, ranks: ranks.sort((left, right) => weight(right) - weight(left) || left.rank - right.rank) };
}

function mostChanged(a: readonly number[], b: readonly number[]): RankPair['changed'] {
  let changed: RankPair['changed'];
  a.forEach((value, phase) => {
    const more = (b[phase] ?? 0) - value;
    if (changed === undefined || Math.abs(more) > Math.abs(changed.more)) changed = { phase, more };
  });
  return changed;
}

/** Takes the incarnation of a rank with the most steps. */
function byRank(ranks: readonly OverviewRank[]): ReadonlyMap<number, OverviewRank> {
  const found = new Map<number, OverviewRank>();
  for (const rank of ranks) if (rank.steps > 0 && rank.steps > (found.get(rank.rank)?.steps ?? 0)) found.set(rank.rank, rank);
  return found;
}

// Ranks that are slow in some steps only: every third, every other by chance, since step 10. A median over steps does not see them.
//
//   excess over peers in  ─ ─ ▲ ─ ─ ▲ ─ ─ ▲ ─ ─ ▲      affected: over 6 deviations of all ranks from each other in that phase,
//   a phase, by step                                    2 % of the peers' work and 1 % of the step
//
// In noisy steps any rank is affected now and then. A rank is named if its share of all affected steps is unlikely by chance, or if they
// form a pattern that chance does not make: regular, or one stretch. The product of the two chances, times the number of tests, must be
// below 1 in 500. On busy hosts delays come in stretches of any kind: there a stretch is no pattern, and the limit is 1 in 5000.

import { median, medianOfSorted } from '../model/robust.ts';
import type { BlameWindow } from './blame-window.ts';
import { type Excess, leastExcess, type OwnWork } from './own-work.ts';

export interface SometimesSlow {
  /** Index in `BlameWindow.ranks`. */
  readonly rank: number;
  readonly phase: number;
  /** Indexes of the affected steps, and each step's excess over the peers' work, ns. */
  readonly affected: readonly number[];
  readonly more: Float64Array;
  /** The pattern: `every third`, `since step 10`, `steps 8 to 13`; '' if there is none. */
  readonly when: string;
  /** The pattern is one stretch of steps. */
  readonly isStretch: boolean;
}

const affectedMin = 3;
const spreadsMin = 6;
/** An affected step exceeds this share of the median of the longer half of affected steps. */
const levelShareMin = 0.6;
const chanceMax = 2e-3;
const chanceMaxBusy = 2e-4;

/**
 * `excesses`: permanent slowness, skipped here. `step`: the cluster's, ns. `isBusy`: whether the ranks' hosts are busy. Yields after
 * each phase of each group.
 */
export function* sometimesSlow(
  window: BlameWindow,
  own: OwnWork,
  { excesses, step, isBusy }: { readonly excesses: readonly Excess[]; readonly step: number; readonly isBusy: boolean },
): Generator<void, SometimesSlow[]> {
  const found: SometimesSlow[] = [];
  const constant = new Set(excesses.flatMap(({ rank, slow }) => slow.map((phase) => `${rank} ${phase}`)));
  for (const ranks of own.groups.values()) {
    if (ranks.length < 2) continue;
    const work = median(ranks.map((rank) => median(own.total(rank))));
    const looked = ranks.length * own.phases;
    for (let phase = 0; phase < own.phases; phase++) {
      const more = own.moreThanPeers(ranks, phase);
      const least = Math.max(leastExcess(work, step), spreadsMin * spreadOf(more));
      for (const [index, rank] of ranks.entries()) {
        const values = more[index] as Float64Array;
        const limit = limitOf(values, least);
        const steps = Array.from(values.keys()).filter((at) => (values[at] as number) > limit);
        if (steps.length < affectedMin || constant.has(`${rank} ${phase}`)) continue;
        const all = more.reduce((sum, of) => sum + of.filter((value) => value > limit).length, 0);
        const { when, chance, isStretch } = patternOf(window, steps);
        const ofPattern = isStretch && isBusy ? 1 : chance;
        if (binomialTail(all, steps.length, 1 / ranks.length) * ofPattern * looked > (isBusy ? chanceMaxBusy : chanceMax)) continue;
        found.push({ rank, phase, affected: steps, more: values, when, isStretch });
      }
      yield;
    }
  }
  return found;
}

/**
 * Deviation of a rank's steps from each other, the median over ranks: from the shortest range that holds half of the values, as the other
 * half may be affected.
 */
function spreadOf(more: readonly Float64Array[]): number {
  return median(
    more.map((values) => {
      const sorted = values.slice().sort();
      // With one value more, exactly half of the steps affected would reach into the other half.
      const half = (sorted.length - 1) >> 1;
      let shortest = Number.POSITIVE_INFINITY;
      for (let from = 0; from + half < sorted.length; from++) {
        shortest = Math.min(shortest, (sorted[from + half] as number) - (sorted[from] as number));
      }
      return shortest / 2 / 0.6745;
    }),
  );
}

/**
 * Excess over its peers from which on a rank's step is affected, ns: `least` above the rank's shorter steps, which are those without a fault,
 * and not far below its affected steps, for a fault takes about as long each time, and noise does not.
 */
function limitOf(more: Float64Array, least: number): number {
  const sorted = more.slice().sort();
  let usual = medianOfSorted(sorted.subarray(0, Math.max(1, sorted.length >> 1)));
  if (!((sorted.at(-1) as number) > usual + least)) {
    // Where more than half of its steps are affected, those below the widest gap are without the fault.
    const above = widestGapIn(sorted);
    if ((sorted[above] as number) - (sorted[above - 1] as number) > least) usual = medianOfSorted(sorted.subarray(0, above));
  }
  const longer = sorted.filter((value) => value > usual + least);
  const level = medianOfSorted(longer.subarray(longer.length >> 1)) - usual;
  return usual + Math.max(least, levelShareMin * level);
}

/** Index of the first value above the widest gap; 0 of fewer than two values. */
function widestGapIn(sorted: Float64Array): number {
  let [widest, above] = [0, 0];
  for (let at = 1; at < sorted.length; at++) {
    const gap = (sorted[at] as number) - (sorted[at - 1] as number);
    if (gap > widest) [widest, above] = [gap, at];
  }
  return above;
}

interface Pattern {
  readonly when: string;
  /** Chance that as many steps follow such a rule at random. */
  readonly chance: number;
  /** Whether the rule is one consecutive stretch. */
  readonly isStretch: boolean;
}

/** The rule that steps follow; '' if they follow none. */
function patternOf({ steps }: BlameWindow, affected: readonly number[]): Pattern {
  const numberOf = (index: number): number => (steps[index] as BlameWindow['steps'][number]).step;
  const [first, last] = [affected[0] as number, affected.at(-1) as number];
  const ways = waysToChoose(steps.length, affected.length);
  if (last - first + 1 === affected.length) {
    const chance = (steps.length - affected.length + 1) / ways;
    const when = last === steps.length - 1 ? `since step ${numberOf(first)}` : `steps ${numberOf(first)} to ${numberOf(last)}`;
    return { when, chance, isStretch: true };
  }
  const rule = regularIn(
    affected.map((index) => numberOf(index) - numberOf(0)),
    numberOf(steps.length - 1) - numberOf(0) + 1,
  );
  return rule === undefined
    ? { when: '', chance: 1, isStretch: false }
    : { when: `every ${ordinal(rule.gap)}`, chance: rule.chance, isStretch: false };
}

/** At least this share of a rule's steps is affected, and of the affected ones follows it. */
const followsMin = 0.8;

/** The distance between all but a few of the steps, of `count`; and the chance that as many follow any such rule. */
function regularIn(affected: readonly number[], count: number): { readonly gap: number; readonly chance: number } | undefined {
  const least = Math.ceil(followsMin * affected.length);
  let looked = 0;
  let best: { gap: number; chance: number } | undefined;
  for (let gap = 2; (least - 1) * gap < count; gap++) {
    const hits = new Uint32Array(gap);
    for (const step of affected) hits[step % gap] = (hits[step % gap] as number) + 1;
    for (const [from, hit] of hits.entries()) {
      const of = Math.ceil((count - from) / gap);
      looked++;
      if (hit < least || hit < followsMin * of) continue;
      const chance = chosenTail(count, affected.length, of, hit);
      if (best === undefined || chance < best.chance) best = { gap, chance };
    }
  }
  return best && { gap: best.gap, chance: Math.min(1, best.chance * looked) };
}

/** The chance that among `chosen` of `count`, at least `hits` fall on `of` marked ones. */
function chosenTail(count: number, chosen: number, of: number, hits: number): number {
  let tail = 0;
  for (let hit = hits; hit <= Math.min(chosen, of); hit++)
    tail += waysToChoose(of, hit) * (waysToChoose(count - of, chosen - hit) / waysToChoose(count, chosen));
  return tail;
}

function ordinal(count: number): string {
  const word = ['second', 'third', 'fourth', 'fifth'][count - 2];
  const end = count % 100 >= 11 && count % 100 <= 13 ? 'th' : (['th', 'st', 'nd', 'rd'][count % 10] ?? 'th');
  return word ?? `${count}${end}`;
}

/** Number of ways to choose `chosen` of `count`, as a double. */
function waysToChoose(count: number, chosen: number): number {
  let ways = 1;
  for (let index = 1; index <= chosen; index++) ways *= (count - chosen + index) / index;
  return ways;
}

/** The chance of at least `hits` in `trials`, each with `chance`. */
export function binomialTail(trials: number, hits: number, chance: number): number {
  let tail = 0;
  for (let count = hits; count <= trials; count++) {
    tail += Math.exp(Math.log(waysToChoose(trials, count)) + count * Math.log(chance) + (trials - count) * Math.log1p(-chance));
  }
  return Math.min(1, tail);
}

// Ranks that are slow in some steps alone: every third, every other by chance, since step 10. A median over steps does not see them.
//
//   more than its peers   ─ ─ ▲ ─ ─ ▲ ─ ─ ▲ ─ ─ ▲      affected: over 6 deviations of what all ranks are off from each other in that phase,
//   in a phase, by step                                 2 % of the peers' work and 1 % of the step
//
// Any rank is affected now and then where steps are noisy. One is named where that many of all affected steps are hardly its own by chance,
// or come in a pattern that chance does not make: regularly, or in one stretch. The two chances together, times all that was looked at, must be
// below 1 in 500. On busy hosts delays come in stretches of any kind: there a stretch is no pattern, and 1 in 5000 is asked for.

import { median, medianOfSorted } from '../model/robust.ts';
import type { BlameWindow } from './blame-window.ts';
import type { Excess, OwnWork } from './own-work.ts';

export interface SometimesSlow {
  /** Index in `BlameWindow.ranks`. */
  readonly rank: number;
  readonly phase: number;
  /** Indexes of the affected steps, and ns by which each is longer than the peers' work, by step. */
  readonly affected: readonly number[];
  readonly more: Float64Array;
  /** When: `every third`, `since step 10`, `steps 8 to 13`; '' where that follows no rule. */
  readonly when: string;
}

const affectedMin = 3;
const spreadsMin = 6;
const shareOfWorkMin = 0.02;
const shareOfStepMin = 0.01;
/** Of what the longer half of affected steps takes at the median. */
const levelShareMin = 0.6;
const chanceMax = 2e-3;
const chanceMaxBusy = 2e-4;

/**
 * `excesses`: what is slow all the time, and not looked at here. `step`: the cluster's, ns. `isBusy`: whether the ranks' hosts are. Yields after
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
      const least = Math.max(shareOfWorkMin * work, shareOfStepMin * step, spreadsMin * spreadOf(more));
      for (const [index, rank] of ranks.entries()) {
        const values = more[index] as Float64Array;
        const limit = limitOf(values, least);
        const steps = Array.from(values.keys()).filter((at) => (values[at] as number) > limit);
        if (steps.length < affectedMin || constant.has(`${rank} ${phase}`)) continue;
        const all = more.reduce((sum, of) => sum + of.filter((value) => value > limit).length, 0);
        const { when, chance, isStretch } = patternOf(window, steps);
        const ofPattern = isStretch && isBusy ? 1 : chance;
        if (binomialTail(all, steps.length, 1 / ranks.length) * ofPattern * looked > (isBusy ? chanceMaxBusy : chanceMax)) continue;
        found.push({ rank, phase, affected: steps, more: values, when });
      }
      yield;
    }
  }
  return found;
}

/**
 * Deviation of a rank's steps from each other, of the ranks' the median: by the shortest stretch of values that holds half of them, as the other
 * half may be affected.
 */
function spreadOf(more: readonly Float64Array[]): number {
  return median(
    more.map((values) => {
      const sorted = values.slice().sort();
      // With one value more, exactly half of affected steps would reach into the other half.
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
 * From where on a step of a rank is affected, ns more than its peers: `least` above the rank's shorter steps, which are those it has when nothing is
 * wrong; and not far below what such steps take, for a fault takes about as long each time, and noise does not.
 */
function limitOf(more: Float64Array, least: number): number {
  const sorted = more.slice().sort();
  const usual = medianOfSorted(sorted.subarray(0, Math.max(1, sorted.length >> 1)));
  const longer = sorted.filter((value) => value > usual + least);
  const level = medianOfSorted(longer.subarray(longer.length >> 1)) - usual;
  return usual + Math.max(least, levelShareMin * level);
}

interface Pattern {
  readonly when: string;
  /** That as many steps follow such a rule by chance. */
  readonly chance: number;
  /** Whether the rule is that they follow each other. */
  readonly isStretch: boolean;
}

/** The rule that steps follow; '' where they follow none. */
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

/** Of a rule's steps so many are affected, and of the affected ones so many follow it. */
const followsMin = 0.8;

/** The distance at which steps lie, all but a few, of `count`; and the chance that as many of them follow any such rule. */
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

/** The chance that of `chosen` of `count` at least `hits` are among `of` of them. */
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

/** How many ways there are to choose `chosen` of `count`; as many as a double holds. */
function waysToChoose(count: number, chosen: number): number {
  let ways = 1;
  for (let index = 1; index <= chosen; index++) ways *= (count - chosen + index) / index;
  return ways;
}

/** The chance of at least `hits` of `trials`, each by `chance`. */
function binomialTail(trials: number, hits: number, chance: number): number {
  let tail = 0;
  for (let count = hits; count <= trials; count++) {
    tail += Math.exp(Math.log(waysToChoose(trials, count)) + count * Math.log(chance) + (trials - count) * Math.log1p(-chance));
  }
  return Math.min(1, tail);
}

import type { OverviewRank } from '@ranktrace/protocol';
import { describe, expect, it } from 'vitest';
import { alignSteps, commonSteps, differenceOf, pairPhases, verdictOf, verdictSentence } from './differences.ts';

const rank = (number: number, mean: number, phases: readonly number[], steps = 10): OverviewRank => {
  const of = { process: number, p50: mean, p95: mean, longest: mean, cells: [], peaks: [] };
  return { rank: number, steps, mean, phases, ...of };
};

describe('a difference', () => {
  it('is B less A, and a part of A', () => {
    expect(differenceOf(100, 110)).toEqual({ a: 100, b: 110, more: 10, part: 0.1 });
    expect(differenceOf(0, 5)).toEqual({ a: 0, b: 5, more: 5, part: undefined });
    expect(differenceOf(undefined, 5)).toEqual({ a: undefined, b: 5, more: undefined, part: undefined });
  });

  it('of less than 1 % is none', () => {
    const verdicts = [
      differenceOf(100, 102),
      differenceOf(100, 98),
      differenceOf(1000, 1009),
      differenceOf(0, 1),
      differenceOf(0, 0),
      differenceOf(1, undefined),
    ];
    expect(verdicts.map(verdictOf)).toEqual(['slower', 'faster', 'same', 'slower', 'same', undefined]);
  });
});

it('says the verdict in a sentence, and that there is none', () => {
  expect(verdictSentence({ verdict: 'slower', verdictText: 'slower: +3.4 %' })).toBe('B is slower: +3.4 %');
  const none = 'no verdict: it needs 3 steps that all ranks recorded, and B has 0';
  expect(verdictSentence({ verdict: null, verdictText: none })).toBe('No verdict: it needs 3 steps that all ranks recorded, and B has 0');
});

describe('alignSteps', () => {
  const a = { bins: [0, 10, 20], toStep: 29, median: [1, 2, null] };
  const b = { bins: [5, 25], toStep: 40, median: [7, 8] };

  it('puts the same steps above each other, and nothing where a run has none', () => {
    expect(alignSteps(a, b, 0)).toEqual({ steps: [0, 5, 10, 20, 25], a: [1, 1, 2, null, null], b: [null, 7, 7, 7, 8] });
  });

  it('counts from an offset', () => {
    expect(alignSteps(a, b, 5)).toEqual({ steps: [0, 10, 20], a: [1, 2, null], b: [7, 7, 8] });
  });
});

it('finds the steps that both have', () => {
  const run = (fromStep: number, toStep: number, steps = 1) => ({ fromStep, toStep, steps });
  expect(commonSteps(run(0, 99), run(50, 149), 0)).toEqual({ fromStep: 50, toStep: 99 });
  expect(commonSteps(run(0, 99), run(50, 149), 50)).toEqual({ fromStep: 0, toStep: 99 });
  expect(commonSteps(run(0, 9), run(50, 149), 0)).toBeUndefined();
  expect(commonSteps(run(0, 9), run(0, 9, 0), 0)).toBeUndefined();
});

const phased = (...phases: string[]) => ({ phases, phaseRoles: phases.map(() => 'work' as const) });

describe('pairPhases', () => {
  it('brings phases of both into one order, and what changed most to the top', () => {
    const a = { ...phased('backward', 'forward', 'other'), ranks: [rank(0, 100, [60, 30, 10]), rank(1, 100, [60, 30, 10])] };
    const b = {
      ...phased('forward', 'eval', 'other'),
      ranks: [rank(1, 130, [80, 40, 10]), rank(0, 90, [30, 50, 10]), rank(2, 1, [1, 0, 0])],
    };
    const { phases, ranks } = pairPhases(a, b);
    expect(phases).toEqual(['backward', 'forward', 'eval', 'other']);
    expect(ranks.map(({ rank, phasesA, phasesB, changed }) => [rank, phasesA, phasesB, changed])).toEqual([
      [0, [60, 30, 0, 10], [0, 30, 50, 10], { phase: 0, more: -60 }],
      [1, [60, 30, 0, 10], [0, 80, 40, 10], { phase: 0, more: -60 }],
      [2, [0, 0, 0, 0], [0, 1, 0, 0], undefined],
    ]);
    expect(ranks[1]?.mean).toEqual({ a: 100, b: 130, more: 30, part: 0.3 });
  });

  it('takes the life of a rank that did the most', () => {
    const twice = { ...phased(), ranks: [rank(0, 5, [], 2), rank(0, 9, [], 20), rank(0, 7, [], 0)] };
    expect(pairPhases(twice, twice).ranks.map(({ a }) => a?.mean)).toEqual([9]);
  });
});

import type { OverviewRank } from '@ranktrace/protocol';
import { expect, test } from 'vitest';
import { bandOf, representativesOf } from './outliers.ts';

const phases = ['forward', 'all_reduce', 'other'];
const phaseRoles = ['work', 'collective', 'work'] as const;
const rankOf = (rank: number, forward: number, cells: (number | null)[] = []): OverviewRank => ({
  rank,
  process: rank,
  steps: 10,
  mean: 300,
  p50: 300,
  p95: 300,
  longest: 300,
  // A quick rank waits for the others: all steps are equally long.
  phases: [forward, 300 - forward, 0],
  cells,
  peaks: cells,
});
const ranks = Array.from({ length: 40 }, (_, rank) => rank);

test('the slow rank of many is found by its own phases, not by its steps, which are as long as all', () => {
  const overview = { phases, phaseRoles, ranks: ranks.map((rank) => rankOf(rank, rank === 13 ? 200 : 100 + (rank % 5))) };
  const found = representativesOf(overview, ranks, 32);
  expect(found.get(13)).toEqual({ as: 'slow', process: 13 });
  expect([...found.values()].map(({ as }) => as).sort()).toEqual(['fastest', 'median', 'slow']);
});

test('of few ranks, which are all shown, only a slow one is marked', () => {
  const few = ranks.slice(0, 8);
  expect(representativesOf({ phases, phaseRoles, ranks: few.map((rank) => rankOf(rank, 100 + rank / 10)) }, few, 32).size).toBe(0);
  expect([...representativesOf({ phases, phaseRoles, ranks: few.map((rank) => rankOf(rank, rank === 3 ? 180 : 100)) }, few, 32)]).toEqual([
    [3, { as: 'slow', process: 3 }],
  ]);
});

test('of a rank with several lives the slow one is marked, not the last', () => {
  const few = ranks.slice(0, 8);
  const lives = [...few.map((rank) => rankOf(rank, rank === 3 ? 180 : 100)), { ...rankOf(3, 100), process: 8, life: 2 }];
  expect([...representativesOf({ phases, phaseRoles, ranks: lives }, few, 32)]).toEqual([[3, { as: 'slow', process: 3 }]]);
});

test('without steps the first two stand for all', () => {
  expect([...representativesOf(undefined, ranks, 32).keys()]).toEqual([0, 1]);
});

test('a band is the least, the median and the greatest of each bin', () => {
  const overview = {
    bins: [0, 5, 10],
    times: [0, 45, 90],
    toStep: 11,
    slowest: [9, 9, 9],
    ranks: [rankOf(0, 1, [1, 5, null]), rankOf(1, 1, [2, null, null]), rankOf(2, 1, [4, 7, null]), rankOf(3, 1, [9, 9, 9])],
  };
  const band = bandOf(overview, [0, 1, 2]);
  expect([...band.low]).toEqual([1, 5, Number.NaN]);
  expect([...band.median]).toEqual([2, 7, Number.NaN]);
  expect([...band.high]).toEqual([4, 7, Number.NaN]);
  expect(band.most).toBe(9);
  // The last one ends with its steps, not with the run, which may go on without any.
  expect(band.ends).toEqual([45, 90, 108]);
});

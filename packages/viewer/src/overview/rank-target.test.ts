import type { Overview, OverviewGpu, OverviewRank } from '@ranktrace/protocol';
import { expect, it } from 'vitest';
import { lifeTarget, processOfGpu, rankTarget } from './rank-target.ts';

const life = (process: number, rank: number, starts?: readonly (number | null)[]): OverviewRank =>
  ({ rank, process, cells: [50, 50, 50], ...(starts && { starts }) }) as unknown as OverviewRank;
const ranks = [life(0, 0), life(1, 1, [0, 1000, null]), life(2, 1, [null, 8000, 9000])];
const overview = { bins: [0, 10, 20], times: [0, 1000, 2000], toStep: 29, slowest: [100, 100, 100], ranks } as unknown as Overview;

it('is the life that a line is about, in the time of its own steps', () => {
  expect(ranks.map(lifeTarget)).toEqual([
    { ranks: [0], process: 0 },
    { ranks: [1], process: 1 },
    { ranks: [1], process: 2 },
  ]);
  expect(rankTarget(overview, false, 1, 1)).toEqual({ ranks: [1], process: 1 });
  expect(rankTarget(overview, true, 1, 1)).toEqual({ ranks: [1], process: 1, from: 0, until: 1000 + 10 * 50 });
  expect(rankTarget(overview, true, 1, 2)).toEqual({ ranks: [1], process: 2, from: 8000, until: 9000 + 10 * 50 });
});

it('is a rank in the time of all steps where no life is meant, or there is one', () => {
  expect(rankTarget(overview, false, 1)).toEqual({ ranks: [1] });
  expect(rankTarget(overview, true, 1)).toEqual({ ranks: [1], from: 0, until: 2000 + 10 * 100 });
  expect(rankTarget(overview, true, 0, 0)).toEqual({ ranks: [0], process: 0, from: 0, until: 2000 + 10 * 100 });
});

it('finds the life of a line about GPUs, where every life has one', () => {
  const gpus = [{ rank: 0 }, { rank: 1 }, { rank: 1, life: 2 }] as unknown as readonly OverviewGpu[];
  expect(gpus.map((gpu) => processOfGpu({ gpus, ranks }, gpu))).toEqual([0, 1, 2]);
  const fewer = gpus.slice(0, 2);
  expect(fewer.map((gpu) => processOfGpu({ gpus: fewer, ranks }, gpu))).toEqual([0, undefined]);
});

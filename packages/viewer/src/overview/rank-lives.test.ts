import { expect, test } from 'vitest';
import { viewProcess } from '../testing/view-model.ts';
import { processNames, processStates, rankCount, rankName, shortRankName } from './rank-lives.ts';

test('a rank that was started again is one rank, and its lives are numbered', () => {
  const lives = [
    { rank: 0, process: 1 },
    { rank: 0, process: 5, life: 2 },
    { rank: 3, process: 2 },
  ];
  expect([rankCount(lives), rankCount(lives.slice(0, 2)), rankCount([])]).toEqual([2, 1, 0]);
  expect(lives.map(rankName)).toEqual(['0', '0, life 2', '3']);
  expect(lives.map(shortRankName)).toEqual(['0', '0 (2)', '3']);
});

test('a life without a goodbye runs while its run goes on and no later life of its rank is there', () => {
  const of = (index: number, incarnation: string, ended: boolean) => viewProcess(index >> 1, { index, incarnation, ended });
  const processes = [of(0, 'b', false), of(1, 'a', false), of(2, 'a', true), of(3, 'by-a', false)];
  expect([...processStates({ live: true, processes })].sort()).toEqual([
    [0, 'running'],
    [1, 'no end recorded'],
    [2, 'ended'],
    [3, 'running'],
  ]);
  expect([...processStates({ live: false, processes })].sort()).toEqual([
    [0, 'no end recorded'],
    [1, 'no end recorded'],
    [2, 'ended'],
    [3, 'no end recorded'],
  ]);
});

test('lives of a rank, and what was recorded beside it, are told apart by name', () => {
  const processes = ['c', 'b', 'by-c'].map((incarnation, index) => viewProcess(3, { index, incarnation }));
  expect([...processNames(processes)].sort()).toEqual([
    [0, '3, life 2'],
    [1, '3'],
    [2, '3 · PyTorch'],
  ]);
});

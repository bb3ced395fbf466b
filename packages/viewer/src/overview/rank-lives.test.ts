import { expect, test } from 'vitest';
import { rankCount, rankName, shortRankName } from './rank-lives.ts';

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

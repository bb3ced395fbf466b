import { expect, test } from 'vitest';
import { laterLives, rankCount, rankName } from './rank-lives.ts';

test('a rank that was started again is one rank, and its lives are numbered', () => {
  const lives = [
    { rank: 0, process: 1 },
    { rank: 0, process: 5 },
    { rank: 3, process: 2 },
  ];
  const later = laterLives(lives);
  expect([rankCount(lives), rankCount(lives.slice(0, 2)), rankCount([])]).toEqual([2, 1, 0]);
  expect(lives.map((life) => rankName(life, later))).toEqual(['0', '0, life 2', '3']);
});

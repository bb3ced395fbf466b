// Text for a rank that is slow in some steps only.

import { expect, it } from 'vitest';
import { workedWindow } from '../testing/worked-window.ts';
import { blameOfWindow } from './blame.ts';

const line = 'data 4, forward 12, backward 24, all_reduce 1, optimizer 4';

it('is reported with its rule, and what an affected step costs', () => {
  const length = (ms: number, rank: number, phase: string, step: number): number =>
    ms + (rank === 0 && phase === 'data' && step % 3 === 1 ? 25 : 0);
  const blame = blameOfWindow(workedWindow([line, line, line, line], { steps: 12, length }));
  expect(blame.verdict).toBe('straggler');
  expect(blame.findings).toMatchObject([{ kind: 'straggler', ranks: [0], phase: 'data' }]);
  expect(blame.findings[0]?.costMsPerStep).toBeCloseTo(25 / 3, 6);
  expect(blame.findings[0]?.evidence).toEqual([
    'rank 0 works 25.00 ms longer in data than the median of its peers in 4 of 12 steps, every third',
    'a step so affected is 25.00 ms longer for all',
  ]);
});

import { expect, test } from 'vitest';
import { aggregatorLimits as limits } from '../model/limits.ts';
import { HeldRuns } from './held-runs.ts';

test('passes over what follows the first batch of a run that takes none, until that is taken', () => {
  const held = new HeldRuns();
  expect(held.passesOver('a', 7)).toBe(false);
  held.hold('a', 7, 0);
  expect([held.first, held.passesOver('a', 7), held.passesOver('b', 9), held.mustReadAgain('b')]).toEqual([Infinity, false, false, false]);
  expect([held.passesOver('a', 8), held.first, held.mustReadAgain('a'), held.passesOver('a', 9)]).toEqual([true, 7, true, true]);
  held.clear();
  expect([held.passesOver('a', 8), held.first]).toEqual([false, Infinity]);
});

test('a run whose first batch is taken before others came needs nothing', () => {
  const held = new HeldRuns();
  held.hold('a', 7, 0);
  expect([held.mustReadAgain('a'), held.passesOver('a', 8), held.isOverdue(1e9)]).toEqual([false, false, false]);
});

test('a first batch that comes no more is overdue', () => {
  const held = new HeldRuns();
  held.hold('a', 7, 0);
  held.hold('a', 7, 1000);
  expect([held.isOverdue(1000 + limits.natsHeldOverdueMs), held.isOverdue(1001 + limits.natsHeldOverdueMs)]).toEqual([false, true]);
});

test('holds a bounded number of runs', () => {
  const held = new HeldRuns();
  for (let run = 0; run <= limits.natsHeldRunsMax; run++) held.hold(`${run}`, 7, 0);
  expect([held.passesOver(`${limits.natsHeldRunsMax - 1}`, 8), held.passesOver(`${limits.natsHeldRunsMax}`, 8)]).toEqual([true, false]);
});

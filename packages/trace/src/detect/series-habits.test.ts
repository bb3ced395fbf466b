import { expect, it } from 'vitest';
import { dipOf, habitsLength, isHabit, noteBlock, noteChange, noteDip, noteImprovement, noteReturn, wanderOf } from './series-habits.ts';

const none = (): Float32Array => new Float32Array(habitsLength).fill(Number.NaN);
/** Sets blocks to these levels above the level before, in per cent; 1.5 % is the least change. */
const blocksOf = (values: Float32Array, above: readonly number[]): void => {
  for (const share of above) noteBlock(values, 0, share / 100, 0.015);
};

it('remembers for how long stretches of slow blocks last, and forgets it slowly', () => {
  const values = none();
  expect(isHabit(values, 0, 1)).toBe(false);
  blocksOf(values, [0, 2, 3, 1, 0, 0]);
  // Three blocks: the third is above half of the least change, so the stretch continues.
  expect([3, 4, 5, 6].map((held) => isHabit(values, 0, held))).toEqual([true, true, true, false]);
  blocksOf(values, new Array(2000).fill(0));
  expect(isHabit(values, 0, 3)).toBe(false);
});

it('takes what was reported for no stretch', () => {
  const values = none();
  blocksOf(values, [2, 2, 2, 2]);
  noteChange(values, 0);
  blocksOf(values, [0, 0]);
  expect(isHabit(values, 0, 3)).toBe(false);
});

it('takes a small change that went away for a habit, a large one when it did so several times', () => {
  const small = none();
  noteReturn(small, 0, 0.02);
  expect(wanderOf(small, 0)).toBeCloseTo(0.025, 6);
  const large = none();
  noteReturn(large, 0, 0.2);
  expect(wanderOf(large, 0)).toBeLessThan(0.05);
  for (let times = 0; times < 20; times++) noteReturn(large, 0, 0.2);
  expect(wanderOf(large, 0)).toBeGreaterThan(0.2);
  noteReturn(large, 0, -0.1);
  expect(wanderOf(large, 0)).toBeLessThan(0.26);
});

it('counts how far the golden baseline falls, but for improvements', () => {
  const values = none();
  noteDip(values, 0, 5, 4.98);
  noteDip(values, 0, 4.98, 4.97);
  expect(dipOf(values, 0)).toBeCloseTo(0.03, 5);
  noteImprovement(values, 0, 4.8);
  noteDip(values, 0, 4.97, 4.79);
  expect(dipOf(values, 0)).toBeCloseTo(0.04, 5);
});

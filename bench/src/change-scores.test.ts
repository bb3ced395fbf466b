import { describe, expect, it } from 'vitest';
import { changeCover, changeF1 } from './change-scores.ts';

describe('agreement with marked change points', () => {
  it('is whole for the same points, within five', () => {
    expect(changeF1([50], { a: [50], b: [50] })).toBe(1);
    expect(changeF1([55], { a: [50] })).toBe(1);
    expect(changeCover([50], { a: [50] }, 100)).toBe(1);
    expect(changeF1([], { a: [] })).toBe(1);
    expect(changeCover([], { a: [] }, 100)).toBe(1);
  });

  it('counts what was missed and what was made up', () => {
    // Said {0}, marked {0, 50}: precision 1, recall 1/2.
    expect(changeF1([], { a: [50] })).toBeCloseTo(2 / 3, 9);
    // Said {0, 20, 50}, marked {0, 50}: precision 2/3, recall 1.
    expect(changeF1([20, 50], { a: [50] })).toBeCloseTo(0.8, 9);
    // Precision over the marks of all people, recall averaged.
    expect(changeF1([50], { a: [50], b: [] })).toBe(1);
    expect(changeF1([50], { a: [50], b: [80] })).toBeCloseTo((2 * 1 * 0.75) / 1.75, 9);
  });

  it('matches each point once', () => {
    expect(changeF1([49, 51], { a: [50] })).toBeCloseTo(0.8, 9);
  });

  it('covers pieces by their overlap', () => {
    // One piece for two halves: each is covered by half of the whole.
    expect(changeCover([], { a: [50] }, 100)).toBeCloseTo(0.5, 9);
    expect(changeCover([], { a: [50], b: [] }, 100)).toBeCloseTo(0.75, 9);
    expect(changeCover([25], { a: [50] }, 100)).toBeCloseTo(0.5 * 0.5 + 0.5 * (50 / 75), 9);
  });
});

import { describe, expect, it } from 'vitest';
import { attemptsOf, type RankLife } from './attempts.ts';

const life = (rank: number, from: number, until: number): RankLife => ({ rank, from, until });

describe('attemptsOf', () => {
  it('puts lives that ran together into one attempt', () => {
    expect(attemptsOf([life(0, 0, 10), life(1, 1, 11), life(0, 20, 30), life(1, 21, 31)])).toEqual([0, 0, 1, 1]);
  });

  it('is one attempt of ranks that have one life, whenever they ran', () => {
    expect(attemptsOf([life(0, 0, 10), life(1, 1000, 1010), life(2, 5, 6)])).toEqual([0, 0, 0]);
  });

  it('pairs lives in order where clocks are further apart than attempts', () => {
    expect(attemptsOf([life(0, 0, 10), life(0, 20, 30), life(1, 20, 30), life(1, 40, 50)])).toEqual([0, 1, 0, 1]);
  });

  it('places a rank that took part in some attempts only by its time', () => {
    const all = [life(0, 0, 10), life(0, 20, 30), life(0, 40, 50)];
    expect(attemptsOf([...all, life(1, 21, 29)])).toEqual([0, 1, 2, 1]);
    expect(attemptsOf([...all, life(1, 1, 9), life(1, 42, 52)])).toEqual([0, 1, 2, 0, 2]);
    expect(attemptsOf([...all, life(1, 100, 110)])).toEqual([0, 1, 2, 2]);
  });

  it('keeps two lives of a rank apart, also where one attempt lies nearest to both', () => {
    const all = [life(0, 0, 10), life(0, 20, 30), life(0, 40, 50)];
    expect(attemptsOf([...all, life(1, 41, 42), life(1, 43, 44)])).toEqual([0, 1, 2, 1, 2]);
  });

  it('places a rank by the size of its job where attempts differ in it, whatever its clock', () => {
    const sized = (rank: number, from: number, size: number): RankLife => ({ ...life(rank, from, from + 10), size });
    const all = [sized(0, 0, 3), sized(0, 60, 2), sized(0, 120, 3)];
    expect(attemptsOf([...all, sized(2, 55, 3)])).toEqual([0, 1, 2, 0]);
    expect(attemptsOf([...all, sized(2, 70, 3)])).toEqual([0, 1, 2, 2]);
    expect(attemptsOf([...all, sized(2, 55, 4), life(3, 59, 61)])).toEqual([0, 1, 2, 1, 1]);
  });

  it('takes lives in any order, and none', () => {
    expect(attemptsOf([life(1, 21, 31), life(0, 20, 30), life(1, 1, 11), life(0, 0, 10)])).toEqual([1, 1, 0, 0]);
    expect(attemptsOf([])).toEqual([]);
  });
});

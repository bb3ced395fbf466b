import { describe, expect, test } from 'vitest';
import { Random } from '../simulate/random.ts';
import { levelOf } from '../testing/judge-steps.ts';
import { compareSeries } from './compare-series.ts';
import { addedBy, type LongSteps, longStepsOf, varianceOfAdded } from './long-steps.ts';

/** Steps of 60 ms, within 1 %, with more where `more` says so, ms. */
function stepsWith(seed: number, count: number, more: (step: number, random: Random) => number): number[] {
  const random = new Random(seed, 'steps');
  return Array.from({ length: count }, (_, step) => 60 * random.uniform(0.99, 1.01) + more(step, random));
}

/** The share that they add, and its relative error. */
function addedOf(times: readonly number[]): { count: number; added: number; error: number } {
  const long: LongSteps = longStepsOf(times);
  const added = addedBy(long);
  return { count: long.count, added, error: (Math.sqrt(varianceOfAdded(long, long).variance) * (1 + added)) / added };
}

const every =
  (period: number, ms: number, begin = period - 1) =>
  (step: number): number =>
    step % period === begin ? ms : 0;
const byChance =
  (share: number, ms: number) =>
  (_: number, random: Random): number =>
    random.uniform() < share ? ms : 0;
/** Long for a while, now and then. */
const inBursts = (): ((step: number, random: Random) => number) => {
  let left = 0;
  return (_, random) => {
    if (left > 0) left--;
    else if (random.uniform() < 0.004) left = 5 + random.whole(10);
    return left > 0 ? 120 : 0;
  };
};

describe('what long steps add', () => {
  test('is nothing where there are none', () => {
    expect(addedBy(longStepsOf(stepsWith(1, 200, () => 0)))).toBe(0);
    expect(addedBy(longStepsOf([]))).toBe(0);
  });

  test('is their length beyond the others, over all steps, and well known where they come regularly', () => {
    const { count, added, error } = addedOf(stepsWith(2, 400, every(50, 600)));
    expect(count).toBe(8);
    // 8 of 400 take eleven times as long.
    expect(added).toBeCloseTo((8 * 10) / 400, 2);
    expect(error).toBeLessThan(0.08);
  });

  test('is known to a part in the root of their number where they come by chance, and hardly where they come in one burst', () => {
    const { count, error } = addedOf(stepsWith(3, 4000, byChance(0.02, 600)));
    expect(error).toBeGreaterThan(0.7 / Math.sqrt(count));
    expect(error).toBeLessThan(1.5 / Math.sqrt(count));
    const late = addedOf(stepsWith(4, 400, (step) => (step >= 380 && step % 2 === 0 ? 600 : 0)));
    expect(late.count).toBe(10);
    expect(late.error).toBeGreaterThan(0.7);
  });

  test('in a row is one delay', () => {
    const rows = addedOf(stepsWith(5, 400, (step) => (step % 50 === 20 ? 200 : step % 50 === 21 ? 400 : 0)));
    expect(rows.count).toBe(8);
    expect(rows.added).toBeCloseTo((8 * 10) / 400, 2);
    expect(rows.error).toBeLessThan(0.08);
  });

  test('from the first step on is warm-up', () => {
    expect(longStepsOf([900, 400, ...stepsWith(6, 100, () => 0)]).count).toBe(0);
  });
});

describe('the mean of all steps of two runs', () => {
  const compared = (seed: number, before: number[], after: number[]) => {
    const { change, isCertain, ofAll } = compareSeries(levelOf(before), levelOf(after));
    expect(isCertain && Math.abs(change) >= 0.03, `usual steps, seed ${seed}`).toBe(false);
    return ofAll;
  };

  const slower: readonly [string, (step: number) => number, (step: number) => number, number][] = [
    ['take five times as long', every(50, 600), every(50, 3000), 0.67],
    ['come twice as often', every(50, 600), every(25, 600), 0.17],
    ['are new', () => 0, every(50, 600), 0.2],
    ['of each sixteenth step take 40 ms more', every(16, 90), every(16, 130), 0.04],
  ];
  test.each(slower)('is longer for certain where long ones %s, and shorter the other way round (20 seeds)', (_, few, many, share) => {
    for (let seed = 0; seed < 20; seed++) {
      const [fast, slow] = [stepsWith(seed, 400, few), stepsWith(seed + 100, 400, many)];
      expect(compared(seed, fast, slow), `seed ${seed}`).toMatchObject({ isCertain: true });
      expect(Math.abs((compared(seed, fast, slow)?.change ?? 0) - share), `seed ${seed}`).toBeLessThan(0.03);
      expect(compared(seed, slow, fast), `seed ${seed}`).toMatchObject({ isCertain: true });
    }
  });

  const alike: readonly [string, () => (step: number, random: Random) => number][] = [
    ['by chance', () => byChance(0.025, 120)],
    ['by chance, rarely, twenty times as long', () => byChance(0.0067, 1200)],
    ['in bursts', inBursts],
    ['half of the time', () => byChance(0.45, 120)],
  ];
  test.each(alike)('is hardly ever different for certain where long ones come %s in both (400 seeds)', (_, more) => {
    for (const steps of [40, 100, 400]) {
      let certain = 0;
      for (let seed = 0; seed < 400; seed++) {
        const ofAll = compareSeries(levelOf(stepsWith(2 * seed, steps, more())), levelOf(stepsWith(2 * seed + 1, steps, more()))).ofAll;
        if (ofAll?.isCertain === true && Math.abs(ofAll.change) >= 0.03) certain++;
      }
      expect(certain, `of ${steps} steps`).toBeLessThanOrEqual(4);
    }
  });

  test('is not said to be longer where the other run was too short for a checkpoint', () => {
    const [short, long] = [stepsWith(8, 60, every(100, 600)), stepsWith(9, 2000, every(100, 600))];
    expect(compared(8, short, long)?.isCertain).toBe(false);
    expect(compared(9, long, short)?.isCertain).toBe(false);
  });

  test('is not compared with a baseline that does not tell its long steps', () => {
    const level = levelOf(stepsWith(7, 400, every(50, 600)));
    expect(compareSeries({ ...level, long: undefined }, level).ofAll).toBeUndefined();
  });
});

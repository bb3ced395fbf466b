import { describe, expect, it } from 'vitest';
import { Random } from '../simulate/random.ts';
import { deviationOfNeighbours, deviationOfSorted, fitRamp, fitStep, medianOfRange, midmean, steadyRise } from './block-statistics.ts';

const sorted = (values: Iterable<number>): number[] => [...values].sort((a, b) => a - b);
const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;

describe.each([1, 2, 3])('statistics of random numbers (seed %i)', (seed) => {
  const random = new Random(seed, 'block statistics');
  const values = Float64Array.from({ length: 41 }, () => random.normal(5, 2));
  const scratch = new Float64Array(64);

  it('gives the median of a range and leaves the range alone', () => {
    const before = [...values];
    for (const [from, to] of [
      [0, 41],
      [3, 4],
      [7, 9],
      [10, 30],
    ] as const) {
      const want = sorted(values.subarray(from, to));
      const middle = (to - from) >> 1;
      const median = (to - from) % 2 === 1 ? want[middle] : ((want[middle - 1] as number) + (want[middle] as number)) / 2;
      expect(medianOfRange(values, from, to, scratch)).toBe(median);
    }
    expect([...values]).toEqual(before);
  });

  it('gives the deviation of normal noise, and of noise on a rise', () => {
    const many = Float64Array.from({ length: 4000 }, () => random.normal(5, 2));
    const space = new Float64Array(4000);
    const median = medianOfRange(many, 0, 4000, space);
    // Insertion sort: a few thousand are slow, but fine here.
    expect(deviationOfSorted(space, 4000, median)).toBeGreaterThan(1.85);
    expect(deviationOfSorted(Float64Array.from([1, 2, 3]), 3, 2)).toBeCloseTo(1.4826, 6);
    for (const rise of [0.01, 1, 100]) {
      const rising = many.map((value, at) => value + rise * at);
      expect(Math.abs(deviationOfNeighbours(rising, 4000, space) - 2)).toBeLessThan(0.15);
    }
  });

  it('gives the rise of a straight line that explains most of what varies, and none of other shapes', () => {
    const rising = values.map((value, at) => value + at);
    expect(Math.abs(steadyRise(rising, 41, 0.85) - 1)).toBeLessThan(0.12);
    expect(steadyRise(rising, 41, 0.9999)).toBe(0);
    expect(
      steadyRise(
        Float64Array.from({ length: 41 }, (_, at) => 3 + 0.5 * at),
        41,
        0.9999,
      ),
    ).toBeCloseTo(0.5, 12);
    for (const shape of [(at: number) => -at, (at: number) => (at > 20 ? 1 : 0), (at: number) => Math.sin(at / 5), () => 7]) {
      expect(
        steadyRise(
          Float64Array.from({ length: 41 }, (_, at) => shape(at)),
          41,
          0.85,
        ),
      ).toBe(0);
    }
  });

  it('gives the mean of the middle half', () => {
    const eight = Float64Array.from([9, 1, 100, 4, 5, 6, -50, 7]);
    expect(midmean(eight, 8)).toBe((4 + 5 + 6 + 7) / 4);
    expect(midmean(Float64Array.from([3]), 1)).toBe(3);
  });

  it('fits the best step: as trying every place', () => {
    const fit = { squares: 0, at: 0 };
    fitStep(values, 5, 38, 8, 36, fit);
    const squaresOf = (part: readonly number[]): number => part.reduce((sum, value) => sum + (value - mean(part)) ** 2, 0);
    const every = Array.from({ length: 29 }, (_, index) => {
      const at = index + 8;
      return { at, squares: squaresOf([...values.subarray(5, at)]) + squaresOf([...values.subarray(at, 38)]) };
    });
    const best = every.reduce((a, b) => (b.squares < a.squares ? b : a));
    expect(fit.at).toBe(best.at);
    expect(fit.squares).toBeCloseTo(best.squares, 9);
  });

  it('fits the best ramp: as regression on every place', () => {
    const fit = { squares: 0, at: 0 };
    fitRamp(values, 5, 38, fit);
    const part = [...values.subarray(5, 38)];
    const every = part.slice(0, -1).map((_, start) => {
      const rise = part.map((_, index) => Math.max(0, index - start));
      const [x, y] = [mean(rise), mean(part)];
      const slope =
        rise.reduce((sum, r, index) => sum + (r - x) * ((part[index] as number) - y), 0) / rise.reduce((sum, r) => sum + (r - x) ** 2, 0);
      return {
        at: start + 5,
        squares: part.reduce((sum, value, index) => sum + (value - y - slope * ((rise[index] as number) - x)) ** 2, 0),
      };
    });
    const best = every.reduce((a, b) => (b.squares < a.squares ? b : a));
    expect(fit.squares).toBeCloseTo(best.squares, 9);
    expect(fit.at).toBe(best.at);
  });
});

it('distinguishes a step from a ramp by what they leave', () => {
  const [step, ramp] = [
    { squares: 0, at: 0 },
    { squares: 0, at: 0 },
  ];
  const compare = (value: (at: number) => number): boolean => {
    const values = Float64Array.from({ length: 48 }, (_, at) => value(at));
    fitStep(values, 0, 48, 4, 46, step);
    fitRamp(values, 0, 48, ramp);
    return ramp.squares < step.squares;
  };
  expect(compare((at) => (at >= 40 ? 1 : 0))).toBe(false);
  expect(step.at).toBe(40);
  expect(compare((at) => Math.max(0, at - 20) / 10)).toBe(true);
  expect(ramp.at).toBe(20);
  expect(compare((at) => at)).toBe(true);
});

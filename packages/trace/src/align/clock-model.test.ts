import { nanos, rankTime } from '@ranktrace/protocol';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ClockModel } from './clock-model.ts';

function modelOf(...knots: readonly (readonly [at: number, offset: number])[]): ClockModel {
  const column = (index: 0 | 1): Float64Array => Float64Array.from(knots, (knot) => knot[index]);
  return new ClockModel('sampled', { at: column(0), offset: column(1) }, nanos(5));
}

function check(model: ClockModel, expected: Readonly<Record<number, number>>): void {
  const times = Object.keys(expected).map(Number);
  expect(Object.fromEntries(times.map((time) => [time, model.toTrace(time)]))).toEqual(expected);
}

describe('ClockModel', () => {
  it('keeps the offset before the first and after the last knot', () => {
    check(modelOf([100, 10], [200, 20]), { 0: 10, 100: 110, 200: 220, 1000: 1020 });
  });

  it('goes straight from knot to knot, in whole ns', () => {
    check(modelOf([100, 10], [200, 20], [300, 0]), { 150: 165, 151: 166, 250: 260, 299: 299, 300: 300 });
  });

  it('gives one answer for one time, in whatever order it is asked', () => {
    const model = modelOf([0, 0], [10, 5], [20, 0], [30, 5]);
    const forward = Array.from({ length: 40 }, (_, time) => model.toTrace(time));
    const backward = Array.from({ length: 40 }, (_, index) => model.toTrace(39 - index)).reverse();
    expect(backward).toEqual(forward);
  });

  it('gives a rank the one number to add, where that is all', () => {
    const clock = ClockModel.shifted('exact', -7, nanos(0)).forRank(1000);
    expect(clock.exact).toBe(993);
    expect(clock.toTrace(rankTime(5))).toBe(998);
    expect(modelOf([0, 0], [1, 1]).forRank(1000).exact).toBeUndefined();
  });

  it('places ranks of one host on one clock, whenever they began', () => {
    const model = modelOf([0, 0], [1_000_000, -40]);
    expect(model.forRank(600_000).toTrace(rankTime(1))).toBe(model.forRank(100_001).toTrace(rankTime(500_000)));
  });

  it('moves no time before an earlier one, for any whole offsets that fall no faster than time passes (seed 3)', () => {
    const rises = fc.array(fc.tuple(fc.integer({ min: 1, max: 50 }), fc.double({ min: -1, max: 1, noNaN: true })), { minLength: 1 });
    fc.assert(
      fc.property(rises, (steps) => {
        let [at, offset] = [0, 0];
        const knots = steps.map(([gap, slope]) => {
          at += gap;
          offset += Math.trunc(slope * gap);
          return [at, offset] as const;
        });
        const model = modelOf(...knots);
        for (let time = -2; time < at + 2; time++) expect(model.toTrace(time + 1)).toBeGreaterThanOrEqual(model.toTrace(time));
      }),
      { seed: 3, numRuns: 200 },
    );
  });
});

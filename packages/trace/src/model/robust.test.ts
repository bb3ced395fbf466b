import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { deviation, deviationsOfOthers, median, mediansOfOthers } from './robust.ts';

describe('what all others say', () => {
  const values = fc.array(fc.oneof(fc.integer({ min: -5, max: 5 }), fc.double({ min: -1e9, max: 1e9, noNaN: true })), { maxLength: 40 });
  const others = (given: readonly number[], index: number): number[] => given.filter((_, other) => other !== index);

  it('is what it is without the value (seed 11)', () => {
    const property = fc.property(values, (given) => {
      const all = Float64Array.from(given);
      const [middles, deviations] = [mediansOfOthers(all), deviationsOfOthers(all)];
      for (const index of given.keys()) {
        expect(middles[index]).toBeCloseTo(median(others(given, index)), 6);
        expect(deviations[index]).toBeCloseTo(deviation(others(given, index)), 5);
      }
    });
    fc.assert(property, { seed: 11, numRuns: 500 });
  });
});

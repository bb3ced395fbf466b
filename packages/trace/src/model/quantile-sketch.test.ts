import { nanos } from '@ranktrace/protocol';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { quantile } from '../steps/step-summary.ts';
import { QuantileSketch } from './quantile-sketch.ts';

const shares = [0, 0.5, 0.95, 0.99, 1] as const;

/** Quantiles by the sketch, and by sorting all values. */
function both(values: readonly number[], accuracy?: number): { found: readonly number[]; exact: readonly number[] } {
  const sketch = new QuantileSketch(accuracy);
  for (const value of values) sketch.add(value);
  const sorted = values.map(nanos).sort((a, b) => a - b);
  return { found: sketch.quantiles(shares) ?? [], exact: shares.map((share) => quantile(sorted, share) ?? Number.NaN) };
}

describe('quantile sketch', () => {
  it('has no quantiles of nothing', () => {
    const sketch = new QuantileSketch();
    expect([sketch.quantiles([0.5]), sketch.least, sketch.most, sketch.count]).toEqual([undefined, undefined, undefined, 0]);
  });

  it('is exact as long as values are few', () => {
    const { found, exact } = both(Array.from({ length: 256 }, (_, at) => (at * 7919) % 1009));
    expect(found).toEqual(exact);
  });

  it.each([0.01, 0.002])('is right to %d for any number of values, positive and negative (seed 44)', (accuracy) => {
    const value = fc.oneof(fc.integer({ min: -1e9, max: 1e9 }), fc.integer({ min: -50, max: 50 }), fc.maxSafeInteger());
    fc.assert(
      fc.property(fc.array(value, { minLength: 257, maxLength: 600 }), (values) => {
        const { found, exact } = both(values, accuracy);
        const sorted = [...values].sort((a, b) => a - b);
        for (const [index, share] of shares.entries()) {
          // Between neighbours of different size, it refers to the larger.
          const place = (values.length - 1) * share;
          const size = Math.max(Math.abs(sorted[Math.floor(place)] as number), Math.abs(sorted[Math.ceil(place)] as number));
          expect(Math.abs((found[index] as number) - (exact[index] as number))).toBeLessThanOrEqual(accuracy * size + 1e-6 * size + 1);
        }
      }),
      { seed: 44, numRuns: 200 },
    );
  });
});

import fc from 'fast-check';
import { expect, it } from 'vitest';
import { runCount } from '../../../../test/setup/seeds.ts';
import { fitValues, type Tie } from './fit-values.ts';

const free = Number.POSITIVE_INFINITY;
const fit = (spreads: readonly number[], ties: readonly Tie[]): number[] => [...fitValues(Float64Array.from(spreads), ties)];
const tie = (from: number, to: number, difference: number, spread: number): Tie => ({ from, to, difference, spread });

it('shares a difference equally between two values that are known as well', () => {
  const [a, b] = fit([100, 100], [tie(0, 1, 30, 1)]);
  expect(a).toBeCloseTo(-15, 2);
  expect(b).toBeCloseTo(15, 2);
});

it('moves what is known less, and never what stays at 0', () => {
  const [a, b] = fit([10, 1000], [tie(0, 1, 30, 1)]);
  expect(a).toBeCloseTo(0, 1);
  expect(b).toBeCloseTo(30, 1);
  expect(fit([0, 1000], [tie(0, 1, 30, 0.001)])).toEqual([0, expect.closeTo(30, 4)]);
});

it('weighs two ties by the squares of their spreads', () => {
  expect(fit([0, free], [tie(0, 1, 10, 1), tie(1, 0, -20, 2)])[1]).toBeCloseTo((10 * 4 + 20) / 5, 9);
});

it('leaves at 0 what nothing is known of', () => {
  expect(fit([free, free, 0, 5], [tie(0, 1, 8, 1)])).toEqual([expect.closeTo(-4, 9), expect.closeTo(4, 9), 0, 0]);
  expect(fit([], [])).toEqual([]);
});

it('is where no value would fit better (seed 5)', () => {
  const node = fc.nat({ max: 11 });
  const tied = fc.record({
    from: node,
    to: node,
    difference: fc.integer({ min: -1e6, max: 1e6 }),
    spread: fc.integer({ min: 1, max: 1e5 }),
  });
  const spreads = fc.array(fc.constantFrom(0, 1e2, 1e4, 1e6, free), { minLength: 12, maxLength: 12 });
  fc.assert(
    fc.property(spreads, fc.array(tied, { maxLength: 60 }), (open, all) => {
      const ties = all.filter(({ from, to }) => from !== to);
      const values = fit(open, ties);
      for (const [at, spread] of open.entries()) {
        if (spread === 0) expect(values[at]).toBe(0);
        if (spread === 0) continue;
        // The force of each piece of evidence on the value, ÷ that of 1 ns of them all.
        const own = ties.filter(({ from, to }) => from === at || to === at);
        let [force, stiffness] = [-(values[at] as number) / spread ** 2, 1 / spread ** 2];
        for (const { from, to, difference, spread: within } of own) {
          const missing = difference - ((values[to] as number) - (values[from] as number));
          force += (to === at ? missing : -missing) / within ** 2;
          stiffness += 1 / within ** 2;
        }
        if (stiffness > 0) expect(Math.abs(force / stiffness)).toBeLessThan(1);
      }
    }),
    { seed: 5, numRuns: runCount(300) },
  );
});

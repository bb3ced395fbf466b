import { describe, expect, it } from 'vitest';
import { Random } from '../simulate/random.ts';
import { MemoryGrowth } from './memory-growth.ts';

const mib = 1024 * 1024;

/** Garbage of up to `height` MiB, collected about every `period` steps. */
function garbage(random: Random, period: number, height: number): () => number {
  let held = random.uniform(0, height);
  return () => {
    held += (height / period) * random.uniform(0.5, 1.5);
    if (held > height * random.uniform(0.8, 1.2)) held = 0;
    return held;
  };
}

/** Steps at which growth of 1 MiB and more a step began to be seen. */
function seenIn(seed: number, steps: number, leak: (step: number) => number, [period, height]: readonly [number, number]): number[] {
  const random = new Random(seed, 'memory');
  const held = garbage(random, period, height);
  const growth = new MemoryGrowth(200, mib / 2);
  const seen: number[] = [];
  let was = 0;
  for (let step = 0; step < steps; step++) {
    growth.add(step, mib * (2000 + leak(step) + held() + random.normal(0, 3)));
    const is = growth.growth ?? 0;
    if (is >= mib && was < mib) seen.push(step);
    was = is;
  }
  return seen;
}

const seeds = Array.from({ length: 20 }, (_, seed) => seed);

describe('a leak of 1.2, 2 or 5 MiB a step', () => {
  it.each([
    [5, 50],
    [60, 300],
    [150, 300],
    [400, 500],
    [40, 1000],
  ])('is seen, though garbage is collected every %i steps, of %i MiB (20 seeds)', (period, height) => {
    for (const leak of [1.2, 2, 5])
      for (const seed of seeds) {
        const [first = Number.POSITIVE_INFINITY] = seenIn(seed, 3000, (step) => leak * step, [period, height]);
        // Nothing proves it before it is as large as the garbage, and in a window that is long enough.
        expect(first, `${leak} MiB, seed ${seed}`).toBeLessThan(Math.max(450, (4 * height) / leak, 12 * period));
      }
  });

  it('is over soon after it stopped, and does not come again', () => {
    for (const seed of seeds) {
      const growth = new MemoryGrowth(200, mib / 2);
      const random = new Random(seed, 'stopped');
      let [lastSeen, begun, was] = [0, 0, 0];
      for (let step = 0; step < 4000; step++) {
        growth.add(step, mib * (2000 + 2 * Math.min(step, 2000) + random.uniform(0, 20)));
        const is = growth.growth ?? 0;
        if (is >= mib && was < mib) begun++;
        if (is >= mib) lastSeen = step;
        was = is;
      }
      expect(begun, `seed ${seed}`).toBe(1);
      expect(lastSeen, `seed ${seed}`).toBeGreaterThan(1900);
      expect(lastSeen, `seed ${seed}`).toBeLessThan(2600);
    }
  });
});

it('a leak that pauses is seen again soon after it goes on', () => {
  const growth = new MemoryGrowth(200, mib / 2);
  const seen: number[] = [];
  let was = 0;
  for (let step = 0; step < 12_000; step++) {
    growth.add(step, mib * (2000 + 2 * (Math.min(step, 600) + Math.max(0, step - 10_000))));
    const is = growth.growth ?? 0;
    if (is >= mib && was < mib) seen.push(step);
    was = is;
  }
  expect(seen).toEqual([expect.any(Number), expect.any(Number)]);
  expect(seen[0]).toBeLessThan(300);
  expect(seen[1]).toBeGreaterThan(10_000);
  expect(seen[1]).toBeLessThan(10_300);
});

describe('memory that does not leak', () => {
  it.each([
    [5, 50],
    [30, 100],
    [60, 300],
    [150, 300],
    [1000, 500],
    [40, 1000],
  ])('never grows where garbage is collected every %i steps, of %i MiB (20 seeds)', (period, height) => {
    for (const seed of seeds)
      expect(
        seenIn(seed, 20_000, () => 0, [period, height]),
        `seed ${seed}`,
      ).toEqual([]);
  });

  it('may grow for the first time that much garbage is collected late, and hardly ever again (20 seeds)', () => {
    const counts = seeds.map((seed) => seenIn(seed, 40_000, () => 0, [400, 500]).length);
    expect(Math.max(...counts)).toBeLessThanOrEqual(2);
  });

  it('does not grow once caches are full', () => {
    for (const seed of seeds)
      expect(
        seenIn(seed, 5000, (step) => Math.min(step, 150) * 10, [30, 100]),
        `seed ${seed}`,
      ).toEqual([]);
  });
});

it('begins anew with the steps, and ignores what is no number', () => {
  const growth = new MemoryGrowth(200, mib / 2);
  for (let step = 0; step < 400; step++) growth.add(step, 2 * mib * step);
  expect(growth.growth).toBeCloseTo(2 * mib, -3);
  expect([growth.fromStep, growth.steps]).toEqual([expect.any(Number), 200]);
  growth.add(60, 5);
  expect(growth.growth).toBeUndefined();
  for (const value of [Number.NaN, Number.POSITIVE_INFINITY]) expect(growth.add(61, value)).toBe(false);
  for (let step = 62; step < 500; step++) growth.add(step, 7);
  expect(growth.growth).toBe(0);
});

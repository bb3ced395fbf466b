import { expect, test } from 'vitest';
import { type Sample, trendOf } from './trend.ts';

/** xorshift32, −1 … 1. */
function noise(seed: number): () => number {
  let state = seed;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 31 - 1;
  };
}

const series = (value: (at: number) => number, count = 150): Sample[] =>
  Array.from({ length: count }, (_, at) => ({ at, value: value(at) }));

test('a line has its slope, without doubt', () => {
  const { slope, least, most } = trendOf(series((at) => 7 + 0.25 * at));
  for (const value of [slope, least, most]) expect(value).toBeCloseTo(0.25, 9);
});

test('a saw that grows not is flat within its noise, one that grows is not', () => {
  const random = noise(4711);
  const saw = (at: number): number => 100 + ((at * 7) % 23) + 3 * random();
  const flat = trendOf(series(saw));
  expect(flat.least).toBeLessThanOrEqual(0);
  expect(flat.most).toBeGreaterThanOrEqual(0);
  const growing = trendOf(series((at) => saw(at) + 0.5 * at));
  expect(growing.least).toBeGreaterThan(0.2);
  expect(growing.most).toBeLessThan(0.8);
});

test('noise alone grows in about one of 40 series', () => {
  const grows = Array.from({ length: 400 }, (_, seed) => {
    const random = noise(seed + 1);
    for (let skip = 0; skip < 8; skip++) random();
    return trendOf(series(random)).least > 0;
  }).filter(Boolean).length;
  expect(grows).toBeLessThanOrEqual(20);
});

test('a few samples are enough', () => {
  expect(trendOf(series((at) => at, 2)).slope).toBe(1);
  expect(trendOf(series((at) => at, 5)).slope).toBe(1);
});

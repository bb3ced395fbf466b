import fc from 'fast-check';
import { expect, test } from 'vitest';
import { stepFor, ticksOf, zeroOf, zeroOfRun } from './ruler.ts';

const labels = (from: number, until: number, zero = 0): string[] =>
  ticksOf({ from, until }, 1000, zero).flatMap(({ label }) => (label === undefined ? [] : [label.replaceAll('\u2009', ' ')]));

test('labels say as much as distinguishes one tick from the next', () => {
  expect(labels(0, 5e9).slice(0, 3)).toEqual(['0', '0.5 s', '1.0 s'].map((text) => text.replace('0.5 s', '500 ms')));
  expect(labels(5.3e9, 5.35e9).slice(0, 3)).toEqual(['5.300 s', '5.305 s', '5.310 s']);
  expect(labels(1000, 1500).slice(0, 3)).toEqual(['1.00 µs', '1.05 µs', '1.10 µs']);
  expect(labels(0, 600e9).slice(0, 3)).toEqual(['0', '1:00', '2:00']);
});

test('the zero may lie elsewhere', () => {
  expect(labels(1e15, 1e15 + 1e9, 1e15)[0]).toBe('0');
  expect(zeroOf({ from: 1e15, until: 1e15 + 60e9 })).toBe(1e15);
  expect(zeroOf({ from: -5e6, until: 60e9 })).toBe(0);
  expect(zeroOfRun({ firstStep: null, from: 1e15, until: 1e15 + 60e9 })).toBe(1e15);
  expect(zeroOfRun({ firstStep: 1e15 + 5e9, from: 1e15, until: 1e15 + 60e9 })).toBe(1e15 + 5e9);
});

test('labelled ticks differ, and are at least 90 px apart, at any zoom (seed 8)', () => {
  fc.assert(
    fc.property(fc.double({ min: 0, max: 1e14, noNaN: true }), fc.double({ min: 1.4, max: 14, noNaN: true }), (from, power) => {
      const window = { from, until: from + 10 ** power };
      const ticks = ticksOf(window, 1000, 0).filter(({ label }) => label !== undefined);
      expect(new Set(ticks.map(({ label }) => label)).size).toBe(ticks.length);
      for (let at = 1; at < ticks.length; at++) {
        const apart = (((ticks[at]?.time ?? 0) - (ticks[at - 1]?.time ?? 0)) / 10 ** power) * 1000;
        expect(apart).toBeGreaterThan(90);
      }
    }),
    { seed: 8, numRuns: 300 },
  );
});

test('steps are 1, 2 or 5, and from seconds on those of clocks', () => {
  expect(stepFor(1, 100)).toBe(100);
  expect(stepFor(1.5, 100)).toBe(200);
  expect(stepFor(3, 100)).toBe(500);
  expect(stepFor(1e8, 100)).toBe(10e9);
  expect(stepFor(2e8, 100)).toBe(30e9);
});

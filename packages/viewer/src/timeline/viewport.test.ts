import fc from 'fast-check';
import { expect, test } from 'vitest';
import { clamped, eased, fitted, followed, lengthOf, timeAt, wholeWindow, windowNsMin, windowOf, xAt, zoomed } from './viewport.ts';

const time = fc.double({ min: -1e15, max: 1e15, noNaN: true });

test('a clamped window is never too narrow and always shows something of the run (seed 7)', () => {
  fc.assert(
    fc.property(time, time, time, fc.double({ min: 0, max: 1e14, noNaN: true }), (from, until, start, length) => {
      const extent = { from: start, until: start + length };
      const window = clamped({ from, until }, extent);
      expect(lengthOf(window)).toBeGreaterThanOrEqual(windowNsMin * 0.9);
      expect(window.from).toBeLessThan(Math.max(extent.until, extent.from + 1000));
      expect(window.until).toBeGreaterThan(extent.from);
    }),
    { seed: 7, numRuns: 500 },
  );
});

test('zooming keeps the time under the pointer', () => {
  const window = { from: 1e9, until: 2e9 };
  const at = timeAt(window, 1000, 300);
  const closer = zoomed(window, 0.25, at);
  expect(xAt(closer, 1000, at)).toBeCloseTo(300);
  expect(lengthOf(closer)).toBeCloseTo(0.25e9);
});

test('a window that is inside stays as it is', () => {
  expect(clamped({ from: 10, until: 500 }, { from: 0, until: 1e6 })).toEqual({ from: 10, until: 500 });
});

test('a window that is wider than the run shows all of it, others reach a little beyond it', () => {
  const extent = { from: 0, until: 1000e6 };
  expect(clamped({ from: 900e6, until: 2200e6 }, extent)).toEqual({ from: 0, until: 1300e6 });
  expect(clamped({ from: 5000e6, until: 5100e6 }, extent)).toEqual({ from: 910e6, until: 1010e6 });
});

test('an address may ask for any window, but it must be one', () => {
  expect(windowOf(5e12, 6e12)).toEqual({ from: 5e12, until: 6e12 });
  expect([windowOf(5, 5), windowOf(6, 5), windowOf(undefined, 5), windowOf(Number.NaN, 5)]).toEqual([
    undefined,
    undefined,
    undefined,
    undefined,
  ]);
});

test('what is no window becomes the whole', () => {
  const extent = { from: 0, until: 1e9 };
  expect(clamped({ from: Number.NaN, until: 3 }, extent)).toEqual(wholeWindow(extent));
  expect(clamped({ from: 5, until: 5 }, extent)).toEqual(wholeWindow(extent));
});

test('following keeps the width and ends just after the newest', () => {
  const window = followed({ from: 0, until: 10e9 }, { from: 0, until: 60e9 });
  expect(lengthOf(window)).toBe(10e9);
  expect(window.until).toBeGreaterThan(60e9);
  expect(window.until).toBeLessThan(61e9);
});

test('easing comes to rest at the goal', () => {
  const goal = { from: 100, until: 1100 };
  let window = { from: 0, until: 1000 };
  let frames = 0;
  while (window !== goal && frames < 100) {
    window = eased(window, goal, 0.22, 1000);
    frames++;
  }
  expect(window).toBe(goal);
  expect(frames).toBeLessThan(40);
});

test('an instant can be fitted', () => {
  expect(lengthOf(fitted(5, 5))).toBeGreaterThan(0);
});

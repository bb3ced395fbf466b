import { traceTime } from '@ranktrace/protocol';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { runCount } from '../../../../test/setup/seeds.ts';
import { alignmentOfBounds, boundsText } from './bounds-text.ts';

/** A clock whose bound changes: `changes` are [ns from which on, ± ns]; before the first it is ± 100 ns. */
function clockOf(changes: readonly (readonly [number, number])[]) {
  const at = (time: number): number => changes.findLast(([from]) => from <= time)?.[1] ?? 100;
  const within = (from: number, until: number): number =>
    changes.reduce((most, [begin, value]) => (begin > from && begin <= until ? Math.max(most, value) : most), at(from));
  return { at, within };
}

const time = fc.integer({ min: -1e9, max: 400e9 });
const value = fc.oneof(fc.integer({ min: 0, max: 1e9 }), fc.constant(Number.POSITIVE_INFINITY));

it('what is read is never below what was told at any time, and at most a tenth above the largest beside it', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(time, value), { maxLength: 8 }), fc.tuple(time, time), fc.array(time), (all, range, times) => {
      const changes = all.toSorted(([a], [b]) => a - b);
      const [from, until] = [Math.min(...range), Math.max(...range)];
      const { at, within } = clockOf(changes);
      const otherwise = within(-2e9, 500e9);
      const text = boundsText(within, from, until);
      const { apartAt = () => otherwise, apartWithin = () => otherwise } = alignmentOfBounds('', text, otherwise);
      // A part is at most twice as long as it has to be.
      const length = Math.max(1e9, (2 * (until - from)) / 62);
      for (const [place, one] of times.entries()) {
        const other = times[place + 1] ?? one;
        const read = apartAt(traceTime(one));
        expect(read).toBeGreaterThanOrEqual(at(one));
        expect(apartWithin(traceTime(Math.min(one, other)), traceTime(Math.max(one, other)))).toBeGreaterThanOrEqual(
          within(Math.min(one, other), Math.max(one, other)),
        );
        if (one >= from && one <= until) {
          expect(read).toBeLessThanOrEqual(1.1 * within(one - length, one + length) + 1);
        }
      }
    }),
    { numRuns: runCount(300) },
  );
});

it('stretches of equal values are one, and a clock that is known better at some times says so', () => {
  const { within } = clockOf([
    [10e9, 1_234_567],
    [20e9, 99],
  ]);
  const text = boundsText(within, 0, 40e9);
  expect(text).toBe('0–9000000000 ±100 9000000000–20000000000 ±1300000 20000000000–41000000000 ±99');
  const { boundAt, boundWithin } = alignmentOfBounds(text, '', 1_234_567);
  expect([-1, 0, 9e9, 15e9, 20e9, 30e9, 42e9].map((at) => boundAt?.(traceTime(at)))).toEqual([
    1_234_567, 100, 1_234_567, 1_234_567, 1_234_567, 99, 1_234_567,
  ]);
  expect(boundWithin?.(traceTime(25e9), traceTime(30e9))).toBe(99);
});

it('text of others tells nothing that it does not say', () => {
  const bound = 5000;
  for (const text of [
    '±',
    '0–1',
    '9–3 ±1',
    '0–9 ±-1',
    '0–9 ±NaN',
    '0–99999999999999999999 ±1',
    'a–b ±c',
    '0–9 ±1e3',
    ' '.repeat(1000),
    '0–1 ±1 '.repeat(100_000),
  ]) {
    expect(alignmentOfBounds(text, text, bound).boundAt?.(traceTime(5))).toBe(bound);
    expect(alignmentOfBounds(text, text, bound).apartAt?.(traceTime(5))).toBe(Number.POSITIVE_INFINITY);
  }
  // A gap, stretches in disorder, and a bound above the worst.
  const { boundAt, boundWithin } = alignmentOfBounds('20–30 ±7 0–10 ±8 40–50 ±9000', '', bound);
  expect([5, 15, 25, 45].map((at) => boundAt?.(traceTime(at)))).toEqual([8, bound, 7, bound]);
  expect(boundWithin?.(traceTime(5), traceTime(25))).toBe(bound);
});

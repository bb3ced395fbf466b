// Unions and their sweep, against counting ns by ns.

import { describe, expect, test } from 'vitest';
import { Random } from '../simulate/random.ts';
import { Intervals, sweep } from './intervals.ts';
import { commonTime } from './overlap.ts';

const span = 200;

/** A union of random stretches, and whether it covers each ns. */
function randomUnion(random: Random): { readonly union: Intervals; readonly covers: boolean[] } {
  const stretches = Array.from({ length: Math.floor(random.uniform(0, 12)) }, () => {
    const from = Math.floor(random.uniform(0, span));
    return [from, Math.min(span, from + Math.floor(random.uniform(0, 30)))] as const;
  }).sort(([a], [b]) => a - b);
  const union = new Intervals();
  const covers = Array<boolean>(span).fill(false);
  for (const [from, until] of stretches) {
    union.add(from, until);
    covers.fill(true, from, until);
  }
  return { union, covers };
}

const count = (covers: readonly boolean[]): number => covers.filter((is) => is).length;

describe.each(Array.from({ length: 50 }, (_, seed) => seed))('seed %i', (seed) => {
  const random = new Random(seed, 'intervals');
  const [a, b, c] = [randomUnion(random), randomUnion(random), randomUnion(random)];
  const from = Math.floor(random.uniform(0, span));
  const until = Math.floor(random.uniform(from, span));

  test('a union covers what its stretches cover, in order and apart', () => {
    expect(a.union.total).toBe(count(a.covers));
    expect(a.union.covered(from, until)).toBe(count(a.covers.slice(from, until)));
    for (let at = 1; at < a.union.length; at++) expect(a.union.from[at]).toBeGreaterThan(a.union.until[at - 1] as number);
  });

  test('a sweep cuts a stretch into pieces that add up to it', () => {
    const times = new Map<number, number>();
    let end = from;
    sweep([a.union, b.union, c.union], from, until, (covering, start, stop) => {
      expect(start).toBe(end);
      end = stop;
      times.set(covering, (times.get(covering) ?? 0) + stop - start);
    });
    expect(end).toBe(Math.max(from, until));
    for (let covering = 0; covering < 8; covering++) {
      const expected = Array.from({ length: span }, (_, at) => at >= from && at < until).filter(
        (isInside, at) => isInside && Number(a.covers[at]) + 2 * Number(b.covers[at]) + 4 * Number(c.covers[at]) === covering,
      ).length;
      expect(times.get(covering) ?? 0).toBe(expected);
    }
  });

  test('the common time of two unions', () => {
    expect(commonTime(a.union, b.union)).toBe(count(a.covers.map((is, at) => is && b.covers[at] === true)));
  });
});

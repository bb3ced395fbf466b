import fc from 'fast-check';
import { expect, test } from 'vitest';
import { sortByTime } from './sort-by-time.ts';

test('is a stable sort by start, longest first (seed 1)', () => {
  const times = fc.array(fc.tuple(fc.oneof(fc.nat(5), fc.integer({ min: -9e15, max: 9e15 })), fc.nat(3)));
  fc.assert(
    fc.property(times, (rows) => {
      const start = Float64Array.from(rows, ([time]) => time);
      const duration = Float64Array.from(rows, ([, length]) => length);
      const wanted = rows
        .map((_, row) => row)
        .sort((a, b) => (start[a] as number) - (start[b] as number) || (duration[b] as number) - (duration[a] as number) || a - b);
      expect(Array.from(sortByTime(start, duration, rows.length))).toEqual(wanted);
    }),
    { seed: 1, numRuns: 500 },
  );
});

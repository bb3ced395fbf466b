import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Horizons } from './horizons.ts';

test('of nobody, nobody is slowest', () => {
  expect(new Horizons().slowest).toBeUndefined();
  expect(new Horizons().least).toBe(Number.POSITIVE_INFINITY);
});

test('however members come and go on, the first of those furthest behind is found (seed 3)', () => {
  const change = fc.oneof(fc.constant('add' as const), fc.tuple(fc.nat(), fc.constantFrom(0, 1, 2, 3, 5, 8, Number.POSITIVE_INFINITY)));
  fc.assert(
    fc.property(fc.array(change, { maxLength: 200 }), (changes) => {
      const horizons = new Horizons();
      const model: number[] = [];
      for (const one of changes) {
        if (one === 'add') {
          expect(horizons.add()).toBe(model.length);
          model.push(Number.NEGATIVE_INFINITY);
        } else if (model.length > 0) {
          const member = one[0] % model.length;
          horizons.set(member, one[1]);
          model[member] = one[1];
        }
        const least = Math.min(...model);
        expect(horizons.least).toBe(least);
        expect(horizons.slowest).toBe(least === Number.POSITIVE_INFINITY ? undefined : model.indexOf(least));
        expect(model.map((_, member) => horizons.of(member))).toEqual(model);
      }
    }),
    { seed: 3, numRuns: 500 },
  );
});

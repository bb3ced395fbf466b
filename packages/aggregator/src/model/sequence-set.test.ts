import fc from 'fast-check';
import { expect, test } from 'vitest';
import { SequenceSet } from './sequence-set.ts';

const numbersBelow = (end: number): number[] => Array.from({ length: end }, (_, number) => number);

test('says what a Set says, for any order and any duplicates', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(60), { maxLength: 120 }), (sequences) => {
      const set = new SequenceSet();
      const oracle = new Set<number>();
      const isNew = sequences.map((sequence) => !oracle.has(sequence) && oracle.add(sequence) === oracle);
      expect(sequences.map((sequence) => set.add(sequence))).toEqual(isNew);
      const end = Math.max(-1, ...oracle) + 1;
      const missing = Array.from({ length: end }, (_, sequence) => sequence).filter((sequence) => !oracle.has(sequence));
      expect(set.count).toBe(oracle.size);
      expect(set.missing).toBe(missing.length);
      expect([...set.gaps()].flatMap(({ from, to }) => Array.from({ length: to - from }, (_, index) => from + index))).toEqual(missing);
      expect(numbersBelow(62).filter((sequence) => set.has(sequence))).toEqual([...oracle].sort((a, b) => a - b));
    }),
    { seed: 1 },
  );
});

test('holds the largest sequence number there may be', () => {
  const set = new SequenceSet();
  expect(set.add(Number.MAX_SAFE_INTEGER - 1)).toBe(true);
  expect(set.add(Number.MAX_SAFE_INTEGER - 1)).toBe(false);
  expect(Number.isSafeInteger(set.missing)).toBe(true);
});

test('ranges are added as their numbers would be, one by one', () => {
  const range = fc.tuple(fc.nat(40), fc.nat(6));
  fc.assert(
    fc.property(fc.array(range, { maxLength: 20 }), (ranges) => {
      const [set, single, all] = [new SequenceSet(), new SequenceSet(), new Set<number>()];
      for (const [from, more] of ranges) {
        const before = all.size;
        for (let number = from; number <= from + more; number++) {
          single.add(number);
          all.add(number);
        }
        expect(set.addRange(from, from + more)).toBe(all.size > before);
        expect([set.count, set.missing, [...set.gaps()]]).toEqual([single.count, single.missing, [...single.gaps()]]);
        expect(numbersBelow(50).filter((number) => set.has(number))).toEqual([...all].sort((a, b) => a - b));
      }
    }),
    { seed: 3, numRuns: 300 },
  );
});

import fc from 'fast-check';
import { expect, it } from 'vitest';
import { RunHeap } from './run-heap.ts';

it('gives the least key of several runs at a time, the least serial first where keys are equal', () => {
  const runs = fc.array(fc.array(fc.nat(20), { minLength: 1, maxLength: 8 }), { maxLength: 90 });
  fc.assert(
    fc.property(runs, (given) => {
      const heap = new RunHeap<{ key: number; serial: number; rest: number[] }>((a, b) => a.serial < b.serial);
      for (const [serial, keys] of given.entries()) {
        const [key, ...rest] = keys.toSorted((a, b) => a - b) as [number, ...number[]];
        heap.push({ key, serial, rest });
      }
      const seen: number[][] = [];
      for (let run = heap.first; run !== undefined; run = heap.first) {
        expect(heap.nextKey).toBeGreaterThanOrEqual(run.key);
        seen.push([run.key, run.serial]);
        const next = run.rest.shift();
        if (next === undefined) heap.shift();
        else {
          run.key = next;
          heap.settle();
        }
      }
      const expected = given.flatMap((keys, serial) => keys.map((key) => [key, serial]));
      expect(seen).toEqual(expected.sort(([keyA = 0, a = 0], [keyB = 0, b = 0]) => keyA - keyB || a - b));
    }),
  );
});

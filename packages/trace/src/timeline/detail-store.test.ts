import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MemoryBlocks } from '../model/block-store.ts';
import { type Detail, DetailStore } from './detail-store.ts';

function report(store: DetailStore, details: readonly Detail[]): number {
  store.begin();
  for (const [key, value] of details) {
    if (typeof value === 'number') store.number(key, value);
    else store.text(key, value);
  }
  return store.end();
}

const key = fc.constantFrom('op', 'bytes', 'Call stack', 'schlüssel', '__proto__', '');
const value = fc.oneof(
  fc.integer(),
  fc.double(),
  fc.string({ unit: 'grapheme' }),
  fc.constantFrom('x'.repeat(40), 'frame;'.repeat(100), '🚀'.repeat(50)),
);

describe('DetailStore', () => {
  it('gives back what it was reported, from the chunk in memory and from the store (seed 51)', () => {
    fc.assert(
      fc.property(fc.array(fc.array(fc.tuple(key, value), { maxLength: 8 }), { maxLength: 30, size: 'max' }), (events) => {
        const store = new DetailStore(new MemoryBlocks());
        const numbers = events.map((details, index) => {
          const number = report(store, details);
          if (index % 7 === 0) store.flush();
          return number;
        });
        expect(numbers.map((number) => store.details(number))).toEqual(events);
      }),
      { seed: 51, numRuns: 100 },
    );
  });

  it('has no number and no bytes for nothing', () => {
    const blocks = new MemoryBlocks();
    const store = new DetailStore(blocks);
    expect(report(store, [])).toBe(0);
    store.flush();
    expect([blocks.size, store.details(0)]).toEqual([0, []]);
  });

  it('writes a long text that many events share once', () => {
    const blocks = new MemoryBlocks();
    const store = new DetailStore(blocks);
    const stack = 'train.py(1): step;'.repeat(200);
    for (let event = 0; event < 1000; event++) report(store, [['Call stack', stack]]);
    store.flush();
    expect(blocks.size).toBeLessThan(stack.length + 1000 * 20);
  });

  it('leaves out what goes beyond one event’s share, and keeps any number of keys', () => {
    const store = new DetailStore(new MemoryBlocks());
    expect(
      store.details(
        report(store, [
          ['a', 1],
          ['b', 'y'.repeat(200_000)],
          ['c', 2],
        ]),
      ),
    ).toEqual([
      ['a', 1],
      ['c', 2],
    ]);
    const many = Array.from({ length: 9000 }, (_, index): Detail => [`key ${index}`, index]);
    expect(store.details(report(store, many.slice(0, 5000)))).toEqual(many.slice(0, 5000));
    expect(store.details(report(store, many.slice(4000, 4100)))).toEqual(many.slice(4000, 4100));
    expect(report(store, many)).toBeGreaterThan(0);
  });
});

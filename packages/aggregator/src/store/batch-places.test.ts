import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { runCount } from '../../../../test/setup/seeds.ts';
import { BatchPlaces } from './batch-places.ts';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

interface Row {
  sequence: number;
  file: number;
  offset: number;
  length: number;
}

/** The same by definition: a list that is sorted each time. */
class Listed {
  rows: Row[] = [];

  replace(file: number, summaries: readonly { from: number; file: number; offset: number; length: number }[]): void {
    this.rows = this.rows.map((row) => {
      if (row.file !== file || row.length === 0) return row;
      return { ...row, file: -1, offset: 0, length: 0, ...summaries.find(({ from }) => from === row.sequence) };
    });
  }

  expectSame(places: BatchPlaces): void {
    expect(places.count).toBe(this.rows.length);
    for (const [row, { sequence, file, offset, length }] of this.rows.entries()) {
      expect([places.sequence(row), places.length(row)]).toEqual([sequence, length]);
      if (length > 0) expect(places.place(row)).toEqual({ file, offset });
    }
    const order = [...this.rows.keys()].sort((a, b) => (this.rows[a] as Row).sequence - (this.rows[b] as Row).sequence);
    expect(order.map((_, index) => places.row(index))).toEqual(order);
  }
}

/** Batches come mostly in order, some late, with gaps; three pages of them, in `files` files one after the other. */
const arrivals = fc.record({
  late: fc.array(fc.record({ from: fc.nat(3000), to: fc.nat(3000) }), { maxLength: 12 }),
  gaps: fc.array(fc.nat(3000), { maxLength: 5 }),
  files: fc.integer({ min: 1, max: 9 }),
  pruned: fc.array(fc.record({ file: fc.nat(9), at: fc.nat(3000), every: fc.integer({ min: 1, max: 1500 }) }), { maxLength: 6 }),
  isReversed: fc.boolean(),
});

test('places are those of a list, in order of arrival and of sequence, also after pruning, and snapshots keep theirs', () => {
  fc.assert(
    fc.property(arrivals, ({ late, gaps, files, pruned, isReversed }) => {
      const sequences = Array.from({ length: 2600 }, (_, at) => at).filter((at) => !gaps.includes(at));
      for (const { from, to } of late) sequences.splice(to % sequences.length, 0, ...sequences.splice(from % sequences.length, 1));
      if (isReversed) sequences.reverse();
      const [places, listed] = [new BatchPlaces(), new Listed()];
      const kept: { places: BatchPlaces; rows: readonly Row[] }[] = [];
      for (const [at, sequence] of sequences.entries()) {
        const row = { sequence, file: Math.floor((at * files) / sequences.length), offset: 100 * at, length: 1 + (at % 90) };
        places.add(row.sequence, row.file, row.offset, row.length);
        listed.rows.push(row);
        for (const { file, every } of pruned.filter((one) => one.at === at)) {
          kept.push({ places: places.snapshot(), rows: listed.rows.map((one) => ({ ...one })) });
          const summaries = listed.rows
            .filter((one, index) => one.file === file && one.length > 0 && index % every === 0)
            .map((one, index) => ({ from: one.sequence, file: 100 + at, offset: 7 * index, length: 5 }));
          places.replace(file, summaries);
          listed.replace(file, summaries);
        }
      }
      listed.expectSame(places);
      for (const { places: earlier, rows } of kept) {
        const before = new Listed();
        before.rows = [...rows];
        before.expectSame(earlier);
      }
    }),
    { numRuns: runCount(40) },
  );
});

test('batches that were pruned take next to no memory, however many there were', async () => {
  const places = new BatchPlaces();
  const rows = 2 ** 20;
  collect();
  const before = process.memoryUsage().arrayBuffers;
  for (let row = 0; row < rows; row++) {
    places.add(row, Math.floor(row / 65_536), row, 1);
    if (row % 65_536 === 65_535) places.replace(Math.floor(row / 65_536), [{ from: row - 65_535, file: 1000, offset: row, length: 9 }]);
  }
  collect();
  expect([places.count, places.length(0), places.length(1), places.sequence(rows - 1)]).toEqual([rows, 9, 0, rows - 1]);
  // 24 bytes a row while it has bytes. V8 frees buffers some time after the collection.
  const held = (): number => {
    collect();
    return process.memoryUsage().arrayBuffers - before;
  };
  await expect.poll(held).toBeLessThan(rows / 4);
});

import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { rankTime } from '@ranktrace/protocol';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type BatchOrder, BatchTimes } from './batch-times.ts';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

type Header = Parameters<BatchTimes['add']>[0];

/** The same by sorting a list of all batches. */
class ListedTimes {
  readonly rows: { readonly index: number; readonly since: number; readonly watermark: number; readonly isReadable: boolean }[] = [];
  #promised = Number.NEGATIVE_INFINITY;

  add(header: Header): void {
    const { since = this.#promised, watermark = this.#promised } = header ?? {};
    this.rows.push({ index: this.rows.length, since, watermark, isReadable: header !== undefined });
    if (header !== undefined) this.#promised = Math.max(this.#promised, watermark);
  }

  order(): { readonly index: number; readonly since: number; readonly watermark: number }[] {
    const readable = this.rows.filter(({ isReadable }) => isReadable);
    readable.sort((a, b) => (a.since < b.since ? -1 : a.since > b.since ? 1 : a.index - b.index));
    return readable.map(({ index, since, watermark }) => ({ index, since, watermark }));
  }
}

const placesOf = (order: BatchOrder) =>
  Array.from({ length: order.length }, (_, place) => {
    const index = order.at(place) as number;
    return { index, since: order.since(index), watermark: order.watermark(index) };
  });

/** Stretches of batches: mostly in time, some unreadable, some that reach back or state a time ahead, some with fractions. */
const stretch = fc.record({
  length: fc.integer({ min: 1, max: 1500 }),
  gap: fc.constantFrom(0, 200e6, 1e9, 5e9, 0.25),
  every: fc.integer({ min: 1, max: 700 }),
  odd: fc.constantFrom('none', 'unreadable', 'back', 'far back', 'ahead', 'watermark back'),
});

function headersOf(stretches: readonly (typeof stretch extends fc.Arbitrary<infer One> ? One : never)[]): Header[] {
  const headers: Header[] = [];
  let time = 1e15;
  for (const { length, gap, every, odd } of stretches) {
    for (let at = 0; at < length; at++) {
      time += gap;
      const watermark = rankTime(time);
      const kind = at % every === 0 ? odd : 'none';
      if (kind === 'unreadable') headers.push(undefined);
      else if (kind === 'back') headers.push({ watermark, since: rankTime(time - 3 * gap - 1) });
      else if (kind === 'far back') headers.push({ watermark, since: rankTime(time / 2) });
      else if (kind === 'ahead') headers.push({ watermark, since: rankTime(time + 2 * gap) });
      else if (kind === 'watermark back') headers.push({ watermark: rankTime(time - 7 * gap) });
      else headers.push({ watermark });
    }
  }
  return headers;
}

test('the order is that of a sorted list, at any time, and stays as it was (seed 5)', () => {
  const property = fc.property(fc.array(stretch, { minLength: 1, maxLength: 5 }), fc.nat(6000), (stretches, half) => {
    const headers = headersOf(stretches);
    const [times, listed] = [new BatchTimes(), new ListedTimes()];
    let early: { order: BatchOrder; expected: ReturnType<ListedTimes['order']> } | undefined;
    for (const [at, header] of headers.entries()) {
      if (at === half) early = { order: times.order(), expected: listed.order() };
      times.add(header);
      listed.add(header);
    }
    const [order, expected] = [times.order(), listed.order()];
    expect(placesOf(order)).toEqual(expected);
    expect(order.at(expected.length)).toBeUndefined();
    if (early !== undefined) expect(placesOf(early.order)).toEqual(early.expected);
    for (const place of [0, expected.length >> 2, expected.length >> 1]) {
      const from = expected[place]?.watermark ?? 0;
      const until = expected[Math.min(expected.length - 1, place + 30)]?.since ?? 0;
      const within = expected.filter(({ since, watermark }) => watermark >= from && since <= until).map(({ index }) => index);
      expect(order.within(from, until)).toEqual(within);
      expect(placesOf(order.only(within)).map(({ index }) => index)).toEqual(within);
    }
  });
  fc.assert(property, { seed: 5, numRuns: 40 });
});

test('times of a long run take 5 bytes a batch', async () => {
  const held = (): number => {
    collect();
    return process.memoryUsage().arrayBuffers;
  };
  const before = held();
  const times = new BatchTimes();
  const batches = 2 ** 20;
  for (let at = 0; at < batches; at++) times.add({ watermark: rankTime(at * 200e6) });
  // V8 frees buffers some time after the collection.
  await expect.poll(() => held() - before).toBeLessThan(5 * batches);
  expect(times.order().since(batches - 1)).toBe((batches - 2) * 200e6);
});

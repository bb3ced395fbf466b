// The digits of each rank, and how their file is read.

import { expect, test } from 'vitest';
import { inkBytes } from './digits.ts';
import { batchesOf, shuffled } from './shards.ts';

const numbers = Uint32Array.from({ length: 8000 }, (_, i) => i);

test('shuffling keeps every number once, depends on the seed alone and leaves its input as it was', () => {
  const order = shuffled(numbers, 5);
  expect(order).not.toEqual(numbers);
  expect(order.toSorted()).toEqual(numbers);
  expect(shuffled(numbers, 5)).toEqual(order);
  expect(shuffled(numbers, 6)).not.toEqual(order);
  expect(numbers[1]).toBe(1);
});

test('every rank gets the same number of whole batches, and no digit twice in an epoch', () => {
  const shards = [0, 1, 2, 3].map((rank) => batchesOf(numbers, { rank, worldSize: 4, batchSize: 32 }));
  expect(shards.map((batches) => batches.length)).toEqual([62, 62, 62, 62]);
  const all = shards.flat().flatMap((batch) => [...batch]);
  expect(all.length).toBe(62 * 4 * 32);
  expect(new Set(all).size).toBe(all.length);
});

test('four ranks together take the batches that one rank would take with batches four times as large', () => {
  const alone = batchesOf(numbers, { rank: 0, worldSize: 1, batchSize: 128 });
  const shards = [0, 1, 2, 3].map((rank) => batchesOf(numbers, { rank, worldSize: 4, batchSize: 32 }));
  expect(shards.flatMap((batches) => [...batches[7]!])).toEqual([...alone[7]!]);
});

test('more ranks than digits can feed is an error, not an epoch without steps', () => {
  expect(() => batchesOf(numbers, { rank: 0, worldSize: 300, batchSize: 32 })).toThrow(
    'Cannot train on 300 ranks: one step takes 9600 digits, and there are 8000',
  );
});

const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text);

test('every pixel that the package may hold is the byte that JSON.parse gives', () => {
  const pixels = Array.from({ length: 1001 }, (_, thousandths) => thousandths / 1000);
  const json = JSON.stringify({ data: pixels });
  expect([...inkBytes(bytesOf(json))]).toEqual((JSON.parse(json) as { data: number[] }).data.map((ink) => Math.round(ink * 255)));
});

test.each(['{"data":[0,1e-3]}', '{"data":[0,-1]}', '{"data":[0, 1]}', '{"data":[0,1', '{}'])('%s is no file of digits', (json) => {
  expect(() => inkBytes(bytesOf(json))).toThrow('the file of the package mnist must be');
});

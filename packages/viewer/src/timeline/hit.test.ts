import { expect, test } from 'vitest';
import { type FixtureItem, spanTile } from '../testing/span-tile.ts';
import { itemAt, itemBeside, itemOver, valueAt } from './hit.ts';
import type { Entry, Part } from './tile-cache.ts';

const entry = (tile: Entry['tile']): Entry => ({
  tile,
  lines: undefined,
  bytes: 0,
  usedAt: 0,
  wantedAt: 0,
  batch: undefined,
  askedVersion: 1,
  askedStamp: 0,
});
const parts = (items: readonly FixtureItem[]): Part[] => [{ entry: entry(spanTile(items)), from: 0, until: 1024 }];

const lane = parts([
  { start: 0, length: 100, event: 1 },
  { start: 110, length: 50, event: 2 },
  { start: 500, length: 1, event: 3 },
  { start: 130, length: 0, kind: 'instant', event: 4 },
  { start: 10, length: 20, depth: 1, event: 5 },
  { start: 40, length: 50, depth: 1, event: 6 },
]);

test('the span under the pointer is found, else the nearest within reach', () => {
  expect(itemAt(lane, 0, 50, 3)?.event).toBe(1);
  expect(itemAt(lane, 0, 102, 3)?.event).toBe(1);
  expect(itemAt(lane, 0, 105, 3)).toBeUndefined();
  expect(itemAt(lane, 0, 498, 3)?.event).toBe(3);
  expect(itemAt(lane, 1, 35, 3)).toBeUndefined();
  expect(itemAt(lane, 7, 50, 3)).toBeUndefined();
});

test('an instant wins over the span below it', () => {
  expect(itemAt(lane, 0, 131, 3)?.event).toBe(4);
  expect(itemAt(lane, 0, 140, 3)?.event).toBe(2);
});

test('the next and the previous of a depth', () => {
  expect(itemBeside(lane, 0, 0, 1, 'next')?.event).toBe(2);
  expect(itemBeside(lane, 0, 110, 2, 'next')?.event).toBe(4);
  expect(itemBeside(lane, 0, 500, 3, 'next')).toBeUndefined();
  expect(itemBeside(lane, 0, 500, 3, 'previous')?.event).toBe(4);
  expect(itemBeside(lane, 1, 40, 6, 'previous')?.event).toBe(5);
});

test('of those that begin at one time, each is next to another', () => {
  const instants = parts([3, 1, 2].map((event) => ({ start: 50, length: 0, kind: 'instant' as const, event })));
  expect(itemBeside(instants, 0, 50, 1, 'next')?.event).toBe(2);
  expect(itemBeside(instants, 0, 50, 2, 'next')?.event).toBe(3);
  expect(itemBeside(instants, 0, 50, 3, 'next')).toBeUndefined();
  expect(itemBeside(instants, 0, 50, 3, 'previous')?.event).toBe(2);
  expect(itemBeside(instants, 0, 50, 1, 'previous')).toBeUndefined();
});

test('the one that covers most of a span', () => {
  expect(itemOver(lane, 1, 0, 100)?.event).toBe(6);
  expect(itemOver(lane, 0, 10, 30)?.event).toBe(1);
  expect(itemOver(lane, 0, 300, 320)?.event).toBe(2);
});

test("a counter's value is the last one set", () => {
  const tile = {
    type: 'counter' as const,
    track: 0,
    level: 0,
    index: 0,
    version: 1,
    complete: true,
    time: Float64Array.of(-5, 10, 20),
    last: Float64Array.of(1, 2, 3),
    low: Float64Array.of(1, 0, 3),
    high: Float64Array.of(1, 4, 3),
    count: Uint32Array.of(1, 6, 1),
  };
  const counter = [{ entry: entry(tile), from: 0, until: 1024 }];
  expect(valueAt(counter, 5)).toEqual({ last: 1, low: 1, high: 1, count: 1 });
  expect(valueAt(counter, 15)).toEqual({ last: 2, low: 0, high: 4, count: 6 });
  expect(valueAt(counter, -6)).toBeUndefined();
});

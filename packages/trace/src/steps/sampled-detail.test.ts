import { expect, test } from 'vitest';
import { tableHeader } from '../torch/table-header.ts';
import { readSampled } from './sampled-detail.ts';

const rank = (every: unknown, steps: unknown, recorded: unknown) =>
  new Map<string, unknown>([
    ['backend', 'wasm'],
    ['ranktrace.sampled.ops', JSON.stringify({ every, steps, recorded })],
  ]);

test('a table of all that was recorded has no header', () => {
  expect(tableHeader()).toBeUndefined();
  expect(tableHeader(new Map(), new Map([['backend', 'wasm']]))).toBeUndefined();
});

test('a table says of how many steps its ops are, over its ranks', () => {
  expect(tableHeader(rank(8, 960, 135))).toBe('ops of 135 of 960 steps: recording all would pass overheadBudget');
  expect(tableHeader(rank(8, 960, 135), new Map(), rank(4, 40, 15))).toBe(
    'ops of 150 of 1000 steps: recording all would pass overheadBudget',
  );
});

test('what a Kineto file has as an object is read as well, and what is none is left out', () => {
  expect(readSampled(new Map([['ranktrace.sampled.ops', { every: 2, steps: 4, recorded: 2 }]]))).toEqual([
    { what: 'ops', every: 2, steps: 4, recorded: 2 },
  ]);
  for (const [every, steps, recorded] of [
    [0, 1, 1],
    [2, 1, 2],
    ['2', 2, 1],
    [2, -2, -3],
    [2, 1e300, 1],
  ]) {
    expect(readSampled(rank(every, steps, recorded))).toEqual([]);
  }
});

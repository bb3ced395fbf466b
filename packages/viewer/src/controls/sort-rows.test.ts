import { describe, expect, it } from 'vitest';
import { nextOrder, rankFilter, sortRows, wordFilter } from './sort-rows.ts';

describe('sortRows', () => {
  it('keeps what has no value last in either direction, and equals in their order', () => {
    const rows = [
      { at: 1, value: 2 },
      { at: 2, value: undefined },
      { at: 3, value: 1 },
      { at: 4, value: Number.NaN },
      { at: 5, value: 2 },
    ];
    const sorted = (direction: 'up' | 'down') => sortRows(rows, ({ value }) => value, direction).map(({ at }) => at);
    expect(sorted('up')).toEqual([3, 1, 5, 2, 4]);
    expect(sorted('down')).toEqual([1, 5, 3, 2, 4]);
  });

  it('sorts texts as people count', () => {
    expect(sortRows(['node10', 'Node2', 'node1'], (text) => text, 'up')).toEqual(['node1', 'Node2', 'node10']);
  });
});

it('turns a column round when it is asked for again', () => {
  expect(nextOrder({ by: 'a', direction: 'down' }, 'a', 'down')).toEqual({ by: 'a', direction: 'up' });
  expect(nextOrder({ by: 'a', direction: 'down' }, 'b', 'up')).toEqual({ by: 'b', direction: 'up' });
});

it('filters by all words', () => {
  expect(['aten::mm', 'aten::add mm', 'add'].filter(wordFilter(' MM aten'))).toEqual(['aten::mm', 'aten::add mm']);
  expect(wordFilter('')('anything')).toBe(true);
});

it('reads ranks and ranges of them, and nothing else', () => {
  const ranks = [0, 1, 2, 3, 7, 8, 12];
  expect(ranks.filter(rankFilter('3') ?? (() => false))).toEqual([3]);
  expect(ranks.filter(rankFilter('8-2, 12') ?? (() => false))).toEqual([2, 3, 7, 8, 12]);
  expect(ranks.filter(rankFilter('0 – 1 7') ?? (() => false))).toEqual([0, 1, 7]);
  expect(ranks.filter(rankFilter(' 0,1 ,  7   8  , ') ?? (() => false))).toEqual([0, 1, 7, 8]);
  expect([rankFilter('node3'), rankFilter(''), rankFilter('1-')]).toEqual([undefined, undefined, undefined]);
});

it('takes no time for a long row of numbers that ends in something else', () => {
  expect(rankFilter(`${'1    '.repeat(10_000)}x`)).toBeUndefined();
});

import { expect, test } from 'vitest';
import { RankMetadata } from './rank-metadata.ts';

test.each([
  ['"wasm"', 'wasm', 'wasm'],
  ['""', '', ''],
  ['[784, 10]', '[784, 10]', [784, 10]],
  ['12345678901234567890', '12345678901234567890', 12_345_678_901_234_567_000],
  ['null', 'null', null],
])('%s is one text, stated before the start or after it', (json, text, value) => {
  const metadata = new RankMetadata();
  expect(metadata.setJson('key', json)).toBe(text);
  expect(metadata.texts).toEqual([['key', text]]);
  expect(metadata.values).toEqual({ key: value });
});

test('what is no fact is not kept', () => {
  const metadata = new RankMetadata();
  expect(metadata.setJson('key', '{')).toBeUndefined();
  expect(metadata.setJson('key', 7 as never)).toBeUndefined();
  metadata.set('key', {} as never);
  metadata.set(7 as never, 'text');
  expect(metadata.texts).toEqual([]);
});

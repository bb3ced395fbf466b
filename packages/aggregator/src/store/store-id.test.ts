import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { fullDisk } from '../testing/full-disk.ts';
import { temporaryDirectory } from '../testing/temporary-directory.ts';
import { storeId } from './store-id.ts';

test('stays with its directory, and a run cannot have its name', () => {
  using directory = temporaryDirectory();
  const id = storeId(directory.path);
  expect(id).toMatch(/^[0-9a-f]{12}$/);
  expect(storeId(directory.path)).toBe(id);
  expect(readdirSync(directory.path)).toEqual(['store.id']);
  expect(readFileSync(join(directory.path, 'store.id'), 'utf8')).toBe(`${id}\n`);
});

test('a disk that was full at the first start leaves nothing that is in the way later', () => {
  using directory = temporaryDirectory();
  {
    using _full = fullDisk();
    expect(() => storeId(directory.path)).toThrow(expect.objectContaining({ code: 'store_write_failed' }));
  }
  expect(readdirSync(directory.path)).toEqual([]);
  expect(storeId(directory.path)).toMatch(/^[0-9a-f]{12}$/);
});

test('says what is wrong with one that it did not write', () => {
  using directory = temporaryDirectory();
  writeFileSync(join(directory.path, 'store.id'), 'my store\n');
  expect(() => storeId(directory.path)).toThrow('it must be 12 hexadecimal digits, got "my store"');
});

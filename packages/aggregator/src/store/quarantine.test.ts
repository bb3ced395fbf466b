import { readFileSync, statSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { isSegment } from '@ranktrace/protocol';
import { expect, test } from 'vitest';
import { temporaryDirectory } from '../testing/temporary-directory.ts';
import { Quarantine } from './quarantine.ts';
import { scanSegment } from './segment-scan.ts';

test('keeps what fits, counts what does not, and knows after reopening what it has', () => {
  using directory = temporaryDirectory();
  const path = join(directory.path, 'quarantine.seg');
  const first = new Quarantine(path, 1000);
  for (let index = 0; index < 20; index++) first.add(new Uint8Array(100).fill(index));
  first.close();
  expect([first.count, first.kept]).toEqual([20, 9]);
  expect(statSync(path).size).toBe(8 + 9 * 108);
  const again = new Quarantine(path, 1100);
  again.add(new Uint8Array(100).fill(99));
  again.add(new Uint8Array(100).fill(100));
  again.close();
  expect([again.count, again.kept]).toEqual([11, 10]);
  expect(isSegment(readFileSync(path))).toBe(true);
  const fills: (number | undefined)[] = [];
  scanSegment(path, (payload) => fills.push(payload[0]));
  expect(fills).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 99]);
});

test('a place that cannot be written costs the bytes, not the count', () => {
  const quarantine = new Quarantine('/proc/nowhere/quarantine.seg');
  quarantine.add(new Uint8Array(5));
  expect([quarantine.count, quarantine.kept]).toEqual([1, 0]);
});

test('writes nothing behind a torn frame, where nobody would find it, and goes on counting', () => {
  using directory = temporaryDirectory();
  const path = join(directory.path, 'quarantine.seg');
  const first = new Quarantine(path);
  for (let index = 0; index < 2; index++) first.add(new Uint8Array(100));
  first.close();
  truncateSync(path, statSync(path).size - 7);
  const again = new Quarantine(path);
  again.add(new Uint8Array(100));
  again.close();
  expect([again.count, again.kept]).toEqual([2, 1]);
  expect(scanSegment(path, () => undefined).frames).toBe(1);
});

// Relations between the limits: a change of one value must not break the promise of another.

import { expect, test } from 'vitest';
import { elementsPerRow, tableColumns, tableNames } from './event-tables.ts';
import { limits } from './limits.ts';

test('a batch fits one NATS message of the default max_payload, with 16 KiB for headers', () => {
  expect(limits.batchBytesMax + 16 * 1024).toBeLessThanOrEqual(1024 * 1024);
});

test('a body that does not compress still passes as a batch of a smaller size, and one that compresses well is worth its bound', () => {
  expect(limits.bodyBytesMax).toBeGreaterThan(limits.batchBytesMax);
});

test('the largest table of every kind fits a body', () => {
  for (const name of tableNames) {
    const bytesPerRow = Object.values(tableColumns[name]).reduce((sum, type) => sum + 8 * Math.max(1, elementsPerRow(type) / 8), 0);
    expect(bytesPerRow * limits.rowsPerTableMax, name).toBeLessThan(limits.bodyBytesMax);
  }
});

test('a batch may have all its strings, tables, columns and header fields, with room for those of later versions', () => {
  const columns = tableNames.reduce((sum, name) => sum + Object.keys(tableColumns[name]).length, 0);
  // A key and a value each; every table has rows and unit, too. 64: header, drop counters and the maps themselves.
  const own = 2 * columns + 2 * 3 * tableNames.length + 64;
  expect(limits.stringsPerBatchMax + 4 * own).toBeLessThanOrEqual(limits.valuesPerBatchMax);
});

test('a string fits a batch, a host name fits a string, a rank fits 16 bits', () => {
  expect(limits.stringBytesMax).toBeLessThan(limits.batchBytesMax / 2);
  expect(limits.hostCharsMax).toBeLessThanOrEqual(limits.stringBytesMax);
  expect(limits.rankMax).toBe(2 ** 16 - 1);
});

test('row numbers and string indexes fit their columns', () => {
  expect(limits.rowsPerTableMax).toBeLessThan(2 ** 32);
  expect(limits.stringsPerBatchMax).toBeLessThan(2 ** 32);
});

test('a batch fits the message of its stream, which outlasts its own deduplication', () => {
  expect(limits.streamMessageBytesMax).toBeGreaterThan(limits.batchBytesMax);
  expect(limits.streamAgeMsMax).toBeGreaterThan(limits.streamDuplicateWindowMs);
});

test('a message with a batch id and a reason is far below its bound', () => {
  expect(256 + 1024).toBeLessThan(limits.messageBytesMax / 4);
});

import { setImmediate } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { guardedBy } from './guarded.ts';

test('what a call throws, or rejects with, is reported and goes no further', async () => {
  const reported: string[] = [];
  const guarded = guardedBy((notice) => reported.push(notice));
  const fail = (text: string): never => {
    throw new Error(text);
  };
  guarded('one', fail)('EMFILE');
  guarded('two', async (text: string) => fail(text))('ENOSPC');
  expect(guarded('three', () => 3)()).toBeUndefined();
  await setImmediate();
  expect(reported).toEqual(['Error in one, and the service goes on: EMFILE', 'Error in two, and the service goes on: ENOSPC']);
});

import { expect, test } from 'vitest';
import { aggregatorLimits as limits } from './limits.ts';
import { withoutRepeats } from './notices.ts';

test('the same is reported once, others at once', () => {
  const told: string[] = [];
  const tell = withoutRepeats((notice) => told.push(notice));
  for (let time = 0; time < 1000; time++) tell('Batches wait: the disk is full');
  tell('NATS is gone');
  expect(told).toEqual(['Batches wait: the disk is full', 'NATS is gone']);
});

test('of what differs in names and numbers alone a few are reported, so that a process without descriptors does not fill its log', () => {
  const told: string[] = [];
  const tell = withoutRepeats((notice) => told.push(notice));
  for (let run = 0; run < 3000; run++)
    tell(`Cannot write "/out/run-${run}/lock": EMFILE: too many open files, open '/out/run-${run}/lock.4711'`);
  expect(told).toHaveLength(limits.noticesOfKindMax);
  tell('another kind');
  expect(told.at(-1)).toBe('another kind');
});

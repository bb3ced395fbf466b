import { expect, test } from 'vitest';
import { aggregatorLimits as limits } from './limits.ts';
import { withoutRepeats } from './notices.ts';

test('the same is reported once, others at once', () => {
  const reported: string[] = [];
  const report = withoutRepeats((notice) => reported.push(notice));
  for (let time = 0; time < 1000; time++) report('Batches wait: the disk is full');
  report('NATS is gone');
  expect(reported).toEqual(['Batches wait: the disk is full', 'NATS is gone']);
});

test('of what differs in names and numbers alone a few are reported, so that a process without descriptors does not fill its log', () => {
  const reported: string[] = [];
  const report = withoutRepeats((notice) => reported.push(notice));
  for (let run = 0; run < 3000; run++)
    report(`Cannot write "/out/run-${run}/lock": EMFILE: too many open files, open '/out/run-${run}/lock.4711'`);
  expect(reported).toHaveLength(limits.noticesOfKindMax);
  report('another kind');
  expect(reported.at(-1)).toBe('another kind');
});

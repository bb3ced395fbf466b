import { limits } from '@ranktrace/protocol';
import { expect, test } from 'vitest';
import { hostKind, RankWork, type RankWorkOptions } from './device-work.ts';
import { kindOf } from './kernel-class.ts';
import { WorkNames } from './work-names.ts';

/** Ten steps of 10 ns; those from 2 to 7 have a span of the host, a call and its kernel, which runs 25 ns later. */
function stepsOf(whole: RankWorkOptions['whole'], firstStep = 0): number[] {
  const work = new RankWork(new WorkNames(), { coverage: 'some', whole });
  work.streams.push({ device: 0, stream: 7 });
  for (let at = 0; at < 10; at++) {
    const start = 10 * at;
    work.steps.push({ number: firstStep + at, start, end: start + 10 });
    if (at < 2 || at > 7) continue;
    for (const kind of [hostKind.op, hostKind.call]) {
      const row = work.host.add();
      const { columns } = work.host;
      [columns.start[row], columns.end[row], columns.kind[row], columns.correlation[row]] = [start + 2 + kind, start + 8 - kind, kind, at];
    }
    const row = work.work.add();
    const { columns } = work.work;
    [columns.start[row], columns.end[row], columns.kind[row], columns.correlation[row]] = [start + 27, start + 29, kindOf.kernel, at];
  }
  work.seal();
  return work.steps.map(({ number }) => number);
}

test('steps of which the rank says that it sent all work are its steps, others are not', () => {
  expect(stepsOf([[3, 5]])).toEqual([3, 4, 5]);
  expect(
    stepsOf([
      [0, 2],
      [7, 9],
    ]),
  ).toEqual([0, 1, 2, 7, 8, 9]);
  expect(stepsOf([])).toEqual([]);
  // A client of others may say what makes no sense.
  expect(stepsOf([[7, 3]])).toEqual([]);
});

test('of a stretch that goes on, those before the last launch that came', () => {
  expect(stepsOf([[3, null]])).toEqual([3, 4, 5, 6]);
});

test('where a rank says nothing, steps with any detail are; and those before the stretches that it still tells of', () => {
  expect(stepsOf(undefined)).toEqual([2, 3, 4, 5, 6, 7]);
  const told = Array.from({ length: limits.deviceStretchesMax }, (_, at): [number, number] => [1006 + 2 * at, 1006 + 2 * at]);
  expect(stepsOf(told, 1000)).toEqual([1002, 1003, 1004, 1005, 1006, 1008]);
});

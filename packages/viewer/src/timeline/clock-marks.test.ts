import { expect, it } from 'vitest';
import { viewProcess } from '../testing/view-model.ts';
import { boundAt, clockMarks, marksAt, noClockMarks } from './clock-marks.ts';

const ms = 1e6;
const shifted = (...stretches: (readonly [number, number, number])[]) => ({
  alignment: { ...viewProcess(0).alignment, shifted: stretches.map(([from, until, most]) => ({ from, until, most })) },
});
const plain = (lines: readonly string[]): string[] => lines.map((line) => line.replaceAll('\u2009', ' '));

it('marks nothing where clocks agree', () => {
  expect(clockMarks({ processes: [viewProcess(0)], clockConflicts: [] })).toBe(noClockMarks);
  expect(marksAt(noClockMarks, 5, 10)).toEqual([]);
});

it('puts stretches of ranks together where they overlap', () => {
  const processes = [viewProcess(4, shifted([10, 20, 3], [50, 60, 1])), viewProcess(5, shifted([15, 30, 7]))];
  const marks = clockMarks({ processes, clockConflicts: [] });
  expect(marks.shifted.map(({ ranks, ...stretch }) => ({ ...stretch, ranks: [...ranks] }))).toEqual([
    { from: 10, until: 30, most: 7, ranks: [4, 5] },
    { from: 50, until: 60, most: 1, ranks: [4] },
  ]);
  expect(plain(marksAt(marks, 28, 1))).toEqual(['Shifted behind their causes by up to 7 ns on rank 4, 5']);
  expect(marksAt(marks, 40, 5)).toEqual([]);
});

it('reports the worst contradiction near a time, and that there are more', () => {
  const clockConflicts = [
    { time: 100, hosts: ['a', 'b'], slack: 2 * ms },
    { time: 110, hosts: ['a', 'b', 'c', 'd', 'e', 'f'], slack: 3 * ms },
    { time: 900, hosts: ['a', 'c'], slack: 9 * ms },
  ];
  expect(plain(marksAt(clockMarks({ processes: [], clockConflicts }), 105, 20))).toEqual([
    'Clocks of a, b, c, d and 2 more contradict each other by 3 ms',
    'and 1 more contradiction here',
  ]);
});

it('knows the bound of a clock at a time', () => {
  const alignment = {
    bound: 90,
    bounds: [
      [0, 10],
      [100, 40],
      [200, 90],
    ],
  } as const;
  expect([-5, 0, 99, 100, 250].map((time) => boundAt(alignment, time))).toEqual([10, 10, 10, 40, 90]);
  expect(boundAt({ bound: 7, bounds: [] }, 5)).toBe(7);
  expect(boundAt({ bound: null, bounds: [] }, 5)).toBeNull();
});

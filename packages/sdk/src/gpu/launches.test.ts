import { GpuRows, rowKind } from '@ranktrace/gpu';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { runCount } from '../../../../test/setup/seeds.ts';
import { recordingLimits } from '../model/recording-limits.ts';
import { Launches } from './launches.ts';

/** Work by its correlation, that began `start` ns after the epoch. */
function work(...of: readonly (readonly [correlation: number, start: number])[]): GpuRows {
  const rows = new GpuRows(of.length);
  for (const [correlation, start] of of) {
    const row = rows.length++;
    rows.kind[row] = rowKind.kernel;
    rows.correlation[row] = correlation;
    rows.start[row] = start;
    rows.grid.set([correlation, 2, 3], 3 * row);
  }
  return rows;
}

function placed(launches: Launches, isOver = false): [correlation: number, launched: number, grid: number][] {
  const found: [number, number, number][] = [];
  launches.settle(
    (rows, row, launched) => found.push([rows.correlation[row] as number, launched, rows.grid[3 * row] as number]),
    1,
    isOver,
  );
  return found;
}

const late = 1e6 * recordingLimits.gpuCallWaitMs;

test('work waits for its call, and what came after it does not go before', () => {
  const launches = new Launches();
  const rows = work([1, 5000], [2, 6000], [3, 7000], [3, 8000]);
  for (let row = 0; row < rows.length; row++) expect(launches.launchOf(rows.correlation[row] as number, 5000)).toBeUndefined();
  for (let row = 0; row < rows.length; row++) expect(launches.wait(rows, row)).toBe(true);
  launches.called(2, 200, true);
  expect(placed(launches)).toEqual([[2, 200, 2]]);
  launches.called(1, 100, true);
  expect(placed(launches)).toEqual([[1, 100, 1]]);
  expect(launches.isWaiting).toBe(true);
  // A graph's call launches many kernels.
  launches.called(3, 300, true);
  expect(placed(launches)).toEqual([
    [3, 300, 3],
    [3, 300, 3],
  ]);
  expect(launches.isWaiting).toBe(false);
});

test('work whose call never comes counts by its own begin once later calls have come, or nothing follows', () => {
  const launches = new Launches();
  launches.wait(work([7, 5000]), 0);
  launches.called(8, 5000 + late, true);
  expect(placed(launches)).toEqual([]);
  launches.called(9, 5001 + late, true);
  expect(placed(launches)).toEqual([[7, 5000, 7]]);
  launches.wait(work([10, 5000 + late]), 0);
  expect(placed(launches)).toEqual([]);
  expect(placed(launches, true)).toEqual([[10, 5000 + late, 10]]);
});

test('where no call ever comes, no work waits after a while, until one does', () => {
  const launches = new Launches();
  const rows = work([1, 5000], [2, 6000 + late]);
  expect(launches.launchOf(1, 5000)).toBeUndefined();
  launches.wait(rows, 0);
  expect(placed(launches)).toEqual([]);
  expect(launches.launchOf(2, 6000 + late)).toBeUndefined();
  launches.wait(rows, 1);
  expect(placed(launches)).toEqual([
    [1, 5000, 1],
    [2, 6000 + late, 2],
  ]);
  expect(launches.lacksCalls).toBe(true);
  expect(launches.launchOf(3, 7000 + late)).toBe(7000 + late);
  launches.called(9, 8000 + late, true);
  expect(launches.lacksCalls).toBe(false);
  expect(launches.launchOf(4, 9000 + late)).toBeUndefined();
});

test.each([Number.NaN, Number.POSITIVE_INFINITY, 1e300])('a call at no time (%f) is none, and leaves the others as they are', (odd) => {
  const launches = new Launches();
  launches.called(1, 1e9, true);
  launches.called(2, odd, true);
  expect([launches.busyFrom, launches.launchOf(1, 2e9), launches.launchOf(2, 2e9)]).toEqual([1e9, 1e9, undefined]);
  expect(launches.seenUntil).toBe(1e9 - 1e6 * recordingLimits.gpuCallsLateMs);
});

test('work without a correlation waits for nothing, and none begins before its call', () => {
  const launches = new Launches();
  expect(launches.launchOf(0, 5000)).toBe(5000);
  launches.called(4, 6000, true);
  expect(launches.launchOf(4, 5000)).toBe(5000);
});

test('so much work waits, and no more', () => {
  const launches = new Launches();
  const rows = work([5, 5000]);
  for (let count = 0; count < recordingLimits.gpuCallsMax; count++) expect(launches.wait(rows, 0)).toBe(true);
  expect(launches.wait(rows, 0)).toBe(false);
  launches.called(5, 100, true);
  expect(placed(launches)).toHaveLength(recordingLimits.gpuCallsMax);
  expect(launches.wait(rows, 0)).toBe(true);
});

describe('work is seen', () => {
  const behind = 1e6 * recordingLimits.gpuCallsLateMs;
  /** Far enough apart that calls of other threads have come. */
  const at = (call: number): number => 1e9 + 2 * behind * call;
  const made = (...calls: readonly number[]): Launches => {
    const launches = new Launches();
    for (const call of calls) launches.called(call, at(call), true);
    return launches;
  };

  test('up to the oldest launch of which none has come, whatever came of later ones', () => {
    const launches = made(1, 2, 3);
    expect(launches.seenUntil).toBe(at(1));
    // Another stream is done earlier.
    launches.launchOf(3, at(4));
    expect(launches.seenUntil).toBe(at(1));
    launches.launchOf(1, at(4));
    expect(launches.seenUntil).toBe(at(2));
    launches.launchOf(2, at(4));
    expect(launches.seenUntil).toBe(at(3) - behind);
    // A wait for the device launches nothing.
    launches.called(4, at(4), false);
    expect(launches.seenUntil).toBe(at(4) - behind);
  });

  test('no further than before work whose call has not come', () => {
    const launches = made(1);
    launches.launchOf(1, at(1));
    launches.wait(work([2, at(2)]), 0);
    launches.called(3, at(3), false);
    expect(launches.seenUntil).toBe(at(1) - behind);
    launches.called(2, at(2), true);
    placed(launches);
    expect(launches.seenUntil).toBe(at(3) - behind);
  });

  test('past launches that never do anything, as into a graph that is captured', () => {
    const launches = made(1);
    const then = at(1) + 1e6 * recordingLimits.gpuLaunchWaitMs + 1;
    launches.called(2, then - 1, false);
    expect([launches.seenUntil, launches.busyFrom]).toEqual([at(1), at(1)]);
    launches.called(3, then, false);
    expect([launches.seenUntil, launches.busyFrom]).toEqual([then - behind, Number.POSITIVE_INFINITY]);
  });

  test('not at all before a call has come; and past launches that are no longer remembered', () => {
    expect(new Launches().seenUntil).toBe(Number.NEGATIVE_INFINITY);
    const launches = made(1);
    for (let call = 2; call < recordingLimits.gpuCallsMax + 3; call++) launches.called(call, at(1) + call, true);
    expect(launches.seenUntil).toBe(at(1) + recordingLimits.gpuCallsMax + 2 - behind);
  });
});

const flushNs = 2e8;
/** A launch: when it is called, how long its work waits and runs, how many pieces of work it is, and by how many flushes its call comes late. */
const launch = fc.record({
  at: fc.integer({ min: 0, max: 3e9 }),
  waits: fc.oneof(fc.integer({ min: 0, max: 1e6 }), fc.integer({ min: 0, max: 4e9 })),
  pieces: fc.integer({ min: 1, max: 3 }),
  late: fc.integer({ min: 0, max: 2 }),
});

test('whatever runs on however many streams, all work has its launch, and is seen no earlier than it comes', () => {
  fc.assert(
    fc.property(fc.array(launch, { minLength: 1, maxLength: 40 }), (made) => {
      const calls = made.map((of, index) => ({ ...of, correlation: index + 1, at: 1e9 + of.at })).sort((a, b) => a.at - b.at);
      const launches = new Launches();
      const found: [correlation: number, launched: number][] = [];
      const isOut = new Set(calls.map(({ correlation }) => correlation));
      const place = (rows: GpuRows, row: number, launched: number): void => {
        found.push([rows.correlation[row] as number, launched]);
      };
      for (let flush = 1; flush * flushNs < 1e10; flush++) {
        const [from, until] = [1e9 + (flush - 1) * flushNs, 1e9 + flush * flushNs];
        const isDue = (time: number): boolean => time > from && time <= until;
        for (const { correlation, at, waits, pieces } of calls) {
          if (!isDue(at + waits + 1)) continue;
          isOut.delete(correlation);
          const rows = work(...Array.from({ length: pieces }, () => [correlation, at + waits] as const));
          for (let row = 0; row < pieces; row++) {
            const launched = launches.launchOf(correlation, at + waits);
            if (launched === undefined) launches.wait(rows, row);
            else place(rows, row, launched);
          }
        }
        // A call comes with its flush or up to two later.
        for (const { correlation, at, late: by } of calls) if (isDue(at + 1 + by * flushNs)) launches.called(correlation, at, true);
        launches.settle(place, 1);
        const oldest = Math.min(...calls.filter(({ correlation, at }) => isOut.has(correlation) && at <= until).map(({ at }) => at));
        expect(launches.seenUntil).toBeLessThanOrEqual(oldest);
      }
      launches.settle(place, 1, true);
      const wanted = calls.flatMap(({ correlation, at, pieces }) => Array.from({ length: pieces }, () => [correlation, at]));
      const inOrder = (pairs: number[][]) => pairs.toSorted((a, b) => (a[0] as number) - (b[0] as number));
      expect(inOrder(found)).toEqual(inOrder(wanted));
    }),
    { numRuns: runCount(200) },
  );
});

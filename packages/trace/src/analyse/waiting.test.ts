// How long ranks are waited for agrees with the report's table of collectives: it is summed over the ranks that wait.

import { expect, it } from 'vitest';
import { eventOf, headerOf, type Part, summaryOf } from '../testing/collective-parts.ts';
import { exact, sampled } from '../testing/trace-events.ts';
import { WaitingSink } from './waiting.ts';

const ms = 1e6;

it('is the sum over all ranks that waited, however many there are in a group', () => {
  const header = headerOf(4);
  const part = (rank: number, group: string, entry: number): Part => ({
    ...{ rank, op: 'all_reduce', group, sequence: 0, entry: entry * ms, exit: (group === 'world' ? 12 : 32) * ms },
  });
  const parts = [
    ...[part(0, 'world', 0), part(1, 'world', 4), part(2, 'world', 2), part(3, 'world', 10)],
    ...[part(0, 'pair', 30), part(1, 'pair', 20)],
  ];
  const sink = new WaitingSink();
  sink.begin(header);
  for (const one of parts.toSorted((a, b) => a.entry - b.entry)) sink.event(eventOf(header, one));
  sink.end([]);
  expect(sink.summary.map(({ rank, waitedFor, lastIn, waits }) => [rank, waitedFor / ms, lastIn, waits / ms])).toEqual([
    [3, 10 + 6 + 8, 1, 0],
    [0, 10, 1, 10],
    [1, 0, 0, 16],
    [2, 0, 0, 8],
  ]);
  expect(sink.whole / ms).toBe(34);
  const reported = summaryOf(header, parts).collectives.reduce((sum, { waiting }) => sum + waiting, 0);
  expect(sink.summary.reduce((sum, { waitedFor }) => sum + waitedFor, 0)).toBe(reported);
});

it('is of all waiting a part, where no rank was clearly last in some collectives', () => {
  const header = headerOf(2, [exact, sampled(1000)]);
  const part = (rank: number, sequence: number, entry: number): Part => ({
    ...{ rank, op: 'all_reduce', group: 'world', sequence, entry, exit: 100_000 * (sequence + 1) },
  });
  const sink = new WaitingSink();
  sink.begin(header);
  for (const one of [part(0, 0, 0), part(1, 0, 900), part(0, 1, 100_000), part(1, 1, 130_000)]) sink.event(eventOf(header, one));
  sink.end([]);
  expect([sink.summary.map(({ rank, waitedFor }) => [rank, waitedFor]), sink.whole]).toEqual([
    [
      [1, 30_000],
      [0, 0],
    ],
    30_900,
  ]);
});

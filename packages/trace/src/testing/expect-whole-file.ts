import { expect } from 'vitest';
import type { KinetoTable } from '../torch/kineto-table.ts';
import { mergedOnOwnClocks, sourceOfKineto } from './merged-kineto.ts';

/** Compares a merge of a file with the file: every event once, nothing late, nothing skipped, all distances unchanged. */
export function expectWholeFile(table: KinetoTable): void {
  const { events, totals } = mergedOnOwnClocks([sourceOfKineto(table)]);
  const [total] = totals;
  const points = table.memory.length + table.instants.length;
  expect(events).toHaveLength(table.events.length + points + table.counters.length);
  expect(total?.counts).toEqual(total?.recorded);
  expect(total?.late).toBe(0);
  expect(table.skipped).toMatchObject({ malformed: 0, otherKinds: 0, arguments: 0, metadata: 0 });
  const sorted = (list: readonly number[]): number[] => list.toSorted((a, b) => a - b);
  const earliestOf = (list: readonly number[]): number => list.reduce((least, start) => Math.min(least, start), Number.POSITIVE_INFINITY);
  const first = earliestOf(events.map(({ start }) => start));
  const own = Array.from(table.events.columns.start.subarray(0, table.events.length));
  const earliest = Math.min(earliestOf(own), earliestOf(Array.from(table.memory.columns.time.subarray(0, table.memory.length))));
  const spans = events.filter(({ kind }) => kind !== 'instant');
  expect(sorted(spans.map(({ start }) => Math.round(start - first)))).toEqual(sorted(own.map((start) => start - earliest)));
}

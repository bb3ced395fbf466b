// torch.profiler's files of a job, merged unchanged or after each rank's clock was altered.

import { expect } from 'vitest';
import { mergeRun } from '../merge/merge-run.ts';
import type { TraceEvent, TraceHeader, TraceProcess, TraceSink } from '../model/trace-sink.ts';
import type { RankClock } from './gpu-job.ts';
import { sourcesOfAttempts, tableOfKineto } from './merged-kineto.ts';

/** ns on the trace's axis. */
export interface AlignedEvent {
  readonly rank: number;
  readonly kind: TraceEvent['kind'];
  readonly key: string;
  readonly start: number;
  readonly end: number;
}

export interface AlignedJob {
  readonly events: readonly AlignedEvent[];
  readonly processes: readonly TraceProcess[];
}

/** The text of a file as a rank with that clock would have written it: right at the file's first event, except for the offset. */
export function seenBy(text: string, { offsetNs, ppm }: RankClock): string {
  let first: bigint | undefined;
  return text.replace(/"ts": ?(\d+)(?:\.(\d{1,3}))?/g, (_, whole: string, part = '') => {
    const time = BigInt(whole) * 1000n + BigInt(part.padEnd(3, '0'));
    first ??= time;
    const shown = String(time + BigInt(offsetNs) + BigInt(Math.round((Number(time - first) * ppm) / 1e6))).padStart(4, '0');
    return `"ts": ${shown.slice(0, -3)}.${shown.slice(-3)}`;
  });
}

/** The job of these texts, by rank; of several attempts, in their order. */
export function alignedJob(...attempts: (readonly string[])[]): AlignedJob {
  const sources = sourcesOfAttempts(attempts.map((texts) => texts.map(tableOfKineto)));
  let header: TraceHeader | undefined;
  const events: AlignedEvent[] = [];
  const sink: TraceSink = {
    begin: (begun) => {
      header = begun;
    },
    lane: () => {},
    event: ({ lane, kind, name, group, sequence, start, length }) => {
      const key = kind === 'collective' ? `${group} ${sequence}` : name;
      events.push({ rank: lane.process.rank, kind, key, start, end: start + length });
    },
    end: () => {},
  };
  for (const _ of mergeRun(sources, sink));
  return { events, processes: (header as TraceHeader).processes };
}

/** By rank: the largest distance of its events from those in `original`, relative to rank 0, ns. */
export function errorsAgainst(original: AlignedJob, { events }: AlignedJob): number[] {
  const startsOf = (job: readonly AlignedEvent[], rank: number): number[] =>
    job
      .filter((event) => event.rank === rank)
      .map(({ start }) => start)
      .sort((a, b) => a - b);
  const shiftOf = (rank: number): number[] => {
    const [before, after] = [startsOf(original.events, rank), startsOf(events, rank)];
    expect(after.length).toBe(before.length);
    return after.map((start, index) => start - (before[index] as number));
  };
  const axis = shiftOf(0)[0] as number;
  return original.processes.map((_, rank) => Math.max(...shiftOf(rank).map((shift) => Math.abs(shift - axis))));
}

/** Collectives that a rank leaves before another has entered. */
export function violations({ events }: AlignedJob): number {
  const byKey = new Map<string, { last: number; first: number }>();
  for (const { kind, key, start, end } of events) {
    if (kind !== 'collective') continue;
    const held = byKey.get(key) ?? { last: start, first: end };
    byKey.set(key, { last: Math.max(held.last, start), first: Math.min(held.first, end) });
  }
  return [...byKey.values()].filter(({ last, first }) => last > first).length;
}

export const methodsOf = ({ processes }: AlignedJob): string[] => processes.map(({ alignment }) => alignment.method);

/** Clocks of `ranks` ranks: seconds apart, and up to 30 ppm fast or slow. */
export const clocksApart = (ranks: number): RankClock[] =>
  Array.from({ length: ranks }, (_, rank) => ({ offsetNs: Math.round(1e10 * Math.sin(1 + 2 * rank)), ppm: 30 * Math.cos(3 * rank) }));

/** Expects that nothing in the files contradicts a common clock of all ranks. */
export function expectOneClock(texts: readonly string[]): void {
  const original = alignedJob(texts);
  expect(methodsOf(original)).toEqual(['exact', ...Array(texts.length - 1).fill('shared')]);
  expect(violations(original)).toBe(0);
  // Whole ns of offset and no drift: the distances within and between ranks are those of the files.
  const late = alignedJob(texts.map((text) => seenBy(text, { offsetNs: 5_000_000_000, ppm: 0 })));
  expect(errorsAgainst(original, late)).toEqual(Array(texts.length).fill(0));
}

/**
 * Compares `apart`, the files of ranks that each have a clock of their own, with `original`, the same job on one clock: collectives alone
 * restore the times, each rank within its bound, and no collective is violated. `driftNs`: drift of rank 0's own clock, which is the axis.
 * Returns the largest error, ns.
 */
export function expectBroughtBack(original: AlignedJob, apart: AlignedJob, driftNs: number): number {
  expect(methodsOf(apart)).toEqual(['exact', ...Array(original.processes.length - 1).fill('messages')]);
  expect(violations(apart)).toBe(0);
  const errors = errorsAgainst(original, apart);
  const bounds = apart.processes.map(({ alignment }) => alignment.bound as number);
  for (const [rank, error] of errors.entries()) expect(error).toBeLessThanOrEqual((bounds[rank] as number) + driftNs);
  return Math.max(...errors);
}

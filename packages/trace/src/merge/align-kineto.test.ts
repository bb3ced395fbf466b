// torch.profiler's files of real jobs on one host: left as they are, and brought back after each rank's clock was made another.

import { readdirSync, readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { readKineto } from '../read/kineto.ts';
import { kinetoSource } from '../read/kineto-source.ts';
import type { TraceEvent, TraceHeader, TraceSink } from '../trace-sink.ts';
import { mergeRun } from './merge-run.ts';

const data = new URL('../../../../../shared/data/kineto/', import.meta.url);

/** A clock that runs `ppm` fast from a file's first event on, where it is `offsetNs` ahead. */
interface Clock {
  readonly offsetNs: number;
  readonly ppm: number;
}

/** The text of a file as a rank with that clock would have written it. */
function seenBy(text: string, { offsetNs, ppm }: Clock): string {
  let first: bigint | undefined;
  return text.replace(/"ts": ?(\d+)(?:\.(\d{1,3}))?/g, (_, whole: string, part = '') => {
    const time = BigInt(whole) * 1000n + BigInt(part.padEnd(3, '0'));
    first ??= time;
    const shown = String(time + BigInt(offsetNs) + BigInt(Math.round((Number(time - first) * ppm) / 1e6))).padStart(4, '0');
    return `"ts": ${shown.slice(0, -3)}.${shown.slice(-3)}`;
  });
}

interface Shown {
  readonly rank: number;
  readonly kind: TraceEvent['kind'];
  readonly key: string;
  readonly start: number;
  readonly end: number;
}

/** The job in `folder`, each rank's clock made another. */
function merged(folder: string, clocks: readonly Clock[] = []) {
  const files = readdirSync(new URL(`${folder}/`, data)).filter((name) => name.endsWith('.json.gz'));
  const sources = files.map((name, rank) => {
    const text = gunzipSync(readFileSync(new URL(`${folder}/${name}`, data))).toString();
    const table = readKineto(new TextEncoder().encode(seenBy(text, clocks[rank] ?? { offsetNs: 0, ppm: 0 })), { keep: 'all' });
    return kinetoSource({ run: 'job', rank, worldSize: files.length, files: [{ name, table }] });
  });
  let header: TraceHeader | undefined;
  const events: Shown[] = [];
  const sink: TraceSink = {
    begin: (begun) => {
      header = begun;
    },
    lane: () => {},
    event: ({ lane, kind, name, group, sequence, start, length }) => {
      events.push({
        rank: lane.process.rank,
        kind,
        key: kind === 'collective' ? `${group} ${sequence}` : name,
        start,
        end: start + length,
      });
    },
    end: () => {},
  };
  for (const _ of mergeRun(sources, sink));
  return { events, processes: (header as TraceHeader).processes };
}

/** By rank, how far its events lie from where they lie in `original`, against rank 0: the largest, ns. */
function errorsAgainst(original: readonly Shown[], shown: readonly Shown[], ranks: number): number[] {
  const byRank = (events: readonly Shown[], rank: number): number[] =>
    events
      .filter((event) => event.rank === rank)
      .map(({ start }) => start)
      .sort((a, b) => a - b);
  const shiftOf = (rank: number): number[] => {
    const [before, after] = [byRank(original, rank), byRank(shown, rank)];
    expect(after.length).toBe(before.length);
    return after.map((start, index) => start - (before[index] as number));
  };
  const axis = shiftOf(0)[0] as number;
  return Array.from({ length: ranks }, (_, rank) => Math.max(...shiftOf(rank).map((shift) => Math.abs(shift - axis))));
}

/** Collectives that a rank leaves before another has entered. */
function violations(events: readonly Shown[]): number {
  const byKey = new Map<string, { last: number; first: number }>();
  for (const { kind, key, start, end } of events) {
    if (kind !== 'collective') continue;
    const held = byKey.get(key) ?? { last: start, first: end };
    byKey.set(key, { last: Math.max(held.last, start), first: Math.min(held.first, end) });
  }
  return [...byKey.values()].filter(({ last, first }) => last > first).length;
}

const jobs = ['nanogpt-8rank', 'ddp-4rank/balanced', 'ddp-4rank/rank1_forward', 'ddp-4rank/rank2_data_load'];

describe.each(jobs)('the files of %s', (job) => {
  const original = merged(job);
  const ranks = original.processes.length;

  it('stay as they are: nothing contradicts that they read one clock', () => {
    expect(original.processes.map(({ alignment }) => alignment.method)).toEqual(['exact', ...Array(ranks - 1).fill('shared')]);
    expect(violations(original.events)).toBe(0);
    // Whole ns of difference, and no drift: the distances within and between ranks are those of the files.
    const late = merged(job, Array(ranks).fill({ offsetNs: 5_000_000_000, ppm: 0 }));
    expect(errorsAgainst(original.events, late.events, ranks)).toEqual(Array(ranks).fill(0));
  });

  it('come back by their collectives alone after each rank got a clock of its own', () => {
    const clocks = Array.from({ length: ranks }, (_, rank) => ({
      offsetNs: Math.round(1e10 * Math.sin(1 + 2 * rank)),
      ppm: 30 * Math.cos(3 * rank),
    }));
    const { events, processes } = merged(job, clocks);
    expect(processes.map(({ alignment }) => alignment.method)).toEqual(['exact', ...Array(ranks - 1).fill('messages')]);
    expect(violations(events)).toBe(0);
    const errors = errorsAgainst(original.events, events, ranks);
    const bounds = processes.map(({ alignment }) => alignment.bound as number);
    // The axis is rank 0's clock, which drifts, too: by 30 ppm of less than half a second.
    for (const [rank, error] of errors.entries()) expect(error).toBeLessThanOrEqual((bounds[rank] as number) + 15_000);
    if (job === 'nanogpt-8rank') expect(Math.max(...errors)).toBeLessThanOrEqual(20_000);
  });
});

// Ranks whose loaders work ahead, in processes of their own, against ranks that load in the loop.

import { loaderWorkersKey, type Nanos, nanos, traceTime } from '@ranktrace/protocol';
import { describe, expect, it } from 'vitest';
import { someSeeds } from '../../../../test/setup/seeds.ts';
import { Random } from '../simulate/random.ts';
import { traceEvent, traceHeader, traceLane, traceProcess } from '../testing/trace-events.ts';
import { type RunBlame, RunBlameSink } from './run-blame-sink.ts';

const ms = 1e6;

interface Job {
  readonly seed: number;
  readonly ranks: number;
  readonly steps?: number;
  /** ms that a rank's loader, or the loop itself, takes for a batch. */
  readonly batch: (rank: number, step: number, random: Random) => number;
  /** Batches in stock; 0: the loop loads. */
  readonly stock: number;
  readonly compute?: (rank: number) => number;
  /** Ranks state it; default nothing. */
  readonly workers?: number | string;
  /** Workers that make batches by turns, each in its own time; default 1. */
  readonly turns?: number;
  /** ms that a rank takes to get a batch that is there. */
  readonly handing?: Job['batch'];
  readonly basis?: 'phases' | 'pieces';
  /** Batches of a step. */
  readonly fetches?: number;
}

/** Blame of a job whose ranks wait for each other at the end of each step. `basis`: lengths of phases alone, or spans and collectives, too. */
function blameOf({
  seed,
  ranks,
  steps = 200,
  batch,
  stock,
  compute = () => 6,
  basis = 'phases',
  fetches = 1,
  workers,
  turns = 1,
  handing = () => 0,
}: Job): RunBlame {
  const random = new Random(seed, 'loaders');
  const sink = new RunBlameSink();
  const metadata = new Map(workers === undefined ? [] : [[loaderWorkersKey, `${workers}`]]);
  const processes = [...Array(ranks).keys()].map((rank) => {
    return traceProcess({ index: rank, rank, incarnation: `${rank}`, pid: rank, metadata });
  });
  sink.begin(traceHeader(processes, { worldSize: ranks }));
  const lanes = processes.map((process, rank) => traceLane({ index: rank, process }));
  for (const lane of lanes) sink.lane(lane);
  const loaded = lanes.map(() => [] as number[]);
  const taken = lanes.map(() => [] as number[]);
  let now = 0;
  for (let step = 0; step < steps; step++) {
    const clocks = lanes.map(() => now);
    const spans = lanes.map(() => [] as { name: string; from: number; until: number }[]);
    for (const rank of lanes.keys()) {
      for (let fetch = 0; fetch < fetches; fetch++) {
        const from = clocks[rank] as number;
        const [done, took] = [loaded[rank] as number[], taken[rank] as number[]];
        const length = batch(rank, step, random);
        const there = stock === 0 ? from + length : Math.max(done.at(-turns) ?? 0, took[took.length - stock] ?? 0) + length;
        const until = Math.max(from, there) + handing(rank, step, random);
        done.push(there);
        took.push(until);
        const end = until + compute(rank) * (1 + 0.1 * random.normal(0, 1));
        spans[rank]?.push({ name: 'data', from, until }, { name: 'forward', from: until, until: end });
        clocks[rank] = end;
      }
    }
    const end = Math.max(...clocks) + 1;
    for (const [rank, lane] of lanes.entries()) {
      spans[rank]?.push({ name: 'all_reduce', from: clocks[rank] as number, until: end });
      const phases = new Map<string, Nanos>();
      for (const { name, from, until } of spans[rank] ?? []) {
        const at = { lane, name, start: traceTime(from * ms), length: nanos((until - from) * ms) };
        phases.set(name, nanos((phases.get(name) ?? 0) + at.length));
        if (basis === 'phases') continue;
        if (name === 'all_reduce') sink.event(traceEvent({ ...at, kind: 'collective', group: 'world', sequence: step }));
        else sink.event(traceEvent(at));
      }
      sink.event(traceEvent({ kind: 'step', lane, step, start: traceTime(now * ms), length: nanos((end - now) * ms), phases }));
    }
    sink.endStretch();
    now = end;
  }
  sink.end([]);
  return sink.blame;
}

const kinds = ({ verdict, findings }: RunBlame) => [verdict, findings.map(({ kind, ranks }) => `${kind} ${ranks.join(' ')}`.trim())];
const noisy = (ms: number, share = 0.05) => {
  return (_rank: number, _step: number, random: Random): number => Math.max(0.2 * ms, ms * (1 + share * random.normal(0, 1)));
};

describe('loaders that work ahead', () => {
  it.each(someSeeds(Array.from({ length: 40 }, (_, seed) => seed)))('name no rank where all are as slow (seed %i)', (seed) => {
    const [basis, fetches] = [seed % 2 === 0 ? 'phases' : 'pieces', seed % 3 === 0 ? 4 : 1] as const;
    const batch = noisy(30 / fetches);
    const blame = blameOf({ seed, ranks: 2 + (seed % 7), stock: 2, basis, fetches, batch, compute: () => 6 / fetches });
    expect(kinds(blame)).toEqual(['data_loading', ['data_loading']]);
    // A step takes as long as its batches.
    expect(Math.abs((blame.findings[0]?.costMsPerStep ?? 0) + 6 - 30)).toBeLessThan(3);
    expect(blame.findings[0]?.evidence[0]).toContain('though loaders work ahead');
  });

  it.each(someSeeds([1, 2, 3, 4]))('name none in a long run, in which stocks grow and shrink (seed %i)', (seed) => {
    const blame = blameOf({ seed, ranks: 2 + seed, steps: 900, stock: 4, batch: noisy(30) });
    expect(kinds(blame)).toEqual(['data_loading', ['data_loading']]);
  });

  it.each(someSeeds([1, 2, 3, 4]))('name none where ranks state that they do, however uneven batches are (seed %i)', (seed) => {
    const blame = blameOf({ seed, ranks: 2 + seed, steps: 60, stock: 2, workers: 1, batch: noisy(30, 0.25) });
    expect(blame.verdict).toBe('data_loading');
    expect(blame.findings.map(({ kind }) => kind)).not.toContain('straggler');
  });

  it('are seen by the waits where what a rank states is no number', () => {
    const blame = blameOf({ seed: 1, ranks: 4, stock: 2, workers: '−1 <b>', batch: noisy(30) });
    expect(kinds(blame)).toEqual(['data_loading', ['data_loading']]);
  });

  it.each(someSeeds(Array.from({ length: 10 }, (_, seed) => seed)))('name the rank of which alone the loader is slow (seed %i)', (seed) => {
    const ranks = 2 + (seed % 7);
    const blame = blameOf({ seed, ranks, stock: 2, batch: (rank, step, random) => noisy(rank === 1 ? 30 : 4)(rank, step, random) });
    expect(blame.verdict).toBe('straggler');
    expect(blame.findings[0]).toMatchObject({ kind: 'straggler', ranks: [1], phase: 'data' });
    // A step takes as long as the slowest rank's batch, and would take as long as its compute.
    expect(Math.abs((blame.findings[0]?.costMsPerStep ?? 0) - 23)).toBeLessThan(2);
    expect(blame.findings[0]?.evidence.join()).toContain('how much faster they are is unknown');
  });

  it('name the rank whose loader stays slow when those of the others become faster', () => {
    const batch: Job['batch'] = (rank, step, random) => noisy(rank === 1 || step < 300 ? 30 : 4)(rank, step, random);
    const { findings, last } = blameOf({ seed: 1, ranks: 4, steps: 900, stock: 2, batch });
    expect(last.verdict).toBe('straggler');
    expect(findings.find(({ kind }) => kind === 'straggler')).toMatchObject({ ranks: [1], phase: 'data' });
    expect(findings.find(({ kind }) => kind === 'data_loading')?.steps.last).toBeLessThan(400);
  });
});

describe('workers of a loader that take turns', () => {
  it.each(someSeeds(Array.from({ length: 12 }, (_, seed) => seed)))('name the rank of which alone they are slow (seed %i)', (seed) => {
    const [ranks, workers, basis] = [2 + (seed % 3), 2 + (seed % 4), seed % 2 === 0 ? 'phases' : 'pieces'] as const;
    const batch: Job['batch'] = (rank, step, random) => noisy(rank === 1 ? workers * 40 : 1, 0.02)(rank, step, random);
    const about = { seed, ranks, workers, turns: workers, stock: 2 * workers, steps: 80, basis, compute: () => 3, handing: noisy(1, 0.3) };
    const blame = blameOf({ ...about, batch });
    expect(blame.verdict).toBe('straggler');
    const named = blame.findings.filter(({ ranks: of }) => of.includes(1));
    expect(named[0]).toMatchObject({ kind: 'straggler', ranks: [1], phase: 'data' });
    // The loop hides 5 of 40 ms for each batch. Where several are ready at once, some steps may be that much longer that they are a finding of their own.
    expect(Math.abs(named.reduce((sum, { costMsPerStep }) => sum + costMsPerStep, 0) - 35)).toBeLessThan(4);
    const others = blame.findings.filter(({ ranks: of }) => !of.includes(1));
    expect(Math.max(0, ...others.map(({ costMsPerStep }) => costMsPerStep))).toBeLessThan(2);
  });

  it.each(someSeeds(Array.from({ length: 12 }, (_, seed) => seed)))('name none where all are as slow (seed %i)', (seed) => {
    const [ranks, workers, basis] = [2 + (seed % 4), 2 + (seed % 3), seed % 2 === 0 ? 'phases' : 'pieces'] as const;
    const about = { seed, ranks, workers, turns: workers, stock: 2 * workers, basis, handing: noisy(1, 0.3) };
    const blame = blameOf({ ...about, batch: noisy(30 * workers) });
    expect(blame.verdict).toBe('data_loading');
    expect(blame.findings.map(({ kind }) => kind)).not.toContain('straggler');
  });
});

it.each(someSeeds([1, 2, 3, 4]))('a rank that only fetches its batches is no slow loader, however short the steps (seed %i)', (seed) => {
  const batch: Job['batch'] = (rank, step, random) => noisy(rank === 1 ? 9 : 1)(rank, step, random);
  const { verdict, findings } = blameOf({ seed, ranks: 2 + seed, stock: 2, workers: 1, batch, compute: () => 1, handing: noisy(1.2) });
  expect([verdict, findings[0]?.ranks]).toEqual(['straggler', [1]]);
});

describe('a loop that loads by itself', () => {
  it.each(someSeeds(Array.from({ length: 20 }, (_, seed) => seed)))('is a straggler where it takes longer (seed %i)', (seed) => {
    const more = (rank: number) => (rank === 1 ? 8 : 0);
    const basis = seed % 2 === 0 ? 'phases' : 'pieces';
    const batch: Job['batch'] = (rank, step, random) => more(rank) + noisy(20)(rank, step, random);
    const blame = blameOf({ seed, ranks: 2 + (seed % 7), stock: 0, basis, batch });
    expect(blame.findings.find(({ kind }) => kind === 'straggler')).toMatchObject({ ranks: [1], phase: 'data' });
  });

  it.each(someSeeds(Array.from({ length: 20 }, (_, seed) => seed)))('is one, too, where slow stretches come and go (seed %i)', (seed) => {
    const ranks = 2 + (seed % 7);
    const drift = new Float64Array(ranks);
    const batch: Job['batch'] = (rank, _step, random) => {
      drift[rank] = 0.95 * (drift[rank] as number) + 0.5 * random.normal(0, 1);
      return Math.max(2, (rank === 1 ? 28 : 20) + (drift[rank] as number) + 0.3 * random.normal(0, 1));
    };
    const blame = blameOf({ seed, ranks, stock: 0, batch });
    expect(blame.findings.find(({ kind }) => kind === 'straggler')).toMatchObject({ ranks: [1], phase: 'data' });
  });
});

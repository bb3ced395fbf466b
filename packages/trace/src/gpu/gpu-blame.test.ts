// Blame of simulated GPU jobs with planted faults: each is named with its rank and about its cost, and sound jobs are balanced.

import { describe, expect, test } from 'vitest';
import type { RunBlame } from '../blame/run-blame-sink.ts';
import { mergeRun } from '../merge/merge-run.ts';
import { finish } from '../model/finish.ts';
import { teeSink } from '../model/tee-sink.ts';
import { type GpuJobOptions, gpuJob } from '../testing/gpu-job.ts';
import type { GpuFault } from '../testing/gpu-job-rank.ts';
import { sourcesOfKineto, tableOfKineto } from '../testing/merged-kineto.ts';
import { GpuBlameSink } from './gpu-blame.ts';
import { GpuSink } from './gpu-sink.ts';

const us = 1000;
const ms = 1000 * us;

function blameOf(texts: readonly string[]): RunBlame | undefined {
  const gpus = new GpuSink();
  const blame = new GpuBlameSink(gpus);
  finish(mergeRun(sourcesOfKineto(texts.map(tableOfKineto)), teeSink(gpus, blame)));
  return blame.blame;
}

const ranks = [0, 1, 2, 3];
/** Kernels so long that little of the step is communication. */
const heavy = (factor: (rank: number) => number = () => 8): GpuFault[] =>
  ranks.map((rank) => ({ kind: 'slow_kernels', rank, amount: factor(rank) }));
const textsOf = ({ faults = [], ...options }: GpuJobOptions): string[] => {
  const all = faults.some(({ kind }) => kind === 'slow_kernels') ? faults : [...heavy(), ...faults];
  return gpuJob({ ranks: ranks.length, steps: 6, spread: 0.02, ...options, faults: all }).files.map(({ text }) => text);
};
const worst = (blame: RunBlame | undefined) => {
  const [finding] = blame?.findings ?? [];
  return [blame?.verdict, finding?.kind, finding?.ranks, finding?.phase];
};
/** Mean step on the devices, ms. */
const stepOf = (blame: RunBlame | undefined): number => (blame?.last.step ?? Number.NaN) / ms;

describe.each([1, 7, 23, 104])('planted in one rank (seed %i)', (seed) => {
  const straggler: readonly [string, readonly GpuFault[], string][] = [
    ['late data', [{ kind: 'late_data', rank: 2, amount: 3 * ms }], 'GPU idle, host late'],
    ['slow kernels', heavy((rank) => (rank === 2 ? 12 : 8)), 'GPU compute'],
    ['work that waits for an event', [{ kind: 'stalled', rank: 2, amount: 3 * ms }], 'GPU idle, dependency'],
  ];

  test.each(straggler)('%s: that rank, in what its GPU does, with its cost', (_name, faults, phase) => {
    const [sound, faulty] = [blameOf(textsOf({ seed })), blameOf(textsOf({ seed, faults }))];
    expect(worst(faulty)).toEqual(['straggler', 'straggler', [2], phase]);
    const cost = stepOf(faulty) - stepOf(sound);
    expect(Math.abs((faulty?.findings[0]?.costMsPerStep ?? 0) / cost - 1)).toBeLessThan(0.1);
  });
});

describe.each([1, 7, 23, 104])('planted in all ranks (seed %i)', (seed) => {
  test('a slow host: GPUs wait for it, and the evidence says where it was', () => {
    const blame = blameOf(textsOf({ seed, faults: [{ kind: 'slow_host', amount: 4000 * us }] }));
    expect(worst(blame)).toEqual(['host_bound', 'host_bound', [], 'GPU idle, host late']);
    expect(blame?.findings[0]?.evidence.join()).toContain('forward, aten::linear');
  });

  test('slow transfers: communication, by group', () => {
    const [sound, faulty] = [blameOf(textsOf({ seed })), blameOf(textsOf({ seed, faults: [{ kind: 'slow_transfers', amount: 60 }] }))];
    expect(worst(faulty)).toEqual(['communication_bound', 'communication_bound', [], undefined]);
    expect(faulty?.findings[0]?.evidence[0]).toMatch(/^group [01]: \d/);
    expect(stepOf(faulty)).toBeGreaterThan(stepOf(sound));
  });
});

test('one file alone gets an answer about its rank', () => {
  const texts = textsOf({ seed: 7, faults: [{ kind: 'late_data', rank: 2, amount: 12 * ms }] });
  // The test's reader numbers a single file 0.
  expect(worst(blameOf([texts[2] as string]))).toEqual(['host_bound', 'host_bound', [0], 'GPU idle, host late']);
  expect(worst(blameOf([texts[1] as string]))).toEqual(['communication_bound', 'communication_bound', [0], 'GPU communication']);
});

test.each([1, 7, 23])('without steps in the recording, windows are cut at a collective that repeats (seed %i)', (seed) => {
  const texts = textsOf({ seed, faults: heavy((rank) => (rank === 1 ? 12 : 8)) }).map((text) =>
    text.replaceAll(/ProfilerStep#\d+/g, 'a span'),
  );
  const blame = blameOf(texts);
  expect(blame?.cutAt).toMatch(/^(all_reduce|all_gather|reduce_scatter) /);
  expect(worst(blame)).toEqual(['straggler', 'straggler', [1], 'GPU compute']);
});

test('of 200 sound jobs no rank is blamed', () => {
  const verdicts = new Map<string, number>();
  for (let seed = 2000; seed < 2200; seed++) {
    const { verdict = 'none' } = blameOf(textsOf({ seed, steps: 4, layers: 3 })) ?? {};
    verdicts.set(verdict, (verdicts.get(verdict) ?? 0) + 1);
  }
  expect(Object.fromEntries(verdicts)).toEqual({ balanced: 200 });
});

test('a job whose ranks have no device work has no blame of devices', () => {
  const op = '{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 0, "dur": 5}';
  expect(blameOf([`{"traceEvents": [${op}]}`])).toBeUndefined();
});

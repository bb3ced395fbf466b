// The path across ranks leads through the rank that makes the others wait, and to what makes it late.

import { describe, expect, test } from 'vitest';
import { mergeRun } from '../merge/merge-run.ts';
import { finish } from '../model/finish.ts';
import { gpuJob } from '../testing/gpu-job.ts';
import type { GpuFault } from '../testing/gpu-job-rank.ts';
import { sourcesOfKineto, tableOfKineto } from '../testing/merged-kineto.ts';
import type { ClusterPath } from './cluster-path.ts';
import { GpuSink } from './gpu-sink.ts';
import type { PathSegments } from './path-segments.ts';

function sinkOf(seed: number, faults: readonly GpuFault[], ranks = 4): GpuSink {
  const sink = new GpuSink();
  const { files } = gpuJob({ seed, ranks: 4, steps: 5, hasSeq: true, faults });
  finish(mergeRun(sourcesOfKineto(files.slice(0, ranks).map(({ text }) => tableOfKineto(text))), sink));
  return sink;
}

const pathOf = (seed: number, faults: readonly GpuFault[]): ClusterPath => sinkOf(seed, faults).summary.path as ClusterPath;

describe.each([2, 13, 77])('seed %i', (seed) => {
  test('slow kernels: the path computes on that rank', () => {
    const { byRank, byBound, total } = pathOf(seed, [{ kind: 'slow_kernels', rank: 3, amount: 3 }]);
    expect(byRank[0]?.rank).toBe(3);
    expect((byRank[0]?.byBound.compute as number) / total).toBeGreaterThan(0.4);
    expect(byRank.reduce((sum, rank) => sum + rank.total, 0)).toBeCloseTo(total, 3);
    expect(Object.values(byBound).reduce((sum, part) => sum + part, 0)).toBeCloseTo(total, 3);
  });

  test('late data: the path begins with the host of that rank', () => {
    const { byRank, lines } = pathOf(seed, [{ kind: 'late_data', rank: 2, amount: 5_000_000 }]);
    for (const { name } of lines) expect(name).toMatch(/\S/);
    const late = byRank.find(({ rank }) => rank === 2);
    expect(late?.byBound.cpu).toBeGreaterThan(4_500_000);
  });

  test('slow transfers: communication bounds it', () => {
    const { byBound, total, lines } = pathOf(seed, [{ kind: 'slow_transfers', amount: 8 }]);
    for (const { name, bound } of lines) if (bound === 'communication') expect(name).toMatch(/^ncclDevKernel_/);
    expect(byBound.communication / total).toBeGreaterThan(0.6);
  });
});

test.each([2, 13])('stages of a pipeline: the path leads through the one that others wait for, and waits in no send (seed %i)', (seed) => {
  const faults: GpuFault[] = [{ kind: 'slow_kernels', rank: 1, amount: 3 }];
  const { files } = gpuJob({ seed, ranks: 3, steps: 5, layers: 3, hasSeq: true, pipeline: { stages: 3, microbatches: 8 }, faults });
  const sink = new GpuSink();
  finish(mergeRun(sourcesOfKineto(files.map(({ text }) => tableOfKineto(text))), sink));
  const { path, ranks } = sink.summary;
  const { byBound, byRank, total } = path as ClusterPath;
  expect(byRank[0]?.rank).toBe(1);
  // Kernels of sends and receives take long, and most of it is waiting.
  expect(Math.max(...ranks.map(({ totals: { exposed, length } }) => exposed / length))).toBeGreaterThan(0.3);
  expect(byBound.communication / total).toBeLessThan(0.15);
});

describe.each([1, 4])('in pieces, of %i ranks', (ranks) => {
  const { segments: path } = sinkOf(5, [{ kind: 'late_data', rank: 0, amount: 3_000_000 }], ranks).summary;
  const { segments, total, leftOut, leftOutTime } = path as PathSegments;

  test('it goes on in time from its begin to its end, and the pieces add up to it', () => {
    expect(segments.length).toBeGreaterThan(10);
    expect([leftOut, leftOutTime]).toEqual([0, 0]);
    for (const [at, { start, end }] of segments.entries()) {
      expect(end).toBeGreaterThan(start);
      expect(start).toBeGreaterThanOrEqual((segments[at - 1]?.end ?? start) - 1);
    }
    const sum = segments.reduce((time, { start, end }) => time + end - start, 0);
    expect(Math.abs(sum - total) / total).toBeLessThan(0.02);
  });

  test('what lies on it lies in its span, or is a pause that is mostly a phase', () => {
    for (const { bound, name, start, end, span } of segments) {
      if (bound === 'cpu' && !/^(?:before|after) /.test(name))
        expect([span.isWork, Math.min(end, span.end) - Math.max(start, span.start) >= (end - start) / 2 - 1]).toEqual([false, true]);
      if (bound === 'compute') expect([span.isWork, span.end]).toEqual([true, end]);
    }
  });
});

describe('a backward on a thread of autograd', () => {
  const event = (cat: string, name: string, tid: number, ts: number, dur: number, args: object = {}): object => {
    return { ph: 'X', cat, name, pid: cat === 'kernel' ? 0 : 9, tid, ts, dur, args };
  };
  const launch = (tid: number, ts: number, correlation: number): object[] => [
    event('cuda_runtime', 'cudaLaunchKernel', tid, ts, 5, { correlation }),
    event('kernel', 'gemm', 7, ts + 10, 3, { correlation, device: 0, stream: 7 }),
  ];
  /** Forward 50 to 100 µs, the backward's ops 120 to 700 µs, the optimizer from 800 µs on. */
  const sinkWith = (backward: number): GpuSink => {
    const traceEvents = [
      event('user_annotation', 'ProfilerStep#3', 1, 0, 1000),
      ...[event('cpu_op', 'aten::linear', 1, 50, 50), ...launch(1, 60, 1)],
      ...[event('cpu_op', 'AddmmBackward0', backward, 120, 280), ...launch(backward, 390, 2)],
      ...[event('cpu_op', 'MulBackward0', backward, 420, 280), ...launch(backward, 690, 3)],
      ...[event('cpu_op', 'aten::add_', 1, 800, 100), ...launch(1, 880, 4)],
    ];
    const sink = new GpuSink();
    finish(mergeRun(sourcesOfKineto([tableOfKineto(JSON.stringify({ traceEvents }))]), sink));
    return sink;
  };
  const linesOf = (backward: number) =>
    (sinkWith(backward).summary.segments?.segments ?? []).map(({ name, start, end }) => `${name} ${start / 1000} to ${end / 1000}`);

  test('the path goes through its ops, and back to the thread that waited for it', () => {
    expect(linesOf(2)).toEqual(linesOf(1));
    expect(linesOf(2)).toEqual([
      ...['before aten::linear 0 to 50', 'aten::linear 50 to 100', 'before AddmmBackward0 100 to 120', 'AddmmBackward0 120 to 400'],
      ...['before MulBackward0 400 to 420', 'MulBackward0 420 to 700', 'before aten::add_ 700 to 800', 'aten::add_ 800 to 900'],
      'after aten::add_ 900 to 1000',
    ]);
  });

  test('sums by name: what lies before, between and after ops is none of their time', () => {
    const { lines = [] } = sinkWith(1).summary.path ?? {};
    const sums = new Map(lines.map(({ name, total }) => [name, total / 1000]));
    expect(sums.get('before aten::linear')).toBe(50);
    expect(sums.get('before aten::add_')).toBe(100);
    expect(sums.get('after aten::add_')).toBe(100);
    for (const op of ['aten::linear', 'aten::add_']) expect(sums.get(op) ?? 0).toBeLessThanOrEqual(100);
    expect(lines.reduce((sum, { total }) => sum + total, 0)).toBe(1_000_000);
  });
});

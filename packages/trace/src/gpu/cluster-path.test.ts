// The path across ranks leads through the rank that makes the others wait, and to what makes it late.

import { describe, expect, test } from 'vitest';
import { mergeRun } from '../merge/merge-run.ts';
import { finish } from '../model/finish.ts';
import { gpuJob } from '../testing/gpu-job.ts';
import type { GpuFault } from '../testing/gpu-job-rank.ts';
import { sourcesOfKineto, tableOfKineto } from '../testing/merged-kineto.ts';
import type { ClusterPath } from './cluster-path.ts';
import { GpuSink } from './gpu-sink.ts';

function pathOf(seed: number, faults: readonly GpuFault[]): ClusterPath {
  const sink = new GpuSink();
  const { files } = gpuJob({ seed, ranks: 4, steps: 5, hasSeq: true, faults });
  finish(mergeRun(sourcesOfKineto(files.map(({ text }) => tableOfKineto(text))), sink));
  return sink.summary.path as ClusterPath;
}

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

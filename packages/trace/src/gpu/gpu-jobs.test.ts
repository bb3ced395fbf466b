// Real jobs on an H200 with a planted cause each (test/data/kineto/gpu-jobs): what the clock said of a step with and without the cause, and torch's own sums.

import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { OpSumsSink } from '../analyse/op-sums.ts';
import { memoryOf } from '../analyse/run-profile.ts';
import { mergeRun } from '../merge/merge-run.ts';
import { finish } from '../model/finish.ts';
import { teeSink } from '../model/tee-sink.ts';
import { sourcesOfKineto, tableOfKineto } from '../testing/merged-kineto.ts';
import { functionAverages } from '../torch/function-averages.ts';
import { functionEvents } from '../torch/function-events.ts';
import { readKineto } from '../torch/kineto-reader.ts';
import { GpuBlameSink } from './gpu-blame.ts';
import { GpuSink } from './gpu-sink.ts';
import type { GpuRank, GpuSummary } from './gpu-summary.ts';

const folder = new URL('../../../../test/data/kineto/gpu-jobs/', import.meta.url);
const ms = 1e6;

interface Truth {
  readonly stepMs: { readonly planted: number; readonly plain: number };
  readonly memoryPeak: number;
  readonly averages: readonly Record<string, number | string | boolean>[];
}

const truthOf = (name: string): Truth => JSON.parse(readFileSync(new URL(`${name}.truth.json`, folder), 'utf8'));
const bytesOf = (name: string): Buffer => gunzipSync(readFileSync(new URL(`${name}.pt.trace.json.gz`, folder)));

function analysed(...names: readonly string[]) {
  const gpus = new GpuSink();
  const blame = new GpuBlameSink(gpus);
  finish(mergeRun(sourcesOfKineto(names.map((name) => tableOfKineto(bytesOf(name)))), teeSink(gpus, blame)));
  return { gpus: gpus.summary, rank: gpus.summary.ranks[0] as GpuRank, blame: blame.blame };
}

/** ms that a step saves if a part of the path takes no time; `name`: undefined for all that is bound so. */
function savedWithout({ worth }: GpuSummary, bound: string, name?: RegExp): number {
  const part = worth.find((one) => one.bound === bound && (name === undefined ? one.name === undefined : name.test(one.name ?? '')));
  return (part?.savesAtZero ?? 0) / ms;
}

const within = (share: number, wanted: number, found: number): void => {
  expect(found).toBeGreaterThan((1 - share) * wanted);
  expect(found).toBeLessThan((1 + share) * wanted);
};

describe('what a cause costs is what the step gains without it', () => {
  test.each([
    ['host_late', 'host_bound', 'cpu', /^augment$/],
    ['loader', 'host_bound', 'cpu', /^enumerate\(DataLoader\)/],
    ['copies', 'copy_bound', 'copy', undefined],
    ['small_kernels', 'host_bound', 'cpu', undefined],
  ] as const)('%s: %s', (name, verdict, bound, part) => {
    const { stepMs } = truthOf(name);
    const { gpus, blame } = analysed(name);
    expect(blame?.verdict).toBe(verdict);
    // Recording made tiny launches longer.
    within(name === 'small_kernels' ? 0.15 : 0.1, stepMs.planted - stepMs.plain, savedWithout(gpus, bound, part));
  });
});

test('copies from memory that is not pinned hold the host for as long', () => {
  const { gpus, rank } = analysed('copies');
  const { planted, plain } = truthOf('copies').stepMs;
  within(0.1, planted - plain, savedWithout(gpus, 'copy', /Memcpy HtoD \(Pageable/));
  within(0.15, planted - plain, rank.totals.copies / rank.steps.length / ms);
  expect(gpus.recommendations.map(({ rule }) => rule)).toEqual(['copies']);
});

test('copies behind compute are hidden, and save as much', () => {
  const { rank, blame } = analysed('streams');
  expect(blame?.verdict).toBe('balanced');
  const { planted, plain } = truthOf('streams').stepMs;
  const each = (rank.copies.find(({ kind }) => kind === 'Memcpy HtoD')?.total ?? 0) / rank.steps.length / ms;
  within(0.1, plain - planted, each);
  expect(rank.totals.copies / rank.steps.length / ms).toBeLessThan(0.2 * each);
});

test.each(['balanced', 'graph', 'memory'])('%s: the GPU computes, and nothing is to blame', (name) => {
  const { rank, gpus, blame } = analysed(name);
  expect([blame?.verdict, blame?.findings, gpus.recommendations]).toEqual(['balanced', [], []]);
  expect(rank.totals.compute / rank.totals.length).toBeGreaterThan(0.9);
});

test.each(['balanced', 'host_late', 'small_kernels', 'syncs', 'copies', 'loader', 'streams', 'graph', 'memory'])(
  '%s: the critical path is as long as the step',
  (name) => {
    const { gpus, rank } = analysed(name);
    const step = rank.steps.find(({ step: number }) => number === gpus.path?.step);
    within(0.03, step?.length ?? 0, gpus.path?.total ?? 0);
  },
);

test('a backward counts on the device with what autograd launched', () => {
  const { rank } = analysed('balanced');
  const backward = rank.annotations.find(({ name }) => name === 'backward');
  const byPhase = rank.kernels.byPhase.lines.find(({ name }) => name === 'backward');
  expect(backward?.count).toBe(6);
  expect(backward?.total).toBeGreaterThan(byPhase?.total ?? Number.POSITIVE_INFINITY);
});

describe('two ranks that share the GPU', () => {
  test('slow kernels: the rank is named, its cost is what the others waited for, and the path computes there', () => {
    const { gpus, blame } = analysed('kernels-rank0', 'kernels-rank1');
    const { planted, plain } = truthOf('kernels').stepMs;
    const [worst] = blame?.findings ?? [];
    expect(worst).toMatchObject({ kind: 'straggler', ranks: [1], phase: 'GPU compute' });
    within(0.1, planted - plain, worst?.costMsPerStep ?? 0);
    expect(gpus.path?.byRank[0]?.rank).toBe(1);
    within(0.1, planted - plain, (gpus.path?.byRank[0]?.byBound.compute ?? 0) / ms);
    within(0.1, planted - plain, savedWithout(gpus, 'compute'));
    // The host was held by a queue of 1,022 launches.
    const blocked = gpus.ranks.map(({ queues }) => queues.reduce((sum, queue) => sum + queue.blocked, 0) / ms);
    expect(blocked[0]).toBe(0);
    expect(blocked[1]).toBeGreaterThan(200);
  });

  test('a late host that mostly hides behind the GPU is no straggler', () => {
    const { gpus, blame } = analysed('host-rank0', 'host-rank1');
    expect(blame?.findings.filter(({ kind }) => kind === 'straggler')).toEqual([]);
    const [early, late] = gpus.ranks.map(({ idle, steps }) => idle.byCause.hostLate / steps.length / ms) as [number, number];
    const { planted, plain } = truthOf('host').stepMs;
    // It sleeps for 15 ms; the step is 2.3 ms longer.
    expect(late - early).toBeGreaterThan(planted - plain);
    expect(late - early).toBeLessThan(5);
  });
});

test('the peak of memory is the allocator’s own', () => {
  const ops = new OpSumsSink();
  finish(mergeRun(sourcesOfKineto([tableOfKineto(bytesOf('memory'))]), ops));
  const device = ops.ranks.flatMap(memoryOf).find(({ device: of }) => of !== 'CPU');
  expect(device?.peak).toBe(truthOf('memory').memoryPeak);
});

/** torch counts begins and ends of annotations on a device 2 ns apart from its file. */
const roundingUs = 0.02;

test.each(['balanced', 'host_late', 'small_kernels', 'syncs', 'copies', 'streams', 'graph', 'memory'])(
  '%s: sums by name are torch’s own',
  (name) => {
    const averages = functionAverages(functionEvents(readKineto(bytesOf(name))));
    const found = new Map(averages.map((one) => [`${one.deviceType !== 'cpu'} ${one.key}`, one]));
    for (const one of truthOf(name).averages) {
      const mine = found.get(`${one.is_device} ${one.name}`);
      expect(mine, `${one.name}`).toBeDefined();
      // Its sum over correlations has a memset twice.
      if (name === 'balanced' && (one.name === 'ProfilerStep*' || one.name === 'cudaDeviceSynchronize')) continue;
      expect([mine?.count, mine?.flops, mine?.deviceMemoryUsage]).toEqual([one.count, one.flops, one.device_memory]);
      for (const [theirs, ours] of [
        [one.cpu_us, mine?.cpuTimeTotal],
        [one.self_cpu_us, mine?.selfCpuTimeTotal],
        [one.device_us, mine?.deviceTimeTotal],
        [one.self_device_us, mine?.selfDeviceTimeTotal],
      ] as const)
        expect(Math.abs((ours as number) - (theirs as number)), `${one.name}`).toBeLessThan(roundingUs);
    }
  },
);

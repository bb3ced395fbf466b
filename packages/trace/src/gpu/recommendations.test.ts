import { expect, test } from 'vitest';
import { mergeRun } from '../merge/merge-run.ts';
import { finish } from '../model/finish.ts';
import { type GpuJobOptions, gpuJob } from '../testing/gpu-job.ts';
import { sourcesOfKineto, tableOfKineto } from '../testing/merged-kineto.ts';
import { GpuSink } from './gpu-sink.ts';
import { type RuleShares, recommendations } from './recommendations.ts';

const us = 1000;
const ms = 1000 * us;
const none: RuleShares = {
  data_loader: { share: 0.05, saves: 0 },
  communication: { share: 0.1, saves: 0 },
  low_utilisation: { share: 0.5, saves: undefined },
  tensor_cores: { share: 0, saves: undefined },
  host_late: { share: 0.1, saves: 0 },
  launches: { share: 0.1, saves: 0 },
  copies: { share: 0.1, saves: 0 },
};

test('no rule fires at its threshold, and each fires beyond it', () => {
  expect(recommendations([{ rank: 0, shares: none }])).toEqual([]);
  for (const rule of Object.keys(none) as (keyof RuleShares)[]) {
    const share = rule === 'low_utilisation' ? 0.499 : none[rule].share + 0.001;
    const found = recommendations([{ rank: 3, shares: { ...none, [rule]: { share, saves: 5 } } }]);
    expect(found).toMatchObject([{ rule, ranks: [3], share, saves: 5 }]);
  }
});

test('ranks are joined by rule, with the worst share; what saves most comes first', () => {
  const shares = (loader: number, busy: number): RuleShares => ({
    ...none,
    data_loader: { share: loader, saves: loader * ms },
    low_utilisation: { share: busy, saves: undefined },
    host_late: { share: 0.2, saves: 3 * ms },
  });
  expect(
    recommendations([
      { rank: 0, shares: shares(0.2, 0.3) },
      { rank: 1, shares: shares(0.01, 0.2) },
      { rank: 2, shares: shares(0.4, 0.9) },
    ]).map(({ rule, ranks, share, saves }) => [rule, ranks, share, saves]),
  ).toEqual([
    ['host_late', [0, 1, 2], 0.2, 3 * ms],
    ['data_loader', [0, 2], 0.4, 0.4 * ms],
    ['low_utilisation', [0, 1], 0.2, undefined],
  ]);
});

test('waiting for a late rank is no communication: the rank that waits least counts', () => {
  const shares = (share: number): RuleShares => ({ ...none, communication: { share, saves: share * ms } });
  expect(recommendations([0.25, 0.25, 0.08].map((share, rank) => ({ rank, shares: shares(share) })))).toEqual([]);
  expect(recommendations([0.3, 0.2, 0.25].map((share, rank) => ({ rank, shares: shares(share) })))).toMatchObject([
    { rule: 'communication', ranks: [0, 1, 2], share: 0.2, saves: 0.2 * ms },
  ]);
});

test("data that is late in the program's own phase counts beside torch's loader, and on ranks without that", () => {
  const file = (loaderUs: number, phaseUs: number): string => {
    const traceEvents: object[] = [];
    const span = (cat: string, name: string, start: number, dur: number, args: object = {}, pid = 9): number =>
      traceEvents.push({ ph: 'X', cat, name, pid, tid: 7, ts: start, dur, args });
    for (let step = 0; step < 4; step++) {
      const at = 1000 * step;
      span('user_annotation', `ProfilerStep#${step}`, at, 1000);
      span('user_annotation', 'data_load', at + 1, phaseUs);
      if (loaderUs > 0) span('user_annotation', 'enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__', at + 2, loaderUs);
      span('cuda_runtime', 'cudaLaunchKernel', at + phaseUs + 2, 5, { correlation: step + 1 });
      span('kernel', 'add', at + phaseUs + 8, 990 - phaseUs, { correlation: step + 1, device: 0, stream: 7 }, 0);
    }
    return JSON.stringify({ traceEvents });
  };
  const gpus = new GpuSink();
  finish(mergeRun(sourcesOfKineto([file(5, 310), file(0, 310), file(3, 6)].map(tableOfKineto)), gpus));
  const [loader] = gpus.summary.recommendations.filter(({ rule }) => rule === 'data_loader');
  expect(loader).toMatchObject({ ranks: [0, 1] });
  within(loader?.share ?? 0, 0.31, 0.02);
});

const within = (value: number, wanted: number, share: number): void => expect(Math.abs(value / wanted - 1)).toBeLessThan(share);

const rulesOf = (options: GpuJobOptions, textOf = (text: string): string => text) => {
  const gpus = new GpuSink();
  finish(mergeRun(sourcesOfKineto(gpuJob({ ranks: 4, ...options }).files.map(({ text }) => tableOfKineto(textOf(text)))), gpus));
  return gpus.summary.recommendations;
};

test.each([1, 7, 23])('planted in simulated jobs (seed %i): late data, with what it costs; a slow host; slow transfers', (seed) => {
  const late = rulesOf({ seed, steps: 5, faults: [{ kind: 'late_data', rank: 2, amount: 6 * ms }] });
  const loader = late.find(({ rule }) => rule === 'data_loader');
  expect(loader).toMatchObject({ ranks: [2] });
  expect(Math.abs((loader?.saves ?? 0) / (6 * ms) - 1)).toBeLessThan(0.1);
  // Time in the data loader is no other work of the host.
  expect(late.find(({ rule }) => rule === 'host_late')?.ranks ?? []).not.toContain(2);
  const host = rulesOf({ seed, steps: 5, faults: [{ kind: 'slow_host', rank: 1, amount: 1500 * us }] });
  expect(host.find(({ rule }) => rule === 'host_late')?.ranks).toContain(1);
  expect(host.find(({ rule }) => rule === 'data_loader')?.ranks ?? []).not.toContain(1);
  const slow = rulesOf({ seed, faults: [{ kind: 'slow_transfers', amount: 8 }] }).find(({ rule }) => rule === 'communication');
  expect(slow).toMatchObject({ ranks: [0, 1, 2, 3] });
});

test('a recording without steps has its rules over the whole of it', () => {
  const job = { seed: 7, ranks: 2, steps: 6 };
  const withSteps = rulesOf(job);
  const without = rulesOf(job, (text) => text.replaceAll('ProfilerStep#', 'round '));
  expect(withSteps).toMatchObject([{ rule: 'communication', ranks: [0, 1] }]);
  expect(without).toMatchObject([{ rule: 'communication', ranks: [0, 1] }]);
  expect(Math.abs((without[0]?.share ?? 0) - (withSteps[0]?.share ?? 0))).toBeLessThan(0.1);
});

test('tensor cores are missed on devices whose kernels tell by their names, and on no others', () => {
  const plain = (call: string) => (text: string) => text.replaceAll('sm90_xmma_gemm', 'gemm').replaceAll('cudaLaunchKernel', call);
  const missed = (call: string) => rulesOf({ seed: 7, ranks: 1, steps: 2 }, plain(call)).filter(({ rule }) => rule === 'tensor_cores');
  expect(missed('cudaLaunchKernel')).toMatchObject([{ ranks: [0], threshold: 0 }]);
  expect(missed('hipExtModuleLaunchKernel')).toHaveLength(1);
  expect(missed('urEnqueueKernelLaunch')).toEqual([]);
});

test("a graph's launch is one, and the pauses between its kernels are none of launches", () => {
  const traceEvents: object[] = [];
  const span = (cat: string, name: string, ts: number, dur: number, args: object = {}, pid = 9): number =>
    traceEvents.push({ ph: 'X', cat, name, pid, tid: 7, ts, dur, args });
  for (let step = 0; step < 4; step++) {
    const at = 1000 * step;
    span('user_annotation', `ProfilerStep#${step}`, at, 1000);
    span('cuda_runtime', 'cudaGraphLaunch', at + 5, 20, { correlation: step + 1 });
    for (let kernel = 0; kernel < 100; kernel++)
      span('kernel', 'of_graph', at + 30 + 9 * kernel, 7, { correlation: step + 1, device: 0, stream: 7 }, 0);
  }
  const gpus = new GpuSink();
  finish(mergeRun(sourcesOfKineto([tableOfKineto(JSON.stringify({ traceEvents }))]), gpus));
  const { ranks, recommendations: rules } = gpus.summary;
  expect(ranks[0]?.idle.byCause.launch).toBeGreaterThan(0.15 * (ranks[0]?.totals.length ?? 0));
  expect(rules.map(({ rule }) => rule)).not.toContain('launches');
  expect(ranks[0]?.launches).toEqual({
    ...{ launched: 4, withoutLaunch: 0, callMean: 20 * us, shorterThanCall: 0 },
    delay: { mean: 5 * us, p50: expect.closeTo(5 * us, -2), p95: expect.closeTo(5 * us, -2), max: 5 * us },
  });
});

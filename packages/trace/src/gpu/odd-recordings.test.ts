// Recordings that nobody planned: each row is a small file and what its devices did, worked out by hand. Parts are exactly the step.

import { describe, expect, test } from 'vitest';
import { mergeRun } from '../merge/merge-run.ts';
import type { BatchSource } from '../model/batch-source.ts';
import { finish } from '../model/finish.ts';
import { teeSink } from '../model/tee-sink.ts';
import { sourceOfKineto, sourcesOfAttempts, sourcesOfKineto, tableOfKineto } from '../testing/merged-kineto.ts';
import { GpuBlameSink } from './gpu-blame.ts';
import { GpuSink } from './gpu-sink.ts';
import type { GpuRank } from './gpu-summary.ts';
import type { IdleParts } from './idle-time.ts';

type Row = Readonly<Record<string, unknown>>;

/** Times in µs. */
const event = (
  cat: string,
  name: string,
  place: { readonly pid: number; readonly tid: number },
  ts: number,
  dur: number,
  args: Row = {},
) => ({
  ...{ ph: 'X', cat, name, ...place, ts: 1000 + ts, dur, args },
});
const host = { pid: 9, tid: 1 };
const step = (number: number, from: number, until: number): Row =>
  event('user_annotation', `ProfilerStep#${number}`, host, from, until - from);
const call = (correlation: number, ts: number, name = 'cudaLaunchKernel'): Row => event('cuda_runtime', name, host, ts, 2, { correlation });
const work = (correlation: number, from: number, until: number, { device = 0, stream = 7, cat = 'kernel', name = 'gemm' } = {}): Row =>
  event(cat, name, { pid: device, tid: stream }, from, until - from, { device, stream, correlation });
const nccl = 'ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)';

/** µs: length, compute, overlapped, exposed, copies, idle. */
type Shares = readonly [number, number, number, number, number, number];

interface Case {
  readonly name: string;
  readonly events: readonly Row[];
  /** By step; without steps that of the whole. */
  readonly shares: readonly Shares[];
  /** µs, of all steps. */
  readonly idle: Partial<IdleParts>;
  readonly verdict: string;
}

const cases: readonly Case[] = [
  {
    name: 'one rank, one stream, one step',
    events: [step(3, 0, 100), call(1, 10), work(1, 15, 45), call(2, 50), work(2, 60, 90)],
    shares: [[100, 60, 0, 0, 0, 40]],
    idle: { hostLate: 10 + 5 + 10, launch: 5 + 10 },
    verdict: 'host_bound',
  },
  {
    name: 'no ProfilerStep',
    events: [call(1, 10), work(1, 15, 45), call(2, 50), work(2, 60, 90)],
    shares: [[75, 60, 0, 0, 0, 15]],
    idle: { hostLate: 5, launch: 10 },
    verdict: 'host_bound',
  },
  {
    name: 'two GPUs in one process: what either does counts',
    events: [
      step(3, 0, 100),
      call(1, 0),
      work(1, 5, 45),
      call(2, 2),
      work(2, 30, 80, { device: 1 }),
      call(3, 4),
      work(3, 40, 90, { name: nccl }),
    ],
    shares: [[100, 35, 40, 10, 0, 15]],
    idle: { hostLate: 10, launch: 5 },
    verdict: 'host_bound',
  },
  {
    name: 'steps that overlap: work belongs to the later one, and time to one of them',
    events: [step(3, 0, 60), step(4, 50, 100), call(1, 10), work(1, 20, 50), call(2, 55), work(2, 60, 90)],
    shares: [
      [60, 30, 0, 0, 0, 30],
      [40, 30, 0, 0, 0, 10],
    ],
    idle: { hostLate: 10 + 5 + 10, launch: 10 + 5 },
    verdict: 'host_bound',
  },
  {
    name: 'kernels without launch are busy, and the reason of the pause before them is unknown',
    events: [step(3, 0, 100), call(1, 0), work(1, 2, 10), work(0, 20, 50), call(2, 55), work(2, 60, 90)],
    // The launch of the work behind it on its stream came within 100 µs after its start: it was the host.
    shares: [[100, 68, 0, 0, 0, 32]],
    idle: { hostLate: 10 + 5 + 10, launch: 2 + 5 },
    verdict: 'host_bound',
  },
  {
    name: 'kernels of which no launch was recorded',
    events: [step(3, 0, 100), work(0, 20, 50), work(0, 60, 90)],
    shares: [[100, 60, 0, 0, 0, 40]],
    idle: { other: 20 + 10 + 10 },
    verdict: 'inconclusive',
  },
  {
    name: 'launches of one step that run in the next two: windows follow the work',
    events: [
      ...[step(3, 0, 20), step(4, 20, 40), step(5, 40, 100)],
      ...[call(1, 2), call(2, 4), work(1, 10, 50), work(2, 50, 70), call(3, 25), work(3, 70, 75), call(4, 45), work(4, 75, 90)],
    ],
    shares: [
      [70, 60, 0, 0, 0, 10],
      [5, 5, 0, 0, 0, 0],
      [25, 15, 0, 0, 0, 10],
    ],
    idle: { hostLate: 2 + 10, launch: 8 },
    verdict: 'host_bound',
  },
  {
    name: 'a kernel that started before the recording counts to no step, and the first step begins when it ends',
    events: [step(3, 0, 100), work(900, -50, 30), call(1, 10), work(1, 30, 100)],
    shares: [[70, 70, 0, 0, 0, 0]],
    idle: {},
    verdict: 'balanced',
  },
  {
    name: 'kernels of no length',
    events: [step(3, 0, 100), call(1, 0), work(1, 10, 10), call(2, 20), work(2, 25, 100), call(3, 30), work(3, 100, 100)],
    shares: [[100, 75, 0, 0, 0, 25]],
    idle: { hostLate: 20, launch: 5 },
    verdict: 'host_bound',
  },
  {
    name: 'a CUDA graph: one launch, many kernels',
    events: [
      step(3, 0, 100),
      call(1, 0, 'cudaGraphLaunch'),
      work(1, 10, 40),
      work(1, 45, 60),
      work(1, 60, 90),
      work(1, 50, 95, { stream: 8, name: nccl }),
    ],
    shares: [[100, 35, 40, 5, 0, 20]],
    // Kernels of the graph wait for nothing new: the pauses between them are the device's own.
    idle: { hostLate: 5, launch: 15 },
    verdict: 'host_bound',
  },
  {
    name: 'copies beside kernels, and alone',
    events: [
      ...[step(3, 0, 100), call(1, 0), work(1, 0, 30, { cat: 'gpu_memcpy', name: 'Memcpy HtoD', stream: 8 }), call(2, 5), work(2, 10, 60)],
      ...[call(3, 40), work(3, 60, 100, { cat: 'gpu_memset', name: 'Memset (Device)' })],
    ],
    shares: [[100, 50, 0, 0, 50, 0]],
    idle: {},
    verdict: 'copy_bound',
  },
  {
    name: 'kernels that lie in each other on one stream',
    events: [step(3, 0, 100), call(1, 0), work(1, 0, 80), call(2, 1), work(2, 20, 40), call(3, 2), work(3, 20, 90, { name: nccl })],
    shares: [[100, 20, 60, 10, 0, 10]],
    idle: { hostLate: 10 },
    verdict: 'host_bound',
  },
  {
    name: 'a step without any work',
    events: [step(3, 0, 50), step(4, 50, 100), call(1, 60), work(1, 65, 100)],
    shares: [
      [50, 0, 0, 0, 0, 50],
      [50, 35, 0, 0, 0, 15],
    ],
    idle: { hostLate: 50 + 10, launch: 5 },
    verdict: 'host_bound',
  },
  {
    name: 'work that begins before its call, by the clocks of host and device',
    events: [step(3, 0, 100), call(1, 10), work(1, 5, 95)],
    shares: [[100, 90, 0, 0, 0, 10]],
    idle: { hostLate: 5 + 5 },
    verdict: 'host_bound',
  },
];

const tablesOf = (files: readonly (readonly Row[])[]) => files.map((traceEvents) => tableOfKineto(JSON.stringify({ traceEvents })));
const analysed = (files: readonly (readonly Row[])[]) => analysedSources(sourcesOfKineto(tablesOf(files)));

function analysedSources(sources: readonly BatchSource[]) {
  const gpus = new GpuSink();
  const blame = new GpuBlameSink(gpus);
  finish(mergeRun(sources, teeSink(gpus, blame)));
  const { ranks, segments: path, worth, recommendations, attempt } = gpus.summary;
  return { ranks, blame: blame.blame, path, worth, recommendations, attempt };
}

const sumOf = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0);

describe.each(cases)('$name', ({ events, shares, idle, verdict }) => {
  const { ranks, blame } = analysed([events]);
  const [rank] = ranks as [GpuRank];

  test('the shares are those worked out by hand, and add up to the step', () => {
    const found = (rank.steps.length > 0 ? rank.steps : [rank.totals]).map((one) => {
      const { length, compute, overlapped, exposed, copies, idle: none } = one;
      expect(compute + overlapped + exposed + copies + none).toBe(length);
      return [length, compute, overlapped, exposed, copies, none].map((time) => time / 1000);
    });
    expect(found).toEqual(shares);
    for (const one of rank.steps) expect(sumOf(Object.values(one.idleBy))).toBe(one.idle);
    const { length, compute, overlapped, exposed, copies, idle: none } = rank.totals;
    expect(compute + overlapped + exposed + copies + none).toBe(length);
  });

  test('idle time has its causes', () => {
    const causes = Object.entries(rank.idle.byCause).map(([cause, time]) => [cause, time / 1000]);
    expect(Object.fromEntries(causes)).toEqual({ hostLate: 0, launch: 0, dependency: 0, other: 0, ...idle });
    expect(sumOf(rank.idle.places.map(({ time }) => time))).toBeCloseTo(rank.totals.idle, 3);
  });

  test('blame answers', () => expect(blame?.verdict).toBe(verdict));

  test('beside a copy of itself the rank is the same, and no rank is to blame', () => {
    const both = analysed([events, events]);
    expect(both.ranks.map(({ totals }) => totals)).toEqual([rank.totals, rank.totals]);
    expect(both.blame?.findings.flatMap(({ ranks: named }) => named) ?? []).toEqual([]);
  });
});

test('a kernel whose collective cannot be matched has the group and the size that torch recorded', () => {
  const said = { 'Collective name': 'send', 'Process Group Name': 'pp', 'In msg nelems': 1000, dtype: 'Float', 'Group size': 2 };
  const kernel = event('kernel', 'ncclDevKernel_SendRecv(x)', { pid: 0, tid: 20 }, 5, 40, { stream: 20, correlation: 1, ...said });
  const { ranks } = analysed([[step(3, 0, 100), call(1, 0), kernel, call(2, 50), work(2, 60, 70, { name: nccl })]]);
  const lines = ranks[0]?.overlap.map(({ group, kernels, total, bytes, busBandwidth }) => [group, kernels, total, bytes, busBandwidth]);
  expect(lines?.slice(1)).toEqual([
    ['pp', 1, 40_000, 4000, 1e8],
    ['default', 1, 10_000, 0, undefined],
  ]);
});

test('two ranks whose kernels name their group alone are not matched by it', () => {
  const kernel = (from: number) =>
    event('kernel', 'ncclDevKernel_SendRecv(x)', { pid: 0, tid: 20 }, from, 40, { stream: 20, correlation: 1, 'Process Group Name': 'pp' });
  const { path } = analysed([5, 45].map((from) => [step(3, 0, 100), call(1, 0), kernel(from)]));
  const { path: alone } = analysed([[step(3, 0, 100), call(1, 0), kernel(45)]]);
  expect(path?.byBound).toEqual(alone?.byBound);
});

test('collectives of our own Chrome JSON, read again, are communication by the name of their kernel', () => {
  const args = { device: 0, stream: 7, correlation: 1, op: 'all_reduce', group: '0', bytes: 4000, event: nccl };
  const stream = { ph: 'M', name: 'thread_name', pid: 0, tid: 7, args: { name: 'GPU 0 · stream 7' } };
  const { ranks } = analysed([[stream, step(3, 0, 100), call(1, 0), event('collective', 'all_reduce', { pid: 0, tid: 7 }, 10, 50, args)]]);
  expect(ranks[0]?.totals).toMatchObject({ compute: 0, exposed: 50_000 });
  expect(ranks[0]?.kernels.byName.lines.map(({ name, class: of }) => [name, of])).toEqual([[nccl, 'communication']]);
  expect(ranks[0]?.overlap[1]).toMatchObject({ group: '0', bytes: 4000 });
});

test('an empty device: a rank whose trace has a stream without work has no figures', () => {
  const sync = event('cuda_sync', 'Stream Sync', { pid: 0, tid: 7 }, 10, 5, { device: 0, stream: 7, correlation: 3 });
  const { ranks, blame } = analysed([[step(3, 0, 100), call(3, 10, 'cudaStreamSynchronize'), sync]]);
  expect([ranks, blame]).toEqual([[], undefined]);
});

test('one rank has a device and the other none: no blame of devices, and figures of the one', () => {
  const [one] = cases as [Case];
  const { ranks, blame } = analysed([one.events, [step(3, 0, 100), event('cpu_op', 'aten::mm', host, 5, 50)]]);
  expect([ranks.map(({ rank }) => rank), blame]).toEqual([[0], undefined]);
});

test('of a rank whose source tells that it has no device only steps are held, and the figures are the same', () => {
  const [one] = cases as [Case];
  const files = [one.events, [step(3, 0, 100), event('cpu_op', 'aten::mm', host, 5, 50)]];
  const sources = () => sourcesOfKineto(files.map((traceEvents) => tableOfKineto(JSON.stringify({ traceEvents }))));
  const silent = sources().map((source): BatchSource => {
    const { rank, incarnation, count, missing } = source;
    return { rank, incarnation, count, missing, batch: (index, only) => source.batch(index, only) };
  });
  const [told, untold] = [sources(), silent].map((given) => {
    const gpus = new GpuSink();
    finish(mergeRun(given, gpus));
    return {
      held: gpus.record.ranks.filter(({ work }) => work.host.length > 0).map(({ process }) => process.rank),
      figures: gpus.summary.ranks.map(({ rank, totals }) => ({ rank, totals })),
    };
  });
  expect([told?.held, untold?.held]).toEqual([[0], [0, 1]]);
  expect(told?.figures).toEqual(untold?.figures);
  expect(told?.figures).toHaveLength(1);
});

test('steps that overlap, of which the last has no work: the path is that of one step', () => {
  const steps = [step(3, 0, 20), step(4, 20, 40), step(5, 100, 120)];
  const { path } = analysed([[...steps, call(1, 2), work(1, 10, 60), call(2, 25), work(2, 60, 100)]]);
  expect(path).toMatchObject({ step: 4, total: 40_000, byBound: { compute: 40_000 } });
});

test('the path of a step without work is its host', () => {
  const op = event('cpu_op', 'aten::add', host, 150, 10);
  const { path, worth } = analysed([[step(3, 0, 140), call(1, 10), work(1, 20, 120), step(4, 140, 180), op]]);
  expect(path).toMatchObject({ step: 4, total: 40_000, byBound: { cpu: 40_000 } });
  expect(worth[0]).toMatchObject({ bound: 'cpu', onPath: 40_000, savesAtZero: 40_000 });
});

test('kernels of no length: the path goes through what they waited for', () => {
  const calls = [call(1, 5), call(2, 12), call(3, 20), call(4, 24)];
  const kernels = [
    ...[work(1, 10, 30), work(2, 31, 80, { stream: 20, name: nccl })],
    ...[work(3, 82, 82, { name: 'adam' }), work(4, 83, 83, { name: 'adam' })],
  ];
  const { path } = analysed([[step(3, 0, 100), ...calls, ...kernels, event('cuda_runtime', 'cudaDeviceSynchronize', host, 30, 55)]]);
  expect(path?.byBound).toMatchObject({ compute: 20_000, communication: 49_000, gap: 4000 });
});

test.each([
  ...['cudaDeviceSynchronize', 'hipStreamSynchronize', 'hipMemcpyWithStream', 'urQueueFinish', 'urEventWait', 'zeEventHostSynchronize'],
])('%s waits for the device: its time is no work of the host', (wait) => {
  const waiting = (until: number): Row => event('cuda_runtime', wait, host, 8, until - 8);
  const { path, worth } = analysed([[step(3, 0, 100), call(1, 5), work(1, 10, 80), waiting(82)]]);
  expect(path?.byBound).toMatchObject({ compute: 70_000, cpu: 25_000 });
  expect(worth[0]).toMatchObject({ name: 'gemm', bound: 'compute', savesAtHalf: 35_000 });
  const { ranks } = analysed([[step(3, 0, 100), call(1, 5), work(1, 10, 40), waiting(68), call(2, 70), work(2, 80, 90)]]);
  expect(ranks[0]?.steps[0]?.idleBy.dependency).toBe(28_000);
});

/** Steps of `1000 + late` µs with a kernel of 800 µs and an all-reduce; where the host is late, both begin later, else the all-reduce takes longer. */
function longSteps(lateness: readonly number[], isHost: boolean): Row[] {
  let at = 0;
  return lateness.flatMap((late, number) => {
    const from = at;
    at += 1000 + late;
    const begin = from + (isHost ? late : 0);
    const calls = [call(2 * number + 1, begin + 5), call(2 * number + 2, begin + 20)];
    const ofGroup = {
      'Collective name': 'allreduce',
      'Process Group Name': '0',
      'In msg nelems': 9,
      dtype: 'Float',
      'Group size': 2,
      Seq: number + 1,
    };
    const place = { device: 0, stream: 20, correlation: 2 * number + 2, ...ofGroup };
    const all = event('kernel', nccl, { pid: 0, tid: 20 }, begin + 811, 160 + (isHost ? 0 : late), place);
    return [step(number, from, at), ...calls, work(2 * number + 1, begin + 10, begin + 810), all];
  });
}

test.each([
  [true, 'host_bound'],
  [false, 'communication_bound'],
] as const)("what changed since a run's beginning is said in the words of devices (hosts are late: %s): %s", (isHost, kind) => {
  const lateness = Array.from({ length: 200 }, (_, number) => (number < 150 ? 0 : 600));
  const { blame } = analysed([longSteps(lateness, isHost), longSteps(lateness, isHost)]);
  expect(blame?.last.change).toMatchObject({ kind });
});

test('one file of eight ranks: what its kernels of communication take may be waiting for the others, and it is said so', () => {
  const events = longSteps([900, 900, 900, 900], false);
  const of = (worldSize: number) =>
    analysedSources([sourceOfKineto(tablesOf([events])[0] as ReturnType<typeof tableOfKineto>, 0, worldSize)]);
  const adviceOf = ({ recommendations }: ReturnType<typeof of>) => recommendations.find(({ rule }) => rule === 'communication')?.advice;
  const [one, eight] = [of(1), of(8)];
  for (const { blame } of [one, eight]) expect(blame?.verdict).toBe('communication_bound');
  expect(eight.blame?.findings[0]?.evidence).toContain('it communicates, or waits for ranks that are not here: 7 of 8');
  expect(adviceOf(eight)).toMatch(/; part of that time may be waiting for ranks that are not here \(7\)$/);
  expect(one.blame?.findings[0]?.evidence.join()).not.toContain('not here');
  expect(adviceOf(one)).toMatch(/overlap with backward$/);
});

test('a job that was started again is advised by its last attempt, and it is said which', () => {
  const [late, sound] = [longSteps([5000, 5000, 5000], true), longSteps([0, 0, 0], true)];
  const shifted = sound.map((row) => ({ ...row, ts: (row.ts as number) + 100_000 }));
  const again = analysedSources(sourcesOfAttempts([tablesOf([late, late]), tablesOf([shifted, shifted])]));
  expect(again.ranks.map(({ rank, attempt }) => [rank, attempt])).toEqual([0, 0, 1, 1].map((rank, at) => [rank, at % 2]));
  expect(again.attempt).toBe(1);
  const last = analysed([shifted, shifted]);
  expect(again.recommendations).toEqual(last.recommendations);
  expect(last.attempt).toBeUndefined();
  expect(analysed([late, late]).recommendations.map(({ rule }) => rule)).toContain('host_late');
});

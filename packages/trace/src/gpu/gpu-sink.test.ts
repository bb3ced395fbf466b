// Simulated GPU jobs with faults planted in them: the sums agree with a plain calculation over the files, and each fault is named with its cost.

import { describe, expect, test } from 'vitest';
import { seedCount, someSeeds } from '../../../../test/setup/seeds.ts';
import { mergeRun } from '../merge/merge-run.ts';
import { finish } from '../model/finish.ts';
import { Random } from '../simulate/random.ts';
import { type GpuJobOptions, gpuJob } from '../testing/gpu-job.ts';
import type { GpuFault } from '../testing/gpu-job-rank.ts';
import { sourcesOfKineto, tableOfKineto } from '../testing/merged-kineto.ts';
import { plainGpuTimes } from '../testing/plain-gpu-times.ts';
import { GpuSink } from './gpu-sink.ts';
import type { GpuRank, GpuSummary } from './gpu-summary.ts';

const us = 1000;
const ms = 1000 * us;

function summaryOf(texts: readonly string[], htaCompatible = false): GpuSummary {
  const sink = new GpuSink({ htaCompatible });
  finish(mergeRun(sourcesOfKineto(texts.map(tableOfKineto)), sink));
  return sink.summary;
}

const soundJobs = seedCount(200);
const textsOf = (options: GpuJobOptions): string[] => gpuJob(options).files.map(({ text }) => text);
const ranksOf = (options: GpuJobOptions): readonly GpuRank[] => summaryOf(textsOf({ ranks: 4, ...options })).ranks;
const sumOf = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0);

describe.each(['today', '2022', '2021'] as const)('files of %s', (vintage) => {
  test.each(someSeeds([3, 17, 4711]))('a plain calculation over the text agrees (seed %i)', (seed) => {
    const texts = textsOf({ seed, ranks: 4, steps: 3, vintage });
    const { ranks, leftOut } = summaryOf(texts);
    expect(ranks.map(({ rank }) => rank)).toEqual([0, 1, 2, 3]);
    expect(leftOut).toBe(0);
    for (const text of texts) {
      const expected = plainGpuTimes(text);
      // Alone, as aligned clocks may run up to 50 ppm from the file's own.
      const [found] = summaryOf([text]).ranks as [GpuRank];
      const close = (value: number | undefined, wanted: number): void =>
        expect(Math.abs((value as number) / us - wanted)).toBeLessThan(0.05);
      expect(found.steps.map(({ step }) => `ProfilerStep#${step}`)).toEqual(expected.steps.map(({ name }) => name));
      for (const [at, step] of expected.steps.entries()) {
        const parts = found.steps[at];
        for (const part of ['length', 'compute', 'overlapped', 'exposed', 'copies', 'idle'] as const) close(parts?.[part], step[part]);
      }
      expect([found.kernels.count, sumOf(found.copies.map(({ bytes }) => bytes))]).toEqual([expected.kernels, expected.copiedBytes]);
      close(found.kernels.total, expected.kernelTime);
      close(found.overlap[0]?.exposed, expected.exposed);
    }
  });
});

test('a summary is made in pieces: it yields after each table of each rank', () => {
  const sink = new GpuSink();
  finish(mergeRun(sourcesOfKineto(textsOf({ seed: 1, ranks: 4 }).map(tableOfKineto)), sink));
  let pieces = 0;
  for (const _ of sink.summing()) pieces++;
  expect(pieces).toBeGreaterThan(4 * 12);
});

test.each(someSeeds([1, 2, 3, 5, 8]))(
  'parts add up: steps to their length, causes to idle time, tables to all kernels (seed %i)',
  (seed) => {
    for (const { steps, totals, idle, kernels, overlap } of ranksOf({ seed })) {
      for (const { length, compute, overlapped, exposed, copies, idle: none, idleBy, start, end } of steps) {
        expect(compute + overlapped + exposed + copies + none).toBe(length);
        expect(end - start).toBe(length);
        expect(sumOf(Object.values(idleBy))).toBe(none);
      }
      expect(sumOf(Object.values(idle.byCause))).toBe(totals.idle);
      expect(sumOf(idle.places.map(({ time }) => time))).toBeCloseTo(totals.idle, 3);
      for (const { lines, rest } of [kernels.byName, kernels.byOp, kernels.byModule, kernels.byPhase]) {
        expect(sumOf(lines.map(({ total }) => total)) + rest.total).toBe(kernels.total);
      }
      const [all, ...groups] = overlap;
      expect(groups.map(({ group }) => group.replace(/ \[.*/, '')).sort()).toEqual(['0', '1']);
      expect(sumOf(groups.map(({ kernels: count }) => count))).toBe(all?.kernels);
      for (const { overlapped, exposed, total } of overlap) expect(overlapped + exposed).toBe(total);
    }
  },
);

/** Both summaries of one job: as it is, and with faults. */
function withFaults(
  seed: number,
  faults: readonly GpuFault[],
): { readonly sound: readonly GpuRank[]; readonly faulty: readonly GpuRank[] } {
  return { sound: ranksOf({ seed, steps: 5 }), faulty: ranksOf({ seed, steps: 5, faults }) };
}

/** By rank: what a part of a step grew by, the mean of the steps that both have. */
const growth = (sound: readonly GpuRank[], faulty: readonly GpuRank[], of: (step: GpuRank['steps'][number]) => number): number[] =>
  faulty.map(({ steps }, rank) => {
    const before = sound[rank]?.steps ?? [];
    return (sumOf(steps.map(of)) - sumOf(before.map(of))) / steps.length;
  });

const within = (value: number, wanted: number, share = 0.1): void => expect(Math.abs(value / wanted - 1)).toBeLessThan(share);

describe.each(someSeeds([1, 7, 23, 104]))('planted faults are named with their cost (seed %i)', (seed) => {
  test('late data: the devices of that rank wait for the host in `data`, those of others for the collective', () => {
    const { sound, faulty } = withFaults(seed, [{ kind: 'late_data', rank: 2, amount: 3 * ms }]);
    const [place] = faulty[2]?.idle.places ?? [];
    expect(place).toMatchObject({ cause: 'hostLate', phase: 'data' });
    within((place?.time as number) / (faulty[2]?.steps.length as number), 3 * ms);
    const late = growth(sound, faulty, ({ idleBy }) => idleBy.hostLate);
    within(late[2] as number, 3 * ms);
    const waited = growth(sound, faulty, ({ exposed }) => exposed);
    for (const rank of [0, 1, 3]) {
      within((waited[rank] as number) + (late[rank] as number), 3 * ms, 0.2);
      expect(waited[rank]).toBeGreaterThan(2 * ms);
    }
  });

  test('a host-bound forward: the gaps lie in its phase and op', () => {
    const { faulty } = withFaults(seed, [{ kind: 'slow_host', amount: 400 * us }]);
    for (const { idle, steps } of faulty) {
      const [place] = idle.places;
      expect(place).toMatchObject({ cause: 'hostLate', phase: 'forward', op: 'aten::linear' });
      // Six layers, of whose 400 µs their own kernel of about 60 µs hides some.
      within((place?.time as number) / steps.length, 6 * (400 - 60) * us, 0.12);
    }
  });

  test('work that waits for an event is a dependency, whoever launched it long before', () => {
    const { sound, faulty } = withFaults(seed, [{ kind: 'stalled', rank: 1, amount: 2 * ms }]);
    const grown = growth(sound, faulty, ({ idleBy }) => idleBy.dependency);
    within(grown[1] as number, 2 * ms);
    expect(grown[0]).toBeLessThan(0.1 * ms);
  });

  test('slow kernels on one rank: more compute there, waiting elsewhere', () => {
    const { sound, faulty } = withFaults(seed, [{ kind: 'slow_kernels', rank: 3, amount: 1.5 }]);
    const gemm = (rank: GpuRank | undefined): number => {
      const lines = rank?.kernels.byName.lines.filter(({ name }) => name.startsWith('sm90_xmma_gemm')) ?? [];
      return sumOf(lines.map(({ total }) => total)) / sumOf(lines.map(({ count }) => count));
    };
    within(gemm(faulty[3]) / gemm(sound[3]), 1.5, 0.01);
    within(gemm(faulty[0]) / gemm(sound[0]), 1, 0.01);
    const exposed = growth(sound, faulty, (step) => step.exposed);
    const longer = growth(sound, faulty, (step) => step.length);
    for (const rank of [0, 1, 2]) within(exposed[rank] as number, longer[rank] as number, 0.2);
    const computed = growth(sound, faulty, ({ compute, overlapped }) => compute + overlapped);
    expect(computed[3]).toBeGreaterThan(10 * Math.abs(computed[0] as number));
  });

  test('slow transfers: more exposed communication everywhere, no more idle time', () => {
    const { sound, faulty } = withFaults(seed, [{ kind: 'slow_transfers', amount: 3 }]);
    const [exposed, longer] = [growth(sound, faulty, (step) => step.exposed), growth(sound, faulty, (step) => step.length)];
    for (const rank of [0, 1, 2, 3]) within(exposed[rank] as number, longer[rank] as number, 0.1);
    for (const [rank, { overlap }] of faulty.entries()) {
      expect(overlap[0]?.share as number).toBeLessThan(sound[rank]?.overlap[0]?.share as number);
    }
  });
});

test(`${soundJobs} sound jobs: no rank has a dependency, or idles much more than the others`, () => {
  for (let seed = 1000; seed < 1000 + soundJobs; seed++) {
    const ranks = ranksOf({ seed, ranks: 2, steps: 2, layers: 3 });
    for (const { idle, totals } of ranks) expect(idle.byCause.dependency / totals.length).toBeLessThan(0.05);
    const shares = ranks.map(({ totals }) => totals.idle / totals.length);
    expect(Math.max(...shares) - Math.min(...shares)).toBeLessThan(0.15);
  }
});

test('a rank without device work is left out; a job without any has no ranks', () => {
  expect(summaryOf(['{"traceEvents": []}']).ranks).toEqual([]);
  const op = '{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 0, "dur": 5}';
  expect(summaryOf([`{"traceEvents": [${op}]}`]).ranks).toEqual([]);
});

test('without steps, the figures cover the time from the first work to the end of the last', () => {
  const kernel = (ts: number, dur: number, stream: number): object => {
    return { ph: 'X', cat: 'kernel', name: 'gemm', pid: 0, tid: stream, ts, dur, args: { device: 0, stream, correlation: ts } };
  };
  const call = (ts: number, correlation: number): object => {
    return { ph: 'X', cat: 'cuda_runtime', name: 'cudaLaunchKernel', pid: 9, tid: 9, ts, dur: 2, args: { correlation } };
  };
  // Two kernels overlap; then 30 µs for the host until its call, 6 to the start, 40 after a launch of long ago, and one without a call.
  const traceEvents = [kernel(10, 20, 7), kernel(25, 15, 8), kernel(76, 4, 7), kernel(120, 5, 7), kernel(130, 5, 7)];
  traceEvents.push(call(1, 10), call(3, 25), call(70, 76), call(72, 120));
  const [rank] = summaryOf([JSON.stringify({ traceEvents })]).ranks as [GpuRank];
  expect(rank.steps).toEqual([]);
  expect(rank.totals).toEqual({ length: 125 * us, compute: 44 * us, overlapped: 0, exposed: 0, copies: 0, idle: 81 * us });
  expect(rank.idle.byCause).toEqual({ hostLate: 30 * us, launch: 6 * us, dependency: 40 * us, other: 5 * us });
  // All of it but the device's own pause before the late kernel.
  expect(rank.idle.hostBound).toBeCloseTo(35 * us, 6);
  expect(rank.launches).toMatchObject({ launched: 4, withoutLaunch: 1, shorterThanCall: 0 });
  expect(rank.queues.map(({ stream, max }) => [stream, max])).toEqual([
    [7, 2],
    [8, 1],
  ]);
});

test('between two cycles of a profiler nothing was recorded: utilisation, occupancy and queues are those of the steps', () => {
  const traceEvents: object[] = [];
  const span = (cat: string, name: string, ts: number, dur: number, args: object = {}, pid = 9): number =>
    traceEvents.push({ ph: 'X', cat, name, pid, tid: 7, ts, dur, args });
  for (const number of [1, 2, 3, 101, 102, 103]) {
    const at = 1000 * number;
    span('user_annotation', `ProfilerStep#${number}`, at, 1000);
    span('cuda_runtime', 'cudaLaunchKernel', at + 2, 5, { correlation: number });
    const shape = { 'blocks per SM': 0.5, 'est. achieved occupancy %': 40 };
    span('kernel', 'add', at + 102, 800, { correlation: number, device: 0, stream: 7, ...shape }, 0);
  }
  const [rank] = summaryOf([JSON.stringify({ traceEvents })]).ranks as [GpuRank];
  expect(rank.totals.length).toBe(6000 * us);
  const [device] = rank.devices;
  within(device?.utilisation ?? 0, 0.8, 1e-6);
  within(device?.smEfficiency ?? 0, 0.4, 1e-6);
  within(device?.occupancy ?? 0, 0.4, 1e-6);
  // From the first call to the last begin of work.
  within(rank.queues[0]?.mean ?? 0, (6 * 100) / (6000 - 2 - 898), 1e-6);
});

test.each([9, 20, 40, 80])(
  'in a queue that stays full each launch waits for a kernel, of %i µs: that is no pace of the host',
  (kernelUs) => {
    const [steps, launches, room, callUs, everyUs] = [8, 800, 1022, 5, 7] as const;
    const traceEvents: object[] = [];
    const begins: number[] = [];
    let [host, free, blocked] = [0, 0, 0];
    for (let step = 0; step < steps; step++) {
      const begin = host;
      for (let at = 0; at < launches; at++) {
        const correlation = begins.length + 1;
        const hasRoom = Math.max(host, begins[begins.length - room] ?? 0);
        blocked += hasRoom - host;
        const call = { ph: 'X', cat: 'cuda_runtime', name: 'cudaLaunchKernel', pid: 9, tid: 9, ts: host, dur: hasRoom - host + callUs };
        const ts = Math.max(hasRoom + callUs + 4, free + 1);
        const kernel = {
          ph: 'X',
          cat: 'kernel',
          name: 'gemm',
          pid: 0,
          tid: 7,
          ts,
          dur: kernelUs,
          args: { device: 0, stream: 7, correlation },
        };
        traceEvents.push({ ...call, args: { correlation } }, kernel);
        begins.push(ts);
        free = ts + kernelUs;
        host = hasRoom + everyUs;
      }
      traceEvents.push({ ph: 'X', cat: 'user_annotation', name: `ProfilerStep#${step}`, pid: 9, tid: 9, ts: begin, dur: host - begin });
    }
    const { ranks, worth } = summaryOf([JSON.stringify({ traceEvents })]);
    within(ranks[0]?.queues[0]?.blocked ?? 0, blocked * us, 0.01);
    const compute = worth.find(({ bound, name }) => bound === 'compute' && name === undefined);
    for (const [saved, factor] of [
      [compute?.savesAtHalf, 0.5],
      [compute?.savesAtZero, 0],
    ] as const) {
      within(saved ?? 0, launches * (kernelUs + 1 - Math.max(everyUs, factor * kernelUs + 1)) * us, 0.05);
    }
  },
);

describe('any events', () => {
  /** Events of all kinds with overlaps, no lengths, wrong and missing arguments, shared correlations, waits for what never was. */
  function soup(seed: number): string {
    const random = new Random(seed, 'soup');
    const pick = <Value>(values: readonly Value[]): Value => values[Math.floor(random.uniform(0, values.length))] as Value;
    const number = (most: number): number => Math.floor(random.uniform(0, most));
    const traceEvents = Array.from({ length: 600 }, () => {
      const cat = pick([
        'kernel',
        'gpu_memcpy',
        'gpu_memset',
        'cuda_sync',
        'cpu_op',
        'user_annotation',
        'cuda_runtime',
        'python_function',
        'x',
      ]);
      const names = [
        'gemm',
        'ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)',
        'Stream Sync',
        'Event Sync',
        'Context Sync',
        'Stream Wait Event',
      ];
      const host = [
        'aten::mm',
        'forward',
        'autograd::x',
        'cudaLaunchKernel',
        'cudaEventRecord',
        'cudaStreamSynchronize',
        'nn.Module: A',
        '',
      ];
      const isDevice = ['kernel', 'gpu_memcpy', 'gpu_memset', 'cuda_sync'].includes(cat);
      const step = random.uniform(0, 1) < 0.03;
      const args = {
        correlation: pick([number(40), -1, 'x', 2 ** 40, undefined]),
        stream: pick([7, 8, -1, 'x', undefined]),
        device: pick([0, 1, -5, undefined]),
        bytes: pick([number(1e6), -1, 1e300]),
        'blocks per SM': pick([random.uniform(0, 3), -1, 'x', undefined]),
        'est. achieved occupancy %': pick([number(101), undefined]),
        wait_on_stream: pick([7, 8, undefined]),
        wait_on_cuda_event_record_corr_id: number(40),
      };
      const at = { ts: number(5000), dur: pick([0, 0, number(50), number(2000)]) };
      const where = isDevice ? { pid: 0, tid: pick([7, 8, -1]) } : { pid: 9, tid: pick([1, 2]) };
      if (step) return { ph: 'X', cat: 'user_annotation', name: `ProfilerStep#${number(6)}`, pid: 9, tid: 1, ...at };
      return { ph: 'X', cat, name: pick(isDevice ? names : host), ...where, ...at, args };
    });
    return JSON.stringify({ traceEvents });
  }

  test.each(someSeeds(Array.from({ length: 60 }, (_, seed) => seed)))('are summed up, and parts add up (seed %i)', (seed) => {
    for (const htaCompatible of [false, true]) {
      const { ranks } = summaryOf([soup(seed), soup(seed + 1000)], htaCompatible);
      for (const { steps, totals, idle, kernels, devices } of ranks) {
        for (const { length, compute, overlapped, exposed, copies, idle: none, idleBy } of [...steps]) {
          expect(compute + overlapped + exposed + copies + none).toBeCloseTo(length, 3);
          if (!htaCompatible) expect(sumOf(Object.values(idleBy))).toBeCloseTo(none, 3);
        }
        if (!htaCompatible) expect(sumOf(Object.values(idle.byCause))).toBeCloseTo(totals.idle, 3);
        expect(sumOf(kernels.byName.lines.map(({ total }) => total)) + kernels.byName.rest.total).toBeCloseTo(kernels.total, 3);
        for (const { utilisation, occupancy = 0, smEfficiency = 0 } of devices) {
          for (const share of [utilisation, occupancy, smEfficiency]) expect(share >= 0 && share <= 1.0000001).toBe(true);
        }
      }
    }
  });
});

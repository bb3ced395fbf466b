import type { GpuRank, GpuSummary } from '@ranktrace/trace/gpu';
import { describe, expect, it } from 'vitest';
import { formatGpu } from './print-gpu.ts';

const ms = 1e6;
const nothing = { lines: [], rest: { lines: 0, count: 0, total: 0 } };

const silent = { share: 0, saves: undefined };

const rank = (number: number, about: Partial<GpuRank> = {}): GpuRank => ({
  ...{ rank: number, host: 'h', hostName: 'h', incarnation: '1', attempt: 0, from: 0, until: 100 * ms },
  devices: [{ device: 0, utilisation: 0.8, smEfficiency: 0.7, occupancy: 0.5 }],
  totals: { length: 100 * ms, compute: 60 * ms, overlapped: 5 * ms, exposed: 10 * ms, copies: 5 * ms, idle: 20 * ms },
  temporal: { kernelTime: 100 * ms, idle: 20 * ms, compute: 65 * ms, nonCompute: 15 * ms },
  steps: [],
  stepsLeftOut: 0,
  idle: {
    byCause: { hostLate: 15 * ms, launch: 5 * ms, dependency: 0, other: 0 },
    hostBound: 20 * ms,
    places: [{ cause: 'hostLate', phase: 'data', op: 'aten::copy_', time: 12 * ms, gaps: 3 }],
    placesLeftOut: 0,
    streams: [],
  },
  overlap: [],
  kernels: { count: 0, total: 0, tensorCores: 0, tensorCoreOps: 0, byName: nothing, byOp: nothing, byModule: nothing, byPhase: nothing },
  ops: { lines: [], rest: nothing.rest },
  sequences: [],
  annotations: [],
  launches: { launched: 0, withoutLaunch: 0, delay: undefined, callMean: 0, shorterThanCall: 0 },
  queues: [],
  copies: [],
  path: undefined,
  rules: {
    ...{ data_loader: silent, communication: silent, low_utilisation: silent },
    ...{ tensor_cores: silent, host_late: silent, launches: silent, copies: silent },
  },
  ...about,
});

const summary = (ranks: readonly GpuRank[], about: Partial<GpuSummary> = {}): GpuSummary => ({
  ...{ ranks, recommendations: [], path: undefined, worth: [], leftOut: 0, htaCompatible: false },
  ...about,
});

describe('the report of GPUs', () => {
  it('is empty without device work', () => {
    expect(formatGpu(summary([]))).toBe('');
  });

  it('shows shares of the time, and the cause of idleness with its place', () => {
    const [head, line, note] = formatGpu(summary([rank(3)])).split('\n');
    expect(head?.split(/ {2,}/)).toEqual(['GPUs', 'time', 'compute', 'hidden comm.', 'exposed comm.', 'copies', 'idle', 'idle because']);
    expect(line).toBe(
      'rank 3  100 ms   60.0 %         5.0 %         10.0 %   5.0 %  20.0 %  host late 15.0 %, most in data, aten::copy_; launch 5.0 %',
    );
    expect(note).toContain('from the first work to the end of the last: there are no steps');
  });

  it('shows what half of each part of the path would save, and leaves out what saves nothing', () => {
    const byBound = { cpu: 0, compute: 0, communication: 0, copy: 0, gap: 0, launch: 0, none: 0 };
    const segments = { step: 3, total: 40 * ms, byBound };
    const worth = [
      { bound: 'cpu', name: undefined, onPath: 20 * ms, savesAtHalf: 4 * ms, savesAtZero: 5 * ms },
      { bound: 'cpu', name: '', onPath: 8 * ms, savesAtHalf: 2 * ms, savesAtZero: 4 * ms },
      { bound: 'compute', name: 'gemm', onPath: 8 * ms, savesAtHalf: 0, savesAtZero: 0 },
    ] as const;
    const text = formatGpu(summary([rank(0)], { worth, segments: { ...segments, segments: [], leftOut: 0, leftOutTime: 0 } }));
    expect(text).toMatch(/all work of hosts +20\.0 ms +4\.00 ms +10\.0 % +5\.00 ms\nhost, outside of phases +8\.00 ms +2\.00 ms/);
    expect(text).not.toContain('gemm');
  });

  it('shows devices, copies, frequent sequences and spans, with what ranks have of each together', () => {
    const about = (device: number): Partial<GpuRank> => ({
      devices: [{ device, utilisation: 0.5 + device / 10, smEfficiency: 0.4, occupancy: undefined }],
      copies: [{ kind: 'Memcpy HtoD', count: 2, total: ms, bytes: 3 * 2 ** 20, bandwidth: 3e9 + device * 1e9 }],
      sequences: [{ op: 'aten::linear', kernels: ['gemm', 'bias', 'gelu'], count: 4, total: 6 * ms }],
      annotations: [{ name: 'forward', count: 2, total: 8 * ms, mean: 4 * ms, min: 3 * ms, max: 5 * ms, deviation: ms }],
    });
    const text = formatGpu(summary([rank(0, about(0)), rank(1, about(1))], { htaCompatible: true, potentialStragglers: [0, 1] }));
    const rows = text.split('\n').map((line) => line.split(/ {2,}/));
    expect(rows).toContainEqual(['rank 0, GPU 0', '50.0 %', '40.0 %', '-']);
    expect(rows).toContainEqual(['Memcpy HtoD', '4', '2.00 ms', '6.00 MiB', '4.0 GB/s']);
    expect(rows).toContainEqual(['aten::linear', '8', '12.0 ms', '0.0 %', '3', 'gemm …']);
    expect(rows).toContainEqual(['forward', '2', '4', '4.00 ms', '3.00 ms', '5.00 ms']);
    expect(text).toContain("(HTA's potential stragglers: ranks 0, 1; it names two of any job, and this is no verdict)");
  });

  it('cuts long names in their middle, lets no control character through, and says what was left out', () => {
    const name = `void kernel<${'x'.repeat(200)}>\u001b[31m(float*)`;
    const one = { name, class: 'compute', count: 4, total: 8 * ms, mean: 2 * ms, min: ms, max: 3 * ms, share: 1 } as const;
    const lines = [{ ...one, tensorCores: true, blocksPerSm: undefined, occupancy: undefined, longest: { from: 0, until: ms } }];
    const kernels = { ...rank(0).kernels, count: 4, total: 8 * ms, tensorCores: 8 * ms, byName: { ...nothing, lines } };
    const text = formatGpu(summary([rank(0, { kernels })], { leftOut: 12_345 }));
    expect(text).toContain('…');
    expect(text).not.toContain('\u001b');
    expect(text).toContain('tensor cores: 100.0 % of the time of all kernels');
    expect(text).toContain('(12 345 events of GPUs and hosts are left out here: there were too many)');
  });

  it('recommends what rules fire for, with evidence, threshold and gain', () => {
    const loader = { rule: 'data_loader', ranks: [0, 1], share: 0.334, threshold: 0.05, saves: 60 * ms, advice: 'load ahead' } as const;
    const busy = { rule: 'low_utilisation', ranks: [1], share: 0.3, threshold: 0.5, saves: undefined, advice: 'larger batch' } as const;
    const last = (of: GpuRank): string[] =>
      formatGpu(summary([of], { recommendations: [loader, busy] }))
        .split('\n')
        .slice(-3);
    const { idle, totals } = rank(0);
    const step = { step: 1, start: 0, end: 100 * ms, ...totals, idleBy: idle.byCause };
    expect(last(rank(0, { steps: [step] }))).toEqual([
      'recommended:',
      '  load ahead (ranks 0, 1: the data loader takes 33.4 % of the time, over 5.0 %; up to 60.0 ms a step)',
      '  larger batch (rank 1: kernels run on the GPU for only 30.0 % of the time, under 50.0 %)',
    ]);
    expect(last(rank(0))[1]).toContain('over 5.0 %; up to 60.0 ms)');
    expect(formatGpu(summary([rank(0)]))).not.toContain('recommended');
    const again = summary([rank(0), rank(0, { attempt: 1 })], { recommendations: [busy], attempt: 1 });
    expect(formatGpu(again)).toContain('\nrecommended, for life 2 of the ranks:\n');
  });

  it('shows 32 ranks, and says so', () => {
    const text = formatGpu(summary(Array.from({ length: 40 }, (_, number) => rank(number))));
    expect(text).toContain('(the first 32 of 40 ranks; all of them with --json)');
  });
});

// What HTA and the TensorBoard plugin say of recordings, held against our own analyses of the same files.

import { GpuSink } from '@ranktrace/trace/gpu';
import { describe, expect, test } from 'vitest';
import { criticalPath } from '../../packages/trace/src/gpu/critical-path.ts';
import { deviceAnnotations } from '../../packages/trace/src/gpu/device-annotations.ts';
import { deviceUsage } from '../../packages/trace/src/gpu/device-usage.ts';
import type { RankWork } from '../../packages/trace/src/gpu/device-work.ts';
import { htaKernelLines, htaPeakBandwidth, htaStragglers, htaTypeTimes, htaWork } from '../../packages/trace/src/gpu/hta-compatible.ts';
import { streamWaits } from '../../packages/trace/src/gpu/idle-time.ts';
import { kernelTables } from '../../packages/trace/src/gpu/kernel-sums.ts';
import { queueSummaries } from '../../packages/trace/src/gpu/launch-queue.ts';
import { communicationOverlap } from '../../packages/trace/src/gpu/overlap.ts';
import { pluginOps, pluginSteps, pluginWindows } from '../../packages/trace/src/gpu/plugin-compatible.ts';
import { temporalBreakdown } from '../../packages/trace/src/gpu/step-breakdown.ts';
import { mergeRun } from '../../packages/trace/src/merge/merge-run.ts';
import { finish } from '../../packages/trace/src/model/finish.ts';
import { sourcesOfKineto, tableOfKineto } from '../../packages/trace/src/testing/merged-kineto.ts';
import { plainGpuTimes } from '../../packages/trace/src/testing/plain-gpu-times.ts';
import { recording, recordingText } from './recording.ts';

const us = 1000;

/** Made at the first use: cases are listed where the recordings are not. */
function lazy<Value>(make: () => Value): () => Value {
  let made: { readonly value: Value } | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}

/** The columns of each rank's device work. */
function workOf(files: readonly string[]): RankWork[] {
  const sink = new GpuSink();
  finish(mergeRun(sourcesOfKineto(files.map((file) => tableOfKineto(recording(file)))), sink));
  for (const { work } of sink.record.ranks) work.seal();
  return sink.record.ranks.map(({ work }) => work);
}

type Row = Readonly<Record<string, string>>;

interface HtaAnswers {
  readonly ranks: Readonly<Record<string, string>>;
  readonly apis: Readonly<Record<string, readonly Row[]>>;
}

/** Quartile as pandas' describe interpolates it. */
function quantileOf(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  const place = (sorted.length - 1) * share;
  const [low, high] = [sorted[Math.floor(place)] as number, sorted[Math.ceil(place)] as number];
  return low + (high - low) * (place - Math.floor(place));
}

interface HtaPath {
  readonly error?: string;
  readonly annotation: string;
  readonly instance: string;
  readonly nodes: number;
  readonly graph_nodes: number;
  readonly graph_edges: number;
  readonly edges_on_path: number;
  readonly breakdown: string;
}

/** The stretch of the n-th span of that name; of the n-th step for `ProfilerStep`. */
function instanceOf({ host, names, steps }: RankWork, annotation: string, instance: number): [number, number] {
  if (annotation === 'ProfilerStep') return [steps[instance]?.start as number, steps[instance]?.end as number];
  const rows = Array.from({ length: host.length }, (_, row) => row).filter((row) => {
    return names.text(host.columns.name[row] as number).includes(annotation);
  });
  return [host.columns.start[rows[instance] as number] as number, host.columns.end[rows[instance] as number] as number];
}

interface PluginAnswers {
  readonly step_breakdown_us: readonly Readonly<Record<string, number | string>>[];
  readonly performance: readonly [
    { readonly value: number; readonly children: readonly { readonly value: number; readonly extra: number }[] },
  ];
  readonly gpu_metrics: readonly [string];
  readonly operators: readonly Readonly<Record<string, number | string>>[];
  readonly kernels: readonly Readonly<Record<string, number | string>>[];
}

const sumOf = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0);

const cases = [
  ...['critical_path__alexnet', 'critical_path__cuda_event_sync', 'nccl_parser_config', 'ns_resolution_trace'],
  ...['trace_diff__control', 'trace_diff__test', 'trace_filter_2ranks', 'cpu_only', 'distributed_info_unavailable', 'rank_non_gpu'],
];

describe.each(cases)('HTA on %s', (name) => {
  const load = lazy((): { readonly works: readonly RankWork[]; readonly apis: HtaAnswers['apis'] } => {
    const { ranks, apis } = JSON.parse(recordingText(`kineto/hta/${name}/expected.json`)) as HtaAnswers;
    const works = workOf(Object.values(ranks).map((file) => `kineto/hta/${name}/${file}`));
    return { works: works.map(htaWork), apis };
  });
  const rowsOf = (api: string): readonly Row[] => load().apis[api] ?? [];
  const ofRank = (row: Row): RankWork => load().works[Number(row.rank)] as RankWork;

  test('temporal breakdown', () => {
    const shown = load()
      .works.map((work, rank) => ({ rank, breakdown: temporalBreakdown(work) }))
      .filter(({ breakdown }) => breakdown !== undefined);
    const rows = shown.map(({ rank, breakdown }) => {
      const { kernelTime, idle, compute, nonCompute } = breakdown as NonNullable<typeof breakdown>;
      const share = (part: number): number => Math.round((10_000 * part) / kernelTime) / 100;
      const shares = [share(idle), share(compute), share(nonCompute)];
      return [rank, idle / us, compute / us, nonCompute / us, kernelTime / us, ...shares];
    });
    const keys = ['rank', 'idle_time(us)', 'compute_time(us)', 'non_compute_time(us)', 'kernel_time(us)'];
    const shares = ['idle_time_pctg', 'compute_time_pctg', 'non_compute_time_pctg'];
    expect(rows).toEqual(rowsOf('get_temporal_breakdown').map((row) => [...keys, ...shares].map((key) => Number(row[key]))));
  });

  test('steps', () => {
    const steps = new Set(load().works.flatMap((work) => work.steps.map(({ number }) => number)));
    expect([...steps]).toEqual(rowsOf('get_profiler_steps').map(Number));
  });

  test('idle time by category and stream, and its share of the stream', () => {
    const totals = load().works.flatMap((work, rank) =>
      streamWaits(work).flatMap(({ stream, pauses }) => {
        const all = sumOf(Object.values(pauses).map(sumOf));
        return Object.entries(pauses).map(([category, values]) => {
          const share = all === 0 ? Number.NaN : Math.round((100 * sumOf(values)) / all) / 100;
          return `${rank} ${stream} ${category} ${sumOf(values) / us} ${share}`;
        });
      }),
    );
    const expected = rowsOf('get_idle_time_breakdown.0').map((row) => {
      const share = row.idle_time_ratio === '' ? Number.NaN : Number(row.idle_time_ratio);
      return `${row.rank} ${row.stream} ${row.idle_category} ${Number(row.idle_time)} ${share}`;
    });
    expect(totals.sort()).toEqual(expected.sort());
  });

  test('statistics of idle intervals', () => {
    for (const row of rowsOf('get_idle_time_breakdown.1')) {
      const stream = streamWaits(ofRank(row)).find((one) => one.stream === Number(row.stream));
      const values = stream?.pauses[row.idle_category as 'other']?.map((value) => value / us) ?? [];
      expect(values.length).toBe(Number(row.count));
      if (values.length === 0) continue;
      const mean = sumOf(values) / values.length;
      const at = `${name} stream ${row.stream} ${row.idle_category}`;
      expect(mean, at).toBeCloseTo(Number(row.mean), 1.5);
      expect([Math.min(...values), Math.max(...values)], at).toEqual([Number(row.min), Number(row.max)]);
      for (const [key, share] of [
        ['25%', 0.25],
        ['50%', 0.5],
        ['75%', 0.75],
      ] as const) {
        expect(Math.abs(quantileOf(values, share) - Number(row[key])), at).toBeLessThanOrEqual(0.0051);
      }
      if (row.std === '') continue;
      const squares = sumOf(values.map((value) => (value - mean) ** 2));
      expect(Math.abs(Math.sqrt(squares / (values.length - 1)) - Number(row.std)), at).toBeLessThanOrEqual(0.0051);
    }
  });

  test('overlap of communication and compute', () => {
    for (const row of rowsOf('get_comm_comp_overlap')) {
      const share = communicationOverlap(ofRank(row), load().works.length)[0]?.share;
      if (row.comp_comm_overlap_pctg === '') expect(share).toBeUndefined();
      else expect(Math.round(10_000 * (share as number)) / 100).toBe(Number(row.comp_comm_overlap_pctg));
    }
  });

  test('critical path', () => {
    const answers = load().apis.critical_path as unknown as HtaPath;
    const [work] = load().works as [RankWork];
    if (answers.error !== undefined) {
      expect(work?.work.length ?? 0).toBe(0);
      return;
    }
    const [from, until] = instanceOf(work, answers.annotation, Number(answers.instance));
    const found = criticalPath(work, from, until);
    const bounds = { cpu: 'cpu_bound', compute: 'gpu_compute_bound', communication: 'gpu_communication_bound', none: '' };
    const names = { ...bounds, gap: 'gpu_kernel_kernel_overhead', launch: 'gpu_kernel_launch_overhead' };
    const used = new Set(found?.path.map(({ bound }) => bound));
    const breakdown = Object.fromEntries(
      Object.entries(names).flatMap(([bound, said]) =>
        used.has(bound as 'cpu') ? [[said, (found?.byBound[bound as 'cpu'] ?? 0) / us]] : [],
      ),
    );
    const counts = [found?.nodes, found?.edges, (found?.path.length ?? 0) + 1, found?.path.length];
    expect([breakdown, counts]).toEqual([
      JSON.parse(answers.breakdown.replaceAll("'", '"')),
      [answers.graph_nodes, answers.graph_edges, answers.nodes, answers.edges_on_path],
    ]);
    const total = sumOf(Object.values(found?.byBound ?? {}));
    const shares = Object.entries(names).flatMap(([bound, said]) =>
      used.has(bound as 'cpu') ? [[said, (100 * (found?.byBound[bound as 'cpu'] ?? 0)) / total] as const] : [],
    );
    const summary = new Map(rowsOf('critical_path_summary').map((row) => [row.bound_by, Number(row.duration)]));
    expect(shares.map(([said]) => said).sort()).toEqual([...summary.keys()].sort());
    for (const [said, share] of shares) expect(share, said).toBeCloseTo(summary.get(said) as number, 6);
  });

  test('kernels by type', () => {
    const sums = new Map<string, number>();
    for (const work of load().works) for (const [type, time] of htaTypeTimes(work)) sums.set(type, (sums.get(type) ?? 0) + time / us);
    const all = sumOf([...sums.values()]);
    const rows = [...sums].sort(([, a], [, b]) => b - a).map(([type, sum]) => [type, sum, Math.round((1000 * sum) / all) / 10]);
    const expected = rowsOf('get_gpu_kernel_breakdown.0').map((row) => [row.kernel_type, Number(row.sum), Number(row.percentage)]);
    expect(new Map(rows.map((row) => [row[0], row]))).toEqual(new Map(expected.map((row) => [row[0], row])));
  });

  test('kernels by name', () => {
    const rows = load().works.flatMap((work, rank) =>
      htaKernelLines(work).map(({ type, name: kernel, sum, max, min, mean, deviation }) => {
        return { key: `${rank} ${type} ${kernel}`, values: [sum / us, max / us, min / us, mean / us, deviation / us] };
      }),
    );
    const keys = ['sum (us)', 'max (us)', 'min (us)', 'mean (us)', 'stddev'];
    const expected = rowsOf('get_gpu_kernel_breakdown.1').map((row) => {
      return { key: `${row.rank} ${row.kernel_type} ${row.name}`, values: keys.map((key) => Number(row[key])) };
    });
    expect(rows.map(({ key }) => key).sort()).toEqual(expected.map(({ key }) => key).sort());
    for (const { key, values } of expected) {
      const found = rows.find((row) => row.key === key)?.values ?? [];
      for (const [at, value] of values.entries())
        expect(Math.abs((found[at] as number) - value), key).toBeLessThan(1e-6 * Math.max(1, value));
    }
  });

  test('user annotations on the devices', () => {
    const rows = load().works.flatMap((work, rank) =>
      deviceAnnotations(work).map(({ name: of, total, max, min, mean, deviation }) => {
        return { key: `${rank} ${of}`, values: [total / us, max / us, min / us, mean / us, deviation / us] };
      }),
    );
    const keys = ['sum (us)', 'max (us)', 'min (us)', 'mean (us)', 'stddev'];
    const expected = rowsOf('get_gpu_user_annotation_breakdown').map((row) => {
      return { key: `${row.rank} ${row.name}`, values: keys.map((key) => Number(row[key])) };
    });
    if (expected.length === 0) return;
    expect(rows.map(({ key }) => key).sort()).toEqual(expected.map(({ key }) => key).sort());
    for (const { key, values } of expected) {
      const found = rows.find((row) => row.key === key)?.values ?? [];
      for (const [at, value] of values.entries()) expect(found[at], key).toBeCloseTo(value, 6);
    }
  });

  test('potential stragglers', () => {
    const expected = rowsOf('get_potential_stragglers') as unknown as readonly number[];
    if (expected.length > 0) expect(htaStragglers(load().works)).toEqual([...expected]);
  });

  test('longest queues', () => {
    const rows = load().works.flatMap((work) =>
      queueSummaries(work)
        .toSorted((a, b) => a.stream - b.stream)
        .map(({ stream, max }) => [stream, max]),
    );
    const expected = rowsOf('get_queue_length_summary')
      .slice(2)
      .map((row) => [Number(row['']), Number(row.queue_length)]);
    expect(rows).toEqual(expected);
  });

  test('highest bandwidth of copies', () => {
    const rows = load().works.flatMap((work) => [...htaPeakBandwidth(work)].sort(([a], [b]) => (a < b ? -1 : 1)));
    const expected = rowsOf('get_memory_bw_summary')
      .slice(2)
      .map((row) => [row[''], Number(row.memory_bw_gbps)] as const);
    expect(rows.map(([kind]) => kind)).toEqual(expected.map(([kind]) => kind));
    for (const [at, [kind, value]] of expected.entries()) {
      const [, { least, most }] = rows[at] as (typeof rows)[number];
      expect(value, kind).toBeGreaterThanOrEqual(least - 1e-6);
      expect(value, kind).toBeLessThanOrEqual(most + 1e-6);
      // Of all recordings, this one alone has copies that begin when others end.
      if (name !== 'trace_diff__test' || kind !== 'Memcpy DtoD') expect(most, kind).toBeCloseTo(least, 6);
    }
  });
});

describe('the TensorBoard plugin on resnet50-v100', () => {
  const load = lazy(() => {
    const expected = JSON.parse(recordingText('kineto/resnet50-v100/expected.json')) as PluginAnswers;
    const [work] = workOf(['kineto/resnet50-v100/worker0.1623143089861.pt.trace.json.gz']) as [RankWork];
    return { expected, work, steps: pluginSteps(work) };
  });
  const roles = ['kernel', 'memcpy', 'memset', 'runtime', 'dataLoader', 'cpuExec', 'other'] as const;

  test('step breakdown', () => {
    const { expected, steps } = load();
    const names = ['Kernel', 'Memcpy', 'Memset', 'Runtime', 'DataLoader', 'CPU Exec', 'Other'];
    const rows = steps.map((step) => [step.step, ...roles.map((role) => Math.round(step[role] / us))]);
    expect(rows).toEqual(expected.step_breakdown_us.map((row) => [Number(row.Step), ...names.map((name) => row[name])]));
    for (const step of steps) expect(roles.reduce((sum, role) => sum + step[role], step.communication)).toBeCloseTo(step.length, 3);
    const [mean] = expected.performance;
    const length = sumOf(steps.map((step) => step.length)) / steps.length;
    expect(Math.round(length / us)).toBe(mean.value);
    for (const [at, role] of roles.entries()) {
      const value = sumOf(steps.map((step) => step[role])) / steps.length;
      const child = mean.children[at] as (typeof mean.children)[number];
      expect([Math.round(value / us), Math.round((10_000 * value) / length) / 100], role).toEqual([child.value, child.extra]);
    }
  });

  test('operators', () => {
    const { expected, work } = load();
    const ops = new Map(pluginOps(work).map((op) => [op.name, op]));
    expect([...ops.keys()].sort()).toEqual(expected.operators.map(({ name }) => name).sort());
    for (const row of expected.operators) {
      const op = ops.get(row.name as string) as ReturnType<typeof pluginOps>[number];
      const found = { calls: op.calls, device_self_duration: op.deviceSelf / us, device_total_duration: op.deviceTotal / us };
      const host = { host_self_duration: op.hostSelf / us, host_total_duration: op.hostTotal / us };
      const eligible = { tc_eligible: op.isEligible ? 'Yes' : 'No', tc_self_ratio: op.tensorCoreSelf, tc_total_ratio: op.tensorCoreTotal };
      expect({ name: op.name, ...found, ...host, ...eligible }).toEqual(
        Object.fromEntries(Object.entries(row).filter(([key]) => key !== 'has_call_stack')),
      );
    }
  });

  test('kernels', () => {
    const { expected, work } = load();
    const { byName } = kernelTables(work);
    const rows = new Map(byName.lines.map((line) => [line.name, line]));
    expect(byName.lines.length + byName.rest.lines).toBe(expected.kernels.length);
    for (const row of expected.kernels.filter(({ Name }) => rows.has(Name as string))) {
      const line = rows.get(row.Name as string) as (typeof byName.lines)[number];
      const keys = ['Calls', 'Total Duration (us)', 'Max Duration (us)', 'Min Duration (us)'];
      const numbers = [line.count, line.total / us, line.max / us, line.min / us];
      expect([line.tensorCores ? 'Yes' : 'No', ...numbers]).toEqual([row['Tensor Cores Used'], ...keys.map((key) => row[key])]);
      expect(Math.abs(line.mean / us - Number(row['Mean Duration (us)'])), line.name).toBeLessThanOrEqual(0.5);
      expect(Math.abs((line.blocksPerSm as number) - Number(row['Mean Blocks Per SM'])), line.name).toBeLessThanOrEqual(0.0051);
      expect(Math.abs(100 * (line.occupancy as number) - Number(row['Mean Est. Achieved Occupancy (%)'])), line.name).toBeLessThanOrEqual(
        0.0051,
      );
    }
    expect(byName.lines.length).toBe(64);
  });

  test('GPU summary', () => {
    const { expected, work } = load();
    const windows = pluginWindows(work);
    const [usage] = deviceUsage(work, windows);
    const percent = (share: number | undefined): string => `${Math.round(10_000 * (share as number)) / 100} %`;
    const said = [...expected.gpu_metrics[0].matchAll(/'title': '(GPU Utilization|Est\. \w+ \w+)', 'value': '([^']+)'/g)].map(
      ([, , value]) => value,
    );
    expect(said).toHaveLength(3);
    expect([usage?.utilisation, usage?.smEfficiency, usage?.occupancy].map(percent)).toEqual(said);
    expect(kernelTables(work).tensorCores).toBe(0);
  });
});

describe('nanogpt on 8 H100', () => {
  const files = Array.from({ length: 8 }, (_, rank) => `kineto/nanogpt-8rank/rank${rank}.chrome-trace.json.gz`);
  const load = lazy(() => {
    const sink = new GpuSink();
    finish(mergeRun(sourcesOfKineto(files.map((file) => tableOfKineto(recording(file)))), sink));
    return sink.summary;
  });

  test('the critical path goes through the thread of autograd, not through the wait of the main thread for it', () => {
    const { path, segments } = load();
    expect(path?.byRank[0]?.rank).toBe(1);
    // `backward()` takes 16.5 ms on the main thread, 14.3 ms of it in one op of thread 140.
    const pauses = (segments?.segments ?? []).filter(({ name, bound }) => bound === 'cpu' && name.startsWith('before '));
    expect(Math.max(...pauses.map(({ start, end }) => end - start))).toBeLessThan(3000 * us);
    const backward = (segments?.segments ?? []).filter(({ name }) => name.endsWith('CompiledFunctionBackward'));
    expect(sumOf(backward.map(({ start, end }) => end - start))).toBeGreaterThan(14_000 * us);
  });

  test.each(files.map((file, rank) => [rank, file] as const))(
    'rank %i: an independent calculation over the raw file agrees',
    (rank, file) => {
      const expected = plainGpuTimes(recordingText(file));
      const mine = load().ranks[rank];
      const close = (found: number | undefined, value: number): void => expect(Math.abs((found as number) / us - value)).toBeLessThan(0.05);
      expect(mine?.steps.map(({ step }) => `ProfilerStep#${step}`)).toEqual(expected.steps.map(({ name }) => name));
      for (const [at, step] of expected.steps.entries()) {
        const found = mine?.steps[at];
        for (const part of ['length', 'compute', 'overlapped', 'exposed', 'copies', 'idle'] as const) close(found?.[part], step[part]);
        expect(sumOf(Object.values(found?.idleBy ?? {}))).toBeCloseTo(found?.idle as number, 3);
      }
      close(mine?.overlap[0]?.total, expected.communication);
      close(mine?.overlap[0]?.exposed, expected.exposed);
      close(mine?.kernels.total, expected.kernelTime);
      expect(mine?.kernels.count).toBe(expected.kernels);
      expect(sumOf((mine?.copies ?? []).map(({ bytes }) => bytes))).toBe(expected.copiedBytes);
    },
  );
});

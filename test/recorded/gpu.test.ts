// What HTA and the TensorBoard plugin say of recordings, held against our own analyses of the same files.

import { GpuSink } from '@ranktrace/trace/gpu';
import { describe, expect, test } from 'vitest';
import type { RankWork } from '../../packages/trace/src/gpu/device-work.ts';
import { htaKernelLines, htaPeakBandwidth, htaTypeTimes, htaWork } from '../../packages/trace/src/gpu/hta-compatible.ts';
import { streamWaits } from '../../packages/trace/src/gpu/idle-time.ts';
import { queueSummaries } from '../../packages/trace/src/gpu/launch-queue.ts';
import { communicationOverlap } from '../../packages/trace/src/gpu/overlap.ts';
import { temporalBreakdown } from '../../packages/trace/src/gpu/step-breakdown.ts';
import { mergeRun } from '../../packages/trace/src/merge/merge-run.ts';
import { finish } from '../../packages/trace/src/model/finish.ts';
import { sourcesOfKineto, tableOfKineto } from '../../packages/trace/src/testing/merged-kineto.ts';
import { recording, recordingText } from './recording.ts';

const us = 1000;

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

const sumOf = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0);

const cases = [
  ...['critical_path__alexnet', 'critical_path__cuda_event_sync', 'nccl_parser_config', 'ns_resolution_trace'],
  ...['trace_diff__control', 'trace_diff__test', 'trace_filter_2ranks', 'cpu_only', 'distributed_info_unavailable', 'rank_non_gpu'],
];

describe.each(cases)('HTA on %s', (name) => {
  const load = (): { readonly works: readonly RankWork[]; readonly apis: HtaAnswers['apis'] } => {
    const { ranks, apis } = JSON.parse(recordingText(`kineto/hta/${name}/expected.json`)) as HtaAnswers;
    const works = workOf(Object.values(ranks).map((file) => `kineto/hta/${name}/${file}`));
    return { works: works.map(htaWork), apis };
  };
  const { works, apis } = load();
  const rowsOf = (api: string): readonly Row[] => apis[api] ?? [];
  const ofRank = (row: Row): RankWork => works[Number(row.rank)] as RankWork;

  test('temporal breakdown', () => {
    const shown = works
      .map((work, rank) => ({ rank, breakdown: temporalBreakdown(work) }))
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

  test('idle time by category and stream', () => {
    const totals = works.flatMap((work, rank) =>
      streamWaits(work).flatMap(({ stream, pauses }) =>
        Object.entries(pauses).map(([category, values]) => `${rank} ${stream} ${category} ${sumOf(values) / us}`),
      ),
    );
    const expected = rowsOf('get_idle_time_breakdown.0').map(
      (row) => `${row.rank} ${row.stream} ${row.idle_category} ${Number(row.idle_time)}`,
    );
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
      const share = communicationOverlap(ofRank(row), works.length)[0]?.share;
      if (row.comp_comm_overlap_pctg === '') expect(share).toBeUndefined();
      else expect(Math.round(10_000 * (share as number)) / 100).toBe(Number(row.comp_comm_overlap_pctg));
    }
  });

  test('kernels by type', () => {
    const sums = new Map<string, number>();
    for (const work of works) for (const [type, time] of htaTypeTimes(work)) sums.set(type, (sums.get(type) ?? 0) + time / us);
    const all = sumOf([...sums.values()]);
    const rows = [...sums].sort(([, a], [, b]) => b - a).map(([type, sum]) => [type, sum, Math.round((1000 * sum) / all) / 10]);
    const expected = rowsOf('get_gpu_kernel_breakdown.0').map((row) => [row.kernel_type, Number(row.sum), Number(row.percentage)]);
    expect(new Map(rows.map((row) => [row[0], row]))).toEqual(new Map(expected.map((row) => [row[0], row])));
  });

  test('kernels by name', () => {
    const rows = works.flatMap((work, rank) =>
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

  test('longest queues', () => {
    const rows = works.flatMap((work) =>
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
    const rows = works.flatMap((work) => [...htaPeakBandwidth(work)].sort(([a], [b]) => (a < b ? -1 : 1)));
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

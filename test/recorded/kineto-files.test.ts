// torch.profiler files of others: GPU jobs, and the results of their authors' own tools.

import { describe, expect, it, test } from 'vitest';
import { fromEnd } from '../../packages/trace/src/match/collective-number.ts';
import { alignedJob, clocksApart, expectBroughtBack, expectOneClock, seenBy } from '../../packages/trace/src/testing/aligned-kineto.ts';
import { deviceTimes } from '../../packages/trace/src/testing/device-times.ts';
import { expectFamily, expectSums } from '../../packages/trace/src/testing/expect-function-events.ts';
import { expectWholeFile } from '../../packages/trace/src/testing/expect-whole-file.ts';
import {
  brokenBarriers,
  collectivesFound,
  commonCollectives,
  exitSpreads,
  type MergedEvent,
  mergedOnOwnClocks,
  sourceOfKineto,
  tableOfKineto,
} from '../../packages/trace/src/testing/merged-kineto.ts';
import { differencesOfSpilled } from '../../packages/trace/src/testing/spilled-kineto.ts';
import { functionAverages } from '../../packages/trace/src/torch/function-averages.ts';
import { functionEvents } from '../../packages/trace/src/torch/function-events.ts';
import { findCollectives } from '../../packages/trace/src/torch/kineto-collectives.ts';
import type { KinetoTable } from '../../packages/trace/src/torch/kineto-table.ts';
import { recording, recordingRows, recordingText } from './recording.ts';

const loaded = new Map<string, KinetoTable>();
/** The table of a file, read once: a read of the larger ones takes a second. */
function load(path: string): KinetoTable {
  const table = loaded.get(path) ?? tableOfKineto(recording(`kineto/${path}`));
  loaded.set(path, table);
  return table;
}
const nanosOf = (micros: string): bigint => {
  const [whole = '', rest = ''] = micros.split('.');
  return BigInt(whole + rest.padEnd(3, '0'));
};
const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1] as number;
const ranks = [0, 1, 2, 3, 4, 5, 6, 7];
const fileOf = (rank: number): string => `nanogpt-8rank/rank${rank}.chrome-trace.json.gz`;

describe('nanoGPT on 8 H100', () => {
  it('has the collectives of nccl_kernels.csv, row by row', () => {
    const expected = recordingRows('kineto/nanogpt-8rank/nccl_kernels.csv') as [string, string, string, string, string, string][];
    let compared = 0;
    for (const rank of ranks) {
      const table = load(fileOf(rank));
      const rows = expected.filter((row) => Number(row[0]) === rank);
      const { columns, length } = findCollectives(table);
      // The rows are steps that all ranks have; some began earlier.
      expect(rows).toHaveLength(76);
      expect(length).toBeGreaterThanOrEqual(76);
      const base = table.metadata.get('baseTimeNanoseconds') as bigint;
      for (const [place, [, seq, name, start, end]] of rows.entries()) {
        const index = length - rows.length + place;
        const event = columns.event[index] as number;
        const from = table.epoch - base + BigInt(table.events.columns.start[event] as number);
        const until = from + BigInt(table.events.columns.duration[event] as number);
        expect((columns.sequence[index] as number) - fromEnd).toBe(Number(seq));
        expect(table.strings.get(table.events.columns.name[event] as number)).toContain(name);
        expect(from).toBe(nanosOf(start));
        // Ends are sums of doubles there, which at 6e12 µs are 0.98 ns apart.
        expect(Math.abs(Number(until - nanosOf(end)))).toBeLessThanOrEqual(1);
        expect(table.strings.get(columns.group[index] as number)).toBe('0');
        compared++;
      }
    }
    expect(compared).toBe(608);
  });

  it('76 collectives are common to all ranks, none violates its barrier, exits differ by 20.5 µs (median), 188 µs at most', () => {
    const tables = ranks.map((rank) => load(fileOf(rank)));
    const { events, totals } = mergedOnOwnClocks(tables.map((table, rank) => sourceOfKineto(table, rank, 8)));
    const common = commonCollectives(events, 8);
    expect(common).toHaveLength(76);
    expect(common.every((parts) => new Set(parts.map(({ name }) => name)).size === 1)).toBe(true);
    expect(brokenBarriers(common)).toBe(0);
    const spreads = exitSpreads(common).map((spread) => spread / 1000);
    expect(Math.abs(median(spreads) - 20.5)).toBeLessThan(0.5);
    expect(Math.round(Math.max(...spreads))).toBe(188);
    // The kernels with recorded elements have their bytes on all ranks alike: 38 633 472 bf16 to reduce.
    expect(common.filter((parts) => new Set(parts.map(({ bytes }) => bytes)).size === 1)).toHaveLength(76);
    expect(common.filter(([part]) => part?.bytes === 2 * 38_633_472).length).toBeGreaterThan(1);
    for (const [rank, { counts, recorded, late, ended, missing }] of totals.entries()) {
      expect(counts).toEqual(recorded);
      expect([late, ended, missing]).toEqual([0, true, 0]);
      expect(counts.span + counts.step + counts.collective).toBe(tables[rank]?.events.length);
    }
  });

  it('kernels, copies and ops keep what the file says of them; a kernel is never both itself and its annotation', () => {
    const { events } = mergedOnOwnClocks([sourceOfKineto(load(fileOf(0)), 0, 8)]);
    const kernel = events.find(({ category, name }) => category === 'kernel' && !name.includes('nccl')) as MergedEvent;
    expect(kernel.lane).toMatch(/^GPU 0 · stream \d+/);
    expect(Object.keys(kernel.arguments)).toEqual(expect.arrayContaining(['grid', 'block', 'stream', 'device', 'correlation']));
    expect(events.some(({ kind, category }) => kind === 'span' && category === 'gpu_memcpy')).toBe(true);
    expect(events.filter(({ name, kind }) => name.startsWith('nccl:') && kind === 'span').length).toBe(112);
    const collectives = events.filter(({ kind }) => kind === 'collective');
    expect(collectives.every(({ arguments: { event } }) => String(event).startsWith('ncclDevKernel_'))).toBe(true);
    expect(collectives.filter(({ arguments: given }) => given.dtype === 'BFloat16').length).toBeGreaterThan(0);
    const op = events.find(({ name }) => name === 'record_param_comms') as MergedEvent;
    expect(op.arguments['Collective name']).toBe('_reduce_scatter_base');
    expect(op.arguments['Process Group Ranks']).toBe('[0, 1, 2, 3, 4, 5, 6, 7]');
  });

  it('stays as it is: nothing contradicts that its ranks read one clock', () => {
    expectOneClock(ranks.map((rank) => recordingText(`kineto/${fileOf(rank)}`)));
  });

  it('comes back by its collectives alone after each rank got a clock of its own', () => {
    const texts = ranks.map((rank) => recordingText(`kineto/${fileOf(rank)}`));
    const clocks = clocksApart(8);
    const apart = texts.map((text, rank) => seenBy(text, clocks[rank] as (typeof clocks)[number]));
    // 30 ppm of less than half a second.
    expect(expectBroughtBack(alignedJob(texts), alignedJob(apart), 15_000)).toBeLessThanOrEqual(20_000);
  });

  test('its functions add up to the averages', () => {
    const events = functionEvents(load(fileOf(0)));
    expectSums(events, functionAverages(events));
  });

  test('its functions know their parents and children, and lie within each other', () => expectFamily(functionEvents(load(fileOf(0)))));
});

interface PluginOperator {
  readonly name: string;
  readonly calls: number;
  readonly device_self_duration: number;
  readonly device_total_duration: number;
  readonly host_self_duration: number;
  readonly host_total_duration: number;
}

it('ResNet-50 of 2021 has the operators of the TensorBoard plugin: calls, and times of host and device', () => {
  const rows = functionAverages(functionEvents(load('resnet50-v100/worker0.1623143089861.pt.trace.json.gz')));
  const { operators } = JSON.parse(recordingText('kineto/resnet50-v100/expected.json')) as { operators: readonly PluginOperator[] };
  expect(operators).toHaveLength(76);
  const found = new Map(rows.filter(({ deviceType }) => deviceType === 'cpu').map((row) => [row.key, row]));
  for (const operator of operators) {
    const { count, selfDeviceTimeTotal, deviceTimeTotal, selfCpuTimeTotal, cpuTimeTotal } = found.get(operator.name) ?? {};
    expect([operator.name, count, selfDeviceTimeTotal, deviceTimeTotal, selfCpuTimeTotal, cpuTimeTotal]).toEqual([
      ...[operator.name, operator.calls, operator.device_self_duration, operator.device_total_duration],
      ...[operator.host_self_duration, operator.host_total_duration],
    ]);
  }
});

it.each([
  'hta/trace_diff__control/control.json.gz',
  'hta/trace_diff__test/test.json.gz',
  'hta/trace_filter_2ranks/sampled_rank-0.json.gz',
  'hta/critical_path__alexnet/benchmark_result_2869224_1695835535_trace.json.gz',
])('%s: kernels that have their correlation for an id are charged to the op around their call', (path) => {
  const rows = functionAverages(functionEvents(load(path))).filter(({ deviceType }) => deviceType === 'cpu');
  const expected = deviceTimes(recordingText(`kineto/${path}`));
  const found = new Map(rows.filter((row) => row.selfDeviceTimeTotal > 0).map((row) => [row.key, row.selfDeviceTimeTotal]));
  const steps = [...expected].filter(([name]) => name.startsWith('ProfilerStep#'));
  for (const [name, time] of steps) {
    expected.delete(name);
    expected.set('ProfilerStep*', (expected.get('ProfilerStep*') ?? 0) + time);
  }
  expect([...found.keys()].sort()).toEqual([...expected.keys()].sort());
  for (const [name, time] of expected) expect(found.get(name), name).toBeCloseTo(time, 3);
});

const htaFiles = [
  'cpu_only/rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz',
  'critical_path__alexnet/benchmark_result_2869224_1695835535_trace.json.gz',
  'critical_path__cuda_event_sync/event_sync_trace.json.gz',
  'distributed_info_unavailable/distributed_info_not_found.json.gz',
  'nccl_parser_config/nccl_data.json.gz',
  'ns_resolution_trace/rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz',
  'rank_non_gpu/rank_non_gpu.json.gz',
  'trace_diff__control/control.json.gz',
  'trace_diff__test/test.json.gz',
  'trace_filter_2ranks/sampled_rank-0.json.gz',
  'trace_filter_2ranks/sampled_rank-1.json.gz',
].map((name) => `hta/${name}`);

it.each([...htaFiles, 'resnet50-v100/worker0.1623143089861.pt.trace.json.gz'])('%s comes through whole, in order of time', (path) => {
  expectWholeFile(load(path));
});

it('sampled kernels of two ranks are matched with nothing, and move no clock', () => {
  const texts = [0, 1].map((rank) => recordingText(`kineto/hta/trace_filter_2ranks/sampled_rank-${rank}.json.gz`));
  const { events, processes } = alignedJob(texts);
  expect(events.filter(({ kind }) => kind === 'collective')).toEqual([]);
  expect(processes.map(({ alignment }) => alignment.method)).toEqual(['exact', 'unaligned']);
  const steps = events.filter(({ kind, key }) => kind === 'step' && key === 'ProfilerStep#551').map(({ start }) => start);
  // The files' own times: 192 µs apart.
  expect(Math.round(((steps[1] as number) - (steps[0] as number)) / 1000)).toBe(192);
});

describe('what HTA has of collectives', () => {
  it.each([
    ['nccl_parser_config/nccl_data.json.gz', { 'all_reduce of 0': 15, 'broadcast of 0': 6 }],
    ['cpu_only/rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz', { 'all_reduce of default': 10 }],
    // Kernels of 2022 do not describe their collectives; the annotations around their launches do.
    ['trace_diff__control/control.json.gz', { 'all_to_all of default': 42, 'all_reduce of default': 18 }],
    ['trace_diff__test/test.json.gz', { 'all_to_all of default': 43, 'all_reduce of default': 21 }],
    // No kernels: the calls that start collectives, under a name that marks them as such.
    ['rank_non_gpu/rank_non_gpu.json.gz', { 'nccl:all_to_all of default': 6 }],
    ['critical_path__alexnet/benchmark_result_2869224_1695835535_trace.json.gz', {}],
  ])('%s', (path, expected) => {
    expect(collectivesFound(load(`hta/${path}`))).toEqual(expected);
  });
});

it.each([
  fileOf(0),
  'resnet50-v100/worker0.1623143089861.pt.trace.json.gz',
  'hta/cpu_only/rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz',
  'hta/critical_path__alexnet/benchmark_result_2869224_1695835535_trace.json.gz',
  'hta/critical_path__cuda_event_sync/event_sync_trace.json.gz',
  'hta/distributed_info_unavailable/distributed_info_not_found.json.gz',
  'hta/nccl_parser_config/nccl_data.json.gz',
  'hta/ns_resolution_trace/rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz',
  'hta/rank_non_gpu/rank_non_gpu.json.gz',
  'hta/trace_diff__control/control.json.gz',
  'hta/trace_filter_2ranks/sampled_rank-0.json.gz',
])('%s: the batches are the same with its rows on disk', (file) => {
  expect(differencesOfSpilled([recording(`kineto/${file}`)], 8000)).toBe('');
});

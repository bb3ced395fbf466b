import { readdirSync, readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { type Batch, decodeBatch, encodeBatch, type TableName, tableNames } from '@ranktrace/protocol';
import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { runCount } from '../../../../test/setup/seeds.ts';
import { fromEnd } from '../match/collective-number.ts';
import type { BatchSource } from '../model/batch-source.ts';
import { expectWholeFile } from '../testing/expect-whole-file.ts';
import { gpuJob, gpuJobBase } from '../testing/gpu-job.ts';
import {
  brokenBarriers,
  collectivesFound,
  commonCollectives,
  exitSpreads,
  type MergedEvent,
  mergedOnOwnClocks as merged,
  sourceOfKineto as sourceOf,
  tableOfKineto,
} from '../testing/merged-kineto.ts';
import { findCollectives } from './kineto-collectives.ts';
import { readKineto } from './kineto-reader.ts';
import { kinetoExtent, kinetoSources } from './kineto-source.ts';
import type { KinetoTable } from './kineto-table.ts';

const data = new URL('../../../../test/data/kineto/', import.meta.url);
const load = (path: string): KinetoTable => tableOfKineto(gunzipSync(readFileSync(new URL(path, data))));
const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text);
const small = (events: readonly object[], rest: object = {}): KinetoTable =>
  readKineto(bytesOf(JSON.stringify({ ...rest, traceEvents: events })), { keep: 'all' });

function batchesOf(source: BatchSource, only?: readonly TableName[]): Batch[] {
  return Array.from({ length: source.count }, (_, index) => source.batch(index, only) as Batch);
}

const halfOf = (rank: number): string => (rank < 4 ? '0, 1, 2, 3' : '4, 5, 6, 7');
const labelOf = (rank: number, group: string): string => (group === '0' ? '0' : `1 [${halfOf(rank)}]`);

describe.each([1, 2])('a simulated job on 8 GPUs, whose windows begin at different steps (seed %i)', (seed) => {
  const job = gpuJob({ seed });
  const tables = job.files.map(({ text }) => tableOfKineto(text));
  const world = job.collectives.filter(({ group }) => group === '0');
  const common = Math.min(...tables.map((_, rank) => world.filter((one) => one.rank === rank).length));

  it.each([false, true])('has the collectives of the truth, row by row; with numbers of torch: %s', (hasSeq) => {
    const { files, collectives } = hasSeq ? gpuJob({ seed, hasSeq }) : job;
    for (const [rank, { text }] of files.entries()) {
      const table = tableOfKineto(text);
      const { columns, length } = findCollectives(table);
      const wanted = collectives.filter((one) => one.rank === rank);
      const found = Array.from({ length }, (_, row) => {
        const event = columns.event[row] as number;
        const start = table.epoch - gpuJobBase + BigInt(table.events.columns.start[event] as number);
        return {
          ...{ start, end: start + BigInt(table.events.columns.duration[event] as number) },
          ...{ kernel: table.strings.get(table.events.columns.name[event] as number), bytes: columns.bytes[row] },
          ...{ group: table.strings.get(columns.group[row] as number), sequence: columns.sequence[row] },
        };
      });
      const inOrder = (list: typeof found) => list.toSorted((a, b) => (a.start < b.start ? -1 : 1));
      expect(inOrder(found)).toEqual(
        inOrder(
          wanted.map(({ start, end, kernel, bytes, group, fromEnd: place }) => {
            // 4 steps, 6 layers, each with one of either kind.
            const sequence = hasSeq ? (group === '0' ? 48 : 4) + place : fromEnd + place;
            return { start, end, kernel, bytes, group: labelOf(rank, group), sequence };
          }),
        ),
      );
    }
    // Some were launched before their window began: other kernels of their stream give their group, nothing gives their bytes.
    expect(collectives.filter(({ bytes }) => bytes === 0).length).toBeGreaterThan(1);
  });

  it('their last collectives are common to all ranks, none violates its barrier, exits are as far apart as in truth', () => {
    const { events, totals } = merged(tables.map((table, rank) => sourceOf(table, rank, 8)));
    const matched = commonCollectives(events, 8);
    expect(matched).toHaveLength(common);
    expect(matched.every((parts) => new Set(parts.map(({ name }) => name)).size === 1)).toBe(true);
    expect(brokenBarriers(matched)).toBe(0);
    const spreads = Array.from({ length: common }, (_, index) => {
      const exits = world.filter(({ fromEnd: place }) => place === index - common).map(({ exit }) => exit);
      return Math.max(...exits) - Math.min(...exits);
    });
    const inOrder = (list: readonly number[]) => list.toSorted((a, b) => a - b);
    expect(inOrder(exitSpreads(matched))).toEqual(inOrder(spreads));
    expect(matched.filter(([part]) => part?.bytes === 2 * 38_633_472).length).toBeGreaterThan(1);
    for (const [rank, total] of totals.entries()) {
      const { counts, recorded, late, ended, missing } = total;
      expect(counts).toEqual(recorded);
      expect([late, ended, missing]).toEqual([0, true, 0]);
      expect(counts.span + counts.step + counts.collective).toBe(tables[rank]?.events.length);
    }
    const halves = new Set(events.filter(({ group }) => group.startsWith('1 ')).map(({ rank, group }) => `${rank} ${group}`));
    expect([...halves].sort()).toEqual(tables.map((_, rank) => `${rank} 1 [${halfOf(rank)}]`));
  });

  it('kernels, copies and ops keep what the file says of them; a kernel is never both itself and its annotation', () => {
    const { events } = merged([sourceOf(tables[0] as KinetoTable, 0, 8)]);
    const kernel = events.find(({ category, name }) => category === 'kernel' && !name.includes('nccl')) as MergedEvent;
    expect(kernel.lane).toMatch(/^GPU 0 · stream 7/);
    expect(Object.keys(kernel.arguments)).toEqual(expect.arrayContaining(['grid', 'block', 'stream', 'device', 'correlation']));
    expect(events.some(({ kind, category }) => kind === 'span' && category === 'gpu_memcpy')).toBe(true);
    const collectives = events.filter(({ kind }) => kind === 'collective');
    // One span beside the call and one beside the kernel.
    expect(events.filter(({ name, kind }) => name.startsWith('nccl:') && kind === 'span').length).toBe(2 * collectives.length);
    expect(collectives.every(({ arguments: { event } }) => String(event).startsWith('ncclDevKernel_'))).toBe(true);
    expect(collectives.filter(({ arguments: given }) => given.dtype === 'BFloat16').length).toBeGreaterThan(0);
    const op = events.find(({ name, arguments: given }) => name === 'record_param_comms' && given['Process Group Name'] === '0');
    expect(op?.arguments['Collective name']).toBe('_reduce_scatter_base');
    expect(op?.arguments['Process Group Ranks']).toBe('[0, 1, 2, 3, 4, 5, 6, 7]');
  });
});

describe.each(['balanced', 'rank1_forward', 'rank2_data_load'])('ddp on 4 ranks: %s', (name) => {
  const tables = Array.from({ length: 4 }, (_, rank) => load(`ddp-4rank/${name}/rank${rank}.pt.trace.json.gz`));
  const { events, totals, processes, epoch } = merged(tables.map((table, rank) => sourceOf(table, rank, 4)));

  it('12 steps with their phases on every rank', () => {
    for (let rank = 0; rank < 4; rank++) {
      const steps = events.filter((event) => event.kind === 'step' && event.rank === rank);
      expect(steps.map(({ step }) => step)).toEqual(Array.from({ length: 12 }, (_, index) => index + 4));
      for (const { phases, length } of steps) {
        expect(Object.keys(phases)).toEqual(['data_load', 'forward', 'backward', 'optimizer', 'loss_allreduce']);
        expect(Object.values(phases).reduce((sum, phase) => sum + phase)).toBeLessThanOrEqual(length);
      }
    }
  });

  it('24 collectives on every rank, each of them on all', () => {
    const collectives = events.filter(({ kind }) => kind === 'collective');
    expect(collectives).toHaveLength(96);
    expect(new Set(collectives.map((event) => `${event.name} ${event.group} ${event.sequence}`)).size).toBe(24);
    expect(new Set(collectives.map(({ name: op, group }) => `${op} ${group}`))).toEqual(new Set(['all_reduce 0']));
    expect(collectives.every(({ lane }) => /pt_gloo_runloop|python/.test(lane))).toBe(true);
    // No rank leaves an all_reduce before all are in it.
    for (const sequence of new Set(collectives.map((event) => event.sequence))) {
      const parts = collectives.filter((event) => event.sequence === sequence);
      const [entered, left] = [Math.max(...parts.map(({ start }) => start)), Math.min(...parts.map((part) => part.start + part.length))];
      expect(entered).toBeLessThanOrEqual(left);
    }
  });

  it('nothing is lost, and the host and unix time are those of the files', () => {
    for (const { counts, recorded } of totals) expect(counts).toEqual(recorded);
    expect(new Set(processes.map(({ hostName }) => hostName))).toEqual(new Set(['vm']));
    const extents = tables.map(kinetoExtent);
    for (let rank = 0; rank < 4; rank++) {
      const start = Math.min(...events.filter((event) => event.rank === rank).map((event) => event.start));
      expect(epoch + BigInt(start)).toBe(extents[rank]?.first);
    }
  });
});

const torchFiles = readdirSync(new URL('torch-reference/', data)).filter((name) => name.endsWith('.pt.trace.json.gz'));

describe('every event comes through, in order of time', () => {
  it.each(torchFiles)('of %s', (name) => expectWholeFile(load(`torch-reference/${name}`)));

  it.each(['today', '2022', '2021'] as const)('of a simulated rank as torch wrote it in %s (seed 3)', (vintage) => {
    for (const { text } of gpuJob({ seed: 3, ranks: 4, steps: 2, vintage }).files) expectWholeFile(tableOfKineto(text));
  });
});

describe('collectives of a file that says little of them', () => {
  const annotation = (name: string, ts: number, dur: number, tid = 2): object => ({
    ...micros,
    cat: 'user_annotation',
    name,
    ts,
    dur,
    tid,
  });
  const launch = (ts: number, correlation: number): object => ({
    ...micros,
    cat: 'cuda_runtime',
    name: 'cudaLaunchKernel',
    ts,
    args: { correlation },
  });
  const silent = (ts: number, correlation: number, name: string): object => kernelOf(ts, { correlation }, name);

  it('kernels of 2022 are of the group of their stream, as nobody says another (seed 3)', () => {
    const [first] = gpuJob({ seed: 3, ranks: 4, steps: 2, vintage: '2022' }).files;
    expect(collectivesFound(tableOfKineto(first?.text ?? ''))).toEqual({
      'reduce_scatter of default · stream 23': 12,
      'all_gather of default · stream 23': 12,
      'all_reduce of default · stream 24': 2,
    });
  });

  it('a kernel that only sends and receives is what the annotation around its launch says', () => {
    const events = [
      annotation('nccl:all_to_all', 1, 10),
      launch(5, 51),
      silent(20, 51, 'ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)'),
      annotation('nccl:all_reduce', 30, 10),
      launch(35, 52),
      silent(50, 52, 'ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)'),
      // Launched outside any annotation: it gets what its stream usually does.
      launch(60, 53),
      silent(70, 53, 'ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)'),
    ];
    expect(collectivesFound(small(events))).toEqual({ 'all_to_all of default': 2, 'all_reduce of default': 1 });
  });

  it('annotations alone are calls, under a name that says so; those of gloo are the transfer itself', () => {
    const calls = [annotation('nccl:all_to_all', 1, 10), annotation('nccl:all_to_all', 20, 10), annotation('forward', 40, 5)];
    expect(collectivesFound(small(calls, { distributedInfo: { rank: 0 } }))).toEqual({ 'nccl:all_to_all of default': 2 });
    expect(collectivesFound(small([annotation('gloo:all_reduce', 1, 100, 3553)]))).toEqual({ 'all_reduce of default': 1 });
    expect(collectivesFound(small([...calls, annotation('gloo:broadcast', 60, 5)]))).toEqual({
      'nccl:all_to_all of default': 2,
      'broadcast of default': 1,
    });
  });

  it('the only process group of a file is that of all, several are known where the kernels show them', () => {
    const groups = { rank: 0, world_size: 2, pg_count: 1, pg_config: [{ pg_name: '0', pg_size: 2, ranks: [0, 1] }] };
    const of = [silent(1, 1, 'ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)'), silent(5, 2, 'ncclDevKernel_Broadcast_RING_LL(x)')];
    expect(collectivesFound(small(of, { distributedInfo: groups }))).toEqual({ 'all_reduce of 0': 1, 'broadcast of 0': 1 });
  });

  it('a file of one GPU has none', () => {
    expect(collectivesFound(small([silent(1, 1, 'void cudnn::bn_bw_1C11_kernel_new<float>(x)'), annotation('nccl', 1, 5)]))).toEqual({});
  });
});

const micros = { pid: 1, tid: 2, ph: 'X', dur: 1 };
const kernelOf = (ts: number, args: object, name = 'ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)'): object => ({
  ...{ ...micros, pid: 0, tid: 7, cat: 'kernel', name, ts },
  args,
});
const numbers = (table: KinetoTable, windowFromEnd = 0): unknown[] => {
  const { columns, length } = findCollectives(table, windowFromEnd);
  return Array.from({ length }, (_, row) => [
    table.strings.get(columns.op[row] as number),
    table.strings.get(columns.group[row] as number),
    columns.sequence[row],
    columns.bytes[row],
    columns.peer[row],
  ]);
};

describe('which collective', () => {
  const said = { 'Collective name': 'allreduce', 'Process Group Name': '3', dtype: 'Float', 'In msg nelems': 5, 'Out msg nelems': 5 };

  test("torch's own numbers are taken; what lies between and before is counted on", () => {
    const events = [kernelOf(1, {}), kernelOf(2, { ...said, Seq: 8 }), kernelOf(3, {}), kernelOf(4, { ...said, Seq: 10 }), kernelOf(5, {})];
    expect(numbers(small(events)).map((row) => (row as number[])[2])).toEqual([7, 8, 9, 10, 11]);
  });

  test('two kernels of one number are distinguished, each number alike on all ranks', () => {
    const events = [kernelOf(1, { ...said, Seq: 8 }), kernelOf(2, { ...said, Seq: 8 })];
    expect(numbers(small(events))).toEqual([
      ['all_reduce', '3', 8, 20, 0],
      ['all_reduce', '3', 8 + 2 ** 40, 20, 0],
    ]);
  });

  test('sends and receives count per peer and from the end; without a peer they are spans', () => {
    const name = 'ncclDevKernel_SendRecv(x)';
    const to = (ts: number, peer: number) => kernelOf(ts, { ...said, 'Collective name': 'send', 'Dst Rank': peer, Seq: ts }, name);
    const from = (ts: number, peer: number) => kernelOf(ts, { ...said, 'Collective name': 'recv', 'Src Rank': peer, Seq: ts }, name);
    const events = [to(1, 1), to(2, 5), from(3, 1), to(4, 1), kernelOf(5, { ...said, 'Collective name': 'coalesced' }, name)];
    expect(numbers(small(events))).toEqual([
      ['send', '3', fromEnd - 2, 20, 2],
      ['send', '3', fromEnd - 1, 20, 6],
      ['recv', '3', fromEnd - 1, 20, 2],
      ['send', '3', fromEnd - 1, 20, 2],
    ]);
  });

  test("groups that are not all of the world have their members in the name, a kernel's op is that of its External id", () => {
    const op = { ...micros, cat: 'cpu_op', name: 'record_param_comms', ts: 1, args: { 'External id': 9, ...said } };
    const groups = { rank: 4, world_size: 8, pg_count: 2, pg_config: [{ pg_name: '0' }, { pg_name: '3', ranks: [4, 5, 6, 7] }] };
    const table = small([op, kernelOf(2, { 'External id': 9 })], { distributedInfo: groups });
    expect(numbers(table)).toEqual([['all_reduce', '3 [4, 5, 6, 7]', fromEnd - 1, 20, 0]]);
  });

  test('streams of which nothing is known are not mixed', () => {
    const events = [kernelOf(1, {}), { ...kernelOf(2, {}), tid: 8 }];
    expect(numbers(small(events)).map((row) => (row as string[])[1])).toEqual(['default · stream 7', 'default · stream 8']);
  });

  test('earlier windows have numbers of their own', () => {
    expect(numbers(small([kernelOf(1, {})]), 2)).toEqual([['all_reduce', 'default', fromEnd - 2 * 2 ** 32 - 1, 0, 0]]);
  });
});

describe('one source', () => {
  const rich = small(
    [
      { ...micros, ph: 'M', name: 'thread_name', ts: 0, args: { name: 'thread 2 (main)' } },
      { ...micros, cat: 'user_annotation', name: 'ProfilerStep#3', ts: 10, dur: 100 },
      { ...micros, cat: 'user_annotation', name: 'forward', ts: 11, dur: 10 },
      { ...micros, cat: 'user_annotation', name: 'inner', ts: 12, dur: 5 },
      { ...micros, cat: 'user_annotation', name: 'forward', ts: 30, dur: 10 },
      {
        ...micros,
        cat: 'cpu_op',
        name: 'mm',
        ts: 13.5,
        dur: 2.25,
        args: { 'External id': 4, 'Sequence number': 0, 'Input Dims': [[2, 3]], kernel: { a: 1 } },
      },
      { ...micros, cat: 'cpu_op', name: 'mmBackward', ts: 50, args: { 'Sequence number': 7, 'Fwd thread id': 2, 'Call stack': 'a;b' } },
      { ...micros, ph: 's', id: 5, cat: 'fwdbwd', name: 'fwdbwd', ts: 13.5 },
      { ...micros, ph: 'f', id: 5, cat: 'fwdbwd', name: 'fwdbwd', ts: 50 },
      {
        ...micros,
        ph: 'i',
        name: '[memory]',
        ts: 14,
        args: { Bytes: -8, 'Total Allocated': 16, 'Total Reserved': 0, Addr: 77, 'Device Type': 0 },
      },
      {
        ...micros,
        ph: 'i',
        name: '[memory]',
        ts: 15,
        args: { Bytes: 8, 'Total Allocated': 16, 'Total Reserved': 32, Addr: 78, 'Device Type': 1 },
      },
      {
        ...micros,
        ph: 'i',
        name: '[memory]',
        ts: 15.5,
        args: { Bytes: 4, 'Total Allocated': 4, Addr: 79, 'Device Type': 1, 'Device Id': 2 },
      },
      { ...micros, ph: 'i', name: 'mark', cat: 'mine', ts: 16, args: { why: 'so', n: 1.5 } },
      { ...micros, ph: 'C', name: 'queue', ts: 17, args: { depth: 3 } },
      { ...micros, ph: 'C', name: 'power', ts: 18, args: { gpu0: 300.5, gpu1: 299 } },
    ],
    { baseTimeNanoseconds: 1_700_000_000_000_000_000, trace_id: 'AB', host_name: 'node-3' },
  );

  it('carries steps with phases, ops with their arguments, memory, instants, counters and arrows', () => {
    const { events, processes, totals } = merged([sourceOf(rich)]);
    const by = (name: string): MergedEvent => events.find((event) => event.name === name) as MergedEvent;
    expect(by('ProfilerStep#3')).toMatchObject({ kind: 'step', step: 3, length: 100_000, phases: { forward: 20_000 } });
    expect(by('mm')).toMatchObject({ length: 2250, category: 'cpu_op', lane: 'main' });
    expect(by('mm').arguments).toEqual({
      'Input Dims': '[[2,3]]',
      kernel: '{"a":1}',
      'Sequence number': 0,
      'External id': 4,
      'fwdbwd out': 5,
    });
    expect(by('mmBackward').arguments).toEqual({ 'Sequence number': 7, 'Fwd thread id': 2, 'Call stack': 'a;b', 'fwdbwd in': 5 });
    expect(events.filter(({ name }) => name === '[memory]').map((event) => event.arguments)).toEqual([
      { Bytes: -8, 'Total Allocated': 16, Addr: 77, 'Device Type': 0 },
      { Bytes: 8, 'Total Allocated': 16, 'Total Reserved': 32, Addr: 78, 'Device Type': 1 },
      { Bytes: 4, 'Total Allocated': 4, 'Total Reserved': 0, Addr: 79, 'Device Type': 1, 'Device Id': 2 },
    ]);
    expect(by('mark')).toMatchObject({ kind: 'instant', category: 'mine', arguments: { why: 'so', n: 1.5 } });
    expect(events.filter(({ kind }) => kind === 'counter').map(({ name }) => name)).toEqual(['queue', 'power gpu0', 'power gpu1']);
    expect(totals[0]?.counts).toEqual({ span: 5, instant: 4, counter: 3, step: 1, collective: 0, rpc: 0 });
    expect(processes[0]).toMatchObject({ hostName: 'node-3', pid: 1, incarnation: '01700000000000010000' });
    expect(processes[0]?.metadata.get('trace_id')).toBe('AB');
  });

  it('its batches are such as the protocol takes, and hold with `only` what was asked for', () => {
    const source = sourceOf(rich);
    for (const batch of batchesOf(source)) {
      const identity = (bytes: Uint8Array): Uint8Array => bytes;
      const copy = decodeBatch(encodeBatch(batch, identity), identity);
      for (const name of tableNames) expect(copy.tables[name].length).toBe(batch.tables[name].length);
    }
    for (const name of tableNames) {
      const [all] = batchesOf(source);
      const [only] = batchesOf(source, [name]);
      for (const other of tableNames) {
        const wanted = other === name && !['ops', 'numberArguments', 'stringArguments', 'tracks'].includes(name);
        if (wanted) expect(only?.tables[other].length).toBe(all?.tables[other].length);
        else if (other !== name) expect(only?.tables[other].length).toBe(0);
      }
    }
  });

  it('later windows follow on one clock; batches promise what they keep', () => {
    const window = (base: number, count: number, step: number): KinetoTable =>
      small(
        [
          { ...micros, cat: 'user_annotation', name: `ProfilerStep#${step}`, ts: 1, dur: 2 * count },
          ...Array.from({ length: count }, (_, index) => ({ ...micros, cat: 'cpu_op', name: 'op', ts: 1 + ((index * 7919) % count) })),
        ],
        { baseTimeNanoseconds: base },
      );
    const files = [
      { name: 'a', table: window(1e18, 20_000, 1) },
      { name: 'b', table: window(1e18 + 60e9, 3, 2) },
    ];
    const [source] = kinetoSources([{ run: 'test', rank: 2, worldSize: 4, files }]) as [BatchSource];
    let promised = Number.NEGATIVE_INFINITY;
    for (const { header, tables } of batchesOf(source)) {
      expect(Math.min(...tables.spans.columns.start.subarray(0, tables.spans.length))).toBeGreaterThanOrEqual(promised);
      promised = header.watermark;
    }
    expect(source.count).toBe(4);
    const { events, totals } = merged([source]);
    expect(totals[0]).toMatchObject({ late: 0, batches: 4, counts: { span: 20_003, step: 2 } });
    expect(events.filter(({ kind }) => kind === 'step').map(({ step }) => step)).toEqual([1, 2]);
    expect((events.at(-1) as MergedEvent).start - (events[0] as MergedEvent).start).toBeGreaterThanOrEqual(60e9);
  });

  it('a file without events is one batch without rows', () => {
    const source = sourceOf(small([]));
    expect([source.count, batchesOf(source)[0]?.header.last]).toEqual([1, true]);
    expect(merged([source]).totals[0]?.counts.span).toBe(0);
  });
});

const names = [
  'ProfilerStep#1',
  'ProfilerStep#2',
  'gloo:all_reduce',
  'nccl:broadcast',
  'ncclDevKernel_SendRecv(x)',
  'ncclKernel_AllReduce',
  'op',
];
const categories = ['user_annotation', 'gpu_user_annotation', 'kernel', 'cuda_runtime', 'cpu_op'];
const micro = fc.oneof(fc.integer({ min: -50, max: 50 }), fc.constantFrom(-1e15, 1e9, 4e15, 0.0005));
const anyEvent = fc.record(
  {
    ph: fc.constantFrom('X', 'X', 'X', 'i', 'C', 's', 'f', 'M'),
    name: fc.constantFrom(...names, '[memory]', '[OutOfMemory]', 'thread_name'),
    cat: fc.constantFrom(...categories),
    pid: fc.constantFrom(0, 1, -1, 1e300),
    tid: fc.constantFrom(0, 7, 'stream 7', -3, 0.5),
    ts: micro,
    dur: fc.constantFrom(0, 1, 3.25, 60, 9e12),
    id: fc.constantFrom(1, 2),
    args: fc.record(
      {
        'External id': fc.constantFrom(1, 2, -1),
        correlation: fc.constantFrom(1, 2, 2 ** 40),
        'Collective name': fc.constantFrom('send', 'recv', 'allreduce', 'coalesced', 5),
        'Process Group Name': fc.constantFrom('0', '1', ''),
        Seq: fc.constantFrom(0, 1, -1, 2 ** 60, 0.5),
        'Dst Rank': fc.constantFrom(0, 3, 2 ** 40),
        'In msg nelems': fc.constantFrom(1, 2 ** 53),
        dtype: fc.constantFrom('Float', 'Mystery'),
        'Sequence number': fc.constantFrom(0, 3, -7),
        __proto__: fc.constantFrom(1, 'x'),
        note: fc.json({ maxDepth: 2 }).map((text): unknown => JSON.parse(text)),
      },
      { requiredKeys: [] },
    ),
  },
  { requiredKeys: ['ph', 'name', 'pid', 'ts'] },
);
const anyInfo = fc.constantFrom(
  {},
  { distributedInfo: { rank: 1, world_size: 2, pg_config: [{ pg_name: '0', ranks: [0] }, 5] } },
  { distributedInfo: [] },
);

test('any events come through once each, in order, each of them one thing (seed 21)', () => {
  fc.assert(
    fc.property(fc.array(anyEvent, { maxLength: 40 }), anyInfo, (given, info) => {
      const table = small(given, info);
      const { events, totals } = merged([sourceOf(table)]);
      const { memory, instants, counters } = table;
      expect(events).toHaveLength(table.events.length + memory.length + instants.length + counters.length);
      expect(totals[0]?.counts).toEqual(totals[0]?.recorded);
      expect(totals[0]?.late).toBe(0);
      const collectives = events.filter(({ kind }) => kind === 'collective');
      const keys = collectives.map((event) => `${event.group} ${event.sequence} ${event.name}`);
      if (!collectives.some(({ name }) => name === 'send' || name === 'recv')) expect(new Set(keys).size).toBe(keys.length);
      expect(
        collectives.every(({ sequence, bytes }) => Number.isSafeInteger(sequence) && sequence >= 0 && Number.isSafeInteger(bytes)),
      ).toBe(true);
    }),
    { seed: 21, numRuns: runCount(1500) },
  );
});

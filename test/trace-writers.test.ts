// Other programs read our files: one small cluster, written as Perfetto and as Chrome JSON, and read back by Perfetto's own trace_processor,
// by protobufjs and by JSON.parse; all must agree.

import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromeWriter } from '@ranktrace/trace';
import { perfettoWriter } from '@ranktrace/trace/perfetto';
import { afterAll, describe, expect, it } from 'vitest';
import { decodePerfetto } from './oracle/perfetto-decode.ts';
import { bytesOf, events, hostileName } from './oracle/small-cluster.ts';
import { openTrace, type Row } from './oracle/trace-processor.ts';
import { kinetoFileEvents, writeGpuJob } from './setup/gpu-job-files.ts';
import { runLine } from './setup/warm-command.ts';

/** Perfetto time of TraceTime 0, ns. */
const origin = 86_400_000_000_000;
const cleanName = hostileName.replace('\ud800', '\ufffd');

interface Slice {
  readonly name: string;
  readonly start: number;
  readonly length: number;
  readonly depth: number;
  readonly parent: string | undefined;
}

/** Every span of the fixture's drawing: ns, length −1 for one that never ended. */
const expectedSlices: readonly Slice[] = [
  { name: 'GetWeights', start: 2_600_000, length: 900_000, depth: 1, parent: 'train' },
  { name: 'GetWeights', start: 2_700_000, length: 600_000, depth: 1, parent: 'killed' },
  { name: 'ProfilerStep#0', start: 0, length: 4_000_000, depth: 0, parent: undefined },
  { name: 'allreduce', start: 1_000_000, length: 1_500_000, depth: 1, parent: 'train' },
  { name: 'allreduce', start: 2_000_000, length: 500_001, depth: 0, parent: undefined },
  { name: cleanName, start: 500_000, length: 500_000, depth: 2, parent: 'forward' },
  { name: 'checkpoint', start: 1_500_000, length: 0, depth: 2, parent: 'allreduce' },
  { name: 'early', start: -500, length: 0, depth: 0, parent: undefined },
  { name: 'forward', start: 0, length: 1_000_000, depth: 1, parent: 'train' },
  { name: 'forward', start: 600_000, length: 1_400_000, depth: 0, parent: undefined },
  { name: 'killed', start: 1_000, length: -1, depth: 0, parent: undefined },
  { name: 'linear', start: 1_000, length: 499_000, depth: 2, parent: 'forward' },
  { name: 'not awaited', start: 900_000, length: 200_000, depth: 0, parent: undefined },
  { name: 'slow', start: 2_000, length: 2_400_000, depth: 0, parent: undefined },
  { name: 'train', start: 0, length: 4_000_000, depth: 0, parent: undefined },
];

const sliceQuery = `
  select s.name as name, s.ts as start, s.dur as length, s.depth as depth, p.name as parent
  from slice s left join slice p on s.parent_id = p.id
  where s.name not in ('run', 'totals')`;

const flowQuery = `
  select o.name as name, o.ts as "from", i.ts as "to"
  from flow f join slice o on f.slice_out = o.id join slice i on f.slice_in = i.id order by o.ts`;

const processQuery = `select pid, name from process where name is not null order by pid`;
const problemQuery = `select name, value from stats where value > 0 and severity != 'info'`;

const processes: readonly Row[] = [
  { pid: 1, name: 'rank 0 · host-0' },
  { pid: 2, name: 'rank 1 · host-1' },
  { pid: 3, name: 'rank 1 · host-1 · restart 1 · clock unaligned' },
];

function slicesFrom(rows: readonly Row[], zero: number): Slice[] {
  const slices = rows.map((row) => ({ ...row, start: Number(row.start) - zero }) as unknown as Slice);
  return slices.sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : a.start - b.start));
}

const sortedSlices = slicesFrom(expectedSlices as unknown as Row[], 0);

describe('a Perfetto trace in trace_processor', () => {
  it('has every span with its time, depth and parent', async () => {
    using trace = await openTrace(bytesOf(perfettoWriter));
    expect(slicesFrom(await trace.query(sliceQuery), origin)).toEqual(sortedSlices);
    expect(await trace.query(problemQuery)).toEqual([]);
  });

  it('has processes, threads, counters, flows and the wall clock', async () => {
    using trace = await openTrace(bytesOf(perfettoWriter));
    expect(await trace.query(processQuery)).toEqual(processes);
    expect(await trace.query(`select t.name, pid from thread t join process using (upid) where t.name is not null order by pid`)).toEqual([
      { name: 'main · tid 77', pid: 1 },
      { name: 'main · tid 77', pid: 2 },
      { name: 'main', pid: 3 },
    ]);
    const counters = `select ts - ${origin} as ts, value, name from counter join counter_track on track_id = counter_track.id order by ts`;
    expect(await trace.query(counters)).toEqual([
      { ts: 125, value: 12.5, name: 'memory' },
      { ts: 1_000_000, value: -3, name: 'memory' },
    ]);
    expect(await trace.query(flowQuery)).toEqual([
      { name: 'allreduce', from: origin + 1_000_000, to: origin + 2_000_000 },
      { name: 'GetWeights', from: origin + 2_600_000, to: origin + 2_700_000 },
    ]);
    expect(await trace.query(`select ts, clock_value as unix from clock_snapshot where clock_name = 'REALTIME'`)).toEqual([
      { ts: origin, unix: 1_766_000_000_123_456_789n },
    ]);
  });

  it('has the arguments of every kind of event', async () => {
    using trace = await openTrace(bytesOf(perfettoWriter));
    const argumentsOf = async (where: string): Promise<Record<string, unknown>> => {
      const rows = await trace.query(`
        select key, coalesce(string_value, int_value, real_value) as value
        from slice join args using (arg_set_id) where ${where}`);
      return Object.fromEntries(rows.map(({ key, value }) => [String(key).replace('debug.', ''), value]));
    };
    expect(await argumentsOf(`name = 'forward' and category = 'cpu_op'`)).toEqual({ batch: 32, loss: 0.25, shape: '[32, 784]' });
    expect(await argumentsOf(`name = 'slow'`)).toEqual({ retries: 3 });
    expect(await argumentsOf(`name = 'ProfilerStep#0'`)).toEqual({ step: 0, phaseNs_forward: 1_000_000 });
    const collective = { op: 'allreduce', group: 'dp', sequence: 7, bytes: 4096 };
    expect(await argumentsOf(`name = 'allreduce' and depth = 1`)).toEqual(collective);
    expect(await argumentsOf(`name = 'GetWeights' and dur = 600000`)).toEqual({
      side: 'server',
      peer: 'rank 0',
      status: 'ok',
      traceId: '4bf92f3577b34da6a3ce929d0e0e4736',
      spanId: '53995c3f42cd8ad8',
      parentSpanId: '00f067aa0ba902b7',
    });
    const run = await argumentsOf(`name = 'run' and track_id = (select min(id) from track)`);
    expect(run).toMatchObject({ run: 'small', worldSize: 2, rank: 0, alignment: 'exact', boundNs: 0, metadata_torch: '2.9' });
  });
});

describe('a Perfetto trace in protobufjs', () => {
  const trace = decodePerfetto(bytesOf(perfettoWriter));

  it('has as many packets of each type as there are events', () => {
    const spans = events.filter(({ kind }) => kind !== 'instant' && kind !== 'counter');
    const perProcess = 2 * processes.length;
    expect(trace.counts).toEqual({
      begin: spans.filter(({ state }) => state !== 'close').length,
      end: spans.filter(({ state }) => state !== 'open').length,
      instant: events.filter(({ kind }) => kind === 'instant').length + perProcess,
      counter: events.filter(({ kind }) => kind === 'counter').length,
    });
  });

  it('gives each event the lane, time, flow and value it came with', () => {
    const names = new Map(trace.tracks.map(({ uuid, name }) => [uuid, name]));
    const early = trace.events.find(({ name }) => name === 'early');
    expect(early).toMatchObject({ type: 'instant', time: BigInt(origin - 500) });
    expect(names.get(early?.track ?? '')).toBe('main · tid 77');
    expect(trace.events.filter(({ flows }) => flows.length > 0).map(({ name, flows }) => `${name} ${flows[0]?.toString(16)}`)).toEqual([
      'allreduce deadbeef00000007',
      'allreduce deadbeef00000007',
      'GetWeights f067aa0ba902b7',
      'GetWeights f067aa0ba902b7',
    ]);
    expect(trace.events.flatMap(({ value }) => value ?? [])).toEqual([12.5, -3]);
    expect(trace.clocks).toEqual({ 1: 1_766_000_000_123_456_789n, 6: BigInt(origin) });
  });

  it('orders the lanes of a process: steps, threads with their overflow below them, counters', () => {
    const [process] = trace.tracks.filter(({ name }) => name === 'rank 0 · host-0');
    expect(process?.description).toBe('host boot-0, pid 4001, incarnation a-1, clock exact\ntorch: 2.9');
    const ofProcess = trace.tracks.filter(({ parentUuid, tid }) => parentUuid === process?.uuid || tid === processes.length + 2);
    const ordered = ofProcess.sort((a, b) => (a.orderRank ?? 0) - (b.orderRank ?? 0));
    expect(ordered.map(({ name, kind }) => `${kind} ${name}`)).toEqual([
      'child ProfilerSteps',
      'thread main · tid 77',
      'child main (2) · tid 77',
      'counter memory',
    ]);
    expect(ordered.at(-1)?.unitName).toBe('MB');
  });
});

describe('Chrome JSON', () => {
  const bytes = bytesOf(chromeWriter);
  /** The time of the first event, ns: `ts` counts from it. */
  const zero = -500;

  it('is read by trace_processor as the same spans, flows, counters and processes', async () => {
    using trace = await openTrace(bytes);
    // Its reader truncates µs to whole ns from a double: 1 ns may be missing.
    const slices = slicesFrom(await trace.query(sliceQuery), 0);
    expect(slices.map(({ name, depth, parent }) => ({ name, depth, parent }))).toEqual(
      sortedSlices.map(({ name, depth, parent }) => ({ name, depth, parent })),
    );
    for (const [index, { name, start, length }] of sortedSlices.entries()) {
      expect(Math.abs((slices[index]?.start ?? Number.NaN) + zero - start), name).toBeLessThanOrEqual(1);
      expect(Math.abs((slices[index]?.length ?? Number.NaN) - length), name).toBeLessThanOrEqual(1);
    }
    expect(await trace.query(processQuery)).toEqual(processes);
    expect((await trace.query(flowQuery)).map(({ name }) => name)).toEqual(['allreduce', 'GetWeights']);
    expect(await trace.query(`select value from counter order by ts`)).toEqual([{ value: 12.5 }, { value: -3 }]);
  });

  it('is JSON with the same events', () => {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    expect(text.startsWith('{"traceEvents":[')).toBe(true);
    const { traceEvents, otherData } = JSON.parse(text) as {
      traceEvents: { ph: string; name: string; ts: number; dur?: number }[];
      otherData: { run: string; unixEpochNs: string; totals: { missing: number }[] };
    };
    const spans = traceEvents.filter(({ ph }) => ph === 'X').map(({ name, ts, dur }) => `${name} ${ts} ${dur}`);
    const whole = events.filter(({ kind, state }) => state === 'whole' && kind !== 'instant' && kind !== 'counter');
    const expected = whole.map(({ name, start, length }) => `${name} ${(start - zero) / 1000} ${Math.round(length) / 1000}`);
    expect(spans).toEqual(expected.map((line) => line.replace(hostileName, cleanName)));
    expect(otherData).toMatchObject({ run: 'small', unixEpochNs: '1766000000123456789', zeroNs: zero });
    expect(otherData.totals.map(({ missing }) => missing)).toEqual([0, 1, 0]);
  });
});

describe('launches of device work', () => {
  const folder = mkdtempSync(join(tmpdir(), 'ranktrace-launches-'));
  afterAll(() => rmSync(folder, { recursive: true }));
  const { paths } = writeGpuJob(join(folder, 'job'), { seed: 1, ranks: 2, steps: 3 });
  const onDevice = ['kernel', 'gpu_memcpy', 'gpu_memset'];
  /** By rank: work of its device whose call is in its file. Collectives have the arrows between their ranks. */
  const launched = paths.map((path) => {
    const found = kinetoFileEvents(path);
    const calls = new Set(found.flatMap(({ cat, args }) => (cat === 'cuda_runtime' ? [args?.correlation] : [])));
    return found.filter(({ cat = '', name, args }) => onDevice.includes(cat) && !name.startsWith('nccl') && calls.has(args?.correlation));
  });

  it.for(['pftrace', 'json'])('are arrows in trace_processor, from each call to its work: .%s', async (format) => {
    const path = join(folder, `merged.${format}`);
    expect(await runLine(['merge', ...paths, '-o', path])).toMatchObject({ code: 0 });
    using trace = await openTrace(readFileSync(path));
    const key = format === 'json' ? 'args.correlation' : 'debug.correlation';
    const arrows = await trace.query(`
      select pid, extract_arg(o.arg_set_id, '${key}') as call, extract_arg(i.arg_set_id, '${key}') as work
      from flow f join slice o on f.slice_out = o.id join slice i on f.slice_in = i.id
      join process_track t on i.track_id = t.id join process using (upid)
      where i.category in (${onDevice.map((category) => `'${category}'`).join()})
      union all
      select pid, extract_arg(o.arg_set_id, '${key}') as call, extract_arg(i.arg_set_id, '${key}') as work
      from flow f join slice o on f.slice_out = o.id join slice i on f.slice_in = i.id
      join thread_track t on i.track_id = t.id join thread using (utid) join process using (upid)
      where i.category in (${onDevice.map((category) => `'${category}'`).join()})`);
    const between = arrows.filter(({ call, work }) => call !== undefined && call === work);
    expect(Math.min(...launched.map(({ length }) => length))).toBeGreaterThan(20);
    expect(paths.map((_, rank) => between.filter(({ pid }) => pid === rank + 1).length)).toEqual(launched.map(({ length }) => length));
    expect(await trace.query(problemQuery)).toEqual([]);
  });

  it('are made anew where a merged trace is merged again', async () => {
    const [path, again] = [join(folder, 'merged.pftrace'), join(folder, 'again.pftrace')];
    expect(await runLine(['merge', path, '-o', again])).toMatchObject({ code: 0 });
    const arrowsOf = (of: string) => decodePerfetto(readFileSync(of)).events.map(({ name, flows }) => `${name} ${flows.join()}`);
    expect(arrowsOf(again)).toEqual(arrowsOf(path));
  });
});

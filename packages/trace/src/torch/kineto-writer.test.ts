// Checks the written fields, one by one; that our own reader makes the same of the file as the in-memory sink of the events; and that events
// look like torch's own in test/data/kineto.

import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { nanos, traceTime } from '@ranktrace/protocol';
import { describe, expect, test } from 'vitest';
import { TraceError } from '../model/errors.ts';
import type { TraceEvent, TraceLane, TraceProcess, TraceSink } from '../model/trace-sink.ts';
import { droppedCounts, eventCounts, processTotals, traceEvent, traceHeader, traceLane, traceProcess } from '../testing/trace-events.ts';
import { functionAverages, totalAverage } from './function-averages.ts';
import { functionEventList } from './function-event-list.ts';
import { functionEvents } from './function-events.ts';
import { readKineto } from './kineto-reader.ts';
import { KinetoTableSink } from './kineto-table-sink.ts';
import { type KinetoWriterOptions, kinetoWriter } from './kineto-writer.ts';

const unixEpoch = 1_795_000_000_123_456_789n;
const process = traceProcess({ rank: 3, incarnation: 'a-1', hostName: 'host-a', pid: 4242 });
const other: TraceProcess = { ...process, index: 2, rank: 4, pid: 5000 };
const main = traceLane({ process, tid: 4242 });
const overflow: TraceLane = { ...main, index: 2, name: 'main (2)', overflow: 1 };
const worker: TraceLane = { ...main, index: 3, name: 'loader', tid: 4250 };
const steps: TraceLane = { ...main, index: 4, kind: 'steps', name: 'ProfilerSteps', tid: 0 };
const counter: TraceLane = { ...steps, index: 5, kind: 'counter', name: 'rss', unit: 'MB' };
const collector: TraceLane = { ...main, index: 6, name: 'gc', tid: 0 };
const elsewhere: TraceLane = { ...main, index: 7, process: other };
const lanes = [main, overflow, worker, steps, counter, collector, elsewhere];

const totals = processTotals({ process, batches: 2, missing: 1, dropped: droppedCounts({ events: 5 }), counts: eventCounts({ span: 1 }) });

type Arguments = Readonly<Record<string, string | number>>;

/** An event of the main thread; ns. */
function event(name: string, start: number, length: number, given: Arguments = {}, about: Partial<TraceEvent> = {}): TraceEvent {
  return traceEvent({
    ...{ lane: main, name, start: traceTime(start), length: nanos(length) },
    arguments: Object.keys(given).length === 0 ? undefined : new Map(Object.entries(given)),
    ...about,
  });
}

const op = (name: string, start: number, length: number, given: Arguments = {}, about: Partial<TraceEvent> = {}): TraceEvent =>
  event(name, start, length, given, { category: 'cpu_op', ...about });

const memory = (time: number, bytes: number, total: number, address: number): TraceEvent =>
  event(
    '[memory]',
    time,
    0,
    { Bytes: bytes, 'Total Allocated': total, Addr: address, 'Device Type': 0 },
    { kind: 'instant', category: 'cpu_instant_event' },
  );

const product = {
  'Input Dims': '[[32, 784], [784, 128]]',
  'Input type': '["float32","float32"]',
  'Output Dims': '[[32,128]]',
  'Call stack': 'model.ts(31): forward;train.ts(9): main',
  'Module Hierarchy': 'sequential.dense_1',
  flops: 6_422_528,
};

const phases = new Map([
  ['forward', nanos(40_001)],
  ['"odd"', nanos(7)],
]);

/** A step of a hand-made run, ns: nested ops, shapes, memory, stacks, flops, a copy that outlives its step, a loader beside it. */
const run: readonly TraceEvent[] = [
  event('forward', 1_000, 40_001),
  op('matMul', 2_003, 20_500, { ...product, 'Sequence number': 1 }),
  op('matMul', 2_500, 19_000),
  memory(3_000, 16_384, 116_384, 1),
  op('load', 3_100, 90_000, {}, { lane: worker }),
  event('[memory category]', 3_200, 0, { Addr: 1, category: 'ACTIVATION' }, { kind: 'instant', category: 'cpu_instant_event' }),
  event('tensor.data', 30_000, 50_000, { Bytes: 4096 }, { category: 'data_copy', lane: overflow, isAsync: true }),
  op(
    'relu',
    33_000,
    5_007,
    { 'Input Dims': '[[32,128]]', 'Sequence number': 2, 'Call stack': 'model.ts(31): forward' },
    { lane: overflow },
  ),
  op('step gradient', 45_000, 4_000, { 'Sequence number': 2, 'Fwd thread id': 4242 }),
  op('matMul', 50_000, 10_000, { 'Input Dims': '[[32,128],[128,784]]', 'Sequence number': 1, 'Fwd thread id': 4242, flops: 6_422_528 }),
  memory(51_000, -16_384, 100_000, 1),
  memory(61_000, 64, 100_064, 2),
  event('rss', 61_500, 0, {}, { kind: 'counter', lane: counter, value: 12.5 }),
  event('all_reduce', 62_000, 3_000, {}, { kind: 'collective', category: 'collective', group: 'dp', sequence: 7, bytes: 1024 }),
  event('ProfilerStep#4', 500, 69_500, {}, { kind: 'step', step: 4, lane: steps, overhead: nanos(250), phases }),
  event('scavenge', 71_000, 900, {}, { category: 'gc', lane: collector }),
  event('GetWeights', 72_000, 1_000, {}, { kind: 'rpc', category: 'rpc', side: 'client', peer: 'ps0', status: 'ok' }),
  op('not ours', 72_500, 10, {}, { lane: elsewhere }),
  event('evaluate', 73_000, 0, {}, { state: 'open' }),
  op('softmax', 73_500, 500),
  event('evaluate', 73_000, 4_000, { batches: 3 }, { state: 'close' }),
  event('killed', 78_000, 0, {}, { state: 'open' }),
];

function feed(sink: TraceSink, events: readonly TraceEvent[]): void {
  sink.begin(traceHeader([process, other], { worldSize: 8, unixEpoch }));
  for (const lane of lanes) sink.lane(lane);
  // One object refilled each time, as the merge does.
  const reused = {} as TraceEvent;
  for (const one of events) sink.event(Object.assign(reused, one));
  sink.end([totals]);
}

const options: KinetoWriterOptions = {
  options: { profile_memory: '1', record_shapes: '1' },
  steps: true,
  traceId: 'C22B76F0F3EA462BBE0C64A0FDCB4699',
  traceName: 'host-a_4242.1.pt.trace.json',
};

function written(events: readonly TraceEvent[], about: Partial<KinetoWriterOptions> = {}): Uint8Array {
  const chunks: Uint8Array[] = [];
  feed(
    kinetoWriter((chunk) => chunks.push(chunk.slice()), { ...options, ...about }),
    events,
  );
  return Buffer.concat(chunks);
}

const textOf = (events: readonly TraceEvent[], about: Partial<KinetoWriterOptions> = {}): string =>
  new TextDecoder('utf-8', { fatal: true }).decode(written(events, about));

type Written = Record<string, unknown> & { readonly ph: string; readonly name: string; readonly args: Record<string, unknown> };

/** Written events without names of processes and threads, and without the marks of the window. */
const eventsOf = (events: readonly TraceEvent[], about: Partial<KinetoWriterOptions> = {}): Written[] =>
  (JSON.parse(textOf(events, about)) as { traceEvents: Written[] }).traceEvents.filter(
    ({ ph, pid }) => ph !== 'M' && typeof pid === 'number',
  );

describe('the file', () => {
  test('of one op is this, byte for byte', () => {
    const text = textOf([op('matMul', 2_003, 20_500, { 'Input Dims': '[[2, 3]]', 'Sequence number': 1 })], {
      since: 1_000,
      distributedInfo: { backend: 'ring' },
      metadata: { note: 'a "b"' },
    });
    // 1795000000.123456789 s less 227 periods of 7889238 s is 4142974.123456789 s; and 2.003 µs.
    expect(text).toBe(`{"traceEvents":[
{"ph":"M","name":"process_name","ts":4142974123457.789,"pid":4242,"tid":0,"args":{"name":"rank 3 · host-a"}},
{"ph":"M","name":"process_labels","ts":4142974123457.789,"pid":4242,"tid":0,"args":{"labels":"CPU"}},
{"ph":"M","name":"process_sort_index","ts":4142974123457.789,"pid":4242,"tid":0,"args":{"sort_index":4242}},
{"ph":"M","name":"thread_name","ts":4142974123457.789,"pid":4242,"tid":4242,"args":{"name":"thread 4242 (main)"}},
{"ph":"M","name":"thread_sort_index","ts":4142974123457.789,"pid":4242,"tid":4242,"args":{"sort_index":4242}},
{"ph":"M","name":"thread_name","ts":4142974123457.789,"pid":4242,"tid":4250,"args":{"name":"thread 4250 (loader)"}},
{"ph":"M","name":"thread_sort_index","ts":4142974123457.789,"pid":4242,"tid":4250,"args":{"sort_index":4250}},
{"ph":"M","name":"thread_name","ts":4142974123457.789,"pid":4242,"tid":4194310,"args":{"name":"gc"}},
{"ph":"M","name":"thread_sort_index","ts":4142974123457.789,"pid":4242,"tid":4194310,"args":{"sort_index":4194310}},
{"ph":"X","cat":"cpu_op","name":"matMul","pid":4242,"tid":4242,"ts":4142974123458.792,"dur":20.500,"args":{"External id":1,"Record function id":0,"Input Dims":[[2,3]],"Sequence number":1,"Fwd thread id":0,"Ev Idx":0}},
{"ph":"X","cat":"Trace","ts":4142974123457.789,"dur":21.503,"pid":"Spans","tid":"PyTorch Profiler","name":"PyTorch Profiler (0)","args":{"Op count":1}},
{"name":"process_sort_index","ph":"M","ts":4142974123457.789,"pid":"Spans","tid":0,"args":{"sort_index":536870912}},
{"name":"Iteration Start: PyTorch Profiler","ph":"i","s":"g","pid":"Traces","tid":"Trace PyTorch Profiler","ts":4142974123457.789},
{"name":"Record Window End","ph":"i","s":"g","pid":"","tid":"","ts":4142974123479.292}
],"schemaVersion":1,"deviceProperties":[],"trace_id":"C22B76F0F3EA462BBE0C64A0FDCB4699","profile_memory":1,"record_shapes":1,"note":"a \\"b\\"","distributedInfo":{"backend":"ring","rank":3,"world_size":8},"host_name":"host-a","ranktrace":{"run":"r","incarnation":"a-1","unixEpoch":"1795000000123456789","clock":{"method":"exact","bound":0},"countersNotFinite":0,"outOfRange":0,"missingBatches":1,"late":0,"dropped":{"events":5,"arguments":0,"names":0,"batches":0},"ended":true},"baseTimeNanoseconds":1790857026000000000,"traceName":"host-a_4242.1.pt.trace.json"}`);
  });

  test('lists are JSON of their own, and left out where they are none', () => {
    const [good, bad] = eventsOf([
      op('a', 0, 1, { 'Input type': '["float32", "\ud800"]', 'Concrete Inputs': '["", "[1, 1]", "True"]' }),
      op('b', 2, 1, { 'Input Dims': '[[1,', 'Input type': '"float"', 'Output Dims': 'NaN' }),
    ]);
    expect(good?.args).toMatchObject({ 'Input type': ['float32', '\ufffd'], 'Concrete Inputs': ['', '[1, 1]', 'True'] });
    expect(Object.keys(bad?.args ?? {})).toEqual(['External id', 'Record function id', 'Ev Idx']);
  });

  test('has no number that JSON has not, and reports what is missing', () => {
    const text = textOf([
      op('a', 0, 1, { loss: Number.NaN, 'Ev Idx': 'mine' }),
      event('rss', 5, 0, {}, { kind: 'counter', lane: counter, value: Number.POSITIVE_INFINITY }),
      op('b', Number.NaN, 1),
    ]);
    const file = JSON.parse(text) as { traceEvents: Written[]; ranktrace: object };
    expect(file.traceEvents.find(({ name }) => name === 'a')?.args).toMatchObject({ loss: 'NaN', 'argument.Ev Idx': 'mine', 'Ev Idx': 0 });
    expect(file.ranktrace).toMatchObject({ countersNotFinite: 1, outOfRange: 1 });
    expect(file.traceEvents.some(({ name }) => name === 'b')).toBe(false);
  });

  test('a send names both ranks', () => {
    const about = { kind: 'collective', group: 'pp', sequence: 1, bytes: 8, peerRank: 1 } as const;
    const args = eventsOf([event('recv', 0, 5, {}, about), event('send', 9, 5, {}, about)]).map(({ args }) => args);
    expect(args[0]).toMatchObject({ 'Src Rank': 1, 'Dst Rank': process.rank, Rank: process.rank });
    expect(args[1]).toMatchObject({ 'Src Rank': process.rank, 'Dst Rank': 1 });
  });

  test('every kind of event as torch would have it', () => {
    const lines = eventsOf(run).map(({ ph, name, cat, tid, dur, args }) => JSON.stringify([ph, cat ?? '', name, tid, dur ?? 0, args ?? 0]));
    expect(lines).toEqual([
      '["X","user_annotation","forward",4242,40.001,{"External id":1,"Record function id":0,"Ev Idx":0}]',
      '["X","cpu_op","matMul",4242,20.5,{"External id":2,"Record function id":0,"Input Dims":[[32,784],[784,128]],"Input type":["float32","float32"],"Output Dims":[[32,128]],"Call stack":"model.ts(31): forward;train.ts(9): main","Module Hierarchy":"sequential.dense_1","flops":6422528,"Sequence number":1,"Fwd thread id":0,"Ev Idx":1}]',
      '["X","cpu_op","matMul",4242,19,{"External id":3,"Record function id":0,"Ev Idx":2}]',
      '["i","cpu_instant_event","[memory]",4242,0,{"Total Reserved":0,"Total Allocated":116384,"Bytes":16384,"Device Id":-1,"Device Type":0,"Addr":1,"finished":false,"Ev Idx":3}]',
      '["X","cpu_op","load",4250,90,{"External id":4,"Record function id":0,"Ev Idx":4}]',
      '["i","cpu_instant_event","[memory category]",4242,0,{"Addr":1,"category":"ACTIVATION","Ev Idx":5}]',
      '["X","data_copy","tensor.data",4242,50,{"External id":5,"Record function id":0,"Bytes":4096,"Async":1,"Ev Idx":6}]',
      '["X","cpu_op","relu",4242,5.007,{"External id":6,"Record function id":0,"Input Dims":[[32,128]],"Sequence number":2,"Call stack":"model.ts(31): forward","Fwd thread id":0,"Ev Idx":7}]',
      '["X","cpu_op","step gradient",4242,4,{"External id":7,"Record function id":0,"Sequence number":2,"Fwd thread id":4242,"Ev Idx":8}]',
      '["X","cpu_op","matMul",4242,10,{"External id":8,"Record function id":0,"Input Dims":[[32,128],[128,784]],"Sequence number":1,"Fwd thread id":4242,"flops":6422528,"Ev Idx":9}]',
      '["i","cpu_instant_event","[memory]",4242,0,{"Total Reserved":0,"Total Allocated":100000,"Bytes":-16384,"Device Id":-1,"Device Type":0,"Addr":1,"finished":false,"Ev Idx":10}]',
      '["i","cpu_instant_event","[memory]",4242,0,{"Total Reserved":0,"Total Allocated":100064,"Bytes":64,"Device Id":-1,"Device Type":0,"Addr":2,"finished":false,"Ev Idx":11}]',
      '["C","","rss",0,0,{"MB":12.5}]',
      '["X","collective_comm","all_reduce",4242,3,{"External id":9,"Record function id":0,"Collective name":"all_reduce","Process Group Name":"dp","Seq":7,"In msg bytes":1024,"Rank":3,"Ev Idx":12}]',
      '["X","user_annotation","ProfilerStep#4",4242,69.5,{"External id":10,"Record function id":0,"Overhead (ns)":250,"Phases (ns)":{"forward":40001,"\\"odd\\"":7},"Ev Idx":13}]',
      '["X","gc","scavenge",4194310,0.9,{"External id":11,"Record function id":0,"Ev Idx":14}]',
      '["X","rpc","rpc_async#GetWeights(rank 3 -> ps0)",4242,1,{"External id":12,"Record function id":0,"method":"GetWeights","side":"client","peer":"ps0","status":"ok","traceId":"","spanId":"","Ev Idx":15}]',
      '["X","cpu_op","softmax",4242,0.5,{"External id":13,"Record function id":0,"Ev Idx":16}]',
      '["X","user_annotation","evaluate",4242,4,{"External id":14,"Record function id":0,"batches":3,"Ev Idx":17}]',
      // It lasts until the last event known to have happened.
      '["X","user_annotation","killed",4242,15.1,{"External id":15,"Record function id":0,"Ev Idx":18}]',
      '["s","fwdbwd","fwdbwd",4242,0,0]',
      '["f","fwdbwd","fwdbwd",4242,0,0]',
      '["s","fwdbwd","fwdbwd",4242,0,0]',
      '["f","fwdbwd","fwdbwd",4242,0,0]',
    ]);
  });

  test('spans that begin together under one name on one track each end', () => {
    const open = { state: 'open' } as const;
    const close = { state: 'close' } as const;
    const events = [
      event('f', 0, 0, { k: 1 }, open),
      event('f', 0, 0, {}, open),
      event('f', 0, 20, {}, close),
      event('f', 0, 40, {}, close),
    ];
    expect(eventsOf(events).map(({ dur, args }) => [dur, args.k])).toEqual([
      [0.02, undefined],
      [0.04, 1],
    ]);
  });

  test('arrows lead from the innermost forward op to the innermost backward op, as in torch', () => {
    const at = (time: number): number => Number(((unixEpoch - 1_790_857_026_000_000_000n) * 1000n) / 1000n + BigInt(time)) / 1000;
    const arrows = eventsOf([
      op('conv2d', 1_000, 900, { 'Sequence number': 34 }),
      op('convolution', 1_100, 700, { 'Sequence number': 34 }),
      op('no backward', 2_000, 10, { 'Sequence number': 35 }),
      op('evaluate', 3_000, 900, { 'Sequence number': 34, 'Fwd thread id': 1 }, { lane: worker }),
      op('ConvolutionBackward', 3_100, 700, { 'Sequence number': 34, 'Fwd thread id': 1 }, { lane: worker }),
      // The same number again: another op, another arrow.
      op('conv2d', 5_000, 10, { 'Sequence number': 34 }),
      op('ConvolutionBackward', 6_000, 10, { 'Sequence number': 34, 'Fwd thread id': 1 }),
    ]).filter(({ cat }) => cat === 'fwdbwd');
    const about = { pid: 4242, cat: 'fwdbwd', name: 'fwdbwd' };
    expect(arrows).toEqual([
      { ph: 's', id: 1, tid: 4242, ts: at(1_100), ...about },
      { ph: 'f', id: 1, tid: 4250, ts: at(3_100), ...about, bp: 'e' },
      { ph: 's', id: 2, tid: 4242, ts: at(5_000), ...about },
      { ph: 'f', id: 2, tid: 4242, ts: at(6_000), ...about, bp: 'e' },
    ]);
  });

  test('a base of its own; one too far away is refused, for its times would be no whole ns', () => {
    const [first] = eventsOf([op('a', 500, 1)], { baseTimeNanoseconds: unixEpoch - 1_000n });
    expect(first?.ts).toBe(1.5);
    expect(() => textOf([], { baseTimeNanoseconds: 0n })).toThrow(TraceError);
  });

  test('without a rank of that number it has no events', () => {
    expect(eventsOf(run, { rank: 9 })).toEqual([]);
    expect(eventsOf(run, { rank: 4 }).map(({ name }) => name)).toEqual(['not ours']);
  });
});

describe('round trip', () => {
  const window = { since: 600, until: 90_000, steps: true, options: { profile_memory: '1' } } as const;
  const tables = (events: readonly TraceEvent[], about: object) => {
    const sink = new KinetoTableSink(about);
    feed(sink, events);
    return [sink.table, readKineto(written(events, { steps: false, ...about }))] as const;
  };

  test.for([
    ['all of it', { steps: true }],
    ['a window', window],
    ['without steps', {}],
  ] as const)('our reader makes of the file what the sink makes of the events: %s', ([, about]) => {
    const [ours, read] = tables(run, about);
    for (const grouping of [{}, { groupByInputShape: true }, { groupByStackN: 5 }]) {
      const rows = functionAverages(functionEvents(ours), grouping);
      expect(rows.length).toBeGreaterThan(5);
      expect(functionAverages(functionEvents(read), grouping)).toEqual(rows);
    }
    expect(totalAverage(functionEvents(read))).toEqual(totalAverage(functionEvents(ours)));
    const list = (table: typeof ours) => functionEventList(functionEvents(table)).map((one) => [one.toJSON(), one.metadataJson]);
    expect(list(read)).toEqual(list(ours));
  });

  test('the results themselves', () => {
    const [ours] = tables(run, { steps: true });
    const rows = functionAverages(functionEvents(ours)).map(
      (row) =>
        `${row.key} ${row.count}x ${row.selfCpuTimeTotal.toFixed(3)}/${row.cpuTimeTotal.toFixed(3)} µs memory ${row.selfCpuMemoryUsage}/${row.cpuMemoryUsage} flops ${row.flops}${row.isAsync ? ' async' : ''}`,
    );
    expect(rows).toEqual([
      'ProfilerStep* 1x 12.499/69.500 µs memory 64/64 flops 0',
      'forward 1x 14.494/40.001 µs memory 0/16384 flops 0',
      // The inner op is folded into the outer one.
      'matMul 2x 30.500/30.500 µs memory 0/0 flops 12845056',
      // Charged with other threads' allocations, as in torch.
      'load 1x 90.000/90.000 µs memory -16320/-16320 flops 0',
      'tensor.data 1x 0.000/50.000 µs memory 0/-16320 flops 0 async',
      'relu 1x 5.007/5.007 µs memory 0/0 flops 0',
      'step gradient 1x 4.000/4.000 µs memory 0/0 flops 0',
      'all_reduce 1x 3.000/3.000 µs memory 0/0 flops 0',
      'scavenge 1x 0.900/0.900 µs memory 0/0 flops 0',
      'rpc_async#GetWeights(rank 3 -> ps0) 1x 1.000/1.000 µs memory 0/0 flops 0',
      'evaluate 1x 3.500/4.000 µs memory 0/0 flops 0',
      'softmax 1x 0.500/0.500 µs memory 0/0 flops 0',
      'killed 1x 15.100/15.100 µs memory 0/0 flops 0',
    ]);
  });
});

describe("events have torch's own fields", () => {
  const torch = (
    JSON.parse(
      gunzipSync(
        readFileSync(new URL('../../../../test/data/kineto/torch-reference/conv_train.pt.trace.json.gz', import.meta.url)),
      ).toString(),
    ) as { traceEvents: Written[] }
  ).traceEvents;
  const fields = (one: Written): string =>
    JSON.stringify(
      Object.entries(one)
        .map(([key, value]) => `${key}: ${typeof value}`)
        .sort(),
    );
  const argumentsOf = (one: Written): Record<string, string> =>
    Object.fromEntries(Object.entries(one.args ?? {}).map(([key, value]) => [key, Array.isArray(value) ? 'list' : typeof value]));
  const ours = (JSON.parse(textOf(run)) as { traceEvents: Written[] }).traceEvents;

  test.for([
    ['X', 'cpu_op'],
    ['X', 'user_annotation'],
    ['i', 'cpu_instant_event'],
    ['s', 'fwdbwd'],
    ['f', 'fwdbwd'],
    ['X', 'Trace'],
    ['M', undefined],
    ['i', undefined],
  ] as const)('%s %s', ([phase, category]) => {
    const of = (events: Written[]): Set<string> =>
      new Set(events.filter(({ ph, cat }) => ph === phase && cat === category).map((one) => fields(one)));
    expect(of(ours)).toEqual(of(torch));
  });

  test('and arguments of the same names and types', () => {
    const isShaped = ({ args }: Written): boolean => args?.['Input Dims'] !== undefined && args['Sequence number'] !== undefined;
    const [theirs, mine] = [torch.find(isShaped), ours.find(isShaped)].map((one) => argumentsOf(one as Written));
    // Fields that torch lacks stand beside its own; strides are torch's alone.
    const { 'Output Dims': outputs, 'Module Hierarchy': modules, 'Call stack': stack, flops, ...shared } = mine ?? {};
    expect([outputs, modules, stack, flops]).toEqual(['list', 'string', 'string', 'number']);
    const { 'Input Strides': strides, 'Concrete Inputs': concrete, ...wanted } = theirs ?? {};
    expect([strides, concrete]).toEqual(['list', 'list']);
    expect(shared).toEqual(wanted);
    const memoryOf = (events: Written[]) => argumentsOf(events.find(({ name }) => name === '[memory]') as Written);
    expect(memoryOf(ours)).toEqual(memoryOf(torch));
    const annotationOf = (events: Written[]) => argumentsOf(events.find(({ cat }) => cat === 'user_annotation') as Written);
    expect(annotationOf(ours)).toEqual(annotationOf(torch));
  });
});

import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { expectFamily, expectSums } from '../testing/expect-function-events.ts';
import { gpuJob } from '../testing/gpu-job.ts';
import { averagesTable } from './averages-table.ts';
import { functionAverages } from './function-averages.ts';
import { type FunctionEvent, functionEventList } from './function-event-list.ts';
import { functionEvents } from './function-events.ts';
import { readKineto } from './kineto-reader.ts';

const reference = new URL('../../../../test/data/kineto/torch-reference/', import.meta.url);
const torchFile = (name: string): Uint8Array => gunzipSync(readFileSync(new URL(`${name}.pt.trace.json.gz`, reference)));
const gpuFile = (): Uint8Array => new TextEncoder().encode(gpuJob({ seed: 1, ranks: 2 }).files[0]?.text);

const listOf = (traceEvents: readonly object[]): FunctionEvent[] =>
  functionEventList(functionEvents(readKineto(new TextEncoder().encode(JSON.stringify({ traceEvents })))));

const op = (name: string, ts: number, dur: number, args: object = {}, cat = 'cpu_op', tid = 1) => ({
  ...{ ph: 'X', name, cat, ts, dur, pid: 1, tid, args },
});

describe.for([
  ['bmm_nested', () => torchFile('bmm_nested')],
  ['conv_train', () => torchFile('conv_train')],
  ['mask_indices', () => torchFile('mask_indices')],
  ['a simulated rank with a GPU (seed 1)', gpuFile],
] as const)('%s', ([, file]) => {
  const events = functionEvents(readKineto(file()));

  test('adds up to the averages', () => expectSums(events, functionAverages(events)));

  test('children and parents know each other, and lie within each other', () => expectFamily(events));
});

test('the kernels of a simulated rank belong to the ops that launched them (seed 1)', () => {
  const text = new TextDecoder().decode(gpuFile());
  const list = functionEventList(functionEvents(readKineto(gpuFile())));
  const { traceEvents } = JSON.parse(text) as { traceEvents: { cat?: string; name: string }[] };
  const kernels = list.flatMap((one) => one.kernels.map(({ name }) => `${one.name} ${name.slice(0, 22)}`));
  // The window begins with a step, so it holds the launch of every kernel.
  expect(kernels.filter((kernel) => !kernel.includes('Mem'))).toHaveLength(traceEvents.filter(({ cat }) => cat === 'kernel').length);
  expect(new Set(kernels)).toContain('record_param_comms ncclDevKernel_ReduceSc');
});

test('has the fields of torch', () => {
  const [forward, step, mm] = listOf([
    op('forward', 0, 100, { 'External id': 1 }, 'user_annotation'),
    op('ProfilerStep#7', 1, 90, {}, 'user_annotation'),
    op('aten::mm', 10, 20.5, {
      ...{ 'External id': 3, 'Input Dims': [[2, 3], [3, 4], [[1], [2]], []], 'Input type': ['float', 'float', 'TensorList', 'Scalar'] },
      ...{ 'Concrete Inputs': ['', '', '', '1'], 'Sequence number': 5, 'Fwd thread id': 0, 'Output Dims': [[2, 4]] },
      ...{ 'Call stack': 'm.py(1): f;autograd/__init__.py: backward;m.py(9): g', 'Module Hierarchy': 'net.fc', flops: 48 },
    }),
  ]) as [FunctionEvent, FunctionEvent, FunctionEvent];
  expect(mm.toJSON()).toEqual({
    ...{ id: 3, name: 'aten::mm', traceName: 'aten::mm', timeRange: { start: 10, end: 30.5, elapsedUs: 20.5 }, thread: 1, fwdThread: 0 },
    ...{ inputShapes: [[2, 3], [3, 4], [], []], stack: ['m.py(1): f', 'm.py(9): g'], scope: 0, sequenceNr: 5, deviceType: 'cpu' },
    ...{ flops: 48, cpuTimeTotal: 20.5, selfCpuTimeTotal: 20.5, deviceTimeTotal: 0, selfDeviceTimeTotal: 0, cpuMemoryUsage: 0 },
    ...{ selfCpuMemoryUsage: 0, deviceMemoryUsage: 0, selfDeviceMemoryUsage: 0, isAsync: false, isUserAnnotation: false },
    ...{ cpuParent: 0, cpuChildren: [] },
  });
  expect([mm.key, mm.count, mm.nodeId, mm.isRemote, mm.deviceIndex, mm.useDevice, mm.cpuTime]).toEqual([
    'aten::mm',
    1,
    -1,
    false,
    0,
    undefined,
    20.5,
  ]);
  expect([mm.concreteInputs, mm.outputShapes, mm.moduleHierarchy]).toEqual([['', '', '', '1'], [[2, 4]], 'net.fc']);
  expect(JSON.parse(mm.metadataJson)).toEqual({
    ...{ 'External id': 3, 'Sequence number': 5, 'Fwd thread id': 0, 'Output Dims': [[2, 4]], 'Module Hierarchy': 'net.fc' },
    ...{ 'Input Dims': [[2, 3], [3, 4], [[1], [2]], []], 'Input type': ['float', 'float', 'TensorList', 'Scalar'] },
    'Concrete Inputs': ['', '', '', '1'],
  });
  expect([step.name, step.key, step.traceName, step.scope]).toEqual(['ProfilerStep*', 'ProfilerStep*', 'ProfilerStep#7', 7]);
  expect([mm.cpuParent, step.cpuParent, forward.cpuParent]).toEqual([step, forward, undefined]);
});

test('lists memory that no op claims, with an id of its own, and nothing that was folded', () => {
  const list = listOf([
    op('a', 10, 10, { 'External id': 4 }),
    op('a', 12, 5, { 'External id': 5 }),
    { ph: 'i', name: '[memory]', ts: 30, pid: 1, tid: 9, args: { Bytes: -64, 'Device Type': 0 } },
    { ph: 'i', name: '[memory]', ts: 15, pid: 1, tid: 9, args: { Bytes: 8, 'Device Type': 0 } },
  ]);
  expect(list.map((one) => [one.id, one.name, one.traceName, one.thread, one.timeRange.elapsedUs, one.cpuMemoryUsage])).toEqual([
    [4, 'a', 'a', 1, 10, 8],
    [6, '[memory]', undefined, 9, 0, -64],
  ]);
});

test('an asynchronous event has a time, and nothing else of its own', () => {
  const list = listOf([
    op('forward', 0, 50, {}, 'user_annotation'),
    op('copy', 10, 20, { Async: 1, 'External id': 3 }, 'data_copy'),
    op('relu', 12, 5),
    op('memcpy', 40, 10, { 'External id': 3 }, 'gpu_memcpy', 7),
    { ph: 'i', name: '[memory]', ts: 14, pid: 1, tid: 1, args: { Bytes: 8, 'Device Type': 0 } },
  ]);
  expect(list.map((one) => [one.name, one.isAsync, one.selfCpuTimeTotal, one.cpuTimeTotal, one.cpuParent?.name])).toEqual([
    ['forward', false, 45, 50, undefined],
    ['copy', true, 0, 20, undefined],
    ['relu', false, 5, 5, 'forward'],
    ['memcpy', false, 0, 0, undefined],
  ]);
  const copy = list[1] as FunctionEvent;
  expect([copy.cpuChildren, copy.kernels, copy.deviceTimeTotal, copy.cpuMemoryUsage, copy.selfCpuMemoryUsage]).toEqual([[], [], 0, 8, 0]);
});

test('kernels are listed with the op that launched them, and with what it is folded into', () => {
  const [outer, launch] = listOf([
    op('mm', 0, 50, { 'External id': 1 }),
    op('mm', 5, 40, { 'External id': 2 }),
    op('cudaLaunchKernel', 10, 5, { 'External id': 2 }, 'cuda_runtime', 77),
    { ...op('gemm', 100, 30, { 'External id': 2 }, 'kernel', 7), pid: 3 },
  ]) as [FunctionEvent, FunctionEvent];
  expect(outer.kernels).toEqual([{ name: 'gemm', device: 3, duration: 30 }]);
  expect([launch.name, launch.thread, launch.cpuParent, outer.useDevice]).toEqual(['cudaLaunchKernel', 1, outer, 'cuda']);
});

test('prints as a table, those at the top alone where asked', () => {
  const list = listOf([op('a', 0, 100, { 'Input Dims': [[2, 3], []] }), op('b', 10, 30), op('b', 200, 60)]);
  const names = (text: string): string[] =>
    text
      .split('\n')
      .filter((line) => /[ab] /.test(line) && line.includes('%  '))
      .map((line) =>
        line
          .trim()
          .split(/ {2,}/)
          .filter((_, at) => [0, 1, 7].includes(at))
          .join(' '),
      );
  expect(names(averagesTable(list, { sortBy: 'cpu_time_total' }))).toEqual(['a 43.75% [[2, 3], []]', 'b 37.50% []', 'b 18.75% []']);
  expect(names(averagesTable(list, { topLevelEventsOnly: true, rowLimit: 2 }))).toEqual(['a 43.75% [[2, 3], []]', 'b 37.50% []']);
});

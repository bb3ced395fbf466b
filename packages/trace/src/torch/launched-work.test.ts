// The op that a kernel is charged to, in files of every year.

import { describe, expect, test } from 'vitest';
import { deviceTimes } from '../testing/device-times.ts';
import { gpuJob } from '../testing/gpu-job.ts';
import type { KinetoVintage } from '../testing/kineto-text.ts';
import { functionAverages } from './function-averages.ts';
import { functionEvents } from './function-events.ts';
import { readKineto } from './kineto-reader.ts';

const averagesOf = (text: string) =>
  functionAverages(functionEvents(readKineto(new TextEncoder().encode(text)), { withPythonFunctions: true }));
const averagesOfEvents = (traceEvents: readonly object[]) => averagesOf(JSON.stringify({ traceEvents }));

describe.each(['today', '2022', '2021'] as const)('of files as torch wrote them in %s', (vintage: KinetoVintage) => {
  test.each([3, 17, 4711])('every op has the time of what it launched (seed %i)', (seed) => {
    for (const { text } of gpuJob({ seed, ranks: 2, steps: 2, vintage }).files) {
      const rows = averagesOf(text);
      const expected = [...deviceTimes(text)].filter(([name]) => name.startsWith('aten::'));
      expect(expected.length).toBeGreaterThan(4);
      for (const [name, time] of expected) {
        const row = rows.find(({ key }) => key === name);
        expect(row?.selfDeviceTimeTotal, name).toBeCloseTo(time, 1);
        expect(row?.deviceTimeTotal, name).toBeGreaterThanOrEqual((row?.selfDeviceTimeTotal ?? 0) - 1e-6);
      }
    }
  });

  test('what ran on a device is no time of the CPU', () => {
    for (const { text } of gpuJob({ seed: 5, ranks: 2, steps: 2, vintage }).files) {
      const rows = averagesOf(text);
      const ofDevice = rows.filter(({ key }) => /^(?:sm90|Memcpy HtoD|Memset \(|nccl(?:Dev)?Kernel|void at::)/.test(key));
      expect(ofDevice.length).toBeGreaterThan(4);
      for (const row of ofDevice) {
        expect(row.deviceType).toBe('device');
        expect(row.cpuTimeTotal).toBe(0);
      }
    }
  });
});

const span = (cat: string, name: string, ts: number, dur: number, args: object = {}, tid: number | string = 1, pid = 1) => ({
  ...{ ph: 'X', cat, name, ts, dur, pid, tid, args },
});
const selfTimes = (events: readonly object[]) =>
  Object.fromEntries(
    averagesOfEvents(events).map((row) => [row.key, [row.selfCpuTimeTotal, row.selfDeviceTimeTotal, row.deviceTimeTotal]]),
  );

describe('where the External id is the correlation', () => {
  const kernel = (correlation: number, dur: number, about: object = { 'External id': correlation }) =>
    span('kernel', 'gemm', 500, dur, { correlation, ...about }, 7, 0);
  const call = (ts: number, dur: number, correlation: number, tid = 1) =>
    span('cuda_runtime', 'cudaLaunchKernel', ts, dur, { correlation, 'External id': correlation }, tid);

  test('the op around the call counts, whatever op has that number', () => {
    const times = selfTimes([
      span('cpu_op', 'other', 0, 10, { 'External id': 900 }),
      span('cpu_op', 'linear', 20, 50, { 'External id': 1 }),
      span('cpu_op', 'addmm', 30, 30, { 'External id': 2 }),
      span('python_function', 'train.py(3): step', 35, 20),
      call(40, 10, 900),
      kernel(900, 7),
    ]);
    expect(times).toMatchObject({
      other: [10, 0, 0],
      linear: [20, 0, 7],
      addmm: [10, 7, 7],
      cudaLaunchKernel: [10, 0, 0],
      gemm: [0, 7, 7],
    });
  });

  test('a call within a call, on another thread, or ending a µs behind its op for its µs are whole', () => {
    const times = selfTimes([
      span('cpu_op', 'mm', 0, 30, { 'External id': 1 }),
      span('cpu_op', 'mul', 0, 30, { 'External id': 2 }, 2),
      span('cuda_runtime', 'cudaLaunchKernel', 10, 15, { correlation: 5, 'External id': 5 }),
      span('cuda_driver', 'cuLaunchKernel', 12, 5, { correlation: 6, 'External id': 6 }),
      call(20, 11, 8, 2),
      kernel(6, 3),
      kernel(8, 4),
    ]);
    expect(times.mm?.[1]).toBe(3);
    expect(times.mul?.[1]).toBe(4);
  });

  test('what was launched outside of all ops, or by a call that was not recorded, is nobody’s', () => {
    const times = selfTimes([span('cpu_op', 'mm', 0, 30, { 'External id': 9 }), call(30, 5, 9), kernel(9, 3), kernel(11, 4)]);
    expect(times.mm).toEqual([30, 0, 0]);
    expect(times.gemm).toEqual([0, 7, 7]);
  });

  test('a wait of the host for its device is no work that it launched', () => {
    const times = selfTimes([
      span('cpu_op', 'item', 0, 30, { 'External id': 1 }),
      span('cuda_runtime', 'cudaStreamSynchronize', 5, 20, { correlation: 4, 'External id': 4 }),
      span('cuda_sync', 'Stream Sync', 5, 20, { correlation: 4, 'External id': 4 }, 7, 0),
    ]);
    expect(times.item).toEqual([10, 0, 0]);
  });
});

test('threads of 2021, text for spans and numbers for allocations, are the same', () => {
  const table = readKineto(
    new TextEncoder().encode(
      JSON.stringify({
        traceEvents: [
          span('Operator', 'aten::empty', 10, 5, { 'External id': 2 }, '25738'),
          { ph: 'i', s: 't', name: '[memory]', pid: 1, tid: 25738, ts: 12, args: { 'Device Type': 0, Bytes: 4 } },
          span('Kernel', 'gemm', 20, 5, { 'external id': 2, correlation: 7 }, 'stream 7', 0),
        ],
      }),
    ),
  );
  expect(table.tracks).toEqual([
    { pid: 1, tid: 25738 },
    { pid: 0, tid: 'stream 7' },
  ]);
  expect(functionAverages(functionEvents(table)).map((row) => [row.key, row.cpuMemoryUsage, row.deviceTimeTotal])).toEqual([
    ['aten::empty', 4, 5],
    ['gemm', 0, 5],
  ]);
});

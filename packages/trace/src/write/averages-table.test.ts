// What the reference tables of torch (analyse/function-averages.test.ts) have no case of.

import { expect, test } from 'vitest';
import type { FunctionAverage } from '../analyse/function-averages.ts';
import { TraceError } from '../errors.ts';
import { averagesTable, sortKeyOf } from './averages-table.ts';
import { formatMemory, formatShare, formatTime, toFixedEven } from './torch-formats.ts';

const row = (about: Partial<FunctionAverage>): FunctionAverage => ({
  key: 'op',
  count: 1,
  deviceType: 'cpu',
  cpuTimeTotal: 0,
  selfCpuTimeTotal: 0,
  deviceTimeTotal: 0,
  selfDeviceTimeTotal: 0,
  cpuMemoryUsage: 0,
  selfCpuMemoryUsage: 0,
  deviceMemoryUsage: 0,
  selfDeviceMemoryUsage: 0,
  flops: 0,
  isAsync: false,
  isUserAnnotation: false,
  inputShapes: '',
  stack: [],
  ...about,
});

test('device columns, stack rows and a header', () => {
  const rows = [
    row({
      key: 'aten::mm',
      cpuTimeTotal: 10,
      selfCpuTimeTotal: 10,
      deviceTimeTotal: 2000,
      stack: ['model.py(3): forward', 'train.py(9): main'],
    }),
    row({ key: 'gemm', deviceType: 'device', deviceTimeTotal: 2000, selfDeviceTimeTotal: 2000 }),
  ];
  const lines = averagesTable(rows, { header: 'GPU 0', sortBy: 'self_cuda_time_total' }).split('\n');
  expect(lines.slice(0, 2)).toEqual(['='.repeat(12 + 10 * 14 + 2 + 24), 'GPU 0']);
  expect(lines[3]?.trim().split(/ {2,}/)).toEqual([
    'Name',
    'Self CPU %',
    'Self CPU',
    'CPU total %',
    'CPU total',
    'CPU time avg',
    'Self CUDA',
    'Self CUDA %',
    'CUDA total',
    'CUDA time avg',
    '# of Calls',
    'Source Location',
  ]);
  expect(lines[5]?.trim().split(/ {2,}/)).toEqual('gemm|0.00%|0.000us|0.00%|0.000us|0.000us|2.000ms|100.00%|2.000ms|2.000ms|1'.split('|'));
  expect(lines[8]).toBe(`${' '.repeat(12 + 10 * 14)}  ${'train.py(9): main'.padEnd(24)}  `);
  expect(lines.slice(-3)).toEqual(['Self CPU time total: 10.000us', 'Self CUDA time total: 2.000ms', '']);
});

test('without rows there is no table', () => {
  expect(averagesTable([])).toBe('');
});

test.for([
  ['cpu_time', 'cpuTime'],
  ['cuda_time_total', 'deviceTimeTotal'],
  ['self_xpu_memory_usage', 'selfDeviceMemoryUsage'],
  ['selfCpuTimeTotal', 'selfCpuTimeTotal'],
])('the sort key %s is %s', ([name, key]) => {
  expect(sortKeyOf(name as string)).toBe(key);
});

test('refuses another sort key by name', () => {
  expect(() => sortKeyOf('speed')).toThrow(TraceError);
  expect(() => sortKeyOf('speed')).toThrow(/sort key must be one of cpuTime, .* got "speed"/);
});

// The right column is what Python 3.11 prints.
test.for([
  [3.125, 2, '3.12'],
  [3.375, 2, '3.38'],
  [0.0625, 3, '0.062'],
  [2.0005, 3, '2.001'],
  [1.005, 2, '1.00'],
  [-3.125, 2, '-3.12'],
  [0.5, 0, '0'],
] as const)('%d with %d digits is %s, as in Python', ([value, digits, text]) => {
  expect(toFixedEven(value, digits)).toBe(text);
});

test('units of time, share and memory', () => {
  expect([999.9996, 1000, 1e6].map((micros) => formatTime(micros))).toEqual(['1000.000us', '1.000ms', '1.000s']);
  expect(formatTime(1500, 'us')).toBe('1500.000us');
  expect([formatShare(1, 0), formatShare(1, 3)]).toEqual(['NaN', '33.33%']);
  expect([-5, 1023, 1024, -1536, 1024 ** 2, 3 * 1024 ** 3].map(formatMemory)).toEqual([
    '-5 B',
    '1023 B',
    '1.00 KB',
    '-1.50 KB',
    '1.00 MB',
    '3.00 GB',
  ]);
});

// Cases that torch's reference tables (torch/function-averages.test.ts) do not cover.

import { expect, test } from 'vitest';
import { TraceError } from '../model/errors.ts';
import { type AveragesTableRow, averagesTable, sortKeyOf } from './averages-table.ts';
import { formatMemory, formatShare, formatTime, toFixedEven } from './torch-formats.ts';

const row = (about: Partial<AveragesTableRow>): AveragesTableRow => ({
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
  isTopLevel: true,
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

test('an asynchronous row has no share of the total, and no self time', () => {
  const rows = [row({ key: 'forward', cpuTimeTotal: 30, selfCpuTimeTotal: 30 }), row({ key: 'copy', cpuTimeTotal: 60, isAsync: true })];
  const cells = averagesTable(rows)
    .split('\n')
    .slice(3, 5)
    .map((line) => line.trim().split(/ {2,}/));
  expect(cells).toEqual([
    ['forward', '100.00%', '30.000us', '100.00%', '30.000us', '30.000us', '1'],
    ['copy', '0.00%', '0.000us', '0', '60.000us', '60.000us', '1'],
  ]);
});

test('only rows at the top, with the shares and the footer of all', () => {
  const rows = [
    row({ key: 'inner', cpuTimeTotal: 30, selfCpuTimeTotal: 30, isTopLevel: false }),
    row({ key: 'outer', cpuTimeTotal: 40, selfCpuTimeTotal: 10 }),
    row({ key: 'other', cpuTimeTotal: 40, selfCpuTimeTotal: 40 }),
  ];
  expect(averagesTable(rows, { topLevelEventsOnly: true, rowLimit: 1, header: 'Step 3' }).split('\n')).toEqual([
    '='.repeat(9 + 6 * 14),
    'Step 3',
    '='.repeat(9 + 6 * 14),
    'This report only display top-level ops statistics',
    `${'-'.repeat(9)}  ${`${'-'.repeat(12)}  `.repeat(6)}`,
    '     Name    Self CPU %      Self CPU   CPU total %     CPU total  CPU time avg    # of Calls  ',
    `${'-'.repeat(9)}  ${`${'-'.repeat(12)}  `.repeat(6)}`,
    '    outer        12.50%      10.000us        50.00%      40.000us      40.000us             1  ',
    `${'-'.repeat(9)}  ${`${'-'.repeat(12)}  `.repeat(6)}`,
    'Self CPU time total: 80.000us',
    '',
  ]);
});

test('columns without a bound are as wide as what is in them', () => {
  const long = 'x'.repeat(200);
  const table = averagesTable([row({ key: long, inputShapes: [[2, 3], []] })], {
    maxNameColumnWidth: Number.POSITIVE_INFINITY,
    maxShapesColumnWidth: Number.POSITIVE_INFINITY,
  });
  expect(table.split('\n')[3]).toContain(`    ${long}  `);
  expect(table.split('\n')[3]).toMatch(/ {4}\[\[2, 3\], \[\]\] {2}$/);
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

test('refuses another unit of time by name', () => {
  expect(() => formatTime(14_150.807, 'ns' as 'us')).toThrow(/timeUnit must be one of s, ms, us, got "ns"/);
});

// The right column is Python 3.11's output.
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

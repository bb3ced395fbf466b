// Real devices printed all rows here (fixtures/, each with its source), except where a test says otherwise.

import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  allFields,
  deviceUnits,
  isFieldError,
  isLinkLine,
  linkRates,
  readLinkTotals,
  readQueryRow,
  ThroughputReader,
} from './device-rows.ts';
import { readFixture } from './fixtures/read-fixture.ts';
import { LineSplitter } from './line-splitter.ts';

const MiB = 1024 * 1024;

/** The rows of a recorded query. If it lacks the index, puts one before the row and changes nothing else. */
function rows(name: string) {
  const { fields, lines } = readFixture(name);
  if (fields.includes('index')) return lines.map((line) => readQueryRow(fields, line));
  return lines.map((line) => readQueryRow(['index', ...fields], `0, ${line}`));
}

test('reads H100s by index and UUID, printed with units although none were wanted', () => {
  const [header, first, second, , last] = rows('h100.csv');
  expect(header).toBeUndefined();
  expect(first).toEqual({
    device: '2',
    uuid: 'GPU-107f0d10-2c02-7c73-7b9f-680acd29b484',
    name: 'NVIDIA H100 80GB HBM3',
    values: {
      'gpu utilization': 100,
      'memory utilization': 1,
      'memory used': 29089 * MiB,
      'memory total': 81559 * MiB,
      temperature: 35,
      power: 154.88,
    },
  });
  expect(second).toMatchObject({ device: '3', uuid: 'GPU-8c958eaa-b244-64cb-6283-d37792aac963', values: { power: 158.86 } });
  expect(last).toMatchObject({ device: '2', values: { 'memory used': 36227 * MiB, power: 150.74 } });
});

test('reads a V100 over time', () => {
  expect(rows('v100.csv').map((row) => row?.values)).toEqual([
    undefined,
    { 'gpu utilization': 98, 'memory utilization': 61, 'memory total': 32480 * MiB, 'memory used': 30994 * MiB },
    { 'gpu utilization': 100, 'memory utilization': 88, 'memory total': 32480 * MiB, 'memory used': 30994 * MiB },
    { 'gpu utilization': 32, 'memory utilization': 33, 'memory total': 32480 * MiB, 'memory used': 30994 * MiB },
  ]);
});

test('reads clocks of a GeForce', () => {
  expect(rows('rtx.csv')[1]?.values).toEqual({
    temperature: 56,
    'gpu utilization': 26,
    'memory utilization': 4,
    power: 83.92,
    'sm clock': 1320,
    'memory clock': 5001,
  });
});

test('leaves out what a device does not know, in each spelling', () => {
  // N/A without brackets, in a field that is no counter of ours.
  expect(rows('rtx-2080.csv')).toEqual([
    {
      device: '0',
      uuid: 'GPU-22b2c6ac-2d49-4863-197c-9c469071178a',
      name: 'GeForce RTX 2080',
      values: {
        'memory total': 7979 * MiB,
        power: 176.98,
        temperature: 45,
        'sm clock': 1965,
        'memory clock': 7199,
        'gpu utilization': 86,
        'memory utilization': 55,
        'pcie width': 8,
      },
    },
  ]);
  expect(rows('gtx-770.csv')).toEqual([{ device: '0', uuid: '', name: 'GeForce GTX 770', values: { temperature: 52 } }]);
  expect(rows('rtx-2080-ti.csv')[1]?.values).toEqual({
    'gpu utilization': 100,
    'memory utilization': 37,
    temperature: 56,
    power: 228.82,
    'memory clock': 6800,
  });
  const [newer, older] = rows('laptop.csv');
  expect(newer).toEqual(older);
  expect(newer?.values).toEqual({
    'memory total': 2004 * MiB,
    'memory used': 0,
    temperature: 44,
    'gpu utilization': 0,
    'memory utilization': 0,
  });
});

test('takes nothing else for a row (made up, not recorded)', () => {
  const fields = ['index', 'uuid', 'name', 'power.draw'];
  const check = (line: string, expected: Record<string, number> | undefined) =>
    expect(readQueryRow(fields, line)?.values).toEqual(expected);
  check('0, GPU-1, A, 3.5', { power: 3.5 });
  check('0, GPU-1, A, [GPU is lost]', undefined);
  check('0, GPU-1, A, ERR!', undefined);
  check('0, GPU-1, A, 3,5', undefined); // A decimal comma.
  check('0, GPU-1, A, 3.5 kW', undefined);
  check('0, GPU-1, A, 1e3', undefined);
  check('0, GPU-1, A', undefined);
  check('x, GPU-1, A, 3.5', undefined);
  check('-1, GPU-1, A, 3.5', undefined);
  check('0, MIG-1, A MIG 1g.5gb, 3.5', undefined);
  check('', undefined);
  expect(readQueryRow(fields, '0, nonsense, A\u001b[31m\u0007B, 3.5')).toMatchObject({ uuid: '', name: 'A\\u001b[31m\\u0007B' });
});

test('knows the complaint about a field', () => {
  const { lines } = readFixture('field-error.txt');
  expect(lines.map(isFieldError)).toEqual([true]);
  expect(readFixture('driver-error.txt').lines.map(isFieldError)).toEqual([false]);
});

test('finds PCIe throughput among the columns of dmon by its header', () => {
  const reader = new ThroughputReader();
  expect(readFixture('dmon-titan-x.txt').lines.flatMap((line) => reader.read(line) ?? [])).toEqual([
    { device: '0', values: { 'pcie rx': 41e6, 'pcie tx': 8e6 } },
    { device: '1', values: { 'pcie rx': 25e6, 'pcie tx': 14e6 } },
    { device: '2', values: { 'pcie rx': 33e6, 'pcie tx': 10e6 } },
    { device: '3', values: { 'pcie rx': 62e6, 'pcie tx': 5e6 } },
  ]);
});

test('reads nothing from a dmon without these columns, or without support', () => {
  for (const name of ['dmon-gpm.txt', 'dmon-unsupported.txt']) {
    const reader = new ThroughputReader();
    expect(readFixture(name).lines.flatMap((line) => reader.read(line) ?? [])).toEqual([]);
  }
});

test('sums the links of a device and reports their rate', () => {
  const [before, after] = ['nvlink-v100-start.txt', 'nvlink-v100-end.txt'].map((name) => readLinkTotals(readFixture(name).lines));
  expect(linkRates(before ?? [], after ?? [], 128)).toEqual([
    { device: '3', values: { 'nvlink rx': ((20904969 - 19255516) * 1024) / 128, 'nvlink tx': ((20886285 - 19241022) * 1024) / 128 } },
  ]);
  const idle = readFixture('nvlink-h800-idle.txt').lines;
  expect(idle.every(isLinkLine)).toBe(true);
  const sum = (which: string) =>
    idle.flatMap((line) => (line.includes(which) ? Number(/(\d+) KiB/.exec(line)?.[1]) * 1024 : [])).reduce((a, b) => a + b);
  expect(readLinkTotals(idle)).toEqual([{ device: '0', rx: sum('Rx:'), tx: sum('Tx:') }]);
  const [training] = linkRates(readLinkTotals(idle), readLinkTotals(readFixture('nvlink-h800-training.txt').lines), 60);
  expect(training?.values['nvlink tx']).toBeGreaterThan(150e9);
});

test('reports no rate of links whose counters were reset, or of a device that was not there', () => {
  const before = [{ device: '0', rx: 10, tx: 10 }];
  expect(linkRates(before, [{ device: '0', rx: 9, tx: 11 }], 1)).toEqual([]);
  expect(linkRates(before, [{ device: '1', rx: 90, tx: 90 }], 1)).toEqual([]);
  expect(linkRates(before, [{ device: '0', rx: 20, tx: 20 }], 0)).toEqual([]);
});

test('has a unit for every value', () => {
  const row = allFields.map((field, place) => (field === 'index' ? '0' : String(place))).join(', ');
  const { values } = readQueryRow(allFields, row) ?? { values: {} };
  expect(Object.keys(values)).toHaveLength(allFields.length - 3);
  for (const name of [...Object.keys(values), 'pcie rx', 'pcie tx', 'nvlink rx', 'nvlink tx']) expect(deviceUnits).toHaveProperty([name]);
});

test('whatever comes, readers answer and values are finite', () => {
  const recorded = ['h100.csv', 'dmon-titan-x.txt', 'nvlink-v100-end.txt'].map((name) => readFixture(name).output);
  const broken = fc.tuple(fc.constantFrom(...recorded), fc.nat(2000), fc.nat(50), fc.string({ unit: 'binary' }));
  fc.assert(
    fc.property(broken, ([text, at, length, garbage]) => {
      const throughput = new ThroughputReader();
      const values: unknown[] = [];
      const lines: string[] = [];
      new LineSplitter(300).push(`${text.slice(0, at)}${garbage}${text.slice(at + length)}\n`, (line) => lines.push(line));
      for (const line of lines) {
        values.push(...Object.values(readQueryRow(readFixture('h100.csv').fields, line)?.values ?? {}));
        values.push(...Object.values(throughput.read(line)?.values ?? {}));
      }
      for (const { rx, tx } of readLinkTotals(lines)) values.push(rx, tx);
      expect(values.every(Number.isFinite)).toBe(true);
    }),
    { seed: 7, numRuns: 300 },
  );
});

test('splits lines wherever chunks end, with CRLF too, and never reports a cut one', () => {
  fc.assert(
    fc.property(fc.array(fc.stringMatching(/^[a-z,\u00e9]{0,12}$/)), fc.constantFrom('\n', '\r\n'), fc.nat(9), (lines, end, size) => {
      const splitter = new LineSplitter(20);
      const reported: string[] = [];
      const text = `${lines.map((line) => line + end).join('')}cut`;
      for (let at = 0; at < text.length; at += size + 1) splitter.push(text.slice(at, at + size + 1), (line) => reported.push(line));
      expect(reported).toEqual(lines);
    }),
    { seed: 7 },
  );
});

test('skips a line of 10 MB and keeps none of it', () => {
  const splitter = new LineSplitter(100);
  const reported: string[] = [];
  splitter.push('before\n', (line) => reported.push(line));
  for (let part = 0; part < 160; part++) splitter.push('x'.repeat(65536), (line) => reported.push(line));
  splitter.push('x\nafter\n', (line) => reported.push(line));
  expect(reported).toEqual(['before', 'after']);
});

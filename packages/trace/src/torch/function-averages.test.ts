// Compared with torch itself: test/data/kineto/torch-reference holds profiles and torch 2.13's results for them.

import { readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { averagesTable } from './averages-table.ts';
import { type FunctionAverage, functionAverages, totalAverage } from './function-averages.ts';
import { functionEventList } from './function-event-list.ts';
import { functionEvents } from './function-events.ts';
import { readKineto } from './kineto-reader.ts';

const reference = new URL('../../../../test/data/kineto/torch-reference/', import.meta.url);
const cases = ['bmm_nested', 'conv_train', 'mask_indices'];

interface Expected {
  /** Rows as torch's FunctionEventAvg, by grouping; `total` is one row. */
  readonly averages: Readonly<Record<string, unknown>>;
  readonly tables: Readonly<Record<string, string>>;
}

const load = (name: string) => {
  const expected = JSON.parse(readFileSync(new URL(`${name}.expected.json`, reference), 'utf8')) as Expected;
  const table = readKineto(gunzipSync(readFileSync(new URL(`${name}.pt.trace.json.gz`, reference))));
  return { expected, table, events: functionEvents(table) };
};

const groupings = {
  default: {},
  input_shape: { groupByInputShape: true },
  stack5: { groupByStackN: 5 },
} as const;

/** Times are compared too: the sums are torch's doubles, bit for bit. */
const named = (row: FunctionAverage) => ({
  key: row.key,
  count: row.count,
  cpu_time_total: row.cpuTimeTotal,
  self_cpu_time_total: row.selfCpuTimeTotal,
  cpu_memory_usage: row.cpuMemoryUsage,
  self_cpu_memory_usage: row.selfCpuMemoryUsage,
  flops: row.flops,
  is_async: row.isAsync,
  is_user_annotation: row.isUserAnnotation,
});

describe.for(cases)('%s', (name) => {
  const { expected, table, events } = load(name);

  test.for(Object.keys(expected.averages).filter((group) => group !== 'total'))('averages grouped by %s are those of torch', (group) => {
    const rows = functionAverages(events, groupings[group as keyof typeof groupings]);
    expect(rows.map((row) => ({ ...named(row), input_shapes: row.inputShapes, stack: row.stack }))).toEqual(expected.averages[group]);
  });

  test('the total is that of torch', () => {
    const total = totalAverage(events);
    expect(named(total)).toEqual(expected.averages.total);
  });

  test.for(Object.keys(expected.tables).filter((key) => key.includes('|')))('the table %s is that of torch, byte for byte', (key) => {
    const [group, sortBy, limit] = key.split('|') as [keyof typeof groupings, string, string];
    const rows = functionAverages(events, groupings[group]);
    const options = { sortBy, rowLimit: Number(limit), profileMemory: table.isOn('profile_memory'), withFlops: table.isOn('with_flops') };
    expect(averagesTable(rows, options)).toBe(expected.tables[key]);
  });
});

const traceOf = (traceEvents: readonly object[], metadata: object = {}) =>
  readKineto(new TextEncoder().encode(JSON.stringify({ ...metadata, traceEvents })));

const op = (name: string, ts: number, dur: number, args: object = {}, cat = 'cpu_op', tid = 1) => ({
  ph: 'X',
  name,
  cat,
  ts,
  dur,
  pid: 1,
  tid,
  args,
});

const memoryAt = (ts: number, bytes: number, type = 0) => ({
  ph: 'i',
  name: '[memory]',
  ts,
  pid: 1,
  tid: 9,
  args: { Bytes: bytes, 'Device Type': type },
});

/** Rows as text, `key count self/total memory(self)`, in order. */
const check = (trace: ReturnType<typeof traceOf>, wanted: readonly string[], options = {}) => {
  const rows = functionAverages(functionEvents(trace), options);
  const text = rows.map(
    (row) =>
      `${row.key} ${row.count}x cpu ${row.selfCpuTimeTotal}/${row.cpuTimeTotal} device ${row.selfDeviceTimeTotal}/${row.deviceTimeTotal} memory ${row.selfCpuMemoryUsage}/${row.cpuMemoryUsage}`,
  );
  expect(text).toEqual(wanted);
};

describe("by torch's rules", () => {
  test('an op alone in one of its name is folded into it, however deep', () => {
    check(traceOf([op('a', 0, 100), op('a', 10, 80), op('a', 20, 60), op('b', 30, 10), op('b', 50, 10)]), [
      'a 1x cpu 80/100 device 0/0 memory 0/0',
      'b 2x cpu 20/20 device 0/0 memory 0/0',
    ]);
  });

  test('a collection beside the only op of its name changes nothing', () => {
    check(traceOf([op('a', 0, 100), op('a', 10, 80), { ...op('gc minor', 20, 10), cat: 'gc' }]), [
      'a 1x cpu 90/100 device 0/0 memory 0/0',
      'gc minor 1x cpu 10/10 device 0/0 memory 0/0',
    ]);
  });

  test('two of a name inside it are not, and count for themselves', () => {
    check(traceOf([op('a', 0, 100), op('a', 10, 20), op('a', 40, 20)]), ['a 3x cpu 100/140 device 0/0 memory 0/0']);
  });

  test('partly overlapping ops are not inside each other', () => {
    check(traceOf([op('a', 0, 50), op('b', 40, 50)]), ['a 1x cpu 50/50 device 0/0 memory 0/0', 'b 1x cpu 50/50 device 0/0 memory 0/0']);
  });

  test('an op is charged with the memory of any thread at its bounds, and what no op claims has a row', () => {
    check(traceOf([op('a', 10, 10), memoryAt(5, 1), memoryAt(10, 2), memoryAt(20, 4), memoryAt(20.001, 8), memoryAt(15, 16, 1)]), [
      '[memory] 2x cpu 0/0 device 0/0 memory 9/9',
      'a 1x cpu 10/10 device 0/0 memory 6/6',
    ]);
  });

  test('kernels count for the op that launched them and for those around it, and runtime calls for its thread', () => {
    check(
      traceOf([
        op('outer', 0, 100),
        op('launcher', 10, 50, { 'External id': 7 }),
        op('cudaLaunchKernel', 20, 5, { 'External id': 7, correlation: 3 }, 'cuda_runtime', 77),
        op('gemm', 200, 30, { 'External id': 7, correlation: 3 }, 'kernel', 7),
      ]),
      [
        'outer 1x cpu 50/100 device 0/30 memory 0/0',
        'launcher 1x cpu 45/50 device 30/30 memory 0/0',
        'cudaLaunchKernel 1x cpu 5/5 device 0/0 memory 0/0',
        'gemm 1x cpu 0/0 device 30/30 memory 0/0',
      ],
    );
  });

  test("steps are one row, the profiler's own ops none", () => {
    check(traceOf([op('ProfilerStep#1', 0, 10), op('aten::is_leaf', 2, 3), op('ProfilerStep#2', 10, 10)]), [
      'ProfilerStep* 2x cpu 20/20 device 0/0 memory 0/0',
    ]);
  });

  test('groups by the frames asked for, backward ops by those of their forward op', () => {
    const rows = functionAverages(
      functionEvents(
        traceOf([
          op('mm', 0, 1, { 'Call stack': 'a.py;main.py', 'Sequence number': 5 }),
          op('mm', 2, 1, { 'Call stack': 'a.py;other.py', 'Sequence number': 6 }),
          op('mm', 4, 1, { 'Call stack': 'b.py;main.py', 'Sequence number': 8 }),
          op('MmBackward0', 6, 1, { 'Sequence number': 5, 'Fwd thread id': 1 }),
        ]),
      ),
      { groupByStackN: 1 },
    );
    expect(rows.map(({ key, count, stack }) => ({ key, count, stack }))).toEqual([
      { key: 'mm', count: 2, stack: ['a.py'] },
      { key: 'mm', count: 1, stack: ['b.py'] },
      { key: 'MmBackward0', count: 1, stack: ['a.py'] },
    ]);
  });

  test("the engine's call around a backward op keeps its own stack, and AccumulateGrad has none, as torch 2.13 has it", () => {
    const engine = 'autograd::engine::evaluate_function: ';
    const of = { 'Sequence number': 5, 'Fwd thread id': 1 };
    const [forward, backward] = ['linear.py(130): forward;main.py(4): <module>;', 'graph.py(966): run;main.py(4): <module>;'].map(
      (stack) => ({ 'Call stack': stack }),
    );
    const list = functionEventList(
      functionEvents(
        traceOf([
          op('aten::addmm', 0, 1, { ...forward, 'Sequence number': 5, 'Fwd thread id': 0 }),
          op(`${engine}AddmmBackward0`, 10, 8, { ...backward, ...of }),
          op('AddmmBackward0', 11, 6, { ...backward, ...of }),
          op('aten::mm', 12, 2, { ...backward }),
          op(`${engine}torch::autograd::AccumulateGrad`, 20, 8, { ...backward }),
          op('torch::autograd::AccumulateGrad', 21, 6, { ...backward }),
        ]),
      ),
    );
    const [ahead, back] = [
      ['linear.py(130): forward', 'main.py(4): <module>'],
      ['graph.py(966): run', 'main.py(4): <module>'],
    ];
    expect(list.map(({ name, scope, stack }) => [name, scope, stack])).toEqual([
      ['aten::addmm', 0, ahead],
      [`${engine}AddmmBackward0`, 0, back],
      ['AddmmBackward0', 1, ahead],
      ['aten::mm', 0, ahead],
      [`${engine}torch::autograd::AccumulateGrad`, 0, back],
      ['torch::autograd::AccumulateGrad', 1, []],
    ]);
  });

  test("a list of tensors has no shape, as torch's own", () => {
    const rows = functionAverages(
      functionEvents(
        traceOf([
          op('cat', 0, 1, {
            'Input Dims': [
              [
                [2, 3],
                [4, 3],
              ],
              [],
              [5, 6],
            ],
          }),
        ]),
      ),
      {
        groupByInputShape: true,
      },
    );
    expect(rows.map((row) => row.inputShapes)).toEqual(['[[], [], [5, 6]]']);
  });
});

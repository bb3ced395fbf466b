// The kept events, and their places in the table. For the results of torch's rules see kineto-writer.test.ts.

import { nanos, traceTime } from '@ranktrace/protocol';
import { describe, expect, test } from 'vitest';
import type { TraceEvent, TraceLane, TraceProcess } from '../model/trace-sink.ts';
import { traceEvent, traceHeader, traceLane, traceProcess } from '../testing/trace-events.ts';
import { averagesTable } from './averages-table.ts';
import { functionAverages } from './function-averages.ts';
import { functionEvents } from './function-events.ts';
import type { KinetoTable } from './kineto-table.ts';
import { type KinetoTableOptions, KinetoTableSink } from './kineto-table-sink.ts';

const processOf = (index: number, rank: number, incarnation: string): TraceProcess =>
  traceProcess({ index, rank, incarnation, pid: 100 + index });
const first = processOf(1, 0, 'a-1');
const second = processOf(2, 1, 'a-1');
const restarted = processOf(3, 1, 'b-1');
const laneOf = (process: TraceProcess, index: number, about: Partial<TraceLane> = {}): TraceLane =>
  traceLane({ process, index, tid: process.pid, ...about });
const main = laneOf(first, 1);
const lanes = [
  main,
  laneOf(first, 2, { name: 'main (2)', overflow: 1 }),
  laneOf(first, 3, { name: 'signals', tid: 0 }),
  laneOf(first, 4, { kind: 'device', name: 'gpu 0', tid: 0 }),
  laneOf(first, 5, { kind: 'steps', name: 'ProfilerSteps', tid: 0 }),
  laneOf(second, 6),
  laneOf(restarted, 7),
];

function event(name: string, start: number, length: number, about: Partial<TraceEvent> = {}): TraceEvent {
  return traceEvent({ lane: main, name, start: traceTime(start), length: nanos(length), ...about });
}

function tableOf(events: readonly TraceEvent[], options: KinetoTableOptions = {}, hasWallClock = true): KinetoTable {
  const sink = new KinetoTableSink(options);
  const unixEpoch = hasWallClock ? 1_000_000n : undefined;
  sink.begin(traceHeader([first, second, restarted], { worldSize: 2, unixEpoch }));
  for (const lane of lanes) sink.lane(lane);
  for (const one of events) sink.event(one);
  sink.end([]);
  return sink.table;
}

/** Rows as text, `name start+duration [category] tid`. */
const check = (table: KinetoTable, wanted: readonly string[]): void => {
  const { columns, length } = table.events;
  const text = (index: number | undefined): string => table.strings.get(index as number);
  const rows = Array.from({ length }, (_, row) => {
    const track = table.tracks[columns.track[row] as number];
    return `${text(columns.name[row])} ${columns.start[row]}+${columns.duration[row]} [${text(columns.category[row])}] ${track?.pid}.${track?.tid}`;
  });
  expect(rows).toEqual(wanted);
};

test('a window has what starts in it, however long it lasts', () => {
  const events = [event('before', 99, 50), event('at', 100, 5), event('late', 199, 50), event('after', 200, 1)];
  const table = tableOf(events, { since: 100, until: 200 });
  check(table, ['at 0+5 [user_annotation] 101.101', 'late 99+50 [user_annotation] 101.101']);
  expect(table.epoch).toBe(1_000_100n);
  expect(table.profileStart).toBe(0);
});

test('without a window times are from the first event, and without a wall clock from the axis of the run', () => {
  const table = tableOf([event('a', -20, 5), event('b', 7, 1)], {}, false);
  check(table, ['a 0+5 [user_annotation] 101.101', 'b 27+1 [user_annotation] 101.101']);
  expect(table.epoch).toBe(-20n);
});

test('of one process: the first, or the last life of a rank', () => {
  const events = [event('a', 0, 1), event('b', 1, 1, { lane: lanes[5] as TraceLane }), event('c', 2, 1, { lane: lanes[6] as TraceLane })];
  check(tableOf(events), ['a 0+1 [user_annotation] 101.101']);
  check(tableOf(events, { rank: 1 }), ['c 0+1 [user_annotation] 103.103']);
  check(tableOf(events, { rank: 7 }), []);
});

test('a track for each thread, whatever lanes it was spread over; one of its own for what is no thread', () => {
  const events = [0, 1, 2, 3].map((lane) => event(`on ${lane}`, lane, 1, { lane: lanes[lane] as TraceLane, category: 'x' }));
  check(tableOf(events), ['on 0 0+1 [x] 101.101', 'on 1 1+1 [x] 101.101', 'on 2 2+1 [x] 101.4194307', 'on 3 3+1 [x] 101.4194308']);
});

describe('collections of the heap', () => {
  const beside = laneOf(first, 8, { name: 'main garbage collection' });
  const worker = laneOf(first, 9, { name: 'worker 1', tid: 999 });
  const besideWorker = laneOf(first, 10, { name: 'worker 1 garbage collection', tid: 999 });
  const events = [
    event('forward', 1_000, 9_000),
    event('matMul', 2_000, 5_000),
    event('gc minor', 3_000, 2_000, { lane: beside, category: 'gc' }),
    event('elsewhere', 2_000, 4_000, { lane: worker }),
    event('gc major', 2_500, 1_000, { lane: besideWorker, category: 'gc' }),
  ];
  const averagesOf = (known: readonly TraceLane[]) => {
    const sink = new KinetoTableSink();
    sink.begin(traceHeader([first]));
    for (const lane of known) sink.lane(lane);
    for (const one of events) sink.event(one);
    sink.end([]);
    return { table: sink.table, rows: functionAverages(functionEvents(sink.table)) };
  };

  test.each([
    ['before', [beside, besideWorker, main, lanes[1] as TraceLane, worker]],
    ['behind', [main, lanes[1] as TraceLane, worker, beside, besideWorker]],
  ])('are inside of what their thread was doing, where their line is known %s the thread’s', (_, known) => {
    const { table, rows } = averagesOf(known);
    expect(table.tracks.map(({ tid }) => tid)).toEqual([101, 999]);
    expect([...table.threadNames.values()]).toEqual(['main', 'worker 1']);
    const self = Object.fromEntries(rows.map((row) => [row.key, row.selfCpuTimeTotal]));
    expect(self).toEqual({ forward: 4, matMul: 3, 'gc minor': 2, elsewhere: 3, 'gc major': 1 });
  });
});

test('steps are on the main thread, where they are wanted', () => {
  const step = event('ProfilerStep#3', 0, 9, { kind: 'step', step: 3, lane: lanes[4] as TraceLane });
  check(tableOf([event('op', 1, 2), step]), ['op 0+2 [user_annotation] 101.101']);
  check(tableOf([event('op', 1, 2), step], { steps: true, since: 0 }), [
    'op 1+2 [user_annotation] 101.101',
    'ProfilerStep#3 0+9 [user_annotation] 101.101',
  ]);
});

test('an open span has the length its end gives it, with the arguments of both; without an end it lasts as long as the window', () => {
  const events = [
    event('epoch', 0, 0, { state: 'open' }),
    event('fit', 1, 0, { state: 'open', arguments: new Map([['Call stack', 'a.ts(1): f']]) }),
    event('fit', 1, 30, { state: 'close' }),
    event('unknown', 3, 9, { state: 'close' }),
    event('op', 50, 10),
  ];
  const table = tableOf(events, { until: 90 });
  check(table, ['fit 1+30 [user_annotation] 101.101', 'op 50+10 [user_annotation] 101.101', 'epoch 0+90 [user_annotation] 101.101']);
  expect(table.strings.get(table.events.columns.stack[0] as number)).toBe('a.ts(1): f');
  check(tableOf(events.slice(0, 1).concat(events.slice(4))), [
    'op 50+10 [user_annotation] 101.101',
    'epoch 0+60 [user_annotation] 101.101',
  ]);
});

test('collectives and calls are work of the host, under the names of torch', () => {
  const call = { kind: 'rpc', category: 'rpc' } as const;
  const table = tableOf([
    event('all_reduce', 0, 9, { kind: 'collective', category: 'collective' }),
    event('Get', 10, 9, { ...call, side: 'client', peer: 'ps0' }),
    event('Get', 20, 9, { ...call, side: 'server', peer: 'worker1' }),
    event('Get', 30, 9, { ...call, side: 'client' }),
  ]);
  check(table, [
    'all_reduce 0+9 [collective_comm] 101.101',
    'rpc_async#Get(rank 0 -> ps0) 10+9 [rpc] 101.101',
    'rpc_async#Get(worker1 -> rank 0) 20+9 [rpc] 101.101',
    'Get 30+9 [rpc] 101.101',
  ]);
  expect(functionAverages(functionEvents(table)).every((row) => row.deviceType === 'cpu' && row.isTopLevel)).toBe(true);
});

test('ids are counted up, or are those that the program gives', () => {
  const ids = (events: readonly TraceEvent[]): number[] => {
    const { columns, length } = tableOf(events).events;
    return Array.from(columns.externalId.subarray(0, length));
  };
  const given = (id: number) => ({ arguments: new Map([['External id', id]]) });
  expect(ids([event('a', 0, 1), event('b', 1, 1)])).toEqual([1, 2]);
  expect(ids([event('a', 0, 1, given(7)), event('b', 1, 1), event('c', 2, 1, given(7))])).toEqual([7, 0, 7]);
});

test('kernels on a device are those of the op with their id', () => {
  const given = { arguments: new Map([['External id', 7]]) };
  const table = tableOf([
    event('matMul', 0, 10_000, { category: 'cpu_op', ...given }),
    event('gemm', 20_000, 30_000, { category: 'kernel', lane: lanes[3] as TraceLane, isAsync: true, ...given }),
  ]);
  const rows = functionAverages(functionEvents(table)).map(({ key, deviceType, deviceTimeTotal }) => ({
    key,
    deviceType,
    deviceTimeTotal,
  }));
  expect(rows).toEqual([
    { key: 'matMul', deviceType: 'cpu', deviceTimeTotal: 30 },
    { key: 'gemm', deviceType: 'device', deviceTimeTotal: 30 },
  ]);
});

test('arguments that are no JSON lists count as not recorded, and times that are no number are counted', () => {
  const table = tableOf([
    event('a', 0, 1, {
      category: 'cpu_op',
      arguments: new Map<string, string | number>([
        ['Input Dims', '[[1,'],
        ['flops', Number.NaN],
      ]),
    }),
    event('b', Number.POSITIVE_INFINITY, 1),
  ]);
  expect([table.events.columns.shapes[0], table.events.columns.flops[0]]).toEqual([0, 0]);
  expect(table.skipped.malformed).toBe(1);
  expect(() => functionAverages(functionEvents(table), { groupByInputShape: true })).not.toThrow();
});

test('prints as torch would print it', () => {
  const table = tableOf(
    [
      event('forward', 0, 3_000),
      event('matMul', 1_000, 1_000, { category: 'cpu_op', arguments: new Map<string, string | number>([['Input Dims', '[[2,3],[3,4]]']]) }),
    ],
    { options: { profile_memory: '1' } },
  );
  const rows = functionAverages(functionEvents(table), { groupByInputShape: true });
  expect(averagesTable(rows, { sortBy: 'self_cpu_time_total', profileMemory: table.isOn('profile_memory') })).toBe(
    [
      '-----------  ------------  ------------  ------------  ------------  ------------  ------------  ------------  ------------  --------------------  ',
      '       Name    Self CPU %      Self CPU   CPU total %     CPU total  CPU time avg       CPU Mem  Self CPU Mem    # of Calls          Input Shapes  ',
      '-----------  ------------  ------------  ------------  ------------  ------------  ------------  ------------  ------------  --------------------  ',
      '    forward        66.67%       2.000us       100.00%       3.000us       3.000us           0 B           0 B             1                    []  ',
      '     matMul        33.33%       1.000us        33.33%       1.000us       1.000us           0 B           0 B             1      [[2, 3], [3, 4]]  ',
      '-----------  ------------  ------------  ------------  ------------  ------------  ------------  ------------  ------------  --------------------  ',
      'Self CPU time total: 3.000us',
      '',
    ].join('\n'),
  );
});

import { expect, test } from 'vitest';
import { TraceError } from '../model/errors.ts';
import { collapsedStacks } from './collapsed-stacks.ts';
import { functionEvents } from './function-events.ts';
import { readKineto } from './kineto-reader.ts';

const eventsOf = (traceEvents: readonly object[]) => functionEvents(readKineto(new TextEncoder().encode(JSON.stringify({ traceEvents }))));

const op = (name: string, ts: number, dur: number, stack: string, args: object = {}, cat = 'cpu_op') => ({
  ...{ ph: 'X', name, cat, ts, dur, pid: 1, tid: 1, args: { ...(stack === '' ? {} : { 'Call stack': stack }), ...args } },
});

const events = eventsOf([
  op('forward', 0, 100, 'train.ts(9): main', {}, 'user_annotation'),
  op('mm', 10, 20.9, 'model.ts(31): f\tg;train.ts(9): main', { 'External id': 2, 'Sequence number': 4 }),
  op('relu', 40, 5, 'model.ts(32): relu;train.ts(9): main'),
  op('nothing', 50, 0.9, 'model.ts(33): id;train.ts(9): main'),
  op('bare', 60, 10, ''),
  op('MmBackward', 200, 7, '', { 'Sequence number': 4, 'Fwd thread id': 1 }),
  op('gemm', 300, 30, '', { 'External id': 2 }, 'kernel'),
]);

test('time of its own by stack, outermost frame first; equal stacks are one line', () => {
  // The backward op has the stack of its forward op.
  expect(collapsedStacks(events, 'self_cpu_time_total')).toBe(
    `train.ts(9):_main 63
train.ts(9):_main;model.ts(31):_f_g 27
train.ts(9):_main;model.ts(32):_relu 5
`,
  );
});

test('time of the device that the ops of a stack started', () => {
  for (const metric of ['self_cuda_time_total', 'self_xpu_time_total', 'self_privateuse1_time_total', 'selfDeviceTimeTotal']) {
    expect(collapsedStacks(events, metric)).toBe('train.ts(9):_main;model.ts(31):_f_g 30\n');
  }
});

test('without stacks there is nothing; another metric is refused by name', () => {
  expect(collapsedStacks(eventsOf([op('mm', 0, 5, '')]), 'selfCpuTimeTotal')).toBe('');
  expect(() => collapsedStacks(events, 'cpu_time')).toThrow(TraceError);
  expect(() => collapsedStacks(events, 'cpu_time')).toThrow(/metric must be one of self_cpu_time_total, .* got "cpu_time"/);
});

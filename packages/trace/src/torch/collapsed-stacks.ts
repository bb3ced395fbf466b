// Stacks in the collapsed format of FlameGraph (https://github.com/brendangregg/FlameGraph), which speedscope and others read, too:
//
//   train.js(9):_main;model.js(31):_forward 1520            outermost first, then µs
//
// Follows torch 2.13: EventList.export_stacks; which leaves its files empty, for its stacks are not there any more when it asks for them.
// Events of one stack are one line here, where torch has a line for each: who reads the file adds them up anyway.

import { TraceError } from '../model/errors.ts';
import { framesOf } from './function-averages.ts';
import type { FunctionEvents } from './function-events.ts';

/** What is added up: time of an event's own, on the CPU or on the device. */
export type StackMetric = 'selfCpuTimeTotal' | 'selfDeviceTimeTotal';

const metrics: ReadonlyMap<string, StackMetric> = new Map([
  ['self_cpu_time_total', 'selfCpuTimeTotal'],
  ['self_cuda_time_total', 'selfDeviceTimeTotal'],
  ['self_xpu_time_total', 'selfDeviceTimeTotal'],
  ['self_privateuse1_time_total', 'selfDeviceTimeTotal'],
  ['selfCpuTimeTotal', 'selfCpuTimeTotal'],
  ['selfDeviceTimeTotal', 'selfDeviceTimeTotal'],
]);

/** The metric that a name means, torch's spelling or ours; throws TraceError `bad_option`. */
export function stackMetricOf(name: string): StackMetric {
  const metric = metrics.get(name);
  if (metric === undefined) {
    const known = [...metrics.keys()].join(', ');
    throw new TraceError('bad_option', `Cannot export stacks: the metric must be one of ${known}, got "${name}"`);
  }
  return metric;
}

/**
 * Time by stack, in whole µs: a line for every stack that has some, in the order of their first event; empty where no stacks were
 * recorded. `metric` in torch's spelling or ours; throws TraceError `bad_option` for another.
 *
 * @example collapsedStacks(functionEvents(table), 'self_cpu_time_total')
 */
export function collapsedStacks(events: FunctionEvents, metric: string): string {
  const column = stackMetricOf(metric) === 'selfCpuTimeTotal' ? events.cpuSelf : events.deviceSelf;
  const totals = new Map<number, number>();
  for (let event = 0; event < events.length; event++) {
    const stack = events.stack[event] as number;
    if (stack === 0 || events.isFolded[event] === 1) continue;
    // Each event's own µs are cut, not their sum: so the lines add up to what torch's would.
    const micros = Math.trunc(column[event] as number);
    if (micros > 0) totals.set(stack, (totals.get(stack) ?? 0) + micros);
  }
  const { strings } = events.table;
  const lines = new Map<string, number>();
  for (const [stack, micros] of totals) {
    const frames = framesOf(strings.get(stack)).reverse();
    if (frames.length === 0) continue;
    const line = frames.map((frame) => frame.replaceAll(/[ ;\t\n]/g, '_')).join(';');
    lines.set(line, (lines.get(line) ?? 0) + micros);
  }
  return [...lines].map(([line, micros]) => `${line} ${micros}\n`).join('');
}

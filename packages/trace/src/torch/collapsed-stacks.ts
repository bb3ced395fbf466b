// Stacks in FlameGraph's collapsed format (https://github.com/brendangregg/FlameGraph), which speedscope and other tools read, too:
//
//   train.js(9):_main;model.js(31):_forward 1520            outermost first, then µs
//
// Follows torch 2.13: EventList.export_stacks. torch's own files come out empty, because it has dropped the stacks before it exports.
// Events with the same stack share one line here; torch writes a line for each. Readers of the format add lines up, so both read the same.

import { TraceError } from '../model/errors.ts';
import { framesOf } from './function-averages.ts';
import type { FunctionEvents } from './function-events.ts';

/** The time added up: each event's self time, on the CPU or on the device. */
export type StackMetric = 'selfCpuTimeTotal' | 'selfDeviceTimeTotal';

const metrics: ReadonlyMap<string, StackMetric> = new Map([
  ['self_cpu_time_total', 'selfCpuTimeTotal'],
  ['self_cuda_time_total', 'selfDeviceTimeTotal'],
  ['self_xpu_time_total', 'selfDeviceTimeTotal'],
  ['self_privateuse1_time_total', 'selfDeviceTimeTotal'],
  ['selfCpuTimeTotal', 'selfCpuTimeTotal'],
  ['selfDeviceTimeTotal', 'selfDeviceTimeTotal'],
]);

/** The metric for a name in torch's spelling or ours; throws TraceError `bad_option`. */
export function stackMetricOf(name: string): StackMetric {
  const metric = metrics.get(name);
  if (metric === undefined) {
    const known = [...metrics.keys()].join(', ');
    throw new TraceError('bad_option', `Cannot export stacks: the metric must be one of ${known}, got "${name}"`);
  }
  return metric;
}

/**
 * Time by stack, in whole µs: one line for every stack with time, in the order of their first event; empty if no stacks were
 * recorded. `metric` is in torch's spelling or ours; any other throws TraceError `bad_option`.
 *
 * @example collapsedStacks(functionEvents(table), 'self_cpu_time_total')
 */
export function collapsedStacks(events: FunctionEvents, metric: string): string {
  const column = stackMetricOf(metric) === 'selfCpuTimeTotal' ? events.cpuSelf : events.deviceSelf;
  const totals = new Map<number, number>();
  for (let event = 0; event < events.length; event++) {
    const stack = events.stack[event] as number;
    if (stack === 0 || events.isFolded[event] === 1) continue;
    // Truncate each event's own µs, not their sum, so that the lines add up to torch's.
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

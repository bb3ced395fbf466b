import { expect } from 'vitest';
import type { functionAverages } from '../torch/function-averages.ts';
import { functionEventList } from '../torch/function-event-list.ts';
import type { functionEvents } from '../torch/function-events.ts';

const sums = [
  ...(['cpuTimeTotal', 'selfCpuTimeTotal', 'deviceTimeTotal', 'selfDeviceTimeTotal', 'flops', 'cpuMemoryUsage'] as const),
  ...(['selfCpuMemoryUsage', 'deviceMemoryUsage', 'selfDeviceMemoryUsage', 'count'] as const),
] as const;

/** Compares the list of a file's functions with its averages: each sum of each group. */
export function expectSums(events: ReturnType<typeof functionEvents>, averages: ReturnType<typeof functionAverages>): void {
  const list = functionEventList(events);
  for (const row of averages) {
    const group = list.filter(
      (one) => one.key === row.key && one.deviceType === row.deviceType && one.isUserAnnotation === row.isUserAnnotation,
    );
    for (const sum of sums) expect(group.reduce((total, one) => total + one[sum], 0)).toBe(row[sum]);
  }
}

/** Expects that children and parents refer to each other and nest, and that self times are the remainder. */
export function expectFamily(events: ReturnType<typeof functionEvents>): void {
  const list = functionEventList(events);
  for (const one of list) {
    for (const child of one.cpuChildren) {
      expect(child.cpuParent).toBe(one);
      expect(child.timeRange.start >= one.timeRange.start && child.timeRange.end <= one.timeRange.end).toBe(true);
    }
    const inside = one.cpuChildren.reduce((sum, child) => sum + child.cpuTimeTotal, 0);
    if (one.deviceType === 'cpu') expect(one.selfCpuTimeTotal).toBe(one.timeRange.elapsedUs - inside);
    const launched = one.kernels.reduce((sum, kernel) => sum + kernel.duration, 0);
    if (one.deviceType === 'cpu') expect(one.selfDeviceTimeTotal).toBe(launched);
  }
  expect(list.filter((one) => one.isTopLevel)).toHaveLength(list.filter((one) => one.cpuParent === undefined).length);
}

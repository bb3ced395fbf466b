// The ops of a rank with most time of their own, on the host and of the work that they launched, by the TensorBoard plugin's definitions.

import type { RankWork } from './device-work.ts';
import { gpuLimits as limits } from './gpu-limits.ts';
import { type PluginOp, pluginOps } from './plugin-compatible.ts';

export interface OpTable {
  readonly lines: readonly Readonly<PluginOp>[];
  /** `total`: own time on the host, ns. */
  readonly rest: { readonly lines: number; readonly count: number; readonly total: number };
}

/** Half of the lines have most device time, the others most host time. */
export function opTable(work: RankWork): OpTable {
  const ops = [...pluginOps(work)].sort((a, b) => b.deviceSelf - a.deviceSelf || b.hostSelf - a.hostSelf);
  const onDevice = ops.splice(0, limits.gpuLinesMax / 2);
  ops.sort((a, b) => b.hostSelf - a.hostSelf);
  const lines = [...onDevice, ...ops.splice(0, limits.gpuLinesMax / 2)];
  const rest = { lines: ops.length, count: 0, total: 0 };
  for (const { calls, hostSelf } of ops) {
    rest.count += calls;
    rest.total += hostSelf;
  }
  return { lines, rest };
}

// The arrow from a call of the host to the work that it launched on a device: both carry one correlation, within their process.
//
//   thread   cudaLaunchKernel ─ 7
//   stream                      └────► gemm ──── 7         the id: the process in the upper half, the correlation in the lower

import { argumentOf } from './event-arguments.ts';
import { runtimeCategories } from './kineto-categories.ts';
import { isDeviceKind } from './lanes.ts';
import type { TraceEvent } from './trace-sink.ts';

const calls: ReadonlySet<string> = new Set(runtimeCategories);

/** Which end of an arrow the event is; undefined if it is neither a call of a device's driver nor work of a device. */
export const launchEnd = ({ kind, category, lane }: TraceEvent): 'call' | 'work' | undefined =>
  kind !== 'span' ? undefined : calls.has(category) ? 'call' : isDeviceKind(lane.kind) ? 'work' : undefined;

/** Id of the arrow, unique in the trace beside those of collectives; undefined where the event has none. */
export function launchFlow(event: TraceEvent): bigint | undefined {
  if (launchEnd(event) === undefined) return undefined;
  const correlation = argumentOf(event, 'correlation');
  if (typeof correlation !== 'number' || !(correlation > 0 && correlation < 2 ** 32)) return undefined;
  return (BigInt(event.lane.process.index) << 32n) | BigInt(Math.floor(correlation));
}

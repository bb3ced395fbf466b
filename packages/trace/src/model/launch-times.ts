// When the host launched a device's work: both carry one correlation, within their process. Events come by time, a call before its work.
//
//   thread   cudaLaunchKernel ─ 7                     begin of the call: the launch of gemm
//   stream                      └────► gemm ──── 7    may run long after the step that launched it
//
// Memory: the last `launchesMax` calls of a process. A host runs ahead of a stream by some thousand launches at most.

import type { TraceTime } from '@ranktrace/protocol';
import { argumentOf } from './event-arguments.ts';
import { runtimeCategories } from './kineto-categories.ts';
import { isDeviceKind } from './lanes.ts';
import { limits } from './limits.ts';
import type { TraceEvent, TraceProcess } from './trace-sink.ts';

const calls: ReadonlySet<string> = new Set(runtimeCategories);

export class LaunchTimes {
  /** By process: begins of calls by their correlation. */
  readonly #calls: (Map<string | number, TraceTime> | undefined)[] = [];

  /** Begin of the call that launched this; undefined for all but work of devices, and where no call is known. Remembers calls, so it takes every event. */
  launchOf(event: TraceEvent): TraceTime | undefined {
    const { lane, category, start } = event;
    const isCall = calls.has(category);
    if (!isCall && !isDeviceKind(lane.kind)) return undefined;
    const correlation = argumentOf(event, 'correlation');
    if (correlation === undefined || correlation === 0) return undefined;
    const known = this.#calls[lane.process.index];
    if (!isCall) return known?.get(correlation);
    if (known === undefined) this.#calls[lane.process.index] = new Map([[correlation, start]]);
    else {
      known.set(correlation, start);
      if (known.size > limits.launchesMax) known.delete(known.keys().next().value as string | number);
    }
    return undefined;
  }

  /** Whether any call of a process is known. */
  has({ index }: TraceProcess): boolean {
    return this.#calls[index] !== undefined;
  }
}

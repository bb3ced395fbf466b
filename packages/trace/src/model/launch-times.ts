// When the host launched a device's work: both carry one correlation, within their process. Events come by time, a call before its work.
//
//   thread   cudaLaunchKernel ─ 7                     begin of the call: the launch of gemm
//   stream                      └────► gemm ──── 7    may run long after the step that launched it
//
// Memory: 50 bytes a call, for the last calls of each process: `launchesMax` of few, `launchesMin` of very many. A host runs ahead of a stream by about
// 1000 launches at most, then their queue is full.

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
  #processes = 0;

  /** Begin of the call that launched this; undefined for all but work of devices, and where no call is known. Remembers calls, so it takes every event. */
  launchOf(event: TraceEvent): TraceTime | undefined {
    const { lane, category, start } = event;
    const isCall = calls.has(category);
    if (!isCall && !isDeviceKind(lane.kind)) return undefined;
    const correlation = argumentOf(event, 'correlation');
    if (correlation === undefined || correlation === 0) return undefined;
    const known = this.#calls[lane.process.index];
    if (!isCall) return known?.get(correlation);
    if (known === undefined) {
      this.#calls[lane.process.index] = new Map([[correlation, start]]);
      this.#processes++;
      return undefined;
    }
    // A number that comes again is of the later call: it goes to the end.
    known.delete(correlation);
    known.set(correlation, start);
    if (known.size <= limits.launchesMin) return undefined;
    const most = Math.max(limits.launchesMin, Math.min(limits.launchesMax, limits.launchesOfAllMax / this.#processes));
    while (known.size > most) known.delete(known.keys().next().value as string | number);
    return undefined;
  }

  /** Whether any call of a process is known. */
  has({ index }: TraceProcess): boolean {
    return this.#calls[index] !== undefined;
  }
}

// When the host launched a device's work: both carry one correlation, within their process. Events come by time, a call before its work.
//
//   thread   cudaLaunchKernel ─ 7                     begin of the call: the launch of gemm
//   stream                      └────► gemm ──── 7    may run long after the step that launched it
//
// By the clocks of host and device, work may begin a little before its call. Drivers count calls up: work whose number is just above those of all calls so far
// was launched when it began. Far above, it was launched while nothing was recorded.
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

interface Calls {
  /** Begins of calls by their correlation. */
  readonly starts: Map<string | number, TraceTime>;
  /** The greatest correlation so far; −∞ where they are no numbers. */
  newest: number;
}

export class LaunchTimes {
  /** By process. */
  readonly #calls: (Calls | undefined)[] = [];
  #processes = 0;

  /** Begin of the call that launched this; undefined for all but work of devices, and where no call is known. Remembers calls, so it takes every event. */
  launchOf(event: TraceEvent): TraceTime | undefined {
    const { lane, category, start } = event;
    const isCall = calls.has(category);
    if (!isCall && !isDeviceKind(lane.kind)) return undefined;
    const correlation = argumentOf(event, 'correlation');
    if (correlation === undefined || correlation === 0) return undefined;
    const known = this.#calls[lane.process.index];
    if (!isCall) return known?.starts.get(correlation) ?? (known !== undefined && isToCome(known, correlation) ? start : undefined);
    const process = known ?? { starts: new Map(), newest: Number.NEGATIVE_INFINITY };
    if (known === undefined) {
      this.#calls[lane.process.index] = process;
      this.#processes++;
    }
    if (typeof correlation === 'number' && correlation > process.newest) process.newest = correlation;
    const { starts } = process;
    // A number that comes again is of the later call: it goes to the end.
    starts.delete(correlation);
    starts.set(correlation, start);
    if (starts.size <= limits.launchesMin) return undefined;
    const most = Math.max(limits.launchesMin, Math.min(limits.launchesMax, limits.launchesOfAllMax / this.#processes));
    while (starts.size > most) starts.delete(starts.keys().next().value as string | number);
    return undefined;
  }

  /** Whether any call of a process is known. */
  has({ index }: TraceProcess): boolean {
    return this.#calls[index] !== undefined;
  }
}

/** Whether the call with this correlation is one of the next. */
const isToCome = ({ newest }: Calls, correlation: string | number): boolean =>
  typeof correlation === 'number' && correlation > newest && correlation <= newest + limits.launchNumbersMax;

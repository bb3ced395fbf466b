// Quality of the clocks behind a trace, rank by rank.

import { type TraceTime, traceTime } from '@ranktrace/protocol';
import { apartAt, boundAt } from '../model/epsilon.ts';
import { median, twoLargest } from '../model/robust.ts';
import type { Alignment, ProcessTotals } from '../model/trace-sink.ts';

export interface ClockOfRank {
  readonly rank: number;
  readonly incarnation: string;
  readonly host: string;
  readonly hostName: string;
  readonly method: Alignment['method'];
  /** Times are within ± this of the reference, ns: median over the rank's life, and the worst; undefined if unaligned. */
  readonly medianBound: number | undefined;
  readonly bound: number | undefined;
  /** Its part of the distance that is proven of two ranks by what their hosts did together, ± ns: median; undefined where nothing proves one. */
  readonly medianApart: number | undefined;
  /** Trace times, ns. */
  readonly clockSteps: readonly TraceTime[];
  readonly shifted: NonNullable<Alignment['shifted']>;
}

/** Number of times in a rank's life at which the bound is read. */
const readings = 201;

/** The clocks of a merged run, in order of rank. */
export function clockReport(totals: readonly ProcessTotals[]): ClockOfRank[] {
  return totals.map(({ process, until }) => {
    const { rank, incarnation, host, hostName, alignment } = process;
    const { method, bound, clockSteps = [], shifted = [] } = alignment;
    const times = Array.from({ length: readings }, (_, reading) => traceTime(((until ?? 0) * reading) / (readings - 1)));
    const medianBound = bound === undefined ? undefined : median(times.map((time) => boundAt(process, time) ?? 0));
    const apart = median(times.map((time) => apartAt(process, time)));
    const medianApart = Number.isFinite(apart) ? apart : undefined;
    return { rank, incarnation, host, hostName, method, medianBound, bound, medianApart, clockSteps, shifted };
  });
}

/** ± ns of a comparison of two ranks on different hosts, in the median of the run; undefined on one host, and where a rank is not aligned. */
export function betweenHosts(clocks: readonly ClockOfRank[]): { readonly byBounds: number; readonly together: number } | undefined {
  const most = (of: (clock: ClockOfRank) => number | undefined): number => {
    const byHost = new Map<string, number>();
    for (const clock of clocks) byHost.set(clock.host, Math.max(byHost.get(clock.host) ?? 0, of(clock) ?? Number.POSITIVE_INFINITY));
    return twoLargest(byHost.values());
  };
  if (new Set(clocks.map(({ host }) => host)).size < 2) return undefined;
  const byBounds = most(({ medianBound }) => medianBound);
  return Number.isFinite(byBounds) ? { byBounds, together: most(({ medianApart }) => medianApart) } : undefined;
}

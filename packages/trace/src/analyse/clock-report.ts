// Quality of the clocks behind a trace, rank by rank.

import { type TraceTime, traceTime } from '@ranktrace/protocol';
import { boundAt } from '../model/epsilon.ts';
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
    const bounds = Array.from(
      { length: readings },
      (_, reading) => boundAt(process, traceTime(((until ?? 0) * reading) / (readings - 1))) ?? 0,
    );
    const medianBound = bound === undefined ? undefined : bounds.sort((a, b) => a - b)[readings >> 1];
    return { rank, incarnation, host, hostName, method, medianBound, bound, clockSteps, shifted };
  });
}

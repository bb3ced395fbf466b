// A Perfetto trace for tests: all calls that its reader makes on a sink.

import type { ProcessTotals, TraceEvent, TraceHeader, TraceLane } from '../model/trace-sink.ts';
import type { PerfettoSkipped } from '../perfetto/perfetto-events.ts';
import { readPerfetto } from '../perfetto/perfetto-trace.ts';

/** All calls on a sink. */
export interface ToldTrace {
  readonly header: TraceHeader;
  readonly calls: (TraceLane | TraceEvent)[];
  readonly totals: readonly ProcessTotals[];
  readonly skipped: PerfettoSkipped;
}

/** Reads the trace in `chunks`. */
export function toldTrace(chunks: readonly Uint8Array[]): ToldTrace {
  const trace = readPerfetto(() => chunks);
  const calls: (TraceLane | TraceEvent)[] = [];
  let totals: readonly ProcessTotals[] = [];
  const events = trace.events({
    begin: () => {},
    lane: (lane) => calls.push(lane),
    event: (event) => calls.push({ ...event }),
    end: (told) => {
      totals = told;
    },
  });
  let step = events.next();
  while (step.done !== true) step = events.next();
  return { header: trace.header, calls, totals, skipped: step.value };
}

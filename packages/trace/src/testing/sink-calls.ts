// A Perfetto trace for tests: all calls that its reader makes on a sink.

import type { ProcessTotals, TraceEvent, TraceHeader, TraceLane } from '../model/trace-sink.ts';
import type { PerfettoSkipped } from '../perfetto/perfetto-events.ts';
import type { InflateBundle } from '../perfetto/perfetto-packets.ts';
import { readPerfetto } from '../perfetto/perfetto-trace.ts';

/** All calls on a sink. */
export interface SinkCalls {
  readonly header: TraceHeader;
  readonly calls: (TraceLane | TraceEvent)[];
  readonly totals: readonly ProcessTotals[];
  readonly skipped: PerfettoSkipped;
}

/** Reads the trace in `chunks`. */
export function readSinkCalls(chunks: readonly Uint8Array[], inflate?: InflateBundle): SinkCalls {
  const trace = readPerfetto(() => chunks, undefined, inflate);
  const calls: (TraceLane | TraceEvent)[] = [];
  let totals: readonly ProcessTotals[] = [];
  const events = trace.events({
    begin: () => {},
    lane: (lane) => calls.push(lane),
    event: (event) => calls.push({ ...event }),
    end: (processTotals) => {
      totals = processTotals;
    },
  });
  let step = events.next();
  while (step.done !== true) step = events.next();
  return { header: trace.header, calls, totals, skipped: step.value };
}

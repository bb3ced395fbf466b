// Perfetto traces (.pftrace) → the calls of a merge to a sink. Passes: processes (perfetto-survey.ts), for other writers' traces the order of the events
// (perfetto-order.ts), then the events (perfetto-events.ts).
//
//   bytes ─► perfetto-packets ─► perfetto-sequence ─► perfetto-track-event ─► perfetto-events ─► sink
//            packet, parts       strings, defaults     fields                  spans, kinds
//
// Read in full: traces by perfetto/perfetto-writer.ts. From others: processes, threads, tracks, slices (begin, end), instants, counters, arguments,
// flows, interned strings, clock snapshots, incremental timestamps, and compressed bundles of packets with all of these. Skipped and counted: every
// other data source (ftrace, …), bundles that cannot be inflated, events in the legacy form of Chrome's JSON, an event's flows beside its first and
// the counters that it carries.

import { ReadBudget } from '../model/read-budget.ts';
import type { TraceHeader, TraceSink } from '../model/trace-sink.ts';
import { PerfettoEvents, type PerfettoSkipped } from './perfetto-events.ts';
import { inOrder, learnOrder, type PerfettoOrder } from './perfetto-order.ts';
import { type InflateBundle, PerfettoPackets } from './perfetto-packets.ts';
import { surveyPerfetto } from './perfetto-survey.ts';

/** A surveyed Perfetto trace: its processes are known. */
export interface PerfettoTrace {
  readonly header: TraceHeader;
  /** Where and why the trace stops before its end, for it was cut; undefined if it is whole. */
  readonly stopped: string | undefined;
  /** Passes all of it to `sink`, as a merge does; yields how many bytes are done. Throws TraceError. */
  events(sink: TraceSink): Generator<{ readonly done: number; readonly total: number }, PerfettoSkipped>;
}

/** About 2 ms of work. */
const bytesPerYield = 65_536;
const heldPerYield = 2048;

/**
 * Surveys a trace at once, at about 250 MB/s. `open` gives its bytes from the beginning, in chunks that stay as they are, and is called
 * again for its events; `budget` bounds its memory; `inflate` opens bundles of packets, which are lost without it. Throws TraceError `not_perfetto`, `truncated`, `too_large`, `memory`, `no_events`.
 *
 * @example
 * const trace = readPerfetto(() => [bytes]);
 * for (const { done, total } of trace.events(sink)) show(done / total);
 */
export function readPerfetto(open: () => Iterable<Uint8Array>, budget = new ReadBudget(), inflate?: InflateBundle): PerfettoTrace {
  const survey = surveyPerfetto(open(), budget, inflate);
  return {
    header: survey.header,
    stopped: survey.stopped,
    *events(sink) {
      const passes = survey.isOurs ? 1 : 2;
      const progress = { done: 0, total: passes * survey.bytes };
      const order = survey.isOurs ? inOrder : yield* lookAt(new PerfettoPackets(open(), inflate), survey.origin, progress);
      const packets = new PerfettoPackets(open(), inflate);
      try {
        sink.begin(survey.header);
        const events = new PerfettoEvents(survey, packets, sink, budget, order);
        const before = progress.total - survey.bytes;
        let worked = 0;
        while (packets.next()) {
          events.packet();
          if (packets.worked - worked < bytesPerYield) continue;
          worked = packets.worked;
          progress.done = before + packets.done;
          yield progress;
        }
        let passed = 0;
        for (const _ of events.end()) if (++passed % heldPerYield === 0) yield progress;
        sink.end(events.totals());
        return events.skipped;
      } finally {
        packets.close();
      }
    },
  };
}

interface Progress {
  done: number;
  readonly total: number;
}

/** The order of another writer's events; closes `packets`. */
function* lookAt(packets: PerfettoPackets, origin: bigint, progress: Progress): Generator<Progress, PerfettoOrder> {
  try {
    const look = learnOrder(packets, origin);
    let worked = 0;
    for (let step = look.next(); ; step = look.next()) {
      if (step.done === true) return step.value;
      if (packets.worked - worked < bytesPerYield) continue;
      worked = packets.worked;
      progress.done = packets.done;
      yield progress;
    }
  } finally {
    packets.close();
  }
}

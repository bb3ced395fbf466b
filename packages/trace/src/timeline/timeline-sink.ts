// Fills a timeline from a merged trace: its times are trace times already.

import type { TraceLane, TraceProcess, TraceSink } from '../model/trace-sink.ts';
import type { ProcessTimeline } from './process-timeline.ts';
import type { Timeline } from './timeline.ts';

/** Adds the processes of the header to `timeline`, and gives each the events of its lanes. At the end all is complete. */
export function timelineSink(timeline: Timeline): TraceSink {
  const processes = new Map<number, ProcessTimeline>();
  let lane: TraceLane | undefined;
  let process: ProcessTimeline | undefined;
  const processOf = (of: TraceProcess): ProcessTimeline => {
    let known = processes.get(of.index);
    if (known === undefined) {
      known = timeline.addProcess(of);
      known.isBeingRead = true;
      processes.set(of.index, known);
    }
    return known;
  };
  return {
    begin: (header) => {
      for (const each of header.processes) processOf(each);
    },
    lane: (added) => processOf(added.process).lane(added),
    event: (event) => {
      if (event.lane !== lane) {
        lane = event.lane;
        process = processOf(lane.process);
      }
      process?.event(event);
    },
    end: (totals) => {
      for (const { process: of, missing, dropped, until, ended } of totals) {
        const known = processOf(of);
        known.lostSomewhere(missing, dropped.events);
        if (until !== undefined) known.advance(until);
        known.end(ended);
      }
      for (const known of processes.values()) {
        if (!known.isOver) known.end(false);
        known.isBeingRead = false;
      }
    },
  };
}

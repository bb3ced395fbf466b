// The events of a run, as a reader of its trace sees them: each event whole, in order of begin.

import { mergeStored, openBatchLog } from '@ranktrace/aggregator';
import { findCompleteness, type TraceEvent, type TraceHeader } from '@ranktrace/trace';

/** An event, with the relevant fields of its lane; one that never ended is `open`. */
export interface ReadEvent extends Omit<TraceEvent, 'lane' | 'arguments'> {
  readonly rank: number;
  readonly lane: string;
  readonly arguments: Readonly<Record<string, string | number>>;
}

export interface ReadRun {
  readonly events: readonly ReadEvent[];
  /** Missing parts, as text; empty for a recording that is whole. */
  readonly findings: readonly string[];
  readonly processes: TraceHeader['processes'];
}

/** Reads the run directory or spool at `path`. */
export async function readRun(path: string, run: string): Promise<ReadRun> {
  using log = openBatchLog(path);
  const events: ReadEvent[] = [];
  const open = new Map<string, number>();
  let header: TraceHeader | undefined;
  const sink = {
    begin: (given: TraceHeader) => {
      header = given;
    },
    lane: () => {},
    event: (event: TraceEvent) => {
      const { lane, arguments: args, ...rest } = event;
      const read = { ...rest, rank: lane.process.rank, lane: lane.name, arguments: Object.fromEntries(args ?? []) };
      const key = `${lane.index} ${event.name} ${event.start}`;
      const begun = open.get(key);
      if (event.state === 'open') open.set(key, events.length);
      if (event.state === 'close' && begun !== undefined) events[begun] = { ...read, state: 'whole' };
      else events.push(read);
    },
    end: () => {},
  };
  const totals = await mergeStored(log.run(run).sources(), [sink]);
  if (header === undefined) throw new Error(`Run ${run} has no header`);
  return { events, findings: findCompleteness(header, totals).map(({ text }) => text), processes: header.processes };
}

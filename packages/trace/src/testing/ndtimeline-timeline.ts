// An NDTimeline recording as the timeline that its tools draw: Chrome JSON with a process for each DP rank and five threads for each worker,
// one step after another with a little space between.

import { ndtimelineMeetings } from '../ndtimeline/ndtimeline-recording.ts';
import { readNdtimeline } from './ndtimeline-recording.ts';

export interface TimelineOptions {
  /** Whether ops include their waits for others; default no, as the tools draw them. */
  readonly hasWaits?: boolean;
  /** Space between steps, as a share of the step; default 0.1. */
  readonly space?: number;
}

const threads = ['compute', 'pp-comm', 'tp-comm', 'dp-comm', 'misc'] as const;

const threadOf = (type: string): number =>
  /-(?:send|recv)$/.test(type) ? 1 : /^(?:grads|params|embedding|layernorm|optimizer-)/.test(type) ? 3 : 0;

/** The text of the timeline of a `trace-*.csv`. */
export function timelineOf(csv: string, { hasWaits = false, space = 0.1 }: TimelineOptions = {}): string {
  const { workers, steps } = readNdtimeline(csv);
  const tidOf = (worker: number, thread: number): number => worker * threads.length + thread;
  let start = 0;
  const events: object[] = [];
  for (const { step, ops } of steps) {
    const begins = new Map<string, number>();
    for (const { op, parts } of hasWaits ? [] : ndtimelineMeetings(ops, workers, new Map())) {
      const last = Math.max(...parts.map(({ entry }) => entry));
      if (op !== 'barrier') for (const { member, entry, exit } of parts) begins.set(`${member} ${entry} ${exit}`, last);
    }
    for (const { worker, type, from, until, sequence } of ops) {
      const begin = begins.get(`${worker} ${from} ${until}`) ?? from;
      const place = { pid: workers[worker]?.dp, tid: tidOf(worker, threadOf(type)) };
      const args = {
        step,
        model_chunk: type.endsWith('compute') ? 0 : -1,
        mb_id: type.endsWith('compute') ? sequence : -1,
        seq_id: sequence,
      };
      events.push({ name: type, cat: type, ...place, ts: (start + begin) / 1000, dur: (until - begin) / 1000, ph: 'X', args });
    }
    start += (1 + space) * Math.max(...ops.map(({ until }) => until));
  }
  for (const [worker, { stage, dp }] of workers.entries()) {
    for (const [thread, name] of threads.entries()) {
      const about = { pid: dp, tid: tidOf(worker, thread), ph: 'M' };
      events.push({ name: 'thread_name', ...about, args: { name: `PP rank ${stage}, TP rank 0, ${name}` } });
      events.push({ name: 'thread_sort_index', ...about, args: { sort_index: tidOf(worker, thread) } });
    }
  }
  for (const dp of new Set(workers.map((worker) => worker.dp))) {
    events.push({ name: 'process_name', pid: dp, ph: 'M', args: { name: `DP rank [${dp}]` } });
  }
  return JSON.stringify(events);
}

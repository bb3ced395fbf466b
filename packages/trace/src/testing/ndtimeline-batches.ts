// An NDTimeline recording as batches that its workers would have sent: one per worker and step, one step after another.
//
//   worker 0  │ step 16 ─────────────┤ │ step 17 ──────────┤ │          one clock for all, as in each step of the recording
//   worker 1  │ step 16 ───────────┤   │ step 17 ────────────┤

import type { Batch } from '@ranktrace/protocol';
import { ndtimelineBatch } from '../ndtimeline/ndtimeline-batch.ts';
import { readNdtimeline } from './ndtimeline-recording.ts';

/** The batches of run `run`, in the order in which a service would receive them, from the text of a `trace-*.csv`. */
export function ndtimelineBatches(csv: string, run: string): Batch[] {
  const recording = readNdtimeline(csv);
  return recording.steps.flatMap((_, step) => recording.workers.map((_, worker) => ndtimelineBatch(recording, { run, worker, step })));
}

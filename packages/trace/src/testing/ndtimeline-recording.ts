// Recordings in the columns of NDTimeline (ByteDance-Seed/StragglerAnalysis: `trace-*.csv`), from production jobs or simulated (pipeline-job.ts).
//
//   columns  dp_rank, stage, rank, step, optype, start_ts (s from the step's start), duration (s), seq_id, mc, mb_id, gmc

import {
  type NdtimelineOp,
  type NdtimelineRecording,
  type NdtimelineWorker,
  ndtimelineMeetings,
} from '../ndtimeline/ndtimeline-recording.ts';

/** All steps in the text of a `trace-*.csv`, one after another. */
export function readNdtimeline(csv: string): NdtimelineRecording {
  const workers: NdtimelineWorker[] = [];
  const places = new Map<string, number>();
  const types = new Set<string>();
  const steps = new Map<number, NdtimelineOp[]>();
  for (const line of csv.trimEnd().split('\n').slice(1)) {
    const [dp = '', stage = '', rank = '', step = '', type = '', start = '', duration = '', sequence = ''] = line.split(',');
    let worker = places.get(rank);
    if (worker === undefined) {
      worker = workers.push({ rank: Number(rank), stage: Number(stage), dp: Number(dp) }) - 1;
      places.set(rank, worker);
    }
    types.add(type);
    const from = Math.round(Number(start) * 1e9);
    const until = from + Math.round(Number(duration) * 1e9);
    const op: NdtimelineOp = { worker, step: Number(step), type, from, until, sequence: Number(sequence) };
    const ops = steps.get(op.step);
    if (ops === undefined) steps.set(op.step, [op]);
    else ops.push(op);
  }
  const reported = new Map<string, number>();
  let end = 0;
  const read = [...steps]
    .sort(([a], [b]) => a - b)
    .map(([step, ops]) => {
      const start = end;
      end += Math.max(...ops.map(({ until }) => until));
      return { step, start, ops, meetings: ndtimelineMeetings(ops, workers, reported) };
    });
  return { workers, types: [...types], steps: read };
}

// A recording of NDTimeline as the batches that its workers would have sent: one of each worker and step, the steps one after the other.
//
//   worker 0  │ step 16 ─────────────┤ │ step 17 ──────────┤ │          one clock, as the recording has one per step
//   worker 1  │ step 16 ───────────┤   │ step 17 ────────────┤
//
// Ranks are numbers of workers: the recording counts the GPUs of a worker, which ran as one.

import { type Batch, createEventTables, rankTime, spanState } from '@ranktrace/protocol';
import { type NdtimelineOp, type NdtimelineRecording, type NdtimelineStep, readNdtimeline } from './ndtimeline-recording.ts';

/** The batches of run `run`, in the order in which a service would get them, from the text of a `trace-*.csv`. */
export function ndtimelineBatches(csv: string, run: string): Batch[] {
  const recording = readNdtimeline(csv);
  let start = 0;
  return recording.steps.flatMap((step, sequence) => {
    const batches = recording.workers.map((_, worker) => batchOf(recording, run, worker, step, sequence, start));
    start += Math.max(...step.ops.map(({ until }) => until));
    return batches;
  });
}

function batchOf(
  { workers, steps }: NdtimelineRecording,
  run: string,
  worker: number,
  { step, ops, meetings }: NdtimelineStep,
  sequence: number,
  start: number,
): Batch {
  const tables = createEventTables();
  const strings = new Map([['', 0]]);
  const text = (string: string): number => {
    const index = strings.get(string) ?? strings.size;
    strings.set(string, index);
    return index;
  };
  const track = 1;
  tables.tracks.append({ track, kind: text('thread'), name: text('main'), tid: 1 });
  if (sequence === 0) tables.metadata.append({ key: text('stage'), value: text(`${workers[worker]?.stage}`) });
  const phases = new Map<string, NdtimelineOp[]>();
  const own = ops.filter((op) => op.worker === worker).sort((a, b) => a.from - b.from);
  for (const op of own) {
    const { type, from, until } = op;
    const place = { start: start + from, length: until - from, track };
    tables.spans.append({ ...place, name: text(type), category: 0, id: 0, parent: 0, state: spanState.whole });
    phases.set(type, [...(phases.get(type) ?? []), op]);
  }
  for (const { group, sequence, parts, pair } of meetings) {
    const part = parts.find(({ member }) => member === worker);
    if (part === undefined) continue;
    const { entry, exit = entry, op, bytes } = part;
    const other = pair === undefined ? undefined : parts.find(({ member }) => member !== worker);
    const peer = other === undefined ? 0 : 1 + other.member;
    const place = { start: start + entry, length: exit - entry, track };
    const of = { op: text(op), group: text(group), sequence, bytes, peer };
    tables.collectives.append({ ...place, ...of, id: 0, parent: 0, state: spanState.whole });
  }
  const length = Math.max(...own.map(({ until }) => until));
  tables.steps.append({ start, length, track, step, overhead: 0 });
  for (const [type, all] of phases) {
    const sum = all.reduce((total, { from, until }) => total + until - from, 0);
    tables.phases.append({ step, name: text(type), length: sum, calls: all.length });
  }
  const header = {
    run,
    rank: worker,
    worldSize: workers.length,
    incarnation: '0001',
    sequence,
    host: 'job',
    hostName: `worker-${worker}`,
    pid: 1 + worker,
    epoch: '1000',
    watermark: rankTime(start + length),
    last: sequence === steps.length - 1,
    dropped: { events: 0, arguments: 0, names: 0, batches: 0 },
  };
  return { header, strings: [...strings.keys()], tables };
}

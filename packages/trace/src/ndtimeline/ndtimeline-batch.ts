// One worker's part of one step of an NDTimeline recording, as the batch that a rank's own recorder would have sent.
//
//   ops         → spans, all on one line: an op that waits for another of the same worker is inside it, or overlaps it a little
//   meetings    → collectives and sends, beside their op
//   step        → a step, with the time of each type of op as its phases

import { type Batch, createEventTables, rankTime, spanState, type TableName, tableNames } from '@ranktrace/protocol';
import type { CollectivePart, MatchedCollective } from '../match/collective-matcher.ts';
import type { NdtimelineOp, NdtimelineRecording, NdtimelineStep, NdtimelineWorker } from './ndtimeline-recording.ts';

const track = 1;

export interface NdtimelinePart {
  readonly run: string;
  /** Indexes in the recording. */
  readonly worker: number;
  readonly step: number;
  /** The tables to fill; default all. */
  readonly only?: readonly TableName[] | undefined;
  /** More facts about the worker, sent with its first step. */
  readonly metadata?: Readonly<Record<string, string>>;
}

interface Share {
  /** In order of start. */
  readonly ops: NdtimelineOp[];
  readonly meetings: { readonly part: CollectivePart; readonly meeting: MatchedCollective }[];
}

/** The work of each worker in each step: looked up once a step, not once for each of its workers. */
export class NdtimelineShares {
  readonly #recording: NdtimelineRecording;
  readonly #bySteps = new Map<number, ReadonlyMap<number, Share>>();

  constructor(recording: NdtimelineRecording) {
    this.#recording = recording;
  }

  of(step: number, worker: number): Share {
    let byWorker = this.#bySteps.get(step);
    if (byWorker === undefined) {
      byWorker = sharesOf(this.#recording.steps[step] as NdtimelineStep);
      this.#bySteps.set(step, byWorker);
    }
    return byWorker.get(worker) ?? { ops: [], meetings: [] };
  }
}

function sharesOf({ ops, meetings }: NdtimelineStep): ReadonlyMap<number, Share> {
  const shares = new Map<number, Share>();
  const shareOf = (worker: number): Share => {
    const share = shares.get(worker) ?? { ops: [], meetings: [] };
    shares.set(worker, share);
    return share;
  };
  for (const op of ops) shareOf(op.worker).ops.push(op);
  for (const { ops } of shares.values()) ops.sort((a, b) => a.from - b.from);
  for (const meeting of meetings) {
    const met = new Set<number>();
    for (const part of meeting.parts) {
      // Only a worker's first part counts, as in matching.
      if (!met.has(part.member)) shareOf(part.member).meetings.push({ part, meeting });
      met.add(part.member);
    }
  }
  return shares;
}

/**
 * The batch of a worker and a step. Ranks number the workers: a recording counts the GPUs of a worker, which ran as one. A worker that did
 * nothing in a step has a batch without it.
 */
export function ndtimelineBatch(recording: NdtimelineRecording, about: NdtimelinePart, shares = new NdtimelineShares(recording)): Batch {
  const { workers, steps } = recording;
  const { run, worker, step: sequence, only = tableNames, metadata = {} } = about;
  const { step, start, idle, ends } = steps[sequence] as NdtimelineStep;
  const { ops: own, meetings } = shares.of(sequence, worker);
  const { stage, dp, tp } = workers[worker] as NdtimelineWorker;
  const tables = createEventTables();
  const wanted = new Set(only);
  const strings = new Map([['', 0]]);
  const text = (string: string): number => {
    const index = strings.get(string) ?? strings.size;
    strings.set(string, index);
    return index;
  };
  const length = own.reduce((until, op) => Math.max(until, op.until), 0);
  const end = ends?.[worker] ?? length;
  const next = steps[sequence + 1];
  if (wanted.has('tracks')) tables.tracks.append({ track, kind: text('thread'), name: text('main'), tid: 1 });
  if (sequence === 0 && wanted.has('metadata')) {
    for (const [key, value] of Object.entries({ stage, dp, tp, ...metadata })) {
      if (value !== undefined) tables.metadata.append({ key: text(key), value: text(`${value}`) });
    }
  }
  const phases = new Map<string, NdtimelineOp[]>();
  for (const op of own) {
    const { type, from, until, microbatch } = op;
    const ofType = phases.get(type);
    if (ofType === undefined) phases.set(type, [op]);
    else ofType.push(op);
    if (!wanted.has('spans')) continue;
    const place = { start: start + from, length: until - from, track };
    const row = tables.spans.append({ ...place, name: text(type), category: 0, id: 0, parent: 0, state: spanState.whole });
    if (microbatch === undefined || !wanted.has('numberArguments')) continue;
    tables.numberArguments.append({ table: tableNames.indexOf('spans'), row, key: text('microbatch'), value: microbatch });
  }
  for (const { part, meeting } of wanted.has('collectives') ? meetings : []) {
    const { group, sequence, parts, pair } = meeting;
    const { entry, exit = entry, op, bytes } = part;
    const other = pair === undefined ? undefined : parts.find(({ member }) => member !== worker);
    const peer = other === undefined ? 0 : 1 + other.member;
    const place = { start: start + entry, length: exit - entry, track };
    const of = { op: text(op), group: text(group), sequence, bytes, peer };
    tables.collectives.append({ ...place, ...of, id: 0, parent: 0, state: spanState.whole });
  }
  const before = idle?.[worker] ?? 0;
  if (own.length > 0 && wanted.has('steps')) tables.steps.append({ start: start + before, length: end - before, track, step, overhead: 0 });
  for (const [type, all] of wanted.has('phases') ? phases : []) {
    // Within the step: an op may run on beside the next one.
    const sum = all.reduce((total, { from, until }) => total + Math.min(until, end) - Math.min(from, end), 0);
    tables.phases.append({ step, name: text(type), length: sum, calls: all.length });
  }
  const header = {
    run,
    rank: worker,
    worldSize: workers.length,
    incarnation: '0001',
    sequence,
    host: 'job',
    hostName: `PP ${stage} DP ${dp}${tp === undefined ? '' : ` TP ${tp}`}`,
    pid: 1 + worker,
    epoch: '1000',
    // No event of a later step is before that step's start, on any worker; but ops of two steps may overlap.
    watermark: rankTime(Math.min(start + length, next?.start ?? Number.POSITIVE_INFINITY)),
    last: sequence === steps.length - 1,
    dropped: { events: 0, arguments: 0, names: 0, batches: 0 },
  };
  return { header, strings: [...strings.keys()], tables };
}

// A timeline of NDTimeline (Chrome JSON, one file for the whole job) → a BatchSource for each of its workers.
//
//   process  `DP rank [3]`                          thread  `PP rank 0, TP rank 0, compute` (pp-comm, dp-comm, misc, …)
//   event    {"name": "forward-compute", "pid": 3, "tid": 0, "ts": …, "dur": …, "args": {"step": 16, "model_chunk": 0, "mb_id": 2, "seq_id": 2}}
//
// All workers are on one axis: NDTimeline aligned their clocks itself, and states no error. So each has its own clock, left as it
// is unless shared events contradict it, as with files of torch.profiler.
// Invariant: an event of no worker or no step is counted, never guessed.

import { type Batch, leftOutKey, limits as protocolLimits, type TableName } from '@ranktrace/protocol';
import type { BatchSource } from '../model/batch-source.ts';
import { decodeUtf8 } from '../model/decode-utf8.ts';
import { TraceError } from '../model/errors.ts';
import { limits } from '../model/limits.ts';
import type { KinetoTable } from '../torch/kineto-table.ts';
import { NdtimelineShares, ndtimelineBatch } from './ndtimeline-batch.ts';
import {
  type NdtimelineOp,
  type NdtimelineRecording,
  type NdtimelineStep,
  type NdtimelineWorker,
  ndtimelineMeetings,
} from './ndtimeline-recording.ts';
import { withWaits } from './ndtimeline-waits.ts';

const processName = /^DP rank \[?(\d{1,6})\]?$/;
/** Bytes searched at the beginning of a file. */
const looked = 262_144;
const threadName = /^PP rank (\d{1,6}), TP rank (\d{1,6}), \S/;

/** Whether the file names its processes and threads as NDTimeline does. */
export const isNdtimeline = ({ processNames, threadNames }: Pick<KinetoTable, 'processNames' | 'threadNames'>): boolean =>
  processNames.size > 0 &&
  threadNames.size > 0 &&
  [...processNames.values()].every((name) => processName.test(name)) &&
  [...threadNames.values()].every((name) => threadName.test(name));

/** Whether a file that begins with these bytes, unzipped, is a timeline of NDTimeline. */
export function looksLikeNdtimeline(beginning: Uint8Array): boolean {
  const text = decodeUtf8(beginning, 0, Math.min(beginning.length, looked));
  return /"PP rank \d{1,6}, TP rank \d{1,6}, /.test(text) || /"args":\s*\{\s*"step":\s*\d+,\s*"model_chunk":/.test(text);
}

/**
 * The workers of a job, in order of stage, DP and TP rank, which numbers their ranks. `table` was read with `keep: 'all'`.
 * Throws TraceError `no_events` where no event is in a worker's step, `too_large` for more workers than ranks can be, or too many worker steps.
 */
export function ndtimelineSources(table: KinetoTable, run: string): readonly BatchSource[] {
  const { recording, leftOut } = new NdtimelineReader(table);
  const shares = new NdtimelineShares(recording);
  return recording.workers.map(
    ({ rank }) => new NdtimelineSource(recording, shares, run, rank, rank === 0 ? leftOut : 0, rank === 0 ? table.skipped.rest : 0),
  );
}

class NdtimelineSource implements BatchSource {
  readonly rank: number;
  readonly incarnation = '0001';
  readonly hostUnknown = true;
  readonly count: number;
  readonly missing = 0;
  readonly #recording: NdtimelineRecording;
  readonly #shares: NdtimelineShares;
  readonly #run: string;
  readonly #metadata: Readonly<Record<string, string>>;

  constructor(recording: NdtimelineRecording, shares: NdtimelineShares, run: string, rank: number, leftOut: number, rest: number) {
    this.#recording = recording;
    this.#shares = shares;
    this.#run = run;
    this.rank = rank;
    this.count = recording.steps.length;
    const counts = { malformed: leftOut, otherKinds: 0, arguments: 0, metadata: 0 };
    this.#metadata = leftOut + rest > 0 ? { [leftOutKey]: JSON.stringify({ ...counts, ...(rest > 0 && { rest }) }) } : {};
  }

  batch(index: number, only?: readonly TableName[]): Batch | undefined {
    if (index >= this.count) return undefined;
    const about = { run: this.#run, worker: this.rank, step: index, only, metadata: this.#metadata };
    return ndtimelineBatch(this.#recording, about, this.#shares);
  }
}

interface EventOfStep {
  readonly step: number;
  readonly sequence: number;
  readonly microbatch: number | undefined;
}

class NdtimelineReader {
  readonly recording: NdtimelineRecording;
  /** Events of no worker or no step. */
  leftOut = 0;
  readonly #table: KinetoTable;
  /** Parsed arguments, by their string: ops with one number in a step share it. */
  readonly #places = new Map<number, EventOfStep | undefined>();

  constructor(table: KinetoTable) {
    this.#table = table;
    const { skipped, instants, counters } = table;
    this.leftOut = skipped.malformed + skipped.broken + skipped.otherKinds + instants.length + counters.length;
    const { workers, ofTrack } = this.#workers();
    const ops = this.#ops(ofTrack);
    const types = [...new Set([...ops.values()].flatMap((ofStep) => ofStep.map(({ type }) => type)))];
    if (ops.size === 0) throw new TraceError('no_events', 'Cannot read the timeline: none of its events is of a step of a worker');
    if (workers.length * ops.size > limits.ndtimelineBatchesMax) {
      const got = `${workers.length} workers in ${ops.size} steps`;
      throw new TraceError('too_large', `Cannot read the timeline: workers times steps may be ${limits.ndtimelineBatchesMax}, got ${got}`);
    }
    this.recording = { workers, types, steps: stepsOf(ops, workers) };
  }

  /** The workers, and the worker of each track, −1 for none. */
  #workers(): { readonly workers: readonly NdtimelineWorker[]; readonly ofTrack: Int32Array } {
    const { tracks, threadNames, processNames } = this.#table;
    const places = tracks.map(({ pid }, track) => {
      const dp = processName.exec(processNames.get(pid) ?? '');
      const thread = threadName.exec(threadNames.get(track) ?? '');
      return dp === null || thread === null ? undefined : { stage: Number(thread[1]), dp: Number(dp[1]), tp: Number(thread[2]) };
    });
    const known = places.filter((place) => place !== undefined);
    const keyOf = ({ stage, dp, tp }: (typeof known)[number]): string => `${stage} ${dp} ${tp}`;
    const distinct = [...new Map(known.map((place) => [keyOf(place), place])).values()];
    if (distinct.length > protocolLimits.rankMax + 1) {
      const most = `it may have ${protocolLimits.rankMax + 1} workers`;
      throw new TraceError('too_large', `Cannot read the timeline: ${most}, got ${distinct.length}`);
    }
    distinct.sort((a, b) => a.stage - b.stage || a.dp - b.dp || a.tp - b.tp);
    const numbers = new Map(distinct.map((place, rank) => [keyOf(place), rank]));
    // One TP rank stands for all of them.
    const isReported = new Set(distinct.map(({ tp }) => tp)).size > 1;
    return {
      workers: distinct.map(({ stage, dp, tp }, rank) => ({ rank, stage, dp, tp: isReported ? tp : undefined })),
      ofTrack: Int32Array.from(places, (place) => (place === undefined ? -1 : (numbers.get(keyOf(place)) as number))),
    };
  }

  /** Ops by step, with times relative to the table's epoch. */
  #ops(ofTrack: Int32Array): Map<number, NdtimelineOp[]> {
    const { events, strings } = this.#table;
    const { columns, length } = events;
    const steps = new Map<number, NdtimelineOp[]>();
    for (let row = 0; row < length; row++) {
      const worker = ofTrack[columns.track[row] as number] as number;
      const place = this.#placeOf(columns.others[row] as number);
      if (worker < 0 || place === undefined || (steps.size >= limits.stepsPerFileMax && !steps.has(place.step))) {
        this.leftOut++;
        continue;
      }
      const from = columns.start[row] as number;
      const until = from + (columns.duration[row] as number);
      const op: NdtimelineOp = { ...place, worker, type: strings.get(columns.name[row] as number), from, until };
      const ofStep = steps.get(place.step);
      if (ofStep === undefined) steps.set(place.step, [op]);
      else ofStep.push(op);
    }
    return steps;
  }

  #placeOf(others: number): EventOfStep | undefined {
    if (others === 0) return undefined;
    if (this.#places.has(others)) return this.#places.get(others);
    const given = JSON.parse(`{${this.#table.arguments.get(others)}}`) as Readonly<Record<string, unknown>>;
    const { step, seq_id: sequence, mb_id: microbatch } = given;
    const place = !isCount(step)
      ? undefined
      : { step, sequence: isCount(sequence) ? sequence : 0, microbatch: isCount(microbatch) ? microbatch : undefined };
    this.#places.set(others, place);
    return place;
  }
}

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;

/**
 * Steps in order of time: each begins with the first of its ops on any worker, but on no worker before that worker's previous step has ended. Where an op
 * runs on through most of the worker's next step, as a checkpoint that is written beside it, its step ends where the next one begins.
 */
function stepsOf(ops: ReadonlyMap<number, readonly NdtimelineOp[]>, workers: readonly NdtimelineWorker[]): NdtimelineStep[] {
  const begins = [...ops].map(([step, ofStep]) => ({
    step,
    ofStep,
    start: ofStep.reduce((least, { from }) => Math.min(least, from), Number.POSITIVE_INFINITY),
  }));
  begins.sort((a, b) => a.start - b.start || a.step - b.step);
  const reported = new Map<string, number>();
  const before: (StepOfWorker | undefined)[] = workers.map(() => undefined);
  return begins.map(({ step, ofStep, start }): NdtimelineStep => {
    const drawn = ofStep.map((op) => ({ ...op, from: op.from - start, until: op.until - start }));
    const [idle, ends] = [new Float64Array(workers.length), new Float64Array(workers.length)];
    for (const [worker, { from, until }] of extentsOf(ofStep)) {
      const previous = before[worker];
      if (previous !== undefined && previous.end > (from + until) / 2) {
        previous.end = Math.max(previous.begin, from);
        previous.ends[worker] = previous.end - previous.start;
      }
      const begin = Math.min(until, Math.max(start, previous?.end ?? start));
      idle[worker] = begin - start;
      ends[worker] = until - start;
      before[worker] = { start, begin, end: until, ends };
    }
    const whole = withWaits(drawn, workers);
    return { step, start, idle, ends, ops: whole, meetings: ndtimelineMeetings(whole, workers, reported) };
  });
}

/** A worker's last step so far; `begin` and `end` as `start`, ns on the recording's axis. */
interface StepOfWorker {
  readonly start: number;
  readonly begin: number;
  end: number;
  readonly ends: Float64Array;
}

/** By worker: the begin of its first op and the end of its last one. */
function extentsOf(ops: readonly NdtimelineOp[]): ReadonlyMap<number, { readonly from: number; readonly until: number }> {
  const extents = new Map<number, { from: number; until: number }>();
  for (const { worker, from, until } of ops) {
    const extent = extents.get(worker);
    if (extent === undefined) extents.set(worker, { from, until });
    else {
      extent.from = Math.min(extent.from, from);
      extent.until = Math.max(extent.until, until);
    }
  }
  return extents;
}

// A job as recorded by NDTimeline (veScale), as far as its timelines show it: ops of workers, and the workers that met in each op.
//
// A worker is one (PP rank, DP rank, TP rank) that the timeline names; tensor-parallel ranks that ran as one are not distinguished. Ops do not name
// their peers, but their names and the parallelism imply them:
//
//   forward-send number k of stage s      ↔ forward-recv number k of stage s + 1, of one DP and TP rank
//   backward-send number k of stage s     ↔ backward-recv number k of stage s − 1, of one DP and TP rank
//   params-all-gather, grads-reduce-scatter         all DP ranks of a stage
//   embedding-grads-all-reduce                      first and last stage of a DP rank
//   optimizer-clip-main-grad                        all workers: it holds the norm's all-reduce
//
// Some waits are not recorded, but the times show them: after the pipeline, before `layernorm-grads-all-reduce`, the workers of the last stage wait
// for each other, then those of DP rank 0 do. In recordings of production jobs they go on within 30 ms of each other, seconds after the first was
// done. Where they do not, no worker waited.

import { collectiveKind } from '@ranktrace/protocol';
import type { CollectivePart, MatchedCollective } from '../match/collective-matcher.ts';

/** ns from the step's start. */
export interface NdtimelineOp {
  /** Index into `workers`. */
  readonly worker: number;
  readonly step: number;
  readonly type: string;
  readonly from: number;
  readonly until: number;
  /** Sequence number among ops of its kind in the step. */
  readonly sequence: number;
  /** Number of the microbatch; undefined where the op has none. */
  readonly microbatch?: number | undefined;
}

export interface NdtimelineWorker {
  readonly rank: number;
  readonly stage: number;
  readonly dp: number;
  /** Undefined where tensor-parallel ranks are not distinguished. */
  readonly tp?: number | undefined;
}

export interface NdtimelineStep {
  readonly step: number;
  /** ns on the recording's axis. */
  readonly start: number;
  /** Per worker, ns from `start` to the end of its previous step, at least 0; absent where none ended later. */
  readonly idle?: Float64Array;
  /** Per worker, ns from `start` to the end of its step; absent where all of them end with their last op. */
  readonly ends?: Float64Array;
  readonly ops: readonly NdtimelineOp[];
  /** Members are indexes into `workers`; sequences are unique in their group. */
  readonly meetings: readonly MatchedCollective[];
}

export interface NdtimelineRecording {
  readonly workers: readonly NdtimelineWorker[];
  /** Types of ops, in order of first occurrence. */
  readonly types: readonly string[];
  /** Ascending. */
  readonly steps: readonly NdtimelineStep[];
}

const layernorm = 'layernorm-grads-all-reduce';

/** Meetings of workers in the ops of a step. `reported`: how many meetings each group has had, over all steps so far. */
export function ndtimelineMeetings(
  ops: readonly NdtimelineOp[],
  workers: readonly NdtimelineWorker[],
  reported: Map<string, number>,
): MatchedCollective[] {
  const met = new Meetings(workers);
  const stages = workers.reduce((most, { stage }) => Math.max(most, stage), 0) + 1;
  const done = new Float64Array(workers.length);
  for (const op of ops) {
    const { type } = op;
    const { stage, dp, tp } = workers[op.worker] as NdtimelineWorker;
    const beside = tp === undefined ? '' : ` tp ${tp}`;
    const hop = type === 'forward-send' || type === 'backward-recv' ? stage : stage - 1;
    if (type.endsWith('-send') || type.endsWith('-recv')) {
      met.add(`${type.slice(0, -5)} ${hop} ${dp} ${op.sequence}${beside}`, `stages-${hop}-${hop + 1}${beside}`, op);
    } else if (type === 'params-all-gather' || type === 'grads-reduce-scatter') {
      met.add(`${type} ${stage}${beside}`, `stage-${stage}${beside}`, op);
    } else if (type === 'embedding-grads-all-reduce' && (stage === 0 || stage === stages - 1)) {
      met.add(`${type} ${dp}${beside}`, `embedding-dp-${dp}${beside}`, op);
    } else if (type === 'optimizer-clip-main-grad') {
      met.add(type, 'world', op);
    }
    if (/^(forward|backward|gc)/.test(type)) done[op.worker] = Math.max(done[op.worker] as number, op.until);
  }
  addUnrecorded(
    met,
    ops.filter(({ type }) => type === layernorm),
    { workers, done, lastStage: stages - 1 },
  );
  return met.matched(reported);
}

interface AfterPipeline {
  readonly workers: readonly NdtimelineWorker[];
  /** The end of each worker's pipeline. */
  readonly done: Float64Array;
  readonly lastStage: number;
}

/** Adds the waits of workers between the pipeline and `after`, the ops behind it. */
function addUnrecorded(met: Meetings, after: readonly NdtimelineOp[], { workers, done, lastStage }: AfterPipeline): void {
  const placeOf = ({ worker }: NdtimelineOp): NdtimelineWorker => workers[worker] as NdtimelineWorker;
  const doneOf = ({ worker }: NdtimelineOp): number => done[worker] as number;
  const last = after.filter((op) => placeOf(op).stage === lastStage);
  const others = last.filter((op) => placeOf(op).dp !== 0);
  // Workers of DP rank 0 wait once more before they go on.
  const together = least(others.map(({ from }) => from));
  const leave = (op: NdtimelineOp): number => Math.min(together, op.from);
  const ofLast = new Set(last);
  const isStageMet = goOnTogether(
    others.map(({ from }) => from),
    last.map(doneOf),
  );
  if (isStageMet) for (const op of last) met.add('end of last stage', `stage-${lastStage}`, op, [doneOf(op), leave(op)]);
  const ofFirst = after.filter((op) => placeOf(op).dp === 0);
  const since = (op: NdtimelineOp): number => (isStageMet && ofLast.has(op) ? leave(op) : doneOf(op));
  if (
    goOnTogether(
      ofFirst.map(({ from }) => from),
      ofFirst.map(since),
    )
  )
    for (const op of ofFirst) met.add('end of dp 0', 'dp-0', op, [since(op), op.from]);
}

/** Whether workers that arrive at `entries` go on at `exits` much closer together. */
function goOnTogether(exits: readonly number[], entries: readonly number[]): boolean {
  return exits.length > 0 && entries.length > 1 && spread(exits) <= spread(entries) / 2;
}

/** Not `Math.min(...)`: a file may hold more of them than a call takes arguments. */
const least = (times: readonly number[]): number => times.reduce((least, time) => Math.min(least, time), Number.POSITIVE_INFINITY);

/** Distance between the first and the last of `times`. */
export const spread = (times: readonly number[]): number =>
  times.reduce((most, time) => Math.max(most, time), Number.NEGATIVE_INFINITY) - least(times);

class Meetings {
  readonly #workers: readonly NdtimelineWorker[];
  readonly #met = new Map<string, { readonly group: string; readonly parts: CollectivePart[] }>();

  constructor(workers: readonly NdtimelineWorker[]) {
    this.#workers = workers;
  }

  /** `waited`: start and end of a wait that was not recorded itself. */
  add(key: string, group: string, { worker, type, from, until }: NdtimelineOp, waited?: readonly [from: number, until: number]): void {
    const [entry, exit] = waited ?? [from, until];
    const op = waited !== undefined ? 'barrier' : (collectiveKind(type) ?? 'all_reduce');
    const { rank } = this.#workers[worker] as NdtimelineWorker;
    const part: CollectivePart = { member: worker, rank, entry: Math.min(entry, exit), exit, op, bytes: 0 };
    const meeting = this.#met.get(key);
    if (meeting === undefined) this.#met.set(key, { group, parts: [part] });
    else meeting.parts.push(part);
  }

  /** Complete meetings, as far as that can be known: at least two parts, and both sides of a send. */
  matched(reported: Map<string, number>): MatchedCollective[] {
    return [...this.#met.values()].flatMap(({ group, parts }): MatchedCollective[] => {
      const sender = parts.find(({ op }) => op === 'send');
      const receiver = parts.find(({ op }) => op === 'recv');
      if (parts.length < 2 || (sender === undefined) !== (receiver === undefined)) return [];
      const pair = sender === undefined || receiver === undefined ? undefined : ([sender.rank, receiver.rank] as const);
      const sequence = reported.get(group) ?? 0;
      reported.set(group, sequence + 1);
      return [{ group, sequence, op: (parts[0] as CollectivePart).op, parts, missing: [], pair }];
    });
  }
}

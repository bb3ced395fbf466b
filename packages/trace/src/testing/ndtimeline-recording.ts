// Recordings in the columns of NDTimeline (ByteDance-Seed/StragglerAnalysis: `trace-*.csv`), of production jobs or simulated (pipeline-job.ts).
//
//   columns  dp_rank, stage, rank, step, optype, start_ts (s from the step's start), duration (s), seq_id, mc, mb_id, gmc
//
// A worker is one (stage, dp): its tensor-parallel ranks are not told apart. What it says of whom it met, in names of ours:
//
//   forward-send seq k of stage s     ↔ forward-recv seq k of stage s + 1, of one dp
//   backward-send seq k of stage s    ↔ backward-recv seq k of stage s − 1, of one dp
//   params-all-gather, grads-reduce-scatter        all dp of a stage
//   embedding-grads-all-reduce                     first and last stage of a dp
//   optimizer-clip-main-grad                       all workers: it holds the norm's all-reduce
//
// Not recorded, and known from the times: after the pipeline, before `layernorm-grads-all-reduce`, the workers of the last stage wait for each
// other (they leave together, 30 or 100 ms after the last of them was done), then those of dp 0. All others go on within 6 ms.

import type { CollectivePart, MatchedCollective } from '../match/collective-matcher.ts';

/** ns from the step's start. */
export interface NdtimelineOp {
  /** Index into `workers`. */
  readonly worker: number;
  readonly step: number;
  readonly type: string;
  readonly from: number;
  readonly until: number;
  readonly sequence: number;
}

export interface NdtimelineWorker {
  readonly rank: number;
  readonly stage: number;
  readonly dp: number;
}

export interface NdtimelineStep {
  readonly step: number;
  readonly ops: readonly NdtimelineOp[];
  /** Members are indexes into `workers`; sequences are unique in their group. */
  readonly meetings: readonly MatchedCollective[];
}

export interface NdtimelineRecording {
  readonly workers: readonly NdtimelineWorker[];
  /** Types of ops, in order of first sight. */
  readonly types: readonly string[];
  /** Ascending. */
  readonly steps: readonly NdtimelineStep[];
}

/** All steps in the text of a `trace-*.csv`. */
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
  const told = new Map<string, number>();
  const read = [...steps].sort(([a], [b]) => a - b).map(([step, ops]) => ({ step, ops, meetings: meetingsOf(ops, workers, told) }));
  return { workers, types: [...types], steps: read };
}

/** `told`: how many meetings each group has had. */
function meetingsOf(ops: readonly NdtimelineOp[], workers: readonly NdtimelineWorker[], told: Map<string, number>): MatchedCollective[] {
  const stages = Math.max(...workers.map(({ stage }) => stage)) + 1;
  const met = new Map<string, { readonly group: string; readonly parts: CollectivePart[] }>();
  const meet = (key: string, group: string, { worker, type, from, until }: NdtimelineOp, entry = from, exit = until): void => {
    const op = /-(send|recv)$/.exec(type)?.[1] ?? (type.includes('gather') ? 'all_gather' : 'all_reduce');
    const part: CollectivePart = { member: worker, rank: (workers[worker] as NdtimelineWorker).rank, entry, exit, op, bytes: 0 };
    const meeting = met.get(key);
    if (meeting === undefined) met.set(key, { group, parts: [part] });
    else meeting.parts.push(part);
  };
  const done = new Float64Array(workers.length);
  for (const op of ops) {
    const { type } = op;
    const { stage, dp } = workers[op.worker] as NdtimelineWorker;
    const hop = type === 'forward-send' || type === 'backward-recv' ? stage : stage - 1;
    if (type.endsWith('-send') || type.endsWith('-recv')) {
      meet(`${type.slice(0, -5)} ${hop} ${dp} ${op.sequence}`, `stages-${hop}-${hop + 1}`, op);
    } else if (type === 'params-all-gather' || type === 'grads-reduce-scatter') {
      meet(`${type} ${stage}`, `stage-${stage}`, op);
    } else if (type === 'embedding-grads-all-reduce' && (stage === 0 || stage === stages - 1)) {
      meet(`${type} ${dp}`, `embedding-dp-${dp}`, op);
    } else if (type === 'optimizer-clip-main-grad') {
      meet(type, 'world', op);
    }
    if (/^(forward|backward|gc)/.test(type)) done[op.worker] = Math.max(done[op.worker] as number, op.until);
  }
  const after = ops.filter(({ type }) => type === 'layernorm-grads-all-reduce');
  const placeOf = ({ worker }: NdtimelineOp) => workers[worker] as NdtimelineWorker;
  const last = after.filter((op) => placeOf(op).stage === stages - 1);
  const together = Math.min(...last.filter((op) => placeOf(op).dp !== 0).map(({ from }) => from));
  for (const op of last) meet('end of last stage', `stage-${stages - 1}`, op, done[op.worker], Math.min(together, op.from));
  for (const op of after.filter((op) => placeOf(op).dp === 0)) {
    const since = last.includes(op) ? Math.min(together, op.from) : done[op.worker];
    meet('end of dp 0', 'dp-0', op, since, op.from);
  }
  return [...met.values()].flatMap(({ group, parts }): MatchedCollective[] => {
    const sender = parts.find(({ op }) => op === 'send');
    const receiver = parts.find(({ op }) => op === 'recv');
    if (parts.length < 2 || (sender === undefined) !== (receiver === undefined)) return [];
    const pair = sender === undefined || receiver === undefined ? undefined : ([sender.rank, receiver.rank] as const);
    const sequence = told.get(group) ?? 0;
    told.set(group, sequence + 1);
    return [{ group, sequence, op: (parts[0] as CollectivePart).op, parts, missing: [], pair }];
  });
}

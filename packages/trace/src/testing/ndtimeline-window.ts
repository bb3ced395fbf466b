// Recordings of NDTimeline (ByteDance-Seed/StragglerAnalysis: `trace-*.csv`) as a window for blame: production jobs whose faults are published.
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
// Not recorded, and known from the times: all workers begin `layernorm-grads-all-reduce` within 0.1 ms, whenever they were done with the
// pipeline, so they meet before it.

import { nanos } from '@ranktrace/protocol';
import { type BlameStep, type BlameWindow, otherPhase } from '../blame/blame-window.ts';
import { cutStep, type PlacedPhase, type StepCollective } from '../blame/cut-step.ts';
import { meetingOf } from '../blame/meeting-of.ts';
import type { CollectivePart } from '../match/collective-matcher.ts';
import { traceProcess } from './trace-events.ts';

interface Op {
  readonly worker: number;
  readonly step: number;
  readonly type: string;
  readonly from: number;
  readonly until: number;
  readonly sequence: number;
}

interface Worker {
  readonly rank: number;
  readonly stage: number;
  readonly dp: number;
}

/** The window of all steps in the text of a `trace-*.csv`. */
export function ndtimelineWindow(csv: string): BlameWindow {
  const workers: Worker[] = [];
  const places = new Map<string, number>();
  const types = new Set<string>();
  const steps = new Map<number, Op[]>();
  for (const line of csv.trimEnd().split('\n').slice(1)) {
    const [dp = '', stage = '', rank = '', step = '', type = '', start = '', duration = '', sequence = ''] = line.split(',');
    let worker = places.get(rank);
    if (worker === undefined) {
      worker = workers.push({ rank: Number(rank), stage: Number(stage), dp: Number(dp) }) - 1;
      places.set(rank, worker);
    }
    types.add(type);
    const from = Math.round(Number(start) * 1e9);
    const op: Op = { worker, step: Number(step), type, from, until: from + Math.round(Number(duration) * 1e9), sequence: Number(sequence) };
    const ops = steps.get(op.step);
    if (ops === undefined) steps.set(op.step, [op]);
    else ops.push(op);
  }
  const phases = [...types, otherPhase];
  const numbers = new Map(phases.map((name, index) => [name, index]));
  const read = [...steps].sort(([a], [b]) => a - b).map(([step, ops]) => stepOf(step, ops, workers, numbers));
  const ranks = workers.map(({ rank, stage }) => ({ rank, host: `host ${rank}`, hostName: `host ${rank}`, peers: `stage ${stage}` }));
  return { ranks, phases, steps: read, leftOut: 0, basis: 'pieces', alignment: { bound: 0, unaligned: [] } };
}

function stepOf(step: number, ops: readonly Op[], workers: readonly Worker[], phases: ReadonlyMap<string, number>): BlameStep {
  const stages = Math.max(...workers.map(({ stage }) => stage)) + 1;
  const meetings = new Map<string, { part: CollectivePart; op: Op }[]>();
  const meet = (key: string, op: Op, rank: number, entry = op.from, exit = op.until): void => {
    const name = /-(send|recv)$/.exec(op.type)?.[1] ?? (op.type.includes('gather') ? 'all_gather' : 'all_reduce');
    const part: CollectivePart = { member: op.worker, rank, entry, exit, op: name, bytes: 0 };
    const parts = meetings.get(key);
    if (parts === undefined) meetings.set(key, [{ part, op }]);
    else parts.push({ part, op });
  };
  const done = new Float64Array(workers.length);
  for (const op of ops) {
    const { rank, stage, dp } = workers[op.worker] as Worker;
    const hop = op.type === 'forward-send' || op.type === 'backward-recv' ? stage : stage - 1;
    if (op.type.endsWith('-send') || op.type.endsWith('-recv')) meet(`${op.type.slice(0, -5)} ${hop} ${dp} ${op.sequence}`, op, rank);
    else if (op.type === 'params-all-gather' || op.type === 'grads-reduce-scatter') meet(`${op.type} stage-${stage}`, op, rank);
    else if (op.type === 'embedding-grads-all-reduce' && (stage === 0 || stage === stages - 1)) meet(`${op.type} dp-${dp}`, op, rank);
    else if (op.type === 'optimizer-clip-main-grad') meet(`${op.type} world`, op, rank);
    if (/^(forward|backward|gc)/.test(op.type)) done[op.worker] = Math.max(done[op.worker] as number, op.until);
  }
  for (const op of ops) {
    if (op.type !== 'layernorm-grads-all-reduce') continue;
    meet('end-of-pipeline world', op, (workers[op.worker] as Worker).rank, done[op.worker] as number, op.from);
  }
  const collectives = workers.map((): StepCollective[] => []);
  const process = traceProcess();
  for (const [key, all] of meetings) {
    const parts = all.map(({ part }) => part);
    const sender = parts.find(({ op }) => op === 'send');
    const receiver = parts.find(({ op }) => op === 'recv');
    if (parts.length < 2 || (sender === undefined) !== (receiver === undefined)) continue;
    const pair = sender === undefined || receiver === undefined ? undefined : ([sender.rank, receiver.rank] as const);
    const [op = '', group = ''] = key.split(' ');
    const met = meetingOf({ group, sequence: 0, op: pair ? op : (parts[0] as CollectivePart).op, parts, missing: [], pair }, () => process);
    for (const { part, waitedUntil, lag } of met?.parts ?? []) {
      const { entry, exit } = part;
      collectives[part.member]?.push({ entry, exit, meeting: met?.meeting, waitedUntil, lag, exposed: undefined });
    }
  }
  const other = phases.get(otherPhase) as number;
  const ranks = workers.map((_, worker) => {
    const own = ops.filter((op) => op.worker === worker);
    const length = Math.max(...own.map(({ until }) => until));
    const placed = own.map(({ type, from, until }): PlacedPhase => ({ phase: phases.get(type) as number, from, until }));
    return { length: nanos(length), gap: 0, pieces: cutStep(0, length, placed, collectives[worker] ?? [], other) };
  });
  return { step, follows: false, ranks };
}

// Launches of a rank: how long each took to start its work, and how much work stood in the streams' queues.
//
//   host      launch a ─ b ─ c ─ d ─────────────
//   queue          1   2   3   4   3   2   1   0        + 1 with the call, − 1 with the start of its work
//   stream                         a   b   c   d
//
// A graph's launch is one, whatever it holds, and leaves the queue with its first kernel. A full queue blocks the host: a launch takes until one has begun.

import { QuantileSketch } from '../model/quantile-sketch.ts';
import { median } from '../model/robust.ts';
import type { RankWork, WorkStream } from './device-work.ts';
import { gpuLimits as limits } from './gpu-limits.ts';
import { Intervals } from './intervals.ts';
import { kindOf } from './kernel-class.ts';

/** ns. */
export interface LaunchSummary {
  /** Launches, a graph's as one, and work of which none was recorded. */
  readonly launched: number;
  readonly withoutLaunch: number;
  /** From the end of the call to the start of its first work, 0 where that began before the call returned. */
  readonly delay: { readonly mean: number; readonly p50: number; readonly p95: number; readonly max: number } | undefined;
  /** Length of the calls. */
  readonly callMean: number;
  /** Launches whose work is shorter than the call: the host cannot keep the device busy with it. */
  readonly shorterThanCall: number;
}

export interface QueueSummary extends WorkStream {
  /** Mean over the time of the steps, without steps over all time, and the most. */
  readonly mean: number;
  readonly max: number;
  /** Time for which launches waited for room in the queue, ns; by HTA's conventions, for which it held 1024. */
  readonly blocked: number;
}

export function launchSummary(work: RankWork): LaunchSummary {
  const { columns, length } = work.work;
  const { start: called, end: returned } = work.host.columns;
  const delays = new QuantileSketch();
  /** By row of a call: how long its work ran. */
  const ran = new Map<number, number>();
  let [withoutLaunch, shorterThanCall, calls, sum] = [0, 0, 0, 0];
  for (let row = 0; row < length; row++) {
    if (columns.kind[row] === kindOf.sync) continue;
    const call = work.callOf(row);
    if (call < 0) {
      withoutLaunch++;
      continue;
    }
    const start = columns.start[row] as number;
    const before = ran.get(call);
    ran.set(call, (before ?? 0) + (columns.end[row] as number) - start);
    if (before !== undefined) continue;
    const delay = Math.max(0, start - (returned[call] as number));
    delays.add(delay);
    sum += delay;
    calls += (returned[call] as number) - (called[call] as number);
  }
  for (const [call, time] of ran) if (time < (returned[call] as number) - (called[call] as number)) shorterThanCall++;
  const launched = ran.size;
  const [p50, p95] = delays.quantiles([0.5, 0.95]) ?? [0, 0];
  const delay = launched === 0 ? undefined : { mean: sum / launched, p50, p95, max: delays.most ?? 0 };
  return { launched, withoutLaunch, delay, callMean: launched === 0 ? 0 : calls / launched, shorterThanCall };
}

/** Calls that HTA takes for launches; it leaves graphs out. */
const htaLaunch = /^(?:cudaLaunchKernel(?:ExC)?|cuLaunchKernel|cudaMem(?:cpy|set)Async|hipLaunchKernel|hipExtModuleLaunchKernel)$/;

/** HTA's length of a full queue. */
const htaQueueLengthMax = 1024;

/** Launches of one stream, in order of the starts of their work: rows of the calls, and of the first work of each. */
interface StreamLaunches {
  readonly calls: number[];
  readonly rows: number[];
}

/** By index of the stream, in order of their first launch. */
function streamLaunches(work: RankWork): ReadonlyMap<number, StreamLaunches> {
  const { columns, length } = work.work;
  const streams = new Map<number, StreamLaunches>();
  const { names, host } = work;
  const isKnown = work.htaCompatible ? names.matching(htaLaunch) : undefined;
  const seen = new Uint8Array(host.length);
  for (let row = 0; row < length; row++) {
    if (columns.kind[row] === kindOf.sync) continue;
    const call = work.callOf(row);
    if (call < 0 || seen[call] === 1 || isKnown?.[host.columns.name[call] as number] === 0) continue;
    seen[call] = 1;
    const stream = columns.stream[row] as number;
    const launches = streams.get(stream) ?? { calls: [], rows: [] };
    streams.set(stream, launches);
    launches.calls.push(call);
    launches.rows.push(row);
  }
  return streams;
}

/** Queues of the streams with launched work, in order of their first launch. */
export function queueSummaries(work: RankWork): readonly QueueSummary[] {
  const { start } = work.host.columns;
  const steps = new Intervals();
  if (!work.htaCompatible) for (const window of work.windows) steps.add(window.start, window.end);
  const timeOf = (from: number, until: number): number => (steps.length > 0 ? steps.covered(from, until) : until - from);
  return [...streamLaunches(work)].map(([index, launches]) => {
    const called = Float64Array.from(launches.calls, (call) => start[call] as number).sort();
    const started = Float64Array.from(launches.rows, (row) => work.work.columns.start[row] as number);
    const { isFull, ...queue } = queueOf(called, started, timeOf);
    const blocked = work.htaCompatible ? isFull : blockedTime(work, launches);
    return { ...(work.streams[index] as WorkStream), ...queue, blocked };
  });
}

/** A launch that waited for room: row of the call, of the work whose begin made it, and of the work that ran for most of the time. */
export interface BlockedLaunch {
  readonly call: number;
  readonly room: number;
  readonly running: number;
  /** Length of the call without the wait, ns. */
  readonly own: number;
}

/** A call into a full queue that lasts this many times as long as the usual one waited for room. */
const blockedTimesMin = 1.2;

/** Launches of all streams that found a full queue. */
export function blockedLaunches(work: RankWork): readonly BlockedLaunch[] {
  return [...streamLaunches(work).values()].flatMap((launches) => blockedOf(work, launches));
}

function blockedOf({ host, work }: RankWork, { calls, rows }: StreamLaunches): readonly BlockedLaunch[] {
  const { start, end } = host.columns;
  if (calls.length < limits.gpuQueueFullMin) return [];
  const inOrder = calls.toSorted((a, b) => a - b);
  const blocked: BlockedLaunch[] = [];
  /** Lengths of calls that found room. */
  const free: number[] = [];
  let own: number | undefined;
  // Work that had begun when a call was made, and when it returned.
  let [before, until] = [0, 0];
  for (const [called, call] of inOrder.entries()) {
    const [from, to] = [start[call] as number, end[call] as number];
    while (before < rows.length && (work.columns.start[rows[before] as number] as number) <= from) before++;
    if (called - before < limits.gpuQueueFullMin) {
      if (own === undefined) free.push(to - from);
      continue;
    }
    // In a queue that stays full, each launch waits for one piece of work, however short.
    own ??= median(free);
    if (to - from < blockedTimesMin * own) continue;
    until = Math.max(until, before);
    while (until < rows.length && (work.columns.start[rows[until] as number] as number) <= to) until++;
    if (until === before) continue;
    let [running, longest] = [rows[until - 1] as number, 0];
    for (const row of rows.slice(Math.max(0, before - 1), until)) {
      const during = Math.min(to, work.columns.end[row] as number) - Math.max(from, work.columns.start[row] as number);
      if (during > longest) [running, longest] = [row, during];
    }
    blocked.push({ call, room: rows[until - 1] as number, running, own });
  }
  return blocked;
}

function blockedTime(work: RankWork, launches: StreamLaunches): number {
  const { start, end } = work.host.columns;
  return blockedOf(work, launches).reduce((sum, { call, own }) => sum + (end[call] as number) - (start[call] as number) - own, 0);
}

/** Both in order. `timeOf`: the time that counts for the mean. `isFull`: time for which HTA takes the queue for full. */
function queueOf(
  calls: Float64Array,
  started: Float64Array,
  timeOf: (from: number, until: number) => number,
): { readonly mean: number; readonly max: number; readonly isFull: number } {
  let [held, max, isFull, area, ofCalls] = [0, 0, 0, 0, 0];
  const first = Math.min(calls[0] as number, started[0] as number);
  let time = first;
  const pass = (now: number): void => {
    if (held !== 0) area += held * timeOf(time, now);
    if (held >= htaQueueLengthMax) isFull += now - time;
    time = now;
  };
  for (const start of started) {
    for (; ofCalls < calls.length && (calls[ofCalls] as number) <= start; ofCalls++) {
      pass(calls[ofCalls] as number);
      held++;
      max = Math.max(max, held);
    }
    pass(start);
    held--;
  }
  // A clock error lets work begin before its call: those calls come last.
  for (; ofCalls < calls.length; ofCalls++) {
    pass(calls[ofCalls] as number);
    held++;
  }
  const all = timeOf(first, time);
  return { mean: all > 0 ? area / all : 0, max, isFull };
}

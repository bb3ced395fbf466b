// Launches of a rank: how long each took to start its work, and how much work stood in the streams' queues.
//
//   host      launch a ─ b ─ c ─ d ─────────────
//   queue          1   2   3   4   3   2   1   0        + 1 with the call, − 1 with the start of its work
//   stream                         a   b   c   d
//
// A graph's launch is one, whatever it holds, and leaves the queue with its first kernel. A stream that holds 1024 launches blocks the host.

import { QuantileSketch } from '../model/quantile-sketch.ts';
import type { RankWork, WorkStream } from './device-work.ts';
import { gpuLimits as limits } from './gpu-limits.ts';
import { kindOf } from './kernel-class.ts';

/** ns. */
export interface LaunchSummary {
  /** Work whose launch was recorded, and work without. */
  readonly launched: number;
  readonly withoutLaunch: number;
  /** From the end of the call to the start of its work, 0 where the work began before the call returned. */
  readonly delay: { readonly mean: number; readonly p50: number; readonly p95: number; readonly max: number } | undefined;
  /** Length of the calls. */
  readonly callMean: number;
  /** Work shorter than its call: the host cannot keep the device busy with it. */
  readonly shorterThanCall: number;
}

export interface QueueSummary extends WorkStream {
  /** Time-weighted mean, and the most. */
  readonly mean: number;
  readonly max: number;
  /** Time with a full queue, ns. */
  readonly blocked: number;
}

export function launchSummary(work: RankWork): LaunchSummary {
  const { columns, length } = work.work;
  const delays = new QuantileSketch();
  let [launched, withoutLaunch, shorterThanCall, calls, sum] = [0, 0, 0, 0, 0];
  for (let row = 0; row < length; row++) {
    if (columns.kind[row] === kindOf.sync) continue;
    const call = work.callOf(row);
    if (call < 0) {
      withoutLaunch++;
      continue;
    }
    launched++;
    const [called, returned] = [work.host.columns.start[call] as number, work.host.columns.end[call] as number];
    const start = columns.start[row] as number;
    const delay = Math.max(0, start - returned);
    delays.add(delay);
    sum += delay;
    calls += returned - called;
    if ((columns.end[row] as number) - start < returned - called) shorterThanCall++;
  }
  const [p50, p95] = delays.quantiles([0.5, 0.95]) ?? [0, 0];
  const delay = launched === 0 ? undefined : { mean: sum / launched, p50, p95, max: delays.most ?? 0 };
  return { launched, withoutLaunch, delay, callMean: launched === 0 ? 0 : calls / launched, shorterThanCall };
}

/** Calls that HTA takes for launches; it leaves graphs out. */
const htaLaunch = /^(?:cudaLaunchKernel(?:ExC)?|cuLaunchKernel|cudaMem(?:cpy|set)Async|hipLaunchKernel|hipExtModuleLaunchKernel)$/;

/** Queues of the streams with launched work, in order of their first launch. */
export function queueSummaries(work: RankWork): readonly QueueSummary[] {
  const { columns, length } = work.work;
  const streams = new Map<number, { called: number[]; started: number[] }>();
  const { names, host } = work;
  const isKnown = work.htaCompatible ? names.matching(htaLaunch) : undefined;
  const seen = new Uint8Array(host.length);
  for (let row = 0; row < length; row++) {
    if (columns.kind[row] === kindOf.sync) continue;
    const call = work.callOf(row);
    if (call < 0 || seen[call] === 1 || isKnown?.[host.columns.name[call] as number] === 0) continue;
    seen[call] = 1;
    const stream = columns.stream[row] as number;
    const held = streams.get(stream) ?? { called: [], started: [] };
    streams.set(stream, held);
    held.called.push(host.columns.start[call] as number);
    held.started.push(columns.start[row] as number);
  }
  return [...streams].map(([index, { called, started }]) => ({ ...(work.streams[index] as WorkStream), ...queueOf(called, started) }));
}

/** `started` is in order. */
function queueOf(called: number[], started: readonly number[]): { readonly mean: number; readonly max: number; readonly blocked: number } {
  const calls = Float64Array.from(called).sort();
  let [held, max, blocked, area, ofCalls] = [0, 0, 0, 0, 0];
  const first = Math.min(calls[0] as number, started[0] as number);
  let time = first;
  const pass = (now: number): void => {
    area += held * (now - time);
    if (held >= limits.gpuQueueLengthMax) blocked += now - time;
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
  return { mean: time > first ? area / (time - first) : 0, max, blocked };
}

// Names of processes and lanes, the same in every format.

import { isBeside, type Nanos, nanos, nanosPerMs, nanosPerSecond } from '@ranktrace/protocol';
import { isOverflowOf } from '../model/lanes.ts';
import type { Alignment, TraceHeader, TraceLane, TraceProcess } from '../model/trace-sink.ts';

/**
 * Shown name of every process of the trace: `rank 3 · host-a`, with ` · restart 1` for the rank's second life, ` · PyTorch` for what the agent recorded
 * beside it, and ` · clock unaligned` where its times rest only on its wall clock.
 */
export function processNames(header: TraceHeader): ReadonlyMap<TraceProcess, string> {
  const names = new Map<TraceProcess, string>();
  const restarts = countRestarts(header);
  for (const process of header.processes) {
    const restart = restarts.get(process) ?? 0;
    const parts = [`rank ${process.rank}`, process.hostName];
    if (isBeside(process.incarnation)) parts.push('PyTorch');
    else if (restart > 0) parts.push(`restart ${restart}`);
    if (process.alignment.method === 'unaligned') parts.push('clock unaligned');
    names.set(process, parts.join(' · '));
  }
  return names;
}

/** The number of each process among its rank's lives: 0 for the first. */
export function countRestarts(header: TraceHeader): ReadonlyMap<TraceProcess, number> {
  const lives = new Map<number, number>();
  const restarts = new Map<TraceProcess, number>();
  for (const process of header.processes) {
    const earlier = lives.get(process.rank) ?? 0;
    restarts.set(process, isBeside(process.incarnation) ? 0 : earlier);
    if (!isBeside(process.incarnation)) lives.set(process.rank, earlier + 1);
  }
  return restarts;
}

/**
 * `clock exact`, `clock ±0.012 ms`, `clock ±0.050 ms by messages`, `clock as recorded ±0.030 ms` or `clock unaligned`; with
 * `, stepped at 12.400 s` and `, shown up to 0.275 ms late from 12.000 s on` where that happened.
 */
export function alignmentText({ method, bound, clockSteps = [], shifted = [] }: Alignment): string {
  const within = bound === undefined ? '' : ` ±${milliseconds(bound)} ms`;
  const how = {
    exact: ' exact',
    unaligned: ' unaligned',
    sampled: within || ' sampled',
    messages: `${within} by messages`,
    shared: ` as recorded${within}`,
  };
  const seconds = (time: number): string => `${(time / nanosPerSecond).toFixed(3)} s`;
  const steps = clockSteps.length === 0 ? '' : `, stepped at ${clockSteps.slice(0, stepsShown).map(seconds).join(', ')}`;
  const [first] = shifted;
  const most = nanos(Math.max(0, ...shifted.map((stretch) => stretch.most)));
  const late = first === undefined ? '' : `, shown up to ${milliseconds(most)} ms late from ${seconds(first.from)} on`;
  return `clock${how[method]}${steps}${late}`;
}

const stepsShown = 5;
const milliseconds = (length: Nanos): string => (length / nanosPerMs).toFixed(3);

/** Shown name of a lane, with the system's thread number where there is one: `main · tid 4242`. */
export function laneName(lane: TraceLane): string {
  return lane.tid > 0 ? `${lane.name} · tid ${lane.tid}` : lane.name;
}

const kindOrder: readonly TraceLane['kind'][] = ['steps', 'thread', 'stream', 'device', 'counter'];

/**
 * Order of lanes within their process: steps, threads, streams, devices, counters; those of a kind in order of arrival, an
 * overflow lane right below the line it overflows from. Whole numbers from 0 to 2^31.
 */
export class LaneOrder {
  readonly #own: TraceLane[] = [];

  rank(lane: TraceLane): number {
    let line = lane;
    if (lane.overflow === 0) this.#own.push(lane);
    else line = this.#own.findLast((own) => isOverflowOf(lane, own)) ?? lane;
    return kindOrder.indexOf(lane.kind) * 2 ** 28 + Math.min(line.index, 2 ** 20 - 1) * 2 ** 8 + Math.min(lane.overflow, 255);
  }
}

/** Kind and overflow of the lane that `LaneOrder` gave this rank; undefined where it gave none. */
export function laneOfRank(rank: number): Pick<TraceLane, 'kind' | 'overflow'> | undefined {
  const kind = kindOrder[Math.floor(rank / 2 ** 28)];
  return kind === undefined ? undefined : { kind, overflow: rank % 2 ** 8 };
}

/** Name and thread number from a text made by `laneName`. */
export function laneOfName(text: string): Pick<TraceLane, 'name' | 'tid'> {
  const [, name, tid] = /^(.*) · tid (\d+)$/s.exec(text) ?? [];
  return name === undefined ? { name: text, tid: 0 } : { name, tid: Number(tid) };
}

// Why work on a stream begins when it does: what stood in its queue, what ran before it, and which events of other streams it waits for.

import { sortByTime } from '../model/sort-by-time.ts';
import { awaitedWork } from './awaited-work.ts';
import type { RankWork, WorkStream } from './device-work.ts';
import { kindOf } from './kernel-class.ts';

const launchCall = /^(?:cudaLaunchKernel(?:ExC)?|cuLaunchKernel|cudaMem(?:cpy|set)Async|hipLaunchKernel)$/;

/** Launches, or work that ended, that are passed over in search of one. */
const lookMax = 256;

/** By row of work, -1 for none. */
export interface Holders {
  /** The work before it on its stream. */
  readonly before: Int32Array;
  /** The work on any stream that ended last before it began, of what was launched before it. */
  readonly ended: Int32Array;
  /** Rows of work on other streams that it waits for, by the calls before its launch. */
  readonly awaited: ReadonlyMap<number, readonly number[]>;
  /** Rows in order of their ends. */
  readonly byEnd: Uint32Array;
}

/** Index of the last of sorted values up to `limit`, -1 for none. */
export function lastUpTo(values: Float64Array, limit: number): number {
  let [low, high] = [0, values.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((values[middle] as number) <= limit) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** Of a path that needs none. */
export const noHolders: Holders = {
  before: new Int32Array(0),
  ended: new Int32Array(0),
  awaited: new Map(),
  byEnd: new Uint32Array(0),
};

/**
 * Whether work that had ended may have held back the work in `row`: an event is recorded before anything waits for it, so what was launched later held
 * nothing. Work of no length ends as it starts: neither it nor what follows it was before it.
 */
function mayHold(of: RankWork, ended: number, row: number): boolean {
  const [from, call] = [of.callOf(ended), of.callOf(row)];
  return ended < row && (from < 0 || call < 0 || from <= call);
}

export function holdersOf(of: RankWork): Holders {
  const { work, streams } = of;
  const { start, end, stream, kind } = work.columns;
  const [before, ended] = [new Int32Array(work.length).fill(-1), new Int32Array(work.length).fill(-1)];
  const lastOf = new Int32Array(streams.length).fill(-1);
  const byEnd = sortByTime(end, new Float64Array(work.length), work.length).filter((row) => kind[row] !== kindOf.sync);
  let at = 0;
  for (let row = 0; row < work.length; row++) {
    if (kind[row] === kindOf.sync) continue;
    before[row] = lastOf[stream[row] as number] as number;
    lastOf[stream[row] as number] = row;
    while (at < byEnd.length && (end[byEnd[at] as number] as number) <= (start[row] as number)) at++;
    for (let last = at - 1; last >= Math.max(0, at - lookMax); last--) {
      const one = byEnd[last] as number;
      if (!mayHold(of, one, row)) continue;
      ended[row] = one;
      break;
    }
  }
  return { before, ended, awaited: awaitedWork(of), byEnd };
}

/** ns from a call to its work, of work that none before it on its stream held back: the shortest of the recording; 0 without such work. */
export function shortestLaunch(of: RankWork, { before }: Holders): number {
  const { work, host } = of;
  const { start, end, kind } = work.columns;
  let shortest = Number.POSITIVE_INFINITY;
  for (let row = 0; row < work.length; row++) {
    const call = kind[row] === kindOf.sync ? -1 : of.callOf(row);
    const earlier = before[row] ?? -1;
    if (call < 0 || (earlier >= 0 && (end[earlier] as number) > (host.columns.start[call] as number))) continue;
    const delay = (start[row] as number) - (host.columns.start[call] as number);
    if (delay > 0) shortest = Math.min(shortest, delay);
  }
  return Number.isFinite(shortest) ? shortest : 0;
}

/** By row of a call: the row of its copy, of those that ran for most of their time while their own call went on. */
export function copiesOfCalls(of: RankWork, isInside: (row: number) => boolean): ReadonlyMap<number, number> {
  const { work, host } = of;
  const { start, end, kind } = work.columns;
  const copies = new Map<number, number>();
  for (let row = 0; row < work.length; row++) {
    const call = kind[row] === kindOf.copy && isInside(row) ? of.callOf(row) : -1;
    if (call < 0) continue;
    const [from, until] = [start[row] as number, end[row] as number];
    if (Math.min(until, host.columns.end[call] as number) - from > (until - from) / 2) copies.set(call, row);
  }
  return copies;
}

export interface QueueLengths {
  /** By row of work: length of its stream's queue after its call, and after its start; -1: not known. */
  readonly atCall: Int32Array;
  readonly atStart: Int32Array;
}

/** Queues of all streams, counted as HTA counts them. */
export function queueLengths(of: RankWork): QueueLengths {
  const { work, host, names } = of;
  const isLaunch = names.matching(launchCall);
  const [atCall, atStart] = [new Int32Array(work.length).fill(-1), new Int32Array(work.length).fill(-1)];
  const streams = new Map<number, number[]>();
  for (let row = 0; row < work.length; row++) {
    const call = of.callOf(row);
    if (call < 0 || isLaunch[host.columns.name[call] as number] !== 1) continue;
    const stream = work.columns.stream[row] as number;
    const rows = streams.get(stream);
    if (rows === undefined) streams.set(stream, [row]);
    else rows.push(row);
  }
  const called = (row: number): number => host.columns.start[of.callOf(row)] as number;
  for (const started of streams.values()) {
    // A stream is a queue: work mostly begins in the order of its calls.
    const isInOrder = started.every((row, at) => at === 0 || called(started[at - 1] as number) <= called(row));
    const calls = isInOrder ? started : started.toSorted((a, b) => called(a) - called(b) || a - b);
    let [held, at] = [0, 0];
    for (const row of started) {
      for (; at < calls.length && called(calls[at] as number) <= (work.columns.start[row] as number); at++)
        atCall[calls[at] as number] = ++held;
      atStart[row] = --held;
    }
    for (; at < calls.length; at++) atCall[calls[at] as number] = ++held;
  }
  return { atCall, atStart };
}

interface Launch {
  /** Rows of the call and of its work. */
  readonly call: number;
  readonly row: number;
}

/** Index of the first launch, in order of calls, from the host's row `call` on. */
function firstFrom(launches: readonly Launch[], call: number): number {
  let [low, high] = [0, launches.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((launches[middle] as Launch).call < call) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Waits for CUDA events: what was last launched before an event was recorded, and first launched after a wait for it. */
export class EventWaits {
  readonly #work: RankWork;
  /** Calls that launched something, in order, by stream: `host` rows and the work of each. */
  readonly #launches = new Map<number, Launch[]>();
  /** Rows of calls that recorded an event, by correlation. */
  readonly #records = new Map<number, number>();
  readonly #streams = new Map<string, number>();

  constructor(of: RankWork) {
    this.#work = of;
    const { host, work, names, streams } = of;
    for (const [index, { device, stream }] of streams.entries()) this.#streams.set(`${device} ${stream}`, index);
    const isLaunch = names.matching(launchCall);
    for (let row = 0; row < work.length; row++) {
      const call = of.callOf(row);
      if (call < 0 || isLaunch[host.columns.name[call] as number] !== 1) continue;
      const stream = work.columns.stream[row] as number;
      const launches = this.#launches.get(stream) ?? [];
      this.#launches.set(stream, launches);
      launches.push({ call, row });
    }
    for (const launches of this.#launches.values()) launches.sort((a, b) => a.call - b.call);
    const record = names.index('cudaEventRecord');
    for (let row = 0; row < host.length; row++) {
      if (host.columns.name[row] === record) this.#records.set(host.columns.correlation[row] as number, row);
    }
  }

  /** Row of the work that a sync waits for, -1 if it is not known. */
  sourceOf(sync: number): number {
    const { work, transfers, streams } = this.#work;
    const transfer = (work.columns.transfer[sync] as number) - 1;
    if (transfer < 0) return -1;
    const record = this.#records.get(transfers.columns.waitsFor[transfer] as number);
    const { device } = streams[work.columns.stream[sync] as number] as WorkStream;
    const stream = this.#streams.get(`${device} ${transfers.columns.waitsOn[transfer] as number}`);
    if (record === undefined || stream === undefined) return -1;
    const launches = this.#launches.get(stream) ?? [];
    return launches[firstFrom(launches, record) - 1]?.row ?? -1;
  }

  /** Row of the work that the thread of a call launches next on a stream, -1 for none. */
  nextAfter(wait: number, stream: number): number {
    const { thread } = this.#work.host.columns;
    const launches = this.#launches.get(stream) ?? [];
    const until = Math.min(launches.length, firstFrom(launches, wait) + lookMax);
    for (let at = firstFrom(launches, wait); at < until; at++) {
      const { call, row } = launches[at] as Launch;
      if (thread[call] === thread[wait]) return row;
    }
    return -1;
  }
}

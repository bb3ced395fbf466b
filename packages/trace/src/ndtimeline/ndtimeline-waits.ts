// Adds to NDTimeline's ops the time that they wait for others, which timelines leave out.
//
//   recorded   worker 0   compute ──────────── send ─       a side begins when its worker is free for it, and ends with the transfer
//              worker 1   compute ── recv ─────────────
//   drawn      worker 0   compute ──────────── send ─       a timeline shows the transfer alone: both sides begin when the last one did
//              worker 1   compute ──             recv ─
//
// The ends of the workers' previous ops still show the last to arrive: its previous op ended latest, and the time in between is its own. All
// others waited from the end of their previous op.
//
// Invariant: ends stay as they are, and no op begins before the worker's previous op has ended.

import type { MatchedCollective } from '../match/collective-matcher.ts';
import { type NdtimelineOp, type NdtimelineWorker, ndtimelineMeetings, spread } from './ndtimeline-recording.ts';

/** Sides of one transfer that begin within this of each other, ns, are drawn together. */
const togetherNs = 20_000;
/** The largest part of a step's meetings that may be drawn together by chance: a timeline that shows waits has few. */
const chanceMax = 0.5;

/** The ops of a step, with their waits added where the timeline leaves them out. */
export function withWaits(ops: readonly NdtimelineOp[], workers: readonly NdtimelineWorker[]): readonly NdtimelineOp[] {
  const meetings = ndtimelineMeetings(ops, workers, new Map()).filter(({ op }) => op !== 'barrier');
  const isTogether = ({ parts }: MatchedCollective): boolean => spread(parts.map(({ entry }) => entry)) <= togetherNs;
  if (meetings.filter(isTogether).length <= chanceMax * meetings.length) return ops;
  const before = new EndsBefore(ops, workers.length);
  const begins = new Map<string, number>();
  for (const { parts } of meetings) {
    // A drawn transfer may begin a little before the previous op has ended, but by less than half of its length.
    const free = parts.map(({ member, entry, exit }) => before.of(member, (entry + (exit ?? entry)) / 2));
    const last = free.reduce<number>((most, end) => Math.max(most, end ?? most), Number.NEGATIVE_INFINITY);
    for (const [index, { member, entry, exit }] of parts.entries()) {
      const end = free[index];
      if (end !== undefined && end < last) begins.set(keyOf(member, entry, exit), end);
    }
  }
  return ops.map((op) => {
    const from = begins.get(keyOf(op.worker, op.from, op.until));
    return from === undefined ? op : { ...op, from };
  });
}

const keyOf = (worker: number, from: number, until: number | undefined): string => `${worker} ${from} ${until}`;

/** Ends of each worker's ops, in order. */
class EndsBefore {
  readonly #ends: readonly number[][];

  constructor(ops: readonly NdtimelineOp[], workers: number) {
    const ends: number[][] = Array.from({ length: workers }, () => []);
    for (const { worker, until } of ops) ends[worker]?.push(until);
    for (const ofWorker of ends) ofWorker.sort((a, b) => a - b);
    this.#ends = ends;
  }

  /** The last end of an op of `worker` at or before `time`; undefined without any. */
  of(worker: number, time: number): number | undefined {
    const ends = this.#ends[worker] ?? [];
    let [from, to] = [0, ends.length];
    while (from < to) {
      const middle = (from + to) >> 1;
      if ((ends[middle] as number) <= time) from = middle + 1;
      else to = middle;
    }
    return ends[from - 1];
  }
}

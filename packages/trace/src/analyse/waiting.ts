// Who keeps others waiting: over all collectives of which it is known who came last. A sink, so it rides on the merge that writes the trace.
//
//   rank 0  ├──── waits for 2 ───┼── transfer ──┤
//   rank 1          ├─── waits ──┼── transfer ──┤      rank 2 was last in; the others waited for it (a + b) / 2
//   rank 2                       ├── transfer ──┤
//
// It is known where the last rank came after all others by more than their clocks can be off. Sends are left out: a stage of a pipeline
// always waits for the one before it, and nobody is to blame for that.
//
// Somebody is always last. Whether a rank is so by more than chance is a test of `if the last rank of each collective were drawn by lot`: with w
// the wait in a collective of n ranks, a rank's sum of √w has the mean Σ √w / n and the variance Σ w (1 − 1/n) / n. The root keeps one long
// stall (the first step, a checkpoint) from hiding a rank that is a little late each time.

import { type Nanos, nanos, type TraceTime, traceTime } from '@ranktrace/protocol';
import { CollectiveMatcher, type MatchedCollective } from '../match/collective-matcher.ts';
import type { TraceEvent, TraceHeader, TraceProcess, TraceSink } from '../trace-sink.ts';
import { collectiveTiming } from './collective-timing.ts';

/** A rank in the collectives that it took part in and whose last rank is known. */
export interface WaitingOfRank {
  readonly rank: number;
  readonly collectives: number;
  /** How often it was last in. */
  readonly lastIn: number;
  /** By how many standard deviations others waited for it more than chance would have it. */
  readonly deviations: number;
  /** ns that others would have waited for it by chance. */
  readonly byChance: Nanos;
  /** `waitedFor` without the `oneOffWaits` longest. */
  readonly waitedOften: Nanos;
  /** In all that the others waited for it, each time the mean of them, ns. */
  readonly waitedFor: Nanos;
  /** In all that it waited for others, ns. */
  readonly waits: Nanos;
  /** The longest that others waited for it: from the first entry to its own; undefined when it never was last. */
  readonly worst: { readonly from: TraceTime; readonly until: TraceTime } | undefined;
}

/** A rank that others waited for no oftener has not kept them waiting, but was late now and then. */
const oneOffWaits = 3;

interface Rank {
  collectives: number;
  /** Sum of √w where it was last; mean and variance of that sum by chance. */
  roots: number;
  mean: number;
  variance: number;
  byChance: number;
  /** Longest first. */
  readonly longest: number[];
  lastIn: number;
  waitedFor: number;
  waits: number;
  worst: { readonly from: TraceTime; readonly until: TraceTime } | undefined;
}

export class WaitingSink implements TraceSink {
  readonly #matcher = new CollectiveMatcher((matched) => this.#count(matched));
  readonly #ranks = new Map<number, Rank>();
  #processes: ReadonlyMap<number, TraceProcess> = new Map();

  begin({ processes }: TraceHeader): void {
    this.#processes = new Map(processes.map((process) => [process.index, process]));
  }

  lane(): void {}

  event({ kind, lane, state, start, length, name: op, group, sequence, peerRank: peer, bytes }: TraceEvent): void {
    if (kind !== 'collective') return;
    const { index: member, rank } = lane.process;
    if (state === 'close') this.#matcher.close(member, group, sequence, peer, op, start + length);
    else {
      const exit = state === 'whole' ? start + length : undefined;
      this.#matcher.add({ member, rank, op, group, sequence, peer, bytes, entry: start, exit });
    }
  }

  end(): void {
    this.#matcher.end();
  }

  /** Those that others waited for longest first. */
  get summary(): readonly WaitingOfRank[] {
    return [...this.#ranks].map(([rank, about]) => summarise(rank, about)).sort((a, b) => b.waitedFor - a.waitedFor || a.rank - b.rank);
  }

  #count(matched: MatchedCollective): void {
    const { parts, missing, pair } = matched;
    if (pair !== undefined || missing.length > 0 || parts.length < 2) return;
    const { lastIn, waiting, time, entrySkew } = collectiveTiming(matched, (member) => this.#processes.get(member));
    if (lastIn === undefined) return;
    const wait = waiting.reduce((sum, waited) => sum + waited, 0) / (parts.length - 1);
    const chance = 1 / parts.length;
    for (const [place, { rank }] of parts.entries()) {
      const about = this.#rank(rank);
      about.collectives++;
      about.mean += Math.sqrt(wait) * chance;
      about.variance += wait * chance * (1 - chance);
      about.byChance += wait * chance;
      if (rank !== lastIn) about.waits += waiting[place] as number;
    }
    const last = this.#rank(lastIn);
    last.lastIn++;
    last.roots += Math.sqrt(wait);
    last.waitedFor += wait;
    keepLongest(last.longest, wait);
    if (last.worst === undefined || entrySkew > last.worst.until - last.worst.from) {
      last.worst = { from: time, until: traceTime(time + entrySkew) };
    }
  }

  #rank(rank: number): Rank {
    let about = this.#ranks.get(rank);
    if (about === undefined) {
      about = {
        ...{ collectives: 0, roots: 0, mean: 0, variance: 0, byChance: 0 },
        longest: [],
        lastIn: 0,
        waitedFor: 0,
        waits: 0,
        worst: undefined,
      };
      this.#ranks.set(rank, about);
    }
    return about;
  }
}

function keepLongest(longest: number[], wait: number): void {
  longest.push(wait);
  longest.sort((a, b) => b - a);
  longest.length = Math.min(longest.length, oneOffWaits);
}

function summarise(rank: number, { roots, mean, variance, byChance, longest, waitedFor, waits, ...about }: Rank): WaitingOfRank {
  return {
    ...{ rank, ...about },
    deviations: variance > 0 ? (roots - mean) / Math.sqrt(variance) : 0,
    byChance: nanos(byChance),
    waitedFor: nanos(waitedFor),
    waitedOften: nanos(waitedFor - longest.reduce((sum, wait) => sum + wait, 0)),
    waits: nanos(waits),
  };
}

// How long each rank keeps others waiting, over all collectives with a known last rank. A sink on the merge that writes the trace.
//
//   rank 0  ├──── waits for 2 ───┼── transfer ──┤
//   rank 1          ├─── waits ──┼── transfer ──┤      rank 2 was last in; the others waited for it (a + b) / 2
//   rank 2                       ├── transfer ──┤
//
// The last rank is known if it came after all others by more than their clock error. Sends are left out: a stage of a pipeline always waits
// for the one before it, without any fault.
//
// Some rank is always last, and computing hides waits, so this does not decide which rank is to blame (blame/blame.ts).

import { type Nanos, nanos, type TraceTime, traceTime } from '@ranktrace/protocol';
import { CollectiveMatcher, type MatchedCollective } from '../match/collective-matcher.ts';
import { collectiveTiming } from '../match/collective-timing.ts';
import type { TraceEvent, TraceHeader, TraceProcess, TraceSink } from '../model/trace-sink.ts';

/** A rank in those of its collectives that have a known last rank. */
export interface WaitingOfRank {
  readonly rank: number;
  /** How often it entered last. */
  readonly lastIn: number;
  /** Total ns that the others waited for it; each time the mean of them. */
  readonly waitedFor: Nanos;
  /** Total ns that it waited for others. */
  readonly waits: Nanos;
  /** The longest wait for it: from the first entry to its own; undefined if it never was last. */
  readonly worst: { readonly from: TraceTime; readonly until: TraceTime } | undefined;
}

interface Rank {
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

  /** By rank, the longest waited for first. */
  get summary(): readonly WaitingOfRank[] {
    return [...this.#ranks]
      .map(([rank, { waitedFor, waits, ...about }]) => ({ rank, ...about, waitedFor: nanos(waitedFor), waits: nanos(waits) }))
      .sort((a, b) => b.waitedFor - a.waitedFor || a.rank - b.rank);
  }

  #count(matched: MatchedCollective): void {
    const { parts, missing, pair } = matched;
    if (pair !== undefined || missing.length > 0 || parts.length < 2) return;
    const { lastIn, waiting, time, entrySkew } = collectiveTiming(matched, (member) => this.#processes.get(member));
    if (lastIn === undefined) return;
    const wait = waiting.reduce((sum, waited) => sum + waited, 0) / (parts.length - 1);
    for (const [place, { rank }] of parts.entries()) if (rank !== lastIn) this.#rank(rank).waits += waiting[place] as number;
    const last = this.#rank(lastIn);
    last.lastIn++;
    last.waitedFor += wait;
    if (last.worst === undefined || entrySkew > last.worst.until - last.worst.from) {
      last.worst = { from: time, until: traceTime(time + entrySkew) };
    }
  }

  #rank(rank: number): Rank {
    let about = this.#ranks.get(rank);
    if (about === undefined) {
      about = { lastIn: 0, waitedFor: 0, waits: 0, worst: undefined };
      this.#ranks.set(rank, about);
    }
    return about;
  }
}

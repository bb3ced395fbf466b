// How long each rank keeps others waiting, over all collectives with a known last rank. A sink on the merge that writes the trace.
//
//   rank 0  ├──── waits for 2 ───┼── transfer ──┤
//   rank 1          ├─── waits ──┼── transfer ──┤      rank 2 was last in; the others waited for it a + b
//   rank 2                       ├── transfer ──┤
//
// Waiting is summed over the ranks that wait, as in the report's table of collectives: 63 ranks that wait lose more than one does.
//
// The last rank is known if it came after all others by more than their clock error. Sends are left out: a stage of a pipeline always waits
// for the one before it, without any fault.
//
// Some rank is always last, and computing hides waits, so this does not decide which rank is to blame (blame/blame.ts).

import { type Nanos, nanos, type TraceTime, traceTime } from '@ranktrace/protocol';
import { CollectiveParts } from '../blame/collective-parts.ts';
import type { MatchedCollective } from '../match/collective-matcher.ts';
import type { CollectiveTiming } from '../match/collective-timing.ts';
import type { ProcessTotals, TraceEvent, TraceHeader, TraceSink } from '../model/trace-sink.ts';

/** A rank in those of its collectives that have a known last rank. */
export interface WaitingOfRank {
  readonly rank: number;
  /** How often it entered last. */
  readonly lastIn: number;
  /** Total ns that the others waited for it, all of them together. */
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
  readonly #parts: CollectiveParts;
  readonly #ownsParts: boolean;
  readonly #ranks = new Map<number, Rank>();
  #whole = 0;

  /** `parts`: collectives of the same merge; default its own. */
  constructor(parts?: CollectiveParts) {
    this.#parts = parts ?? new CollectiveParts();
    this.#ownsParts = parts === undefined;
    this.#parts.listen({ onMatched: (matched, timing) => this.#count(matched, timing) });
  }

  begin(header: TraceHeader): void {
    if (this.#ownsParts) this.#parts.begin(header);
  }

  lane(): void {}

  event(event: TraceEvent): void {
    if (this.#ownsParts) this.#parts.event(event);
  }

  endStretch(): void {
    if (this.#ownsParts) this.#parts.endStretch();
  }

  end(totals: readonly ProcessTotals[]): void {
    if (this.#ownsParts) this.#parts.end(totals);
  }

  /** All waiting, ns, also where no rank was clearly the last. */
  get whole(): Nanos {
    return nanos(this.#whole);
  }

  /** By rank, the longest waited for first. */
  get summary(): readonly WaitingOfRank[] {
    return [...this.#ranks]
      .map(([rank, { waitedFor, waits, ...about }]) => ({ rank, ...about, waitedFor: nanos(waitedFor), waits: nanos(waits) }))
      .sort((a, b) => b.waitedFor - a.waitedFor || a.rank - b.rank);
  }

  #count({ parts, pair }: MatchedCollective, timing: CollectiveTiming | undefined): void {
    if (pair !== undefined || timing === undefined || parts.length < 2) return;
    const { lastIn, waiting, time, entrySkew } = timing;
    for (const waited of waiting) this.#whole += waited;
    if (lastIn === undefined) return;
    const last = this.#rank(lastIn);
    last.lastIn++;
    for (const [place, { rank }] of parts.entries()) {
      if (rank === lastIn) continue;
      const waited = waiting[place] as number;
      this.#rank(rank).waits += waited;
      last.waitedFor += waited;
    }
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

// The recent past of this rank at full detail, in memory, as encoded batches that have no number yet.
//
//   steps         | 41 | 42 | 43 | 44 | 45 |           the last N, by default kept whatever the schedule says
//   held      [ body ][ body ][ body ][ body ]         oldest first; `pull` sends those that were not sent
//   results             |---- RECORD ----|             the source of `events()` and `keyAverages()`, sent or not
//
// Invariant: at most `bytesMax` bytes; the oldest batches go first. Results that lost a batch report it (`complete`).

import type { Dropped, EncodedBody } from '@ranktrace/protocol';
import type { RecordedCounts } from './batch-builder.ts';

/** One batch of detail. Times are RankTime, ns. */
export interface HeldBatch {
  /** Identifies it: the same batch may be part of two cycles' results. */
  readonly serial: number;
  readonly body: EncodedBody;
  /** No event of it starts before this. */
  readonly since: number;
  /** No event of it starts after this. */
  readonly until: number;
  readonly recorded: RecordedCounts;
}

/** Batches still held for the last active steps (or for the whole run). */
export interface HeldResults {
  readonly batches: readonly HeldBatch[];
  /** Whether memory still has all of them. */
  readonly complete: boolean;
  /** RankTime, ns: the results are the events that start from `since` to `until`. */
  readonly since: number;
  readonly until: number;
  /** Losses in that time. */
  readonly dropped: Dropped;
}

interface Entry extends HeldBatch {
  sent: boolean;
}

export class FlightRecorder {
  readonly #bytesMax: number;
  #entries: Entry[] = [];
  #bytes = 0;
  /** End of the newest batch evicted for lack of room, or lost. */
  #overflowedUntil = Number.NEGATIVE_INFINITY;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** Bytes held. */
  get bytes(): number {
    return this.#bytes;
  }

  add(batch: HeldBatch, sent: boolean): void {
    // zlib and msgpackr return views of buffers of 8 KiB and more, which would stay in memory with them: up to 16 times the bytes that are counted.
    const body = new Uint8Array(batch.body.body);
    this.#entries.push({ ...batch, body: { ...batch.body, body }, sent });
    this.#bytes += body.length;
    while (this.#bytes > this.#bytesMax) this.#overflowedUntil = this.#forgetOldest();
  }

  /** A batch of events until then could not be made. */
  lost(until: number): void {
    this.#overflowedUntil = until;
  }

  /** Drops batches that ended before `since`, except those between `from` and `to`. */
  forgetBefore(since: number, from: number, to: number): void {
    const kept = this.#entries.filter((entry) => entry.until >= since || (entry.until >= from && entry.since <= to));
    if (kept.length === this.#entries.length) return;
    this.#entries = kept;
    this.#bytes = kept.reduce((sum, entry) => sum + entry.body.body.length, 0);
  }

  /** Unsent batches between `from` and `to`; marks them as sent. */
  takeUnsent(from: number, to: number): HeldBatch[] {
    const found = this.#entries.filter((entry) => !entry.sent && entry.until >= from && entry.since <= to);
    for (const entry of found) entry.sent = true;
    return found;
  }

  /** Batches of that time, sent or not, and whether none is missing. */
  between(from: number, to: number): { readonly batches: readonly HeldBatch[]; readonly complete: boolean } {
    const batches = this.#entries.filter((entry) => entry.until >= from && entry.since <= to);
    return { batches, complete: this.#overflowedUntil < from };
  }

  #forgetOldest(): number {
    const oldest = this.#entries.shift() as Entry;
    this.#bytes -= oldest.body.body.length;
    return oldest.until;
  }
}

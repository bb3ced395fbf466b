// What of the recent past this rank still has in memory at full detail, as encoded batches that have no number yet.
//
//   steps         | 41 | 42 | 43 | 44 | 45 |           the last N, by default kept whatever the schedule says
//   held      [ body ][ body ][ body ][ body ]         oldest first; `pull` sends those that were not sent
//   results             |---- RECORD ----|             what `events()` and `keyAverages()` are made of, sent or not
//
// Invariant: no more than `bytesMax` bytes; the oldest go first. Results that lost some of theirs say so (`complete`).

import type { EncodedBody } from '@ranktrace/protocol';
import type { RecordedCounts } from './batch-builder.ts';

/** One batch of detail. Times are RankTime, ns. */
export interface HeldBatch {
  /** Names it: the same batch may be part of two cycles' results. */
  readonly serial: number;
  readonly body: EncodedBody;
  /** None of its events starts before. */
  readonly since: number;
  /** None starts after. */
  readonly until: number;
  readonly recorded: RecordedCounts;
}

interface Entry extends HeldBatch {
  sent: boolean;
}

export class FlightRecorder {
  readonly #bytesMax: number;
  #entries: Entry[] = [];
  #bytes = 0;
  /** End of the newest batch that was forgotten for want of room. */
  #overflowedUntil = Number.NEGATIVE_INFINITY;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** Bytes held. */
  get bytes(): number {
    return this.#bytes;
  }

  add(batch: HeldBatch, sent: boolean): void {
    this.#entries.push({ ...batch, sent });
    this.#bytes += batch.body.body.length;
    while (this.#bytes > this.#bytesMax) this.#overflowedUntil = this.#forgetOldest();
  }

  /** Forgets what ended before `since`, unless it is of the time from `from` to `to`. */
  forgetBefore(since: number, from: number, to: number): void {
    const kept = this.#entries.filter((entry) => entry.until >= since || (entry.until >= from && entry.since <= to));
    if (kept.length === this.#entries.length) return;
    this.#entries = kept;
    this.#bytes = kept.reduce((sum, entry) => sum + entry.body.body.length, 0);
  }

  /** Batches of the time from `from` to `to` that were not sent; from here on they count as sent. */
  takeUnsent(from: number, to: number): HeldBatch[] {
    const found = this.#entries.filter((entry) => !entry.sent && entry.until >= from && entry.since <= to);
    for (const entry of found) entry.sent = true;
    return found;
  }

  /** Batches of that time, sent or not, and whether none of them is missing. */
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

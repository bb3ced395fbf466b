// Runs that take no batch for a while: their disk is full, another process has their lock, or a large one is being opened. They do not hold up the others, for
// which a NATS server delivers no more while too many messages have no acknowledgement.
//
//   stream   …  │ 41: first of the run, sent back, tried again in a while │ 42, 43, …: acknowledged unread
//               ^ ack floor: it stays below 41
//
// Invariant: the first is not acknowledged before the others were read. Once it could be stored, or the service was started again, reading begins again with it,
// and gets 42, 43, … again, too; what is stored already is known.

import { aggregatorLimits as limits } from '../model/limits.ts';

interface Held {
  /** Sequence in the stream of its first batch that was sent back. */
  readonly first: number;
  triedMs: number;
  /** Whether later ones were passed over. */
  isPassed: boolean;
}

export class HeldRuns {
  readonly #held = new Map<string, Held>();

  /** The sequence with which reading must begin again; Infinity: no batch was passed over. */
  get first(): number {
    let least = Number.POSITIVE_INFINITY;
    for (const { first, isPassed } of this.#held.values()) if (isPassed) least = Math.min(least, first);
    return least;
  }

  /** Whether the batch with this sequence in the stream is to be acknowledged unread: it comes again. */
  passesOver(run: string, sequence: number): boolean {
    const held = this.#held.get(run);
    if (held === undefined || sequence <= held.first) return false;
    held.isPassed = true;
    return true;
  }

  /** The run could not take this batch, which is sent back. Beyond `natsHeldRunsMax` runs all of their batches are. */
  hold(run: string, sequence: number, nowMs: number): void {
    const held = this.#held.get(run);
    if (held !== undefined) held.triedMs = nowMs;
    else if (this.#held.size < limits.natsHeldRunsMax) this.#held.set(run, { first: sequence, triedMs: nowMs, isPassed: false });
  }

  /** Whether reading must begin again, now that the run took its batch: this one is not to be acknowledged. */
  mustReadAgain(run: string): boolean {
    if (this.#held.get(run)?.isPassed === true) return true;
    this.#held.delete(run);
    return false;
  }

  /** Whether the first batch of a run came no more, as the stream deletes its oldest ones. */
  isOverdue(nowMs: number): boolean {
    for (const { triedMs } of this.#held.values()) if (nowMs - triedMs > limits.natsHeldOverdueMs) return true;
    return false;
  }

  /** Reading begins again. */
  clear(): void {
    this.#held.clear();
  }
}

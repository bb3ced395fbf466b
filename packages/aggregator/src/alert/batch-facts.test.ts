// When missing batches are a loss: judged over batches that arrive in order, out of order, late or never.

import { decodeBatch } from '@ranktrace/protocol';
import { AlertEngine, alertLimits, resolveAlertRules } from '@ranktrace/trace/alert';
import { describe, expect, it } from 'vitest';
import { inflate } from '../model/inflate.ts';
import { SequenceSet } from '../model/sequence-set.ts';
import { makeBatch } from '../testing/make-batch.ts';
import { BatchFacts } from './batch-facts.ts';

const waitMs = alertLimits.alertMissingMs;

/** One rank that sends a batch a second. */
class Arrivals {
  readonly #engine = new AlertEngine('night', resolveAlertRules({ off: ['hang', 'rank_stopped'] }));
  readonly #facts = new BatchFacts();
  readonly #stored = new Map<string, SequenceSet>();
  readonly reported: string[] = [];
  nowMs = 1_000_000;
  next = 0;

  arrive(sequence: number, incarnation = '0001'): void {
    const stored = this.#stored.get(incarnation) ?? new SequenceSet();
    this.#stored.set(incarnation, stored);
    if (!stored.add(sequence)) return;
    const batch = decodeBatch(makeBatch({ sequence, incarnation, worldSize: 1, spans: 1 }), inflate);
    // Evaluated at the time of the call.
    const sequences = {
      get missing() {
        return stored.missing;
      },
      missingBelow: (end: number) => stored.missingBelow(end),
      isLatest: true,
    };
    this.#facts.feed(this.#engine, batch, sequences, this.nowMs);
    this.#note();
  }

  /** Sends batches in order for this long, except those that `skips` names. */
  go(ms: number, skips: (sequence: number) => boolean = () => false): void {
    for (const end = this.nowMs + ms; this.nowMs < end; ) {
      this.pass(1000);
      const sequence = this.next++;
      if (!skips(sequence)) this.arrive(sequence);
    }
  }

  /** Nothing comes. */
  pass(ms: number): void {
    this.nowMs += ms;
    for (const { kind, alert } of this.#engine.tick(this.nowMs)) if (kind === 'fired') this.reported.push(alert.summary);
  }

  #note(): void {
    for (const { kind, alert } of this.#engine.changes(this.nowMs)) if (kind === 'fired') this.reported.push(alert.summary);
  }
}

describe('a batch that is missing', () => {
  it('and comes again after the broker waited for its acknowledgement, twice, was not lost', () => {
    const job = new Arrivals();
    job.go(10_000);
    job.go(64_000, (sequence) => sequence === 10);
    job.arrive(10);
    job.go(5 * waitMs);
    expect(job.reported).toEqual([]);
  });

  it('and never comes is reported, once, with the number of those that are lost for sure', () => {
    const job = new Arrivals();
    job.go(10_000);
    job.go(2 * waitMs + 5000, (sequence) => sequence === 10 || sequence === 12);
    expect(job.reported).toEqual(['data of rank 0 is lost: 2 batches are missing']);
    job.go(30_000);
    expect(job.reported).toHaveLength(1);
  });

  it('is not lost where each comes late, however many are missing at any time', () => {
    const job = new Arrivals();
    const late: number[] = [];
    for (let second = 0; second < 600; second++) {
      job.pass(1000);
      const sequence = job.next++;
      // Every third one comes 31 s later: some are missing all the time.
      if (sequence % 3 === 0) late.push(sequence);
      else job.arrive(sequence);
      if (late[0] !== undefined && late[0] <= sequence - 31) job.arrive(late.shift() as number);
    }
    expect(job.reported).toEqual([]);
  });

  it('is not lost while nothing of the rank is heard, for hours', () => {
    const job = new Arrivals();
    job.go(30_000, (sequence) => sequence === 20);
    job.pass(3 * 3600_000);
    job.go(3000);
    job.arrive(20);
    job.go(5 * waitMs);
    expect(job.reported).toEqual([]);
  });

  it('of a life before is reported while the next one sends', () => {
    const job = new Arrivals();
    job.arrive(0, '0000');
    job.arrive(2, '0000');
    job.go(2 * waitMs + 5000);
    expect(job.reported).toEqual(['data of rank 0 is lost: 1 batches are missing']);
  });
});

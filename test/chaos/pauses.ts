// The longest pauses: between steps of ranks without a fault, and before answers of a service without a fault.
//
// A busy machine delays everything. So a timer of this process measures that delay, and its maximum is taken off each pause.

import { setTimeout } from 'node:timers/promises';
import { type Life, monotonicMs, type Stage, type Window } from './stage.ts';

/** The promise of docs/data-loss.md: no step, and no answer to `/healthz`, waits longer for a fault elsewhere. */
export const pauseMsMax = { step: 5000, health: 10_000 } as const;

/** A process that was held needs a moment to recover. */
const recoveryMs = 1000;

/** Requests `/healthz` again and again, until stopped. */
export class HealthWatch {
  /** The longest time to an answer while no fault held the service, ms. */
  longestMs = 0;
  /** The longest time that this process itself was held up. */
  machineMs = 0;
  readonly #stage: Stage;
  readonly #stop = new AbortController();
  readonly #watching: Promise<unknown>;

  constructor(stage: Stage) {
    this.#stage = stage;
    this.#watching = Promise.all([this.#ask(), this.#measureMachine()]);
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#watching;
  }

  async #ask(): Promise<void> {
    let since = monotonicMs();
    while (!this.#stop.signal.aborted) {
      const isOk = await this.#isAnswered();
      const now = monotonicMs();
      const isHeld = this.#stage.windows.some((window) => window.fault.target === 'aggregator' && overlaps(window, since, now));
      if (isHeld) since = now;
      this.longestMs = Math.max(this.longestMs, this.#stop.signal.aborted ? 0 : now - since);
      if (isOk) since = now;
      await setTimeout(50);
    }
  }

  async #isAnswered(): Promise<boolean> {
    const signal = AbortSignal.timeout(2000);
    try {
      const answer = await fetch(`${this.#stage.serviceAddress}/healthz`, { signal });
      return (await answer.text()) === 'ok\n';
    } catch {
      return false;
    }
  }

  async #measureMachine(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      const before = monotonicMs();
      await setTimeout(20);
      this.machineMs = Math.max(this.machineMs, monotonicMs() - before - 20);
    }
  }
}

/** The longest time between two steps of an incarnation that no fault held, ms. */
export function longestStepPause(stage: Stage, life: Life): number {
  const held = stage.windows.filter(
    ({ fault }) => fault.target === 'rank' && (fault.how === 'frozen' || fault.how === 'slow') && fault.rank === life.rank,
  );
  const { lines } = stage.journal(life);
  let longest = 0;
  for (const [index, { ms }] of lines.entries()) {
    const before = lines[index - 1]?.ms ?? ms;
    if (!held.some((window) => overlaps(window, before, ms))) longest = Math.max(longest, ms - before);
  }
  return longest;
}

const overlaps = ({ from, until }: Window, since: number, to: number): boolean =>
  from <= to && (until === undefined || until + recoveryMs >= since);

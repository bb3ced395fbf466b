// Asks again after changes: one question at a time, at most once in `everyMs`, and at most a third of the time, so that a service with slow answers
// is not asked all the time.
//
//   changed() ──► ask … answer ──── everyMs or twice as long as it took ────► ask again, if changed() was called meanwhile
//
// Invariant: after the last `changed()` there is one more question, however often it was called before.

/** Time and timers, replaceable in tests. Milliseconds. */
export interface Timers {
  now(): number;
  after(ms: number, action: () => void): () => void;
}

export const pageTimers: Timers = {
  now: () => performance.now(),
  after: (ms, action) => {
    const timer = setTimeout(action, ms);
    return () => clearTimeout(timer);
  },
};

export class Refresher {
  readonly #ask: () => Promise<void>;
  readonly #everyMs: number;
  readonly #timers: Timers;
  #state: 'idle' | 'asking' | 'resting' | 'closed' = 'idle';
  #isStale = false;
  #stopRest: (() => void) | undefined;

  /** `ask` must not reject. */
  constructor(ask: () => Promise<void>, everyMs: number, timers: Timers = pageTimers) {
    this.#ask = ask;
    this.#everyMs = everyMs;
    this.#timers = timers;
  }

  /** Notes that the last answer is outdated: asks now or as soon as allowed. */
  changed(): void {
    this.#isStale = true;
    if (this.#state === 'idle') void this.#askNow();
  }

  close(): void {
    this.#state = 'closed';
    this.#stopRest?.();
  }

  async #askNow(): Promise<void> {
    this.#state = 'asking';
    this.#isStale = false;
    const began = this.#timers.now();
    await this.#ask();
    if (this.#isClosed()) return;
    this.#state = 'resting';
    const tookMs = this.#timers.now() - began;
    this.#stopRest = this.#timers.after(Math.max(this.#everyMs - tookMs, 2 * tookMs), () => {
      this.#state = 'idle';
      if (this.#isStale) void this.#askNow();
    });
  }

  // `close` may be called during the wait for the answer.
  #isClosed(): boolean {
    return this.#state === 'closed';
  }
}

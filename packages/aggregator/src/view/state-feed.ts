// Sends a page a state that changes: never more often than it reads, and always the newest.
//
//   changed ──► wait until the page reads ──► make ──► send ──► taken ──► viewGrowthIntervalMs ──► changed meanwhile? again
//
// Invariant: at most one message is under way. However often the state changes, and however slowly the page reads, nothing piles up, and the last
// state arrives.

import { setTimeout as sleep } from 'node:timers/promises';
import type { ViewMessage } from '@ranktrace/protocol';
import { aggregatorLimits as limits } from '../model/limits.ts';
import type { PageOutlet } from './page-outlet.ts';

export interface StateFeedOptions {
  readonly outlet: PageOutlet;
  /** Resolves when the message may be made. */
  readonly turn: () => Promise<void>;
  /** The state now; undefined when the page has it. */
  readonly make: () => ViewMessage | undefined;
  /** Calls its argument whenever the state may have changed, until the returned function is called. */
  readonly listen: (changed: () => void) => () => void;
  /** Called when `make` threw; the feed then ends. */
  readonly onError: (error: unknown) => void;
}

export class StateFeed implements Disposable {
  readonly #options: StateFeedOptions;
  readonly #end = new AbortController();
  readonly #stop: () => void;
  #isTelling = false;
  #hasChanged = false;

  constructor(options: StateFeedOptions) {
    this.#options = options;
    this.#stop = options.listen(() => this.#changed());
  }

  [Symbol.dispose](): void {
    this.#stop();
    this.#end.abort();
  }

  #changed(): void {
    this.#hasChanged = true;
    if (this.#isTelling || this.#end.signal.aborted) return;
    this.#isTelling = true;
    this.#report().catch((error: unknown) => {
      if (this.#end.signal.aborted) return;
      this.#end.abort();
      this.#options.onError(error);
    });
  }

  async #report(): Promise<void> {
    const { outlet, turn, make } = this.#options;
    const { signal } = this.#end;
    while (this.#hasChanged) {
      await turn();
      if (signal.aborted) return;
      this.#hasChanged = false;
      const message = make();
      if (message !== undefined) await outlet.send(JSON.stringify(message));
      await sleep(limits.viewGrowthIntervalMs, undefined, { signal, ref: false });
    }
    // Runs synchronously with the check for changes: a later change begins anew.
    this.#isTelling = false;
  }
}

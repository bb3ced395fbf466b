// Replays a newly opened store into the live state: at once for a small run, in slices for a large one, so that batches and clock pings of all runs
// are served meanwhile (decoding a month of batches takes minutes).
//
//   store    | read before | read now |  stored while it runs  |      batches that come meanwhile go to the store alone,
//                          ^ next     ^ count of this round    ^       and the next round finds them
//
// Invariant: each stored batch reaches the live state exactly once: batches of a source in order of arrival, incarnations of a rank in theirs.

import { setImmediate } from 'node:timers/promises';
import { type BatchHeader, decodeBatch, ProtocolError } from '@ranktrace/protocol';
import { messageOf } from '../model/errors.ts';
import { inflate } from '../model/inflate.ts';
import { aggregatorLimits as limits } from '../model/limits.ts';
import type { RunStore } from '../store/run-store.ts';
import type { LiveState, StoredCounts } from './live-state.ts';

export class Replays {
  readonly #live: LiveState;
  readonly #onNotice: (notice: string) => void;
  readonly #running = new Map<string, RunStore>();

  constructor(live: LiveState, onNotice: (notice: string) => void) {
    this.#live = live;
    this.#onNotice = onNotice;
  }

  /** Whether the running replay will still find a batch that is stored now. */
  isRunning(run: string): boolean {
    return this.#running.has(run);
  }

  /** Replays a store; returns when that is done, or after `replayAtOnceMs`, while it continues by itself. */
  start(store: RunStore): void {
    const batches = replay(store, this.#live, this.#onNotice);
    if (advance(batches, limits.replayAtOnceMs)) return;
    this.#running.set(store.run, store);
    void this.#goOn(store, batches);
  }

  async #goOn(store: RunStore, batches: Iterator<undefined>): Promise<void> {
    do await setImmediate();
    while (!store.closed && !advance(batches, limits.replaySliceMs));
    // The run was closed and opened again meanwhile: the other replay is not ours to end.
    if (this.#running.get(store.run) === store) this.#running.delete(store.run);
  }
}

/** The store's counts for the incarnation of `header`. */
export function countsOf(store: RunStore, header: Pick<BatchHeader, 'rank' | 'incarnation'>): StoredCounts {
  const source = store.source(header);
  return { batches: source?.count ?? 0, missing: source?.missing ?? 0, isLatest: source?.isLatest ?? true };
}

/** Advances for at most `ms`; returns whether all is done. */
function advance(batches: Iterator<undefined>, ms: number): boolean {
  const end = performance.now() + ms;
  do if (batches.next().done) return true;
  while (performance.now() < end);
  return false;
}

/** Updates the live state with one stored batch at each step. Unreadable batches are skipped and reported. */
function* replay(store: RunStore, live: LiveState, onNotice: (notice: string) => void): Generator<undefined, void> {
  const next = new Map<string, number>();
  let unreadable = 0;
  for (let found = true; found; ) {
    found = false;
    for (const source of [...store.sources()].sort((a, b) => a.life - b.life)) {
      const key = `${source.rank}/${source.incarnation}`;
      for (let index = next.get(key) ?? 0; index < source.count; index++) {
        try {
          const bytes = source.readArrived(index);
          const batch = bytes && decodeBatch(bytes, inflate);
          if (batch !== undefined) live.update(batch, countsOf(store, batch.header));
        } catch (error) {
          if (unreadable++ === 0 && !(error instanceof ProtocolError)) onNotice(messageOf(error));
        }
        next.set(key, index + 1);
        found = true;
        yield;
      }
    }
  }
  if (unreadable > 0) onNotice(`"${store.directory}": the live state is without ${unreadable} batches that cannot be read`);
}

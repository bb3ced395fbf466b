// The runs of one output directory that are open for writing.
//
// Opening a run again costs its files, its lock and a read of its contents: with more active runs than may be open, each batch would pay that. So the
// store keeps as many open as file descriptors allow, with room for everything else.
//
// Invariant: at most `runsOpenMax` are open; the least recently used one is closed first and reopened on demand.

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { AggregatorError, messageOf, systemCode } from '../model/errors.ts';
import { aggregatorLimits as limits } from '../model/limits.ts';
import type { Quarantine } from './quarantine.ts';
import { isRunName, listSegments, readRunFile } from './run-directory.ts';
import { RunStore, type RunStoreOptions, type RunSurvey, surveyRun } from './run-store.ts';
import { guard, makeDirectory } from './segment-writer.ts';

export interface RunStoresOptions {
  readonly out: string;
  readonly onNotice: (notice: string) => void;
  /** Called with a run after it was opened and before anything is appended. */
  readonly onOpen: (store: RunStore) => void;
  /** Called with a run that was closed to make room, or because its lock was lost. */
  readonly onClose: (run: string) => void;
}

export class RunStores {
  readonly #options: RunStoresOptions;
  /** Least recently used first. */
  readonly #open = new Map<string, RunStore>();
  readonly #closing = new Map<string, Promise<void>>();
  #openMax = openMax();
  #syncing: Promise<void> | undefined;
  /** Large runs that are being opened. */
  readonly #opening = new Set<string>();
  #closed = false;
  /** Bad batches of runs that were closed, by run; those with bytes in its file are counted anew once it is open again. */
  readonly #closedBad = new Map<string, Pick<Quarantine, 'count' | 'kept'>>();
  /** Bad batches without bytes in a file, of runs that were opened again. */
  #badBefore = 0;

  /** Makes the output directory; throws AggregatorError `store_write_failed`. */
  constructor(options: RunStoresOptions) {
    this.#options = options;
    guard(options.out, () => makeDirectory(options.out));
  }

  /** Bad batches that named a run. */
  get quarantined(): number {
    let count = this.#badBefore;
    for (const closed of this.#closedBad.values()) count += closed.count;
    for (const store of this.#open.values()) count += store.quarantine.count;
    return count;
  }

  /** Names of the runs on disk, sorted. */
  runs(): string[] {
    const { out } = this.#options;
    return readdirSync(out, { withFileTypes: true })
      .filter((entry) => entry.isDirectory() && isRunName(entry.name) && isRun(join(out, entry.name)))
      .map((entry) => entry.name)
      .sort();
  }

  /** The run if it is open. */
  peek(run: string): RunStore | undefined {
    return this.#open.get(run);
  }

  /** Whether a large run is being opened. */
  isOpening(run: string): boolean {
    return this.#opening.has(run);
  }

  /**
   * The run if it can take batches now, else undefined: a run with closed segments takes a second per GB to open, and other runs' batches and clock
   * pings do not wait for that. Throws like `RunStore`.
   */
  ready(run: string): RunStore | undefined {
    // The closing store still holds the lock.
    if (this.#closing.has(run)) return undefined;
    if (this.#open.has(run) || !hasClosedSegments(join(this.#options.out, run))) return this.get(run);
    if (!this.#opening.has(run)) void this.#openLarge(run);
    return undefined;
  }

  /** The run, opened (and created) at once if necessary; throws like `RunStore`. */
  get(run: string, survey?: RunSurvey): RunStore {
    const { out, onNotice, onOpen } = this.#options;
    const known = this.#open.get(run);
    const store = known ?? this.#openRun(out, run, { onNotice, ...(survey !== undefined && { survey }) });
    this.#open.delete(run);
    this.#open.set(run, store);
    if (known === undefined) {
      const { count, kept } = this.#closedBad.get(run) ?? { count: 0, kept: 0 };
      this.#badBefore += count - kept;
      this.#closedBad.delete(run);
      onOpen(store);
    }
    if (this.#open.size > this.#openMax) this.#closeOldest();
    return store;
  }

  #openRun(out: string, run: string, options: RunStoreOptions): RunStore {
    try {
      return new RunStore(out, run, options);
    } catch (error) {
      // Other code took the descriptors: allow fewer runs from now on.
      const code = error instanceof AggregatorError ? systemCode(error.cause) : '';
      if (code === 'EMFILE' || code === 'ENFILE') {
        this.#openMax = Math.max(limits.runsOpenMin, Math.min(this.#openMax, this.#open.size) - 1);
        this.#closeOldest();
      }
      throw error;
    }
  }

  /**
   * Flushes everything to the disk; joins a call in progress. Failures are notices: the batches are in the page cache, and the next call tries again.
   */
  sync(now: Date): Promise<void> {
    this.#syncing ??= this.#sync(now).finally(() => {
      this.#syncing = undefined;
    });
    return this.#syncing;
  }

  async #sync(now: Date): Promise<void> {
    let count = 0;
    for (const [run, store] of [...this.#open]) {
      if (++count % syncedAtOnce === 0) await setImmediate();
      try {
        await store.sync(now);
      } catch (error) {
        this.#options.onNotice(messageOf(error));
        // Another process has the run now: let go of it, and reopen it with the next batch.
        if (error instanceof AggregatorError && error.code === 'store_locked') this.#drop(run);
      }
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const run of [...this.#open.keys()].reverse()) this.#close(run);
    await Promise.all(this.#closing.values());
  }

  async #openLarge(run: string): Promise<void> {
    const { out, onNotice } = this.#options;
    this.#opening.add(run);
    try {
      const survey = await surveyRun(out, run, onNotice);
      if (!this.#closed) this.get(run, survey);
    } catch (error) {
      onNotice(messageOf(error)); // and the next batch tries again
    } finally {
      this.#opening.delete(run);
    }
  }

  #closeOldest(): void {
    const [oldest] = this.#open.keys();
    if (oldest !== undefined) this.#drop(oldest);
  }

  #drop(run: string): void {
    this.#close(run);
    this.#options.onClose(run);
  }

  #close(run: string): void {
    const store = this.#open.get(run);
    if (store === undefined) return;
    this.#open.delete(run);
    const { count, kept } = store.quarantine;
    if (count > 0) this.#closedBad.set(run, { count, kept });
    const closing: Promise<void> = store
      .close()
      .catch((error: unknown) => this.#options.onNotice(messageOf(error)))
      .finally(() => this.#closing.delete(run));
    this.#closing.set(run, closing);
  }
}

/** Number of stores that flush at the same time. */
const syncedAtOnce = 16;

/** Number of runs that may be open, from the process's descriptor limit; Linux reports it, elsewhere the number is low. */
function openMax(): number {
  let descriptors = 0;
  try {
    descriptors = Number(/^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1] ?? 0);
  } catch {
    // No such file.
  }
  return Math.max(limits.runsOpenMin, Math.min(limits.runsOpenMax, Math.floor((descriptors || 1024) * limits.runsOpenShare)));
}

function isRun(directory: string): boolean {
  try {
    return readRunFile(directory) !== undefined;
  } catch {
    return false; // another format or broken: reported when a caller opens it
  }
}

function hasClosedSegments(directory: string): boolean {
  try {
    return listSegments(directory).length > 1;
  } catch {
    return false; // not there yet
  }
}

// Keeps the output directory of a service within its retention: one look a minute, one at a time.

import { AggregatorError, messageOf } from '../model/errors.ts';
import { guardedBy } from '../model/guarded.ts';
import { aggregatorLimits as limits } from '../model/limits.ts';
import type { RunStore } from '../store/run-store.ts';
import { type PrunedFile, type PruneResult, pruneStore, type Retention } from './prune-store.ts';

export interface RetentionServiceOptions {
  readonly out: string;
  readonly retention: Retention;
  readonly open: (run: string) => RunStore | undefined;
  readonly isBusy: (run: string) => boolean;
  /** Receives the result of a look, and the bytes that the store holds now. */
  readonly onPruned: (result: PruneResult) => void;
  readonly onNotice: (notice: string) => void;
}

export class RetentionService implements AsyncDisposable {
  readonly #options: RetentionServiceOptions;
  readonly #stop = new AbortController();
  readonly #timer: NodeJS.Timeout;
  #looking: Promise<void> | undefined;
  /** Runs that could not be pruned the last time: reported when they change. */
  #skipped: readonly string[] = [];

  constructor(options: RetentionServiceOptions) {
    this.#options = options;
    this.#timer = setInterval(
      guardedBy(options.onNotice)('retention', () => this.look()),
      limits.pruneIntervalMs,
    ).unref();
    void this.look();
  }

  /** Prunes what is due; joins a look in progress. Never rejects. */
  look(): Promise<void> {
    this.#looking ??= this.#look().finally(() => {
      this.#looking = undefined;
    });
    return this.#looking;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer);
    this.#stop.abort();
    await this.#looking;
  }

  async #look(): Promise<void> {
    const { out, retention, open, isBusy, onPruned, onNotice } = this.#options;
    const { signal } = this.#stop;
    try {
      const result = await pruneStore(out, retention, { open, isBusy, signal });
      const skipped = isAsked(retention) ? result.skipped : [];
      for (const line of [...describePruned(result.pruned), ...skipped.filter((line) => !this.#skipped.includes(line))]) onNotice(line);
      this.#skipped = skipped;
      onPruned(result);
    } catch (error) {
      // A directory without runs is no fault, and neither is an abort.
      const isEmpty = error instanceof AggregatorError && error.code === 'store_not_a_run';
      if (!isEmpty && !signal.aborted) onNotice(`nothing was pruned: ${messageOf(error)}`);
    }
  }
}

/** Without a bound, a look only measures. */
const isAsked = (retention: Retention): boolean => Object.values(retention).some((bound) => bound !== undefined);

/** A line for each run and kind: `run night: detail of steps 0–12000 pruned (3 files)`. */
export function describePruned(pruned: readonly PrunedFile[]): string[] {
  const groups = new Map<string, PrunedFile[]>();
  for (const file of pruned) {
    const key = `${file.run} ${file.what}`;
    groups.set(key, [...(groups.get(key) ?? []), file]);
  }
  return [...groups.values()].map((files) => {
    const { run, what } = files[0] as PrunedFile;
    const steps = files.flatMap((file) => file.steps ?? []);
    const which = steps.length === 0 ? '' : `steps ${Math.min(...steps)}–${Math.max(...steps)}`;
    const name = what === 'detail' ? `detail${which && ` of ${which}`}` : what === 'steps' ? which || 'steps' : `${what} files`;
    return `run ${run}: ${name} pruned (${files.length} ${files.length === 1 ? 'file' : 'files'})`;
  });
}

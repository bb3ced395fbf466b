// Retention: bounds of an output directory, and the order of eviction.
//
//   by age    trace files of ended runs      older than keepTraceMs     (derived: `ranktrace merge` makes them again)
//             detail of closed segments      older than keepDetailMs    step times stay, as a summary
//             steps of them, captures        older than keepStepsMs    with the last of them the state behind the run's alerts
//   by size   traces, then detail, then captures, then steps, oldest first, until all is within storeBytesMax
//
// A segment's age is that of its file: the time when its last batch was stored. Invariants: the segment in use stays; a run with another writer is
// skipped and reported; prunings are recorded (prune-record.ts), and the remaining batches state them.

import { rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { AggregatorError, messageOf } from '../model/errors.ts';
import { aggregatorLimits as limits } from '../model/limits.ts';
import type { PrunedWhat } from '../store/batch-summary.ts';
import { recordTrace } from '../store/prune-record.ts';
import { leftoversIn, pruneSegment, removeLeftovers } from '../store/prune-segment.ts';
import type { SegmentFile } from '../store/run-directory.ts';
import { RunLock } from '../store/run-lock.ts';
import type { RunStore } from '../store/run-store.ts';
import { guard } from '../store/segment-writer.ts';
import { findRuns, type StoredFile, type StoredRun, surveyRunFiles } from './store-files.ts';

/** Ages and sizes to keep; undefined: all. */
export interface Retention {
  /** Events, ms after they were stored. */
  readonly keepDetailMs?: number | undefined;
  /** Summaries of steps, and traces of captures, ms after they were stored. */
  readonly keepStepsMs?: number | undefined;
  /** Trace files of whole runs, ms after they were written. */
  readonly keepTraceMs?: number | undefined;
  /** Bytes of all runs together. */
  readonly storeBytesMax?: number | undefined;
}

export interface PruneOptions {
  readonly now?: Date;
  /** Reports what it would prune, and changes nothing. */
  readonly dryRun?: boolean;
  /** The store of a run that this process has open. */
  readonly open?: (run: string) => RunStore | undefined;
  /** Runs to leave alone for now. */
  readonly isBusy?: (run: string) => boolean;
  readonly signal?: AbortSignal | undefined;
}

/** One pruned part of the store. */
export interface PrunedFile {
  readonly run: string;
  readonly what: PrunedWhat | 'trace' | 'capture';
  readonly path: string;
  readonly steps: readonly [number, number] | undefined;
  readonly ageMs: number;
  readonly bytesBefore: number;
  readonly bytesAfter: number;
}

export interface PruneResult {
  readonly pruned: readonly PrunedFile[];
  /** One line for each run or file that was left alone, with the reason. */
  readonly skipped: readonly string[];
  readonly bytesBefore: number;
  readonly bytesAfter: number;
}

/**
 * Prunes the runs below `out`, or the run `out` itself. Throws AggregatorError `store_missing`, `store_not_a_run`, or any error of reading the
 * directory; errors of single runs are in `skipped`.
 */
export async function pruneStore(out: string, retention: Retention, options: PruneOptions = {}): Promise<PruneResult> {
  return await new StorePruning(retention, options).prune(findRuns(out));
}

class StorePruning {
  readonly #retention: Retention;
  readonly #options: PruneOptions;
  readonly #now: Date;
  readonly #pruned: PrunedFile[] = [];
  readonly #skipped: string[] = [];
  /** Directories of runs that cannot be pruned, with the reason to report if something is due. */
  readonly #left = new Map<string, string | undefined>();
  #bytes = 0;

  constructor(retention: Retention, options: PruneOptions) {
    this.#retention = retention;
    this.#options = options;
    this.#now = options.now ?? new Date();
  }

  async prune(runs: readonly StoredRun[]): Promise<PruneResult> {
    const { keepDetailMs, keepStepsMs, keepTraceMs, storeBytesMax } = this.#retention;
    let files: StoredFile[] = [];
    for (const run of runs) files.push(...(await this.#filesOf(run)));
    this.#bytes = files.reduce((sum, { bytes }) => sum + bytes, 0);
    const bytesBefore = this.#bytes;
    files.sort((a, b) => a.modifiedMs - b.modifiedMs);
    const isOlder = ({ modifiedMs }: StoredFile, keepMs: number | undefined): boolean =>
      keepMs !== undefined && this.#now.getTime() - modifiedMs > keepMs;

    files = await this.#each(files, (file) => {
      if (file.kind === 'trace') return isOlder(file, keepTraceMs) || isOlder(file, keepDetailMs) ? 'trace' : undefined;
      if (file.kind === 'capture') return isOlder(file, keepStepsMs) ? 'capture' : undefined;
      if (file.kind !== 'segment' || file.segment.pruned === 'steps') return undefined;
      if (isOlder(file, keepStepsMs)) return 'steps';
      return file.segment.pruned === undefined && isOlder(file, keepDetailMs) ? 'detail' : undefined;
    });
    if (storeBytesMax === undefined) {
      await this.#pruneStates(files);
      return this.#result(bytesBefore);
    }
    const full = (): boolean => this.#bytes > storeBytesMax;
    files = await this.#each(files, ({ kind }) => (full() && kind === 'trace' ? 'trace' : undefined));
    files = await this.#each(files, (file) => (full() && file.kind === 'segment' && !file.segment.pruned ? 'detail' : undefined));
    files = await this.#each(files, ({ kind }) => (full() && kind === 'capture' ? 'capture' : undefined));
    files = await this.#each(files, (file) => (full() && file.kind === 'segment' && file.segment.pruned !== 'steps' ? 'steps' : undefined));
    await this.#pruneStates(files);
    if (full())
      this.#skipped.push(
        `the store holds ${this.#bytes} bytes, more than ${storeBytesMax}: the rest is being written, or is no segment or trace`,
      );
    return this.#result(bytesBefore);
  }

  /** Removes the state behind the alerts of runs that have no step left, unless this process has them open. */
  async #pruneStates(files: readonly StoredFile[]): Promise<void> {
    const withSteps = new Set(
      files.flatMap((file) => (file.kind === 'segment' && file.segment.pruned !== 'steps' ? file.run.directory : [])),
    );
    await this.#each(files, ({ kind, run }) =>
      kind === 'state' && !withSteps.has(run.directory) && this.#storeOf(run) === undefined ? 'steps' : undefined,
    );
  }

  #result(bytesBefore: number): PruneResult {
    return { pruned: this.#pruned, skipped: this.#skipped, bytesBefore, bytesAfter: this.#bytes };
  }

  /** Prunes the part of each file that `choose` returns, in order; returns the files in their new state. */
  async #each(files: readonly StoredFile[], choose: (file: StoredFile) => PrunedFile['what'] | undefined): Promise<StoredFile[]> {
    const after: StoredFile[] = [];
    for (const file of files) {
      this.#options.signal?.throwIfAborted();
      const due = choose(file);
      const what = due !== undefined && this.#isLeft(file.run) ? undefined : due;
      const left = what === undefined ? file : await this.#pruneFile(file, what);
      if (left !== undefined) after.push(left);
    }
    return after;
  }

  /** Whether a run is left alone; reports it once. */
  #isLeft({ directory }: StoredRun): boolean {
    if (!this.#left.has(directory)) return false;
    const reason = this.#left.get(directory);
    if (reason !== undefined) this.#skipped.push(reason);
    this.#left.set(directory, undefined);
    return true;
  }

  /** The store that this process has open in the run's directory. */
  #storeOf({ name, directory }: StoredRun): RunStore | undefined {
    const store = this.#options.open?.(name);
    return store !== undefined && !store.closed && store.directory === directory ? store : undefined;
  }

  async #pruneFile(file: StoredFile, what: PrunedFile['what']): Promise<StoredFile | undefined> {
    const { run, path, bytes, modifiedMs } = file;
    const recordsBefore = recordBytes(run);
    try {
      const changed = await this.#withLock(run, () => this.#change(file, what));
      if (changed === undefined) return file;
      const { left, steps } = changed;
      const bytesAfter = left?.bytes ?? 0;
      this.#bytes += bytesAfter - bytes + recordBytes(run) - recordsBefore;
      const ageMs = this.#now.getTime() - modifiedMs;
      this.#pruned.push({ run: run.name, what, path, steps, ageMs, bytesBefore: bytes, bytesAfter });
      return left;
    } catch (error) {
      if (this.#options.signal?.aborted === true || !(error instanceof AggregatorError)) throw error;
      this.#skipped.push(error.message);
      if (error.code === 'store_locked') this.#left.set(run.directory, undefined);
      return file;
    }
  }

  /** Prunes `what` of a file; undefined: it is the segment in use. */
  async #change(file: StoredFile, what: PrunedFile['what']) {
    const { run, path } = file;
    const { dryRun = false, signal } = this.#options;
    const isTrace = what === 'trace' || what === 'capture';
    if (isTrace || file.kind !== 'segment') {
      if (!dryRun) {
        if (what === 'trace') recordTrace(run.directory, file.name, this.#now.toISOString().slice(0, 10));
        guard(path, () => rmSync(path, { force: true }));
      }
      return { left: undefined, steps: undefined };
    }
    const { segment } = file;
    // A run that was not open at the survey may be by now, and append to what was its last segment.
    const store = this.#storeOf(run);
    if (store?.isComplete(segment) === false) return undefined;
    const pruned = await pruneSegment(segment, what, {
      ...{ run: run.name, directory: run.directory, now: this.#now, dryRun, signal },
      isInUse: () => this.#storeOf(run) !== store || store?.isComplete(segment) === false,
      onReplaced: (after, summaries) => store?.replaceSegment(segment, after, summaries),
    });
    const after: SegmentFile = { ...segment, path: pruned.path, pruned: what };
    return { left: { ...file, path: pruned.path, segment: after, bytes: pruned.bytes }, steps: pruned.steps };
  }

  /** Runs `change` under the run's lock; a store open here holds it already. */
  async #withLock<T>(run: StoredRun, change: () => Promise<T>): Promise<T> {
    if (this.#storeOf(run) !== undefined || this.#options.dryRun === true) return await change();
    const lock = RunLock.take(run.directory);
    try {
      return await change();
    } finally {
      lock.release();
    }
  }

  /** Idle time after which a segment is ended. Without bounds for segments none needs to be. */
  get #idleMs(): number {
    const { keepDetailMs, keepStepsMs, storeBytesMax } = this.#retention;
    const bounds = [keepDetailMs, keepStepsMs, storeBytesMax && limits.segmentIdleMs].filter((bound) => bound !== undefined);
    return Math.min(...bounds, bounds.length > 0 ? limits.segmentIdleMs : Number.POSITIVE_INFINITY);
  }

  /** The files of a run; nothing can be pruned of a run with another writer. */
  async #filesOf(run: StoredRun): Promise<StoredFile[]> {
    const { isBusy, dryRun } = this.#options;
    try {
      const store = this.#storeOf(run);
      if (isBusy?.(run.name) === true) this.#left.set(run.directory, undefined);
      else if (store === undefined && RunLock.isHeld(run.directory)) {
        this.#left.set(run.directory, `run "${run.directory}" is left alone: another process writes it`);
      }
      if (dryRun !== true && !this.#left.has(run.directory) && leftoversIn(run.directory).length > 0) {
        await this.#withLock(run, async () => removeLeftovers(run.directory));
      }
      return surveyRunFiles(run, await store?.closedSegments(dryRun === true ? 0 : this.#now.getTime() - this.#idleMs));
    } catch (error) {
      this.#skipped.push(`run "${run.directory}" is left alone: ${messageOf(error)}`);
      return [];
    }
  }
}

/** Size of the records that a pruning changes: what was pruned, and the format that it leaves. */
const recordBytes = ({ directory }: StoredRun): number =>
  ['pruned.json', 'run.json'].reduce((sum, name) => sum + (statSync(join(directory, name), { throwIfNoEntry: false })?.size ?? 0), 0);

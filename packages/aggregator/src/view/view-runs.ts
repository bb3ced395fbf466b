// The runs that pages can open: those of a service's output directory, or named inputs. One reader for all pages reads a run on its first opening;
// the run is dropped some time after the last page has left.

import { join } from 'node:path';
import type { Alert, LiveMessage, RunLine, ViewFinding } from '@ranktrace/protocol';
import { analysisSink, mergeRun, type TraceSink, teeSink } from '@ranktrace/trace';
import type { PerfettoTrace } from '@ranktrace/trace/perfetto';
import { timelineSink, type ViewProgress } from '@ranktrace/trace/timeline';
import { alertFindings, withAlerts } from '../alert/alert-findings.ts';
import { readAlertLog } from '../alert/alert-log.ts';
import type { LiveState } from '../live/live-state.ts';
import { driveSteps } from '../model/drive-steps.ts';
import { AggregatorError, messageOf } from '../model/errors.ts';
import { guardedBy } from '../model/guarded.ts';
import { aggregatorLimits as limits } from '../model/limits.ts';
import type { RunBatches } from '../store/batch-index.ts';
import { type BatchLog, openBatchLog } from '../store/batch-log.ts';
import { captureFiles } from '../store/capture-files.ts';
import type { RunStores } from '../store/run-stores.ts';
import { type MergeSource, readableSource } from '../store/write-trace.ts';
import { type FollowedRun, followStore } from './follow-store.ts';
import type { CaptureFile, RunView, ViewRuns } from './run-view.ts';
import { ViewError } from './view-error.ts';
import { ViewedRun } from './viewed-run.ts';

/** A run in files. */
export type ViewInput =
  | { readonly run: string; readonly sources: readonly MergeSource[]; readonly directory?: string | undefined }
  | { readonly run: string; readonly perfetto: () => PerfettoTrace };

/** A source that a `ViewedRun` can be read from. */
interface Readable extends Disposable {
  /** Resolves when nothing more is to be read, or `signal` aborts. */
  read(viewed: ViewedRun, signal: AbortSignal): Promise<void>;
  /** Merges all that there is now. */
  merge(sink: TraceSink): Generator<ViewProgress, unknown>;
}

interface OpenRun {
  readonly viewed: ViewedRun;
  readonly stop: AbortController;
  readonly reading: Promise<void>;
  readonly readable: Readable;
  pages: number;
  forget: NodeJS.Timeout | undefined;
}

abstract class OpenRuns implements ViewRuns, AsyncDisposable {
  readonly #open = new Map<string, OpenRun>();
  #merges = 0;
  protected readonly onNotice: (notice: string) => void;

  constructor(onNotice: (notice: string) => void) {
    this.onNotice = onNotice;
  }

  abstract list(): RunLine[];
  abstract captures(run: string): readonly CaptureFile[];
  abstract onChange(listener: () => void): () => void;
  /** Undefined when there is no such run. */
  protected abstract readable(run: string): Readable | undefined;

  async open(run: string): Promise<RunView & Disposable> {
    const open = this.#open.get(run) ?? this.#begin(run);
    open.pages++;
    clearTimeout(open.forget);
    let isReleased = false;
    const release = (): void => {
      if (isReleased) return;
      isReleased = true;
      if (--open.pages > 0) return;
      open.forget = setTimeout(
        guardedBy(this.onNotice)('the end of a timeline', () => this.#end(run)),
        limits.viewIdleMs,
      ).unref();
    };
    const { viewed } = open;
    return {
      get timeline() {
        viewed.touch();
        return viewed.timeline;
      },
      model: () => {
        viewed.touch();
        return viewed.model();
      },
      growth: (cursor) => viewed.growth(cursor),
      overview: (request) => {
        viewed.touch();
        const overview = viewed.overview(request);
        const captures = this.captures(run).map(({ name, bytes }) => ({ name, bytes }));
        const findings = withAlerts(this.findings(run, viewed.lastStep), overview.findings);
        return { ...overview, findings, ...(captures.length > 0 && { captures }) };
      },
      path: () => {
        viewed.touch();
        return viewed.path();
      },
      merge: (sink) => this.#merge(open, sink),
      heat: (request, measure) => {
        viewed.touch();
        return viewed.heat(request, measure);
      },
      profile: (rank) => {
        viewed.touch();
        return viewed.profile(rank);
      },
      onGrown: (listener) => viewed.onGrown(listener),
      [Symbol.dispose]: release,
    };
  }

  *#merge({ readable, viewed }: OpenRun, sink: TraceSink): Generator<ViewProgress, void> {
    if (this.#merges >= limits.viewMergesMax) {
      throw new ViewError('too_many', `${limits.viewMergesMax} comparisons and downloads are under way already: try again in a moment`);
    }
    this.#merges++;
    try {
      for (const progress of readable.merge(sink)) {
        viewed.touch();
        yield progress;
      }
    } finally {
      this.#merges--;
    }
  }

  /** Findings of a run beside those of its analysis. `lastStep`: Infinity until all of it is read. */
  protected abstract findings(run: string, lastStep: number): readonly ViewFinding[];

  /** Read part of an open run; the unit is the run's own. */
  progress(run: string): { readonly read: number; readonly total: number } {
    const { read = 0, total = 0 } = this.#open.get(run)?.viewed.about ?? {};
    return { read, total };
  }

  /** Resolves when the open run is read to its end. */
  async read(run: string): Promise<void> {
    await this.#open.get(run)?.reading;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#open.keys()].map((run) => this.#end(run)));
  }

  #begin(run: string): OpenRun {
    const readable = this.readable(run);
    if (readable === undefined) throw new ViewError('no_such_run', `There is no run "${run}"`);
    for (const [name, { pages }] of this.#open)
      if (this.#open.size >= limits.viewRunsMax && pages === 0) guardedBy(this.onNotice)('the end of a timeline', () => this.#end(name))();
    if (this.#open.size >= limits.viewRunsMax) throw new ViewError('too_many', `${limits.viewRunsMax} runs are being looked at already`);
    const viewed = new ViewedRun(run);
    const stop = new AbortController();
    const reading = readable.read(viewed, stop.signal).catch((error: unknown) => {
      if (!stop.signal.aborted) this.onNotice(`run ${run}: cannot be shown any further: ${messageOf(error)}`);
    });
    const open: OpenRun = { viewed, stop, reading, readable, pages: 0, forget: undefined };
    this.#open.set(run, open);
    return open;
  }

  async #end(run: string): Promise<void> {
    const open = this.#open.get(run);
    if (open === undefined) return;
    this.#open.delete(run);
    clearTimeout(open.forget);
    open.stop.abort();
    await open.reading;
    open.readable[Symbol.dispose]();
    open.viewed[Symbol.dispose]();
  }
}

/** The runs of a service, while they grow and after. */
export class StoredRuns extends OpenRuns {
  readonly #out: string;
  readonly #stores: RunStores;
  readonly #live: LiveState;
  readonly #findings: (run: string, lastStep: number) => readonly ViewFinding[];

  constructor(
    out: string,
    stores: RunStores,
    live: LiveState,
    onNotice: (notice: string) => void,
    findings: (run: string, lastStep: number) => readonly ViewFinding[] = () => [],
  ) {
    super(onNotice);
    this.#out = out;
    this.#stores = stores;
    this.#live = live;
    this.#findings = findings;
  }

  list(): RunLine[] {
    const live = new Map(this.#live.status(0).runs.map((run) => [run.run, run]));
    return this.#stores.runs().map((run) => {
      const known = live.get(run);
      return known === undefined
        ? { run, worldSize: 0, ranks: 0 }
        : { run, worldSize: known.worldSize, ranks: known.ranks.length, live: !this.#isOver(known) };
    });
  }

  protected findings(run: string, lastStep: number): readonly ViewFinding[] {
    return this.#findings(run, lastStep);
  }

  captures(run: string): readonly CaptureFile[] {
    return this.#stores.runs().includes(run) ? captureFiles(join(this.#out, run)) : [];
  }

  onChange(listener: () => void): () => void {
    return this.#live.subscribe(listener);
  }

  protected readable(run: string): Readable | undefined {
    if (this.#stores.peek(run) === undefined && !this.#stores.runs().includes(run)) return undefined;
    let log: BatchLog | undefined;
    /** For merges, since retention pruned what `log` read. */
    let mergeLog: BatchLog | undefined;
    const followed: FollowedRun = {
      isFixed: false,
      isWhole: () => this.#isWhole(run),
      sources: () => {
        const store = this.#stores.peek(run);
        if (store !== undefined) return store.sources();
        log ??= openBatchLog(join(this.#out, run));
        return runIn(log, run).sources();
      },
    };
    return {
      read: (viewed, signal) => followStore(followed, viewed, signal, this.onNotice),
      merge: (sink) => {
        const sources =
          this.#stores.peek(run) === undefined && mergeLog !== undefined ? runIn(mergeLog, run).sources() : followed.sources();
        const onGone = (): void => {
          if (this.#stores.peek(run) !== undefined) return;
          mergeLog?.close();
          mergeLog = openBatchLog(join(this.#out, run));
        };
        return mergeSources(sources, sink, onGone);
      },
      [Symbol.dispose]: () => {
        log?.close();
        mergeLog?.close();
      },
    };
  }

  /** Whether all ranks have said goodbye, or none sends any more. */
  #isWhole(run: string): boolean {
    const known = this.#live.status(0).runs.find((one) => one.run === run);
    return known === undefined || this.#isOver(known);
  }

  #isOver(known: LiveMessage['runs'][number]): boolean {
    if (known.ranks.length >= known.worldSize && known.ranks.every(({ ended }) => ended)) return true;
    return performance.now() - this.#live.lastBatchAt(known.run) > limits.viewSilentMs;
  }
}

/** The run in the directory of that name: one that was renamed, or copied, has the batches of another name. */
const runIn = (log: BatchLog, directory: string): RunBatches => log.run(log.runs.length === 1 ? (log.runs[0] ?? directory) : directory);

/** Runs in files that nobody writes. */
export class FileRuns extends OpenRuns {
  readonly #inputs: ReadonlyMap<string, ViewInput>;
  /** Those stored with a run, read once. */
  readonly #alerts = new Map<string, readonly Alert[]>();

  constructor(inputs: readonly ViewInput[], onNotice: (notice: string) => void) {
    super(onNotice);
    this.#inputs = new Map(inputs.map((input) => [input.run, input]));
  }

  list(): RunLine[] {
    return [...this.#inputs.values()].map((input) => {
      const ranks = 'sources' in input ? new Set(input.sources.map(({ rank }) => rank)).size : 0;
      return { run: input.run, worldSize: ranks, ranks, live: false };
    });
  }

  protected findings(run: string, lastStep: number): readonly ViewFinding[] {
    const input = this.#inputs.get(run);
    if (input === undefined || !('sources' in input) || input.directory === undefined) return [];
    const alerts = this.#alerts.get(run) ?? readAlertLog(input.directory).alerts;
    this.#alerts.set(run, alerts);
    return alertFindings(alerts, [], lastStep);
  }

  captures(run: string): readonly CaptureFile[] {
    const input = this.#inputs.get(run);
    return input !== undefined && 'sources' in input && input.directory !== undefined ? captureFiles(input.directory) : [];
  }

  onChange(): () => void {
    return () => undefined;
  }

  protected readable(run: string): Readable | undefined {
    const input = this.#inputs.get(run);
    if (input === undefined) return undefined;
    return {
      read: (viewed, signal) =>
        'sources' in input
          ? followStore({ isFixed: true, isWhole: () => true, sources: () => input.sources }, viewed, signal, this.onNotice)
          : readTrace(input.perfetto(), viewed, signal),
      merge: (sink) => ('sources' in input ? mergeSources(input.sources, sink) : input.perfetto().events(sink)),
      [Symbol.dispose]: () => undefined,
    };
  }
}

/** Throws AggregatorError `store_…` where batches are gone by now, after `onGone`: retention prunes while a slow reader takes a trace. */
function mergeSources(sources: readonly MergeSource[], sink: TraceSink, onGone?: () => void): Generator<ViewProgress, unknown> {
  const onUnreadable = (error: unknown): void => {
    if (!(error instanceof AggregatorError)) return;
    onGone?.();
    throw error;
  };
  return mergeRun(
    sources.map((source) => readableSource(source, onUnreadable)),
    sink,
  );
}

/** Reads a trace file into a timeline: its times are the axis already. */
async function readTrace(trace: PerfettoTrace, viewed: ViewedRun, signal: AbortSignal): Promise<void> {
  const { header } = trace;
  viewed.grown({ worldSize: header.worldSize, unixEpoch: header.unixEpoch?.toString() ?? null, live: false });
  const analysis = analysisSink();
  const steps = trace.events(teeSink(timelineSink(viewed.timeline), analysis));
  await driveSteps(steps, { signal, onProgress: ({ done, total }) => viewed.grown({ read: done, total }) });
  viewed.grown({ read: 1, total: 1 });
  viewed.analysed(await driveSteps(analysis.analysing(undefined), { signal }), true);
}

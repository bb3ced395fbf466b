// Reads a run's batches into its timeline as they come: clocks first, then events, then the analysis of the whole.
//
//   sources ──► align ──► index, all ranks in turn ──► grown ──► (more came? again)
//                                                       └──► whole: analyse
//
// While ranks continue, clocks are those of a growing run (RunAlignment.update), fitted at limited intervals; once the run is whole they are fitted
// from scratch, as in its trace file.

import { setTimeout as wait } from 'node:timers/promises';
import { type AlignedRun, analyseRun, type BatchSource, lastPartOf, type MergeProgress, processOf, RunAlignment } from '@ranktrace/trace';
import type { BlameLevels } from '@ranktrace/trace/blame';
import type { TimelineClock } from '@ranktrace/trace/timeline';
import { driveSteps } from '../model/drive-steps.ts';
import { messageOf } from '../model/errors.ts';
import { aggregatorLimits as limits } from '../model/limits.ts';
import { type MergeSource, readableSource } from '../store/write-trace.ts';
import { RankIndex } from './rank-index.ts';
import { ReadPrefix } from './read-prefix.ts';
import type { ViewedRun } from './viewed-run.ts';

export interface FollowedRun {
  /** A snapshot of all incarnations of all ranks. */
  sources(): readonly MergeSource[];
  /** Whether nothing more is expected. */
  isWhole(): boolean;
  /** Whether the run is fixed: nobody writes its files. */
  readonly isFixed: boolean;
}

/** Follows until `signal` aborts, or a fixed run is read to its end. */
export async function followStore(
  followed: FollowedRun,
  viewed: ViewedRun,
  signal: AbortSignal,
  onNotice: (notice: string) => void,
): Promise<void> {
  const reader = new StoreReader(viewed, signal, onNotice);
  let seen = '';
  while (!signal.aborted) {
    const sources = followed.sources().map((source) => readableSource(source, undefined));
    const isWhole = followed.isWhole();
    const state = `${sources.length} ${sources.reduce((sum, { count }) => sum + count, 0)} ${isWhole}`;
    if (state !== seen || reader.isBehind) await reader.read(sources, isWhole);
    seen = state;
    if (followed.isFixed && isWhole) return;
    await wait(limits.viewFollowMs, undefined, { signal, ref: false }).catch(() => undefined);
  }
}

class StoreReader {
  readonly #viewed: ViewedRun;
  readonly #signal: AbortSignal;
  readonly #onNotice: (notice: string) => void;
  readonly #ranks = new Map<string, RankIndex>();
  #alignment = new RunAlignment();
  #aligned: AlignedRun | undefined;
  /** When clocks may be fitted again, ms. */
  #alignAfter = 0;
  #analyseAfter = 0;
  #isAnalysing = false;
  #isAnalysisWanted = false;
  #beginning: BlameLevels | undefined;
  /** Batches that there were when the run was read last, when its clocks were fitted last, and those of the last analysis. */
  #batches = 0;
  #alignedBatches = 0;
  #analysedBatches = 0;
  /** The part of each source that the alignment has read. */
  readonly #aligning = new Map<string, ReadPrefix>();
  /** Batches whose clocks were read before: fitting them anew reads nothing. */
  #surveyed = 0;

  constructor(viewed: ViewedRun, signal: AbortSignal, onNotice: (notice: string) => void) {
    this.#viewed = viewed;
    this.#signal = signal;
    this.#onNotice = onNotice;
  }

  /** Whether there are batches that no analysis covers, and one may begin: a run that has fallen silent changes no more, and may hang. */
  get isBehind(): boolean {
    if (this.#aligned === undefined || this.#isAnalysing || this.#analysedBatches >= this.#batches) return false;
    return performance.now() >= Math.max(this.#alignAfter, this.#analyseAfter);
  }

  async read(sources: readonly BatchSource[], isWhole: boolean): Promise<void> {
    const began = performance.now();
    const batches = sources.reduce((sum, { count }) => sum + count, 0);
    this.#batches = batches;
    // Each batch is read for its clocks and for its events.
    const progress: MergeProgress = { done: 0, total: batches };
    const report = (surveyed: number): void => {
      this.#surveyed = Math.max(this.#surveyed, Math.min(surveyed, batches));
      this.#viewed.grown({ read: Math.min(this.#surveyed + this.#indexed(), 2 * batches), total: 2 * batches, live: !isWhole });
    };
    // New batches of a live run are mostly read at once: pages need no message each time.
    if (this.#surveyed === 0) report(0);
    const isNew = sources.some((source) => source.count > 0 && !this.#ranks.has(keyOf(source)));
    if (isWhole || isNew || performance.now() >= this.#alignAfter) {
      const aligning = performance.now();
      await this.#align(sources, isWhole, progress, () => report(progress.done));
      this.#alignAfter = performance.now() + Math.max(limits.viewAlignMs, limits.viewPauseFactor * (performance.now() - aligning));
    }
    const followed = sources.flatMap((source) => {
      const rank = this.#ranks.get(keyOf(source));
      rank?.expect(source);
      return rank === undefined ? [] : [rank.follow(source, isWhole)];
    });
    await driveSteps(inTurns(followed), { signal: this.#signal, onProgress: () => report(batches) });
    this.#viewed.grown({ read: 2 * batches, total: 2 * batches, live: !isWhole });
    this.#analyse(isWhole, performance.now() - began);
  }

  async #align(sources: readonly BatchSource[], isWhole: boolean, progress: MergeProgress, onProgress: () => void): Promise<void> {
    // Batches that filled a gap shifted the places of others: places read before are no longer valid.
    if (isWhole || sources.some((source) => this.#aligning.get(keyOf(source))?.hasChanged(source))) this.#alignment = new RunAlignment();
    this.#alignedBatches = this.#batches;
    const steps = isWhole ? this.#alignment.finish(sources, progress) : this.#alignment.update(sources, progress);
    this.#aligned = await driveSteps(steps, { signal: this.#signal, onProgress });
    for (const source of sources) {
      const prefix = this.#aligning.get(keyOf(source)) ?? new ReadPrefix();
      prefix.note(source);
      this.#aligning.set(keyOf(source), prefix);
    }
    this.#place(this.#aligned);
    if (isWhole) this.#alignment = new RunAlignment();
  }

  #place({ surveys, fitted, conflicts }: AlignedRun): void {
    const { timeline } = this.#viewed;
    for (const [at, survey] of surveys.entries()) {
      const { clock, model, epoch } = fitted.clocks[at] as (typeof fitted.clocks)[number];
      const axis: TimelineClock = { toTrace: (own) => clock.toTrace(own), toOwn: (time) => model.toHost(time) - epoch };
      const key = keyOf(survey.source);
      const known = this.#ranks.get(key);
      const process = processOf(survey, known?.timeline.index ?? timeline.processes.length, model.alignment);
      if (known === undefined) this.#ranks.set(key, new RankIndex(timeline.addProcess(process, axis)));
      else known.timeline.setClock(axis, process);
    }
    this.#viewed.grown({
      worldSize: surveys.reduce((most, { header }) => Math.max(most, header.worldSize), 1),
      unixEpoch: fitted.unixEpoch?.toString() ?? null,
      clockConflicts: conflicts.slice(0, limits.viewMarksMax).map(({ time, hosts, slack }) => ({ time, hosts, slack })),
    });
  }

  /**
   * The analysis is a merge beside the reading, so it is rare: for a live run it may take a tenth of the time, and covers the last part of a long
   * one.
   */
  #analyse(isWhole: boolean, readMs: number): void {
    const aligned = this.#aligned;
    if (aligned === undefined) return;
    if (this.#isAnalysing || (!isWhole && performance.now() < this.#analyseAfter)) {
      this.#isAnalysisWanted ||= isWhole;
      return;
    }
    this.#isAnalysing = true;
    this.#isAnalysisWanted = false;
    this.#analysedBatches = this.#alignedBatches;
    const began = performance.now();
    const done = (): void => {
      this.#isAnalysing = false;
      this.#analyseAfter = performance.now() + Math.max(limits.viewAnalyseMs, limits.viewPauseFactor * (performance.now() - began));
      if (this.#isAnalysisWanted && !this.#signal.aborted) this.#analyse(true, readMs);
    };
    // If reading took long, so will the analysis: the first pictures come first.
    const first = wait(readMs < limits.viewAnalyseDelayMs ? 0 : limits.viewAnalyseDelayMs, undefined, { ref: false });
    const between = (): Promise<void> => this.#viewed.givesWay();
    const part = isWhole ? { ...aligned, since: undefined } : lastPartOf(aligned, analysedBatchesMax(aligned));
    const options = { isLive: !isWhole, since: part.since, beginning: part.since === undefined ? undefined : this.#beginning };
    const analysing = first.then(() => driveSteps(analyseRun(part, options), { signal: this.#signal, between }));
    analysing.then(
      (analysis) => {
        this.#beginning = analysis.beginning;
        this.#viewed.analysed(analysis, isWhole);
        done();
      },
      (error: unknown) => {
        if (!this.#signal.aborted) this.#onNotice(`run ${this.#viewed.run}: not analysed: ${messageOf(error)}`);
        done();
      },
    );
  }

  #indexed(): number {
    let read = 0;
    for (const rank of this.#ranks.values()) read += rank.read;
    return read;
  }
}

/** Reads one batch of each rank in turn, so that all ranks have about as many steps at any time. */
function* inTurns(ranks: readonly Generator<void>[]): Generator<void> {
  for (let open = ranks; open.length > 0; ) {
    const left: Generator<void>[] = [];
    for (const rank of open) {
      if (rank.next().done === true) continue;
      left.push(rank);
      yield;
    }
    open = left;
  }
}

/** Enough steps of each rank, however many ranks there are. */
const analysedBatchesMax = ({ surveys }: AlignedRun): number =>
  Math.max(limits.viewAnalyseBatchesMax, surveys.length * limits.viewAnalyseBatchesPerRank);

const keyOf = ({ rank, incarnation }: BatchSource): string => `${rank} ${incarnation}`;

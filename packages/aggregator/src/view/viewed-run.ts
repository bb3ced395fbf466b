// A run that pages show: its timeline, its model and its analysis. The run's reader (follow-store.ts, a trace file) fills it.

import { randomUUID } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import type { HeatCells, Overview, RunGrowth, RunModel, RunProfile, ViewPath } from '@ranktrace/protocol';
import type { RunAnalysis } from '@ranktrace/trace';
import type { HeatMeasure, OverviewRequest } from '@ranktrace/trace/timeline';
import { heatCellsOf, overviewOf, Timeline } from '@ranktrace/trace/timeline';
import { aggregatorLimits as limits } from '../model/limits.ts';
import { BlockFile } from './block-file.ts';
import { ModelLog, type RunAbout } from './model-log.ts';
import type { GrowthCursor, RunView } from './run-view.ts';

export class ViewedRun implements Omit<RunView, 'merge'>, Disposable {
  readonly run: string;
  readonly timeline: Timeline;
  readonly #blocks: BlockFile;
  readonly #log: ModelLog;
  readonly #listeners = new Set<() => void>();
  // Nothing is read yet: pages must not mistake that for an empty run.
  #about: RunAbout = { worldSize: 1, unixEpoch: null, live: true, read: 0, total: 1, clockConflicts: [] };
  #touchedAt = Number.NEGATIVE_INFINITY;
  #analysis: RunAnalysis | undefined;
  #isAnalysed = false;
  #path: ViewPath | undefined;

  /** Throws AggregatorError `store_write_failed`. */
  constructor(run: string) {
    this.run = run;
    this.#blocks = new BlockFile();
    this.timeline = new Timeline({ blocks: this.#blocks });
    this.#log = new ModelLog(run, randomUUID(), this.timeline);
  }

  get about(): RunAbout {
    return this.#about;
  }

  /** Bytes of the timeline on disk. */
  get bytes(): number {
    return this.#blocks.bytes;
  }

  /** Notes a request of a page. */
  touch(): void {
    this.#touchedAt = performance.now();
  }

  /** Resolves when no page asks for anything, or soon: requests come before work that nobody asked for. */
  async givesWay(): Promise<void> {
    if (performance.now() - this.#touchedAt < limits.viewBusyMs) await wait(limits.viewGiveWayMs, undefined, { ref: false });
  }

  /** Notifies listeners of growth; `about`: changed fields of the run itself. */
  grown(about: Partial<RunAbout> = {}): void {
    this.#about = { ...this.#about, ...about };
    for (const listener of this.#listeners) listener();
  }

  /** Takes an analysis; `isWhole`: it covers the whole run. */
  analysed(analysis: RunAnalysis, isWhole: boolean): void {
    this.#analysis = analysis;
    this.#isAnalysed = isWhole;
    this.#path = undefined;
    this.grown();
  }

  model(): RunModel {
    return this.#log.model(this.#about);
  }

  growth(cursor: GrowthCursor | undefined): { growth: RunGrowth; cursor: GrowthCursor } | undefined {
    return this.#log.growth(cursor, this.#about);
  }

  overview(request: OverviewRequest): Overview {
    return overviewOf(this.timeline.processes, request, this.#analysis, this.#isAnalysed);
  }

  /** The last step that any rank reports; Infinity until all ranks are read to their end. */
  get lastStep(): number {
    const lasts = this.timeline.processes.map(({ isBeingRead, steps }) =>
      isBeingRead ? Number.POSITIVE_INFINITY : (steps.range?.[1] ?? -1),
    );
    return Math.max(-1, ...lasts);
  }

  path(): ViewPath | undefined {
    const found = this.#analysis?.path;
    this.#path ??= found && this.timeline.path(found);
    return this.#path;
  }

  heat(request: OverviewRequest, measure: HeatMeasure): HeatCells {
    return heatCellsOf(this.timeline.processes, request, measure, this.#analysis, this.#isAnalysed);
  }

  profile(rank?: number): RunProfile | undefined {
    const profile = this.#analysis?.profiles?.of(rank);
    // The analysis of a long run that goes on may cover its last part alone.
    return profile && { ...profile, firstStep: this.timeline.firstStep ?? null, analysed: this.#isAnalysed };
  }

  onGrown(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  [Symbol.dispose](): void {
    this.#listeners.clear();
    this.#blocks[Symbol.dispose]();
  }
}

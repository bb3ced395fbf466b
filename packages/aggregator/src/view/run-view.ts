// The ports between the socket of a page (view-socket.ts) and the timelines: runs, and one run as its timeline is now. Behind them is the store of a
// growing run, or files.
//
// Invariant: the ports give the current state, never a history, so a page that reads slowly skips states and misses nothing. A view stays valid until
// it is disposed.

import type { HeatCells, Overview, RunGrowth, RunLine, RunModel, RunProfile, ViewPath } from '@ranktrace/protocol';
import type { TraceSink } from '@ranktrace/trace';
import type { HeatMeasure, OverviewRequest, Timeline, ViewProgress } from '@ranktrace/trace/timeline';

/** Runs that pages can open. */
export interface ViewRuns {
  /** The runs as the page lists them. */
  list(): RunLine[];
  /** Begins to index the run, or shares an existing index; dispose the view after use. Rejects with ViewError `no_such_run`. */
  open(run: string): Promise<RunView & Disposable>;
  /** Traces of captures that lie beside a run, in order of name. */
  captures(run: string): readonly CaptureFile[];
  /** Calls `listener` when the list has changed, until the returned function is called. */
  onChange(listener: () => void): () => void;
}

/** One run in its current state. */
export interface RunView {
  readonly timeline: Timeline;
  /** The whole model. */
  model(): RunModel;
  /** Changes since `cursor` (a value that this returned before; undefined: everything); undefined when nothing changed. */
  growth(cursor: GrowthCursor | undefined): { readonly growth: RunGrowth; readonly cursor: GrowthCursor } | undefined;
  /** Steps, ranks and findings; of all steps where no range is given. */
  overview(request: OverviewRequest): Overview;
  /** The critical path of the last analysis; undefined without one. */
  path(): ViewPath | undefined;
  /**
   * Merges the run as it is now into `sink`, event by event: the timeline knows places, not all of an event. It throws ViewError `too_many` where
   * `viewMergesMax` are under way; a caller that stops early calls `return`.
   */
  merge(sink: TraceSink): Generator<ViewProgress, void>;
  /** Cells of the heat map by one measure, over the bins of an overview of the same request. */
  heat(request: OverviewRequest, measure: HeatMeasure): HeatCells;
  /** Tables of one rank, or of all; undefined where there are none (yet). */
  profile(rank?: number): RunProfile | undefined;
  /** Calls `listener` whenever `growth` may have news, until the returned function is called. */
  onGrown(listener: () => void): () => void;
}

/** The trace of a capture. */
export interface CaptureFile {
  /** Name without its directory. */
  readonly name: string;
  readonly path: string;
  readonly bytes: number;
}

/** A page's knowledge of a run: number of names, and all changes up to `revision`. */
export interface GrowthCursor {
  readonly names: number;
  readonly revision: number;
}

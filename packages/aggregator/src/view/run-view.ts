// What pages look at: runs, and one run as its timeline is now. The ports between the socket of a page (view-socket.ts) and whatever holds the
// timelines: the store of a run that grows, or files that somebody wants to see.
//
// Invariant: nothing here is asked for what happened since; state is told as it is now, so a page that reads slowly skips states and misses
// nothing. A view stays valid until it is disposed.

import type { Overview, RunGrowth, RunLine, RunModel } from '@ranktrace/protocol';
import type { Timeline } from '@ranktrace/trace/timeline';

/** Runs that can be looked at. */
export interface ViewRuns {
  /** What there is to open, as the page lists it. */
  list(): RunLine[];
  /** Begins to index the run, or shares what is there; dispose the view when done. Rejects with ViewError `no_such_run`. */
  open(run: string): Promise<RunView & Disposable>;
  /** Calls `listener` when the list has changed, until the returned function is called. */
  onChange(listener: () => void): () => void;
}

/** One run, as it is now. */
export interface RunView {
  readonly timeline: Timeline;
  /** Who there is, whole. */
  model(): RunModel;
  /** What changed since `cursor` (as this gave it before; undefined: everything); undefined when nothing did. */
  growth(cursor: GrowthCursor | undefined): { readonly growth: RunGrowth; readonly cursor: GrowthCursor } | undefined;
  /** Steps, ranks and findings; of all steps where no range is given. */
  overview(request: OverviewRequest): Overview;
  /** Calls `listener` when `growth` may have something new, as often as that is so, until the returned function is called. */
  onGrown(listener: () => void): () => void;
}

/** Which steps, both included, in how many bins at most. */
export interface OverviewRequest {
  readonly fromStep?: number | undefined;
  readonly toStep?: number | undefined;
  readonly bins: number;
}

/** Up to where a page knows a run: how many names, and all changes up to `revision`. */
export interface GrowthCursor {
  readonly names: number;
  readonly revision: number;
}

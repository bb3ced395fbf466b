// The runs that one page has open, and the feeds of their growth.
//
//   open ──► opening ──► model ──► growth, growth, …        until it is closed as often as it was opened, or the page is gone
//               └► requests about the run wait meanwhile
//
// Invariant: an opened view is disposed once, whenever its opening ends; requests about it are cancelled before that.

import type { RunModel, ViewMessage } from '@ranktrace/protocol';
import { aggregatorLimits as limits } from '../model/limits.ts';
import type { RunView, ViewRuns } from './run-view.ts';
import type { StateFeed } from './state-feed.ts';
import { ViewError } from './view-error.ts';

export interface FollowedRunsOptions {
  readonly runs: ViewRuns;
  /** Sends the page the message of `make` whenever the state behind `listen` has changed. */
  readonly feed: (make: () => ViewMessage | undefined, listen: (changed: () => void) => () => void) => StateFeed;
  /** Called with a run that is no longer open. */
  readonly onClose: (run: string) => void;
}

interface Followed {
  readonly view: Promise<RunView & Disposable>;
  /** Number of openings minus closings. */
  opens: number;
  growth: StateFeed | undefined;
}

export class FollowedRuns {
  readonly #options: FollowedRunsOptions;
  readonly #runs = new Map<string, Followed>();

  constructor(options: FollowedRunsOptions) {
    this.#options = options;
  }

  /**
   * Opens a run, or counts one more opening; returns its model once `turn` has resolved. Rejects with ViewError `too_many`, and with any error of
   * `turn` or ViewRuns.
   */
  async open(run: string, turn: () => Promise<void>): Promise<RunModel> {
    const followed = this.#runs.get(run) ?? this.#add(run);
    followed.opens++;
    try {
      const view = await followed.view;
      await turn();
      followed.growth ??= this.#follow(view);
      return view.model();
    } catch (error) {
      this.#leave(run, followed);
      throw error;
    }
  }

  /** The view of a run that is open, or being opened. Throws ViewError `no_such_run`. */
  view(run: string): Promise<RunView> {
    const followed = this.#runs.get(run);
    if (followed === undefined) throw new ViewError('no_such_run', `Cannot look into run "${run}": it is not open`);
    return followed.view;
  }

  /** Undoes one opening. */
  close(run: string): void {
    const followed = this.#runs.get(run);
    if (followed !== undefined) this.#leave(run, followed);
  }

  /** Closes all. */
  end(): void {
    for (const [run, followed] of [...this.#runs]) {
      followed.opens = 1;
      this.#leave(run, followed);
    }
  }

  #add(run: string): Followed {
    if (this.#runs.size >= limits.viewRunsPerPageMax) {
      throw new ViewError('too_many', `Cannot open run "${run}": ${limits.viewRunsPerPageMax} runs are open; close one first`);
    }
    const followed: Followed = { view: openView(this.#options.runs, run), opens: 0, growth: undefined };
    this.#runs.set(run, followed);
    return followed;
  }

  #leave(run: string, followed: Followed): void {
    followed.opens--;
    if (followed.opens > 0 || this.#runs.get(run) !== followed) return;
    this.#runs.delete(run);
    this.#options.onClose(run);
    followed.growth?.[Symbol.dispose]();
    // A run that could not be opened got an error as its answer, and holds nothing.
    followed.view.then(
      (view) => view[Symbol.dispose](),
      () => undefined,
    );
  }

  /** Feeds the run's growth from now on. */
  #follow(view: RunView): StateFeed {
    let cursor = view.growth(undefined)?.cursor;
    const make = (): ViewMessage | undefined => {
      const change = view.growth(cursor);
      cursor = change?.cursor ?? cursor;
      return change?.growth;
    };
    return this.#options.feed(make, (changed) => view.onGrown(changed));
  }
}

const openView = async (runs: ViewRuns, run: string): Promise<RunView & Disposable> => runs.open(run);

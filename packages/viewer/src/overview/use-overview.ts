// The overview of a run, kept up to date while the run grows: requested at most once a second.

import { effect } from '@preact/signals';
import type { Overview } from '@ranktrace/protocol';
import { useEffect, useState } from 'preact/hooks';
import { ConnectionLost } from '../client/connection.ts';
import { pageTimers, Refresher } from '../client/refresh.ts';
import type { RunClient } from '../client/run-client.ts';

/** Steps to show, both ends included; undefined ends: all there are. */
export interface StepRange {
  readonly fromStep?: number;
  readonly toStep?: number;
}

export interface OverviewAnswer {
  /** Undefined until the first answer. After a change of steps, the previous overview until the new one arrives. */
  readonly overview: Overview | undefined;
  /** The steps that `overview` was requested for. */
  readonly of: StepRange;
  /** Reason why there is no overview, or no newer one, for a person. */
  readonly problem: string | undefined;
}

const everyMs = 1000;
/** An analysis ends without anything else of the run changing. */
const unanalysedMs = 2000;

/** Follows the overview of `client`; with `bins` 0 it asks for nothing yet. */
export function useOverview(client: RunClient, bins: number, { fromStep, toStep }: StepRange = {}): OverviewAnswer {
  const [followed, setFollowed] = useState<OverviewAnswer>({ overview: undefined, of: {}, problem: undefined });
  useEffect(() => {
    if (bins === 0) return;
    let isClosed = false;
    let hasFailed = false;
    let isFirst = true;
    let isUnknown = true;
    let stopWaiting: (() => void) | undefined;
    const refresher = new Refresher(async () => {
      stopWaiting?.();
      try {
        const range = { ...(fromStep === undefined ? {} : { fromStep }), ...(toStep === undefined ? {} : { toStep }) };
        const overview = await client.overview(bins, range);
        if (isClosed) return;
        setFollowed({ overview, of: range, problem: undefined });
        if (!overview.analysed) stopWaiting = pageTimers.after(unanalysedMs, () => refresher.changed());
      } catch (error) {
        hasFailed = true;
        // The client reports why a run cannot be opened.
        if (client.model.peek() === undefined) return;
        // When the line is back the model comes anew, and so does this request.
        if (isClosed || error instanceof ConnectionLost) return;
        setFollowed((before) => ({ ...before, problem: (error as Error).message }));
        // A service that was started again may not have opened the run yet.
        stopWaiting = pageTimers.after(unanalysedMs, () => refresher.changed());
      }
    }, everyMs);
    const stopFollowing = effect(() => {
      const model = client.model.value;
      if (isFirst) {
        isFirst = false;
        // Requested together with the model, if that is missing: the service answers both in turn.
        refresher.changed();
        isUnknown = model === undefined;
        return;
      }
      const isToldAll = isUnknown && model !== undefined && !model.live && model.read === model.total && !hasFailed;
      isUnknown = model === undefined;
      if (!isToldAll) refresher.changed();
    });
    return () => {
      isClosed = true;
      stopFollowing();
      stopWaiting?.();
      refresher.close();
    };
  }, [client, bins, fromStep, toStep]);
  return followed;
}

// Two open runs compared, as `ranktrace diff` compares them: each is merged once, and the page gets the differences.

import type { RunDifference, ViewRequest } from '@ranktrace/protocol';
import { displayName } from '@ranktrace/trace';
import { compareRuns, type RunTimes, RunTimesSink } from '@ranktrace/trace/compare';
import type { ViewProgress } from '@ranktrace/trace/timeline';
import type { RunView } from './run-view.ts';
import { ViewError } from './view-error.ts';

export type DiffRequest = Extract<ViewRequest, { type: 'diff' }>;

/** Compares B with A over the steps asked for; `offset` is what a step of B has more than the step of A that it is compared with. */
export function* diffRuns(a: RunView, b: RunView, request: DiffRequest): Generator<ViewProgress, RunDifference> {
  const { fromStep, toStep, offset, failOn } = request;
  if (fromStep !== undefined && toStep !== undefined && toStep < fromStep) {
    throw new ViewError('bad_request', `Cannot answer "diff": toStep (${toStep}) is before fromStep (${fromStep})`);
  }
  const before = yield* timesOf(a, fromStep, toStep, 0);
  const after = yield* timesOf(
    b,
    fromStep === undefined ? undefined : fromStep + offset,
    toStep === undefined ? undefined : toStep + offset,
    1,
  );
  const { names, ...difference } = compareRuns(before, after, failOn);
  return { ...difference, names: names.map((row) => ({ ...row, name: displayName(row.name), group: displayName(row.group) })) };
}

/** `done`: runs that are merged already, of two. */
function* timesOf(view: RunView, first = 0, last = Number.MAX_SAFE_INTEGER, done: number): Generator<ViewProgress, RunTimes> {
  const isWhole = first === 0 && last === Number.MAX_SAFE_INTEGER;
  const sink = new RunTimesSink(isWhole ? {} : { steps: { first, last } });
  for (const progress of view.merge(sink)) {
    const share = progress.total > 0 ? progress.done / progress.total : 0;
    yield { done: done + share, total: 2 };
  }
  return sink.times;
}

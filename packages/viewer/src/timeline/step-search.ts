// Goes to a step by its number. An overview of that step gives its place where each bin holds one step; in longer runs a bin holds several, and the
// step's own spans on the ranks' step tracks are looked up, from the begin of its bin on.

import { limits, type Overview, type RunModel, stepBit } from '@ranktrace/protocol';
import type { RunClient } from '../client/run-client.ts';
import { isReading } from '../overview/reading.ts';
import type { TimelineSession } from './session.ts';
import { fitted } from './viewport.ts';

/** Steps as people and torch write them. */
const stepPattern = /^\s*(?:#|step\s*#?|ProfilerStep#)\s*(\d{1,9})\s*$/i;

/** The step that a search means, unless a name matches. */
export function stepOf(text: string): number | undefined {
  const [, number] = stepPattern.exec(text) ?? [];
  return number === undefined ? undefined : Number(number);
}

/** Whether a run may have this step; undefined while that is not known: it is being read, or goes on. */
export function hasStep(step: number, overview: Overview | undefined, model: RunModel | undefined): boolean | undefined {
  if (overview === undefined || overview.steps === 0 || model === undefined) return undefined;
  if (step >= overview.fromStep && step <= overview.toStep) return true;
  return model.live || isReading(model) ? undefined : false;
}

/** Shows the time of a step, as long as it took on the slowest rank; a live run is not followed any more. */
export async function showStep(session: TimelineSession, step: number): Promise<void> {
  try {
    const range = await rangeOfStep(session.client, session.model?.tracks ?? [], step);
    if (session.isDisposed) return;
    const isPartial = session.model === undefined || isReading(session.model);
    if (range === undefined) session.say(`There is no step ${step} in this run${isPartial ? ' so far' : ''}`);
    else session.show(fitted(range.from, range.until));
  } catch (error) {
    session.say((error as Error).message);
  }
}

export interface StepPlace {
  readonly from: number;
  readonly until: number;
}

/** Where a step is, in trace time, ns; undefined where there is none. */
export async function rangeOfStep(
  client: Pick<RunClient, 'overview' | 'find'>,
  tracks: Pick<RunModel, 'tracks'>['tracks'],
  step: number,
): Promise<StepPlace | undefined> {
  const { times, fromStep, steps, ranks, slowest, median } = await client.overview(1, { fromStep: step, toStep: step });
  const [from] = times;
  if (from === undefined) return undefined;
  const isAlone = fromStep === step && steps <= 1 && ranks.every((rank) => rank.steps === 1);
  if (isAlone) return { from, until: from + (slowest[0] ?? median[0] ?? 0) };
  const among = tracks
    .filter(({ kind }) => kind === 'steps')
    .map(({ track }) => track)
    .slice(0, limits.viewTracksMax);
  const find = (time: number, direction: 'next' | 'previous') => client.find([stepBit + step], among, time, direction);
  const first = among.length === 0 ? null : await find(from - 1, 'next');
  if (first === null) return undefined;
  const end = first.start + first.length;
  // The last rank to begin it: all do nearly together, and one that repeats the step does so later.
  const last = await find(end, 'previous');
  return { from: first.start, until: Math.max(end, last === null ? end : last.start + last.length) };
}

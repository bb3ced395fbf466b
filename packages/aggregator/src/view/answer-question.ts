// Answers questions about an open run from its timeline. All are generators; long ones yield their progress: the driver decides when to breathe, and
// cancels them by not going on.

import type { ViewRequest } from '@ranktrace/protocol';
import type { Timeline, ViewProgress } from '@ranktrace/trace/timeline';
import type { RunView } from './run-view.ts';
import { ViewError } from './view-error.ts';

/** A request that needs nothing but the run. */
export type RunQuestion = Extract<
  ViewRequest,
  { type: 'event' | 'links' | 'area' | 'flame' | 'search' | 'find' | 'overview' | 'path' | 'heat' | 'profile' }
>;

/** Answers one question; throws ViewError `bad_request`, `no_such_track`, `no_such_event`. */
export function* answerQuestion(
  view: Pick<RunView, 'timeline' | 'overview' | 'path' | 'heat' | 'profile'>,
  question: RunQuestion,
): Generator<ViewProgress, unknown> {
  const { timeline } = view;
  if ('tracks' in question) checkTracks(timeline, question.tracks);
  if ('from' in question && question.until < question.from) {
    throw new ViewError('bad_request', `Cannot answer "${question.type}": until (${question.until}) is before from (${question.from})`);
  }
  switch (question.type) {
    case 'event':
      return eventOf(timeline, question.track, question.event);
    case 'links':
      return timeline.links(question.from, question.until, question.tracks);
    case 'area':
      return yield* timeline.area(question.from, question.until, question.tracks);
    case 'flame':
      return yield* timeline.flame(question.from, question.until, question.tracks, question.split);
    case 'search':
      return timeline.search(question.text);
    case 'find':
      return yield* timeline.find(question.names, question.tracks, question.time, question.direction, question.depth, question.past);
    case 'path':
      return view.path() ?? null;
    case 'overview':
      return view.overview(question);
    case 'heat':
      return view.heat(question, question);
    case 'profile':
      return view.profile(question.rank) ?? null;
  }
}

/** Throws ViewError `no_such_track` unless the run has them all. */
export function checkTracks(timeline: Timeline, tracks: readonly number[]): void {
  for (const track of tracks) {
    if (timeline.track(track) === undefined) throw new ViewError('no_such_track', `Cannot show track ${track}: the run has no such track`);
  }
}

function eventOf(timeline: Timeline, track: number, event: number): unknown {
  checkTracks(timeline, [track]);
  const details = timeline.event(track, event);
  if (details === undefined) throw new ViewError('no_such_event', `Cannot show event ${event} of track ${track}: there is no such event`);
  return details;
}

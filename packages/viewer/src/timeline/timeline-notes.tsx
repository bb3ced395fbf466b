// Texts of the timeline: begin of the window, reason for an empty view, selection.

import type { RunModel } from '@ranktrace/protocol';
import type { JSX } from 'preact';
import { formatDuration, formatMany, formatTime, formatWallClock } from '../controls/format.ts';
import { rankCount } from '../overview/rank-lives.ts';
import { isReading, readingText } from '../overview/reading.ts';
import type { TimelineSession } from './session.ts';
import { lengthOf } from './viewport.ts';

/** The corner above the headers shows the window's begin in wall-clock time, and its length. */
export function Corner({ session }: { session: TimelineSession }): JSX.Element {
  const window = session.window.value;
  const model = session.client.model.value;
  const clock = model === undefined ? undefined : formatWallClock(model.unixEpoch, window.from);
  const zero = session.zero.value;
  const grain = lengthOf(window) / 100;
  return (
    <div class="corner" title={`The window begins at ${clock ?? formatTime(window.from - zero, grain)}`}>
      <span>{clock ?? formatTime(window.from - zero, grain)}</span>
      <span>{formatDuration(lengthOf(window))}</span>
    </div>
  );
}

/** Shown in the middle of the lanes, where there are none. */
export function EmptyNote({ session }: { session: TimelineSession }): JSX.Element | null {
  const model = session.client.model.value;
  const problem = session.client.problem.value;
  if (problem !== undefined && model === undefined) {
    return (
      <div class="empty" role="alert">
        <strong>This run cannot be shown</strong>
        <span>{problem}</span>
      </div>
    );
  }
  if (model === undefined) {
    return (
      <div class="empty" role="status">
        <span class="muted">Opening {session.client.run} …</span>
      </div>
    );
  }
  if (model.processes.length === 0) {
    return (
      <div class="empty" role="status">
        <strong>{nothingText(model)}</strong>
        <span>
          {isReading(model) ? 'The first ranks appear in a moment.' : model.live ? 'Ranks appear here as soon as they send something.' : ''}
        </span>
      </div>
    );
  }
  if (model.tracks.length === 0) {
    return (
      <div class="empty" role="status">
        <strong>{isReading(model) ? `${readingText(model)} …` : 'No events yet'}</strong>
        <span>
          {rankCount(model.processes)} of {formatMany(model.worldSize, 'rank')} {rankCount(model.processes) === 1 ? 'is' : 'are'} there
          {isReading(model) ? '.' : ', none has recorded anything.'}
        </span>
      </div>
    );
  }
  if (!session.overview.isSettled.value && session.layout.value.rows.length === 0) {
    return (
      <div class="empty" role="status">
        <span class="muted">Looking for the ranks that stand out …</span>
      </div>
    );
  }
  return null;
}

const nothingText = (model: RunModel): string =>
  isReading(model) ? `${readingText(model)} …` : model.live ? 'Nothing recorded yet' : 'There is nothing in this run';

/** Announces the selected span to screen readers. */
export function LiveRegion({ session }: { session: TimelineSession }): JSX.Element {
  const details = session.details.value;
  const process = details === undefined ? undefined : session.processes.value.get(session.tracks.value.get(details.track)?.process ?? -1);
  return (
    <div class="only-aloud" aria-live="polite">
      {details !== undefined &&
        `${details.name}, ${details.kind}, ${formatDuration(details.length)}${details.open ? ' so far' : ''}${process === undefined ? '' : `, rank ${process.rank}`}`}
    </div>
  );
}

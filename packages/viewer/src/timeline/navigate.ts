// Goes from one event to another, and brings it into view: by the arrow keys among drawn events, by name through the service, by a jump from another
// view.

import { batch } from '@preact/signals';
import type { EventPlace } from '@ranktrace/protocol';
import { type JumpTarget, showRange } from '../client/view-state.ts';
import { pinnedBottom } from './frame-painter.ts';
import { type Item, itemBeside, itemOver } from './hit.ts';
import { lineHeight, type Row, ranksOpenMax } from './rows.ts';
import type { TimelineSession } from './session.ts';
import { fitted, lengthOf, panned } from './viewport.ts';

type Place = Pick<EventPlace, 'track' | 'event' | 'start' | 'length' | 'depth'>;

/** Names that one request may look for (`limits.viewNamesFoundMax`). */
const namesFoundMax = 1024;

/** Selects an event from the service, and shows it. */
export function goTo(session: TimelineSession, { track, event, start, length, depth }: Place): void {
  batch(() => {
    session.place.value = { track, event, start, length, depth };
    session.mergedCount.value = 1;
    session.state.selected.value = { track, event };
  });
  reveal(session, { track, start, length, depth });
}

/** Brings an event into view: unfolds its row, scrolls there, and moves the window if it must. */
export function reveal(session: TimelineSession, { track, start, length, depth }: Omit<Place, 'event'>): void {
  const window = session.window.peek();
  const end = start + length;
  if (length > lengthOf(window)) {
    if (end < window.from || start > window.until) session.show(fitted(start, end));
  } else if (start < window.from || end > window.until) {
    session.show(panned(window, (start + end) / 2 - (window.from + window.until) / 2));
  }
  revealRow(session, track, depth);
}

/** Unfolds the row of a track and scrolls to it. */
export function revealRow(session: TimelineSession, track: number, depth = 0): void {
  const row = openRow(session, track);
  if (row === undefined) return;
  const { height } = session.size.peek();
  const visible = height - pinnedBottom(session.layout.peek(), height);
  const top = row.top + (row.kind === 'track' ? depth * lineHeight : 0);
  const at = session.scrollTop.peek();
  if (top < at + 8) session.scrollGoal.value = Math.max(0, row.top - 40);
  else if (top + 3 * lineHeight > at + visible) session.scrollGoal.value = Math.max(0, top - visible / 2);
}

/**
 * The selected event's neighbour: at once if the drawn tiles hold it, else the next or previous one on its track, of its depth if there is any, from
 * the service. Without a selection, the first lane's largest.
 */
export async function selectBeside(session: TimelineSession, direction: 'next' | 'previous' | 'up' | 'down'): Promise<void> {
  const place = session.place.peek();
  const found =
    place === undefined
      ? firstOf(session)
      : direction === 'up' || direction === 'down'
        ? lanewards(session, place, direction)
        : sidewards(session, place, direction);
  if (found === undefined) {
    if (direction === 'up' || direction === 'down') session.say(direction === 'up' ? 'Nothing above' : 'Nothing below');
    else if (place === undefined) session.say('Nothing to select near here');
    else await find(session, [], [place.track], place.start, direction, place.depth);
    return;
  }
  session.select(found);
  reveal(session, found);
}

/** The next or previous event of the same name on the same track; for a step, the adjacent step. */
export async function selectSameName(session: TimelineSession, direction: 'next' | 'previous'): Promise<void> {
  const place = session.place.peek();
  const details = session.details.peek();
  if (place === undefined || details === undefined) return;
  if (details.kind === 'step') {
    await selectBeside(session, direction);
    return;
  }
  const name = session.model?.names.indexOf(details.name) ?? -1;
  if (name >= 0) await find(session, [name], [place.track], place.start, direction);
}

/** The next or previous match of the search, anywhere; of one name, if `only` is given. */
export async function selectMatch(session: TimelineSession, direction: 'next' | 'previous', only?: number): Promise<void> {
  const found = session.matches.peek()?.result.names ?? [];
  const names = only === undefined ? found.slice(0, namesFoundMax).map(({ name }) => name) : [only];
  if (names.length === 0) return;
  const window = session.window.peek();
  const place = session.place.peek();
  // Starts from the selection while it is in view, else from the window's edge.
  const isSeen = place !== undefined && place.start + place.length > window.from && place.start < window.until;
  await find(session, names, [], isSeen ? place.start : direction === 'next' ? window.from : window.until, direction);
}

/** Zooms to the marked area or the selected event, whichever the panel shows, else to the whole run. */
export function fitSelection(session: TimelineSession): void {
  const area = session.state.area.peek();
  const place = session.place.peek();
  const panel = session.panel.peek();
  if (panel === 'area' && area !== undefined) session.show(fitted(area.from, area.until));
  else if (panel === 'details' && place !== undefined) session.show(fitted(place.start, place.start + place.length));
  else session.showWhole();
}

/** Marks the time of the selected event on all tracks of its process. */
export function markSelection(session: TimelineSession): void {
  const place = session.place.peek();
  if (place === undefined) return;
  const process = session.tracks.peek().get(place.track)?.process;
  const tracks = (session.model?.tracks ?? []).filter((track) => track.process === process).map(({ track }) => track);
  session.state.area.value = { from: place.start, until: place.start + Math.max(place.length, 1), tracks };
}

/** Goes to the target of `jump`; returns false while its place is unknown. */
export function goToTarget(session: TimelineSession, target: JumpTarget): boolean {
  const { model } = session;
  if (model === undefined || session.size.peek().height === 0) return false;
  // The outliers among the ranks determine the place of the rows.
  if (!session.overview.isSettled.peek() && model.processes.length > ranksOpenMax) return false;
  const first = target.ranks?.[0];
  const process = first === undefined ? undefined : model.processes.findLast(({ rank }) => rank === first);
  const track = process === undefined ? undefined : model.tracks.find((each) => each.process === process.index);
  if (track !== undefined) revealRow(session, track.track);
  if (target.event !== undefined) revealRow(session, target.event.track);
  if (target.from === undefined && target.step !== undefined) void showStep(session, target.step);
  return true;
}

/** Shows the time of a step, as long as it took on the slowest rank. */
export async function showStep(session: TimelineSession, step: number): Promise<void> {
  try {
    const overview = await session.client.overview(1, { fromStep: step, toStep: step });
    const [start] = overview.times;
    const length = overview.slowest[0] ?? overview.median[0] ?? undefined;
    if (session.isDisposed) return;
    if (start === undefined || length === undefined) session.say(`There is no step ${step} in this run`);
    else showRange(session.state, start, start + length);
  } catch (error) {
    session.say((error as Error).message);
  }
}

async function find(
  session: TimelineSession,
  names: readonly number[],
  tracks: readonly number[],
  time: number,
  direction: 'next' | 'previous',
  depth?: number,
): Promise<void> {
  const before = session.state.selected.peek();
  try {
    const place = await session.client.find(names, tracks, time, direction, depth);
    // Another event was chosen meanwhile.
    if (session.isDisposed || session.state.selected.peek() !== before) return;
    if (place === null) session.say(direction === 'next' ? 'None later' : 'None earlier');
    else goTo(session, place);
  } catch (error) {
    session.say((error as Error).message);
  }
}

function sidewards(session: TimelineSession, place: Place, direction: 'next' | 'previous'): Item | undefined {
  const track = session.tracks.peek().get(place.track);
  return track === undefined ? undefined : itemBeside(session.partsOf(track), place.depth, place.start, place.event, direction);
}

// The enclosing or enclosed span on the same lane, else the one at that time on the next lane that has any.
function lanewards(session: TimelineSession, place: Place, direction: 'up' | 'down'): Item | undefined {
  const by = direction === 'down' ? 1 : -1;
  const { rows } = session.layout.peek();
  let depth = place.depth + by;
  for (let at = rows.findIndex((row) => row.track?.track === place.track); at >= 0 && at < rows.length; at += by) {
    const row = rows[at] as Row;
    if (row.track === undefined || row.kind === 'counter') continue;
    const isOther = row.track.track !== place.track;
    const lines = row.kind === 'rank' ? 1 : Math.max(1, row.track.depth);
    if (isOther) depth = direction === 'down' ? 0 : lines - 1;
    const parts = session.partsOf(row.track);
    for (; depth >= 0 && depth < lines; depth += by) {
      const found = itemOver(parts, depth, place.start, place.start + place.length);
      if (found !== undefined && (isOther || overlaps(found, place))) return found;
    }
  }
  return undefined;
}

function firstOf(session: TimelineSession): Item | undefined {
  const window = session.window.peek();
  for (const row of session.layout.peek().rows) {
    if (row.track === undefined || row.kind !== 'track') continue;
    const found = itemOver(session.partsOf(row.track), 0, window.from, window.until);
    if (found !== undefined) return found;
  }
  return undefined;
}

// Unfolds rank and group of a track, and returns its row.
function openRow(session: TimelineSession, track: number): Row | undefined {
  const found = session.tracks.peek().get(track);
  const process = found === undefined ? undefined : session.processes.peek().get(found.process);
  if (found === undefined || process === undefined) return undefined;
  // Group, rank and counters may be folded.
  for (let attempt = 0; attempt < 4; attempt++) {
    const { rows } = session.layout.peek();
    const row = rows.find((each) => each.track?.track === track);
    if (row !== undefined) return row;
    const isHidden = ({ kind, isFolded, ranks, process: of }: Row): boolean =>
      isFolded &&
      (kind === 'group' || kind === 'rest'
        ? ranks.includes(process.rank)
        : of?.index === process.index && (kind === 'rank' || (kind === 'counters' && found.kind === 'counter')));
    const closed = rows.find(isHidden);
    if (closed === undefined) return undefined;
    if (closed.kind !== 'rest') session.toggle(closed);
    else session.state.highlighted.value = new Set([process.rank, ...session.state.highlighted.peek()]);
  }
  return undefined;
}

const overlaps = (a: Pick<Place, 'start' | 'length'>, b: Pick<Place, 'start' | 'length'>): boolean =>
  a.start < b.start + b.length + 1 && b.start < a.start + a.length + 1;

// Goes from one event to another, and brings it into view: by the arrow keys among drawn events, by name through the service, by a jump from another
// view.

import { batch } from '@preact/signals';
import { type EventPlace, frameLine, isBeside, type ViewTrack } from '@ranktrace/protocol';
import { livesOf } from '../client/track-keys.ts';
import { type JumpTarget, select } from '../client/view-state.ts';
import { pinnedBottom } from './frame-painter.ts';
import { type Item, itemBeside, itemOver } from './hit.ts';
import { layerOf } from './layers.ts';
import { placeIn, rowOf } from './row-lines.ts';
import { lineHeight, type Row, ranksOpenMax } from './rows.ts';
import type { TimelineSession } from './session.ts';
import { showStep, stepOf } from './step-search.ts';
import { fitted, lengthOf, panned } from './viewport.ts';

type Place = Pick<EventPlace, 'track' | 'event' | 'start' | 'length' | 'depth'>;

/** Names that one request may look for (`limits.viewNamesFoundMax`). */
const namesFoundMax = 1024;

/** Selects an event from the service, and shows it. */
export function goTo(session: TimelineSession, { track, event, start, length, depth }: Place): void {
  batch(() => {
    session.place.value = { track, event, start, length, depth };
    session.mergedCount.value = 1;
    select(session.state, { track, event });
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
  const row = openRow(session, track, depth);
  if (row !== undefined) scrollTo(session, row, track, depth);
}

/** Scrolls to the selected event if it is on a row that is not in view, as after the panel opened over it. */
export function keepInView(session: TimelineSession): void {
  const place = session.place.peek();
  const row = place === undefined ? undefined : rowOf(session.layout.peek().rows, place.track, place.depth);
  if (place !== undefined && row !== undefined) scrollTo(session, row, place.track, place.depth);
}

/** Room for the header that stays at the top. */
const stickyPx = 40;

function scrollTo(session: TimelineSession, row: Row, track: number, depth: number): void {
  const { height } = session.size.peek();
  const visible = height - pinnedBottom(session.layout.peek(), height);
  const top = row.top + (placeIn(row, track, depth)?.top ?? 0);
  const at = session.scrollTop.peek();
  const isBelow = top + 2 * lineHeight > at + visible;
  if (top < at + (row.kind === 'track' ? stickyPx : 8)) session.scrollGoal.value = Math.max(0, top - stickyPx - 4);
  else if (isBelow) session.scrollGoal.value = Math.max(0, Math.min(top - stickyPx, top - visible / 2));
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
    else await find(session, [], [place.track], place.start, direction, { depth: place.depth, past: place });
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
  if (name >= 0) await find(session, [name], [place.track], place.start, direction, { past: place });
}

/** Goes to the next match of the typed text, at once or when its names are known; to a step where none matches. */
export function goToMatch(session: TimelineSession, direction: 'next' | 'previous'): void {
  const text = session.state.search.peek().trim();
  const matches = session.matches.peek();
  if (text === '') return;
  if (matches?.text !== text) {
    session.wantedMatch = direction;
    return;
  }
  const step = stepOf(text);
  if (step !== undefined && matches.result.names.length === 0) void showStep(session, step);
  else if (matches.result.names.length === 0) session.say(`No name holds “${text}”`);
  else void selectMatch(session, direction);
}

/** The next or previous match of the search, anywhere; of one name, if `only` is given. Zooms to it where it is too small to be seen. */
export const selectMatch = (session: TimelineSession, direction: 'next' | 'previous', only?: number): Promise<void> =>
  session.queueFind(() => findMatch(session, direction, only));

async function findMatch(session: TimelineSession, direction: 'next' | 'previous', only: number | undefined): Promise<void> {
  const found = session.matches.peek()?.result.names ?? [];
  const names = only === undefined ? found.slice(0, namesFoundMax).map(({ name }) => name) : [only];
  if (names.length === 0) return;
  const window = session.window.peek();
  const place = session.place.peek();
  // Starts from the selection while it is in view, else from the window's edge.
  const isSeen = place !== undefined && place.start + place.length > window.from && place.start < window.until;
  // One that begins at the window's left edge is in view, too.
  const from = isSeen ? place.start : direction === 'next' ? window.from - 1 : window.until;
  const edge = direction === 'next' ? Number.MIN_SAFE_INTEGER : Number.MAX_SAFE_INTEGER;
  // After the last match comes the first one.
  if (await find(session, names, [], from, direction, { isQuiet: true, ...(isSeen && { past: place }) })) zoomToSelection(session);
  else if (await find(session, names, [], edge, direction)) {
    zoomToSelection(session);
    session.say(direction === 'next' ? 'From the beginning again' : 'From the end again');
  }
}

/** A found event takes at least this many pixels, and then this part of the window. */
const seenPxMin = 24;
const seenPart = 1 / 8;
/** Shortest window around a found event, ns. */
const seenNsMin = 10_000;

function zoomToSelection(session: TimelineSession): void {
  const place = session.place.peek();
  if (place === undefined) return;
  const window = session.window.peek();
  const wanted = Math.max(place.length / seenPart, seenNsMin);
  const px = (place.length / lengthOf(window)) * session.size.peek().width;
  if (place.length > lengthOf(window)) session.show(fitted(place.start, place.start + place.length));
  if (px >= seenPxMin || wanted >= lengthOf(window)) return;
  const middle = place.start + place.length / 2;
  session.show({ from: middle - wanted / 2, until: middle + wanted / 2 });
}

/** Goes to a segment of the critical path: its span is selected, and wide enough to be seen. */
export function goToSegment(session: TimelineSession, at: number): void {
  const segment = session.path.peek()?.segments[at];
  if (segment === undefined) return;
  session.pathAt.value = at;
  const { start, end, place } = segment;
  if (place !== null) goTo(session, place);
  const window = session.window.peek();
  const px = ((end - start) / lengthOf(window)) * session.size.peek().width;
  if (px < seenPxMin || start < window.from || end > window.until) {
    const half = Math.max((end - start) / seenPart, seenNsMin) / 2;
    session.show({ from: (start + end) / 2 - half, until: (start + end) / 2 + half });
  }
  session.showPanel('path');
}

/** The next or previous segment of the path: of the one last looked at, else the first in view. */
export function stepAlongPath(session: TimelineSession, by: 1 | -1): void {
  const segments = session.path.peek()?.segments ?? [];
  if (segments.length === 0) return;
  const { from } = session.window.peek();
  const at = session.pathAt.peek();
  const next = at === undefined ? segments.findIndex(({ end }) => end > from) : at + by;
  if (next < 0 || next >= segments.length) session.say(by > 0 ? 'The path ends here' : 'The path begins here');
  else goToSegment(session, next);
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
  const keys = session.keys.peek()?.of(tracks) ?? [];
  session.state.area.value = { from: place.start, until: place.start + Math.max(place.length, 1), tracks: keys };
}

/** Keeps the lane of the selected event at the top, or no longer. */
export function pinSelection(session: TimelineSession): void {
  const place = session.place.peek();
  const row = place && rowOf(session.layout.peek().rows, place.track, place.depth);
  if (row !== undefined) session.togglePin(row.key);
}

/** Goes to the target of `jump`; returns false while its place is unknown. */
export function goToTarget(session: TimelineSession, target: JumpTarget): boolean {
  const { model } = session;
  if (model === undefined || session.size.peek().height === 0) return false;
  // The outliers among the ranks determine the place of the rows.
  if (!session.overview.isSettled.peek() && model.processes.length > ranksOpenMax) return false;
  const first = target.ranks?.[0];
  const lives = livesOf(model.processes.filter(({ rank }) => rank === first)).map(({ process }) => process);
  const { process: wanted, from = Number.POSITIVE_INFINITY } = target;
  const own = lives.filter(({ incarnation }) => !isBeside(incarnation));
  const meant =
    wanted === undefined
      ? (own.find(({ until }) => until >= from) ?? own.at(-1) ?? lives.at(-1))
      : lives.find(({ index }) => index === wanted);
  if (meant !== undefined) revealRank(session, meant.index);
  if (target.event !== undefined) revealRow(session, target.event.track);
  if (target.from === undefined && target.step !== undefined) void showStep(session, target.step);
  return true;
}

// The rank's own row: its steps, whatever else of it is shown.
function revealRank(session: TimelineSession, process: number): void {
  const steps = session.model?.tracks.find((each) => each.process === process && each.kind === 'steps');
  if (steps !== undefined) {
    revealRow(session, steps.track);
    return;
  }
  const row = session.layout.peek().rows.find((each) => each.kind === 'rank' && each.process?.index === process);
  if (row !== undefined) scrollTo(session, row, -1, 0);
}

async function find(
  session: TimelineSession,
  names: readonly number[],
  tracks: readonly number[],
  time: number,
  direction: 'next' | 'previous',
  { depth, past, isQuiet = false }: { readonly depth?: number; readonly past?: Place; readonly isQuiet?: boolean } = {},
): Promise<boolean> {
  const before = session.state.selected.peek();
  try {
    const place = await session.client.find(names, tracks, time, direction, depth, past);
    // Another event was chosen meanwhile.
    if (session.isDisposed || session.state.selected.peek() !== before) return false;
    if (place === null && isQuiet) return false;
    if (place === null) session.say(direction === 'next' ? 'None later' : 'None earlier');
    else goTo(session, place);
    return place !== null;
  } catch (error) {
    session.say((error as Error).message);
    return false;
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
  const own = rows.findIndex((row) => placeIn(row, place.track, place.depth) !== undefined);
  for (let at = own; at >= 0 && at < rows.length; at += by) {
    const row = rows[at] as Row;
    if (row.kind === 'counter') continue;
    // From the top: a folded rank has its steps, then the tracks on its line, those painted last on top.
    const tracks = [...(row.track === undefined ? [] : [row.track]), ...row.lanes.toReversed()];
    const mine = at === own ? tracks.findIndex(({ track }) => track === place.track) : -1;
    for (let of = mine >= 0 ? mine : direction === 'down' ? 0 : tracks.length - 1; of >= 0 && of < tracks.length; of += by) {
      const track = tracks[of] as ViewTrack;
      const isOther = of !== mine;
      const [first, lines] = row.kind === 'track' ? [row.firstLine, row.lines] : [0, Math.max(1, track.depth)];
      if (isOther) depth = direction === 'down' ? first : first + lines - 1;
      const parts = session.partsOf(track);
      for (; depth >= first && depth < first + lines; depth += by) {
        const found = itemOver(parts, depth, place.start, place.start + place.length);
        if (found !== undefined && (isOther || overlaps(found, place))) return found;
      }
    }
  }
  return undefined;
}

function firstOf(session: TimelineSession): Item | undefined {
  const window = session.window.peek();
  for (const row of session.layout.peek().rows) {
    const track = row.kind === 'track' ? row.track : row.lanes.at(-1);
    const found = track && itemOver(session.partsOf(track), row.firstLine, window.from, window.until);
    if (found !== undefined) return found;
  }
  return undefined;
}

// Unfolds rank and group of a track, and returns its row.
function openRow(session: TimelineSession, track: number, depth: number): Row | undefined {
  const found = session.tracks.peek().get(track);
  const process = found === undefined ? undefined : session.processes.peek().get(found.process);
  if (found === undefined || process === undefined) return undefined;
  showLayerOf(session, found, depth);
  // Group, rank and counters may be folded.
  for (let attempt = 0; attempt < 4; attempt++) {
    const { rows } = session.layout.peek();
    const row = found.kind === 'counter' ? rows.find((each) => each.track?.track === track) : rowOf(rows, track, depth);
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

// A layer that a person has hidden is shown again for an event of it.
function showLayerOf(session: TimelineSession, track: ViewTrack, depth: number): void {
  const layer = depth >= frameLine ? 'frames' : layerOf(track);
  const hidden = session.state.hidden.peek();
  if (layer !== undefined && hidden.has(layer)) session.state.hidden.value = new Set([...hidden].filter((each) => each !== layer));
}

const overlaps = (a: Pick<Place, 'start' | 'length'>, b: Pick<Place, 'start' | 'length'>): boolean =>
  a.start < b.start + b.length + 1 && b.start < a.start + a.length + 1;

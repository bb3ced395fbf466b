// The next event, of given names or of any: blocks that cannot hold a nearer one than the best so far are not read.

import { type EventPlace, stepBit } from '@ranktrace/protocol';
import { placeOf } from './event-place.ts';
import type { IndexParts } from './index-parts.ts';
import type { NameTable } from './name-table.ts';
import { SpanTrack } from './span-track.ts';
import type { ViewProgress } from './timeline.ts';
import type { TrackTimeline } from './track-timeline.ts';

export interface EventsFound {
  readonly names: readonly number[];
  /** Trace time, ns. */
  readonly time: number;
  readonly direction: 'next' | 'previous';
  readonly depth?: number | undefined;
  readonly past?: Pick<EventPlace, 'track' | 'event'> | undefined;
}

/** Place of an event among all: by its start, then by the place of its track, then by its number. */
interface Order {
  readonly start: number;
  readonly track: number;
  readonly event: number;
}

/**
 * The first event of one of `names` that starts after `time` on these tracks, or the last one that starts before it. Without `names` any event
 * counts. With a `depth`, the first one of that depth at any distance; one of another depth only if there is none. Of events that start at `time`,
 * those beyond `past` count; without it none.
 */
export function* findEvents(
  { names: table }: IndexParts,
  tracks: readonly TrackTimeline[],
  { names, time, direction, depth, past }: EventsFound,
): Generator<ViewProgress, EventPlace | undefined> {
  const isWanted = wantedNames(table, names);
  const spans = tracks.filter((track) => track instanceof SpanTrack);
  const total = spans.reduce((sum, track) => sum + track.events, 0);
  const isNext = direction === 'next';
  const sign = isNext ? 1 : -1;
  const pastTrack = past === undefined ? -1 : spans.findIndex(({ id }) => id === past.track);
  const origin: Order = {
    start: time,
    track: pastTrack < 0 ? sign * Number.POSITIVE_INFINITY : pastTrack,
    event: past?.event ?? 0,
  };
  const away = (start: number, track: number, event: number, from: Order): number =>
    sign * (start - from.start || track - from.track || event - from.event);
  let done = 0;
  let best: (Order & { readonly place: EventPlace }) | undefined;
  // The best event of another depth than requested.
  let other: (Order & { readonly place: EventPlace }) | undefined;
  for (const [at, track] of spans.entries()) {
    const { log } = track;
    const { clock } = track.process;
    const blocks = log.blocks;
    for (let step = 0; step < blocks && step < log.blocks; step++) {
      const block = isNext ? step : blocks - 1 - step;
      done += log.rowsOf(block);
      // The block's starts lie between these two times.
      const [first, last] = [clock.toTrace(log.from(block)), clock.toTrace(log.until(block))];
      const isOutside = isNext
        ? last < time || (best !== undefined && first > best.start)
        : first > time || (best !== undefined && last < best.start);
      if (isOutside) continue;
      const { name, start, depth: depths } = log.read(block);
      let [found, otherFound]: [Order?, Order?] = [];
      for (let row = 0; row < log.rowsOf(block); row++) {
        if (!isWanted(name[row] as number)) continue;
        const [begin, event] = [clock.toTrace(start[row] as number), log.first(block) + row];
        if (away(begin, at, event, origin) <= 0) continue;
        const isSame = depth === undefined || depths[row] === depth;
        if (!isSame && best !== undefined) continue;
        const nearest = isSame ? (found ?? best) : (otherFound ?? other);
        if (nearest !== undefined && away(begin, at, event, nearest) >= 0) continue;
        if (isSame) found = { start: begin, track: at, event };
        else otherFound = { start: begin, track: at, event };
      }
      const placed = (of: Order) => ({ ...of, place: placeOf(table, track, block, of.event - log.first(block)) });
      if (found !== undefined) best = placed(found);
      else if (otherFound !== undefined) other = placed(otherFound);
      yield { done, total };
    }
  }
  return (best ?? other)?.place;
}

function wantedNames(table: NameTable, names: readonly number[]): (name: number) => boolean {
  if (names.length === 0) return () => true;
  const isWanted = new Uint8Array(table.length);
  const steps = new Set<number>();
  for (const name of names) {
    if (name >= stepBit) steps.add(name);
    else if (name < isWanted.length) isWanted[name] = 1;
  }
  return (name) => isWanted[name] === 1 || (steps.size > 0 && steps.has(name));
}

// The next event, of given names or of any: blocks that cannot hold a nearer one than the best so far are not read.

import { type EventPlace, stepBit } from '@ranktrace/protocol';
import { placeOf } from './event-place.ts';
import type { IndexParts } from './index-parts.ts';
import type { NameTable } from './name-table.ts';
import { SpanTrack } from './span-track.ts';
import type { ViewProgress } from './timeline.ts';
import type { TrackTimeline } from './track-timeline.ts';

/**
 * The first event of one of `names` that starts after `time` (trace, ns) on these tracks, or the last one that starts before it. Without
 * `names` any event counts. With a `depth`, the first one of that depth at any distance; one of another depth only if there is none.
 */
export function* findEvents(
  { names: table }: IndexParts,
  tracks: readonly TrackTimeline[],
  names: readonly number[],
  time: number,
  direction: 'next' | 'previous',
  depth?: number,
): Generator<ViewProgress, EventPlace | undefined> {
  const isWanted = wantedNames(table, names);
  const spans = tracks.filter((track) => track instanceof SpanTrack);
  const total = spans.reduce((sum, track) => sum + track.events, 0);
  const isNext = direction === 'next';
  const isNearer = (start: number, than: number | undefined): boolean =>
    isNext ? start > time && (than === undefined || start < than) : start < time && (than === undefined || start > than);
  let done = 0;
  let best: EventPlace | undefined;
  // The best event of another depth than requested.
  let other: EventPlace | undefined;
  for (const track of spans) {
    const { log } = track;
    const { clock } = track.process;
    const blocks = log.blocks;
    for (let step = 0; step < blocks && step < log.blocks; step++) {
      const block = isNext ? step : blocks - 1 - step;
      done += log.rowsOf(block);
      // The block's starts lie between these two times.
      const [first, last] = [clock.toTrace(log.from(block)), clock.toTrace(log.until(block))];
      const isOutside = isNext
        ? last <= time || (best !== undefined && first >= best.start)
        : first >= time || (best !== undefined && last <= best.start);
      if (isOutside) continue;
      const { name, start, depth: depths } = log.read(block);
      let [found, otherFound] = [-1, -1];
      let [foundAt, otherAt] = [best?.start, other?.start];
      for (let row = 0; row < log.rowsOf(block); row++) {
        if (!isWanted(name[row] as number)) continue;
        const at = clock.toTrace(start[row] as number);
        if (depth === undefined || depths[row] === depth) {
          if (isNearer(at, foundAt)) [found, foundAt] = [row, at];
        } else if (best === undefined && isNearer(at, otherAt)) [otherFound, otherAt] = [row, at];
      }
      if (found >= 0) best = placeOf(table, track, block, found);
      else if (otherFound >= 0) other = placeOf(table, track, block, otherFound);
      yield { done, total };
    }
  }
  return best ?? other;
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

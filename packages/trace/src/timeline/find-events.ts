// The next event of some names: blocks that cannot hold a nearer one than the best so far are not read.

import { type EventPlace, stepBit } from '@ranktrace/protocol';
import { placeOf } from './event-place.ts';
import type { IndexParts } from './index-parts.ts';
import { SpanTrack } from './span-track.ts';
import type { ViewProgress } from './timeline.ts';
import type { TrackTimeline } from './track-timeline.ts';

/** The first event of one of `names` that starts after `time` (trace, ns) on these tracks, or the last one that starts before it. */
export function* findEvents(
  { names: table }: IndexParts,
  tracks: readonly TrackTimeline[],
  names: readonly number[],
  time: number,
  direction: 'next' | 'previous',
): Generator<ViewProgress, EventPlace | undefined> {
  const isWanted = new Uint8Array(table.length);
  const steps = new Set<number>();
  for (const name of names) {
    if (name >= stepBit) steps.add(name);
    else if (name < isWanted.length) isWanted[name] = 1;
  }
  const spans = tracks.filter((track) => track instanceof SpanTrack);
  const total = spans.reduce((sum, track) => sum + track.events, 0);
  const isNext = direction === 'next';
  let done = 0;
  let best: EventPlace | undefined;
  const isNearer = (start: number): boolean =>
    isNext ? start > time && (best === undefined || start < best.start) : start < time && (best === undefined || start > best.start);
  for (const track of spans) {
    const { log } = track;
    const { clock } = track.process;
    const blocks = log.blocks;
    for (let step = 0; step < blocks && step < log.blocks; step++) {
      const block = isNext ? step : blocks - 1 - step;
      done += log.rowsOf(block);
      // Times of a block's starts lie between these two.
      const [first, last] = [clock.toTrace(log.from(block)), clock.toTrace(log.until(block))];
      const isOutside = isNext
        ? last <= time || (best !== undefined && first >= best.start)
        : first >= time || (best !== undefined && last <= best.start);
      if (isOutside) continue;
      const { name, start } = log.read(block);
      let found = -1;
      let foundAt = 0;
      for (let row = 0; row < log.rowsOf(block); row++) {
        if (isWanted[name[row] as number] !== 1 && !(steps.size > 0 && steps.has(name[row] as number))) continue;
        const at = clock.toTrace(start[row] as number);
        if (!isNearer(at) || (found >= 0 && (isNext ? at >= foundAt : at <= foundAt))) continue;
        found = row;
        foundAt = at;
      }
      if (found >= 0) best = placeOf(table, track, block, found);
      yield { done, total };
    }
  }
  return best;
}

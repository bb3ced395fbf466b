// The other sides of one event: the same collective on every rank, the other end of a send or a remote call.
//
// The search reads blocks around the event's time first, on all tracks with such events; while a side is missing it goes on to blocks further
// away, for clocks may be far apart and calls long.
// Invariant: at most `timelinePartnerBlocksMax` blocks are read.

import type { EventDetails } from '@ranktrace/protocol';
import { placeOf } from './event-place.ts';
import { type FlowRow, rowsWithFlow } from './flow-rows.ts';
import type { NameTable } from './name-table.ts';
import { SpanTrack } from './span-track.ts';
import { timelineLimits } from './timeline-limits.ts';
import type { TrackTimeline } from './track-timeline.ts';

export interface PartnerSearch {
  readonly track: SpanTrack;
  /** Number of the event on its track. */
  readonly event: number;
  readonly flowHigh: number;
  readonly flowLow: number;
  /** Trace time, ns. */
  readonly from: number;
  readonly until: number;
  /** Ranks that should have it, beside its own; undefined: any one other side suffices. */
  readonly ranks: ReadonlySet<number> | undefined;
}

type Partner = EventDetails['partners'][number];

/** One track's blocks at the event's time: `low` to `high`; the search continues outward from there. */
interface Range {
  readonly track: SpanTrack;
  readonly low: number;
  readonly high: number;
}

/** In order of rank. */
export function partnersOf(names: NameTable, tracks: readonly TrackTimeline[], search: PartnerSearch): Partner[] {
  const { track: own, event, ranks } = search;
  const ranges = tracks
    .filter((track) => track instanceof SpanTrack)
    .filter(({ log }) => log.flowsInAll > 0)
    .map((track) => rangeAround(track, search.from, search.until));
  const found: FlowRow[] = [];
  const seen = new Set<number>([own.process.process.rank]);
  let left: number = timelineLimits.timelinePartnerBlocksMax;
  const read = (track: SpanTrack, block: number): void => {
    if (left === 0 || block < 0 || block >= track.log.blocks || track.log.flowsOf(block) === 0) return;
    left--;
    const before = found.length;
    rowsWithFlow(track, block, search.flowHigh, search.flowLow, found);
    if (found.slice(before).some((row) => !isSame(row, own, event))) seen.add(track.process.process.rank);
  };
  const isDone = (): boolean =>
    ranks === undefined ? found.some((row) => !isSame(row, own, event)) : [...ranks].every((rank) => seen.has(rank));
  for (const { track, low, high } of ranges) for (let block = low; block <= high; block++) read(track, block);
  for (let distance = 1; distance <= timelineLimits.timelinePartnerDistanceMax && left > 0 && !isDone(); distance++) {
    for (const { track, low, high } of ranges) {
      const { rank } = track.process.process;
      if (ranks !== undefined && (seen.has(rank) || !ranks.has(rank))) continue;
      read(track, low - distance);
      read(track, high + distance);
    }
  }
  return found
    .filter((row) => !isSame(row, own, event))
    .map(({ track, block, row }) => ({ ...placeOf(names, track, block, row), rank: track.process.process.rank }))
    .sort((a, b) => a.rank - b.rank || a.start - b.start);
}

const isSame = ({ track, block, row }: FlowRow, own: SpanTrack, event: number): boolean =>
  track === own && track.log.first(block) + row === event;

function rangeAround(track: SpanTrack, from: number, until: number): Range {
  const { log, process } = track;
  const [ownFrom, ownUntil] = [process.clock.toOwn(from), process.clock.toOwn(until)];
  let low = -1;
  let high = -1;
  let after = log.blocks;
  for (let block = 0; block < log.blocks; block++) {
    if (log.from(block) > ownUntil) after = Math.min(after, block);
    if (log.from(block) > ownUntil || log.until(block) < ownFrom) continue;
    if (low < 0) low = block;
    high = block;
  }
  // No block covers that time: the search begins between the blocks before and after it.
  return low < 0 ? { track, low: after, high: after - 1 } : { track, low, high };
}

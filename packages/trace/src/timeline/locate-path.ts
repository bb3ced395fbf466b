// Finds the events that the critical path leads through: the analysis knows their ranks and times, a page needs their tracks and numbers.
//
// Each block of the ranks on the path that overlaps its time is read once.

import type { EventPlace, ViewPath, ViewPathSegment } from '@ranktrace/protocol';
import type { PathSegment, PathSegments } from '../gpu/path-segments.ts';
import { isDeviceKind } from '../model/lanes.ts';
import { displayName } from '../model/shown-name.ts';
import { lengthOf, placeOf } from './event-place.ts';
import type { NameTable } from './name-table.ts';
import type { ProcessTimeline } from './process-timeline.ts';
import { SpanTrack } from './span-track.ts';
import { timelineLimits } from './timeline-limits.ts';

/** Both computed one time from the other clock: they differ by rounding. */
const roundingNs = 2;

interface Wanted {
  readonly at: number;
  readonly start: number;
  readonly length: number;
  found: EventPlace | undefined;
  /** Difference of the lengths of `found`. */
  off: number;
}

export function locatedPath(names: NameTable, processes: readonly ProcessTimeline[], path: PathSegments): ViewPath {
  const places = new Map<number, EventPlace>();
  let blocks = 0;
  for (const rank of new Set(path.segments.map(({ rank: of }) => of))) {
    for (const isWork of [false, true]) {
      const wanted = wantedOf(path.segments, rank, isWork);
      if (wanted.length === 0) continue;
      for (const { process, tracks } of processes) {
        if (process.rank !== rank) continue;
        for (const track of tracks) {
          if (!(track instanceof SpanTrack) || track.lane.kind === 'steps' || isDevice(track) !== isWork) continue;
          blocks += search(names, track, wanted, timelineLimits.timelinePathBlocksMax - blocks);
        }
      }
      for (const { at, found } of wanted) if (found !== undefined) places.set(at, found);
    }
  }
  const { step, total, byBound, leftOut, leftOutTime } = path;
  const segments = path.segments.map(
    ({ rank, bound, name, start, end }, at): ViewPathSegment => ({
      ...{ rank, bound, name: displayName(name), start, end },
      place: places.get(at) ?? null,
    }),
  );
  return { step, total, byBound, segments, leftOut, leftOutTime };
}

const isDevice = ({ lane }: SpanTrack): boolean => isDeviceKind(lane.kind);

/** The spans of one rank's segments, in order of start. */
function wantedOf(segments: readonly PathSegment[], rank: number, isWork: boolean): Wanted[] {
  return segments
    .map(({ rank: of, span }, at) => ({ of, span, at }))
    .filter(({ of, span }) => of === rank && span.isWork === isWork)
    .map(
      ({ span, at }): Wanted => ({ at, start: span.start, length: span.end - span.start, found: undefined, off: Number.POSITIVE_INFINITY }),
    )
    .sort((a, b) => a.start - b.start);
}

/** Returns the number of blocks read, at most `blocksMax`. */
function search(names: NameTable, track: SpanTrack, wanted: readonly Wanted[], blocksMax: number): number {
  const { log, process } = track;
  const [from, until] = [wanted[0]?.start ?? 0, wanted.at(-1)?.start ?? 0];
  let read = 0;
  for (let block = 0; block < log.blocks && read < blocksMax; block++) {
    if (process.clock.toTrace(log.from(block)) > until + roundingNs || process.clock.toTrace(log.until(block)) < from - roundingNs)
      continue;
    read++;
    const { start } = log.read(block);
    for (let row = 0; row < log.rowsOf(block); row++) {
      const begin = process.clock.toTrace(start[row] as number);
      for (let at = firstFrom(wanted, begin - roundingNs); at < wanted.length; at++) {
        const one = wanted[at] as Wanted;
        if (one.start > begin + roundingNs) break;
        const off = Math.abs(lengthOf(track, block, row) - one.length);
        if (off >= one.off) continue;
        one.off = off;
        one.found = placeOf(names, track, block, row);
      }
    }
  }
  return read;
}

function firstFrom(wanted: readonly Wanted[], start: number): number {
  let [low, high] = [0, wanted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((wanted[middle] as Wanted).start < start) low = middle + 1;
    else high = middle;
  }
  return low;
}

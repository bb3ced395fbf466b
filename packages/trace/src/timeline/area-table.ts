// Events in an area of the timeline, by name: count, total time, and self time.
//
// Events of a track come parents first, so a span's self time is what remains after each nested span is taken off. Steps count under one
// name, and have no self time, since they contain what lies on other tracks; time cut off by the area's edge counts with what is inside.
// Invariant: a name's totals are sums over events, within the area; nothing is estimated.

import type { AreaRow, AreaTable } from '@ranktrace/protocol';
import { isDeviceKind } from '../model/lanes.ts';
import { isMark, workKind } from '../model/span-kind.ts';
import { CounterTrack } from './counter-track.ts';
import { Enclosing } from './enclosing.ts';
import { placeOf } from './event-place.ts';
import type { IndexParts } from './index-parts.ts';
import { kindIndex, kindMask, kindOf } from './span-log.ts';
import { SpanTrack } from './span-track.ts';
import type { ViewProgress } from './timeline.ts';
import { timelineLimits } from './timeline-limits.ts';
import { TrackWindow } from './track-rows.ts';
import type { TrackTimeline } from './track-timeline.ts';

/** Shown name of all steps together. */
const stepName = 'ProfilerStep';

interface Line {
  readonly name: string;
  readonly kind: AreaRow['kind'];
  count: number;
  total: number;
  self: number;
  shortest: number;
  longest: number;
  ranks: number;
  lastRank: number;
  place: { readonly track: SpanTrack; readonly event: number };
}

export function* areaTable(
  parts: IndexParts,
  tracks: readonly TrackTimeline[],
  from: number,
  until: number,
): Generator<ViewProgress, AreaTable> {
  const windows = tracks.filter((track) => track instanceof SpanTrack).map((track) => new TrackWindow(track, from, until));
  const stepsOnly = windows.every(({ track }) => track.lane.kind === 'steps');
  const total = windows.reduce((sum, window) => sum + window.rows, 0);
  const lines = new Map<number, Line>();
  const marks = new Map<number, boolean>();
  /** Whether a span of a device's track is work. */
  const isWork = (category: number): boolean => {
    let mark = marks.get(category);
    if (mark === undefined) {
      mark = isMark(parts.categories.text(category));
      marks.set(category, mark);
    }
    return !mark;
  };
  let [done, events] = [0, 0];
  for (const window of windows) {
    const { track } = window;
    const { rank } = track.process.process;
    const isDevice = isDeviceKind(track.lane.kind);
    // The latest span on each line, its end, and its entry.
    const around = new Enclosing<{ line: Line; until: number }>();
    for (let block = 0; block < track.log.blocks; block++) {
      if (!window.holds(block)) continue;
      window.visit(block, (columns, row, event, start, end) => {
        const kind = (columns.kind[row] as number) & kindMask;
        const name = columns.name[row] as number;
        const isStep = kind === kindIndex.step;
        const ofDevice = isDevice && kind === kindIndex.span && isWork(columns.category[row] as number);
        const key = isStep ? -1 : name * 16 + (ofDevice ? 8 : 0) + kind;
        let line = lines.get(key);
        if (line === undefined) {
          const text = isStep ? stepName : parts.names.text(name);
          line = newLine(text, ofDevice ? workKind(text) : kindOf(kind), { track, event });
          lines.set(key, line);
        }
        const size = end - start;
        events++;
        line.count++;
        line.total += size;
        if (!isStep || stepsOnly) line.self += size;
        if (size < line.shortest) line.shortest = size;
        if (size > line.longest) {
          line.longest = size;
          line.place = { track, event };
        }
        if (line.lastRank !== rank) {
          line.lastRank = rank;
          line.ranks++;
        }
        if (kind === kindIndex.instant) return;
        const depth = columns.depth[row] as number;
        const parent = around.around(depth, start);
        if (parent !== undefined && parent.until > start) parent.line.self -= Math.min(end, parent.until) - start;
        around.put(depth, { line, until: end });
      });
      done += track.log.rowsOf(block);
      yield { done, total };
    }
  }
  const counters: AreaTable['counters'][number][] = [];
  for (const track of tracks) {
    if (!(track instanceof CounterTrack)) continue;
    const summary = track.summary(from, until);
    if (summary !== undefined) counters.push({ track: track.id, ...summary });
    yield { done, total };
  }
  const sorted = [...lines.values()].sort((a, b) => b.total - a.total || b.count - a.count || (a.name < b.name ? -1 : 1));
  const reported = sorted.slice(0, timelineLimits.timelineAreaRowsMax);
  const rest = sorted.slice(reported.length);
  return {
    events,
    from,
    until,
    rows: reported.map((line) => rowOf(parts, line)),
    counters,
    leftOut: rest.reduce((sum, line) => sum + line.count, 0),
  };
}

const newLine = (name: string, kind: Line['kind'], place: Line['place']): Line => ({
  name,
  kind,
  count: 0,
  total: 0,
  self: 0,
  shortest: Number.POSITIVE_INFINITY,
  longest: Number.NEGATIVE_INFINITY,
  ranks: 0,
  lastRank: -1,
  place,
});

function rowOf(parts: IndexParts, { lastRank: _, place: { track, event }, ...line }: Line): AreaRow {
  const block = track.log.blockOf(event);
  return { ...line, self: Math.max(0, line.self), place: placeOf(parts.names, track, block, event - track.log.first(block)) };
}

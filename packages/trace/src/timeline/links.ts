// Arrows between events of a window: from the last rank that came to a collective to the others, which waited for it; from a sender to its
// receiver; from a caller to the server and back.
//
// Arrows are sent only if they are few: a window full of arrows shows nothing, so only their number is reported.

import { type Links, traceTime } from '@ranktrace/protocol';
import { apartAt } from '../model/epsilon.ts';
import { boundAt } from './event-place.ts';
import { isFarSide, type LinkKind, linkKindOf } from './flow-rows.ts';
import { launchLinks } from './launches.ts';
import { SpanTrack } from './span-track.ts';
import { timelineLimits } from './timeline-limits.ts';
import type { TrackTimeline } from './track-timeline.ts';

type Link = Links['links'][number];

/** One side of an arrow, in trace time. */
interface Side {
  readonly track: SpanTrack;
  readonly depth: number;
  readonly start: number;
  readonly end: number;
  readonly isFar: boolean;
}

/** `from`, `until`: trace time, ns. */
export function linksBetween(tracks: readonly TrackTimeline[], from: number, until: number): Links {
  const all = tracks.filter((track) => track instanceof SpanTrack);
  const spans = all.filter((track) => track.log.flowsInAll > 0);
  const many = countInside(spans, from, until);
  if (many.events > timelineLimits.timelineLinkedEventsMax || many.blocks > timelineLimits.timelineLinkBlocksMax) {
    return { links: launchLinks(all, from, until), leftOut: many.events };
  }
  const byFlow = new Map<string, { readonly kind: LinkKind; readonly sides: Side[] }>();
  let events = 0;
  for (const track of spans) {
    const { log, process } = track;
    const { clock } = process;
    for (let block = 0; block < log.blocks; block++) {
      const [first, last] = [clock.toTrace(log.from(block)), clock.toTrace(log.until(block))];
      if (log.flowsOf(block) === 0 || first > until || last < from) continue;
      const { start, length, flowHigh, flowLow, depth, kind } = log.read(block);
      for (let row = 0; row < log.rowsOf(block); row++) {
        if (flowHigh[row] === 0 && flowLow[row] === 0) continue;
        const own = start[row] as number;
        const begin = clock.toTrace(own);
        const size = length[row] as number;
        // An end still missing has no arrow.
        const end = Number.isNaN(size) ? Number.NaN : clock.toTrace(own + size);
        if (begin > until || end < from || ++events > timelineLimits.timelineLinkedEventsMax) continue;
        const bits = kind[row] as number;
        const flow = `${flowHigh[row]} ${flowLow[row]} ${linkKindOf(bits)}`;
        const group = byFlow.get(flow) ?? { kind: linkKindOf(bits), sides: [] };
        group.sides.push({ track, depth: depth[row] as number, start: begin, end, isFar: isFarSide(bits) });
        byFlow.set(flow, group);
      }
    }
  }
  const links: Link[] = [];
  for (const { kind, sides } of byFlow.values()) if (sides.length > 1) addLinks(links, kind, sides);
  links.push(...launchLinks(all, from, until));
  links.sort((a, b) => a.from.time - b.from.time);
  return { links, leftOut: Math.max(0, events - timelineLimits.timelineLinkedEventsMax) };
}

/** Number of flow events in blocks wholly inside, and the blocks that must be read. */
function countInside(tracks: readonly SpanTrack[], from: number, until: number): { readonly events: number; readonly blocks: number } {
  let [events, blocks] = [0, 0];
  for (const { log, process } of tracks) {
    for (let block = 0; block < log.blocks; block++) {
      const flows = log.flowsOf(block);
      if (flows === 0) continue;
      const [first, last] = [process.clock.toTrace(log.from(block)), process.clock.toTrace(log.until(block))];
      if (first > until || last < from) continue;
      blocks++;
      if (first >= from && last <= until) events += flows;
    }
  }
  return { events, blocks };
}

function addLinks(links: Link[], kind: LinkKind, sides: readonly Side[]): void {
  const add = (from: Side, fromTime: number, to: Side, toTime: number): void => {
    if (Number.isNaN(fromTime) || Number.isNaN(toTime)) return;
    links.push({
      kind,
      from: { track: from.track.id, depth: from.depth, time: fromTime },
      to: { track: to.track.id, depth: to.depth, time: toTime },
      bound: boundBetween(from, fromTime, to, toTime),
    });
  };
  if (kind === 'collective') {
    const last = sides.reduce((latest, side) => (side.start > latest.start ? side : latest));
    for (const side of sides) if (side !== last) add(last, last.start, side, side.end);
    return;
  }
  const near = sides.find((side) => !side.isFar);
  if (near === undefined) return;
  for (const far of sides) {
    if (!far.isFar) continue;
    if (kind === 'send') add(near, near.start, far, far.end);
    else {
      add(near, near.start, far, far.start);
      add(far, far.end, near, near.end);
    }
  }
}

/** ± ns of the distance between two sides: 0 if they read one clock, null if one of them is not aligned. */
function boundBetween(from: Side, fromTime: number, to: Side, toTime: number): number | null {
  const [a, b] = [from.track.process.process, to.track.process.process];
  if (a === b || (a.host === b.host && a.hostUnknown === undefined)) return 0;
  const [one, other] = [boundAt(a, fromTime), boundAt(b, toTime)];
  if (one === null || other === null) return null;
  return Math.min(one + other, apartAt(a, traceTime(fromTime)) + apartAt(b, traceTime(toTime)));
}

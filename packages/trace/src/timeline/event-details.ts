// Everything known about one event, in reading order, with its other sides.

import { type EventDetails, frameLine } from '@ranktrace/protocol';
import { displayName, displayText } from '../model/shown-name.ts';
import { CounterTrack } from './counter-track.ts';
import type { Detail } from './detail-store.ts';
import { boundAt, lengthOf, placeOf } from './event-place.ts';
import type { IndexParts } from './index-parts.ts';
import { launchedBy, launchesOf } from './launches.ts';
import { partnersOf } from './partners.ts';
import { asyncBit, instantKind, kindMask, kindOf, pairBit } from './span-log.ts';
import { SpanTrack } from './span-track.ts';
import { timelineLimits } from './timeline-limits.ts';
import type { TrackTimeline } from './track-timeline.ts';

/** Undefined if no event has this number. */
export function eventDetails(
  parts: IndexParts,
  tracks: readonly TrackTimeline[],
  track: TrackTimeline,
  event: number,
): EventDetails | undefined {
  if (!(Number.isInteger(event) && event >= 0 && event < track.events)) return undefined;
  if (track instanceof CounterTrack) return counterDetails(parts, track, event);
  return track instanceof SpanTrack ? spanDetails(parts, tracks, track, event) : undefined;
}

function spanDetails(parts: IndexParts, tracks: readonly TrackTimeline[], track: SpanTrack, event: number): EventDetails {
  const { log, process } = track;
  const block = log.blockOf(event);
  const row = event - log.first(block);
  const columns = log.read(block);
  const bits = columns.kind[row] as number;
  const [flowHigh, flowLow] = [columns.flowHigh[row] as number, columns.flowLow[row] as number];
  const open = Number.isNaN(columns.length[row] as number);
  const category = parts.categories.text(columns.category[row] as number);
  const details = parts.details.details(columns.detail[row] as number);
  const place = placeOf(parts.names, track, block, row);
  const self = (bits & kindMask) === instantKind ? null : selfTime(track, block, row);
  const wanted = flowHigh === 0 && flowLow === 0 ? undefined : wantedRanks(parts, track, bits, details);
  const partners =
    wanted === undefined
      ? []
      : partnersOf(parts.names, tracks, {
          track,
          event,
          flowHigh,
          flowLow,
          from: place.start,
          until: place.start + place.length,
          ranks: wanted.ranks,
        });
  const found = new Set(partners.map(({ rank }) => rank));
  const missing = [...(wanted?.ranks ?? [])].filter((rank) => rank !== process.process.rank && !found.has(rank));
  return {
    ...place,
    kind: kindOf(bits),
    category: displayName(category),
    open,
    isAsync: (bits & asyncBit) !== 0,
    self,
    bound: boundAt(process.process, place.start),
    fields: fieldsOf(parts, details),
    stack: stackOf(details),
    partners,
    partnersMissing: missing.sort((a, b) => a - b),
    launchedBy: launchedBy(parts.names, track, block, row),
    ...launchesOf(parts.names, track, block, row),
  };
}

/** Ranks expected to share the event's flow: those of its group, its peer, or none. */
function wantedRanks(
  parts: IndexParts,
  track: SpanTrack,
  bits: number,
  details: readonly Detail[],
): { readonly ranks: ReadonlySet<number> | undefined } {
  if (kindOf(bits) !== 'collective') return { ranks: undefined };
  const own = track.process.process.rank;
  if ((bits & pairBit) !== 0) {
    const peer = details.find(([key]) => key === 'peer')?.[1];
    return { ranks: typeof peer === 'number' && peer !== own ? new Set([peer]) : undefined };
  }
  const group = details.find(([key]) => key === 'group')?.[1];
  return { ranks: typeof group === 'string' ? parts.groups.ranksOf(group) : undefined };
}

function counterDetails(parts: IndexParts, track: CounterTrack, event: number): EventDetails {
  const { log, process, lane } = track;
  const block = log.blockOf(event);
  const row = event - log.first(block);
  const { time, value, detail } = log.read(block);
  const start = process.clock.toTrace(time[row] as number);
  const shown = `${value[row]}${lane.unit === '' ? '' : ` ${displayName(lane.unit)}`}`;
  const details = parts.details.details(detail[row] as number);
  return {
    track: track.id,
    event,
    start,
    length: 0,
    depth: 0,
    name: displayName(lane.name),
    kind: 'counter',
    category: '',
    open: false,
    isAsync: false,
    self: null,
    bound: boundAt(process.process, start),
    fields: [['value', shown], ...fieldsOf(parts, details)],
    stack: stackOf(details),
    partners: [],
    partnersMissing: [],
    launchedBy: [],
    launched: [],
    launchedLeftOut: 0,
  };
}

const stackKey = 'Call stack';
/** Keys with values that another part of the details already shows. */
const repeated: ReadonlySet<string> = new Set([stackKey, 'op']);
const phaseKey = 'phaseNs.';

function fieldsOf({ groups }: IndexParts, details: readonly Detail[]): (readonly [string, string])[] {
  const fields: (readonly [string, string])[] = [];
  const group = details.find(([key]) => key === 'group')?.[1];
  for (const [key, value] of details) {
    if (repeated.has(key)) continue;
    if (typeof value === 'number' && key.startsWith(phaseKey))
      fields.push([displayName(`phase ${key.slice(phaseKey.length)}`), inMs(value)]);
    else if (typeof value === 'number' && key === 'overheadNs') fields.push(['overhead', inMs(value)]);
    else if (typeof value === 'number' && key === 'sequence' && typeof group === 'string')
      fields.push([key, groups.numberText(group, value)]);
    else fields.push([displayName(key), displayText(String(value), timelineLimits.timelineFieldCharsMax)]);
  }
  return fields;
}

const inMs = (ns: number): string => `${(ns / 1e6).toFixed(3)} ms`;

/** Frames, innermost first. */
function stackOf(details: readonly Detail[]): string[] {
  const text = details.find(([key]) => key === stackKey)?.[1];
  if (typeof text !== 'string') return [];
  return text
    .split(/[;\n]/)
    .map((frame) => displayText(frame.trim(), timelineLimits.timelineFieldCharsMax))
    .filter((frame) => frame !== '');
}

/** Self time of a span, own ns: time not covered by its children; null if computing it would take too long. */
function selfTime(track: SpanTrack, block: number, row: number): number | null {
  const { log } = track;
  const { start, depth } = log.read(block);
  const from = start[row] as number;
  const size = lengthOf(track, block, row);
  const line = (depth[row] as number) + 1;
  if (line % frameLine > timelineLimits.timelineDepthMax || line % frameLine === 0) return null;
  let covered = 0;
  let read = 0;
  for (let each = 0; each < log.blocks; each++) {
    if (log.from(each) >= from + size || log.until(each) < from) continue;
    if (++read > timelineLimits.timelineSelfBlocksMax) return null;
    const { start: starts, depth: depths, kind } = log.read(each);
    for (let inner = 0; inner < log.rowsOf(each); inner++) {
      const begin = starts[inner] as number;
      if (depths[inner] !== line || begin < from || begin >= from + size || ((kind[inner] as number) & kindMask) === instantKind) continue;
      covered += Math.min(from + size, begin + lengthOf(track, each, inner)) - begin;
    }
  }
  return Math.max(0, size - covered);
}

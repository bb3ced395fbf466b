// Links between a call of the host and the device work that it launched: both carry one correlation, within their process.
//
//   thread   aten::mm ───────────────
//              cudaLaunchKernel ─  7          launched: gemm             launched by: cudaLaunchKernel, aten::mm
//   stream                       └──► gemm ──── 7
//
// A driver counts correlations up, so the ranges of a track's blocks hardly overlap, and few blocks are read.

import type { EventDetails, EventPlace, Links } from '@ranktrace/protocol';
import { isDeviceKind } from '../model/lanes.ts';
import { lengthOf, placeOf } from './event-place.ts';
import type { NameTable } from './name-table.ts';
import { SpanTrack } from './span-track.ts';
import { timelineLimits } from './timeline-limits.ts';

/** One event: a row of a block. */
interface Row {
  readonly track: SpanTrack;
  readonly block: number;
  readonly row: number;
}

const isDevice = ({ lane }: SpanTrack): boolean => isDeviceKind(lane.kind) || lane.name.startsWith('GPU ');

/** The call that launched a piece of device work, and up to three spans around the call, innermost first; empty for anything else. */
export function launchedBy(names: NameTable, track: SpanTrack, block: number, row: number): readonly EventPlace[] {
  const launch = track.log.read(block).launch[row] as number;
  if (launch === 0 || !isDevice(track)) return [];
  const [call] = rowsWith(track, new Set([launch]), false);
  return call === undefined ? [] : [call, ...around(call)].map((each) => placeOf(names, each.track, each.block, each.row));
}

/** The device work that a call launched, or the calls within a span of the host. */
export function launchesOf(
  names: NameTable,
  track: SpanTrack,
  block: number,
  row: number,
): Pick<EventDetails, 'launched' | 'launchedLeftOut'> {
  if (isDevice(track) || track.lane.kind !== 'thread') return { launched: [], launchedLeftOut: 0 };
  const own = track.log.read(block).launch[row] as number;
  const calls = own > 0 ? new Set([own]) : callsWithin(track, block, row);
  if (calls.size === 0) return { launched: [], launchedLeftOut: 0 };
  const shown = new Set([...calls].slice(0, timelineLimits.timelineLaunchesMax));
  const work = rowsWith(track, shown, true).map((each) => placeOf(names, each.track, each.block, each.row));
  work.sort((a, b) => a.start - b.start || a.track - b.track);
  const launched = work.slice(0, timelineLimits.timelineLaunchesMax);
  return { launched, launchedLeftOut: calls.size - shown.size + work.length - launched.length };
}

/** Correlations of the calls within a span of the same thread. */
function callsWithin(track: SpanTrack, block: number, row: number): Set<number> {
  const { log } = track;
  const from = log.read(block).start[row] as number;
  const until = from + lengthOf(track, block, row);
  const calls = new Set<number>();
  let read = 0;
  for (let each = block; each < log.blocks && log.from(each) < until; each++) {
    if (log.launchesOf(each) === undefined) continue;
    if (++read > timelineLimits.timelineLaunchBlocksMax) break;
    const { start, launch } = log.read(each);
    for (let at = 0; at < log.rowsOf(each); at++) {
      const begin = start[at] as number;
      if (launch[at] !== 0 && begin >= from && begin < until) calls.add(launch[at] as number);
    }
  }
  return calls;
}

/** Events with these correlations on the devices, or on the threads, of a track's process. */
function rowsWith(of: SpanTrack, launches: ReadonlySet<number>, onDevice: boolean): Row[] {
  const found: Row[] = [];
  const [least, most] = [Math.min(...launches), Math.max(...launches)];
  let read = 0;
  for (const track of of.process.tracks) {
    if (!(track instanceof SpanTrack) || isDevice(track) !== onDevice) continue;
    const { log } = track;
    for (let block = 0; block < log.blocks; block++) {
      const range = log.launchesOf(block);
      if (range === undefined || range[0] > most || range[1] < least) continue;
      if (++read > timelineLimits.timelineLaunchBlocksMax) return found;
      const { launch } = log.read(block);
      for (let row = 0; row < log.rowsOf(block); row++) if (launches.has(launch[row] as number)) found.push({ track, block, row });
    }
  }
  return found;
}

/** Number of spans around a call that are of use. */
const aroundMax = 3;

/** The spans around an event on its track, innermost first. */
function around({ track, block, row }: Row): Row[] {
  const { log } = track;
  const columns = log.read(block);
  const start = columns.start[row] as number;
  const end = start + lengthOf(track, block, row);
  const found: Row[] = [];
  let line = (columns.depth[row] as number) - 1;
  let from = row - 1;
  for (
    let each = block;
    each >= 0 && each > block - timelineLimits.timelineAroundBlocksMax && line >= 0 && found.length < aroundMax;
    each--
  ) {
    const { start: starts, length, depth } = log.read(each);
    for (let at = from; at >= 0 && line >= 0 && found.length < aroundMax; at--) {
      const begin = starts[at] as number;
      // Lengths in whole µs may end an op a little before its call.
      if (depth[at] !== line || begin > start || begin + (length[at] as number) < Math.min(end, start + 1)) continue;
      found.push({ track, block: each, row: at });
      line--;
    }
    from = each > 0 ? log.rowsOf(each - 1) - 1 : -1;
  }
  return found;
}

/** Arrows from calls to the work that they launched; none where there are too many to be read. Times: trace, ns. */
export function launchLinks(tracks: readonly SpanTrack[], from: number, until: number): Links['links'][number][] {
  const sides = new Map<string, { call?: Row; work: Row[] }>();
  let [events, blocks] = [0, 0];
  for (const track of tracks) {
    const { log, process } = track;
    for (let block = 0; block < log.blocks; block++) {
      if (log.launchesOf(block) === undefined || process.clock.toTrace(log.from(block)) > until) continue;
      if (process.clock.toTrace(log.until(block)) < from) continue;
      if (++blocks > timelineLimits.timelineLaunchBlocksMax) return [];
      const { start, launch } = log.read(block);
      for (let row = 0; row < log.rowsOf(block); row++) {
        if (launch[row] === 0) continue;
        const begin = process.clock.toTrace(start[row] as number);
        if (begin > until || begin < from) continue;
        if (++events > timelineLimits.timelineLaunchLinksMax) return [];
        const key = `${process.index} ${launch[row]}`;
        const pair = sides.get(key) ?? { work: [] };
        sides.set(key, pair);
        if (isDevice(track)) pair.work.push({ track, block, row });
        else pair.call = { track, block, row };
      }
    }
  }
  const endOf = ({ track, block, row }: Row) => {
    const { start, depth } = track.log.read(block);
    return { track: track.id, depth: depth[row] as number, time: track.process.clock.toTrace(start[row] as number) };
  };
  return [...sides.values()].flatMap(({ call, work }) =>
    call === undefined ? [] : work.map((each) => ({ kind: 'launch' as const, from: endOf(call), to: endOf(each), bound: 0 })),
  );
}

// One row of a track in the form sent to the page, in trace time.

import type { EventPlace } from '@ranktrace/protocol';
import { traceTime } from '@ranktrace/protocol';
import type { TraceProcess } from '../model/trace-sink.ts';
import type { NameTable } from './name-table.ts';
import type { SpanTrack } from './span-track.ts';

/** Place of the event in `row` of `block`; an open event lasts as far as it is known to run. */
export function placeOf(names: NameTable, track: SpanTrack, block: number, row: number): EventPlace {
  const { log, process } = track;
  const { start, name, depth } = log.read(block);
  const own = start[row] as number;
  const from = process.clock.toTrace(own);
  return {
    track: track.id,
    event: log.first(block) + row,
    start: from,
    length: process.clock.toTrace(own + lengthOf(track, block, row)) - from,
    depth: depth[row] as number,
    name: names.text(name[row] as number),
  };
}

/** Own length of an event, ns; an open event lasts until now. */
export function lengthOf(track: SpanTrack, block: number, row: number): number {
  const { start, length } = track.log.read(block);
  const size = length[row] as number;
  return Number.isNaN(size) ? Math.max(0, track.process.now - (start[row] as number)) : size;
}

/** ± ns of a process's times at a trace time; null if unknown. */
export function boundAt({ alignment }: TraceProcess, time: number): number | null {
  if (alignment.bound === undefined) return null;
  return alignment.boundAt?.(traceTime(time)) ?? alignment.bound;
}

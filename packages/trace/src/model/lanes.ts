// Lanes of one track: lines on which spans nest properly, as every timeline viewer needs them.
//
//   track   A ────────────────────────
//             B ──────      C ────────────────     C outlives A: async work that was never awaited
//
//   lane 0  A ────────────────────────
//             B ──────
//   lane 1                  C ────────────────
//
// A span goes to the lane where the innermost running span contains it and began last: that span is its parent, where it has one.
// Perfetto drops spans that overlap partly on one line, so nothing else would keep them all. Spans that never end (promises that never settle)
// would each take a line, and placing a span checks all lines: beyond `lanesPerTrackMax` a span gets no place.

import { collectionsSuffix, ncclTrackPrefix } from '@ranktrace/protocol';
import { limits } from './limits.ts';
import type { TraceLane } from './trace-sink.ts';

/** Whether tracks or lanes of the kind show a device's own work. */
export const isDeviceKind = (kind: string): kind is 'stream' | 'device' => kind === 'stream' || kind === 'device';

/** Whether collectives on it are those of NCCL's plugin, with their times on the device. */
export const isNcclLane = ({ kind, name }: Pick<TraceLane, 'kind' | 'name'>): boolean =>
  kind === 'thread' && name.startsWith(ncclTrackPrefix);

/** Whether `lane` is an overflow lane of the track with the own line `own`; no field says so, but process, kind, tid and name prefix match. */
export const isOverflowOf = (lane: TraceLane, own: TraceLane): boolean =>
  lane.overflow > 0 &&
  own.overflow === 0 &&
  own.process === lane.process &&
  own.kind === lane.kind &&
  own.tid === lane.tid &&
  lane.name.startsWith(`${own.name} (`);

/** Whether `lane` shows the heap collections of the thread with the own line `own`: they happened inside the spans of `own`. */
export const isCollectionsOf = (lane: TraceLane, own: TraceLane): boolean =>
  lane.kind === 'thread' &&
  own.kind === 'thread' &&
  own.process === lane.process &&
  own.tid === lane.tid &&
  lane.name === own.name + collectionsSuffix;

/** An open span's place: its end is set here once it is known. */
export interface LanePlace {
  readonly lane: TraceLane;
  setEnd(end: number): void;
}

/** One line: the spans that run on it now, outermost first, as two stacks of numbers that keep their room. An end is Infinity while unknown. */
class FilledLane {
  readonly lane: TraceLane;
  depth = 0;
  readonly starts: number[] = [];
  readonly ends: number[] = [];

  constructor(lane: TraceLane) {
    this.lane = lane;
  }
}

export class Lanes {
  readonly #lanes: FilledLane[] = [];
  readonly #createLane: (overflow: number) => TraceLane;

  constructor(createLane: (overflow: number) => TraceLane) {
    this.#createLane = createLane;
  }

  /** The track's own line, for events without length. */
  get first(): TraceLane {
    return (this.#lanes[0] ?? this.#add()).lane;
  }

  /** The lane of a span from `start` to `end` (ns); spans come in order of start. Undefined: there is no place. */
  place(start: number, end: number): TraceLane | undefined {
    return this.#push(start, end, false)?.lane;
  }

  /**
   * The place of a span that begins at `start` and has no known end; `alone`: it may outlive any other, so it must not nest. Undefined:
   * there is no place.
   */
  placeOpen(start: number, alone: boolean): LanePlace | undefined {
    const filled = this.#push(start, Number.POSITIVE_INFINITY, alone);
    if (filled === undefined) return undefined;
    // A span without an end never leaves the stack, so its place stays valid until the end is set.
    const at = filled.depth - 1;
    return {
      lane: filled.lane,
      setEnd: (end) => {
        filled.ends[at] = end;
      },
    };
  }

  #push(start: number, end: number, alone: boolean): FilledLane | undefined {
    let best: FilledLane | undefined;
    let bestStart = Number.NEGATIVE_INFINITY;
    for (const filled of this.#lanes) {
      const { starts, ends } = filled;
      while (filled.depth > 0 && (ends[filled.depth - 1] as number) <= start) filled.depth--;
      const top = filled.depth - 1;
      if (top < 0) best ??= filled;
      else if (!alone && (ends[top] as number) >= end && (starts[top] as number) > bestStart) {
        best = filled;
        bestStart = starts[top] as number;
      }
    }
    if (best === undefined && this.#lanes.length >= limits.lanesPerTrackMax) return undefined;
    best ??= this.#add();
    best.starts[best.depth] = start;
    best.ends[best.depth++] = end;
    return best;
  }

  #add(): FilledLane {
    const filled = new FilledLane(this.#createLane(this.#lanes.length));
    this.#lanes.push(filled);
    return filled;
  }
}

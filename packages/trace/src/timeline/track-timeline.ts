// One line of a process as the page shows it: the common base of spans and counters.

import type { Tile, TileKey, ViewTrack } from '@ranktrace/protocol';
import { displayName } from '../model/shown-name.ts';
import type { TraceEvent, TraceLane } from '../model/trace-sink.ts';
import type { IndexParts } from './index-parts.ts';
import type { ProcessTimeline } from './process-timeline.ts';

export abstract class TrackTimeline {
  /** Key: its position in `Timeline.tracks`. */
  readonly id: number;
  readonly process: ProcessTimeline;
  /** The merge's latest lane for it. */
  lane: TraceLane;
  protected readonly parts: IndexParts;

  constructor(id: number, process: ProcessTimeline, lane: TraceLane, parts: IndexParts) {
    this.id = id;
    this.process = process;
    this.lane = lane;
    this.parts = parts;
  }

  /** Number of events so far; their numbers are below it. */
  abstract get events(): number;

  /** Number of lines that nested spans take. */
  abstract get depth(): number;

  /** Number of lines that frames of Python take, below `frameLine`. */
  get frameDepth(): number {
    return 0;
  }

  /** Least and greatest value of a counter. */
  abstract get range(): readonly [low: number, high: number];

  abstract add(event: TraceEvent): void;

  /** Its tile; the caller asks only for tiles of this track. */
  abstract tile(key: TileKey): Tile;

  /** Clears its events. */
  abstract clear(): void;

  /** The track in the page's form. */
  shown(): ViewTrack {
    const { lane } = this;
    const [low, high] = this.range;
    return {
      track: this.id,
      process: this.process.index,
      kind: lane.kind,
      name: displayName(lane.name),
      tid: lane.tid,
      overflow: lane.overflow,
      unit: displayName(lane.unit),
      depth: this.depth,
      frameDepth: this.frameDepth,
      events: this.events,
      low,
      high,
    };
  }
}

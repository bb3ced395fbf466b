// One line of a process as the page shows it: what spans and counters have in common.

import type { Tile, TileKey, ViewTrack } from '@ranktrace/protocol';
import { displayName } from '../model/shown-name.ts';
import type { TraceEvent, TraceLane } from '../model/trace-sink.ts';
import type { IndexParts } from './index-parts.ts';
import type { ProcessTimeline } from './process-timeline.ts';

export abstract class TrackTimeline {
  /** Key: its position in `Timeline.tracks`. */
  readonly id: number;
  readonly process: ProcessTimeline;
  /** As the merge told it last. */
  lane: TraceLane;
  protected readonly parts: IndexParts;

  constructor(id: number, process: ProcessTimeline, lane: TraceLane, parts: IndexParts) {
    this.id = id;
    this.process = process;
    this.lane = lane;
    this.parts = parts;
  }

  /** Events so far: each is known by its number below. */
  abstract get events(): number;

  /** Lines that nested spans take. */
  abstract get depth(): number;

  /** Least and greatest value of a counter. */
  abstract get range(): readonly [low: number, high: number];

  abstract add(event: TraceEvent): void;

  /** What it shows in a tile; the caller asks for tiles of this track alone. */
  abstract tile(key: TileKey): Tile;

  /** Forgets its events. */
  abstract clear(): void;

  /** As a page needs it. */
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
      events: this.events,
      low,
      high,
    };
  }
}

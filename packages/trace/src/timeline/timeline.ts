// A run for viewing: every process's events on its own clock, found by track, time and level of detail, returned in trace time.
//
//   Timeline ── processes (one life of a rank, its clock) ── tracks ── blocks on a store + levels of detail
//       └── names, details, groups: shared by all
//
// Invariant: memory per event is bounded by its block's description; everything else is in the store.

import type {
  AreaTable,
  EventDetails,
  EventPlace,
  FlameNode,
  FlameSplit,
  Links,
  SearchResult,
  Tile,
  TileKey,
  ViewGroup,
  ViewPath,
} from '@ranktrace/protocol';
import type { PathSegments } from '../gpu/path-segments.ts';
import type { BlockStore } from '../model/block-store.ts';
import type { TraceProcess } from '../model/trace-sink.ts';
import { areaTable } from './area-table.ts';
import { eventDetails } from './event-details.ts';
import { findEvents } from './find-events.ts';
import { flameTree } from './flame-tree.ts';
import { IndexParts } from './index-parts.ts';
import { linksBetween } from './links.ts';
import { locatedPath } from './locate-path.ts';
import type { NameTable } from './name-table.ts';
import { ProcessTimeline } from './process-timeline.ts';
import { searchNames } from './search-names.ts';
import { identityClock, type TimelineClock } from './timeline-clock.ts';
import { timelineLimits } from './timeline-limits.ts';
import type { TrackTimeline } from './track-timeline.ts';

export interface TimelineOptions {
  readonly blocks: BlockStore;
  /** Bytes of decoded blocks to cache; default `timelineCacheBytesMax`. */
  readonly cacheBytesMax?: number;
  /** Most events per block; default `timelineBlockRowsMax`. */
  readonly blockRowsMax?: number;
}

/** Progress of a long answer: `done` of about `total` events are processed. */
export interface ViewProgress {
  readonly done: number;
  readonly total: number;
}

export class Timeline {
  readonly #parts: IndexParts;
  readonly #processes: ProcessTimeline[] = [];
  readonly #tracks: TrackTimeline[] = [];

  constructor({
    blocks,
    cacheBytesMax = timelineLimits.timelineCacheBytesMax,
    blockRowsMax = timelineLimits.timelineBlockRowsMax,
  }: TimelineOptions) {
    this.#parts = new IndexParts(blocks, cacheBytesMax, blockRowsMax);
  }

  /** By `ProcessTimeline.index`. */
  get processes(): readonly ProcessTimeline[] {
    return this.#processes;
  }

  /** By `TrackTimeline.id`. */
  get tracks(): readonly TrackTimeline[] {
    return this.#tracks;
  }

  /** Shown names by index. */
  get names(): NameTable {
    return this.#parts.names;
  }

  /** First start of an event, trace time; 0 without events. */
  get from(): number {
    let from = Number.POSITIVE_INFINITY;
    for (const process of this.#processes) if (Number.isFinite(process.from)) from = Math.min(from, process.clock.toTrace(process.from));
    return Number.isFinite(from) ? from : 0;
  }

  /** Latest known time of any process, trace time; 0 without events. */
  get until(): number {
    let until = Number.NEGATIVE_INFINITY;
    for (const process of this.#processes)
      if (Number.isFinite(process.until)) until = Math.max(until, process.clock.toTrace(process.until));
    return Number.isFinite(until) ? until : 0;
  }

  /** Begin of the first step of any process, trace time; undefined without steps. */
  get firstStep(): number | undefined {
    let first: number | undefined;
    for (const { steps, clock } of this.#processes) {
      const start = steps.firstStart;
      if (start !== undefined) first = Math.min(first ?? Number.POSITIVE_INFINITY, clock.toTrace(start));
    }
    return first;
  }

  /** Grows whenever the result of `groups()` changes. */
  get groupsRevision(): number {
    return this.#parts.groups.revision + this.#processes.length;
  }

  /** Adds a process (one life of a rank). Its events come in own-clock times, which `clock` maps; the identity by default. */
  addProcess(process: TraceProcess, clock: TimelineClock = identityClock): ProcessTimeline {
    const added = new ProcessTimeline(this.#processes.length, process, clock, this.#parts, (create) => {
      if (this.#tracks.length >= timelineLimits.timelineTracksMax) return undefined;
      const track = create(this.#tracks.length);
      this.#tracks.push(track);
      this.#parts.shareAmong(this.#tracks.length);
      return track;
    });
    this.#processes.push(added);
    return added;
  }

  track(id: number): TrackTimeline | undefined {
    return this.#tracks[id];
  }

  /** The ranks seen in each group of collectives. */
  groups(): ViewGroup[] {
    const ranks = new Set(this.#processes.map(({ process }) => process.rank));
    return this.#parts.groups.shown(ranks.size);
  }

  /** One track's tile; undefined if there is no such track. */
  tile(key: TileKey): Tile | undefined {
    return this.#tracks[key.track]?.tile(key);
  }

  /** Everything known about one event; undefined if none has this number. */
  event(track: number, event: number): EventDetails | undefined {
    const found = this.#tracks[track];
    return found === undefined ? undefined : eventDetails(this.#parts, this.#tracks, found, event);
  }

  /** Arrows between events of these tracks that overlap a window of trace time. No `tracks`: all. */
  links(from: number, until: number, tracks: readonly number[]): Links {
    return linksBetween(this.#chosen(tracks), from, until);
  }

  /** Events between two times on these tracks, by name. No `tracks`: all. */
  area(from: number, until: number, tracks: readonly number[]): Generator<ViewProgress, AreaTable> {
    return areaTable(this.#parts, this.#chosen(tracks), from, until);
  }

  /** The same events as a call tree. */
  flame(from: number, until: number, tracks: readonly number[], split?: FlameSplit): Generator<ViewProgress, FlameNode> {
    return flameTree(this.#parts, this.#chosen(tracks), from, until, split);
  }

  /** The critical path of an analysis with the events that it leads through. */
  path(path: PathSegments): ViewPath {
    return locatedPath(this.#parts.names, this.#processes, path);
  }

  /** Names that contain `text` in any case, with their counts. */
  search(text: string): SearchResult {
    return searchNames(this.#parts.names, text);
  }

  /**
   * The next event of one of these names that starts after `time`, or the last one before it. No `names`: any; no `tracks`: all. `past`: the event at
   * `time` to go on from, so that those that start with it are found, too.
   */
  find(
    names: readonly number[],
    tracks: readonly number[],
    time: number,
    direction: 'next' | 'previous',
    depth?: number,
    past?: Pick<EventPlace, 'track' | 'event'>,
  ): Generator<ViewProgress, EventPlace | undefined> {
    return findEvents(this.#parts, this.#chosen(tracks), { names, time, direction, depth, past });
  }

  /** The tracks in order of rank, so that ranks can be counted in passing. */
  #chosen(tracks: readonly number[]): TrackTimeline[] {
    const chosen =
      tracks.length === 0 ? [...this.#tracks] : [...new Set(tracks)].map((id) => this.#tracks[id]).filter((track) => track !== undefined);
    return chosen.sort((a, b) => a.process.process.rank - b.process.process.rank || a.process.index - b.process.index || a.id - b.id);
  }
}

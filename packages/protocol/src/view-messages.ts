// Messages between the page and the service over the WebSocket `/v1/view`. Text frames are the JSON below, binary frames are tiles
// (view-tiles.ts). The page asks, the service answers; the service also sends a run's growth unasked, as its current state, never as a
// difference: a page that reads slowly skips states and misses nothing.
//
//   page                                   service
//   { id: 1, type: 'open', run }      ──►
//                                     ◄──  { id: 1, type: 'answer', answer: RunModel }
//   { id: 2, type: 'tiles', … }       ──►
//                                     ◄──  binary frames with request 2, then { id: 2, type: 'answer', answer: {} }
//                                     ◄──  { type: 'grown', run, … }            at most one that is not yet read
//
// All times are ns of the trace axis (doubles), lengths in ns. The service cuts names of the trace and makes them safe to display, once.

import { z } from 'zod';
import { limits } from './limits.ts';

const run = z.string().min(1).max(limits.runNameCharsMax);
const track = z
  .number()
  .int()
  .min(0)
  .max(2 ** 32 - 1);
const tracks = z.array(track).max(limits.viewTracksMax);
const event = z
  .number()
  .int()
  .min(0)
  .max(2 ** 32 - 1);
const time = z.number().min(-Number.MAX_SAFE_INTEGER).max(Number.MAX_SAFE_INTEGER);
const id = z
  .number()
  .int()
  .min(0)
  .max(2 ** 32 - 1);

/** From the page. The answer repeats `id`. Empty `tracks`: all of the run. */
export const viewRequestSchema = z.discriminatedUnion('type', [
  /** Lists the runs; the service sends `runs` again whenever the list changes. */
  z.strictObject({ id, type: z.literal('runs') }),
  /** Begins to follow a run; answers RunModel. */
  z.strictObject({ id, type: z.literal('open'), run }),
  z.strictObject({ id, type: z.literal('close'), run }),
  z.strictObject({
    id,
    type: z.literal('tiles'),
    run,
    tiles: z
      .array(z.strictObject({ track, level: z.number().int().min(0).max(52), index: z.number().int() }))
      .min(1)
      .max(limits.viewTilesMax),
  }),
  /** One event with all its details; answers EventDetails. */
  z.strictObject({ id, type: z.literal('event'), run, track, event }),
  /** Arrows between two times; answers Links. */
  z.strictObject({ id, type: z.literal('links'), run, from: time, until: time, tracks }),
  /** Contents of an area, by name; answers AreaTable. */
  z.strictObject({ id, type: z.literal('area'), run, from: time, until: time, tracks }),
  /** The same as a call tree; answers FlameNode. */
  z.strictObject({
    id,
    type: z.literal('flame'),
    run,
    from: time,
    until: time,
    tracks,
    /** Below the root: a node for each rank, each device (all hosts are one), or each device of each rank. */
    split: z.enum(['rank', 'device', 'both']).optional(),
  }),
  /** Names that hold `text`, case-insensitive; answers SearchResult. */
  z.strictObject({ id, type: z.literal('search'), run, text: z.string().min(1).max(256) }),
  /**
   * The next event with one of these names (indexes of RunModel.names; none: any name) before or after a time; answers EventPlace or null.
   * Prefers this depth, and falls back to any depth. `past`: the event at that time to go on from; of those that start with it, the ones behind it in
   * order of rank, track and number come next, and those before it are previous.
   */
  z.strictObject({
    id,
    type: z.literal('find'),
    run,
    names: z.array(z.number().int().min(0)).max(limits.viewNamesFoundMax),
    tracks,
    time,
    direction: z.enum(['next', 'previous']),
    depth: z.number().int().min(0).max(255).optional(),
    past: z.strictObject({ track, event }).optional(),
  }),
  /** Steps, ranks and findings; answers Overview. Without a range: all steps. */
  z.strictObject({
    id,
    type: z.literal('overview'),
    run,
    fromStep: z.number().int().min(0).optional(),
    toStep: z.number().int().min(0).optional(),
    bins: z.number().int().min(1).max(2048),
  }),
  /** The critical path of one step; answers ViewPath or null. */
  z.strictObject({ id, type: z.literal('path'), run }),
  /**
   * This run (A) compared with another open one (B); answers RunDifference. Without steps: over all of both. `offset`: a step of B minus the step of
   * A that it is compared with. `failOn`: the share from which a difference counts.
   */
  z.strictObject({
    id,
    type: z.literal('diff'),
    run,
    other: run,
    fromStep: z.number().int().min(0).optional(),
    toStep: z.number().int().min(0).optional(),
    offset: z.number().int().min(-Number.MAX_SAFE_INTEGER).max(Number.MAX_SAFE_INTEGER),
    failOn: z.number().min(0).max(10),
  }),
  /** The heat map's cells by a measure of each rank's steps, over the same bins as an overview of that range; answers HeatCells. */
  z.strictObject({
    id,
    type: z.literal('heat'),
    run,
    measure: z.enum(['own', 'waiting', 'busy', 'phase']),
    /** Name of the phase, as in Overview.phases. */
    phase: z.string().max(4096).optional(),
    fromStep: z.number().int().min(0).optional(),
    toStep: z.number().int().min(0).optional(),
    bins: z.number().int().min(1).max(2048),
  }),
  /** Tables of operators, kernels, memory, …: of one rank, or of all together; answers RunProfile, or null where there is none. */
  z.strictObject({ id, type: z.literal('profile'), run, rank: z.number().int().min(0).max(limits.rankMax).optional() }),
  /** Cancels a request that takes long. */
  z.strictObject({ id, type: z.literal('cancel'), request: id }),
]);

export type ViewRequest = z.infer<typeof viewRequestSchema>;

/** From the service. */
export type ViewMessage =
  | { readonly id: number; readonly type: 'answer'; readonly answer: unknown }
  | { readonly id: number; readonly type: 'progress'; readonly done: number; readonly total: number }
  | { readonly id: number; readonly type: 'error'; readonly code: ViewErrorCode; readonly message: string }
  | { readonly type: 'runs'; readonly runs: readonly RunLine[] }
  | RunGrowth;

export type ViewErrorCode = 'bad_request' | 'no_such_run' | 'no_such_track' | 'no_such_event' | 'cancelled' | 'too_many' | 'failed';

export interface RunLine {
  readonly run: string;
  readonly worldSize: number;
  readonly ranks: number;
  /** Whether some rank has not ended; undefined before the service has looked into the run. */
  readonly live?: boolean;
}

/** A run as a page needs it to draw anything: processes, tracks, groups and names, but no events. */
export interface RunModel {
  readonly run: string;
  /** Changes when the service loses its state (restart): discard everything from another epoch. */
  readonly epoch: string;
  readonly worldSize: number;
  /** Unix time at trace time 0 in ns, decimal; null when unknown. */
  readonly unixEpoch: string | null;
  readonly from: number;
  readonly until: number;
  /** Begin of the first step of any rank; null without steps. */
  readonly firstStep: number | null;
  readonly live: boolean;
  /** Batches read so far, and batches there are; equal when the page shows all. A run just opened has 0 of 1. */
  readonly read: number;
  readonly total: number;
  readonly processes: readonly ViewProcess[];
  readonly tracks: readonly ViewTrack[];
  readonly groups: readonly ViewGroup[];
  readonly clockConflicts: readonly { readonly time: number; readonly hosts: readonly string[]; readonly slack: number }[];
  /** Display names, by index. */
  readonly names: readonly string[];
}

/** Changes since the last message about this run: processes, tracks and groups by their keys, whole; names from `namesFrom`. */
export interface RunGrowth extends Omit<RunModel, 'names'> {
  readonly type: 'grown';
  readonly namesFrom: number;
  readonly names: readonly string[];
}

export interface ViewProcess {
  /** Key. To display: sort by rank, then incarnation. */
  readonly index: number;
  readonly rank: number;
  readonly incarnation: string;
  readonly host: string;
  readonly hostName: string;
  readonly pid: number;
  readonly ended: boolean;
  readonly until: number;
  /** Discard tiles of another version: the clock was fitted anew, or older events came. */
  readonly version: number;
  readonly alignment: ViewAlignment;
  /** Places of loss, in order of time. */
  readonly gaps: readonly ViewGap[];
  readonly missing: number;
  readonly droppedEvents: number;
  readonly metadata: readonly (readonly [string, string])[];
}

export interface ViewAlignment {
  readonly method: 'exact' | 'sampled' | 'messages' | 'shared' | 'unaligned';
  /** ± ns at the worst time; null when unaligned. */
  readonly bound: number | null;
  /** (time, ± ns): what holds from there until the next; empty where only `bound` is known. */
  readonly bounds: readonly (readonly [number, number])[];
  readonly clockSteps: readonly number[];
  readonly shifted: readonly { readonly from: number; readonly until: number; readonly most: number }[];
}

export interface ViewGap {
  readonly from: number;
  readonly until: number;
  /** Batches missing in the sequence, and events that the rank dropped. */
  readonly batches: number;
  readonly events: number;
}

export interface ViewTrack {
  /** Key. */
  readonly track: number;
  readonly process: number;
  readonly kind: 'thread' | 'stream' | 'device' | 'steps' | 'counter';
  readonly name: string;
  readonly tid: number;
  readonly overflow: number;
  readonly unit: string;
  /** Lines that nested spans take, at least 1. */
  readonly depth: number;
  /** Lines of frames of Python, from the line `frameLine` on. */
  readonly frameDepth: number;
  readonly events: number;
  /** Counter: least and greatest value. */
  readonly low: number;
  readonly high: number;
}

/** Ranks that run collectives together: `tp 3` is one group of the parallel axis `tp`. */
export interface ViewGroup {
  readonly axis: string;
  readonly group: string;
  readonly ranks: readonly number[];
}

/** Position of an event. */
export interface EventPlace {
  readonly track: number;
  readonly event: number;
  readonly start: number;
  readonly length: number;
  readonly depth: number;
  readonly name: string;
}

export interface EventDetails extends EventPlace {
  readonly kind: 'span' | 'instant' | 'counter' | 'step' | 'collective' | 'rpc';
  readonly category: string;
  /** It has not ended, as far as is known; `length` is up to now. */
  readonly open: boolean;
  readonly isAsync: boolean;
  /** Time of it that no inner span covers, ns; null when unknown. */
  readonly self: number | null;
  readonly bound: number | null;
  /** All further details in reading order: step, group, sequence, bytes, peer, status, ids, arguments, shapes, stack (lines). */
  readonly fields: readonly (readonly [string, string])[];
  readonly stack: readonly string[];
  /** The same collective on every rank, or the other side of a call; in order of rank. */
  readonly partners: readonly (EventPlace & { readonly rank: number })[];
  /** Ranks of its group where it is missing. */
  readonly partnersMissing: readonly number[];
  /** Work of a device: the call that launched it, then the spans around that call, innermost first. */
  readonly launchedBy: readonly EventPlace[];
  /** A call, or a span with calls in it: the work that they launched on devices, first to last. */
  readonly launched: readonly EventPlace[];
  /** Launches that `launched` leaves out. */
  readonly launchedLeftOut: number;
}

export interface Links {
  /**
   * Arrows in order of start: from the last rank in to the others (collective), from the caller to the server and back (rpc), from a call to the
   * work that it launched.
   */
  readonly links: readonly {
    readonly kind: 'collective' | 'rpc' | 'send' | 'launch';
    readonly from: { readonly track: number; readonly depth: number; readonly time: number };
    readonly to: { readonly track: number; readonly depth: number; readonly time: number };
    readonly bound: number | null;
  }[];
  /** Number of arrows over the limit. */
  readonly leftOut: number;
}

export interface AreaTable {
  readonly events: number;
  /** Earliest start and latest end of the requested area. */
  readonly from: number;
  readonly until: number;
  /** In order of total time. */
  readonly rows: readonly AreaRow[];
  readonly counters: readonly { readonly track: number; readonly low: number; readonly high: number; readonly mean: number }[];
  /** Events skipped, as there were too many. */
  readonly leftOut: number;
}

export interface AreaRow {
  readonly name: string;
  /** Work of a device is a kernel or a copy; the host's span of the same name is another row. */
  readonly kind: EventDetails['kind'] | 'kernel' | 'copy';
  readonly count: number;
  /** Within the area, ns. `self`: not covered by inner spans; of steps 0, unless there is nothing else: they lie beside the spans, and contain them. */
  readonly total: number;
  readonly self: number;
  readonly shortest: number;
  readonly longest: number;
  readonly ranks: number;
  /** The longest event. */
  readonly place: EventPlace;
}

/** How a flame graph is split; undefined: all in one. */
export type FlameSplit = 'rank' | 'device' | 'both' | undefined;

/** Spans by the spans around them: `total` within the area, ns. The root has no name; it and the nodes of a split are no spans: their `count` is 0. */
export interface FlameNode {
  readonly name: string;
  readonly total: number;
  readonly self: number;
  readonly count: number;
  readonly children: readonly FlameNode[];
}

export interface SearchResult {
  /** `alias`: the name in the recording that matches, where the shown one does not. */
  readonly names: readonly { readonly name: number; readonly count: number; readonly total: number; readonly alias?: string }[];
  readonly leftOut: number;
}

/** The critical path through one step of a run with GPUs: the chain of work and waiting that the step is as long as. Lengths in ns. */
export interface ViewPath {
  readonly step: number;
  readonly total: number;
  /** Time on it by what bounds it. */
  readonly byBound: Readonly<Record<ViewPathSegment['bound'], number>>;
  /** In order of the path. */
  readonly segments: readonly ViewPathSegment[];
  /** Shorter segments that are left out, and their time. */
  readonly leftOut: number;
  readonly leftOutTime: number;
}

export interface ViewPathSegment {
  readonly rank: number;
  /** `none`: it waits for nothing known. */
  readonly bound: 'cpu' | 'compute' | 'communication' | 'copy' | 'gap' | 'launch' | 'none';
  readonly name: string;
  readonly start: number;
  readonly end: number;
  /** The event that it leads through, or for a pause, the one that it leads to; null where it is not found. */
  readonly place: EventPlace | null;
}

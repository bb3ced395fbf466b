// What the page and the service say to each other over the WebSocket `/v1/view`. Text frames are the JSON below, binary frames are tiles
// (view-tiles.ts). The page asks, the service answers; what a run gains is told unasked, as the state it has now, never as a difference: a page
// that reads slowly skips states and misses nothing.
//
//   page                                   service
//   { id: 1, type: 'open', run }      ──►
//                                     ◄──  { id: 1, type: 'answer', answer: RunModel }
//   { id: 2, type: 'tiles', … }       ──►
//                                     ◄──  binary frames with request 2, then { id: 2, type: 'answer', answer: {} }
//                                     ◄──  { type: 'grown', run, … }            at most one that is not yet read
//
// All times are ns of the trace axis (doubles), lengths in ns. Names of the trace are cut and made harmless for display once, in the service.

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

/** From the page. `id` comes back in the answer. Empty `tracks`: all of the run. */
export const viewRequestSchema = z.discriminatedUnion('type', [
  /** Which runs there are; told again as `runs` whenever that changes. */
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
  /** One event with all that is known of it; answers EventDetails. */
  z.strictObject({ id, type: z.literal('event'), run, track, event }),
  /** Arrows between two times; answers Links. */
  z.strictObject({ id, type: z.literal('links'), run, from: time, until: time, tracks }),
  /** What lies in an area, by name; answers AreaTable. */
  z.strictObject({ id, type: z.literal('area'), run, from: time, until: time, tracks }),
  /** The same as a call tree; answers FlameNode. */
  z.strictObject({ id, type: z.literal('flame'), run, from: time, until: time, tracks }),
  /** Names that hold `text`, case-insensitive; answers SearchResult. */
  z.strictObject({ id, type: z.literal('search'), run, text: z.string().min(1).max(256) }),
  /**
   * The next event of one of these names (indexes of RunModel.names; none: of any) before or after a time; answers EventPlace or null. Of
   * this depth where there is any, else of any depth.
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
  /** Gives up a request that takes long. */
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
  /** Whether some rank has not ended; undefined while nobody has looked into it. */
  readonly live?: boolean;
}

/** A run as a page needs it to draw anything: who there is, not what happened. */
export interface RunModel {
  readonly run: string;
  /** Changes when the service forgets what it knew (restart): everything kept of another epoch is void. */
  readonly epoch: string;
  readonly worldSize: number;
  /** Unix time at trace time 0 in ns, decimal; null when unknown. */
  readonly unixEpoch: string | null;
  readonly from: number;
  readonly until: number;
  readonly live: boolean;
  /** Batches read of those there are; equal when all is shown. A run that was only just opened has 0 of 1. */
  readonly read: number;
  readonly total: number;
  readonly processes: readonly ViewProcess[];
  readonly tracks: readonly ViewTrack[];
  readonly groups: readonly ViewGroup[];
  readonly clockConflicts: readonly { readonly time: number; readonly hosts: readonly string[]; readonly slack: number }[];
  /** Shown names, by index. */
  readonly names: readonly string[];
}

/** What changed since the last message about this run: processes, tracks and groups by their keys, whole; names from `namesFrom`. */
export interface RunGrowth extends Omit<RunModel, 'names'> {
  readonly type: 'grown';
  readonly namesFrom: number;
  readonly names: readonly string[];
}

export interface ViewProcess {
  /** Key. Sort by rank, then incarnation, to show. */
  readonly index: number;
  readonly rank: number;
  readonly incarnation: string;
  readonly host: string;
  readonly hostName: string;
  readonly pid: number;
  readonly ended: boolean;
  readonly until: number;
  /** Tiles of another version are void: the clock was fitted anew, or older events came. */
  readonly version: number;
  readonly alignment: ViewAlignment;
  /** Where something was lost, in order of time. */
  readonly gaps: readonly ViewGap[];
  readonly missing: number;
  readonly droppedEvents: number;
  readonly metadata: readonly (readonly [string, string])[];
}

export interface ViewAlignment {
  readonly method: 'exact' | 'sampled' | 'messages' | 'shared' | 'unaligned';
  /** ± ns at the worst time; null when unaligned. */
  readonly bound: number | null;
  /** (time, ± ns) from when on it is another by more than a tenth; empty where `bound` is all that is known. */
  readonly bounds: readonly (readonly [number, number])[];
  readonly clockSteps: readonly number[];
  readonly shifted: readonly { readonly from: number; readonly until: number; readonly most: number }[];
}

export interface ViewGap {
  readonly from: number;
  readonly until: number;
  /** Batches missing in the sequence, and events the rank dropped. */
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
  readonly events: number;
  /** Counter: least and greatest value. */
  readonly low: number;
  readonly high: number;
}

/** Ranks that do collectives together: `tp 3` is one group of the parallel axis `tp`. */
export interface ViewGroup {
  readonly axis: string;
  readonly group: string;
  readonly ranks: readonly number[];
}

/** Where an event is. */
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
  /** It has not ended as far as is known; `length` is up to now. */
  readonly open: boolean;
  readonly isAsync: boolean;
  /** Time of it that spans inside of it do not cover, ns; null when that is not known. */
  readonly self: number | null;
  readonly bound: number | null;
  /** Everything else in reading order: step, group, sequence, bytes, peer, status, ids, arguments, shapes, stack (lines). */
  readonly fields: readonly (readonly [string, string])[];
  readonly stack: readonly string[];
  /** The same collective on every rank, or the other side of a call; in order of rank. */
  readonly partners: readonly (EventPlace & { readonly rank: number })[];
  /** Ranks of its group on which it was not found. */
  readonly partnersMissing: readonly number[];
}

export interface Links {
  /** Arrows in order of start: from the last rank in to the others (collective), from the caller to the server and back (rpc). */
  readonly links: readonly {
    readonly kind: 'collective' | 'rpc' | 'send';
    readonly from: { readonly track: number; readonly depth: number; readonly time: number };
    readonly to: { readonly track: number; readonly depth: number; readonly time: number };
    readonly bound: number | null;
  }[];
  /** There were more than could be told. */
  readonly leftOut: number;
}

export interface AreaTable {
  readonly events: number;
  /** Least first time and greatest last time asked for. */
  readonly from: number;
  readonly until: number;
  /** In order of total time. */
  readonly rows: readonly AreaRow[];
  readonly counters: readonly { readonly track: number; readonly low: number; readonly high: number; readonly mean: number }[];
  /** Events that were not looked at, as there were too many. */
  readonly leftOut: number;
}

export interface AreaRow {
  readonly name: string;
  readonly kind: EventDetails['kind'];
  readonly count: number;
  /** Within the area, ns. `self`: not covered by spans inside. */
  readonly total: number;
  readonly self: number;
  readonly shortest: number;
  readonly longest: number;
  readonly ranks: number;
  /** Where the longest is. */
  readonly place: EventPlace;
}

/** Spans by what they lie in: `total` within the area, ns. The root has no name. */
export interface FlameNode {
  readonly name: string;
  readonly total: number;
  readonly self: number;
  readonly count: number;
  readonly children: readonly FlameNode[];
}

export interface SearchResult {
  readonly names: readonly { readonly name: number; readonly count: number; readonly total: number }[];
  readonly leftOut: number;
}

/** The first page: what of the run is slow, when, and on whom. Bins are of equally many steps. */
export interface Overview {
  /** Whether all ranks are read to their end. While they are not, only the steps that every rank has told are in it, so that ranks compare. */
  readonly allRead: boolean;
  readonly fromStep: number;
  readonly toStep: number;
  readonly steps: number;
  /** First step of each bin. */
  readonly bins: readonly number[];
  /** Trace time at which each bin begins on the first rank to begin it. */
  readonly times: readonly number[];
  /** Cluster step time per bin, ns: the slowest rank's mean; the median rank's; the fastest's; null where there is none. */
  readonly slowest: readonly (number | null)[];
  readonly median: readonly (number | null)[];
  readonly fastest: readonly (number | null)[];
  readonly percentiles: { readonly p50: number; readonly p90: number; readonly p95: number; readonly p99: number } | null;
  readonly ranks: readonly OverviewRank[];
  /** Names of `OverviewRank.phases`, in order of size; last `other`. */
  readonly phases: readonly string[];
  readonly findings: readonly ViewFinding[];
  /** Who kept others waiting: of all collectives whose last rank can be told. */
  readonly waiting: readonly { readonly rank: number; readonly lastIn: number; readonly waitedFor: number; readonly waits: number }[];
  /** ns: all steps that `waiting` is of, whatever range is asked for, on the rank with the longest. */
  readonly waitingStepTime: number;
  /** Whether findings and waiting are of all that is there now. */
  readonly analysed: boolean;
  /** They are of what came after this trace time, of a long run that goes on; null: of the whole. */
  readonly analysedSince: number | null;
}

export interface OverviewRank {
  readonly rank: number;
  readonly process: number;
  readonly steps: number;
  /** ns. */
  readonly mean: number;
  readonly p50: number;
  readonly p95: number;
  readonly longest: number;
  /** Mean ns per step, by `Overview.phases`. */
  readonly phases: readonly number[];
  /** Mean step of each bin, ns; null where it has none. */
  readonly cells: readonly (number | null)[];
  /** Longest step of each bin, ns. */
  readonly peaks: readonly (number | null)[];
}

/** What a fault costs: docs/blame.md, "What a fault costs". Lengths in ns. */
export interface FindingCost {
  /** The first and the last step that it was seen in. */
  readonly fromStep: number;
  readonly toStep: number;
  /** Steps that it makes longer, of those that were compared; all of them where the two are equal. */
  readonly affectedSteps: number;
  readonly comparedSteps: number;
  /** What an affected step would be shorter without it, and the same over all steps. */
  readonly nsPerAffectedStep: number;
  readonly nsPerStep: number;
  /** Of the time of all steps, 0 … 1. */
  readonly shareOfStep: number;
}

/** Something a person should look at. */
export interface ViewFinding {
  readonly severity: 'alert' | 'warning' | 'note';
  readonly kind: string;
  readonly text: string;
  /** Where to look: whichever of these are known. */
  readonly ranks: readonly number[];
  /** In which phase of the step they are slow, where that is known. */
  readonly phase?: string;
  readonly cost?: FindingCost;
  /** Of an alert: what is to blame (a verdict of blame), and the first step concerned. */
  readonly cause?: string;
  readonly onsetStep?: number;
  readonly from?: number;
  readonly until?: number;
}

// Finds the collectives among a Kineto trace's events, with group and sequence number of each.
//
//   NCCL kernels           ncclDevKernel_AllReduce…, ncclKernel_…     the transfer itself, on a GPU stream
//   blocking annotations   gloo:all_reduce, mpi:…                     the transfer itself, on the runloop's thread
//   launch annotations     nccl:all_reduce, …                         the call that starts one; used only if the file has no NCCL kernels
//   recorded               category `collective_comm`, any name        exported by our own recorder, with all its fields
//
// A kernel's collective comes from its own arguments (torch ≥ 2.2), else from the `record_param_comms` op that launched it (its External
// id), else from the annotation around its launch (by correlation), else from the other kernels of its stream, else from the file's only
// process group.
//
// Sequence: torch's own `Seq` where recorded; its neighbours are counted on from it. Otherwise counted from the end of the file,
// within the group, because profilers start at different moments but stop after the same step:
//
//   rank 0      ─ a ─ b ─ c ─ d │     d is number fromEnd − 1 on both, c fromEnd − 2, …
//   rank 1          ─ b ─ c ─ d │
//
// Windows of time stop at any moment of a step. There a cut between two collectives, agreed among the ranks, takes the place of the end: the last
// collective that ended before it is number fromEnd − 1.
//
// Point-to-point: `Seq` counts a rank's calls to all peers together, so sends and receives are counted per peer, from the end.
// Invariant: an event is at most one collective; a kernel and its annotations are never both.
// Invariant: an unmatchable event (a send with an unknown other side, a group of sends in one kernel) stays a span.

import { collectiveKind } from '@ranktrace/protocol';
import { beforeCut, fromEnd, isCounted, repetition, repetitionsMax, windowStep } from '../match/collective-number.ts';
import { ColumnTable } from '../model/column-table.ts';
import { indexesOf, kernelCategories } from '../model/kineto-categories.ts';
import { limits } from '../model/limits.ts';
import { sortByTime } from '../model/sort-by-time.ts';
import { elementBytes } from './element-bytes.ts';
import type { KinetoTable } from './kineto-table.ts';

export const collectiveColumns = {
  /** Row of the table's events. */
  event: 'u32',
  /** Strings of the table. `op`: `all_reduce`, …; for a launch annotation its whole name, such as `nccl:all_reduce`. */
  op: 'u32',
  group: 'u32',
  sequence: 'f64',
  /** Bytes this rank puts in; for a receive, or if it puts in none, the bytes it gets. 0 if not recorded. */
  bytes: 'f64',
  /** 1 + global rank of the other side for a `send` or `recv`, 0 for all others. */
  peer: 'u32',
  /** 1 if our own recorder exported it. */
  isRecorded: 'u8',
} as const;

export type KinetoCollectives = ColumnTable<typeof collectiveColumns>;

const kernelName = /^(?:void )?nccl\w*Kernel/;
const blockingName = /^(?:gloo|mpi):/;
const launchName = /^(?:nccl|ucc|xccl|hccl|cncl):/;

const kindOf = { other: 0, kernel: 1, blocking: 2, launch: 3, recorded: 4 } as const;

/** Category of collectives in files that our own recorder exported. */
export const recordedCollective = 'collective_comm';

/** Whether a user annotation of this name comes from a communication library, not from the program. */
export const isLibraryAnnotation = (name: string): boolean => blockingName.test(name) || launchName.test(name);

/** `_allgather_base`, `nccl:_all_gather_base`, `ncclDevKernel_AllGather_RING_LL(…)` → `all_gather`; '' if not a single collective. */
const collectiveOp = (name: string): string => collectiveKind(name) ?? '';

/**
 * The collectives of one file, in order of start. `windowFromEnd`: 0 for the last file of its rank, 1 for the one before, … Adds
 * strings to the table.
 */
export function findCollectives(table: KinetoTable, windowFromEnd = 0, cutOf?: CutOf): KinetoCollectives {
  return new Finder(table, windowFromEnd, cutOf).found;
}

/** The cut of a group: ns from the table's epoch; undefined for none, and then the file's end. */
export type CutOf = (group: string) => number | undefined;

/** By group: the ends of its collectives without a number of their own, in order; ns from the table's epoch. */
export function countedEnds(table: KinetoTable): ReadonlyMap<string, readonly number[]> {
  const { columns, length } = findCollectives(table);
  const ends = new Map<string, number[]>();
  for (let row = 0; row < length; row++) {
    if (!isCounted(columns.sequence[row] as number) || (columns.peer[row] as number) > 0) continue;
    const group = table.strings.get(columns.group[row] as number);
    const ofGroup = ends.get(group) ?? [];
    ends.set(group, ofGroup);
    ofGroup.push(endOf(table, columns.event[row] as number));
  }
  for (const ofGroup of ends.values()) ofGroup.sort((a, b) => a - b);
  return ends;
}

const endOf = ({ events: { columns } }: KinetoTable, event: number): number =>
  (columns.start[event] as number) + (columns.duration[event] as number);

class Finder {
  readonly found: KinetoCollectives = new ColumnTable(collectiveColumns);
  readonly #table: KinetoTable;
  /** Kind of every event's name, by string index. */
  readonly #kinds: Uint8Array;
  readonly #groups: ProcessGroups;
  /** Row of `communications` + 1 by row of events, and by External id of the op. */
  readonly #byEvent = new Map<number, number>();
  readonly #byExternalId = new Map<number, number>();
  /** String index of our own recorder's category. */
  readonly #recorded: number | undefined;

  constructor(table: KinetoTable, windowFromEnd: number, cutOf: CutOf = () => undefined) {
    this.#table = table;
    this.#groups = new ProcessGroups(table);
    this.#kinds = nameKinds(table);
    this.#recorded = table.strings.find(recordedCollective);
    this.#indexCommunications();
    const candidates = this.#candidates();
    if (candidates.length === 0) return;
    this.#describe(candidates);
    number(this.found, this.#table, fromEnd - windowFromEnd * windowStep, cutOf);
  }

  /** Events that may be collectives, in order of start. */
  #candidates(): Uint32Array {
    const { events, strings } = this.#table;
    const { columns, length } = events;
    const kernels = indexesOf(strings, kernelCategories);
    const annotation = strings.find('user_annotation');
    const count = { kernels: 0, blocking: 0, launches: 0 };
    const kind = (row: number): number => {
      if (this.#isRecorded(row)) return kindOf.recorded;
      const named = this.#kinds[columns.name[row] as number] as number;
      if (named === kindOf.other) return named;
      const category = columns.category[row] as number;
      if (named === kindOf.kernel) return kernels.has(category) ? named : kindOf.other;
      return category === annotation ? named : kindOf.other;
    };
    for (let row = 0; row < length; row++) {
      const is = kind(row);
      if (is === kindOf.kernel) count.kernels++;
      else if (is === kindOf.blocking || is === kindOf.recorded) count.blocking++;
      else if (is === kindOf.launch) count.launches++;
    }
    const takesLaunches = count.kernels === 0;
    const wanted = count.kernels + count.blocking + (takesLaunches ? count.launches : 0);
    const rows = new Uint32Array(Math.min(wanted, limits.collectivesPerFileMax));
    let at = 0;
    for (let row = 0; row < length && at < rows.length; row++) {
      const is = kind(row);
      if (is !== kindOf.other && (is !== kindOf.launch || takesLaunches)) rows[at++] = row;
    }
    const pick = (column: Float64Array): Float64Array => Float64Array.from(rows, (row) => column[row] as number);
    return sortByTime(pick(columns.start), pick(columns.duration), rows.length).map((index) => rows[index] as number);
  }

  /** Whether our recorder exported it, with group and number. */
  #isRecorded(event: number): boolean {
    if (this.#recorded === undefined || this.#table.events.columns.category[event] !== this.#recorded) return false;
    const row = this.#byEvent.get(event);
    return row !== undefined && (this.#table.communications.columns.sequence[row - 1] as number) >= 0;
  }

  #indexCommunications(): void {
    const { communications, events } = this.#table;
    for (let row = 0; row < communications.length; row++) {
      const event = communications.columns.event[row] as number;
      this.#byEvent.set(event, row + 1);
      const id = events.columns.externalId[event] as number;
      // A kernel has its op's id, so whichever states the collective first will do.
      if (id > 0 && !this.#byExternalId.has(id)) this.#byExternalId.set(id, row + 1);
    }
  }

  /** Fills `found`; collectives that torch did not number get -1. */
  #describe(rows: Uint32Array): void {
    const { events, strings, communications } = this.#table;
    const launches = this.#launchAnnotations(rows);
    const streams = this.#streams(rows, launches);
    for (const event of rows) {
      if (this.#isRecorded(event)) {
        this.#addRecorded(event);
        continue;
      }
      const name = strings.get(events.columns.name[event] as number);
      const isKernel = this.#kinds[events.columns.name[event] as number] === kindOf.kernel;
      const said = isKernel ? this.#communicationOf(event) : 0;
      const stream = isKernel ? streams.get(events.columns.track[event] as number) : undefined;
      const launch = launches.get(event);
      const given =
        said > 0 ? strings.get(communications.columns.name[said - 1] as number) : launch === undefined ? '' : strings.get(launch);
      const op = launchName.test(name) ? name : collectiveOp(given) || collectiveOp(name) || onlyOne(stream?.ops) || '';
      const peer = said > 0 ? peerOf(op, communications.columns, said - 1) : 0;
      if (op === '' || collectiveOp(op) === '' || (isPointToPoint(collectiveOp(op)) && peer === 0)) continue;
      const row = this.found.add();
      const { columns } = this.found;
      columns.event[row] = event;
      columns.op[row] = strings.index(op);
      columns.group[row] = strings.index(this.#groupOf(said, stream));
      columns.sequence[row] = said > 0 && peer === 0 ? (communications.columns.sequence[said - 1] as number) : -1;
      columns.bytes[row] = said > 0 ? bytesOf(this.#table, op, said - 1) : 0;
      columns.peer[row] = peer;
      columns.isRecorded[row] = 0;
    }
  }

  /** Adds a recorded collective unchanged: its number counts in its group, or for a send in its pair of ranks. */
  #addRecorded(event: number): void {
    const { communications, events } = this.#table;
    const said = (this.#byEvent.get(event) as number) - 1;
    const about = communications.columns;
    const row = this.found.add();
    const { columns } = this.found;
    columns.event[row] = event;
    columns.op[row] = (about.name[said] as number) || (events.columns.name[event] as number);
    columns.group[row] = about.group[said] as number;
    columns.sequence[row] = about.sequence[said] as number;
    columns.bytes[row] = bytesOf(this.#table, '', said);
    const [source, destination] = [about.source[said] as number, about.destination[said] as number];
    const other = source === this.#groups.rank ? destination : source;
    columns.peer[row] = other >= 0 && other < 0xffffffff ? other + 1 : 0;
    columns.isRecorded[row] = 1;
  }

  /** Row of communications + 1, 0 for none. */
  #communicationOf(event: number): number {
    const own = this.#byEvent.get(event);
    if (own !== undefined) return own;
    const id = this.#table.events.columns.externalId[event] as number;
    return id > 0 ? (this.#byExternalId.get(id) ?? 0) : 0;
  }

  #groupOf(said: number, stream: Stream | undefined): string {
    const { communications, strings } = this.#table;
    const name = said > 0 ? (communications.columns.group[said - 1] as number) : 0;
    if (name > 0) return this.#groups.label(strings.get(name));
    const ofStream = onlyOne(stream?.groups);
    return ofStream !== undefined ? this.#groups.label(ofStream) : this.#groups.fallback + (stream?.suffix ?? '');
  }

  /** By track: facts from kernels with arguments, to apply to the track's kernels without. */
  #streams(rows: Uint32Array, launches: ReadonlyMap<number, number>): ReadonlyMap<number, Stream> {
    const { events, strings, communications } = this.#table;
    const streams = new Map<number, Stream>();
    for (const event of rows) {
      if (this.#kinds[events.columns.name[event] as number] !== kindOf.kernel) continue;
      const track = events.columns.track[event] as number;
      let stream = streams.get(track);
      if (stream === undefined) {
        stream = { groups: new Set(), ops: new Set(), suffix: '' };
        streams.set(track, stream);
      }
      const said = this.#communicationOf(event);
      const group = said > 0 ? (communications.columns.group[said - 1] as number) : 0;
      if (group > 0) stream.groups.add(strings.get(group));
      const given = said > 0 ? communications.columns.name[said - 1] : launches.get(event);
      const isSilent = collectiveOp(strings.get(events.columns.name[event] as number)) === '';
      if (isSilent && given !== undefined) stream.ops.add(collectiveOp(strings.get(given)));
    }
    // Streams without known group are most likely different groups: merging them would match unrelated collectives.
    const silent = [...streams].filter(([, { groups }]) => groups.size !== 1);
    if (silent.length > 1) {
      for (const [track, stream] of silent) stream.suffix = ` · stream ${this.#table.tracks[track]?.tid ?? track}`;
    }
    return streams;
  }

  /** By row of the kernel: annotation around its launch, for kernels that nothing else explains. */
  #launchAnnotations(rows: Uint32Array): ReadonlyMap<number, number> {
    const { columns, length } = this.#table.events;
    const names = new Map<number, number>();
    const kernels = new Map<number, number>();
    for (const event of rows) {
      const correlation = columns.correlation[event] as number;
      if (this.#kinds[columns.name[event] as number] !== kindOf.kernel || correlation === 0 || this.#communicationOf(event) > 0) continue;
      kernels.set(correlation, event);
    }
    if (kernels.size === 0) return names;
    const annotations = this.#annotationsByTrack();
    for (let row = 0; row < length; row++) {
      const kernel = kernels.get(columns.correlation[row] as number);
      if (kernel === undefined || kernel === row || columns.track[row] === columns.track[kernel]) continue;
      const around = enclosing(annotations.get(columns.track[row] as number), columns, columns.start[row] as number);
      if (around !== undefined) names.set(kernel, columns.name[around] as number);
    }
    return names;
  }

  /** Rows of launch annotations in order of start, by track. */
  #annotationsByTrack(): ReadonlyMap<number, readonly number[]> {
    const { columns, length } = this.#table.events;
    const byTrack = new Map<number, number[]>();
    const annotation = this.#table.strings.find('user_annotation');
    for (let row = 0; row < length; row++) {
      if (this.#kinds[columns.name[row] as number] !== kindOf.launch || columns.category[row] !== annotation) continue;
      const rows = byTrack.get(columns.track[row] as number);
      if (rows === undefined) byTrack.set(columns.track[row] as number, [row]);
      else rows.push(row);
    }
    for (const rows of byTrack.values()) rows.sort((a, b) => (columns.start[a] as number) - (columns.start[b] as number) || a - b);
    return byTrack;
  }
}

interface Stream {
  readonly groups: Set<string>;
  /** Ops of kernels without one in their own name: send and receive, which make up all-to-all. */
  readonly ops: Set<string>;
  suffix: string;
}

/** The part that events of this name may have in collectives; 0 for none. */
export function collectiveNameKind(name: string): number {
  if (kernelName.test(name)) return kindOf.kernel;
  if (blockingName.test(name)) return kindOf.blocking;
  return launchName.test(name) ? kindOf.launch : kindOf.other;
}

/** Whether an annotation of this name may be the launch of a kernel. */
export const isLaunchName = (name: string): boolean => collectiveNameKind(name) === kindOf.launch;

/** Whether a kernel of this name is a collective's. */
export const isKernelName = (name: string): boolean => collectiveNameKind(name) === kindOf.kernel;

const nameKinds = ({ strings }: KinetoTable): Uint8Array => Uint8Array.from(strings.strings, collectiveNameKind);

/** The last of `rows` (in order of start) that begins at or before `time`, if it still runs then. */
function enclosing(rows: readonly number[] | undefined, columns: KinetoTable['events']['columns'], time: number): number | undefined {
  if (rows === undefined) return undefined;
  let from = 0;
  let to = rows.length;
  while (from < to) {
    const middle = (from + to) >> 1;
    if ((columns.start[rows[middle] as number] as number) <= time) from = middle + 1;
    else to = middle;
  }
  const row = rows[from - 1];
  return row !== undefined && time <= (columns.start[row] as number) + (columns.duration[row] as number) ? row : undefined;
}

const isPointToPoint = (op: string): boolean => op === 'send' || op === 'recv';

function onlyOne(values: ReadonlySet<string> | undefined): string | undefined {
  return values?.size === 1 ? ([...values][0] as string) : undefined;
}

function peerOf(op: string, columns: KinetoTable['communications']['columns'], row: number): number {
  const rank = op === 'send' ? columns.destination[row] : op === 'recv' ? columns.source[row] : -1;
  return rank !== undefined && rank >= 0 && rank < 0xffffffff ? rank + 1 : 0;
}

function bytesOf({ communications, strings }: KinetoTable, op: string, row: number): number {
  const { type, elementsIn, elementsOut, bytesIn } = communications.columns;
  if ((bytesIn[row] as number) >= 0) return bytesIn[row] as number;
  const size = elementBytes(strings.get(type[row] as number)) ?? 0;
  const [into, out] = [Math.max(0, elementsIn[row] as number), Math.max(0, elementsOut[row] as number)];
  const bytes = size * (op === 'recv' || into === 0 ? out : into);
  return Number.isSafeInteger(bytes) ? bytes : 0;
}

/** Numbers every candidate; they are in order of start. */
function number({ columns, length }: KinetoCollectives, table: KinetoTable, last: number, cutOf: CutOf): void {
  const { strings } = table;
  const members = new Map<number, number[]>();
  for (let row = 0; row < length; row++) {
    if (columns.isRecorded[row] === 1) continue;
    // Directions and peers of one group count separately.
    const peer = columns.peer[row] as number;
    const isSend = peer > 0 && strings.get(columns.op[row] as number) === 'send';
    const key = (columns.group[row] as number) * 2 ** 18 + (peer === 0 ? 0 : 2 * (peer % 2 ** 17) + (isSend ? 1 : 0));
    const rows = members.get(key);
    if (rows === undefined) members.set(key, [row]);
    else rows.push(row);
  }
  for (const rows of members.values()) {
    countOn(columns.sequence, rows);
    const seen = new Map<number, number>();
    const cut = cutOf(strings.get(columns.group[rows[0] as number] as number));
    const before = cut === undefined ? rows.length : rows.filter((row) => endOf(table, columns.event[row] as number) <= cut).length;
    const next = cut === undefined ? last : last - beforeCut;
    for (const [index, row] of rows.entries()) {
      const sequence = columns.sequence[row] as number;
      if (sequence < 0 || sequence >= repetition) {
        columns.sequence[row] = next - (before - index);
        continue;
      }
      const earlier = seen.get(sequence) ?? 0;
      seen.set(sequence, earlier + 1);
      columns.sequence[row] = sequence + Math.min(earlier, repetitionsMax) * repetition;
    }
  }
}

/** Numbers the rows between, before and after those with torch's own numbers; if no row has one, all stay below 0. */
function countOn(sequence: Float64Array, rows: readonly number[]): void {
  for (let index = rows.length - 2; index >= 0; index--) {
    const next = sequence[rows[index + 1] as number] as number;
    if ((sequence[rows[index] as number] as number) < 0 && next > 0) sequence[rows[index] as number] = next - 1;
  }
  for (let index = 1; index < rows.length; index++) {
    const previous = sequence[rows[index - 1] as number] as number;
    if ((sequence[rows[index] as number] as number) < 0 && previous >= 0) sequence[rows[index] as number] = previous + 1;
  }
}

/** Process groups from `distributedInfo`; outside data, so checked. */
class ProcessGroups {
  /** The only group there is, else `default`. */
  readonly fallback: string;
  /** The rank that wrote the file; undefined if not stated. */
  readonly rank: unknown;
  readonly #ranks = new Map<string, readonly number[]>();
  readonly #worldSize: number;

  constructor({ metadata }: KinetoTable) {
    const info = record(metadata.get('distributedInfo'));
    this.rank = info.rank;
    this.#worldSize = typeof info.world_size === 'number' ? info.world_size : 0;
    const configured = Array.isArray(info.pg_config) ? info.pg_config.map(record) : [];
    for (const { pg_name: name, ranks } of configured) {
      if (typeof name !== 'string') continue;
      this.#ranks.set(name, Array.isArray(ranks) && ranks.every((rank) => Number.isInteger(rank)) ? (ranks as number[]) : []);
    }
    const [only] = this.#ranks.keys();
    const isOnly = this.#ranks.size === 1 && (typeof info.pg_count !== 'number' || info.pg_count === 1);
    this.fallback = only !== undefined && isOnly ? this.label(only) : 'default';
  }

  /**
   * The group's name as all ranks write it, with its members unless they are all ranks: names of parts of the world need not be
   * unique in it.
   */
  label(name: string): string {
    const ranks = this.#ranks.get(name) ?? [];
    if (ranks.length === 0 || ranks.length === this.#worldSize) return name;
    return ranks.length <= 64 ? `${name} [${ranks.join(', ')}]` : `${name} [${ranks.slice(0, 8).join(', ')}, … ${ranks.length} ranks]`;
  }
}

function record(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
}

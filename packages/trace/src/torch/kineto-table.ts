// A Kineto trace as columns: struct of arrays and a string table, never an object per event.
//
//   events   row │ start  duration │ name  category  track │ shapes  …       complete events ("X"), in the order of the file
//   memory   row │ time   bytes    │ …                                       allocator instants: [memory], [OutOfMemory]
//   memoryCategories  time address │ category                                a buffer's category: [memory category], ours alone
//   flows    row │ time   id       │ …                                       arrows: fwdbwd, ac2g
//   communications    event        │ name  group  …                          fields of the collective that an event is or starts
//   instants, counters                                                       other points in time; only if all arguments are kept
//
// Times are ns from `epoch`: a double holds neither absolute ns nor µs since 1970 with three decimals.
// Invariant: columns of one table have the same length; rows beyond `length` are spare room.

import { ColumnTable } from '../model/column-table.ts';
import { ReadBudget, textBytes, trackBytes } from '../model/read-budget.ts';
import { StringTable } from '../model/string-table.ts';
import type { SpilledRows } from './spilled-rows.ts';

/** Strings are indexes into `strings`, 0 = not recorded; ids and numbers are 0 where not recorded, `sequence` is -1. */
export const eventColumns = {
  /** ns from the table's epoch. */
  start: 'f64',
  /** ns, 0 or more. */
  duration: 'f64',
  name: 'u32',
  category: 'u32',
  /** Index into `tracks`. */
  track: 'u32',
  /** An op's own id; on work done for it (kernel, runtime call) the op's. */
  externalId: 'f64',
  correlation: 'u32',
  /** Pairs a forward op with its backward ones. */
  sequence: 'f64',
  forwardThread: 'u32',
  /** Floating point operations, if the trace has them. */
  flops: 'f64',
  /** JSON text of `Input Dims`, `Input type`, `Concrete Inputs`. */
  shapes: 'u32',
  types: 'u32',
  concrete: 'u32',
  /** Frames joined by `;`, innermost first. */
  stack: 'u32',
  /** JSON text of `Output Dims`, and text of `Module Hierarchy`. */
  outputs: 'u32',
  modules: 'u32',
  /** 1 for asynchronous work: it began and ended in different turns of the program. torch's own files do not mark it. */
  isAsync: 'u8',
  /** Members of `args` without a column, as JSON text without the braces: an index into `arguments`. 0 unless all arguments are kept. */
  others: 'u32',
} as const;

/** Collective's fields on `record_param_comms` ops, and on NCCL kernels of newer traces. Numbers are -1 if not recorded. */
export const communicationColumns = {
  /** Row of `events`. */
  event: 'u32',
  /** torch's name of the collective, such as `_allgather_base`, and of its process group. */
  name: 'u32',
  group: 'u32',
  /** c10::ScalarType's name of the elements, such as `BFloat16`. */
  type: 'u32',
  /** The group's own count of its collectives. */
  sequence: 'f64',
  /** Elements in and out on this rank. */
  elementsIn: 'f64',
  elementsOut: 'f64',
  /** Bytes in, if given instead of elements. */
  bytesIn: 'f64',
  /** Global rank that a `recv` is from, or a `send` goes to. */
  source: 'f64',
  destination: 'f64',
} as const;

/** A point in time other than an allocation. */
export const instantColumns = {
  time: 'f64',
  name: 'u32',
  category: 'u32',
  track: 'u32',
  /** As in `events`. */
  others: 'u32',
} as const;

/** One value of one series of a counter. */
export const counterColumns = {
  time: 'f64',
  name: 'u32',
  track: 'u32',
  value: 'f64',
} as const;

export const memoryColumns = {
  time: 'f64',
  name: 'u32',
  track: 'u32',
  /** Allocated, negative when freed. */
  bytes: 'f64',
  totalAllocated: 'f64',
  totalReserved: 'f64',
  address: 'f64',
  /** c10::DeviceType: 0 CPU, 1 CUDA, … */
  deviceType: 'u8',
  /** Number of the device of that type on its host; 0 for host memory. */
  deviceId: 'u32',
} as const;

/** The recorder's category of a buffer: instants named `[memory category]`. */
export const memoryCategoryColumns = {
  time: 'f64',
  address: 'f64',
  /** The category's name, such as `PARAMETER`. */
  category: 'u32',
  /** Size of the buffer, 0 if not given. */
  bytes: 'f64',
  /** c10::DeviceType, as in `memory`. */
  deviceType: 'u8',
} as const;

export const flowColumns = {
  time: 'f64',
  id: 'f64',
  name: 'u32',
  track: 'u32',
  /** 1 where the arrow ends. */
  isEnd: 'u8',
} as const;

/** Tables of rows in the order of the file. */
export const kinetoKinds = ['events', 'memory', 'memoryCategories', 'instants', 'counters', 'flows'] as const;
export type KinetoKind = (typeof kinetoKinds)[number];

/** One track of the timeline. */
export interface KinetoTrack {
  readonly pid: number;
  readonly tid: number | string;
}

/** Counts of data read but left out of the tables; never an error. */
export interface KinetoSkipped {
  /** Events of string processes ("Spans", "Traces"): marks of the profiler, not of the program. */
  markers: number;
  /** Events of kinds without a table: counters, other instants; counters without a number. */
  otherKinds: number;
  /** Events without a usable name, process, time or length; begins without an end, and ends without a begin. */
  malformed: number;
  /** Metadata members beyond `limits.metadataBytesMax`, or that are no JSON. */
  metadata: number;
  /** Events stored without their other arguments, which exceeded `limits.argumentBytesMax`. */
  arguments: number;
  /** Arguments that are no JSON (NaN, control characters), or nest deeper than `limits.jsonDepthMax`. */
  values: number;
  /** Places that are no JSON, each left out together with the event around it. */
  broken: number;
  /** Ends of arrows at which no event begins (unplaced-flows.ts); not counted in a file that outgrew memory. */
  flows: number;
  /** 1 where reading stopped before the file's end: `KinetoTable.stopped`. */
  rest: number;
}

export class KinetoTable {
  /** Time 0, ns since 1970 if the file has `baseTimeNanoseconds`; else on the file's own time axis. */
  epoch = 0n;
  /** ns from `epoch` at which the profiler started; 0 if not stated. */
  profileStart = 0;
  /** ns by which two times in the file may have been rounded apart (kineto-time-rounding.ts); 0 for exact times. */
  timeError = 0;
  /** Memory that the whole table may take. */
  readonly budget: ReadBudget;
  readonly events: ColumnTable<typeof eventColumns>;
  readonly memory: ColumnTable<typeof memoryColumns>;
  readonly memoryCategories: ColumnTable<typeof memoryCategoryColumns>;
  readonly flows: ColumnTable<typeof flowColumns>;
  readonly communications: ColumnTable<typeof communicationColumns>;
  readonly instants: ColumnTable<typeof instantColumns>;
  readonly counters: ColumnTable<typeof counterColumns>;
  readonly strings: StringTable;
  /** Texts of `others`, apart from the strings: nearly each may be different. */
  readonly arguments: StringTable;
  readonly tracks: KinetoTrack[] = [];
  /** Members beside `traceEvents`, as JSON.parse has them (`baseTimeNanoseconds` as a bigint). */
  readonly metadata = new Map<string, unknown>();
  /** Names from `process_name` and `thread_name` events: by pid, by index of the track. */
  readonly processNames = new Map<number, string>();
  readonly threadNames = new Map<number, string>();
  readonly skipped: KinetoSkipped = {
    markers: 0,
    otherKinds: 0,
    malformed: 0,
    metadata: 0,
    arguments: 0,
    values: 0,
    broken: 0,
    flows: 0,
    rest: 0,
  };
  /** Byte of the file at which the first event that lost something, or all, begins; undefined if none did. */
  leftOutAt: number | undefined;
  /** Where and why the first of the `broken` places is no JSON. */
  brokenAt: string | undefined;
  /** The rows of a file that outgrew memory. Then `events` has only those that collectives and steps are found by, and the other tables are empty. */
  spilled: SpilledRows | undefined;
  /** Where and why reading stopped before the file's end; undefined if the file was read to its end. */
  stopped: string | undefined;

  constructor(budget = new ReadBudget()) {
    this.budget = budget;
    this.events = new ColumnTable(eventColumns, budget);
    this.memory = new ColumnTable(memoryColumns, budget);
    this.memoryCategories = new ColumnTable(memoryCategoryColumns, budget);
    this.flows = new ColumnTable(flowColumns, budget);
    this.communications = new ColumnTable(communicationColumns, budget);
    this.instants = new ColumnTable(instantColumns, budget);
    this.counters = new ColumnTable(counterColumns, budget);
    this.strings = new StringTable(budget);
    this.arguments = new StringTable(budget);
  }

  /** Adds a track; returns its index. Throws TraceError `memory`. */
  addTrack(track: KinetoTrack): number {
    this.budget.take(trackBytes);
    return this.tracks.push(track) - 1;
  }

  /** Renames a process or a track. Throws TraceError `memory`. */
  setName(names: 'processNames' | 'threadNames', key: number, name: string): void {
    this.budget.take((this[names].has(key) ? 0 : textBytes) + 2 * Math.max(0, name.length - (this[names].get(key)?.length ?? 0)));
    this[names].set(key, name);
  }

  /** Whether a switch of the profiler (`with_flops`, `profile_memory`, …) was on during recording. */
  isOn(option: string): boolean {
    const value = this.metadata.get(option);
    return value === 1 || value === true || value === '1';
  }
}

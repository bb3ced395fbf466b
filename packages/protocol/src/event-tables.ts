// The event tables: everything a rank can record, one table per kind of event, one typed column per field.
//
// Only this schema names tables and columns. The batch codec, the text dump, docs/batch-format.md and the golden files follow it.
// Column types, and how memory holds each:
//
//   time    ns on the rank's clock (RankTime)           Float64Array
//   length  ns, ≥ 0                                     Float64Array
//   count   integer, 0 … 2^53−1                         Float64Array
//   small   integer, 0 … 2^32−1                         Uint32Array
//   string  index into the batch's string table         Uint32Array
//   number  any double                                  Float64Array
//   id8     8 opaque bytes per row                      Uint8Array, 8 per row
//   id16    16 opaque bytes per row                     Uint8Array, 16 per row
//
// Adding a table or a column is a compatible change (decoders skip unknown ones and zero-fill missing ones); changing the meaning of one
// is a new protocol version.

import { limits } from './limits.ts';

export type ColumnType = 'time' | 'length' | 'count' | 'small' | 'string' | 'number' | 'id8' | 'id16';

export const tableColumns = {
  /** A line of the timeline that holds events. `kind`: `thread`, `stream`, `device`. `tid`: the system's own number for it. */
  tracks: { track: 'small', kind: 'string', name: 'string', tid: 'count' },
  /**
   * A piece of work with a start and a length. `id` and `parent` are set for spans that may overlap others of their track (async ones;
   * 0 = none: the parent is the enclosing span). `state` is a SpanState.
   */
  spans: {
    start: 'time',
    length: 'length',
    track: 'small',
    name: 'string',
    category: 'string',
    id: 'count',
    parent: 'count',
    state: 'small',
  },
  /** A point in time. */
  instants: { time: 'time', track: 'small', name: 'string', category: 'string' },
  /** A value that changes over time. */
  counters: { time: 'time', track: 'small', name: 'string', unit: 'string', value: 'number' },
  /** One training step of this rank, from one `step()` to the next; `overhead`: time that recording took from the thread during the step. */
  steps: { start: 'time', length: 'length', track: 'small', step: 'count', overhead: 'length' },
  /** Time of one named part of one step; `length` is the sum over `calls` spans directly below the step. */
  phases: { step: 'count', name: 'string', length: 'length', calls: 'small' },
  /**
   * One rank's part of a collective, matched across ranks by (group, sequence), or one side of a send from rank to rank, matched by (group,
   * source, destination, sequence). `bytes`: this rank's payload. `peer`: 1 + the rank at the other side of a send or receive, 0 for a collective.
   */
  collectives: {
    start: 'time',
    length: 'length',
    track: 'small',
    op: 'string',
    group: 'string',
    sequence: 'count',
    bytes: 'count',
    id: 'count',
    parent: 'count',
    state: 'small',
    peer: 'small',
  },
  /** One side of a remote call; `trace`, `span` and `parentSpan` are W3C Trace Context ids. `side`: `client` or `server`; `status`: `ok` or `error`. */
  rpcs: {
    start: 'time',
    length: 'length',
    track: 'small',
    method: 'string',
    side: 'string',
    peer: 'string',
    status: 'string',
    trace: 'id16',
    span: 'id8',
    parentSpan: 'id8',
    id: 'count',
    parent: 'count',
    state: 'small',
  },
  /**
   * One clock ping: `sent` and `received` are on this rank's clock, `remoteReceived` and `remoteSent` on the clock of `host`, relative to
   * `hostEpoch` (decimal ns, that host's monotonic clock).
   */
  clockSamples: { sent: 'time', received: 'time', remoteReceived: 'time', remoteSent: 'time', host: 'string', hostEpoch: 'string' },
  /** The wall clock at `time`: unix `seconds` and `nanos` within the second. `width`: how long the paired reading took. */
  wallClocks: { time: 'time', width: 'length', seconds: 'count', nanos: 'small' },
  /** Facts about the rank, each once: `key` to `value`. */
  metadata: { key: 'string', value: 'string' },
  /** Arguments of events: `row` of the table numbered `table` (order of this schema) has `key` with that value. */
  numberArguments: { table: 'small', row: 'small', key: 'string', value: 'number' },
  stringArguments: { table: 'small', row: 'small', key: 'string', value: 'string' },
  /**
   * Details of the op whose span is at `row`. `signature`: JSON text of an object, whose members are arguments that many calls share (shapes,
   * types, FLOPs). `sequence`: number of the forward op that it is, or (`isBackward` 1) is the backward op of; 0 for neither. `allocated`,
   * `freed`: bytes while it ran. `step`: 1 + the number of the step it ended in, 0 outside of any. `module`: layers around it; `stack`: frames
   * joined by `;`, innermost first.
   */
  ops: {
    row: 'small',
    signature: 'string',
    sequence: 'count',
    isBackward: 'small',
    allocated: 'count',
    freed: 'count',
    step: 'count',
    module: 'string',
    stack: 'string',
  },
  /**
   * A buffer of `bytes` was allocated, or freed when `bytes` is below 0; `total` bytes are live then. With a `category` (`PARAMETER`, …): the
   * category found for the buffer at `address`. `device`: 0 host memory, 1 a device's.
   */
  memory: { time: 'time', track: 'small', bytes: 'number', total: 'number', address: 'count', device: 'small', category: 'string' },
} as const satisfies Record<string, Record<string, ColumnType>>;

export type TableColumns = typeof tableColumns;
export type TableName = keyof TableColumns;

/**
 * Metadata key of the recorder's own counts, sent with the last batch: JSON text of a map from event kind (`span`, `instant`, `counter`,
 * `step`, `collective`, `rpc`) to the number recorded. The merge compares them with what arrived.
 */
export const recordedKey = 'ranktrace.recorded';

/**
 * Suffix to a thread's name, with the same `tid`: the track of the thread's heap collections. They run on that thread in the midst of its
 * spans, but Node reports them afterwards, so that they cannot be among those spans.
 */
export const collectionsSuffix = ' garbage collection';

/** Tracks whose collectives NCCL's plugin recorded, with their times on the device, are named this and the communicator. */
export const ncclTrackPrefix = 'NCCL ';

/**
 * Metadata key of what the source left out of a file's content: JSON text of a map from `malformed`, `otherKinds`, `arguments` and `metadata`
 * to a count. Absent: nothing.
 */
export const leftOutKey = 'ranktrace.left_out';

/** Metadata key of ranks that belong to a group by what this rank knows, and that no file shows in it: JSON text of `Absent` (messages.ts). */
export const absentKey = 'ranktrace.absent';

/** Metadata key of the processes or threads in which a rank's loader works ahead of the loop; `0`: the loop itself loads. */
export const loaderWorkersKey = 'ranktrace.loader_workers';

/** Metadata key of a rank that was still running when its file was written, with any value: a missing end is no loss. */
export const stillRunningKey = 'ranktrace.still_running';

/** Metadata key of the error that ended a rank's program, as text: its kind and the first line of what it says. */
export const failedKey = 'ranktrace.failed';

/** Metadata key of the signal that ended a rank's program in the midst of a step: `SIGTERM`, or `SIGINT`, as Ctrl-C sends it. */
export const endedByKey = 'ranktrace.ended_by';

/** Metadata key of how a rank's process ended, as the command that started it saw it: `ended with exit code 1`, `was ended by SIGKILL`. */
export const exitKey = 'ranktrace.exit';

/** Metadata key of a rank that the command which started it had asked to end before it did, with any value: its end says nothing of what was wrong. */
export const stoppedKey = 'ranktrace.stopped';

/** Metadata key of a rank's answer to `record`: JSON text of `Captured` (messages.ts). The answer to the last request stays. */
export const capturedKey = 'ranktrace.captured';

/** Metadata key of a rank whose detail an agent records on demand, in windows of time: `kineto`. */
export const recorderKey = 'ranktrace.recorder';

/** Metadata key of an agent's answer to `record_window`: JSON text of `WindowAnswer` (messages.ts). */
export const windowKey = 'ranktrace.window';

/**
 * Groups that every rank of the run belongs to: the default group, and that of `init_process_group`, in which ranks meet before there is any. A rank
 * tells the latter by its place alone, for it orders no times: a rank may leave it before another one has entered.
 */
export const groupsOfAllRanks: ReadonlySet<string> = new Set(['world', 'rendezvous']);

/** Metadata key of a rank's current place: JSON text of `Running` (messages.ts). The newest counts. */
export const runningKey = 'ranktrace.running';

/**
 * Metadata key of the steps of which a rank sent all work of its devices: JSON text of `DeviceSteps` (messages.ts). The newest counts. Absent: not
 * told, as by older recorders.
 */
export const deviceStepsKey = 'ranktrace.device_steps';

/** Metadata key of an agent's answer to `report_collectives`: JSON text of `CollectiveReport` (messages.ts), one for each source. */
export const collectivesKey = 'ranktrace.collectives';

/** Counter that the SDK samples: highest fill of any ring of the rank's threads since the last sample, %. */
export const ringFillCounter = 'ring fill';

/**
 * Counter that the SDK samples: share of the time in which the rank's threads wanted a CPU and had none, since the last sample, %. All
 * threads together; on a quiet host near 0.
 */
export const cpuWaitCounter = 'cpu wait';

/** Counter beside it: the time in which they had none, of all time since the last sample, %. Over 100 where several threads wait at once. */
export const cpuWaitTimeCounter = 'cpu wait time';

/** Metadata of a rank: the name of its GPU with nvidia-smi's index N, at `gpu.N`. */
export const gpuKey = 'gpu.';

/** Metadata of a rank that runs TensorFlow.js: where its ops run, and how to read their times (`host`, `host dispatch` or `device, fenced`). */
export const tfKeys = {
  backend: 'tf.backend',
  opTimes: 'tf.op_times',
  package: 'tf.package',
  version: 'tf.version',
  library: 'tf.library',
} as const;

/** Prefix of the metadata keys of detail that the rank no longer records, because recording took too much of the steps, with the reason. */
export const shedKey = 'ranktrace.shed.';

/**
 * Prefix of the metadata keys of detail that the rank records in some steps only, because recording took too much of them: JSON text of a map from
 * `every` (records one step in this many, now; 1: every step), `steps` (so far) and `recorded` (those of them recorded) to the number. The
 * newest stays.
 */
export const sampledKey = 'ranktrace.sampled.';

/** How names of shed and sampled detail begin where only what the flight recorder holds lacks it: a schedule's active steps have all. */
export const heldDetail = 'held ';

/**
 * Prefix of the metadata keys, with a number of the thread at the end, of how ops got their stacks: JSON text of a map from `walked` (read
 * one by one), `taken` (reused from earlier steps), `checked` (walked, although a prediction existed), `wrong` (checked, and the prediction
 * differed) and `wrongExpected` (estimate of the wrong ones among the taken) to the number.
 */
export const stacksKey = 'ranktrace.stacks.';

/**
 * Metadata key of collectives that stay spans, because they have no number and their count contradicts other ranks': JSON text of a map from
 * group to the number of them.
 */
export const miscountedKey = 'ranktrace.miscounted';

/** Table names in schema order: the index is the number that `numberArguments.table` carries. */
export const tableNames = Object.keys(tableColumns) as readonly TableName[];

/**
 * A span is `whole` when its start and end fell between the same two flushes. A flush announces a span that still runs as `open` (length 0);
 * a later `close` completes it (same start, full length). So a killed rank still shows its innermost spans, and no event of a later batch
 * starts before this batch's watermark.
 */
export const spanState = { whole: 0, open: 1, close: 2 } as const;

type ColumnArray<T extends ColumnType> = T extends 'small' | 'string' ? Uint32Array : T extends 'id8' | 'id16' ? Uint8Array : Float64Array;

/** Type of one field in `append`: a number, or the bytes of an id. */
export type Field<T extends ColumnType> = T extends 'id8' | 'id16' ? Uint8Array : number;

export type Columns<N extends TableName> = { -readonly [C in keyof TableColumns[N]]: ColumnArray<TableColumns[N][C] & ColumnType> };

/** All fields of one row; `string` fields are string indexes. */
export type Row<N extends TableName> = { readonly [C in keyof TableColumns[N]]: Field<TableColumns[N][C] & ColumnType> };

/** Elements per row of a column: 8 or 16 for an id column, 1 for all others. */
export function elementsPerRow(type: ColumnType): number {
  return type === 'id16' ? 16 : type === 'id8' ? 8 : 1;
}

/** An empty column with room for `rows` rows. */
export function allocateColumn(type: ColumnType, rows: number): Float64Array | Uint32Array | Uint8Array {
  if (type === 'id8' || type === 'id16') return new Uint8Array(rows * elementsPerRow(type));
  return type === 'small' || type === 'string' ? new Uint32Array(rows) : new Float64Array(rows);
}

/** A table of one kind of event: columns of equal capacity, with `length` filled rows. */
export class EventTable<N extends TableName> {
  readonly name: N;
  length = 0;
  columns: Columns<N>;
  #capacity: number;

  constructor(name: N, capacity = 16) {
    this.name = name;
    this.#capacity = capacity;
    this.columns = capacity === 0 ? noColumns(name) : allocateColumns(name, capacity);
  }

  /** Makes a table from existing columns; all of them hold at least `length` rows. */
  static of<N extends TableName>(name: N, columns: Columns<N>, length: number): EventTable<N> {
    const table = new EventTable(name, 0);
    table.columns = columns;
    table.length = length;
    table.#capacity = length;
    return table;
  }

  get full(): boolean {
    return this.length >= limits.rowsPerTableMax;
  }

  /** Adds one row and returns its index. The caller checks `full` first. */
  append(row: Row<N>): number {
    const index = this.length;
    if (index === this.#capacity) this.grow();
    const types = tableColumns[this.name] as Record<string, ColumnType>;
    const columns = this.columns as Record<string, Float64Array | Uint32Array | Uint8Array>;
    const fields = row as Record<string, number | Uint8Array>;
    for (const column in types) {
      const field = fields[column];
      const array = columns[column];
      if (array === undefined || field === undefined) continue;
      if (typeof field === 'number') array[index] = field;
      else (array as Uint8Array).set(field, index * field.length);
    }
    this.length = index + 1;
    return index;
  }

  /** Drops all rows, keeps the capacity. */
  clear(): void {
    this.length = 0;
  }

  /** Doubles the capacity, for writers that bypass `append`. Replaces `columns`. */
  grow(): void {
    const capacity = Math.max(16, this.#capacity * 2);
    const grown = allocateColumns(this.name, capacity) as Record<string, Float64Array | Uint32Array | Uint8Array>;
    const old = this.columns as Record<string, Float64Array | Uint32Array | Uint8Array>;
    for (const column in grown) {
      const from = old[column];
      if (from !== undefined) grown[column]?.set(from as never);
    }
    this.columns = grown as Columns<N>;
    this.#capacity = capacity;
  }
}

function allocateColumns<N extends TableName>(name: N, capacity: number): Columns<N> {
  const columns: Record<string, Float64Array | Uint32Array | Uint8Array> = {};
  for (const [column, type] of Object.entries(tableColumns[name])) columns[column] = allocateColumn(type as ColumnType, capacity);
  return columns as Columns<N>;
}

const empty = new Map<TableName, Columns<TableName>>();

/** Shared columns of capacity 0: most tables of most batches have no rows, and a hundred arrays for each would cost more than its events. */
function noColumns<N extends TableName>(name: N): Columns<N> {
  let columns = empty.get(name);
  if (columns === undefined) {
    columns = Object.freeze(allocateColumns(name, 0)) as Columns<TableName>;
    empty.set(name, columns);
  }
  return columns as Columns<N>;
}

export type EventTables = { readonly [N in TableName]: EventTable<N> };

/** One empty table of each kind. */
export function createEventTables(capacity = 0): EventTables {
  const tables: Partial<Record<TableName, EventTable<TableName>>> = {};
  for (const name of tableNames) tables[name] = new EventTable(name, capacity);
  return tables as unknown as EventTables;
}

// Streaming k-way merge: batches of many ranks in, events in trace time out.
//
//   rank 0  ──[ batch ]──[ batch ]─┐   runs: rows of one table that are already in order
//   rank 1  ──[ batch ]──[ batch ]─┼─► heap of runs ─► event ─► lane ─► sink
//   rank 2  ──[ batch ]────────────┘
//                 ^ horizon: the start of the last batch read from the slowest rank
//
// Batches of a rank come in order of the earliest start of their events (`since`), so the merger emits everything before the slowest
// rank's horizon: memory holds two or three batches a rank, however long the run. A span that was open at one flush is mostly
// closed by the next, and is then emitted whole. Batches may overlap: held-back detail lies beside the summaries of its time.
//
// An event that comes after the merger has passed its time is written at once and counted `late`.
// Invariant: the order depends on (time, length, process, table, sequence, row) alone, never on the order of arrival.
//
// A sink may take events in stretches of time, rank by rank (`TraceSink.endStretch`). Each rank then has a heap of its own, and what the merger and
// its sinks hold for a rank stays in the processor's cache: by time, most events of 64 ranks find theirs gone. One more batch a rank waits in memory.
// Invariant: a process's events, and their order, are those of the merge by time, but that a span may have got its end in between.

import {
  type Batch,
  type Columns,
  type EventTable,
  isBefore,
  type RankTime,
  spanState,
  type TableName,
  type TraceTime,
} from '@ranktrace/protocol';
import type { RankClock } from '../align/clock-model.ts';
import { isDeviceKind, type LanePlace, Lanes } from '../model/lanes.ts';
import { limits } from '../model/limits.ts';
import type { ProcessTotals, TraceEvent, TraceLane, TraceProcess, TraceSink } from '../model/trace-sink.ts';
import { ArgumentIndex, Signatures } from './argument-index.ts';
import { CanonicalNames } from './canonical-names.ts';
import { EventReader, type EventTableName, eventTables, kindOfTable, rowsOf } from './event-reader.ts';
import { Horizons } from './horizons.ts';
import { isAhead, type RowRun, rowRuns, type SpanTableName } from './row-run.ts';
import { RunHeap } from './run-heap.ts';

type Run = RowRun<Member>;

/** A span announced as open and not yet closed. */
interface OpenRow {
  readonly table: EventTable<SpanTableName>;
  readonly row: number;
  /** Strings of its batch; the merger's own copy. */
  readonly strings: string[];
  readonly arguments: ArgumentIndex;
  /** Its place, once it has been emitted. */
  placed: LanePlace | undefined;
}

/** One rank's life in the merge. */
interface Member {
  readonly process: TraceProcess;
  readonly clock: RankClock;
  readonly open: Map<string, OpenRow>;
  /** Spans that have ended, where held-back batches may announce them again; undefined where none were held back. */
  readonly ended: Set<string> | undefined;
  readonly lanes: Map<number, Lanes>;
  readonly counters: Map<string, TraceLane>;
  steps: TraceLane | undefined;
  readonly tracks: Map<number, { kind: string; name: string; tid: number }>;
  late: number;
  crowded: number;
  /** Arguments dropped beyond those that one event may have. */
  argumentsLeftOut: number;
  /** Begin of its last event so far. */
  lastStart: TraceTime | undefined;
  /** Emitted events of all runs that have ended. */
  readonly counts: Record<TraceEvent['kind'], number>;
  /** Its runs: its own where events go out in stretches, else those of all. */
  readonly heap: RunHeap<Run>;
}

const spanTables: ReadonlySet<TableName> = new Set<SpanTableName>(['spans', 'collectives', 'rpcs']);
/** State of a `close` row that has nothing left to write, because its `open` row was emitted whole. */
const spent = 255;
/** Events and their arguments written in one go: few enough that little output waits in memory. */
const eventsPerTurn = 4096;
/** Most rows of one batch's table in a stretch; and most steps, for in a stretch one rank may be that far ahead of another. */
const rowsPerStretch = 256;
const stepsPerStretch = 32;

export class BatchMerger {
  readonly #sink: TraceSink;
  readonly #members: Member[] = [];
  /** Per member: trace time before which nothing will come. */
  readonly #horizons = new Horizons();
  readonly #heap = new RunHeap<Run>(isAhead);
  readonly #inStretches: boolean;
  /** Batches pushed since events went out last. */
  #pushed = 0;
  readonly #reader = new EventReader();
  readonly #names = new CanonicalNames();
  readonly #signatures = new Signatures();
  #horizon = Number.NEGATIVE_INFINITY;
  /** Rows pushed and not yet emitted. */
  #waiting = 0;
  #lanes = 0;
  #serial = 0;

  constructor(sink: TraceSink) {
    this.#sink = sink;
    this.#inStretches = sink.endStretch !== undefined;
  }

  /**
   * Adds a process, in order of `TraceProcess.index`; returns its number for `push`. `heldBack`: some of its batches came after their time,
   * so a span that they announce as open may already be emitted, or be over.
   */
  add(process: TraceProcess, clock: RankClock, heldBack = false): number {
    this.#members.push({
      process,
      clock,
      open: new Map(),
      ended: heldBack ? new Set() : undefined,
      lanes: new Map(),
      counters: new Map(),
      steps: undefined,
      tracks: new Map(),
      late: 0,
      crowded: 0,
      argumentsLeftOut: 0,
      lastStart: undefined,
      counts: { span: 0, instant: 0, counter: 0, step: 0, collective: 0, rpc: 0 },
      heap: this.#inStretches ? new RunHeap<Run>(isAhead) : this.#heap,
    });
    return this.#horizons.add();
  }

  /** The member that holds back the horizon: its next batch is needed; undefined when all have ended. */
  get slowest(): number | undefined {
    return this.#horizons.slowest;
  }

  /**
   * Takes the next batch of a member; its tables now belong to the merger. `since`: none of its events, nor of later ones, starts before
   * this; ns on the rank's clock.
   */
  push(index: number, pushed: Batch, since: RankTime): void {
    const member = this.#member(index);
    const strings = this.#names.canonical(pushed);
    const batch = { ...pushed, strings };
    const args = new ArgumentIndex(batch, this.#signatures);
    member.argumentsLeftOut += args.leftOut;
    this.#learnTracks(member, batch);
    this.#matchOpenRows(member, batch, strings, args);
    for (const table of eventTables) this.#addRuns(member, batch, table, args);
    this.#horizons.set(index, Math.max(this.#horizons.of(index), member.clock.toTrace(since)));
    this.#pushed++;
  }

  /** Ends this member: nothing more of it will come. */
  finish(index: number): void {
    this.#member(index);
    this.#horizons.set(index, Number.POSITIVE_INFINITY);
  }

  /** Writes every event that no later one can precede; yields every few thousand, as a small batch may release a great many. */
  *advance(): Generator<void, void> {
    const waitingMax = Math.max(limits.mergeRowsWaitingMax, limits.mergeRowsWaitingPerRankMax * this.#members.length);
    const isFull = this.#waiting > waitingMax;
    // Watermarks that do not move would keep everything in memory: emit half of the maximum; rows that come before it are late.
    const [horizon, rest] = isFull ? [Number.POSITIVE_INFINITY, waitingMax / 2] : [this.#horizons.least, 0];
    if (this.#inStretches) yield* this.#writeStretches(horizon, rest);
    else while (this.#waiting > rest && this.#write(this.#heap, horizon, Math.min(eventsPerTurn, this.#waiting - rest))) yield;
    if (!isFull && !this.#inStretches) this.#horizon = Math.max(this.#horizon, horizon);
  }

  /** Writes stretch by stretch until no more than `rest` rows wait. */
  *#writeStretches(horizon: number, rest: number): Generator<void, void> {
    // A horizon that has moved little would cut stretches of a few events.
    if (horizon !== Number.POSITIVE_INFINITY && this.#pushed < this.#members.length) return;
    this.#pushed = 0;
    for (let until = this.#horizon; until < horizon && this.#waiting > rest; ) {
      until = Math.min(horizon, this.#stretchEnd());
      for (const { heap } of this.#members) while (this.#write(heap, until, eventsPerTurn)) yield;
      this.#horizon = Math.max(this.#horizon, until);
      this.#sink.endStretch?.();
      yield;
    }
  }

  /** The latest time up to which no process has too many rows for one stretch. */
  #stretchEnd(): number {
    let end = Number.POSITIVE_INFINITY;
    for (const { heap } of this.#members)
      for (const run of heap.runs) end = Math.min(end, run.keyAfter(run.table === 'steps' ? stepsPerStretch : rowsPerStretch));
    return end;
  }

  /** Writes at most `count` events and arguments of `heap` before the horizon; true where more of them are left. */
  #write(heap: RunHeap<Run>, horizon: number, count: number): boolean {
    let left = count;
    let reached = this.#horizon;
    let run = heap.first;
    while (run !== undefined && run.key < horizon && left > 0) {
      // As long as the run stays clearly ahead of the next ones, the heap is not needed.
      const bound = Math.min(horizon, heap.nextKey);
      const from = run.index;
      do {
        reached = run.key;
        left -= this.#emit(run);
        run.moveTo(run.index + 1);
      } while (run.index < run.end && left > 0 && run.key < bound);
      this.#waiting -= run.index - from;
      const { start } = this.#reader.event;
      if (run.member.lastStart === undefined || isBefore(run.member.lastStart, start)) run.member.lastStart = start;
      if (run.index < run.end) heap.settle();
      else {
        run.member.counts[kindOfTable[run.table]] += run.emitted;
        heap.shift();
      }
      run = heap.first;
    }
    if (!this.#inStretches) this.#horizon = Math.max(this.#horizon, reached);
    return run !== undefined && run.key < horizon;
  }

  /** Emitted events, per member. */
  totals(about: (index: number) => Omit<ProcessTotals, 'process' | 'late' | 'crowded' | 'counts'>): ProcessTotals[] {
    return this.#members.map(({ process, late, crowded, counts, argumentsLeftOut, lastStart }, index) => {
      const reported = about(index);
      const dropped = { ...reported.dropped, arguments: reported.dropped.arguments + argumentsLeftOut };
      // A watermark stays behind the events beside it, and a killed process has no later one.
      const { ended, until } = reported;
      const later = ended || until === undefined || lastStart === undefined || isBefore(lastStart, until) ? {} : { until: lastStart };
      return { process, late, crowded, counts, ...reported, ...later, dropped };
    });
  }

  #member(index: number): Member {
    const member = this.#members[index];
    if (member === undefined) throw new RangeError(`No member ${index} in this merge of ${this.#members.length}`);
    return member;
  }

  #learnTracks(member: Member, batch: Batch): void {
    const { columns, length } = batch.tables.tracks;
    for (let row = 0; row < length; row++) {
      member.tracks.set(columns.track[row] as number, {
        kind: batch.strings[columns.kind[row] as number] as string,
        name: batch.strings[columns.name[row] as number] as string,
        tid: columns.tid[row] as number,
      });
    }
  }

  /** Gives open spans their ends: one not yet emitted becomes whole; for an emitted one, later spans on its lanes see its end. */
  #matchOpenRows(member: Member, batch: Batch, strings: string[], args: ArgumentIndex): void {
    for (const name of spanTables as ReadonlySet<SpanTableName>) {
      const table = batch.tables[name] as EventTable<SpanTableName>;
      const { state, start, track, id, length } = table.columns;
      for (let row = 0; row < table.length; row++) {
        if (state[row] === spanState.whole || state[row] === spent) continue;
        const key = openKey(name, track[row] as number, start[row] as number, id[row] as number);
        if (state[row] === spanState.open) {
          if (member.open.has(key) || member.ended?.has(key) === true) {
            state[row] = spent;
            continue;
          }
          member.open.set(key, { table, row, strings, arguments: args, placed: undefined });
          continue;
        }
        const open = member.open.get(key);
        member.ended?.add(key);
        if (open === undefined) {
          // Its `open` row was lost with its batch: this row holds all that is known.
          state[row] = spanState.whole;
        } else if (open.placed === undefined) {
          completeRow(open, table, row, strings, args);
          state[row] = spent;
          member.open.delete(key);
        } else {
          open.placed.setEnd(member.clock.toTrace((start[row] as number) + (length[row] as number)));
        }
      }
    }
  }

  #addRuns(member: Member, batch: Batch, name: EventTableName, args: ArgumentIndex): void {
    const { length } = batch.tables[name];
    if (length === 0) return;
    this.#waiting += length;
    const runs = rowRuns(rowsOf(batch, name, member.clock, args), member, this.#serial);
    this.#serial += runs.length;
    for (const run of runs) {
      if (run.key < this.#horizon) member.late += run.countBelow(this.#horizon);
      member.heap.push(run);
    }
  }

  /** Writes the row at `index`; returns its cost in the turn. */
  #emit(run: Run): number {
    const { member, table: name, row } = run;
    const event = this.#reader.event;
    this.#reader.read(run, row);
    if (name === 'spans') {
      if (!this.#placeSpan(run, name, row)) return 1;
    } else if (name === 'steps') {
      event.lane = member.steps ??= this.#createLane(member, { kind: 'steps', name: 'ProfilerSteps' });
    } else if (name === 'counters') {
      event.lane = this.#counterLane(member, event.name, event.unit);
    } else if (name === 'instants' || name === 'memory') {
      event.lane = this.#lanesOf(run, (run.columns as Columns<'instants' | 'memory'>).track[row] as number).first;
    } else if (!this.#placeSpan(run, name, row)) return 1;
    // A span's `close` was counted at its `open`.
    if (event.state !== 'close') run.emitted++;
    this.#sink.event(event);
    return 1 + run.arguments.sizeOf(name, row);
  }

  /** Finds the lane of a span; false when there is nothing to write. */
  #placeSpan(run: Run, name: SpanTableName, row: number): boolean {
    const columns = run.columns as Columns<SpanTableName>;
    const state = columns.state[row] as number;
    const event = this.#reader.event;
    if (state === spent) return false;
    const { member } = run;
    const track = columns.track[row] as number;
    if (state === spanState.whole) return this.#isPlaced(member, this.#lanesOf(run, track).place(event.start, event.start + event.length));
    const id = columns.id[row] as number;
    const key = openKey(name, track, columns.start[row] as number, id);
    const open = member.open.get(key);
    if (state === spanState.close) {
      member.open.delete(key);
      if (open?.placed === undefined) return false;
      event.lane = open.placed.lane;
      event.name = open.strings[namesOf(open.table)[open.row] as number] as string;
      return true;
    }
    const placed = this.#lanesOf(run, track).placeOpen(event.start, id !== 0);
    if (open !== undefined) open.placed = placed;
    return this.#isPlaced(member, placed?.lane);
  }

  /** Puts the event on the lane; without one it is counted and not written. */
  #isPlaced(member: Member, lane: TraceLane | undefined): boolean {
    if (lane === undefined) member.crowded++;
    else this.#reader.event.lane = lane;
    return lane !== undefined;
  }

  #lanesOf(run: Run, track: number): Lanes {
    if (run.track === track && run.lanes !== undefined) return run.lanes;
    const { member } = run;
    let lanes = member.lanes.get(track);
    if (lanes === undefined) {
      lanes = new Lanes((overflow) => {
        const known = member.tracks.get(track) ?? { kind: 'thread', name: `track ${track}`, tid: 0 };
        const kind = isDeviceKind(known.kind) ? known.kind : 'thread';
        const name = overflow === 0 ? known.name : `${known.name} (${overflow + 1})`;
        return this.#createLane(member, { kind, name, tid: known.tid, overflow });
      });
      member.lanes.set(track, lanes);
    }
    run.track = track;
    run.lanes = lanes;
    return lanes;
  }

  #counterLane(member: Member, name: string, unit: string): TraceLane {
    const held = member.counters.get(name);
    if (held !== undefined) return held;
    const lane = this.#createLane(member, { kind: 'counter', name, unit });
    member.counters.set(name, lane);
    return lane;
  }

  #createLane(member: Member, about: Pick<TraceLane, 'kind' | 'name'> & Partial<TraceLane>): TraceLane {
    const lane = { tid: 0, overflow: 0, unit: '', ...about, index: ++this.#lanes, process: member.process };
    this.#sink.lane(lane);
    return lane;
  }
}

/** The column of the shown name, which may be another one at the end of a span. */
function namesOf({ name, columns }: EventTable<SpanTableName>): Record<number, number> {
  const column = { spans: 'name', collectives: 'op', rpcs: 'method' } as const;
  return (columns as Record<string, Record<number, number>>)[column[name]] ?? {};
}

/** Completes an `open` row by its `close` row: length, outcome, name, arguments. */
function completeRow(
  open: OpenRow,
  closing: EventTable<SpanTableName>,
  row: number,
  strings: readonly string[],
  args: ArgumentIndex,
): void {
  const { columns, name } = open.table;
  columns.state[open.row] = spanState.whole;
  columns.length[open.row] = closing.columns.length[row] as number;
  const given = args.of(name, row);
  if (given !== undefined) open.arguments.set(name, open.row, given);
  const names = namesOf(open.table);
  const ended = strings[namesOf(closing)[row] as number] as string;
  if (open.strings[names[open.row] as number] !== ended) names[open.row] = open.strings.push(ended) - 1;
  if (name !== 'rpcs') return;
  const status = strings[(closing as EventTable<'rpcs'>).columns.status[row] as number] as string;
  (open.table as EventTable<'rpcs'>).columns.status[open.row] = open.strings.push(status) - 1;
}

/** Key shared by an `open` row and its `close`. */
const openKey = (table: SpanTableName, track: number, start: number, id: number): string => `${table} ${track} ${start} ${id}`;

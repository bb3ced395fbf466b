// Logs of NCCL's Inspector as sources of batches, one per rank, so that they merge, align and report like a recorded run.
//
//   collective that every rank's log of its communicator has   ──► collective, matched by (communicator and function, NCCL's sequence)
//   collective that some log lacks, or has twice (a graph)     ──► span: its number matches nothing for certain
//   send, receive                                              ──► span: Inspector numbers each side for itself
//
// Ranks are those of the communicator that most processes are in, when it numbers all of them; else processes are numbered by host and pid.
// Inspector leaves out messages below NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES on all ranks alike, so a gap in a log is a loss only where another rank has it.

import {
  type Batch,
  type BatchHeader,
  createEventTables,
  type EventTables,
  leftOutKey,
  nanosPerSecond,
  limits as protocolLimits,
  rankTime,
  spanState,
  type TableName,
  tableNames,
} from '@ranktrace/protocol';
import type { BatchSource } from '../model/batch-source.ts';
import { TraceError } from '../model/errors.ts';
import type { InspectorCommunicator, InspectorProcess, InspectorRecord } from './inspector-reader.ts';

export interface InspectorJob {
  /** By rank. */
  readonly sources: readonly BatchSource[];
  /** Ranks come from host and pid, for no communicator numbers all processes. */
  readonly isNumbered: boolean;
  /** Over all ranks. */
  readonly untimed: number;
  readonly lost: number;
}

const recordsPerBatch = 8192;
/** Half of the range in which a double counts ns, 52 days: records farther apart cannot all have exact times. */
const reachMicros = 2 ** 52 / 1000;

/** A rank: a process, or one of the GPUs of a process that has several. */
interface Member {
  readonly process: InspectorProcess;
  readonly rank: number;
  readonly communicators: readonly InspectorCommunicator[];
  readonly records: readonly InspectorRecord[];
  /** Records of the process that belong to no certain rank of it, or lie years apart from the others. */
  readonly unplaced: number;
  readonly isFirst: boolean;
}

/** The ranks of the processes of a job, whose name is `run`. @throws TraceError `no_events` where no record has times */
export function inspectorJob(processes: readonly InspectorProcess[], run: string): InspectorJob {
  const untimed = processes.reduce((sum, { counts }) => sum + counts.untimed, 0);
  if (processes.every(({ records }) => records.length === 0)) {
    const why = untimed > 0 ? `, got ${untimed} without: NCCL_INSPECTOR_DUMP_VERBOSE=1 records them` : '';
    throw new TraceError('no_events', `Cannot read the logs of NCCL Inspector: their records must have times${why}`);
  }
  const world = worldOf(processes);
  const members =
    world === undefined ? processes.toSorted(byHost).map(numbered) : processes.flatMap((process) => membersOf(process, world));
  const worldSize = world === undefined ? members.length : ranksOf(processes, world);
  const shared = new SharedCollectives(members, world);
  const sources = members
    .toSorted((a, b) => a.rank - b.rank)
    .map((member) => new InspectorSource(member, { run, worldSize, shared, lost: shared.lostOf(member) }));
  return { sources, isNumbered: world === undefined, untimed, lost: sources.reduce((sum, { lost }) => sum + lost, 0) };
}

/**
 * Two processes that cannot be of one job: no communicator connects them, not even through others, and one had ended before the other began. Inspector
 * writes the logs of every job without a Slurm number into one folder. Undefined: there are none.
 */
export function strangersAmong(processes: readonly InspectorProcess[]): readonly [InspectorProcess, InspectorProcess] | undefined {
  const jobs = jobsOf(processes)
    .map((of) => {
      const records = of.flatMap(({ records }) => records);
      const from = records.reduce((least, { startMicros }) => Math.min(least, startMicros), Number.POSITIVE_INFINITY);
      return { of, from, until: records.reduce((most, { endMicros }) => Math.max(most, endMicros), 0) };
    })
    .filter(({ until }) => until > 0)
    .sort((a, b) => a.from - b.from);
  let [latest] = jobs;
  for (const job of jobs.slice(1)) {
    if (latest !== undefined && job.from > latest.until) return [latest.of[0] as InspectorProcess, job.of[0] as InspectorProcess];
    if (latest === undefined || job.until > latest.until) latest = job;
  }
  return undefined;
}

interface Connected {
  readonly ids: Set<string>;
  readonly of: InspectorProcess[];
}

/** The processes that communicators connect. */
function jobsOf(processes: readonly InspectorProcess[]): readonly (readonly InspectorProcess[])[] {
  const jobs = new Set<Connected>();
  const byId = new Map<string, Connected>();
  for (const process of processes) {
    const ids = new Set([...process.communicators.values()].map(({ id }) => id));
    const met = new Set([...ids].flatMap((id) => byId.get(id) ?? []));
    // The smaller ones join the largest, so that each process moves seldom.
    const [job = { ids: new Set<string>(), of: [] }, ...others] = [...met].sort((a, b) => b.of.length - a.of.length);
    jobs.add(job);
    for (const other of [...others, { ids, of: [process] }]) {
      jobs.delete(other);
      for (const one of other.of) job.of.push(one);
      for (const id of other.ids) {
        job.ids.add(id);
        byId.set(id, job);
      }
    }
  }
  return [...jobs].map(({ of }) => of);
}

/** The id of the communicator that numbers all processes; undefined where none does. */
function worldOf(processes: readonly InspectorProcess[]): string | undefined {
  const sizes = new Map<string, { processes: number; readonly ranks: number; readonly taken: Set<number>; isUnique: boolean }>();
  for (const { communicators } of processes) {
    const own = new Set<string>();
    for (const { id, rank, ranks } of communicators.values()) {
      const size = sizes.get(id) ?? { processes: 0, ranks, taken: new Set<number>(), isUnique: true };
      sizes.set(id, size);
      if (!own.has(id)) size.processes++;
      own.add(id);
      if (size.taken.has(rank) || ranks !== size.ranks) size.isUnique = false;
      size.taken.add(rank);
    }
  }
  const whole = [...sizes].filter(([, size]) => size.processes === processes.length && size.isUnique);
  return whole.sort(([, a], [, b]) => b.ranks - a.ranks)[0]?.[0];
}

function ranksOf(processes: readonly InspectorProcess[], world: string): number {
  const all = processes.flatMap(({ communicators }) => [...communicators.values()]);
  return all.find(({ id }) => id === world)?.ranks ?? processes.length;
}

const byHost = (a: InspectorProcess, b: InspectorProcess): number => (a.host < b.host ? -1 : a.host > b.host ? 1 : a.pid - b.pid);

function numbered(process: InspectorProcess, rank: number): Member {
  const records = withinReach(process.records);
  const unplaced = process.records.length - records.length;
  return { process, rank, communicators: [...process.communicators.values()], records, unplaced, isFirst: true };
}

function membersOf(process: InspectorProcess, world: string): Member[] {
  const all = [...process.communicators.values()];
  const own = all.filter(({ id }) => id === world);
  const [only] = own;
  if (own.length === 1 && only !== undefined) return [numbered(process, only.rank)];
  // Of a process with several GPUs, only records of the world say which one.
  const placed = own.map((communicator) => withinReach(process.records.filter((record) => record.communicator === communicator)));
  const unplaced = process.records.length - placed.reduce((sum, { length }) => sum + length, 0);
  return own.map((communicator, index) => ({
    process,
    rank: communicator.rank,
    communicators: [communicator],
    records: placed[index] as readonly InspectorRecord[],
    unplaced: index === 0 ? unplaced : 0,
    isFirst: index === 0,
  }));
}

/** Records near the median time: one with an absurd time must not displace all others. */
function withinReach(records: readonly InspectorRecord[]): readonly InspectorRecord[] {
  const starts = records.map(({ startMicros }) => startMicros).sort((a, b) => a - b);
  const middle = starts[starts.length >> 1] ?? 0;
  return records.filter(
    ({ startMicros, endMicros }) => Math.abs(startMicros - middle) < reachMicros / 2 && endMicros - startMicros < reachMicros / 2,
  );
}

/** Which collectives all ranks of their communicator have, each once. */
class SharedCollectives {
  readonly #members = new Map<string, number>();
  /** By communicator and function: how many ranks have a number; NaN where one has it twice. */
  readonly #had = new Map<string, Map<number, number>>();
  readonly #functions = new Map<string, Set<string>>();
  /** By communicator: the lowest rank that has a name for it, as each may have one of its own. */
  readonly #named = new Map<string, InspectorCommunicator>();
  readonly #world: string | undefined;

  constructor(members: readonly Member[], world: string | undefined) {
    this.#world = world;
    for (const { communicators, records } of members) {
      for (const communicator of communicators) {
        const { id, name, rank } = communicator;
        this.#members.set(id, (this.#members.get(id) ?? 0) + 1);
        if (name !== '' && rank < (this.#named.get(id)?.rank ?? Number.POSITIVE_INFINITY)) this.#named.set(id, communicator);
      }
      const own = new Map<string, Set<number>>();
      for (const { communicator, op, sequence, peer } of records) {
        if (peer >= 0) continue;
        const key = keyOf(communicator, op);
        const had = this.#had.get(key) ?? new Map<number, number>();
        const ownHad = own.get(key) ?? new Set<number>();
        this.#had.set(key, had);
        own.set(key, ownHad);
        had.set(sequence, ownHad.has(sequence) ? Number.NaN : (had.get(sequence) ?? 0) + 1);
        ownHad.add(sequence);
        const functions = this.#functions.get(communicator.id) ?? new Set<string>();
        this.#functions.set(communicator.id, functions.add(op));
      }
    }
  }

  has({ communicator, op, sequence, peer }: InspectorRecord): boolean {
    return peer < 0 && this.#had.get(keyOf(communicator, op))?.get(sequence) === this.#members.get(communicator.id);
  }

  /** NCCL numbers each function apart, so a communicator with several is as many groups. */
  groupOf({ communicator, op }: InspectorRecord): string {
    const name = this.nameOf(communicator);
    return (this.#functions.get(communicator.id)?.size ?? 0) > 1 ? `${name} ${op}` : name;
  }

  nameOf({ id }: InspectorCommunicator): string {
    if (id === this.#world) return 'world';
    const name = this.#named.get(id)?.name;
    return name === undefined ? id : `${name} ${id}`;
  }

  /** Records of a rank that its log lacks: other ranks have them, or Inspector counts them. */
  lostOf({ process, communicators, records, isFirst }: Member): number {
    const own = new Map<string, Set<number>>();
    for (const { communicator, op, sequence, peer } of records) {
      if (peer >= 0) continue;
      const key = keyOf(communicator, op);
      own.set(key, (own.get(key) ?? new Set<number>()).add(sequence));
    }
    let missing = 0;
    for (const { id } of communicators) {
      for (const op of this.#functions.get(id) ?? []) {
        const key = keyOf({ id }, op);
        missing += (this.#had.get(key)?.size ?? 0) - (own.get(key)?.size ?? 0);
      }
    }
    const reported = communicators.reduce((sum, { dropped }) => sum + dropped, isFirst ? process.counts.cut : 0);
    return Math.min(Number.MAX_SAFE_INTEGER, Math.max(missing, reported));
  }
}

const keyOf = ({ id }: { readonly id: string }, op: string): string => `${op} ${id}`;

class InspectorSource implements BatchSource {
  readonly rank: number;
  readonly incarnation = 'nccl-inspector';
  readonly missing = 0;
  readonly lost: number;
  readonly count: number;
  readonly #header: Omit<BatchHeader, 'sequence' | 'watermark' | 'last'>;
  readonly #epochMicros: number;
  readonly #records: readonly InspectorRecord[];
  readonly #shared: SharedCollectives;
  /** The track of each. */
  readonly #communicators: ReadonlyMap<InspectorCommunicator, number>;
  readonly #leftOut: Readonly<Record<string, number>>;

  constructor(
    { process, rank, communicators, records, unplaced, isFirst }: Member,
    {
      run,
      worldSize,
      shared,
      lost,
    }: { readonly run: string; readonly worldSize: number; readonly shared: SharedCollectives; readonly lost: number },
  ) {
    this.rank = rank;
    this.lost = lost;
    this.#records = records.toSorted((a, b) => a.startMicros - b.startMicros || b.endMicros - a.endMicros);
    this.#epochMicros = this.#records[0]?.startMicros ?? 0;
    this.#shared = shared;
    this.#communicators = new Map(communicators.map((communicator, track) => [communicator, track]));
    const { malformed, untimed } = isFirst ? process.counts : { malformed: 0, untimed: 0 };
    this.#leftOut = { malformed: malformed + unplaced, otherKinds: 0, arguments: 0, metadata: 0, untimed, lost };
    this.count = Math.max(1, Math.ceil(records.length / recordsPerBatch));
    const host = process.host.slice(0, protocolLimits.hostCharsMax) || 'unknown host';
    this.#header = {
      ...{ run, rank, worldSize, incarnation: this.incarnation, host, hostName: host, pid: process.pid },
      epoch: `${BigInt(this.#epochMicros) * 1000n}`,
      dropped: { events: 0, arguments: 0, names: 0, batches: 0 },
    };
  }

  batch(index: number, only: readonly TableName[] = tableNames): Batch | undefined {
    if (index < 0 || index >= this.count) return undefined;
    const filler = new InspectorFiller(only, this.#shared);
    for (const [communicator, track] of this.#communicators) filler.track(track, communicator);
    if (index === 0) {
      filler.wallClock(this.#epochMicros);
      if (Object.values(this.#leftOut).some((count) => count > 0)) filler.metadata(leftOutKey, JSON.stringify(this.#leftOut));
    }
    const records = this.#records.slice(index * recordsPerBatch, (index + 1) * recordsPerBatch);
    let until = 0;
    for (const [place, record] of records.entries()) {
      const start = (record.startMicros - this.#epochMicros) * 1000;
      const length = (record.endMicros - record.startMicros) * 1000;
      until = Math.max(until, start + length);
      const track = this.#communicators.get(record.communicator) as number;
      filler.record(record, { start, length, track, id: 1 + index * recordsPerBatch + place, parent: 0, state: spanState.whole });
    }
    const next = this.#records[(index + 1) * recordsPerBatch];
    const watermark = next === undefined ? until : (next.startMicros - this.#epochMicros) * 1000;
    const header = { ...this.#header, sequence: index, watermark: rankTime(watermark), last: next === undefined };
    return { header, strings: filler.strings, tables: filler.tables };
  }
}

interface Place {
  readonly start: number;
  readonly length: number;
  readonly track: number;
  readonly id: number;
  readonly parent: number;
  readonly state: number;
}

/** Fills the tables of one batch, skipping unwanted ones. */
class InspectorFiller {
  readonly tables: EventTables = createEventTables();
  readonly strings: string[] = [''];
  readonly #indexes = new Map<string, number>([['', 0]]);
  readonly #wanted: ReadonlySet<TableName>;
  readonly #shared: SharedCollectives;

  constructor(wanted: readonly TableName[], shared: SharedCollectives) {
    this.#wanted = new Set(wanted);
    this.#shared = shared;
  }

  track(track: number, communicator: InspectorCommunicator): void {
    if (!this.#wanted.has('tracks')) return;
    const name = this.#text(`NCCL ${this.#shared.nameOf(communicator)}`);
    this.tables.tracks.append({ track, kind: this.#text('thread'), name, tid: track });
  }

  metadata(key: string, value: string): void {
    if (this.#wanted.has('metadata')) this.tables.metadata.append({ key: this.#text(key), value: this.#text(value) });
  }

  wallClock(epochMicros: number): void {
    if (!this.#wanted.has('wallClocks')) return;
    const seconds = Math.floor(epochMicros / 1e6);
    this.tables.wallClocks.append({ time: 0, width: 0, seconds, nanos: (epochMicros - seconds * 1e6) * (nanosPerSecond / 1e6) });
  }

  record(record: InspectorRecord, place: Place): void {
    const { communicator, op, sequence, bytes, peer } = record;
    if (this.#shared.has(record)) {
      if (!this.#wanted.has('collectives')) return;
      const group = this.#text(this.#shared.groupOf(record));
      this.tables.collectives.append({ ...place, op: this.#text(op), group, sequence, bytes, peer: 0 });
      return;
    }
    if (!this.#wanted.has('spans')) return;
    const what = peer >= 0 ? `${op} ${peer}` : op;
    const name = this.#text(`${what} (${this.#shared.nameOf(communicator)})`);
    const row = this.tables.spans.append({ ...place, name, category: this.#text('nccl') });
    if (!this.#wanted.has('numberArguments')) return;
    for (const [key, value] of Object.entries({ sequence, bytes }))
      this.tables.numberArguments.append({ table: tableNames.indexOf('spans'), row, key: this.#text(key), value });
  }

  #text(text: string): number {
    const known = this.#indexes.get(text);
    if (known !== undefined) return known;
    const index = this.strings.push(text) - 1;
    this.#indexes.set(text, index);
    return index;
  }
}

// Dumps of PyTorch's Flight Recorder as sources of batches, one per rank, so that they merge and report like the end of a recorded run.
//
//   pending on some rank     ──► collectives: who is inside, who has left, who never entered
//   the last one of a group  ──► collectives: who is of the group
//   all others               ──► collectives where their end is known, else instants
//
// DeviceMesh splits a group into several of one name, each of other ranks: the dumps' list of groups tells them apart. It also names ranks of a group that
// no dump shows in it: those without a dump, and those whose dump has all that they did.
//
// A collective that is over, and whose end nobody saw, ended at some moment before the dump: its part lasts until then, so that no clock is aligned by an
// end that was not seen.

import {
  absentKey,
  type Batch,
  type BatchHeader,
  createEventTables,
  type EventTables,
  leftOutKey,
  limits as protocolLimits,
  rankTime,
  spanState,
  stillRunningKey,
  type TableName,
  tableNames,
} from '@ranktrace/protocol';
import type { BatchSource } from '../model/batch-source.ts';
import { type DumpedCollective, type FlightRecorderDump, groupOfRanks } from './flight-recorder-dump.ts';

export interface RankDump {
  readonly rank: number;
  /** Shown as metadata of the rank. */
  readonly name: string;
  readonly dump: FlightRecorderDump;
  /** When it was written, ns since 1970; undefined: unknown. */
  readonly writtenAt: bigint | undefined;
}

/** A dump is written within a day of its last collective; a later time is that of a copy. */
const writtenNsMax = 86_400_000_000_000n;
const itemsPerBatch = 8192;
const textCharsMax = 512;
/** In UTF-8, a character takes three bytes at most. */
const absentCharsMax = Math.floor(protocolLimits.stringBytesMax / 3);

/** The sources of a job's dumps, in order of rank. */
export function flightRecorderSources(files: readonly RankDump[], run: string): readonly BatchSource[] {
  const dumps = withDistinctGroups(files);
  const pending = new Set(dumps.flatMap(({ dump }) => dump.collectives.filter(({ isOver }) => !isOver).map(keyOf)));
  const worldSize = dumps.reduce((most, { rank, dump }) => Math.max(most, rank + 1, dump.worldSize), 1);
  const [end = 0n] = dumps.map(endOf).sort((a, b) => (a < b ? 1 : -1));
  const absent = absentRanks(dumps);
  return dumps.toSorted((a, b) => a.rank - b.rank).map((dump) => new DumpSource(dump, { run, worldSize, pending, end, absent }));
}

/** `dumps`, with its ranks in the name of a group where other ranks have another group of that name. */
function withDistinctGroups(dumps: readonly RankDump[]): readonly RankDump[] {
  const namesakes = new Map<string, Map<string, readonly number[]>>();
  for (const { dump } of dumps) {
    for (const [group, ranks] of dump.groups) namesakes.set(group, (namesakes.get(group) ?? new Map()).set(ranks.join(), ranks));
  }
  return dumps.map((file): RankDump => {
    const { rank, dump } = file;
    const names = new Map<string, string>();
    for (const [group, lists] of namesakes) {
      const ranks = dump.groups.get(group) ?? [...lists.values()].find((list) => list.includes(rank));
      if (lists.size > 1 && ranks !== undefined) names.set(group, groupOfRanks(group, ranks));
    }
    if (names.size === 0) return file;
    const named = (group: string): string => names.get(group) ?? group;
    const collectives = dump.collectives.map((collective) => ({ ...collective, group: named(collective.group) }));
    return { ...file, dump: { ...dump, collectives, groups: new Map([...dump.groups].map(([group, ranks]) => [named(group), ranks])) } };
  });
}

/** By group, ranks that belong to it and that no dump shows in it. */
function absentRanks(dumps: readonly RankDump[]): ReadonlyMap<string, readonly number[]> {
  const seen = new Map<string, Set<number>>();
  for (const { rank, dump } of dumps) {
    for (const { group } of dump.collectives) seen.set(group, (seen.get(group) ?? new Set()).add(rank));
  }
  const partial = new Set(dumps.filter(({ dump }) => !dump.isWhole).map(({ rank }) => rank));
  const absent = new Map<string, readonly number[]>();
  for (const [group, ranks] of dumps.flatMap(({ dump }) => [...dump.groups])) {
    if (absent.has(group)) continue;
    absent.set(
      group,
      ranks.filter((rank) => rank <= protocolLimits.rankMax && !partial.has(rank) && seen.get(group)?.has(rank) !== true),
    );
  }
  return absent;
}

/** Facts about each dump that all of them tell together. */
interface OfAllDumps {
  readonly run: string;
  readonly worldSize: number;
  readonly pending: ReadonlySet<string>;
  readonly end: bigint;
  readonly absent: ReadonlyMap<string, readonly number[]>;
}

const keyOf = ({ group, sequence }: DumpedCollective): string => `${sequence} ${group}`;

/** The last known time of a dump, ns since 1970. */
function endOf({ dump, writtenAt }: RankDump): bigint {
  let last = 0n;
  for (const { created, ended = created } of dump.collectives) if (ended > last) last = ended;
  return writtenAt !== undefined && writtenAt > last && writtenAt - last < writtenNsMax ? writtenAt : last;
}

class DumpSource implements BatchSource {
  readonly rank: number;
  readonly incarnation = 'flight-recorder';
  readonly missing = 0;
  readonly hostUnknown = true;
  readonly count: number;
  readonly #source: RankDump;
  readonly #header: Omit<BatchHeader, 'sequence' | 'watermark' | 'last'>;
  readonly #epoch: bigint;
  readonly #end: bigint;
  readonly #absent: string;
  readonly #isCollective: (collective: DumpedCollective) => boolean;

  constructor(source: RankDump, { run, worldSize, pending, end, absent }: OfAllDumps) {
    const { rank, dump } = source;
    this.rank = rank;
    this.#source = source;
    this.#epoch = dump.collectives[0]?.created ?? end;
    this.#end = end;
    const lastOf = new Map(dump.collectives.map((collective) => [collective.group, collective]));
    this.#isCollective = (collective) =>
      !collective.isSend &&
      (collective.ended !== undefined || pending.has(keyOf(collective)) || lastOf.get(collective.group) === collective);
    const waiting = new Set(dump.collectives.filter(({ isOver, isSend }) => !isOver && !isSend).map(({ group }) => group));
    this.#absent = absentText([...absent].filter(([group, ranks]) => waiting.has(group) && ranks.length > 0));
    this.count = Math.max(1, Math.ceil(dump.collectives.length / itemsPerBatch));
    this.#header = {
      ...{ run, rank, worldSize, incarnation: this.incarnation, host: 'unknown host', hostName: 'unknown host', pid: 0 },
      epoch: `${this.#epoch}`,
      dropped: { events: 0, arguments: 0, names: 0, batches: 0 },
    };
  }

  batch(index: number, only: readonly TableName[] = tableNames): Batch | undefined {
    if (index < 0 || index >= this.count) return undefined;
    const { dump, name } = this.#source;
    const filler = new DumpFiller(only);
    if (index === 0) {
      filler.metadata('source', name);
      filler.metadata('flight recorder', dump.version);
      filler.metadata(stillRunningKey, 'true');
      if (this.#absent !== '') filler.metadata(absentKey, this.#absent);
      if (dump.malformed > 0) {
        filler.metadata(leftOutKey, JSON.stringify({ malformed: dump.malformed, otherKinds: 0, arguments: 0, metadata: 0 }));
      }
      filler.wallClock(this.#epoch);
    }
    for (const collective of dump.collectives.slice(index * itemsPerBatch, (index + 1) * itemsPerBatch)) {
      const start = Number(collective.created - this.#epoch);
      const until = Number((collective.ended ?? this.#end) - this.#epoch);
      if (this.#isCollective(collective)) filler.collective(collective, start, Math.max(0, until - start));
      else if (collective.isSend) filler.span(collective, start, Math.max(0, until - start));
      else filler.instant(collective, start);
    }
    const next = dump.collectives[(index + 1) * itemsPerBatch];
    const watermark = next === undefined ? this.#end : next.created;
    const header = { ...this.#header, sequence: index, watermark: rankTime(Number(watermark - this.#epoch)), last: false };
    return { header, strings: filler.strings, tables: filler.tables };
  }
}

/** As many of the groups as a text has room for. */
function absentText(groups: readonly (readonly [group: string, ranks: readonly number[]])[]): string {
  const texts: string[] = [];
  let length = 2;
  for (const group of groups) {
    const text = JSON.stringify(group);
    length += text.length + 1;
    if (length <= absentCharsMax) texts.push(text);
  }
  return texts.length === 0 ? '' : `[${texts.join()}]`;
}

/** Fills the tables of one batch, skipping unwanted ones. */
class DumpFiller {
  readonly tables: EventTables = createEventTables();
  readonly strings: string[] = [''];
  readonly #indexes = new Map<string, number>([['', 0]]);
  readonly #wanted: ReadonlySet<TableName>;
  #id = 0;

  constructor(wanted: readonly TableName[]) {
    this.#wanted = new Set(wanted);
    if (this.#wanted.has('tracks')) {
      this.tables.tracks.append({ track: 0, kind: this.#text('thread'), name: this.#text('collectives'), tid: 0 });
    }
  }

  metadata(key: string, value: string): void {
    if (this.#wanted.has('metadata')) this.tables.metadata.append({ key: this.#text(key), value: this.#text(value, absentCharsMax) });
  }

  wallClock(epoch: bigint): void {
    if (!this.#wanted.has('wallClocks')) return;
    const second = 1_000_000_000n;
    this.tables.wallClocks.append({ time: 0, width: 0, seconds: Number(epoch / second), nanos: Number(epoch % second) });
  }

  collective({ group, sequence, op, bytes, isOver }: DumpedCollective, start: number, length: number): void {
    if (!this.#wanted.has('collectives')) return;
    const names = { op: this.#text(op), group: this.#text(group) };
    const state = isOver ? spanState.whole : spanState.open;
    this.tables.collectives.append({
      ...{ start, length: isOver ? length : 0, track: 0, sequence, bytes, state, ...names },
      ...{ id: ++this.#id, parent: 0, peer: 0 },
    });
  }

  /** One side of a send: its number is the group's, so its other side is not known. */
  span({ group, op, isOver }: DumpedCollective, start: number, length: number): void {
    if (!this.#wanted.has('spans')) return;
    const names = { name: this.#text(`${op} (${group})`), category: this.#text('flight recorder') };
    const state = isOver ? spanState.whole : spanState.open;
    this.tables.spans.append({ start, length: isOver ? length : 0, track: 0, id: ++this.#id, parent: 0, state, ...names });
  }

  instant({ group, sequence, op }: DumpedCollective, time: number): void {
    if (!this.#wanted.has('instants')) return;
    const name = this.#text(`${op} #${sequence} of ${group}`);
    this.tables.instants.append({ time, track: 0, name, category: this.#text('flight recorder') });
  }

  #text(value: string, charsMax = textCharsMax): number {
    const text = value.slice(0, charsMax);
    const known = this.#indexes.get(text);
    if (known !== undefined) return known;
    const index = this.strings.push(text) - 1;
    this.#indexes.set(text, index);
    return index;
  }
}

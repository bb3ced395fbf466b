// The Kineto files of one process of a job → a BatchSource, as if its rank had sent batches: merge, alignment and all sinks see no
// difference.
//
//   file 1  ── window ──┐      windows of one process in time order; none begins before the last event of the one before has begun
//   file 2  ── window ──┴─►  batches of at most 8192 events, each built on demand
//
// Times are exact: the rank's clock is the files' own, in ns from the first event of the first file. Files from our own recorder are on the
// host's clock, as in the run itself (kineto-clock.ts); all others are on a wall clock of an unknown host.
// Invariant: every event of the files is in exactly one batch. The profiler's own marks are left out and counted in `KinetoTable.skipped`.

import {
  type Batch,
  type Dropped,
  leftOutKey,
  miscountedKey,
  noneDropped,
  rankTime,
  recordedKey,
  sumDropped,
  type TableName,
} from '@ranktrace/protocol';
import type { BatchSource } from '../model/batch-source.ts';
import { readCounts } from '../model/counts-text.ts';
import { epochDigits } from '../model/of-file.ts';
import { type CountedProcess, miscountedGroups } from './counted-collectives.ts';
import { type KinetoClock, kinetoClock } from './kineto-clock.ts';
import type { CutOf } from './kineto-collectives.ts';
import { KinetoBatch } from './kineto-source-batch.ts';
import { SourceTracks } from './kineto-source-tracks.ts';
import { KinetoWindow, type WindowCounts } from './kineto-source-window.ts';
import type { KinetoSkipped, KinetoTable } from './kineto-table.ts';
import { tallyOf } from './kineto-tally.ts';

/** A file read with `keep: 'all'`. */
export interface KinetoFile {
  /** Shown as metadata of the process. */
  readonly name: string;
  readonly table: KinetoTable;
}

export interface KinetoProcess {
  /** Run name, as in batches: letters, digits, `_` and `-`. */
  readonly run: string;
  readonly rank: number;
  readonly worldSize: number;
  /** See BatchSource. */
  readonly attempt?: number | undefined;
  /** In order of time; at least one. */
  readonly files: readonly KinetoFile[];
  /** These files are a part of a recording that goes on. */
  readonly part?: KinetoPart | undefined;
}

/** How files continue a recording whose other files are not there. */
export interface KinetoPart {
  /** Number of files of the rank after these: ranks with the same number recorded the same window. */
  readonly filesAfter: number;
  /** Tracks of all parts: a thread keeps its number. */
  readonly tracks: SourceTracks;
  /** Items of a batch. */
  readonly itemsPerBatch: number;
  /** Where ranks agreed from which moment to count a group's collectives; those of a group without one stay spans. Default: the files' ends. */
  readonly cutOf?: CutOf | undefined;
}

interface Part {
  readonly window: KinetoWindow;
  readonly name: string;
  readonly tracks: Uint32Array;
  /** ns between the source's epoch and the table's. */
  readonly shift: number;
  /** Number of batches before this part, and in it. */
  readonly first: number;
  readonly count: number;
}

type LeftOut = Exclude<keyof KinetoSkipped, 'markers'>;
/** Counts as batches carry them; these where there are any. */
const laterCounts = ['values', 'broken', 'flows', 'rest'] as const;
type LaterCounts = (typeof laterCounts)[number];
type LeftOutCounts = Readonly<Record<Exclude<LeftOut, LaterCounts>, number> & Partial<Record<LaterCounts, number>>>;

const itemsPerBatch = 8192;
const hostCharsMax = 256;
/** Metadata longer than this (device properties, logs) is not about the rank, and is left out. */
const metadataCharsMax = 4096;

/** Metadata keys hidden because another field carries them, or because files may not set them. */
const hiddenKeys: ReadonlySet<string> = new Set([recordedKey, leftOutKey, miscountedKey, 'traceName', 'displayTimeUnit', 'ranktrace']);

/** Where and when a file was recorded. */
export interface KinetoExtent {
  /** When its first and last events begin, ns since 1970 (on the file's own axis without `baseTimeNanoseconds`). */
  readonly first: bigint;
  readonly last: bigint;
  readonly pid: number;
  /** The least and the greatest number of its launches on devices, which go up in one process; undefined without one. */
  readonly launches: { readonly least: number; readonly greatest: number } | undefined;
}

export function kinetoExtent(table: KinetoTable): KinetoExtent {
  const tally = tallyOf(table);
  const { first, last, leastCorrelation: least, greatestCorrelation: greatest } = tally;
  if (last < first) return { first: table.epoch, last: table.epoch, pid: 0, launches: undefined };
  const launches = greatest > 0 ? { least, greatest } : undefined;
  return { first: table.epoch + BigInt(first), last: table.epoch + BigInt(last), pid: tally.mainPid(table), launches };
}

/** The sources of a job's processes, in order. Their batches never cross a wire, so texts are not cut to the protocol's length. */
export function kinetoSources(processes: readonly KinetoProcess[]): readonly BatchSource[] {
  const sources = processes.map((process) => new KinetoSource(process));
  for (const attempt of new Set(sources.map((source) => source.attempt))) {
    const together = sources.filter((source) => source.attempt === attempt);
    for (const { process, group } of miscountedGroups(together.map(({ counted }) => counted))) together[process]?.setApart(group);
  }
  return sources;
}

/** Name of the host of a file that does not state it, as torch's up to 2.11. */
export const unknownHost = 'unknown host';

class KinetoSource implements BatchSource {
  readonly rank: number;
  readonly incarnation: string;
  readonly count: number;
  readonly missing = 0;
  readonly tellsTracks = true;
  readonly hostUnknown: boolean;
  readonly attempt: number;
  readonly #process: KinetoProcess;
  readonly #parts: readonly Part[];
  readonly #tracks: SourceTracks;
  readonly #itemsPerBatch: number;
  /** ns on the rank's clock at RankTime 0: the recorder's, else since 1970. */
  readonly #epoch: bigint;
  readonly #clocks: readonly (KinetoClock | undefined)[];
  readonly #pid: number;
  readonly #host: string;
  /** By group: how many collectives became spans because their count contradicts other ranks'. */
  readonly #apart = new Map<string, number>();
  readonly #hostName: string;
  readonly #dropped: Dropped;

  constructor(process: KinetoProcess) {
    this.#process = process;
    this.rank = process.rank;
    this.attempt = process.attempt ?? 0;
    const { files, part } = process;
    this.#tracks = part?.tracks ?? new SourceTracks();
    this.#itemsPerBatch = part?.itemsPerBatch ?? itemsPerBatch;
    const [first] = files as readonly [KinetoFile, ...KinetoFile[]];
    this.#dropped = files.map(({ table }) => droppedOf(table)).reduce(sumDropped);
    const clocks = files.map(({ table }) => kinetoClock(table));
    const [clock] = clocks;
    const isKnown = clock !== undefined && clocks.every((other) => other?.host === clock.host);
    this.hostUnknown = !isKnown;
    this.#clocks = isKnown ? clocks : files.map(() => undefined);
    // A batch cannot hold a time before 1970, and no real recording has one.
    this.#epoch = isKnown ? clock.epoch : first.table.epoch > 0n ? first.table.epoch : 0n;
    this.#pid = tallyOf(first.table).mainPid(first.table);
    this.#hostName = hostNameOf(first.table);
    this.#host = isKnown ? clock.host : this.#hostName;
    // Padded so that it sorts by time, as incarnations do.
    this.incarnation = isKnown ? clock.incarnation : `${this.#epoch}`.padStart(epochDigits, '0').slice(-epochDigits);
    const parts: Part[] = [];
    let count = 0;
    for (const [index, { name, table }] of files.entries()) {
      const window = new KinetoWindow(table, files.length - 1 - index + (part?.filesAfter ?? 0), part?.cutOf);
      const tracks = this.#tracks.add(table, window.tally, this.#pid);
      const batches = Math.max(1, Math.ceil(window.length / this.#itemsPerBatch));
      parts.push({
        window,
        name,
        tracks,
        shift: Number(table.epoch + (this.#clocks[index]?.ahead ?? 0n) - this.#epoch),
        first: count,
        count: batches,
      });
      count += batches;
    }
    this.#parts = parts;
    this.count = count;
    const { cutOf } = part ?? {};
    const groups = cutOf === undefined ? [] : new Set(parts.flatMap(({ window }) => [...window.countedGroups]));
    for (const group of groups) if (cutOf?.(group) === undefined) this.setApart(group);
  }

  get counted(): CountedProcess {
    return { rank: this.rank, windows: this.#parts, epoch: this.#epoch - (this.#clocks[0]?.ahead ?? 0n) };
  }

  /** Turns the group's collectives without torch's number into spans. */
  setApart(group: string): void {
    const count = this.#parts.reduce((sum, { window }) => sum + window.setApart(group), 0);
    if (count > 0) this.#apart.set(group, count);
  }

  batch(index: number, only?: readonly TableName[]): Batch | undefined {
    const part = this.#parts.findLast(({ first }) => first <= index);
    if (part === undefined || index >= this.count) return undefined;
    const builder = new KinetoBatch(this.#tracks.tracks, only);
    if (index === 0) this.#describe(builder);
    if (index === this.count - 1 && this.#process.part === undefined) builder.metadata(recordedKey, JSON.stringify(this.#counts()));
    const from = (index - part.first) * this.#itemsPerBatch;
    const until = Math.min(part.window.length, from + this.#itemsPerBatch);
    for (const { piece, from: first, until: end } of part.window.pieces(from, until))
      builder.add(piece, first, end, part.shift, part.tracks);
    return { header: this.#header(index), ...builder.finish() };
  }

  #header(index: number): Batch['header'] {
    const { run, rank, worldSize } = this.#process;
    return {
      run,
      rank,
      worldSize,
      incarnation: this.incarnation,
      sequence: index,
      host: this.#host,
      hostName: this.#hostName,
      pid: this.#pid,
      epoch: `${this.#epoch}`,
      watermark: rankTime(this.#watermark(index)),
      last: index === this.count - 1,
      dropped: this.#dropped,
    };
  }

  /** First key of the next batch that has any; after the last batch, the end of everything. */
  #watermark(index: number): number {
    for (const { window, shift, first, count } of this.#parts) {
      if (index + 1 >= first + count || window.length === 0) continue;
      return window.keyOf(Math.max(0, index + 1 - first) * this.#itemsPerBatch) + shift;
    }
    return Math.max(...this.#parts.map(({ window, shift }) => window.extent.last + shift));
  }

  #counts(): WindowCounts & { readonly rpc: number } {
    const sum = { span: 0, instant: 0, counter: 0, step: 0, collective: 0, rpc: 0 };
    for (const { window } of this.#parts) {
      const { counts } = window;
      for (const kind of Object.keys(counts) as (keyof WindowCounts)[]) sum[kind] += counts[kind];
    }
    return sum;
  }

  /** Contents of the files that are in no batch. */
  get #leftOut(): LeftOutCounts {
    const tables = this.#parts.map(({ window }) => window.table);
    const sum = (of: LeftOut): number => tables.reduce((sum, { skipped }) => sum + skipped[of], 0);
    const counts = { malformed: sum('malformed'), otherKinds: sum('otherKinds'), arguments: sum('arguments'), metadata: sum('metadata') };
    const later = laterCounts.map((of) => [of, sum(of)] as const).filter(([, count]) => count > 0);
    return { ...counts, ...Object.fromEntries(later) };
  }

  #describe(builder: KinetoBatch): void {
    const leftOut = this.#leftOut;
    if (Object.values(leftOut).some((count) => count > 0)) builder.metadata(leftOutKey, JSON.stringify(leftOut));
    builder.streams();
    const [clock] = this.#clocks;
    builder.wallClock(0, this.#epoch - (clock?.ahead ?? 0n));
    for (const { epoch, samples } of this.#clocks.filter((known) => known !== undefined)) {
      for (const sample of samples) builder.clockSample(sample, Number(epoch - this.#epoch));
    }
    const [{ name, window }] = this.#parts as readonly [Part, ...Part[]];
    builder.metadata('source', this.#parts.length === 1 ? name : this.#parts.map((part) => part.name).join(', '));
    if (this.#apart.size > 0) builder.metadata(miscountedKey, JSON.stringify(Object.fromEntries(this.#apart)));
    for (const [key, value] of window.table.metadata) {
      if (hiddenKeys.has(key)) continue;
      const text = typeof value === 'string' ? value : typeof value === 'bigint' ? `${value}` : JSON.stringify(value);
      if (text.length <= metadataCharsMax) builder.metadata(key, text);
    }
  }
}

/** Losses that a file from our own recorder states. Untrusted: a malformed count counts as none. */
function droppedOf({ metadata }: KinetoTable): Dropped {
  const about = metadata.get('ranktrace') as { readonly dropped?: unknown } | null | undefined;
  return readCounts(JSON.stringify(about?.dropped), ['events', 'arguments', 'names', 'batches']) ?? noneDropped;
}

function hostNameOf({ metadata }: KinetoTable): string {
  const name = metadata.get('host_name');
  return typeof name === 'string' && name !== '' ? name.slice(0, hostCharsMax) : unknownHost;
}

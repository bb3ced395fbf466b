// A Zipkin file as sources of batches, one per service and host, so that it merges, aligns and reports like a recorded run.
//
//   service "a" @ 10.0.0.1  →  rank 0     calls → rpcs, other spans → spans, annotations → instants, tags → string arguments
//   service "b" @ 10.0.0.2  →  rank 1     clock: wall clock of that address, or of the service itself where no address is known
//
// Invariant: batches hold events in order of start, and stand alone; each read gives a fresh copy, as a merge writes into it.

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
import { limits } from '../model/limits.ts';
import { ReadBudget } from '../model/read-budget.ts';
import { readZipkinSpans, type ZipkinSpan } from './zipkin-spans.ts';

/** Metadata key of a process that stands for a service rather than a rank: it sets the shown name. */
export const serviceKey = 'ranktrace.service';

export interface ZipkinFile {
  /** By rank: services in order of name, then address. */
  readonly sources: readonly BatchSource[];
  /** Entries left out: no spans, not placeable on one axis, or of services beyond the limit. */
  readonly skipped: number;
}

/** Most events, and arguments of events, in one batch: 65,536 texts hold them all. */
const eventsPerBatchMax = 8192;
const argumentsPerBatchMax = 16_384;
/** Half of the range in which a double counts ns, 52 days: spans farther apart cannot all have exact times. */
const reachMicros = 2 ** 52 / 1000;

/** A span of the file, or (`note`) one annotation of it. */
interface Entry {
  readonly span: ZipkinSpan;
  /** 1, 2, … within its service. */
  readonly number: number;
  readonly micros: number;
  readonly note: string | undefined;
}

/** Reads a whole file. @throws TraceError where it is no Zipkin file, or too large */
export function readZipkin(bytes: Uint8Array, run = 'zipkin', budget = new ReadBudget()): ZipkinFile {
  const { spans, skipped, cut } = readZipkinSpans(bytes, budget);
  const placed = withinReach(spans);
  const services = byService(placed);
  const kept = [...services].sort(([a], [b]) => (a < b ? -1 : 1)).slice(0, limits.zipkinServicesMax);
  const epoch = placed.reduce((least, { startMicros }) => Math.min(least, startMicros), Number.POSITIVE_INFINITY);
  const shown = kept.reduce((sum, [, ofService]) => sum + ofService.length, 0);
  const leftOut = skipped + spans.length - shown;
  // Reported once, by the first source.
  const lossOf = (rank: number): Loss => (rank === 0 ? { cut, leftOut } : { cut: 0, leftOut: 0 });
  const sources = kept.map(([, ofService], rank) => new ZipkinSource(ofService, run, rank, kept.length, epoch, lossOf(rank)));
  return { sources, skipped: leftOut };
}

/** Spans near the median time: one span with an absurd time must not displace all others. */
function withinReach(spans: readonly ZipkinSpan[]): readonly ZipkinSpan[] {
  const starts = spans.map(({ startMicros }) => startMicros).sort((a, b) => a - b);
  const middle = starts[starts.length >> 1] ?? 0;
  return spans.filter(
    ({ startMicros, lengthMicros = 0 }) => Math.abs(startMicros - middle) < reachMicros / 2 && lengthMicros < reachMicros,
  );
}

function byService(spans: readonly ZipkinSpan[]): ReadonlyMap<string, readonly ZipkinSpan[]> {
  const services = new Map<string, ZipkinSpan[]>();
  for (const span of spans) {
    const key = JSON.stringify([span.service, span.address]);
    const service = services.get(key);
    if (service === undefined) services.set(key, [span]);
    else service.push(span);
  }
  return services;
}

/** Parts of the file missing from its sources: cut texts, and entries that cannot be placed. */
interface Loss {
  readonly cut: number;
  readonly leftOut: number;
}

class ZipkinSource implements BatchSource {
  readonly rank: number;
  readonly incarnation = 'zipkin';
  readonly missing = 0;
  readonly hostUnknown: boolean;
  readonly #header: Omit<BatchHeader, 'sequence' | 'watermark' | 'last'>;
  readonly #service: string;
  readonly #epochMicros: number;
  readonly #leftOut: number;
  readonly #batches: readonly (readonly Entry[])[];
  /** Span numbers by trace and span id. */
  readonly #numbers = new Map<string, number>();

  constructor(spans: readonly ZipkinSpan[], run: string, rank: number, worldSize: number, epochMicros: number, { cut, leftOut }: Loss) {
    const { service, address } = spans[0] as ZipkinSpan;
    const host = address === '' ? `service ${service}` : address;
    this.rank = rank;
    this.hostUnknown = address === '';
    this.#service = service;
    this.#epochMicros = epochMicros;
    this.#leftOut = leftOut;
    this.#header = {
      run,
      rank,
      worldSize,
      incarnation: this.incarnation,
      host: host.slice(0, protocolLimits.hostCharsMax),
      hostName: (service || address || 'unknown').slice(0, protocolLimits.hostCharsMax),
      pid: 0,
      epoch: String(BigInt(epochMicros) * 1000n),
      dropped: { events: 0, arguments: cut, names: 0, batches: 0 },
    };
    this.#batches = inBatches(this.#entries(spans));
  }

  get count(): number {
    return this.#batches.length;
  }

  batch(index: number, only: readonly TableName[] = tableNames): Batch | undefined {
    const entries = this.#batches[index];
    if (entries === undefined) return undefined;
    const next = this.#batches[index + 1]?.[0];
    const filler = new BatchFiller(only);
    filler.addTrack(this.#service);
    if (index === 0) filler.addProcess(this.#service, this.#epochMicros);
    if (index === 0 && this.#leftOut > 0) {
      filler.addMetadata(leftOutKey, JSON.stringify({ malformed: this.#leftOut, otherKinds: 0, arguments: 0, metadata: 0 }));
    }
    for (const entry of entries) filler.addEntry(entry, this.#nanos(entry.micros), this.#numberOf(entry.span.traceId, entry.span.parentId));
    const watermark = next === undefined ? this.#until(entries) : this.#nanos(next.micros);
    const header = { ...this.#header, sequence: index, watermark: rankTime(watermark), last: next === undefined };
    return { header, strings: filler.strings, tables: filler.tables };
  }

  #entries(spans: readonly ZipkinSpan[]): Entry[] {
    const entries: Entry[] = [];
    for (const [index, span] of spans.entries()) {
      const number = index + 1;
      this.#numbers.set(`${span.traceId} ${span.id}`, number);
      entries.push({ span, number, micros: span.startMicros, note: undefined });
      for (const { micros, value } of span.annotations) entries.push({ span, number, micros, note: value });
    }
    return entries.sort((a, b) => a.micros - b.micros || (b.span.lengthMicros ?? 0) - (a.span.lengthMicros ?? 0) || a.number - b.number);
  }

  #nanos(micros: number): number {
    return (micros - this.#epochMicros) * 1000;
  }

  /** Number of a span of this service; 0 for any other. */
  #numberOf(traceId: string, id: string): number {
    return id === '' ? 0 : (this.#numbers.get(`${traceId} ${id}`) ?? 0);
  }

  /** The last end among the entries. */
  #until(entries: readonly Entry[]): number {
    return entries.reduce(
      (until, { span, micros }) => Math.max(until, this.#nanos(micros), this.#nanos(span.startMicros + (span.lengthMicros ?? 0))),
      0,
    );
  }
}

function inBatches(entries: readonly Entry[]): readonly (readonly Entry[])[] {
  const batches: Entry[][] = [];
  let batch: Entry[] = [];
  let args = 0;
  for (const entry of entries) {
    const more = entry.note === undefined ? entry.span.tags.length : 0;
    if (batch.length === eventsPerBatchMax || args + more > argumentsPerBatchMax) {
      batches.push(batch);
      batch = [];
      args = 0;
    }
    batch.push(entry);
    args += more;
  }
  if (batch.length > 0) batches.push(batch);
  return batches;
}

/** Fills the tables of one batch, skipping unwanted ones. */
class BatchFiller {
  readonly tables: EventTables = createEventTables();
  readonly strings: string[] = [''];
  readonly #indexes = new Map<string, number>([['', 0]]);
  readonly #wanted: ReadonlySet<TableName>;

  constructor(wanted: readonly TableName[]) {
    this.#wanted = new Set(wanted);
  }

  addTrack(service: string): void {
    if (!this.#wanted.has('tracks')) return;
    this.tables.tracks.append({ track: 0, kind: this.#text('thread'), name: this.#text(service || 'unknown'), tid: 0 });
  }

  addMetadata(key: string, value: string): void {
    if (this.#wanted.has('metadata')) this.tables.metadata.append({ key: this.#text(key), value: this.#text(value) });
  }

  addProcess(service: string, epochMicros: number): void {
    this.addMetadata(serviceKey, service || 'unknown');
    if (!this.#wanted.has('wallClocks')) return;
    const seconds = Math.floor(epochMicros / 1e6);
    this.tables.wallClocks.append({ time: 0, width: 0, seconds, nanos: (epochMicros - seconds * 1e6) * (nanosPerSecond / 1e6) });
  }

  /** `start`: ns on the service's clock; `parent`: the number of the span around it, 0 for none. */
  addEntry({ span, number, note }: Entry, start: number, parent: number): void {
    if (note !== undefined) {
      if (this.#wanted.has('instants'))
        this.tables.instants.append({ time: start, track: 0, name: this.#text(note), category: this.#text('zipkin') });
      return;
    }
    const table = span.side === '' ? 'spans' : 'rpcs';
    if (!this.#wanted.has(table)) return;
    const state = span.lengthMicros === undefined ? spanState.open : spanState.whole;
    const common = { start, length: (span.lengthMicros ?? 0) * 1000, track: 0, id: number, parent, state };
    const row = table === 'spans' ? this.#addSpan(span, common) : this.#addRpc(span, common, state);
    if (!this.#wanted.has('stringArguments')) return;
    for (const [key, value] of span.tags) {
      this.tables.stringArguments.append({ table: tableNames.indexOf(table), row, key: this.#text(key), value: this.#text(value) });
    }
  }

  #addSpan(span: ZipkinSpan, common: { start: number; length: number; track: number; id: number; parent: number; state: number }): number {
    return this.tables.spans.append({ ...common, name: this.#text(span.name), category: this.#text('zipkin') });
  }

  #addRpc(
    span: ZipkinSpan,
    common: { start: number; length: number; track: number; id: number; parent: number; state: number },
    state: number,
  ): number {
    const { name, side, peer, tags, traceId, id, parentId } = span;
    const status = state === spanState.open ? '' : tags.some(([key]) => key === 'error') ? 'error' : 'ok';
    return this.tables.rpcs.append({
      ...common,
      method: this.#text(name),
      side: this.#text(side),
      peer: this.#text(peer),
      status: this.#text(status),
      trace: bytesOf(traceId, 16),
      span: bytesOf(id, 8),
      parentSpan: bytesOf(parentId, 8),
    });
  }

  #text(text: string): number {
    const known = this.#indexes.get(text);
    if (known !== undefined) return known;
    const index = this.strings.push(text) - 1;
    this.#indexes.set(text, index);
    return index;
  }
}

/** An id's bytes; '' gives zeros, meaning none. */
function bytesOf(hex: string, length: 8 | 16): Uint8Array {
  const bytes = new Uint8Array(length);
  for (let at = 0; at < hex.length / 2; at++) bytes[at] = Number.parseInt(hex.slice(2 * at, 2 * at + 2), 16);
  return bytes;
}

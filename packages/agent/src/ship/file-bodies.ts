// One file of a rank → bodies of batches that fit the wire: strings cut, and what is too large split.
//
//   table + its clock ──► KinetoSource ──► batch of 4096 items ──► encoded
//                                             └─ too large: 512, 64, 8, 1 items, and one that still is, is counted and left out
//
// A body stands alone, as a batch must, and states how far back it reaches: such a file comes after its time.

import { deflateRawSync } from 'node:zlib';
import {
  type Batch,
  createEventTables,
  type EncodedBody,
  type EventTables,
  encodeBody,
  limits,
  ProtocolError,
  tableColumns,
  tableNames,
} from '@ranktrace/protocol';
import { noneRecorded, type RecordedCounts } from '@ranktrace/sdk/shipping';
import type { BatchSource } from '@ranktrace/trace';
import { type CutOf, type KinetoTable, kinetoSources, type SourceTracks } from '@ranktrace/trace/torch';
import { agentLimits } from '../model/limits.ts';

/** Whose file it is, and how its times lie on the rank's clock. */
export interface FileOwner {
  readonly run: string;
  readonly rank: number;
  readonly worldSize: number;
  readonly incarnation: string;
  /** Identity of the clock. */
  readonly host: string;
  /** That clock, ns, at RankTime 0. */
  readonly epochNs: bigint;
  /** ns to add to the file's wall time for that clock. */
  readonly aheadNs: bigint;
  readonly tracks: SourceTracks;
  /** As in `KinetoPart`. */
  readonly filesAfter: number;
  readonly cutOf: CutOf | undefined;
}

export interface FileBody {
  readonly body: EncodedBody;
  /** RankTime, ns: no event of it starts earlier. */
  readonly since: number;
  readonly counts: RecordedCounts;
  /** Texts that were cut, and events that fit no batch. */
  readonly cut: number;
  readonly lost: number;
}

/** Parts of a batch that was too large. */
const parts = 8;
/** A body above this may exceed a batch with its header. */
const bodyBytesMax = limits.batchBytesMax - 4096;

/** The bodies of a file, in order; the table's metadata gets the rank's clock. */
export function* fileBodies(name: string, table: KinetoTable, owner: FileOwner): Generator<FileBody> {
  const { host, incarnation, epochNs, aheadNs } = owner;
  table.metadata.set('ranktrace', { host, incarnation, clockEpoch: `${epochNs}`, unixEpoch: `${epochNs - aheadNs}` });
  const sources = new Map<number, BatchSource>();
  const sourceOf = (itemsPerBatch: number): BatchSource => {
    let source = sources.get(itemsPerBatch);
    if (source === undefined) {
      const { run, rank, worldSize, tracks, filesAfter, cutOf } = owner;
      const part = { filesAfter, tracks, itemsPerBatch, cutOf };
      [source] = kinetoSources([{ run, rank, worldSize, files: [{ name, table }], part }]) as [BatchSource];
      sources.set(itemsPerBatch, source);
    }
    return source;
  };
  const bodies = function* (index: number, items: number): Generator<FileBody> {
    const source = sourceOf(items);
    const batch = index < source.count ? source.batch(index) : undefined;
    if (batch === undefined) return;
    const encoded = encodedOf(batch);
    if (encoded !== undefined) yield encoded;
    else if (items > 1) for (let part = 0; part < parts; part++) yield* bodies(index * parts + part, items / parts);
    else yield { body: encodeBody(nothing(), deflate), since: 0, counts: noneRecorded(), cut: 0, lost: 1 };
  };
  const { itemsPerBatch } = agentLimits;
  const { count } = sourceOf(itemsPerBatch);
  for (let index = 0; index < count; index++) yield* bodies(index, itemsPerBatch);
}

const deflate = (body: Uint8Array): Uint8Array => deflateRawSync(body);
const nothing = (): Pick<Batch, 'strings' | 'tables'> => ({ strings: [''], tables: createEventTables() });

/** Undefined where the batch is too large for the wire. */
function encodedOf({ strings, tables }: Batch): FileBody | undefined {
  const fitting = fittingStrings(strings, tables);
  try {
    const body = encodeBody({ strings: fitting.strings, tables }, deflate);
    if (body.body.length > bodyBytesMax) return undefined;
    return { body, since: earliestOf(tables), counts: countsOf(tables), cut: fitting.cut, lost: 0 };
  } catch (error) {
    if (error instanceof ProtocolError && error.code === 'oversized') return undefined;
    throw error;
  }
}

/** Texts within protocol's length. A signature is JSON, which a cut would break: one that is too long goes whole. */
function fittingStrings(strings: readonly string[], { ops }: EventTables): { readonly strings: readonly string[]; readonly cut: number } {
  const long = strings.flatMap((text, index) => (Buffer.byteLength(text) > limits.stringBytesMax ? [index] : []));
  if (long.length === 0) return { strings, cut: 0 };
  const signatures = new Set(ops.columns.signature.subarray(0, ops.length));
  const fitting = [...strings];
  for (const index of long) fitting[index] = signatures.has(index) ? '{}' : cutText(strings[index] as string);
  return { strings: fitting, cut: long.length };
}

/** The beginning of `text` in whole characters. */
const cutText = (text: string): string =>
  new TextDecoder().decode(new TextEncoder().encode(text).subarray(0, limits.stringBytesMax)).replace(/\uFFFD+$/, '');

/** RankTime, ns: the earliest time in any row; 0 without rows. */
function earliestOf(tables: EventTables): number {
  let earliest = Number.POSITIVE_INFINITY;
  for (const name of tableNames) {
    const { columns, length } = tables[name] as { columns: Readonly<Record<string, ArrayLike<number>>>; length: number };
    for (const [column, type] of Object.entries(tableColumns[name])) {
      if (type !== 'time') continue;
      const times = columns[column] as ArrayLike<number>;
      for (let row = 0; row < length; row++) earliest = Math.min(earliest, times[row] as number);
    }
  }
  return Number.isFinite(earliest) ? earliest : 0;
}

const countsOf = ({ spans, instants, memory, counters, steps, collectives, rpcs }: EventTables): RecordedCounts => ({
  span: spans.length,
  instant: instants.length + memory.length,
  counter: counters.length,
  step: steps.length,
  collective: collectives.length,
  rpc: rpcs.length,
});

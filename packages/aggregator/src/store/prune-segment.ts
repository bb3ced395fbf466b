// One closed segment → its summary, in its place.
//
//   000012.seg ──► 000012.summary.seg.partial ──► pruned.json ──► 000012.summary.seg ──► 000012.seg goes
//                                                                ^ from here on readers see the summary
//
// Invariant: killed at any point, the run reads either as before or as after: readers ignore a partial file, and prefer a summary to its segment. The
// caller holds the lock of the run.

import { closeSync, fdatasyncSync, openSync, readdirSync, renameSync, rmSync, statSync, utimesSync, writeSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import {
  type Batch,
  type BatchHeader,
  decodeBatch,
  frameHeaderBytes,
  ProtocolError,
  segmentMagic,
  type TableName,
} from '@ranktrace/protocol';
import { AggregatorError, messageOf } from '../model/errors.ts';
import { inflate } from '../model/inflate.ts';
import { aggregatorLimits as limits } from '../model/limits.ts';
import { BatchIndex, indexSegment } from './batch-index.ts';
import { encodeSummary, type PrunedWhat, summaryRows } from './batch-summary.ts';
import { recordPruned } from './prune-record.ts';
import { allowSummaries, listSegments, type SegmentFile, segmentFileName, segmentsDirectory } from './run-directory.ts';
import { SegmentFiles } from './segment-files.ts';
import { writeFrameHeader } from './segment-scan.ts';
import type { SegmentSource } from './segment-source.ts';
import { guard, syncDirectory } from './segment-writer.ts';

/** A batch of a summary, and the place of its payload in the file. */
export interface PlacedSummary {
  readonly rank: number;
  readonly incarnation: string;
  /** First sequence that it stands for. */
  readonly from: number;
  readonly offset: number;
  readonly length: number;
}

export interface PruneSegmentOptions {
  readonly run: string;
  /** The run's directory. */
  readonly directory: string;
  readonly now: Date;
  /** Computes the result and changes nothing. */
  readonly dryRun: boolean;
  readonly signal?: AbortSignal | undefined;
  /** Whether a writer may append to the segment by now: then it stays. Asked right before the summary replaces it. */
  readonly isInUse?: (() => boolean) | undefined;
  /** Called at the moment when the summary replaces the segment. */
  readonly onReplaced?: ((path: string, summaries: readonly PlacedSummary[]) => void) | undefined;
}

export interface PrunedSegment {
  /** The summary; in a dry run still the segment. */
  readonly path: string;
  /** Bytes of the summary. */
  readonly bytes: number;
  /** Its first and last step. */
  readonly steps: readonly [number, number] | undefined;
}

/**
 * Prunes one segment. Gives way to the event loop every few milliseconds.
 * Throws AggregatorError `store_…`; `store_locked` for a segment in use, `store_format` for one with batches that cannot be read or
 * joined: they are not thrown away.
 */
export async function pruneSegment(segment: SegmentFile, what: PrunedWhat, options: PruneSegmentOptions): Promise<PrunedSegment> {
  const { run, directory, now, dryRun, signal, isInUse, onReplaced } = options;
  const { mtime } = statSync(segment.path);
  const files = new SegmentFiles();
  const index = new BatchIndex(run, files);
  const scan = indexSegment(segment.path, files.add(segment.path), (name) => (name === run ? index : undefined));
  if (scan.unreadable > 0) {
    const held = `it holds ${scan.unreadable} batches of another version or run`;
    throw new AggregatorError('store_format', `Cannot prune "${segment.path}": ${held}; use the ranktrace version that wrote it`);
  }
  const path = join(dirname(segment.path), segmentFileName(segment.segment, what));
  const on = now.toISOString().slice(0, 10);
  let steps: readonly [number, number] | undefined;
  const draft = new SummaryFile(dryRun ? undefined : `${path}.partial`);
  try {
    for await (const { header, bytes } of summariesOf(index.sources(), what, on, signal)) {
      draft.append(header, bytes);
      const [from, to] = header.pruned?.steps ?? [undefined, undefined];
      if (from !== undefined) steps = steps === undefined ? [from, to] : [Math.min(steps[0], from), Math.max(steps[1], to)];
    }
    if (!dryRun) {
      if (isInUse?.() === true) throw new AggregatorError('store_locked', `Cannot prune "${segment.path}": its run was opened meanwhile`);
      draft.finish(mtime);
      allowSummaries(directory);
      // Recorded first, so that nothing is ever gone without a record.
      recordPruned(directory, { what, steps, on });
      guard(path, () => {
        renameSync(`${path}.partial`, path);
        syncDirectory(dirname(path));
      });
      onReplaced?.(path, draft.placed);
      guard(segment.path, () => rmSync(segment.path, { force: true }));
    }
  } catch (cause) {
    if (!(cause instanceof ProtocolError)) throw cause;
    // Some batches can be read and not be joined: their times lie further apart than the unit of both can say, or the header of a full one grows.
    const problem = `its summary cannot be encoded: ${messageOf(cause)}`;
    throw new AggregatorError('store_format', `Cannot prune "${segment.path}": ${problem}`, { cause });
  } finally {
    draft.discard();
    files.close();
  }
  return { path: dryRun ? segment.path : path, bytes: draft.bytes, steps };
}

/** Leftovers of a killed pruning in a run's directory: segments that have a summary, and unfinished summaries. */
export function leftoversIn(directory: string): string[] {
  const folder = segmentsDirectory(directory);
  const current = new Set(listSegments(directory).map(({ path }) => path));
  return readdirSync(folder)
    .filter((name) => name.endsWith('.seg.partial') || (/^\d{6,}(\.\w+)?\.seg$/.test(name) && !current.has(join(folder, name))))
    .map((name) => join(folder, name));
}

/** Removes leftovers. The caller holds the lock of the run. */
export function removeLeftovers(directory: string): void {
  for (const path of leftoversIn(directory)) guard(path, () => rmSync(path, { force: true }));
}

/** Parts of a summary: batches by incarnation and in order, joined as long as none is missing between. */
async function* summariesOf(sources: readonly SegmentSource[], what: PrunedWhat, on: string, signal: AbortSignal | undefined) {
  let breathed = performance.now();
  for (const source of sources) {
    let joined: Batch[] = [];
    let rows = 0;
    for (let at = 0; at < source.count; at++) {
      if (performance.now() - breathed > limits.pruneSliceMs) {
        await setImmediate();
        signal?.throwIfAborted();
        breathed = performance.now();
      }
      const batch = readBatch(source, at);
      const follows = isNext(joined.at(-1)?.header, batch.header);
      if (!follows || rows + summaryRows(batch) > limits.prunedRowsMax) {
        if (joined.length > 0) yield* encodeSummary(joined, what, on);
        [joined, rows] = [[], 0];
      }
      joined.push(batch);
      rows += summaryRows(batch);
    }
    if (joined.length > 0) yield* encodeSummary(joined, what, on);
  }
}

/** Tables whose rows stay, or are counted. Arguments are neither, and are most of the bytes. */
const readTables: readonly TableName[] = [
  ...(['tracks', 'steps', 'phases', 'clockSamples', 'wallClocks', 'metadata'] as const),
  ...(['spans', 'instants', 'counters', 'collectives', 'rpcs', 'memory'] as const),
];

function readBatch(source: SegmentSource, at: number): Batch {
  try {
    return decodeBatch(source.read(at) ?? new Uint8Array(), inflate, readTables);
  } catch (cause) {
    if (cause instanceof AggregatorError) throw cause;
    const where = `batch ${source.sequence(at)} of rank ${source.rank}`;
    throw new AggregatorError('store_format', `Cannot prune: ${where} cannot be read: ${messageOf(cause)}`, { cause });
  }
}

/** Whether `next` follows without a gap, on the same clock. */
function isNext(before: BatchHeader | undefined, next: BatchHeader): boolean {
  if (before === undefined || before.epoch !== next.epoch || before.host !== next.host) return false;
  return (next.pruned?.from ?? next.sequence) === before.sequence + 1;
}

/** A summary being written to disk; without a path, only its size. */
class SummaryFile {
  readonly placed: PlacedSummary[] = [];
  readonly #path: string | undefined;
  readonly #header = Buffer.alloc(frameHeaderBytes);
  #file: number | undefined;
  #bytes = segmentMagic.length;

  constructor(path: string | undefined) {
    this.#path = path;
    if (path === undefined) return;
    guard(path, () => {
      this.#file = openSync(path, 'w');
      try {
        writeSync(this.#file, segmentMagic);
      } catch (error) {
        this.discard(); // the caller has nothing to discard yet
        throw error;
      }
    });
  }

  get bytes(): number {
    return this.#bytes;
  }

  append({ rank, incarnation, sequence, pruned }: BatchHeader, payload: Uint8Array): void {
    writeFrameHeader(this.#header, payload);
    const file = this.#file;
    if (file !== undefined) {
      guard(this.#path ?? '', () => {
        for (const part of [this.#header, payload]) {
          for (let written = 0; written < part.length; ) written += writeSync(file, part, written);
        }
      });
    }
    const offset = this.#bytes + frameHeaderBytes;
    this.placed.push({ rank, incarnation, from: pruned?.from ?? sequence, offset, length: payload.length });
    this.#bytes = offset + payload.length;
  }

  /** Writes the summary to the disk, with the segment's modification time. */
  finish(modified: Date): void {
    const file = this.#file;
    if (file === undefined) return;
    guard(this.#path ?? '', () => {
      fdatasyncSync(file);
      closeSync(file);
      this.#file = undefined;
      utimesSync(this.#path ?? '', modified, modified);
    });
  }

  /** Removes an unfinished summary. */
  discard(): void {
    if (this.#file === undefined) return;
    closeSync(this.#file);
    this.#file = undefined;
    rmSync(this.#path ?? '', { force: true });
  }
}

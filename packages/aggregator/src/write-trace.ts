// store → align → merge → file: one pass over stored batches writes the trace and feeds every other sink.
//
// The merge is synchronous; it gives way to the event loop every few milliseconds, so that a service goes on ingesting meanwhile.

import { type Batch, decodeBatch, type TableName } from '@ranktrace/protocol';
import { type BatchSource, type MergeProgress, mergeRun, type ProcessTotals, type TraceSink, teeSink } from '@ranktrace/trace';
import { driveSteps } from './drive-steps.ts';
import { inflate } from './inflate.ts';
import { createTraceWriter, TraceFile, traceFormatOf } from './trace-file.ts';

/** One life of one rank in a store: batches by index, in order of sequence. */
export interface StoredSource {
  readonly rank: number;
  readonly incarnation: string;
  readonly count: number;
  readonly missing: number;
  /** Undefined of a batch that pruning joined with one before. */
  read(index: number): Uint8Array | undefined;
}

export interface MergeOptions {
  /** Called after every few batches. */
  readonly onProgress?: (progress: MergeProgress) => void;
  /** A batch that cannot be read or decoded is skipped and told here. */
  readonly onUnreadable?: (error: unknown) => void;
  readonly signal?: AbortSignal;
}

/** What can be merged: a life of a rank as stored bytes, or as batches already. */
export type MergeSource = StoredSource | BatchSource;

/** Merges stored batches into sinks. Rejects with the signal's reason when it is aborted. */
export async function mergeStored(
  sources: readonly MergeSource[],
  sinks: readonly TraceSink[],
  options: MergeOptions = {},
  drained?: () => Promise<void>,
): Promise<readonly ProcessTotals[]> {
  const readable = sources.map((source) => readableSource(source, options.onUnreadable));
  const { onProgress, signal } = options;
  return await driveSteps(mergeRun(readable, teeSink(...sinks)), { onProgress, signal, between: drained });
}

/** Merges stored batches into a trace file, and into `sinks` beside it. */
export async function writeTrace(
  sources: readonly MergeSource[],
  path: string,
  sinks: readonly TraceSink[] = [],
  options: MergeOptions = {},
): Promise<{ totals: readonly ProcessTotals[]; bytes: number }> {
  const format = traceFormatOf(path);
  const file = new TraceFile(path);
  try {
    const totals = await mergeStored(sources, [createTraceWriter(format, file.write), ...sinks], options, () => file.drained());
    await file.commit();
    return { totals, bytes: file.bytes };
  } catch (error) {
    await file.discard();
    throw error;
  }
}

/** A source as batches; one that cannot be read or decoded is skipped and told. */
export function readableSource(source: MergeSource, onUnreadable: MergeOptions['onUnreadable']): BatchSource {
  if ('batch' in source) return source;
  const { rank, incarnation, count, missing } = source;
  const batch = (index: number, only?: readonly TableName[]): Batch | undefined => {
    try {
      const bytes = source.read(index);
      return bytes && decodeBatch(bytes, inflate, only);
    } catch (error) {
      onUnreadable?.(error);
      return undefined;
    }
  };
  return { rank, incarnation, count, missing, batch };
}

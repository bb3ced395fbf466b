// store → align → merge → file: one pass over stored batches writes the trace and feeds every other sink. A Perfetto trace is merged already: its
// events go to the same sinks unchanged.
//
// The merge is synchronous; it gives way to the event loop every few milliseconds, so that a service continues to ingest meanwhile.

import { type Batch, decodeBatch, type TableName } from '@ranktrace/protocol';
import { type BatchSource, type MergeProgress, mergeRun, type ProcessTotals, type TraceSink, teeSink } from '@ranktrace/trace';
import type { PerfettoSkipped, PerfettoTrace } from '@ranktrace/trace/perfetto';
import { driveSteps } from '../model/drive-steps.ts';
import { inflate } from '../model/inflate.ts';
import { createTraceWriter, TraceFile, traceFormatOf } from './trace-file.ts';

/** One incarnation of one rank in a store: batches by index, in order of sequence. */
export interface StoredSource {
  readonly rank: number;
  readonly incarnation: string;
  readonly count: number;
  readonly missing: number;
  /** Undefined for a batch that pruning joined with an earlier one. */
  read(index: number): Uint8Array | undefined;
}

export interface MergeOptions {
  /** Called after every few batches. */
  readonly onProgress?: (progress: MergeProgress) => void;
  /** Receives the error of each batch that was skipped because it could not be read or decoded. */
  readonly onUnreadable?: (error: unknown) => void;
  /** Called once for a Perfetto trace, with the parts that could not be read. */
  readonly onSkipped?: (skipped: PerfettoSkipped) => void;
  readonly signal?: AbortSignal;
}

/** One input of a merge: an incarnation as stored bytes, or as batches already. */
export type MergeSource = StoredSource | BatchSource;

/** A run as found: incarnations that are to be merged, or a trace that already was. */
export type MergeInput = readonly MergeSource[] | PerfettoTrace;

/** Merges stored batches, or reads a trace, into sinks. Rejects with the signal's reason when it is aborted. */
export async function mergeStored(
  input: MergeInput,
  sinks: readonly TraceSink[],
  options: MergeOptions = {},
  drained?: () => Promise<void>,
): Promise<readonly ProcessTotals[]> {
  const { onProgress, signal } = options;
  const drive = { onProgress, signal, between: drained };
  if ('events' in input) {
    let totals: readonly ProcessTotals[] = [];
    const keepTotals: TraceSink = {
      begin: () => {},
      lane: () => {},
      event: () => {},
      end: (reported) => {
        totals = reported;
      },
    };
    const skipped = await driveSteps(input.events(teeSink(...sinks, keepTotals)), drive);
    options.onSkipped?.(skipped);
    return totals;
  }
  const readable = input.map((source) => readableSource(source, options.onUnreadable));
  return await driveSteps(mergeRun(readable, teeSink(...sinks)), drive);
}

/** Merges stored batches, or copies a trace, into a trace file, and into `sinks` beside it. */
export async function writeTrace(
  input: MergeInput,
  path: string,
  sinks: readonly TraceSink[] = [],
  options: MergeOptions = {},
): Promise<{ totals: readonly ProcessTotals[]; bytes: number }> {
  const format = traceFormatOf(path);
  const file = new TraceFile(path);
  try {
    const totals = await mergeStored(input, [createTraceWriter(format, file.write), ...sinks], options, () => file.drained());
    await file.commit();
    return { totals, bytes: file.bytes };
  } catch (error) {
    await file.discard();
    throw error;
  }
}

/** A source as batches; skips and reports those that cannot be read or decoded. */
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
  return { rank, incarnation, count, missing, tellsTracks: true, batch };
}

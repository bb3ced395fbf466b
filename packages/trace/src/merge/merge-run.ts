// A whole run: sources → clocks → merge → sink. Pure and synchronous, but a generator: its driver decides when to breathe, shows the
// progress and may stop at any point.

import { endedByKey, failedKey, type Running, rankTime, type TraceTime } from '@ranktrace/protocol';
import type { FittedClocks } from '../align/fit-clocks.ts';
import type { BatchSource } from '../model/batch-source.ts';
import type { Alignment, ProcessPlace, ProcessTotals, TraceProcess, TraceSink } from '../model/trace-sink.ts';
import { type AlignedRun, type MergeProgress, RunAlignment } from './align-run.ts';
import { BatchMerger } from './merge-batches.ts';
import type { Survey } from './survey.ts';

export type { MergeProgress } from './align-run.ts';

/** Merges all sources of one run into `sink`; yields after every batch, or few thousand events, and returns the totals per process. */
export function* mergeRun(sources: readonly BatchSource[], sink: TraceSink): Generator<MergeProgress, readonly ProcessTotals[]> {
  // Each is read once for clocks and once for events; where ranks read several clocks, up to twice more (align-run.ts).
  const progress = { done: 0, total: 2 * sources.reduce((sum, source) => sum + source.count, 0) };
  return yield* mergeAligned(yield* new RunAlignment().finish(sources, progress), sink, progress);
}

/** Merges a run with known clocks. */
export function* mergeAligned(
  { surveys, fitted: { clocks, unixEpoch }, conflicts }: AlignedRun,
  sink: TraceSink,
  progress: MergeProgress,
): Generator<MergeProgress, readonly ProcessTotals[]> {
  const clockAt = (index: number) => clocks[index] as FittedClocks['clocks'][number];
  const merger = new BatchMerger(sink);
  const processes = surveys.map((survey, index) => processOf(survey, index, clockAt(index).model.alignment));
  const first = surveys[0]?.header;
  sink.begin({
    run: first?.run ?? '',
    // Lives of a rank may tell different ones: a job that was started again has as many ranks as it asks for then.
    worldSize: surveys.reduce((most, { header }) => Math.max(most, header.worldSize), 0),
    unixEpoch,
    processes,
    clockConflicts: conflicts,
    ...(sink.endStretch && { inStretches: true }),
  });
  for (const [index, process] of processes.entries()) merger.add(process, clockAt(index).clock, (surveys[index] as Survey).heldBack > 0);
  const read = new Uint32Array(surveys.length);
  for (let index = merger.slowest; index !== undefined; index = merger.slowest) {
    const { source, order } = surveys[index] as Survey;
    const next = order.at(read[index] as number);
    if (next === undefined) {
      merger.finish(index);
      for (const _ of merger.advance()) yield progress;
      continue;
    }
    read[index] = (read[index] as number) + 1;
    const batch = source.batch(next);
    if (batch !== undefined) merger.push(index, batch, rankTime(order.since(next)));
    for (const _ of merger.advance()) yield progress;
    progress.done++;
    yield progress;
  }
  const totals = merger.totals((index) => {
    const { batches, dropped, recorded, pruned, ended, from, source, evidence, running, metadata } = surveys[index] as Survey;
    const { clock } = clockAt(index);
    const until = evidence.until === undefined ? {} : { from: clock.toTrace(rankTime(from)), until: clock.toTrace(evidence.until) };
    const isOver = ended && !metadata.has(endedByKey) && !metadata.has(failedKey);
    const place = isOver || running === undefined ? {} : { place: placeOf(running, (time) => clock.toTrace(rankTime(time))) };
    return { batches, missing: source.missing, dropped, recorded, ended, ...(pruned && { pruned }), ...until, ...place };
  });
  sink.end(totals);
  return totals;
}

/** A reported place, on the axis of the trace. */
function placeOf({ step, phase, since, after, collective, entered = [] }: Running, toTrace: (time: number) => TraceTime): ProcessPlace {
  return {
    step,
    phase: phase === undefined || since === undefined ? undefined : { name: phase, since: toTrace(since) },
    ...(after !== undefined && { after }),
    collective: collective && { ...collective, since: toTrace(collective.since) },
    entered: new Map(entered),
  };
}

/** A surveyed life of a rank as a process of the trace; `index` in the order of surveys. */
export function processOf({ header, metadata, evidence, hasDevices }: Survey, index: number, alignment: Alignment): TraceProcess {
  const { rank, incarnation, hostName, pid } = header;
  const host = evidence.hostUnknown === true ? ({ host: `unknown ${index}`, hostUnknown: true } as const) : { host: header.host };
  const devices = hasDevices === undefined ? {} : { hasDevices };
  return { index: index + 1, rank, incarnation, ...host, hostName, pid, ...devices, alignment, metadata };
}

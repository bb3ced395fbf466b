// A whole run: sources → survey → clocks → merge → sink. Pure and synchronous, but a generator: whoever drives it decides when to breathe,
// shows the progress and may stop at any point.

import { rankTime } from '@ranktrace/protocol';
import { fitClocks } from '../align/fit-clocks.ts';
import type { ProcessTotals, TraceProcess, TraceSink } from '../trace-sink.ts';
import type { BatchSource } from './batch-source.ts';
import { BatchMerger } from './merge-batches.ts';
import { type Survey, survey } from './survey.ts';

/** Batches read so far of all there are to read (each is read twice: for its clocks, then for its events). */
export interface MergeProgress {
  readonly done: number;
  readonly total: number;
}

/** Merges all sources of one run into `sink`; yields after every batch and returns what was written per process. */
export function* mergeRun(sources: readonly BatchSource[], sink: TraceSink): Generator<MergeProgress, readonly ProcessTotals[]> {
  const total = 2 * sources.reduce((sum, source) => sum + source.count, 0);
  let done = 0;
  const surveys: Survey[] = [];
  for (const source of sources) {
    const steps = survey(source);
    let step = steps.next();
    for (; step.done !== true; step = steps.next()) yield { done: ++done, total };
    if (step.value !== undefined) surveys.push(step.value);
  }
  surveys.sort((a, b) => a.header.rank - b.header.rank || (a.header.incarnation < b.header.incarnation ? -1 : 1));
  const { clocks, unixEpoch } = fitClocks(surveys.map(({ evidence }) => evidence));
  const merger = new BatchMerger(sink);
  const processes = surveys.map(({ header, metadata }, index): TraceProcess => {
    const { rank, incarnation, host, hostName, pid } = header;
    const alignment = (clocks[index] as (typeof clocks)[number]).model.alignment;
    return { index: index + 1, rank, incarnation, host, hostName, pid, alignment, metadata };
  });
  const first = surveys[0]?.header;
  sink.begin({ run: first?.run ?? '', worldSize: first?.worldSize ?? 0, unixEpoch, processes });
  for (const [index, process] of processes.entries()) {
    merger.add(process, (clocks[index] as (typeof clocks)[number]).clock, (surveys[index] as Survey).heldBack);
  }
  const read = new Uint32Array(surveys.length);
  for (let index = merger.slowest; index !== undefined; index = merger.slowest) {
    const { source, order, since } = surveys[index] as Survey;
    const next = order[read[index] as number];
    if (next === undefined) {
      merger.finish(index);
      merger.advance();
      continue;
    }
    read[index] = (read[index] as number) + 1;
    const batch = source.batch(next);
    if (batch !== undefined) merger.push(index, batch, rankTime(since[next] as number));
    merger.advance();
    yield { done: ++done, total };
  }
  const totals = merger.totals((index) => {
    const { batches, dropped, recorded, ended, source } = surveys[index] as Survey;
    return { batches, missing: source.missing, dropped, recorded, ended };
  });
  sink.end(totals);
  return totals;
}

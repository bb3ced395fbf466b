// Files of torch.profiler for tests: read, and merged on their own clocks or on aligned ones.

import { type Batch, nanos, rankTime } from '@ranktrace/protocol';
import { ClockModel } from '../align/clock-model.ts';
import { BatchMerger } from '../merge/merge-batches.ts';
import { SourceSurvey } from '../merge/survey.ts';
import type { BatchSource } from '../model/batch-source.ts';
import { finish } from '../model/finish.ts';
import type { ProcessTotals, TraceEvent, TraceProcess, TraceSink } from '../model/trace-sink.ts';
import { findCollectives } from '../torch/kineto-collectives.ts';
import { readKineto } from '../torch/kineto-reader.ts';
import { kinetoSources } from '../torch/kineto-source.ts';
import type { KinetoTable } from '../torch/kineto-table.ts';

export type KinetoSource = BatchSource;

/** The table of a file's text, with all its arguments. */
export const tableOfKineto = (file: string | Uint8Array): KinetoTable =>
  readKineto(typeof file === 'string' ? new TextEncoder().encode(file) : file, { keep: 'all' });

export const sourceOfKineto = (table: KinetoTable, rank = 0, worldSize = 1): KinetoSource =>
  kinetoSources([{ run: 'test', rank, worldSize, files: [{ name: `rank${rank}.json`, table }] }])[0] as KinetoSource;

/** The sources of a job's files, by rank. */
export const sourcesOfKineto = (tables: readonly KinetoTable[]): readonly KinetoSource[] =>
  kinetoSources(
    tables.map((table, rank) => ({ run: 'test', rank, worldSize: tables.length, files: [{ name: `rank${rank}.json`, table }] })),
  );

/** The sources of a job's attempts, each by rank. */
export const sourcesOfAttempts = (attempts: readonly (readonly KinetoTable[])[]): readonly KinetoSource[] =>
  kinetoSources(
    attempts.flatMap((tables, attempt) =>
      tables.map((table, rank) => {
        return { run: 'test', rank, worldSize: tables.length, attempt, files: [{ name: `rank${rank}.${attempt}.json`, table }] };
      }),
    ),
  );

/** An event as the merge emits it, copied. */
export interface MergedEvent
  extends Pick<TraceEvent, 'kind' | 'start' | 'length' | 'name' | 'category' | 'step' | 'group' | 'sequence' | 'bytes'> {
  readonly lane: string;
  readonly rank: number;
  readonly phases: Record<string, number>;
  readonly arguments: Record<string, string | number>;
}

export interface MergedKineto {
  readonly events: readonly MergedEvent[];
  readonly totals: readonly ProcessTotals[];
  readonly processes: readonly TraceProcess[];
  readonly epoch: bigint;
}

/** All events of `sources` on their own clocks. */
export function mergedOnOwnClocks(sources: readonly KinetoSource[]): MergedKineto {
  const events: MergedEvent[] = [];
  const sink: TraceSink = {
    begin: () => {},
    lane: () => {},
    event: (event) => {
      const { kind, start, length, name, category, step, group, sequence, bytes } = event;
      const { lane } = event;
      const of = { lane: lane.name, rank: lane.process.rank };
      const maps = { phases: Object.fromEntries(event.phases ?? []), arguments: Object.fromEntries(event.arguments ?? []) };
      events.push({ kind, start, length, name, category, step, group, sequence, bytes, ...of, ...maps });
    },
    end: () => {},
  };
  const merger = new BatchMerger(sink);
  const surveys = sources.map((source) => {
    const steps = new SourceSurvey(source).read(source);
    for (;;) {
      const step = steps.next();
      if (step.done === true) return step.value as NonNullable<typeof step.value>;
    }
  });
  const epoch = BigInt(surveys[0]?.header.epoch ?? 0);
  const processes = surveys.map(({ header, metadata }, index): TraceProcess => {
    const clock = ClockModel.shifted('exact', 0, nanos(0));
    const { rank, incarnation, host, hostName, pid } = header;
    const process = { index: index + 1, rank, incarnation, host, hostName, pid, alignment: clock.alignment, metadata };
    merger.add(process, clock.forRank(Number(BigInt(header.epoch) - epoch)));
    return process;
  });
  const read = sources.map(() => 0);
  for (let index = merger.slowest; index !== undefined; index = merger.slowest) {
    const [source, at] = [sources[index] as KinetoSource, read[index] as number];
    read[index] = at + 1;
    if (at === source.count) merger.finish(index);
    else merger.push(index, source.batch(at) as Batch, rankTime(surveys[index]?.order.since(at) as number));
    finish(merger.advance());
  }
  const totals = merger.totals((index) => {
    const { batches, dropped, recorded, ended, source } = surveys[index] as (typeof surveys)[number];
    return { batches, missing: source.missing, dropped, recorded, ended };
  });
  return { events, totals, processes, epoch };
}

/** The collectives that every one of `ranks` has exactly once, each as its parts; from a merge on agreeing clocks. */
export function commonCollectives(events: readonly MergedEvent[], ranks: number): (readonly MergedEvent[])[] {
  const matched = new Map<string, MergedEvent[]>();
  for (const event of events) {
    if (event.kind !== 'collective') continue;
    const key = `${event.group} ${event.sequence}`;
    matched.set(key, [...(matched.get(key) ?? []), event]);
  }
  return [...matched.values()].filter((parts) => parts.length === ranks && new Set(parts.map(({ rank }) => rank)).size === ranks);
}

/** Number of `collectives` that some rank left before another had entered. */
export const brokenBarriers = (collectives: readonly (readonly MergedEvent[])[]): number =>
  collectives.filter(
    (parts) => Math.max(...parts.map(({ start }) => start)) > Math.min(...parts.map(({ start, length }) => start + length)),
  ).length;

/** Distance between the first and the last rank's exit for each of `collectives`, ns. */
export const exitSpreads = (collectives: readonly (readonly MergedEvent[])[]): number[] =>
  collectives.map((parts) => {
    const ends = parts.map(({ start, length }) => start + length);
    return Math.max(...ends) - Math.min(...ends);
  });

/** Number of each group's ops found in a file, by `all_reduce of 0`. */
export function collectivesFound(table: KinetoTable): Record<string, number> {
  const { columns, length } = findCollectives(table);
  const counts: Record<string, number> = {};
  for (let row = 0; row < length; row++) {
    const key = `${table.strings.get(columns.op[row] as number)} of ${table.strings.get(columns.group[row] as number)}`;
    counts[key] = (counts[key] ?? 0) + 1;
  }
  return counts;
}

// The analyses of device work as a sink on the merge: columns while events come, everything else when the summary is asked for.
//
// Memory: 50 to 70 bytes an event, up to the limits of gpu-limits.ts, and for ranks that are known to have no device the steps alone; events beyond
// them are counted.

import { attemptsOf } from '../model/attempts.ts';
import { finish } from '../model/finish.ts';
import type { ProcessTotals, TraceEvent, TraceHeader, TraceLane, TraceProcess, TraceSink } from '../model/trace-sink.ts';
import { clusterPath, type RankOfPath } from './cluster-path.ts';
import { type GpuRank, type GpuSummary, gpuRank } from './gpu-summary.ts';
import { htaStragglers, htaWork } from './hta-compatible.ts';
import { recommendations } from './recommendations.ts';
import { WorkRecord } from './record-work.ts';

export interface GpuSinkOptions {
  /** HTA's conventions, where they differ from what happened (docs/gpu.md); default false. */
  readonly htaCompatible?: boolean;
}

/**
 * Sums up what the GPUs did, by rank.
 *
 * @example
 * const gpus = new GpuSink();
 * for (const _ of mergeRun(sources, gpus));
 * const { ranks } = gpus.summary; // ranks[0].totals.idle / ranks[0].totals.length: rank 0's idle share
 */
export class GpuSink implements TraceSink {
  readonly #record = new WorkRecord();
  readonly #htaCompatible: boolean;
  #worldSize = 0;
  /** Ranks of the job of which nothing is here. */
  #missing = 0;
  #summary: GpuSummary | undefined;
  /** By index of a process that holds device work. */
  #attempts: ReadonlyMap<number, number> = new Map();

  constructor({ htaCompatible = false }: GpuSinkOptions = {}) {
    this.#htaCompatible = htaCompatible;
  }

  begin(header: TraceHeader): void {
    const { size } = new Set(header.processes.map(({ rank }) => rank));
    this.#worldSize = Math.max(header.worldSize, size);
    this.#missing = this.#worldSize - size;
    this.#record.begin(header);
  }

  lane(lane: TraceLane): void {
    this.#record.lane(lane);
  }

  event(event: TraceEvent): void {
    this.#record.event(event);
  }

  endStretch(): void {}

  end(totals: readonly ProcessTotals[]): void {
    const holders = new Set(this.#record.ranks.map(({ process }) => process.index));
    const lives = totals.flatMap(({ process: { index, rank }, from, until }) =>
      holders.has(index) && from !== undefined && until !== undefined ? [{ index, rank, from, until }] : [],
    );
    const attempts = attemptsOf(lives);
    this.#attempts = new Map(lives.map(({ index }, at) => [index, attempts[at] as number]));
  }

  /** The attempt of its job that a process with device work is of, after the merge's end. */
  attemptOf({ index }: TraceProcess): number {
    return this.#attempts.get(index) ?? 0;
  }

  /** The columns that the summary is made of. */
  get record(): WorkRecord {
    return this.#record;
  }

  /** After the merge's end. */
  get summary(): GpuSummary {
    return finish(this.summing());
  }

  /** The same; yields after each table of each rank. */
  *summing(): Generator<void, GpuSummary> {
    if (this.#summary !== undefined) return this.#summary;
    const ranks: GpuRank[] = [];
    const all: (RankOfPath & { readonly attempt: number })[] = [];
    for (const record of this.#record.ranks) {
      const { work } = record;
      if (work.work.length === 0) continue;
      yield* work.sealing();
      const shown = this.#htaCompatible ? htaWork(work) : work;
      const attempt = this.attemptOf(record.process);
      const rank = yield* gpuRank(record, shown, { worldSize: this.#worldSize, attempt });
      if (rank === undefined) continue;
      ranks.push(rank);
      all.push({ rank: rank.rank, work: shown, attempt });
      yield;
    }
    ranks.sort((a, b) => a.rank - b.rank || a.attempt - b.attempt);
    yield;
    const works = fullestAttempt(all);
    const drawn = yield* clusterPath(works);
    const [first] = works;
    // An attempt that ended gives no advice for the one behind it.
    const advised = ranks.filter(({ attempt }) => attempt === first?.attempt);
    this.#summary = {
      ranks,
      recommendations: recommendations(
        advised.map(({ rank, rules }) => ({ rank, shares: rules })),
        this.#missing,
      ),
      ...(first !== undefined && advised.length < ranks.length && { attempt: first.attempt }),
      path: works.length === 1 && this.#htaCompatible ? undefined : drawn?.path,
      segments: drawn?.segments,
      worth: drawn?.worth ?? [],
      leftOut: this.#record.leftOut,
      htaCompatible: this.#htaCompatible,
      ...(this.#htaCompatible && { potentialStragglers: stragglersOf(works) }),
    };
    return this.#summary;
  }
}

/** The ranks of the attempt that has most of them, and of those the last. */
function fullestAttempt<Of extends { readonly attempt: number }>(ranks: readonly Of[]): readonly Of[] {
  const counts = new Map<number, number>();
  for (const { attempt } of ranks) counts.set(attempt, (counts.get(attempt) ?? 0) + 1);
  const [fullest] = [...counts].sort(([a, ranksOfA], [b, ranksOfB]) => ranksOfB - ranksOfA || b - a)[0] ?? [];
  return ranks.filter(({ attempt }) => attempt === fullest);
}

function stragglersOf(works: readonly RankOfPath[]): readonly number[] | undefined {
  return htaStragglers(works.map(({ work }) => work))?.map((at) => works[at]?.rank ?? at);
}

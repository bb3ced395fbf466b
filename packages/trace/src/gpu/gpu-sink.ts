// The analyses of device work as a sink on the merge: columns while events come, everything else when the summary is asked for.
//
// Memory: 50 to 70 bytes an event, up to the limits of gpu-limits.ts, and for ranks that are known to have no device the steps alone; events beyond
// them are counted.

import { finish } from '../model/finish.ts';
import type { ProcessTotals, TraceEvent, TraceHeader, TraceLane, TraceSink } from '../model/trace-sink.ts';
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
  #summary: GpuSummary | undefined;

  constructor({ htaCompatible = false }: GpuSinkOptions = {}) {
    this.#htaCompatible = htaCompatible;
  }

  begin(header: TraceHeader): void {
    this.#worldSize = Math.max(header.worldSize, new Set(header.processes.map(({ rank }) => rank)).size);
    this.#record.begin(header);
  }

  lane(lane: TraceLane): void {
    this.#record.lane(lane);
  }

  event(event: TraceEvent): void {
    this.#record.event(event);
  }

  endStretch(): void {}

  end(_totals: readonly ProcessTotals[]): void {}

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
    const works: RankOfPath[] = [];
    for (const record of this.#record.ranks) {
      const { work } = record;
      if (work.work.length === 0) continue;
      yield* work.sealing();
      const shown = this.#htaCompatible ? htaWork(work) : work;
      const rank = yield* gpuRank(record, shown, this.#worldSize);
      if (rank === undefined) continue;
      ranks.push(rank);
      works.push({ rank: rank.rank, work: shown });
      yield;
    }
    ranks.sort((a, b) => a.rank - b.rank);
    yield;
    const drawn = yield* clusterPath(works);
    const advised = recommendations(ranks.map(({ rank, rules }) => ({ rank, shares: rules })));
    this.#summary = {
      ranks,
      recommendations: advised,
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

function stragglersOf(works: readonly RankOfPath[]): readonly number[] | undefined {
  return htaStragglers(works.map(({ work }) => work))?.map((at) => works[at]?.rank ?? at);
}

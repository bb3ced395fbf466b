import { describe, expect, it } from 'vitest';
import { someSeeds } from '../../../../test/setup/seeds.ts';
import { CollectiveSink } from '../analyse/collectives.ts';
import { OpenWorkSink } from '../analyse/open-work.ts';
import { RpcSink } from '../analyse/rpcs.ts';
import { type RunAnalysis, RunAnalysisSink } from '../analyse/run-analysis.ts';
import type { BatchSource } from '../model/batch-source.ts';
import { teeSink } from '../model/tee-sink.ts';
import type { ProcessTotals, TraceEvent, TraceHeader, TraceSink } from '../model/trace-sink.ts';
import { simulatedCluster } from '../simulate/simulated-cluster.ts';
import type { ClusterOptions } from '../simulate/simulation-options.ts';
import { StepSummarySink } from '../steps/step-summary.ts';
import { gpuJob } from '../testing/gpu-job.ts';
import { readKineto } from '../torch/kineto-reader.ts';
import { kinetoSources } from '../torch/kineto-source.ts';
import { mergeRun } from './merge-run.ts';

interface Line {
  readonly rank: number;
  readonly kind: TraceEvent['kind'];
  /** Time that the merge orders it by, ns. */
  readonly time: number;
  readonly text: string;
}

const nothing = (): TraceSink => ({ begin: () => {}, lane: () => {}, event: () => {}, end: () => {} });

/** Keeps all events; `stretches`: where each stretch begins. */
class Lines implements TraceSink {
  readonly lines: Line[] = [];
  readonly stretches: number[] = [0];
  header: TraceHeader | undefined;
  totals: readonly ProcessTotals[] = [];

  begin(header: TraceHeader): void {
    this.header = header;
  }

  lane(): void {}

  event({ lane, kind, state, start, length, name }: TraceEvent): void {
    const { rank } = lane.process;
    const time = kind === 'step' || state === 'close' ? start + length : start;
    this.lines.push({ rank, kind, time, text: `${rank} ${lane.name} ${kind} ${state} ${name} ${start} ${length}` });
  }

  endStretch(): void {
    this.stretches.push(this.lines.length);
  }

  end(totals: readonly ProcessTotals[]): void {
    this.totals = totals;
  }
}

const countsOf = ({ totals }: Lines): object[] => totals.map(({ counts, late, crowded }) => ({ counts, late, crowded }));

const run = (sources: readonly BatchSource[], sink: TraceSink): void => {
  for (const _ of mergeRun(sources, sink));
};

/** Hosts with clocks of their own, remote calls, and groups of two ranks. */
const cluster = (options: ClusterOptions) =>
  simulatedCluster({ ranks: 8, hosts: 3, seconds: 3, stepMs: 20, tensorParallel: 2, ...options });

const clusters: readonly (readonly [string, ClusterOptions])[] = [
  ['sound', {}],
  ['with losses', { lost: 0.05 }],
  ['with a pipeline', { pipeline: 2 }],
  ['with a clock that jumps', { clockSteps: [{ host: 1, seconds: 1, micros: 30_000 }] }],
  ['with a straggler', { stragglers: [{ rank: 3, phase: 'forward', ms: 4 }] }],
];

describe.each(clusters)('a cluster %s, in stretches', (_, options) => {
  it.each(someSeeds([1, 7]))('has the events of each rank in their order, and none before its stretch (seed %i)', (seed) => {
    const byTime = new Lines();
    const inStretches = new Lines();
    run(cluster({ ...options, seed }).sources, teeSink(byTime, nothing()));
    run(cluster({ ...options, seed }).sources, inStretches);
    expect(byTime.header?.inStretches).toBeUndefined();
    expect(byTime.stretches).toEqual([0]);
    expect(inStretches.header?.inStretches).toBe(true);
    expect(countsOf(inStretches)).toEqual(countsOf(byTime));
    for (let rank = 0; rank < 8; rank++) {
      const of = ({ lines }: Lines): string[] => lines.filter((line) => line.rank === rank).map(({ text }) => text);
      expect(of(inStretches)).toEqual(of(byTime));
    }
    const { lines, stretches } = inStretches;
    expect(stretches.at(-1)).toBe(lines.length);
    // Far fewer than there are events: that is what stretches are for.
    expect(stretches.length).toBeLessThan(lines.length / 8 / 8);
    let before = Number.NEGATIVE_INFINITY;
    for (const [at, from] of stretches.entries()) {
      const stretch = lines.slice(from, stretches[at + 1]);
      const turns = stretch.filter(({ rank }, place) => rank !== stretch[place - 1]?.rank).map(({ rank }) => rank);
      expect(turns).toEqual([...new Set(turns)]);
      for (const { time } of stretch) expect(time).toBeGreaterThanOrEqual(before);
      before = stretch.reduce((latest, { time }) => Math.max(latest, time), before);
      for (const rank of turns) {
        expect(stretch.filter((line) => line.rank === rank && line.kind === 'step').length).toBeLessThanOrEqual(2 * 32);
      }
    }
  });

  it.each(someSeeds([3]))('is analysed as by time (seed %i)', (seed) => {
    expectSameAnalysis(() => cluster({ ...options, seed }).sources);
  });
});

it.each(someSeeds([1, 7]))('of spans longer than a few batches, more are whole than by time, and all are there (seed %i)', (seed) => {
  const [byTime, inStretches] = [new Lines(), new Lines()];
  const options = { seed, flushMs: 50 };
  run(cluster(options).sources, teeSink(byTime, nothing()));
  run(cluster(options).sources, inStretches);
  const ended = ({ lines }: Lines): string[] =>
    lines.flatMap(({ text }) => (text.includes(' open ') ? [] : [text.replace(' close ', ' whole ')])).sort();
  expect(ended(inStretches)).toEqual(ended(byTime));
  expect(countsOf(inStretches)).toEqual(countsOf(byTime));
  expect(inStretches.lines.length).toBeLessThanOrEqual(byTime.lines.length);
});

it.each(someSeeds([1, 5, 9]))(
  'a cluster with a rank that restarts, one that dies and one that comes late is analysed as by time (seed %i)',
  (seed) => {
    expectSameAnalysis(() =>
      cluster({ seed, flushMs: 200 }).sources.flatMap((source) => {
        const { rank, count } = source;
        const half = count >> 1;
        if (rank === 3) return [lifeOf(source, 0, half, 'a-1'), lifeOf(source, half + 1, count, 'a-2')];
        if (rank === 5) return [lifeOf(source, 0, half, 'a-1')];
        return [rank === 1 ? lifeOf(source, 2, count, 'a-1') : source];
      }),
    );
  },
);

/** A life of a rank with the batches from `from` on, which it does not end in good order. */
function lifeOf({ rank, batch }: BatchSource, from: number, until: number, incarnation: string): BatchSource {
  return {
    ...{ rank, incarnation, count: until - from, missing: 0, tellsTracks: true },
    batch: (index, only) => {
      const read = batch(from + index, only);
      return read && { ...read, header: { ...read.header, incarnation, sequence: index, last: false } };
    },
  };
}

it.each(someSeeds([1, 2, 3]))('a job on GPUs is analysed as by time (seed %i)', (seed) => {
  expectSameAnalysis(() => {
    const { files } = gpuJob({ seed, ranks: 4 });
    return kinetoSources(
      files.map((file, rank) => {
        const table = readKineto(Buffer.from(file.text), { keep: 'all' });
        return { run: 'job', rank, worldSize: files.length, files: [{ name: file.name, table }] };
      }),
    );
  });
});

/** Every analysis, also those that `report` has beside the page's. */
class All implements TraceSink {
  readonly #analysis = new RunAnalysisSink({});
  readonly #others = [new CollectiveSink(), new RpcSink(), new OpenWorkSink(), new StepSummarySink()] as const;
  readonly all: TraceSink = teeSink(this.#analysis, ...this.#others);

  begin(header: TraceHeader): void {
    this.all.begin(header);
  }

  lane(lane: Parameters<TraceSink['lane']>[0]): void {
    this.all.lane(lane);
  }

  event(event: TraceEvent): void {
    this.all.event(event);
  }

  endStretch(): void {
    this.all.endStretch?.();
  }

  end(totals: readonly ProcessTotals[]): void {
    this.all.end(totals);
  }

  get answers(): object {
    const analysis: RunAnalysis = this.#analysis.analysis;
    const { profiles, measures: _, path, ...shown } = analysis;
    // Spans have numbers of names beside, in the order in which these came.
    const segments = path?.segments.map(({ span: { isWork, start, end }, ...segment }) => ({ ...segment, span: { isWork, start, end } }));
    return { ...shown, path: { ...path, segments }, profile: profiles?.of(), others: this.#others.map(({ summary }) => summary) };
  }
}

function expectSameAnalysis(sources: () => readonly BatchSource[]): void {
  const [byTime, inStretches] = [new All(), new All()];
  run(sources(), teeSink(byTime, nothing()));
  run(sources(), inStretches);
  expect(inStretches.answers).toEqual(byTime.answers);
}

// Blame of whole runs: real jobs with planted faults, and simulated jobs and clusters.

import { readdirSync, readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { cpuWaitCounter, nanos, traceTime } from '@ranktrace/protocol';
import { describe, expect, it } from 'vitest';
import { someSeeds } from '../../../../test/setup/seeds.ts';
import { mergeRun } from '../merge/merge-run.ts';
import type { TraceEvent } from '../model/trace-sink.ts';
import { simulatedCluster } from '../simulate/simulated-cluster.ts';
import { type ClusterOptions, type StragglingPhase, stragglingPhases } from '../simulate/simulation-options.ts';
import { expectExactParts, expectSamePieces } from '../testing/expect-blame.ts';
import { ndtimelineWindow } from '../testing/ndtimeline-window.ts';
import { pipelineJob } from '../testing/pipeline-job.ts';
import { traceEvent, traceHeader, traceLane, traceProcess } from '../testing/trace-events.ts';
import { readKineto } from '../torch/kineto-reader.ts';
import { kinetoSources } from '../torch/kineto-source.ts';
import { type Blame, blameOfWindow } from './blame.ts';
import { blameOf } from './blame-change.ts';
import { StepBlameSink } from './step-blame-sink.ts';

const data = new URL('../../../../test/data/kineto/ddp-4rank/', import.meta.url);
const seeds = someSeeds(Array.from({ length: 6 }, (_, seed) => seed));
const kindsOf = ({ findings }: Blame): string[] => findings.map(({ kind }) => kind);

describe('four processes of PyTorch DDP', () => {
  function blameOfJob(name: string) {
    const folder = new URL(`${name}/`, data);
    const files = readdirSync(folder).filter((file) => file.endsWith('.json.gz'));
    const processes = files.map((file, rank) => {
      const table = readKineto(gunzipSync(readFileSync(new URL(file, folder))), { keep: 'all' });
      return { run: 'job', rank, worldSize: files.length, files: [{ name: file, table }] };
    });
    const sources = kinetoSources(processes);
    const sink = new StepBlameSink();
    for (const _ of mergeRun(sources, sink));
    const truth = JSON.parse(readFileSync(new URL('truth.json', folder), 'utf8')) as {
      fault: { rank: number; phase: string; ms: number }[];
    };
    return { blame: sink.blame, faults: truth.fault };
  }

  it.each(['rank1_forward', 'rank2_data_load'])('%s: names the rank and the phase, and what it costs', (name) => {
    const { blame, faults } = blameOfJob(name);
    const [{ rank, phase, ms }] = faults as [{ rank: number; phase: string; ms: number }];
    expect(blame.verdict).toBe('straggler');
    const stragglers = blame.findings.filter(({ kind }) => kind === 'straggler');
    expect(stragglers).toMatchObject([{ ranks: [rank], phase }]);
    expect(stragglers[0]?.costMsPerStep).toBeGreaterThan(0.75 * ms);
    expect(stragglers[0]?.costMsPerStep).toBeLessThan(1.25 * ms);
    expect(blame.breakdown.filter((one) => one.waits[0]?.rank === rank).length).toBe(3);
    expectExactParts(blame);
  });

  it('balanced: blames no rank', () => {
    const { blame } = blameOfJob('balanced');
    expect(blame.verdict).toBe('balanced');
    expect(kindsOf(blame)).not.toContain('straggler');
    expectExactParts(blame);
  });
});

describe('a simulated job of 4 stages and 4 replicas', () => {
  const slow = { stage: 0, dp: 0, factor: 2.35 };

  it.each(someSeeds([1, 2]))(
    'a worker that computes 2.35 times as long is the straggler, and costs what it costs in truth (seed %i)',
    (seed) => {
      const job = pipelineJob({ seed, slow });
      const blame = blameOfWindow(ndtimelineWindow(job.csv));
      expect(blame.verdict).toBe('straggler');
      expect(blame.findings.filter(({ kind }) => kind === 'straggler')).toMatchObject([{ ranks: [0], phase: 'backward-compute' }]);
      const [whatIf] = blame.whatIf;
      expect(whatIf?.ranks).toEqual([0]);
      // The same job, simulated without its fault.
      const truth = job.stepSeconds / pipelineJob({ seed }).stepSeconds;
      expect(truth).toBeGreaterThan(1.8);
      expect(Math.abs((whatIf?.slowdown ?? 0) / truth - 1)).toBeLessThan(0.01);
      const [first, second] = [...blame.excess].sort((a, b) => b.share - a.share);
      expect(first).toMatchObject({ rank: 0, peers: 'stage 0' });
      expect(Math.abs((first?.share ?? 0) - 1.35)).toBeLessThan(0.03);
      expect(second?.share).toBeLessThan(0.01);
      expectExactParts(blame);
    },
  );

  it.each(someSeeds([1, 2]))('is balanced without it (seed %i)', (seed) => {
    const blame = blameOfWindow(ndtimelineWindow(pipelineJob({ seed }).csv));
    expect([blame.verdict, blame.findings]).toEqual(['balanced', []]);
  });

  it.each(someSeeds([1, 2]))('of sequences of unequal length has no worker for long, but some worker in each step (seed %i)', (seed) => {
    const blame = blameOfWindow(ndtimelineWindow(pipelineJob({ seed, replicas: 8, lengths: 0.15 }).csv));
    expect(blame.verdict).toBe('rotating_imbalance');
    expect(kindsOf(blame)).not.toContain('straggler');
    expectExactParts(blame);
  });

  it.each([
    ['with the slow worker', { slow }],
    ['of unequal lengths', { lengths: 0.15 }],
  ])('%s: batches of its workers, merged, are cut into the same pieces (seed 1)', (_what, options) => {
    expectSamePieces(pipelineJob({ seed: 1, ...options }).csv);
  });
});

/** Receives only what ranks send outside recorded windows. */
class StepsAlone extends StepBlameSink {
  override event(event: TraceEvent): void {
    if (event.kind === 'step') super.event(event);
  }
}

function sinkOf(options: ClusterOptions, sink = new StepBlameSink()): StepBlameSink {
  const cluster = { ranks: 8, hosts: 2, steps: 24, rpcsPerSecond: 0, ...options };
  for (const _ of mergeRun(simulatedCluster(cluster).sources, sink));
  return sink;
}

const everyRank = (phase: StragglingPhase, ms: number, ranks = [0, 1, 2, 3, 4, 5, 6, 7]) => ranks.map((rank) => ({ rank, phase, ms }));

describe('a simulated cluster', () => {
  it.each(seeds)('that loses the ends of receives: ranks work on in the steps behind (seed %i)', (seed) => {
    const { blame } = sinkOf({ seed, ranks: 16, tensorParallel: 2, pipeline: 4, steps: 80, lost: 0.05 });
    expect(kindsOf(blame)).not.toContain('stage_imbalance');
    // Each rank's work is 80 ms; in a step of which an end was lost it is less.
    for (const { own } of blame.breakdown) expect([...own.values()].reduce((all, time) => all + time, 0)).toBeGreaterThan(60e6);
  });

  const balanced: Record<string, ClusterOptions> = {
    'of two hosts': {},
    'with a pipeline': { pipeline: 4 },
    'with tensor parallelism': { tensorParallel: 4 },
    'of three ranks, for a short time': { ranks: 3, steps: 8 },
    'whose clocks nobody knows': { noPings: [0, 1] },
    'with a clock that steps': { clockSteps: [{ host: 1, seconds: 2, micros: 3000 }] },
    'that loses collectives': { lost: 0.03, steps: 60 },
    'with a slow network, but not very': { transferScale: 20 },
  };
  it.each(Object.keys(balanced))('%s is balanced', (name) => {
    for (const seed of seeds) {
      const { blame } = sinkOf({ ...balanced[name], seed });
      expect([seed, blame.verdict, ...kindsOf(blame).filter((kind) => kind !== 'network')]).toEqual([seed, 'balanced']);
      expectExactParts(blame);
    }
  });

  it('with much noise never has a straggler', () => {
    for (const seed of seeds) {
      for (const ranks of [2, 8, 16]) expect(kindsOf(sinkOf({ ranks, stepMs: 10, steps: 30, seed }).blame)).not.toContain('straggler');
    }
  });

  it.each(stragglingPhases)('with a rank slow in %s has that straggler, whatever connects its ranks', (phase) => {
    for (const seed of seeds) {
      // With a pipeline, load data in the first stage: later ones wait anyway while they load.
      for (const shape of [{}, { pipeline: 2 }, { tensorParallel: 2 }, { noPings: [1] }, { ranks: 2 }]) {
        const rank = seed % (shape.ranks ?? 4);
        const { blame } = sinkOf({ ...shape, seed, stragglers: [{ rank, phase, ms: 15 }] });
        const found = blame.findings.map(({ kind, ranks, phase: where }) => ({ kind, ranks, where }));
        expect({ seed, shape, verdict: blame.verdict, found }).toEqual({
          ...{ seed, shape, verdict: 'straggler' },
          found: [{ kind: 'straggler', ranks: [rank], where: phase }],
        });
        expect(Math.abs((blame.findings[0]?.costMsPerStep ?? 0) / 15 - 1)).toBeLessThan(0.35);
      }
    }
  });

  it('has it, too, when only lengths of phases are known', () => {
    for (const seed of seeds) {
      const { blame } = sinkOf({ seed, stragglers: [{ rank: 3, phase: 'forward', ms: 15 }] }, new StepsAlone());
      expect([blame.basis, blame.verdict]).toEqual(['phases', 'straggler']);
      expect(blame.findings).toMatchObject([{ ranks: [3], phase: 'forward' }]);
      expect(sinkOf({ seed }, new StepsAlone()).blame.verdict).toBe('balanced');
    }
  });

  it('reports the fault behind a larger one', () => {
    for (const seed of seeds) {
      const stragglers = [
        { rank: 5, phase: 'backward', ms: 40 },
        { rank: 2, phase: 'data', ms: 25 },
      ] as const;
      const { verdict, findings } = sinkOf({ seed, stragglers }).blame;
      expect(verdict).toBe('straggler');
      expect(findings).toMatchObject([
        { ranks: [5], phase: 'backward' },
        { ranks: [2], phase: 'data' },
      ]);
      expect(findings[1]?.gainMsPerStep).toBeLessThan(1);
      expect(findings[1]?.costMsPerStep).toBeGreaterThan(18);
    }
  });

  it('has a slow host, a slow stage, slow data loading and a slow network', () => {
    const faults: Record<string, ClusterOptions> = {
      'straggler 4+5+6+7 backward': { ranks: 16, hosts: 4, stragglers: everyRank('backward', 20, [4, 5, 6, 7]) },
      'stage_imbalance 4+5+6+7 backward': { pipeline: 2, stragglers: everyRank('backward', 20, [4, 5, 6, 7]) },
      'data_loading  data': { stragglers: everyRank('data', 100) },
      'network  ': { transferScale: 300 },
    };
    for (const seed of seeds) {
      for (const [expected, options] of Object.entries(faults)) {
        const { verdict, findings } = sinkOf({ ...options, seed }).blame;
        expect(findings.map(({ kind, ranks, phase = '' }) => `${kind} ${ranks.join('+')} ${phase}`)).toEqual([expected]);
        expect(verdict).toBe(findings[0]?.kind);
      }
    }
  });

  it('says why it got slower', () => {
    const changes: Record<string, ClusterOptions> = {
      'straggler 3 forward': { stragglers: [{ rank: 3, phase: 'forward', ms: 20 }] },
      'cluster_wide  backward': { stragglers: everyRank('backward', 20) },
      'data_loading  data': { stragglers: everyRank('data', 20) },
      'network  all_reduce world': { transferScale: 60 },
    };
    for (const seed of seeds) {
      const before = sinkOf({ seed: 100 + seed }).window;
      for (const [expected, options] of Object.entries(changes)) {
        const { kind, ranks, phase, communicator, share, shareOfChange } = blameOf(before, sinkOf({ ...options, seed }).window);
        expect([seed, `${kind} ${ranks.join('+')} ${communicator ?? phase}`]).toEqual([seed, expected]);
        expect(share).toBeGreaterThan(0.02);
        expect(shareOfChange).toBeGreaterThan(0.5);
      }
    }
  });

  it('keeps the last steps, and of a run that slowed down what it was like before', () => {
    const late = Array.from({ length: 150 }, (_, step) =>
      everyRank('backward', 20, [0, 1]).map((one) => ({ ...one, step: step + 150 })),
    ).flat();
    const sink = sinkOf({ ranks: 2, hosts: 1, steps: 300, stepMs: 50, stragglers: late }, new StepBlameSink({ stepsMax: 100 }));
    const { blame } = sink;
    expect(sink.window.steps.map(({ step }) => step)).toEqual(Array.from({ length: 100 }, (_, index) => 200 + index));
    expect(blame.verdict).toBe('cluster_wide');
    expect(blame.findings[0]).toMatchObject({ kind: 'cluster_wide', phase: 'backward' });
    expect(blame.change?.change).toBeGreaterThan(17e6);
    expect(blame.change?.change).toBeLessThan(23e6);
  });
});

it('weighs waits for a CPU by the time of the steps that each sample tells of', () => {
  const process = traceProcess();
  const steps = traceLane({ process, kind: 'steps' });
  const counter = traceLane({ index: 2, process, kind: 'counter', name: cpuWaitCounter });
  const blamed = (samples: readonly (readonly [number, number])[]): number | undefined => {
    const sink = new StepBlameSink();
    sink.begin(traceHeader([process]));
    for (const [at, value] of samples) {
      sink.event(traceEvent({ kind: 'counter', lane: counter, name: cpuWaitCounter, start: traceTime(at), value }));
    }
    for (const step of [0, 1, 2, 3]) {
      sink.event(traceEvent({ kind: 'step', lane: steps, step, start: traceTime(1000 + 100 * step), length: nanos(100) }));
    }
    sink.end();
    return sink.window.ranks[0]?.cpuWait;
  };
  // The first tells of no step, the second of 350 ns of them, the third of 10, the last of 40.
  const all = [
    [900, 100],
    [1350, 10],
    [1360, 90],
    [1500, 50],
    [1600, 100],
  ] as const;
  expect(blamed(all)).toBeCloseTo((350 * 0.1 + 10 * 0.9 + 40 * 0.5) / 400, 12);
  expect(blamed(all.slice(0, 3))).toBeCloseTo((350 * 0.1 + 10 * 0.9) / 360, 12);
  expect(blamed(all.slice(0, 1))).toBeUndefined();
});

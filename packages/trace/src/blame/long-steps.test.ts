// Steps of another kind, such as checkpoints: what they cost, and whose they are.

import { nanos, traceTime } from '@ranktrace/protocol';
import { describe, expect, it } from 'vitest';
import { someSeeds } from '../../../../test/setup/seeds.ts';
import { GpuBlameSink } from '../gpu/gpu-blame.ts';
import { GpuSink } from '../gpu/gpu-sink.ts';
import { mergeRun } from '../merge/merge-run.ts';
import { finish } from '../model/finish.ts';
import { teeSink } from '../model/tee-sink.ts';
import { Random } from '../simulate/random.ts';
import { simulatedCluster } from '../simulate/simulated-cluster.ts';
import type { ClusterOptions } from '../simulate/simulation-options.ts';
import { gpuJob } from '../testing/gpu-job.ts';
import { sourcesOfKineto, tableOfKineto } from '../testing/merged-kineto.ts';
import { traceEvent, traceHeader, traceLane, traceProcess } from '../testing/trace-events.ts';
import { type RunBlame, RunBlameSink } from './run-blame-sink.ts';

const ms = 1e6;

/** Steps of 50 ms, in which ranks wait for each other between `backward` and `optimizer`. */
function blameOf(options: ClusterOptions): RunBlame {
  const sink = new RunBlameSink();
  for (const _ of mergeRun(simulatedCluster({ ranks: 4, hosts: 1, stepMs: 50, rpcsPerSecond: 0, ...options }).sources, sink));
  return sink.blame;
}

const slow = (rank: number, step: number, length: number, phase: 'forward' | 'optimizer' = 'forward') => {
  return { rank, phase, ms: length, step, lastStep: step };
};
const every = (distance: number, steps: number): number[] => {
  return Array.from({ length: Math.floor((steps - 1) / distance) }, (_, at) => (at + 1) * distance);
};
const longOf = ({ findings }: RunBlame) => findings.filter(({ kind }) => kind === 'long_steps');

describe('in a job of four ranks', () => {
  it.each(someSeeds([1, 2, 3, 4, 5, 6]))('names a rank that all wait for every 40 steps, and what it costs (seed %i)', (seed) => {
    const blame = blameOf({ seed, steps: 400, stragglers: every(40, 400).map((step) => slow(1, step, 400)) });
    expect(blame.verdict).toBe('long_steps');
    expect(longOf(blame)).toMatchObject([{ ranks: [1], phase: 'forward', affectedSteps: 9, comparedSteps: 399 }]);
    const [{ steps, costMsPerAffectedStep, costMsPerStep, shareOfStep, evidence }] = longOf(blame) as [RunBlame['findings'][number]];
    expect(steps).toEqual({ first: 40, last: 360 });
    expect(Math.abs(costMsPerAffectedStep - 400)).toBeLessThan(20);
    expect(costMsPerStep).toBeCloseTo((costMsPerAffectedStep * 9) / 399, 6);
    expect(Math.abs(shareOfStep - 3600 / (3600 + 399 * 50))).toBeLessThan(0.02);
    expect(evidence[0]).toBe('every 40 steps rank 1 works longer in forward than usual, and the others wait');
  });

  it.each(someSeeds([1, 2, 3]))('names the phase where all ranks work longer (seed %i)', (seed) => {
    const stragglers = every(50, 400).flatMap((step) => [0, 1, 2, 3].map((rank) => slow(rank, step, 300)));
    const blame = blameOf({ seed, steps: 400, stragglers });
    expect(longOf(blame)).toMatchObject([{ ranks: [], phase: 'forward', affectedSteps: 7 }]);
    expect(Math.abs((longOf(blame)[0]?.costMsPerAffectedStep ?? 0) - 300)).toBeLessThan(20);
  });

  it.each(someSeeds([1, 2, 3]))('counts time once that a rank is late from one step to the next (seed %i)', (seed) => {
    const blame = blameOf({ seed, steps: 400, stragglers: every(40, 400).map((step) => slow(2, step, 400, 'optimizer')) });
    expect(longOf(blame)).toMatchObject([{ ranks: [2], phase: 'optimizer', affectedSteps: 9 }]);
    expect(Math.abs((longOf(blame)[0]?.costMsPerAffectedStep ?? 0) - 400)).toBeLessThan(40);
  });

  it.each(someSeeds([1, 2, 3, 4]).flatMap((seed) => [2, 3, 4].map((ranks) => [ranks, seed] as const)))(
    'names one of %i ranks that stalls now and then where many steps are longer for all (seed %i)',
    (ranks, seed) => {
      const all = Array.from({ length: ranks }, (_, rank) => rank);
      const longer = every(6, 240).flatMap((step) => all.map((rank) => slow(rank, step, 250)));
      const blame = blameOf({ ranks, seed, steps: 240, stragglers: [...longer, ...every(25, 240).map((step) => slow(1, step, 1500))] });
      expect(blame.verdict).toBe('long_steps');
      expect(longOf(blame)).toMatchObject([{ ranks: [1], phase: 'forward', affectedSteps: 9 }]);
      expect(Math.abs((longOf(blame)[0]?.costMsPerStep ?? 0) - (9 * 1500) / 240)).toBeLessThan(4);
      expect(blame.findings.filter(({ kind }) => kind === 'rotating_imbalance' || kind === 'straggler')).toEqual([]);
    },
  );

  it.each(someSeeds([1, 2, 3]))('leaves no step out where many are as much longer on ranks by turns (seed %i)', (seed) => {
    const blame = blameOf({ seed, steps: 240, stragglers: every(3, 240).map((step) => slow((step / 3) % 4, step, 250)) });
    expect([blame.verdict, longOf(blame)]).toEqual(['rotating_imbalance', []]);
  });

  it('tells two causes apart', () => {
    const evaluations = every(64, 600).flatMap((step) => [0, 1, 2, 3].map((rank) => slow(rank, step, 500)));
    const blame = blameOf({ steps: 600, stragglers: [...evaluations, ...every(90, 600).map((step) => slow(0, step, 400, 'optimizer'))] });
    expect(longOf(blame).map(({ ranks, phase, affectedSteps }) => [ranks, phase, affectedSteps])).toEqual([
      [[], 'forward', 9],
      [[0], 'optimizer', 6],
    ]);
  });

  const causesOf = (blame: RunBlame) => longOf(blame).map(({ ranks, phase, affectedSteps }) => [ranks, phase, affectedSteps]);
  const costsOf = (blame: RunBlame): number[] => longOf(blame).map(({ costMsPerAffectedStep }) => costMsPerAffectedStep);
  const expectNear = (costs: readonly number[], truth: readonly number[]): void => {
    expect(costs).toHaveLength(truth.length);
    for (const [at, cost] of costs.entries()) expect(Math.abs(cost - (truth[at] as number)), `${costs}`).toBeLessThan(25);
  };

  it.each(someSeeds([1, 2, 3]).flatMap((seed) => [2, 4, 9].map((ranks) => [ranks, seed] as const)))(
    'tells what one of %i ranks does beyond the others from what all do (seed %i)',
    (ranks, seed) => {
      const all = [...Array(ranks).keys()];
      const evaluations = every(40, 400).flatMap((step) => all.map((rank) => slow(rank, step, rank === 1 ? 500 : 300)));
      const blame = blameOf({ ranks, seed, steps: 400, stragglers: evaluations });
      expect(causesOf(blame)).toEqual([
        [[], 'forward', 9],
        [[1], 'forward', 9],
      ]);
      expectNear(costsOf(blame), [300, 200]);
    },
  );

  it.each(someSeeds([1, 2, 3]).flatMap((seed) => [2, 4].map((ranks) => [ranks, seed] as const)))(
    'leaves to all of %i ranks what they all do, where it is little beside what one does (seed %i)',
    (ranks, seed) => {
      const all = [...Array(ranks).keys()];
      const evaluations = every(40, 400).flatMap((step) => all.map((rank) => slow(rank, step, rank === 1 ? 500 : 90)));
      const blame = blameOf({ ranks, seed, steps: 400, stragglers: evaluations });
      expect(causesOf(blame)).toEqual([
        [[1], 'forward', 9],
        [[], 'forward', 9],
      ]);
      expectNear(costsOf(blame), [410, 90]);
    },
  );

  it.each(someSeeds([1, 2, 3]))('names the phase in which one is alone, though all are longer in another (seed %i)', (seed) => {
    const stragglers = every(40, 400).flatMap((step) => [
      ...[0, 1, 2, 3].map((rank) => slow(rank, step, 300)),
      slow(0, step, 200, 'optimizer'),
    ]);
    const blame = blameOf({ seed, steps: 400, stragglers });
    expect(causesOf(blame)).toEqual([
      [[], 'forward', 9],
      [[0], 'optimizer', 9],
    ]);
    expectNear(costsOf(blame), [300, 200]);
  });

  it.each(someSeeds([1, 2, 3]))('tells ranks apart that are late to different meetings of one step (seed %i)', (seed) => {
    const stragglers = every(40, 400).flatMap((step) => [
      ...[0, 1, 2, 3].map((rank) => slow(rank, step, rank === 3 ? 650 : 400)),
      slow(0, step, 150, 'optimizer'),
    ]);
    const blame = blameOf({ seed, steps: 400, stragglers });
    expect(causesOf(blame)).toEqual([
      [[], 'forward', 9],
      [[3], 'forward', 9],
      [[0], 'optimizer', 9],
    ]);
    expectNear(costsOf(blame), [400, 250, 150]);
  });

  it('tells three causes of one step apart, and no ranks that differ by chance', () => {
    const lengths = [600, 400, 400, 200, 200, 200, 200, 200];
    const stragglers = every(40, 400).flatMap((step) => lengths.map((length, rank) => slow(rank, step, length)));
    expect(causesOf(blameOf({ ranks: 8, steps: 400, stragglers }))).toEqual(
      expect.arrayContaining([
        [[], 'forward', 9],
        [[0, 1, 2], 'forward', 9],
        [[0], 'forward', 9],
      ]),
    );
    const random = new Random(5, 'evaluations');
    const uneven = every(40, 400).flatMap((step) => lengths.map((_, rank) => slow(rank, step, 300 + 60 * random.uniform())));
    expect(causesOf(blameOf({ ranks: 8, steps: 400, stragglers: uneven }))).toEqual([[[], 'forward', 9]]);
  });

  it('leaves a straggler its verdict where that costs more', () => {
    const stragglers = [{ rank: 3, phase: 'backward' as const, ms: 20 }, ...every(60, 400).map((step) => slow(1, step, 300))];
    const blame = blameOf({ steps: 400, stragglers });
    expect([blame.verdict, blame.findings.map(({ kind, ranks }) => [kind, ranks])]).toEqual([
      'straggler',
      [
        ['straggler', [3]],
        ['long_steps', [1]],
      ],
    ]);
  });

  it('reports one stall, which is no verdict', () => {
    const blame = blameOf({ steps: 200, stragglers: [slow(1, 120, 5000)] });
    expect(blame.verdict).toBe('balanced');
    expect(longOf(blame)).toMatchObject([{ ranks: [1], phase: 'forward', affectedSteps: 1, steps: { first: 120, last: 120 } }]);
    expect(longOf(blame)[0]?.evidence[0]).toBe('in it rank 1 works longer in forward than usual, and the others wait');
  });

  it('says nothing of the first steps, and of what costs little', () => {
    const early = [0, 3, 7].map((step) => slow(1, step, 5000));
    expect(longOf(blameOf({ steps: 200, stragglers: early }))).toEqual([]);
    expect(longOf(blameOf({ steps: 400, stragglers: [slow(1, 100, 150), slow(1, 200, 150)] }))).toEqual([]);
  });

  it('joins stalls of any rank, which are nobody’s', () => {
    const random = new Random(3, 'stalls');
    const phases = ['forward', 'optimizer'] as const;
    const stragglers = [...Array(20).keys()].map((at) => {
      return slow(random.whole(4), 10 + at * 40 + random.whole(30), 300, phases[random.whole(2)] as (typeof phases)[number]);
    });
    const blame = blameOf({ steps: 900, stragglers });
    const affected = longOf(blame).reduce((sum, { affectedSteps }) => sum + affectedSteps, 0);
    expect(affected).toBe(20);
    expect(blame.verdict).toBe('balanced');
  });
});

/** Ranks of which only lengths of phases are known, by step: ms by phase. */
function ofPhases(ranks: number, steps: number, phasesOf: (rank: number, step: number) => Record<string, number>): RunBlame {
  const sink = new RunBlameSink();
  const processes = [...Array(ranks).keys()].map((rank) => traceProcess({ index: rank, rank, incarnation: `${rank}`, pid: rank }));
  sink.begin(traceHeader(processes));
  const lanes = processes.map((process, rank) => traceLane({ index: rank, process }));
  for (const lane of lanes) sink.lane(lane);
  const starts = new Float64Array(ranks);
  for (let step = 0; step < steps; step++) {
    for (const [rank, lane] of lanes.entries()) {
      const phases = new Map(Object.entries(phasesOf(rank, step)).map(([name, length]) => [name, nanos(length * ms)] as const));
      const length = [...phases.values()].reduce((sum, of) => sum + of, 0);
      sink.event(traceEvent({ kind: 'step', lane, step, start: traceTime(starts[rank] as number), length: nanos(length), phases }));
      starts[rank] = (starts[rank] as number) + length;
    }
  }
  sink.end([]);
  return sink.blame;
}

describe('where only lengths of phases are known', () => {
  const isLong = (step: number): boolean => step > 0 && step % 40 === 0;

  it('names a rank whose peers wait in a phase of waiting', () => {
    const blame = ofPhases(2, 300, (rank, step) => {
      const extra = isLong(step) ? 200 : 0;
      return { forward: 10, save: rank === 0 ? extra : 0, all_reduce: rank === 0 ? 1 : 1 + extra };
    });
    expect(longOf(blame)).toMatchObject([{ ranks: [0], phase: 'save', affectedSteps: 7 }]);
  });

  it('names one of several that wait for it in another phase, and neither of two', () => {
    const of = (ranks: number): RunBlame =>
      ofPhases(ranks, 300, (rank, step) => {
        const extra = isLong(step) ? 200 : 0;
        return { forward: rank === 0 ? 10 + extra : 10, backward: rank === 0 ? 20 : 20 + extra };
      });
    expect(longOf(of(2))).toMatchObject([{ ranks: [], phase: undefined, affectedSteps: 7 }]);
    expect(of(2).verdict).not.toBe('long_steps');
    expect(longOf(of(4))).toMatchObject([{ ranks: [0], phase: 'forward', affectedSteps: 7 }]);
  });

  it('names the phase that is longer on all ranks', () => {
    const blame = ofPhases(2, 300, (_, step) => ({ forward: 10, backward: 20, evaluate: isLong(step) ? 300 : 0 }));
    expect(longOf(blame)).toMatchObject([{ ranks: [], phase: 'evaluate', affectedSteps: 7 }]);
    expect(blame.verdict).toBe('long_steps');
  });
});

it('leaves out lives of a rank that have few of the steps', () => {
  const sink = new RunBlameSink();
  const processes = [0, 1, 1].map((rank, index) => traceProcess({ index, rank, incarnation: `${index}`, pid: index }));
  sink.begin(traceHeader(processes, { worldSize: 2 }));
  const lanes = processes.map((process, index) => traceLane({ index, process }));
  for (const lane of lanes) sink.lane(lane);
  /** Step 40 is long in the life that is left out; the others wait less in it than usual. */
  const phasesOf = (life: number, step: number): [string, number][] => {
    if (step !== 40) return Object.entries({ forward: 10, all_reduce: 0.6 });
    return Object.entries(life === 2 ? { forward: 900, all_reduce: 0 } : { forward: 9.9, all_reduce: 0.1 });
  };
  for (let step = 0; step < 200; step++) {
    for (const [life, lane] of lanes.entries()) {
      if (life === 2 && (step < 20 || step > 60)) continue;
      const phases = new Map(phasesOf(life, step).map(([name, length]) => [name, nanos(length * ms)]));
      const length = nanos([...phases.values()].reduce((sum, of) => sum + of, 0));
      sink.event(traceEvent({ kind: 'step', lane, step, start: traceTime(step * 10.6 * ms), length, phases }));
    }
  }
  sink.end([]);
  expect(sink.blame.verdict).toBe('balanced');
  expect(longOf(sink.blame)).toEqual([]);
});

it('adds the long steps of hosts to the blame of their devices, of which few steps are judged', () => {
  const faults = [{ kind: 'late_data', rank: 1, amount: 60 * ms, inStep: (step: number) => step % 10 === 5 }] as const;
  const { files } = gpuJob({ seed: 1, ranks: 4, steps: 50, faults });
  const gpus = new GpuSink();
  const [devices, hosts] = [new GpuBlameSink(gpus), new RunBlameSink()];
  finish(mergeRun(sourcesOfKineto(files.map(({ text }) => tableOfKineto(text))), teeSink(gpus, devices, hosts)));
  const blame = hosts.addLongSteps(devices.blame as RunBlame);
  expect(longOf(blame)).toMatchObject([{ ranks: [1], affectedSteps: 4, steps: { first: 15, last: 45 } }]);
  expect(Math.abs((longOf(blame)[0]?.costMsPerAffectedStep ?? 0) - 60)).toBeLessThan(6);
});

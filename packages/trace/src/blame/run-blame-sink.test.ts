// Blame over runs longer than the steps held at full detail, with faults at any place.

import { describe, expect, it } from 'vitest';
import { someSeeds } from '../../../../test/setup/seeds.ts';
import { mergeRun } from '../merge/merge-run.ts';
import { Random } from '../simulate/random.ts';
import { simulatedCluster } from '../simulate/simulated-cluster.ts';
import type { ClusterOptions } from '../simulate/simulation-options.ts';
import { blameLimits } from './blame-limits.ts';
import { type RunBlame, RunBlameSink } from './run-blame-sink.ts';

function blameOf(options: ClusterOptions): RunBlame {
  const sink = new RunBlameSink();
  const cluster = { ranks: 4, hosts: 1, stepMs: 50, rpcsPerSecond: 0, ...options };
  for (const _ of mergeRun(simulatedCluster(cluster).sources, sink));
  return sink.blame;
}

const fault = (step: number, lastStep: number, rank = 2) => ({ rank, phase: 'backward' as const, ms: 8, step, lastStep });

/** Steps by which a fault's ends may be off: a noisy first or last step may look unaffected. */
const offMax = 8;

describe('a run of 900 steps', () => {
  it.each([
    [400, 527, 1],
    [330, 399, 2],
    [0, 90, 3],
    [200, 299, 4],
    [700, 899, 5],
    [850, 899, 6],
  ])('finds the rank that was slow from step %i to %i, and says when', (first, last, seed) => {
    const { verdict, verdictSteps, findings, steps, last: lastSteps } = blameOf({ seed, steps: 900, stragglers: [fault(first, last)] });
    expect(lastSteps.verdict).toBe(last === 899 ? 'straggler' : 'balanced');
    expect(verdict).toBe('straggler');
    expect(findings).toMatchObject([{ kind: 'straggler', ranks: [2], phase: 'backward' }]);
    const [{ steps: covered, affectedSteps, costMsPerAffectedStep, costMsPerStep }] = findings as [RunBlame['findings'][number]];
    expect(verdictSteps).toEqual(covered);
    expect(Math.abs(covered.first - first)).toBeLessThanOrEqual(offMax);
    expect(Math.abs(covered.last - last)).toBeLessThanOrEqual(offMax);
    // Noise may hide the fault in some of its steps.
    expect(Math.abs(affectedSteps - (last - first + 1))).toBeLessThanOrEqual(3 * offMax);
    expect(costMsPerAffectedStep).toBeGreaterThan(5);
    expect(costMsPerAffectedStep).toBeLessThan(8);
    // The same over the run; step 0 is of another kind, and left out.
    expect(costMsPerStep).toBeCloseTo((costMsPerAffectedStep * affectedSteps) / 899, 6);
    expect(steps).toMatchObject({ first: 0, last: 899, count: 900 });
    expect(steps.windows).toBeGreaterThan(900 / blameLimits.blameWindowSteps - 2);
  });

  it('begins a window where all ranks become slower, and shows the last steps since then', () => {
    const stragglers = [0, 1, 2, 3].map((rank) => fault(700, 899, rank));
    const { last, findings } = blameOf({ steps: 900, stragglers });
    expect(Math.abs((last.steps.first ?? 0) - 700)).toBeLessThanOrEqual(offMax);
    expect(findings).toMatchObject([{ kind: 'cluster_wide', phase: 'backward' }]);
    expect(Math.abs((findings[0]?.steps.first ?? 0) - 700)).toBeLessThanOrEqual(offMax);
    expect(Math.abs((findings[0]?.costMsPerAffectedStep ?? 0) - 8)).toBeLessThan(2);
  });

  it('reports what is the fault of no rank once, however often it comes and goes', () => {
    const random = new Random(1, 'who is slow');
    const uneven = [...Array(100).keys()].flatMap((at) => [150 + at, 600 + at].map((step) => fault(step, step, random.whole(4))));
    const { findings } = blameOf({ steps: 900, stragglers: uneven.map((one) => ({ ...one, ms: 30 })) });
    const rotating = findings.filter(({ kind }) => kind === 'rotating_imbalance');
    expect(rotating).toMatchObject([{ stretches: 2, ranks: [] }]);
    const [{ steps, affectedSteps }] = rotating as [RunBlame['findings'][number]];
    // Partly uneven windows count as a whole, or not at all.
    expect(Math.abs(steps.first - 150)).toBeLessThan(blameLimits.blameWindowSteps);
    expect(Math.abs(steps.last - 699)).toBeLessThan(blameLimits.blameWindowSteps);
    expect(affectedSteps).toBeGreaterThan(100);
    expect(affectedSteps).toBeLessThan(400);
  });

  it('reports two faults of half of the ranks as theirs, and the same time once', () => {
    const { findings, last } = blameOf({ steps: 900, stragglers: [fault(200, 500, 1), fault(350, 650, 3)] });
    // Both cost the same: either may come first.
    expect(findings.map(({ kind, ranks }) => [kind, ranks]).sort()).toEqual([
      ['straggler', [1]],
      ['straggler', [3]],
    ]);
    expect(last.findings).toEqual([]);
  });

  it('reports what cost most first, wherever it was, and the verdict is that', () => {
    const { verdictSteps, findings, last } = blameOf({ steps: 900, stragglers: [fault(100, 499, 1), fault(700, 899, 3)] });
    expect(last.findings).toMatchObject([{ kind: 'straggler', ranks: [3] }]);
    expect(findings.map(({ ranks }) => ranks)).toEqual([[1], [3]]);
    expect(verdictSteps).toEqual(findings[0]?.steps);
  });

  it('names two faults one after the other, each with its steps', () => {
    const { findings } = blameOf({ steps: 900, stragglers: [fault(128, 255, 1), fault(448, 575, 3)] });
    const of = (rank: number) => findings.find(({ ranks }) => ranks[0] === rank)?.steps;
    expect(findings).toHaveLength(2);
    expect(of(1)?.last).toBeLessThan(of(3)?.first ?? 0);
  });

  it('reports a fault of the whole run once, from its first step to its last', () => {
    const { verdict, findings } = blameOf({ steps: 900, stragglers: [{ rank: 2, phase: 'backward', ms: 8 }] });
    expect(verdict).toBe('straggler');
    expect(findings).toMatchObject([{ kind: 'straggler', ranks: [2], steps: { first: 0, last: 899 } }]);
    const [{ affectedSteps, comparedSteps, costMsPerAffectedStep, costMsPerStep }] = findings as [RunBlame['findings'][number]];
    expect([affectedSteps, costMsPerAffectedStep]).toEqual([comparedSteps, costMsPerStep]);
  });

  it.each(someSeeds([0, 1, 2, 3]))('is balanced where no rank is slow, seed %i', (seed) => {
    const { verdict, findings } = blameOf({ steps: 900, seed });
    expect([verdict, findings]).toEqual(['balanced', []]);
  });
});

it('says of a short run what its steps say', () => {
  const { verdict, findings, steps } = blameOf({ steps: 24, stragglers: [{ rank: 2, phase: 'backward', ms: 8 }] });
  expect(verdict).toBe('straggler');
  expect(findings).toMatchObject([{ ranks: [2], steps: { first: 0, last: 23 } }]);
  expect(steps).toEqual({ first: 0, last: 23, count: 24, windows: 1 });
});

// Blame over runs that are longer than what is held at full detail: faults at any place of them.

import { describe, expect, it } from 'vitest';
import { mergeRun } from '../merge/merge-run.ts';
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

describe('a run of 900 steps', () => {
  it.each([
    [400, 527],
    [330, 399],
    [0, 90],
  ])('finds the rank that was slow from step %i to %i, and says when', (first, last) => {
    const { verdict, verdictSteps, findings, steps, last: lastSteps } = blameOf({ steps: 900, stragglers: [fault(first, last)] });
    expect(lastSteps.verdict).toBe('balanced');
    expect(verdict).toBe('straggler');
    expect(findings).toMatchObject([{ kind: 'straggler', ranks: [2], phase: 'backward' }]);
    const [{ steps: covered, costMsPerStep }] = findings as [RunBlame['findings'][number]];
    expect(verdictSteps).toEqual(covered);
    // Windows begin anywhere in it: each end is right to within one.
    expect(Math.abs(covered.first - first)).toBeLessThanOrEqual(blameLimits.blameWindowSteps);
    expect(Math.abs(covered.last - last)).toBeLessThanOrEqual(blameLimits.blameWindowSteps);
    expect(costMsPerStep).toBeGreaterThan(4);
    expect(costMsPerStep).toBeLessThan(10);
    expect(steps).toMatchObject({ first: 0, last: 899, count: 900 });
    expect(steps.windows).toBeGreaterThan(900 / blameLimits.blameWindowSteps - 2);
  });

  it('names two faults one after the other, each with its steps', () => {
    const { findings } = blameOf({ steps: 900, stragglers: [fault(128, 255, 1), fault(448, 575, 3)] });
    const of = (rank: number) => findings.find(({ ranks }) => ranks[0] === rank)?.steps;
    expect(findings).toHaveLength(2);
    expect(of(1)?.last).toBeLessThan(of(3)?.first ?? 0);
  });

  it('tells a fault of the whole run once, from its first step to its last', () => {
    const { verdict, findings } = blameOf({ steps: 900, stragglers: [{ rank: 2, phase: 'backward', ms: 8 }] });
    expect(verdict).toBe('straggler');
    expect(findings).toMatchObject([{ kind: 'straggler', ranks: [2], steps: { first: 0, last: 899 } }]);
  });

  it.each([0, 1, 2, 3])('is balanced where nobody is slow, seed %i', (seed) => {
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

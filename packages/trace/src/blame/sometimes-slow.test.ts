// Text for a rank that is slow in some steps only.

import { expect, it } from 'vitest';
import { mergeRun } from '../merge/merge-run.ts';
import { simulatedCluster } from '../simulate/simulated-cluster.ts';
import { workedWindow } from '../testing/worked-window.ts';
import { blameOfWindow } from './blame.ts';
import { type RunBlame, RunBlameSink } from './run-blame-sink.ts';

const line = 'data 4, forward 12, backward 24, all_reduce 1, optimizer 4';

it('is reported with its rule, and what an affected step costs', () => {
  const length = (ms: number, rank: number, phase: string, step: number): number =>
    ms + (rank === 0 && phase === 'data' && step % 3 === 1 ? 25 : 0);
  const blame = blameOfWindow(workedWindow([line, line, line, line], { steps: 12, length }));
  expect(blame.verdict).toBe('straggler');
  expect(blame.findings).toMatchObject([{ kind: 'straggler', ranks: [0], phase: 'data' }]);
  expect(blame.findings[0]?.costMsPerStep).toBeCloseTo(25 / 3, 6);
  expect(blame.findings[0]?.evidence).toEqual([
    'rank 0 works 25.00 ms longer in data than the median of its peers in 4 of 12 steps, every third',
    'a step so affected is 25.00 ms longer for all',
  ]);
});

it.each([2, 3, 4, 8])('is the fault of none of %i ranks that take turns', (ranks) => {
  const length = (ms: number, rank: number, phase: string, step: number): number =>
    ms + (phase === 'forward' && step % ranks === rank ? 12 : 0);
  const blame = blameOfWindow(workedWindow(Array(ranks).fill(line), { steps: 48, length }));
  expect(blame.verdict).toBe('rotating_imbalance');
  expect(blame.findings).toMatchObject([{ kind: 'rotating_imbalance', ranks: [], phase: 'forward' }]);
  expect(blame.findings[0]?.costMsPerStep).toBeCloseTo(12, 6);
  expect(blame.findings[0]?.evidence[0]).toMatch(
    /^ranks take turns in working 12\.00 ms longer in forward than their peers: rank 0 every /,
  );
});

/** One of so many ranks of eight works 12 ms longer in each step, by turns. */
function turnsOf(taking: number, seed: number): RunBlame {
  const stragglers = Array.from({ length: 240 }, (_, step) => {
    return { rank: step % taking, phase: 'forward' as const, ms: 12, step, lastStep: step };
  });
  const sink = new RunBlameSink();
  const cluster = simulatedCluster({ ranks: 8, hosts: 2, stepMs: 50, rpcsPerSecond: 0, steps: 240, seed, stragglers });
  for (const _ of mergeRun(cluster.sources, sink));
  return sink.blame;
}

it.each([1, 2, 3])('in noise: eight take turns, or two, who are named (seed %i)', (seed) => {
  const all = turnsOf(8, seed);
  expect([all.verdict, all.findings.map(({ kind }) => kind)]).toEqual(['rotating_imbalance', ['rotating_imbalance']]);
  expect(Math.abs((all.findings[0]?.costMsPerStep ?? 0) - 12)).toBeLessThan(4);
  const two = turnsOf(2, seed).findings.filter(({ kind }) => kind === 'straggler');
  expect(two.map(({ ranks }) => ranks).sort()).toEqual([[0], [1]]);
});

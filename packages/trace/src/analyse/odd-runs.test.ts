// Whatever ranks record, a run has its analysis, and its figures are figures.

import { describe, expect, it } from 'vitest';
import { seedCount } from '../../../../test/setup/seeds.ts';
import { RunBlameSink } from '../blame/run-blame-sink.ts';
import { oddRun, playRun } from '../testing/odd-run.ts';
import { analysisSink, type RunAnalysis } from './run-analysis.ts';

/** Paths of numbers that are none. */
function notFinite(value: unknown, path: string): string[] {
  if (typeof value === 'number') return Number.isFinite(value) ? [] : [`${path}: ${value}`];
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return [];
  const entries = value instanceof Map ? [...value] : Object.entries(value);
  return entries.flatMap(([key, of]) => notFinite(of, `${path}.${String(key)}`));
}

const analysed = (seed: number): RunAnalysis => {
  const sink = analysisSink({ isLive: seed % 3 === 0 });
  playRun(oddRun(seed), sink);
  return sink.analysis;
};

describe.each(Array.from({ length: 10 * seedCount(10) }, (_, at) => at))('run %i', (seed) => {
  it('is analysed, in numbers and words', () => {
    const { findings, waiting, gpus = [], stepTime } = analysed(seed);
    expect(notFinite({ findings, waiting, gpus, stepTime }, '')).toEqual([]);
    for (const { text } of findings) expect(text).not.toMatch(/NaN|Infinity|undefined/);
    for (const { length, compute, overlapped, exposed, copies, hostLate, launch, dependency, unknown } of gpus) {
      expect(compute + overlapped + exposed + copies + hostLate + launch + dependency + unknown).toBe(length);
    }
  });

  it('has blame of ranks and steps that are there, and no more than the time that there was', () => {
    const run = oddRun(seed);
    const sink = new RunBlameSink();
    playRun(run, sink);
    const { findings } = sink.blame;
    const ranks = new Set(run.header.processes.map(({ rank }) => rank));
    for (const { ranks: blamed, evidence, steps, shareOfStep, costMsPerStep, affectedSteps, comparedSteps } of findings) {
      expect(blamed.filter((rank) => !ranks.has(rank))).toEqual([]);
      expect(evidence.join()).not.toMatch(/NaN|Infinity|undefined/);
      expect(steps.first).toBeLessThanOrEqual(steps.last);
      expect(shareOfStep).toBeGreaterThanOrEqual(0);
      expect(shareOfStep).toBeLessThanOrEqual(1);
      expect(costMsPerStep).toBeGreaterThanOrEqual(0);
      expect(affectedSteps).toBeLessThanOrEqual(comparedSteps);
    }
  });
});

// Detectors on series with unusual noise: they stay silent at one level, and report slow-downs as far as these stand out.

import { describe, expect, it } from 'vitest';
import { noisySteps, type StepNoise, stepNoises } from '../simulate/noisy-steps.ts';
import { Random } from '../simulate/random.ts';
import { DetectorPlan, type DetectorWishes, detectorOptionsFor } from './detector-options.ts';
import type { DetectorState } from './detector-state.ts';
import { SeriesDetector } from './series-detector.ts';
import type { StepTimeFinding } from './step-time-finding.ts';

const usual = new DetectorPlan();
const planFor = (wishes: DetectorWishes): DetectorPlan => new DetectorPlan(detectorOptionsFor(wishes));

function slowDownsIn(times: Iterable<number>, plan = usual): StepTimeFinding[] {
  const detector = new SeriesDetector(plan);
  const findings: StepTimeFinding[] = [];
  let step = 0;
  for (const time of times) {
    const finding = detector.add(step++, time);
    if (finding?.kind === 'regression' || finding?.kind === 'drift') findings.push(finding);
  }
  return findings;
}

const falseIn = (kind: StepNoise, seeds: readonly number[], steps: number, plan = usual): number =>
  seeds.reduce((sum, seed) => sum + slowDownsIn(noisySteps({ kind, seed, steps }), plan).length, 0);

/** Number of slow-downs, by `factor` from step 300 … 400 on in 600 steps, reported within 40 steps, and at all. */
function foundIn(kind: StepNoise, count: number, factor: number, plan = usual): { readonly soon: number; readonly ever: number } {
  let [soon, ever] = [0, 0];
  for (let seed = 0; seed < count; seed++) {
    const onset = 300 + ((37 * seed) % 101);
    const times = noisySteps({ kind, seed: 7_000 + seed, steps: 600, factorAt: (step) => (step < onset ? 1 : factor) });
    const reported = slowDownsIn(times, plan).find(({ step }) => step >= onset);
    if (reported === undefined) continue;
    ever++;
    if (reported.step < onset + 40) soon++;
  }
  return { soon, ever };
}

const seeds = Array.from({ length: 25 }, (_, index) => 500 + index);

describe('100 000 steps at one level', () => {
  // A level that jumps by up to 2.4 % and stays for a thousand steps is reported once, until it is known to come and go.
  it.each(stepNoises.filter((kind) => kind !== 'telegraph'))('of %s noise are reported at most once (25 seeds)', (kind) => {
    expect(falseIn(kind, seeds, 4000)).toBeLessThanOrEqual(1);
  });

  it('of steps that take one of two ways are hardly ever reported, though their slow blocks are few and their levels scatter little (200 seeds)', () => {
    const many = Array.from({ length: 200 }, (_, index) => 20_000 + index);
    expect(falseIn('twoWays', many, 3000)).toBeLessThanOrEqual(3);
  });

  it.each([0.98, 0.99])('that are alike for 50 to 100 steps (autoregression of %f) are reported at most once (60 seeds)', (alike) => {
    let reported = 0;
    for (let seed = 0; seed < 60; seed++) {
      const random = new Random(seed, 'alike');
      const deviation = random.uniform(0.005, 0.02);
      let level = 0;
      const times = Array.from({ length: 1700 }, () => {
        level = alike * level + random.normal(0, deviation * Math.sqrt(1 - alike * alike));
        return 100 * (1 + level);
      });
      reported += slowDownsIn(times).length;
    }
    expect(reported).toBeLessThanOrEqual(1);
  });

  it('that jump between two levels 1 to 2.4 % apart are reported once each, not with every jump (5 seeds of 40 000 steps)', () => {
    for (const seed of [1, 2, 3, 4, 5]) expect(falseIn('telegraph', [seed], 40_000), `seed ${seed}`).toBeLessThanOrEqual(2);
  });

  it('may be reported more often by a detector that is set to be hasty, and hardly ever by a cautious one (25 seeds)', () => {
    const count = (sensitivity: DetectorWishes['sensitivity']): number =>
      falseIn('telegraph', seeds, 4000, planFor({ sensitivity })) + falseIn('sharedCluster', seeds, 4000, planFor({ sensitivity }));
    expect(count('low')).toBeLessThanOrEqual(4);
    expect(count('high')).toBeGreaterThanOrEqual(count('normal'));
    expect(count('normal')).toBeGreaterThanOrEqual(count('low'));
  });
});

describe('steps that became slower', () => {
  it('by 3 % in whole milliseconds are reported within 40 steps in 98 of 100', () => {
    const { soon, ever } = foundIn('wholeMs', 100, 1.03);
    expect(soon).toBeGreaterThanOrEqual(98);
    expect(ever).toBe(100);
  });

  it.each(['drifts', 'sawTooth', 'periodic', 'heavyTails', 'bursts', 'coarseClock'] as const)(
    'by 10 %% are reported on %s noise (60 seeds)',
    (kind) => {
      const { soon, ever } = foundIn(kind, 60, 1.1);
      expect(ever).toBeGreaterThanOrEqual(56);
      expect(soon).toBeGreaterThanOrEqual(50);
    },
  );

  it('by 10 % are reported on noise that is alike, though later (60 seeds)', () => {
    for (const kind of ['autoregressive', 'pink', 'sharedCluster'] as const)
      expect(foundIn(kind, 60, 1.1).ever, kind).toBeGreaterThanOrEqual(54);
  });

  it('by less than was asked for are not reported, by more they are (30 seeds)', () => {
    const plan = planFor({ minChange: 0.05 });
    expect(foundIn('wholeMs', 30, 1.04, plan).ever).toBe(0);
    expect(foundIn('wholeMs', 30, 1.07, plan).ever).toBe(30);
    expect(foundIn('drifts', 30, 1.012).ever).toBe(0);
    expect(foundIn('drifts', 30, 1.012, planFor({ minChange: 0.006, sensitivity: 'high' })).ever).toBeGreaterThanOrEqual(15);
  });

  it('are reported by a cautious detector as well, later (30 seeds)', () => {
    const { soon, ever } = foundIn('wholeMs', 30, 1.05, planFor({ sensitivity: 'low' }));
    expect(ever).toBe(30);
    expect(soon).toBeLessThan(30);
  });
});

it('what was learnt outlives a restart, and a state without it is learnt again (seeds 1 to 4)', () => {
  for (const seed of [1, 2, 3, 4]) {
    const times = noisySteps({ kind: 'telegraph', seed, steps: 12_000 });
    const whole = new SeriesDetector(usual);
    let restarted = new SeriesDetector(usual);
    for (const [step, time] of times.entries()) {
      expect(restarted.add(step, time)).toEqual(whole.add(step, time));
      if (step % 997 === 0) restarted = SeriesDetector.restore(JSON.parse(JSON.stringify(restarted.state())) as DetectorState, usual);
    }
    expect(restarted.state()).toEqual(whole.state());
    const { learnt: _, freshBlocks: __, ...older } = JSON.parse(JSON.stringify(whole.state())) as DetectorState;
    const updated = SeriesDetector.restore(older, usual);
    for (let step = 0; step < 2000; step++) updated.add(12_000 + step, times[step] as number);
    expect(updated.state().learnt?.some((value) => value !== undefined)).toBe(true);
    // An older one, that learnt no rows of half blocks yet.
    const { leaps: ___, halfStep: ____, learnt = [], ...before } = whole.state();
    expect(SeriesDetector.restore({ ...before, learnt: learnt.slice(0, -1) }, usual).state().learnt).toEqual(learnt);
  }
});

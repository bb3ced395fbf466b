// Generated step-time series with known truth, for judging change detection; and series of other kinds with the changes planted in them.
//
//   compile │ level × wander × (1 + noise), a spike now and then, a longer step every 100 or 125, now and then two or three │
//
// Judged against modded-nanogpt's stationary runs and MLPerf's submissions, which `npm run bench -- detect` measures beside them where they are
// found. In the stationary runs there: steps of 137 to 1700 ms, deviation of the noise 0.2 to 0.75 % before it is rounded to whole ones, correlation of neighbours
// −0.3 to 0.5, 1 to 5 % of the steps longer by 5 % or more, up to 7 ×, many of them periodic, two in a row every 450 steps, three every 11 000, never
// more, first step up to 60 ×, level of 100 steps within 1.5 %. Here each of these is drawn from the same range.

import { Random } from '@ranktrace/trace/simulate';
import type { MarkedSeries, StepSeries } from './step-series.ts';

const stationaryRuns = 24;
const shortRuns = 48;
const growingRuns = 32;
const markedSeries = 32;

/** Long runs of one level, 3000 to 9000 steps each, in whole milliseconds. */
export function generateStationary(): StepSeries[] {
  return Array.from({ length: stationaryRuns }, (_, run) => {
    const random = new Random(31, 'stationary', run);
    const length = 3000 + random.whole(6000);
    const level = 137 * 12.4 ** random.uniform();
    return { isEval: new Array<boolean>(length).fill(false), times: trainingTimes(random, length, level, () => 1) };
  });
}

/** Short runs in seconds with evaluations after each so many training steps, a third of one long, as MLPerf's submissions. */
export function generateWithEvaluations(): StepSeries[] {
  return Array.from({ length: shortRuns }, (_, run) => {
    const random = new Random(32, 'short', run);
    const trainSteps = 10 + random.whole(60);
    const evalSteps = 3 + random.whole(6);
    const length = 280 + random.whole(400);
    const level = random.lognormal(9, 0.9);
    const noise = random.lognormal(0.002, 0.8);
    const isEval = Array.from({ length }, (_, step) => step % (trainSteps + evalSteps) >= trainSteps);
    const times = Float64Array.from(isEval, (evaluates, step) => {
      if (evaluates) return level * (isEval[step - 1] ? 0.33 : random.uniform(0.35, 1.5)) * (1 + 0.02 * heavyTailed(random));
      const start = step < 4 ? 1 + random.exponential(0.3 / (step + 1)) : 1;
      const spike = random.chance(0.006) ? 1 + random.exponential(0.15) : 1;
      return level * start * spike * (1 + noise * heavyTailed(random));
    });
    return { isEval, times };
  });
}

/** Runs that get slower as planned, steadily, by `growth` (0.1: 10 %) over all of their 1500 steps. */
export function generateGrowing(growth: number): StepSeries[] {
  return Array.from({ length: growingRuns }, (_, run) => {
    const random = new Random(33, 'growing', growth, run);
    const length = 1500 + random.whole(250);
    const whole = growth * random.uniform(0.8, 1.3);
    const times = trainingTimes(random, length, random.lognormal(140, 0.3), (step) => 1 + (whole * step) / length);
    return { isEval: new Array<boolean>(length).fill(false), times };
  });
}

/** Times of a training loop whose level follows `growth`, whole milliseconds. */
function trainingTimes(random: Random, length: number, level: number, growth: (step: number) => number): Float64Array {
  // Runs with correlated neighbours vary little there: the noisiest are not the most correlated.
  const noise = random.uniform(0.002, 0.0075);
  const correlation = random.uniform(-0.3, noise > 0.005 ? 0.25 : 0.5);
  const spikes = random.uniform(0.0005, 0.008);
  const period = random.chance(0.5) ? 100 : 125;
  const periodic = random.uniform(1.1, 2.6);
  const compile = random.lognormal(4, 1.2);
  let [wander, before, slowUntil] = [0, 0, 0];
  return Float64Array.from({ length }, (_, step) => {
    // A reverting walk: 0.15 % of deviation, over some 500 steps.
    wander += -wander / 500 + random.normal(0, 0.0015 * Math.sqrt(2 / 500));
    before = correlation * before + Math.sqrt(1 - correlation ** 2) * heavyTailed(random);
    if (random.chance(1 / 450)) slowUntil = step + (random.chance(0.04) ? 3 : 2);
    const slow = step < slowUntil ? random.uniform(1.05, 2.2) : 1;
    const spike = random.chance(spikes) ? Math.min(7, 1 + random.exponential(0.6)) : 1;
    const regular = step % period === period - 1 ? periodic : 1;
    const start = step === 0 ? 1 + compile : step < 4 ? 1.02 : 1;
    return Math.max(1, Math.round(level * growth(step) * start * slow * spike * regular * (1 + wander + noise * before)));
  });
}

/** Student's t of four degrees of freedom, scaled to deviation 1, and cut at 8. */
function heavyTailed(random: Random): number {
  const squares = [0, 1, 2, 3].reduce((sum) => sum + random.normal(0, 1) ** 2, 0);
  const value = (random.normal(0, 1) / Math.sqrt(squares / 4)) * Math.SQRT1_2;
  return Math.max(-8, Math.min(8, value));
}

/**
 * Series of 120 to 500 values with none to four changes of level by 1.5 to 6 deviations of their noise, at least 25 values apart; a quarter has
 * a slope besides. The truth stands in for the one person that marked each.
 */
export function generateMarked(): MarkedSeries[] {
  return Array.from({ length: markedSeries }, (_, index) => {
    const random = new Random(34, 'marked', index);
    const length = 120 + random.whole(380);
    const wanted = random.whole(5);
    const changes: number[] = [];
    for (let tried = 0; tried < 40 && changes.length < wanted; tried++) {
      const at = 25 + random.whole(length - 50);
      if (changes.every((other) => Math.abs(other - at) >= 25)) changes.push(at);
    }
    changes.sort((a, b) => a - b);
    const slope = random.chance(0.25) ? random.uniform(-1, 1) / length : 0;
    let level = 0;
    const values = Array.from({ length }, (_, at) => {
      if (changes.includes(at)) level += random.uniform(1.5, 6) * (random.chance(0.5) ? 1 : -1);
      return level + slope * at + heavyTailed(random);
    });
    return { values, annotations: { truth: changes } };
  });
}

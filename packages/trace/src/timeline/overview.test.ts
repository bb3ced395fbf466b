import { besideOf } from '@ranktrace/protocol';
import { describe, expect, it } from 'vitest';
import { StepBudget, StepHistory } from '../steps/step-history.ts';
import { stepLimits } from '../steps/step-limits.ts';
import { traceProcess } from '../testing/trace-events.ts';
import { overviewOf, type StepsOfProcess } from './overview.ts';

const phases = ['data_load', 'forward'];

/** A rank: step N begins at 1000 · N of its own clock and takes `lengthOf(N)`, a quarter of it in data_load, half in forward. */
function rankOf(
  rank: number,
  steps: number,
  lengthOf: (step: number) => number,
  about: { budget?: StepBudget; ahead?: number; from?: number } = {},
): StepsOfProcess {
  const history = new StepHistory(about.budget);
  for (let step = about.from ?? 0; step < steps; step++) {
    const length = lengthOf(step);
    history.add(step, step * 1000, length, new Map(phases.map((name, at) => [name, length / (at === 0 ? 4 : 2)])));
  }
  const toTrace = (own: number): number => own - (about.ahead ?? 0);
  return { process: traceProcess({ index: rank + 1, rank }), index: rank + 1, clock: { toTrace }, steps: history };
}

describe('overviewOf', () => {
  it('leaves out a hang that an earlier analysis found, once all ranks have ended a step since', () => {
    const text = 'rank 1 is inside of all_reduce 10 for 15.0 s; rank 0 never entered it';
    const hang = { severity: 'alert', kind: 'hang', text, ranks: [0], from: 9_500, until: 20_000 } as const;
    const analysis = { findings: [hang], waiting: [], waitingWhole: 0, stepTime: 0, since: undefined, beginning: undefined };
    const found = (...steps: number[]) =>
      overviewOf(
        steps.map((count, rank) => rankOf(rank, count, () => 100)),
        { bins: 8 },
        analysis,
      ).findings;
    expect(found(10, 10)).toEqual([hang]);
    expect(found(10, 22)).toEqual([hang]);
    expect(found(21, 22)).toEqual([]);
  });

  it('reports who is slow, in which phase', () => {
    const overview = overviewOf([rankOf(0, 4, () => 100), rankOf(1, 4, () => 200), rankOf(2, 4, () => 120)], { bins: 8 });
    expect(overview).toMatchObject({ fromStep: 0, toStep: 3, steps: 4, bins: [0, 1, 2, 3], times: [0, 1000, 2000, 3000] });
    expect(overview).toMatchObject({ slowest: [200, 200, 200, 200], median: [120, 120, 120, 120], fastest: [100, 100, 100, 100] });
    expect(overview.percentiles).toEqual({ p50: 200, p90: 200, p95: 200, p99: 200 });
    expect(overview.phases).toEqual(['forward', 'data_load', 'other']);
    expect(overview.ranks.map(({ rank, mean, phases }) => [rank, mean, phases])).toEqual([
      [0, 100, [50, 25, 25]],
      [1, 200, [100, 50, 50]],
      [2, 120, [60, 30, 30]],
    ]);
    expect(overview).toMatchObject({ findings: [], waiting: [], analysed: false });
  });

  it('puts steps into as many bins as are asked for, with the longest step of each', () => {
    const overview = overviewOf([rankOf(0, 10, (step) => (step === 5 ? 900 : 100))], { bins: 4 });
    expect(overview.bins).toEqual([0, 3, 6, 9]);
    expect(overview.ranks[0]?.cells).toEqual([100, 367, 100, 100]);
    expect(overview.ranks[0]?.peaks).toEqual([100, 900, 100, 100]);
    expect(overview.times).toEqual([0, 3000, 6000, 9000]);
    expect(overview.percentiles?.p50).toBe(100);
  });

  it('shows a range of steps alone', () => {
    const overview = overviewOf([rankOf(0, 100, (step) => step), rankOf(1, 50, (step) => 2 * step)], { fromStep: 45, toStep: 54, bins: 5 });
    expect(overview).toMatchObject({ fromStep: 45, toStep: 54, steps: 10, bins: [45, 47, 49, 51, 53] });
    expect(overview.ranks.map(({ steps, mean, p50 }) => [steps, mean, p50])).toEqual([
      [10, 49.5, 49.5],
      [5, 94, 94],
    ]);
    expect(overview.slowest).toEqual([91, 95, 98, 52, 54]);
    expect(overview.ranks[1]?.cells.slice(3)).toEqual([null, null]);
    expect(overview.percentiles?.p99).toBeCloseTo(97.82, 6);
  });

  it('compares ranks whose bins are of different widths', () => {
    const small = (): StepBudget => new StepBudget(0);
    const steps = 4 * stepLimits.stepBinsPerProcessMin;
    const overview = overviewOf([rankOf(0, 100, () => 100), rankOf(1, steps, () => 200, { budget: small() })], { bins: 1000 });
    expect(overview.bins.length).toBe(steps / 4);
    expect(overview.bins[1]).toBe(4);
    expect(overview.steps).toBe(steps);
    expect(overview.ranks[0]?.cells.slice(24, 26)).toEqual([100, null]);
    expect(overview.fastest.slice(24, 26)).toEqual([100, 200]);
  });

  describe('where bins hold several steps', () => {
    // Odd steps take three times as long as even ones: no step is as long as the mean of two.
    const lengthOf = (step: number): number => (step % 2 === 0 ? 1000 : 3000);
    const steps = 16 * stepLimits.stepBinsPerProcessMin;
    const ranks = (): StepsOfProcess[] => [
      rankOf(0, steps, lengthOf, { budget: new StepBudget(0) }),
      rankOf(1, steps, (step) => lengthOf(step) / 2, { budget: new StepBudget(0) }),
      // It left early, in the slow beginning.
      rankOf(2, 20, () => 9000),
    ];
    const near = (value: number): unknown => expect.closeTo(value, -Math.log10(2 * 0.011 * value));

    it('percentiles are of the rank whose steps are the longest, not of means', () => {
      const overview = overviewOf(ranks(), { bins: 1000 });
      expect(overview.percentilesOf).toBe('rank');
      expect(overview.percentiles).toMatchObject({ p90: near(3000), p95: near(3000), p99: near(3000) });
      expect(overview.ranks.map(({ p95 }) => p95)).toEqual([near(3000), near(1500), 9000]);
    });

    it('nothing is said of a part of the steps, and of ranks whose steps are known one by one that is', () => {
      const { percentiles, ranks: rows } = overviewOf(ranks(), { bins: 1000, fromStep: 0, toStep: 63 });
      expect(percentiles).toBeNull();
      expect(rows.map(({ p50, p95 }) => [p50, p95])).toEqual([
        [null, null],
        [null, null],
        [9000, 9000],
      ]);
    });

    it('the analysis of all of the run knows them', () => {
      const stepTimes = { p50: 1000, p90: 3000, p95: 3000, p99: 3000 };
      const analysis = { findings: [], waiting: [], waitingWhole: 0, stepTime: 0, since: undefined, beginning: undefined, stepTimes };
      expect(overviewOf(ranks(), { bins: 1000 }, analysis)).toMatchObject({ percentiles: stepTimes, percentilesOf: 'steps' });
      expect(overviewOf(ranks(), { bins: 1000 }, analysis, false).percentilesOf).toBe('rank');
      expect(overviewOf(ranks(), { bins: 1000, toStep: 63 }, analysis).percentiles).toBeNull();
    });
  });

  it('percentiles of steps that are known one by one are exact, however many there are', () => {
    const [row] = overviewOf([rankOf(0, 1001, (step) => 1000 + step)], { bins: 10 }).ranks;
    expect([row?.p50, row?.p95]).toEqual([1500, 1950]);
  });

  it('begins a bin when the first rank does, by the clocks', () => {
    const overview = overviewOf([rankOf(0, 2, () => 1), rankOf(1, 2, () => 1, { ahead: 40 })], { bins: 2 });
    expect(overview.times).toEqual([-40, 960]);
  });

  it('covers whole units of a long run, and says so', () => {
    const coarse = rankOf(0, 4 * stepLimits.stepBinsPerProcessMin, (step) => (step === 11 ? 500 : 100), { budget: new StepBudget(0) });
    expect(coarse.steps.binSteps).toBe(4);
    const overview = overviewOf([coarse], { fromStep: 5, toStep: 9, bins: 100 });
    expect(overview).toMatchObject({ fromStep: 4, toStep: 11, steps: 8, bins: [4, 8] });
    expect(overview.ranks[0]).toMatchObject({ steps: 8, mean: 150, peaks: [100, 500] });
  });

  it('has the times of each life of a rank that was started again', () => {
    const first = rankOf(0, 4, () => 100);
    const second = { ...rankOf(0, 3, () => 100, { ahead: -50_000 }), index: 7 };
    const { times, ranks } = overviewOf([first, second, rankOf(1, 4, () => 100)], { bins: 4 });
    expect(times).toEqual([0, 1000, 2000, 3000]);
    expect(ranks.map(({ rank, process, starts }) => [rank, process, starts])).toEqual([
      [0, 1, [0, 1000, 2000, 3000]],
      [0, 7, [50_000, 51_000, 52_000, null]],
      [1, 2, undefined],
    ]);
  });

  it('numbers the lives of a rank as the timeline does: those without steps, and before the steps that are shown, count', () => {
    const { ranks } = overviewOf(
      [
        { ...rankOf(0, 0, () => 100), index: 9 },
        { ...rankOf(0, 4, () => 100), index: 12 },
        { ...rankOf(0, 8, () => 100, { from: 4 }), index: 15 },
        { ...rankOf(1, 8, () => 100), process: traceProcess({ index: 3, rank: 1, incarnation: besideOf('a-0') }), index: 3 },
        { ...rankOf(1, 8, () => 100), index: 4 },
      ],
      { fromStep: 5, toStep: 7, bins: 4 },
    );
    expect(ranks.map(({ rank, process, life }) => [rank, process, life])).toEqual([
      [0, 15, 3],
      [1, 3, undefined],
      [1, 4, undefined],
    ]);
  });

  it('counts a step that a later life repeats again, as the analysis does, unless it shows a range of steps', () => {
    const lives = (from: number) => [rankOf(0, 4, () => 100), { ...rankOf(0, from + 3, () => 200, { from }), index: 7 }];
    const stepTimes = { p50: 150, p90: 200, p95: 200, p99: 200 };
    const about = { findings: [], waiting: [], waitingWhole: 0, stepTime: 0, since: undefined, beginning: undefined };
    const shown = (from: number, range = {}) => {
      const { steps, percentiles } = overviewOf(lives(from), { bins: 8, ...range }, { ...about, stepTimes, stepCount: 7 });
      return [steps, percentiles?.p50];
    };
    expect(shown(2)).toEqual([7, 150]);
    expect(shown(2, { fromStep: 0, toStep: 9 })).toEqual([5, 200]);
    // A life that goes on where the one before ended repeats nothing.
    expect(shown(4)).toEqual([7, 100]);
  });

  it('compares ranks that are still being read over the steps that all have reported', () => {
    // Rank 2 of this 900-step job was once reported slow: it is read up to step 70, where steps were long for all.
    const lengthOf = (step: number): number => (step < 200 ? 171 : 100);
    const rank = (number: number, steps: number): StepsOfProcess => ({ ...rankOf(number, steps, lengthOf), isBeingRead: steps < 900 });
    const overview = overviewOf([rank(0, 900), rank(1, 300), rank(2, 71), rank(3, 900)], { bins: 1000 });
    expect(overview).toMatchObject({ allRead: false, fromStep: 0, toStep: 70, steps: 71 });
    expect(overview.ranks.map(({ steps, mean, p50 }) => [steps, mean, p50])).toEqual([0, 1, 2, 3].map(() => [71, 171, 171]));
    expect(overview.ranks.map(({ phases }) => phases)).toEqual([0, 1, 2, 3].map(() => overview.ranks[0]?.phases));
    expect(overview.fastest).toEqual(overview.slowest);
    expect(overviewOf([rank(0, 900), { ...rank(2, 71), isBeingRead: false }], { bins: 1000 })).toMatchObject({
      allRead: true,
      toStep: 899,
    });
  });

  it('compares nothing while a rank has reported no step, nor a bin that a rank has reported in part', () => {
    const silent = { ...rankOf(1, 0, () => 1), isBeingRead: true };
    expect(overviewOf([rankOf(0, 900, () => 1), silent], { bins: 10 })).toMatchObject({ allRead: false, steps: 0, bins: [], ranks: [] });
    const coarse = rankOf(0, 4 * stepLimits.stepBinsPerProcessMin, () => 1, { budget: new StepBudget(0) });
    const behind = { ...rankOf(1, 71, () => 1), isBeingRead: true };
    const overview = overviewOf([coarse, behind], { bins: 1000 });
    expect([coarse.steps.binSteps, overview.toStep, overview.ranks.map(({ steps }) => steps)]).toEqual([4, 67, [68, 68]]);
  });

  it('says nothing of no steps', () => {
    const nothing = { steps: 0, bins: [], times: [], slowest: [], percentiles: null, ranks: [], phases: [] };
    expect(overviewOf([], { bins: 10 })).toMatchObject(nothing);
    expect(overviewOf([rankOf(0, 0, () => 1)], { bins: 10 })).toMatchObject(nothing);
    expect(overviewOf([rankOf(0, 3, () => 1)], { fromStep: 7, bins: 10 })).toMatchObject(nothing);
  });

  it('keeps the times of bins in a gap of the steps in order', () => {
    const history = new StepHistory();
    for (const step of [0, 1, 8, 9]) history.add(step, step * 10, 1, undefined);
    const overview = overviewOf([{ process: traceProcess(), index: 1, clock: { toTrace: (own) => own }, steps: history }], { bins: 5 });
    expect(overview.times).toEqual([0, 80, 80, 80, 80]);
    expect(overview.slowest).toEqual([1, null, null, null, 1]);
    expect(overview.steps).toBe(4);
  });

  it('reports fewer bins of many ranks', () => {
    const ranks = Array.from({ length: 300 }, (_, rank) => rankOf(rank, 2000, () => 1));
    const overview = overviewOf(ranks, { bins: 2048 });
    expect(overview.bins.length * 300).toBeLessThanOrEqual(stepLimits.overviewCellsMax);
    expect(overview.bins.length).toBeGreaterThan(600);
  });

  it('survives steps of any number', () => {
    const history = new StepHistory();
    for (const step of [0, 1, Number.MAX_SAFE_INTEGER]) history.add(step, 0, 1, undefined);
    const overview = overviewOf([{ process: traceProcess(), index: 1, clock: { toTrace: (own) => own }, steps: history }], { bins: 100 });
    expect(overview.bins.length).toBeLessThanOrEqual(100);
    expect(overview.ranks[0]).toMatchObject({ steps: 3, mean: 1 });
  });
});

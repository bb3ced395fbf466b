import { describe, expect, test } from 'vitest';
import { noisySteps, stepNoises } from '../simulate/noisy-steps.ts';
import { Random } from '../simulate/random.ts';
import { comparedPieces, failsCheck, levelOf } from '../testing/judge-steps.ts';
import { stationaryRuns } from '../testing/step-times.ts';
import { compareSeries, levelOfSeries, type SeriesLevel, seriesStepsMin } from './compare-series.ts';

/** Steps of `level` with normal noise; `edit` changes single ones. */
function series(
  seed: number,
  steps: number,
  level: number,
  noise = 0.01,
  edit: (step: number, time: number) => number = (_, time) => time,
) {
  const random = new Random(seed);
  return Array.from({ length: steps }, (_, step) => edit(step, level * random.normal(1, noise)));
}

describe('levelOfSeries', () => {
  test('is the median, whatever checkpoints do', () => {
    const checkpoints = series(1, 400, 200, 0.01, (step, time) => (step % 50 === 7 ? 20 * time : time));
    expect(levelOf(checkpoints).level / 200).toBeCloseTo(1, 2);
    expect(levelOf(checkpoints).noise).toBeLessThan(0.02);
  });

  test('leaves warm-up out', () => {
    const times = series(2, 400, 200, 0.005, (step, time) => (step < 40 ? time * (3 - step / 20) : time));
    const { level, warmUp } = levelOf(times);
    expect(level / 200).toBeCloseTo(1, 2);
    expect(warmUp).toBeGreaterThanOrEqual(32);
    expect(warmUp).toBeLessThanOrEqual(64);
  });

  test('needs some steps, and takes only times', () => {
    expect(levelOfSeries(series(3, seriesStepsMin - 1, 200))).toBeUndefined();
    expect(levelOfSeries([...series(3, seriesStepsMin - 1, 200), 0, Number.NaN, Number.POSITIVE_INFINITY])).toBeUndefined();
    expect(levelOf(series(3, seriesStepsMin, 200)).steps).toBe(seriesStepsMin);
    expect(levelOf(series(3, 20, 200))).toMatchObject({ steps: 20, blocks: 16 });
    expect(levelOf(series(3, 64, 200))).toMatchObject({ steps: 64, blocks: 16 });
  });
});

describe('compareSeries', () => {
  test.each([50, 400, 3000])('finds +5 %% in %d steps, and says how sure it is', (steps) => {
    const { change, confidence, isCertain } = compareSeries(levelOf(series(4, steps, 200)), levelOf(series(5, steps, 210)));
    expect(change).toBeCloseTo(0.05, 1);
    expect(confidence.low).toBeLessThan(change);
    expect(confidence.high).toBeGreaterThan(change);
    expect(isCertain).toBe(true);
  });

  test('is hardly ever certain of a difference that is not there', () => {
    let certain = 0;
    for (let seed = 0; seed < 200; seed++) {
      const noise = 0.005 * (1 + (seed % 8));
      const of = (offset: number): SeriesLevel => levelOf(series(1000 + 2 * seed + offset, 64 + 8 * (seed % 40), 200, noise));
      if (compareSeries(of(0), of(1)).isCertain) certain++;
    }
    expect(certain).toBeLessThanOrEqual(2);
  });

  test('its interval holds the truth nineteen times of twenty, or nearly', () => {
    let held = 0;
    for (let seed = 0; seed < 200; seed++) {
      const { confidence } = compareSeries(
        levelOf(series(5000 + 2 * seed, 800, 200, 0.03)),
        levelOf(series(5001 + 2 * seed, 800, 206, 0.03)),
      );
      if (confidence.low <= 0.03 && confidence.high >= 0.03) held++;
    }
    expect(held).toBeGreaterThanOrEqual(180);
  });
});

test.each([200, 400, 800, 4000])('a run of %d steps that becomes slower within is slower for certain', (steps) => {
  for (const share of [0.2, 0.3, 0.5]) {
    for (let seed = 0; seed < 20; seed++) {
      const slower = series(700 + seed, steps, 200, 0.02, (step, time) => (step >= share * steps ? 1.3 * time : time));
      const compared = compareSeries(levelOf(series(600 + seed, steps, 200, 0.02)), levelOf(slower));
      expect(failsCheck(compared), `from ${share} on, seed ${seed}`).toBe(true);
    }
  }
});

test.each([1.6, 2, 3])(
  'every second step of a job that takes %d times as long is the same in it, however many of them a run has',
  (factor) => {
    for (const steps of [21, 51, 101, 400, 1001]) {
      for (let seed = 0; seed < 10; seed++) {
        const of = (offset: number, first: number, more = 0): SeriesLevel =>
          levelOf(series(800 + 2 * seed + offset, steps + more, 200, 0.01, (step, time) => (step % 2 === first ? factor * time : time)));
        for (const other of [of(1, 1), of(1, 0, 1), of(1, 1, 1)]) {
          const compared = compareSeries(of(0, 0), other);
          expect([steps, seed, compared.isCertain || compared.ofAll?.isCertain === true]).toEqual([steps, seed, false]);
          expect(Math.abs(compared.ofAll?.change ?? 0)).toBeLessThan(0.15);
        }
      }
    }
  },
);

describe('the few steps that a schedule records', () => {
  test.each([3, 5, 10])('%d steps are certain of a large difference, and say below what they are not', (steps) => {
    const [before, after] = [levelOf(series(20, steps, 200)), levelOf(series(21, steps, 400))];
    const { change, isCertain, provable } = compareSeries(before, after);
    expect(change).toBeCloseTo(1, 1);
    expect(isCertain).toBe(true);
    expect(provable).toBeGreaterThan(0.01);
    expect(provable).toBeLessThan(0.8);
  });

  test('more steps prove less of a difference', () => {
    const provable = (steps: number): number => {
      const of = Array.from({ length: 40 }, (_, seed) => {
        return compareSeries(levelOf(series(100 + seed, steps, 200)), levelOf(series(300 + seed, steps, 200))).provable;
      });
      return of.sort((a, b) => a - b)[20] as number;
    };
    const [three, five, ten, many] = [3, 5, 10, 120].map(provable) as [number, number, number, number];
    expect(three).toBeGreaterThan(five);
    expect(five).toBeGreaterThan(ten);
    expect(ten).toBeGreaterThan(many);
  });

  test('a change is certain from `provable` on, and not below it', () => {
    const before = levelOf(series(30, 5, 200));
    const shape = levelOf(series(31, 5, 200));
    const { provable } = compareSeries(before, shape);
    const by = (share: number) => compareSeries(before, { ...shape, level: before.level * (1 + share) });
    expect(by(1.001 * provable).isCertain).toBe(true);
    expect(by(0.999 * provable).isCertain).toBe(false);
  });

  test('is hardly ever certain of a difference that is not there, and its interval holds the truth nineteen times of twenty', () => {
    let [certain, held] = [0, 0];
    for (let seed = 0; seed < 400; seed++) {
      const of = (offset: number): SeriesLevel => levelOf(series(9000 + 2 * seed + offset, 3 + (seed % 8), 200, 0.02));
      const { isCertain, confidence } = compareSeries(of(0), of(1));
      if (isCertain) certain++;
      if (confidence.low <= 0 && confidence.high >= 0) held++;
    }
    expect(certain).toBeLessThanOrEqual(1);
    expect(held).toBeGreaterThanOrEqual(370);
  });

  test('of ten steps or more, one spike falls out', () => {
    const spike = (step: number, time: number): number => (step === 6 ? 4 * time : time);
    const [calm, spiked] = [levelOf(series(40, 12, 200)), levelOf(series(40, 12, 200, 0.01, spike))];
    expect(Math.abs(spiked.level / calm.level - 1)).toBeLessThan(0.005);
    expect(spiked.noise).toBeLessThan(2 * calm.noise);
  });

  test('leaves out a first step that took longer than all others', () => {
    expect(levelOf([900, 200, 201, 199, 202])).toMatchObject({ warmUp: 1, steps: 4 });
    expect(levelOf([200, 201, 199, 202, 200])).toMatchObject({ warmUp: 0, steps: 5 });
  });
});

describe('two stretches of one run whose noise is alike from step to step (100 seeds)', () => {
  // The level of telegraph noise jumps: such a difference is real.
  const kinds = stepNoises.filter((kind) => kind !== 'telegraph');

  test.each([6, 10, 24, 64, 160, 640])('of %i steps: hardly ever differ for certain, and nearly never by much', (steps) => {
    let [certain, failed] = [0, 0];
    for (const kind of kinds)
      for (let seed = 0; seed < 100; seed++) {
        const times = [...noisySteps({ kind, seed: 40_000 + seed, steps: 10 + 3 * steps })].slice(10);
        const compared = compareSeries(levelOf(times.slice(0, steps)), levelOf(times.slice(2 * steps)));
        if (compared.isCertain) certain++;
        if (failsCheck(compared)) failed++;
      }
    // Taken for independent, up to 12 % of them differed for certain.
    expect(certain / (100 * kinds.length)).toBeLessThan(0.03);
    expect(failed / (100 * kinds.length)).toBeLessThan(0.005);
  });

  test('what is saved without an error counts as before', () => {
    const [before, after] = [levelOf(series(50, 80, 200)), levelOf(series(51, 80, 200))];
    const older = ({ error: _, degrees: __, ...level }: SeriesLevel): SeriesLevel => level;
    const { provable } = compareSeries(older(before), older(after));
    expect(provable).toBeGreaterThan(0.003);
    expect(provable).toBeLessThan(compareSeries(before, after).provable);
  });
});

describe('runs at one level, in whole ms, with steps that take three times as long (24 seeds)', () => {
  const runs = stationaryRuns(6000);

  test('fail no check of +3 % as they are', () => {
    const all = runs.flatMap(({ rows }) => comparedPieces(rows, 1));
    expect(all.filter(failsCheck)).toEqual([]);
    // And not because the intervals are wide.
    expect(Math.max(...all.map(({ confidence }) => confidence.high - confidence.low))).toBeLessThan(0.06);
  });

  test('nearly all fail it when their steps are 5 % longer, and when 10 %', () => {
    const [slower, slow] = [1.05, 1.1].map((factor) => runs.flatMap(({ rows }) => comparedPieces(rows, factor)));
    expect(slower).toHaveLength(24 * 5);
    expect(slower?.filter(failsCheck).length).toBeGreaterThanOrEqual(114);
    expect(slow?.filter(failsCheck).length).toBeGreaterThanOrEqual(119);
  });
});

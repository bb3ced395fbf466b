import { describe, expect, test } from 'vitest';
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
    expect(levelOf(series(3, seriesStepsMin, 200)).blocks).toBe(4);
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

describe('runs at one level, in whole ms, with steps that take three times as long (24 seeds)', () => {
  const runs = stationaryRuns(6000);

  test('fail no check of +3 % as they are', () => {
    const all = runs.flatMap(({ rows }) => comparedPieces(rows, 1));
    expect(all.filter(failsCheck)).toEqual([]);
    // Not by being certain of nothing.
    expect(Math.max(...all.map(({ confidence }) => confidence.high - confidence.low))).toBeLessThan(0.06);
  });

  test('all fail it when their steps are 5 % longer', () => {
    const all = runs.flatMap(({ rows }) => comparedPieces(rows, 1.05));
    expect(all).toHaveLength(24 * 5);
    expect(all.filter(failsCheck)).toHaveLength(all.length);
  });
});

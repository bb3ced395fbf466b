import { describe, expect, it } from 'vitest';
import { type BaselineDetector, Bocpd, Cusum, Perfherder } from './detect-baselines.ts';

/** Noise that is the same everywhere: a sine of many periods, of deviation 1. */
const noise = (step: number): number => Math.SQRT2 * Math.sin(step * step * 0.7 + step);
const series = (steps: number, onset: number, factor: number): number[] =>
  Array.from({ length: steps }, (_, step) => (200 + noise(step)) * (step >= onset ? factor : 1));

function alarms(detector: BaselineDetector, times: readonly number[]): { step: number; change: number }[] {
  return times.flatMap((time, step) => {
    const change = detector.push(time);
    return change === undefined ? [] : [{ step, change }];
  });
}

describe('CUSUM', () => {
  it('adds up what passes the slack, until the threshold', () => {
    const cusum = new Cusum({ first: 2, slack: 0.5, threshold: 5 });
    // Mean 200, deviation 1; then each step adds 2 − 0.5: 1.5, 3, 4.5, 6.
    expect(alarms(cusum, [199, 201, 202, 202, 202, 202])).toEqual([{ step: 5, change: expect.closeTo(0.01, 9) }]);
  });

  it('begins anew after an alarm, and never goes below nothing', () => {
    const cusum = new Cusum({ first: 2, slack: 0.5, threshold: 5 });
    const low = new Array<number>(50).fill(150);
    expect(alarms(cusum, [199, 201, ...low, 202, 202, 202, 202, 202, 202, 202])).toMatchObject([{ step: 55 }]);
  });
});

describe('BOCPD', () => {
  it('finds a change of 10 % soon, with its size', () => {
    const found = alarms(new Bocpd(), series(600, 400, 1.1)).filter(({ change }) => Math.abs(change) >= 0.02);
    expect(found.length).toBe(1);
    expect(found[0]?.step).toBeGreaterThanOrEqual(400);
    expect(found[0]?.step).toBeLessThan(425);
    expect(found[0]?.change).toBeCloseTo(0.1, 1);
  });

  it('finds nothing of size in what stays', () => {
    expect(alarms(new Bocpd(), series(2000, 2000, 1)).filter(({ change }) => Math.abs(change) >= 0.02)).toEqual([]);
  });

  it('holds more than its longest run length without a collapse', () => {
    const wide = alarms(new Bocpd({ runLengthMax: 1000 }), series(900, 900, 1));
    expect(alarms(new Bocpd({ runLengthMax: 100 }), series(900, 900, 1)).length).toBeLessThanOrEqual(wide.length + 1);
  });

  it('survives a value that nothing explains', () => {
    const times = series(300, 300, 1);
    times[150] = 1e150;
    const found = alarms(new Bocpd(), times);
    expect(found.every(({ change }) => !Number.isNaN(change))).toBe(true);
  });
});

describe("Perfherder's rule", () => {
  it('finds a change of 3 % at its peak, 12 to 14 steps later', () => {
    const found = alarms(new Perfherder(), series(300, 150, 1.03));
    expect(found.length).toBe(1);
    expect(found[0]?.step).toBeGreaterThanOrEqual(150 + 11);
    expect(found[0]?.step).toBeLessThanOrEqual(150 + 14);
    expect(found[0]?.change).toBeCloseTo(0.03, 2);
  });

  it('ignores changes below 2 %, and noise', () => {
    expect(alarms(new Perfherder(), series(300, 150, 1.015))).toEqual([]);
    expect(alarms(new Perfherder(), series(2000, 2000, 1))).toEqual([]);
  });

  it('knows series that do not vary', () => {
    expect(alarms(new Perfherder(), new Array<number>(100).fill(5))).toEqual([]);
  });
});

import { describe, expect, it } from 'vitest';
import { median } from './figure.ts';
import { generateGrowing, generateMarked, generateStationary, generateWithEvaluations } from './generated-steps.ts';

/** Medians of 100 steps, one after the other. */
const levels = (times: Float64Array): number[] =>
  Array.from({ length: Math.floor(times.length / 100) }, (_, at) => median([...times.subarray(100 * at, 100 * at + 100)]));

describe('generateStationary', () => {
  const runs = generateStationary();

  it('stays within 1.2 % of its level, the size from which a slow-down counts as real', () => {
    for (const { times } of runs) {
      const middle = median([...times]);
      for (const level of levels(times)) expect(Math.abs(level / middle - 1)).toBeLessThan(0.012 + 0.5 / middle);
    }
  });

  it('spikes as training does: 0.5 to 4 % of the steps are longer by 5 % or more', () => {
    for (const { times } of runs) {
      const middle = median([...times]);
      const share = times.filter((time) => time > 1.05 * middle).length / times.length;
      expect(share).toBeGreaterThan(0.005);
      expect(share).toBeLessThan(0.04);
    }
  });

  it('is the same every time', () => {
    const text = (series: typeof runs) => series.map(({ times }) => times.join()).join('\n');
    expect(text(generateStationary()) === text(runs)).toBe(true);
  });
});

describe('generateWithEvaluations', () => {
  it('marks what takes a third of a training step', () => {
    for (const { times, isEval } of generateWithEvaluations()) {
      const training = median([...times.filter((_, at) => !isEval[at])]);
      const evaluations = median([...times.filter((_, at) => isEval[at])]);
      expect(evaluations / training).toBeGreaterThan(0.25);
      expect(evaluations / training).toBeLessThan(0.6);
    }
  });
});

describe('generateGrowing', () => {
  it.each([0.1, 0.025])('grows by %d, or a little less or more', (growth) => {
    for (const { times } of generateGrowing(growth)) {
      const all = levels(times.map((time) => time));
      const whole = (all.at(-1) as number) / (all[0] as number) - 1;
      expect(whole).toBeGreaterThan(0.6 * growth - 0.012);
      expect(whole).toBeLessThan(1.4 * growth + 0.012);
    }
  });
});

describe('generateMarked', () => {
  it('changes its level where it says so, and nowhere else', () => {
    const series = generateMarked();
    expect(series.some(({ annotations }) => annotations.truth?.length === 0)).toBe(true);
    expect(series.some(({ annotations }) => (annotations.truth?.length ?? 0) >= 3)).toBe(true);
    for (const { values, annotations } of series) {
      for (const at of annotations.truth ?? []) {
        const change = Math.abs(median(values.slice(at, at + 20)) - median(values.slice(at - 20, at)));
        expect(change).toBeGreaterThan(0.5);
      }
    }
  });
});

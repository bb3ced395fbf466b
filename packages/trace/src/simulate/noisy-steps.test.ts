import { expect, it } from 'vitest';
import { noisySteps, stepNoises } from './noisy-steps.ts';

const middleOf = (values: readonly number[]): number => [...values].sort((a, b) => a - b)[values.length >> 1] as number;

it.each(stepNoises)('%s noise is the same for the same seed, positive, and its level stays within 6 %% (5 seeds)', (kind) => {
  for (const seed of [1, 2, 3, 4, 5]) {
    const times = noisySteps({ kind, seed, steps: 4000 });
    expect(noisySteps({ kind, seed, steps: 4000 })).toEqual(times);
    expect(times.every((time) => time > 0 && Number.isFinite(time))).toBe(true);
    const levels = Array.from({ length: 7 }, (_, at) => times.subarray(10 + 500 * at, 510 + 500 * at)).map((part) => {
      const most = 1.5 * middleOf([...part]);
      return part.reduce((sum, time) => sum + Math.min(time, most), 0) / part.length;
    });
    expect(Math.max(...levels) / Math.min(...levels), `seed ${seed}`).toBeLessThan(1.06);
  }
});

it('plants what it is asked to', () => {
  const plain = noisySteps({ kind: 'plain', seed: 3, steps: 1000 });
  const slower = noisySteps({ kind: 'plain', seed: 3, steps: 1000, factorAt: (step) => (step < 500 ? 1 : 1.5) });
  expect(slower.subarray(0, 500)).toEqual(plain.subarray(0, 500));
  expect(middleOf([...slower.subarray(500)]) / middleOf([...plain.subarray(500)])).toBeCloseTo(1.5, 2);
});

import { describe, expect, it } from 'vitest';
import { Random } from '../simulate/random.ts';
import { DetectorPlan } from './detector-options.ts';
import { breakNoise, coarsenNoise, learnNoise, noiseLength } from './series-noise.ts';

const blocks = 80;
const floor = 0.0001;

/** Levels of one series, its last `blocks` of them kept, all learnt. */
function learnt(levels: readonly number[]): Float32Array {
  const values = new Float32Array(blocks + noiseLength).fill(Number.NaN);
  for (const level of levels) learnNoise(values, blocks, level);
  values.set(levels.slice(-blocks));
  return values;
}

/** Reported deviation between 4 levels and the 32 before them, over the true one: many series of `next`. */
function reported(next: (random: Random, before: number) => number, length = 400): number {
  const { noise } = new DetectorPlan();
  let [measured, true_] = [0, 0];
  for (let seed = 0; seed < 200; seed++) {
    const random = new Random(seed, 'levels');
    const levels: number[] = [0];
    while (levels.length < length + 36) levels.push(next(random, levels.at(-1) as number));
    noise.measure(learnt(levels.slice(0, length)), blocks, blocks, 4, 32, floor);
    measured += noise.variance;
    const mean = (from: number, to: number): number => levels.slice(from, to).reduce((sum, level) => sum + level, 0) / (to - from);
    true_ += (mean(length + 32, length + 36) - mean(length, length + 32)) ** 2;
  }
  return Math.sqrt(measured / true_);
}

describe('noise learnt from a series (200 seeds)', () => {
  it('is that of plain noise, or a little more', () => {
    const ratio = reported((random) => random.normal(0, 0.003));
    expect(ratio).toBeGreaterThan(0.85);
    expect(ratio).toBeLessThan(1.35);
  });

  it.each([0.5, 0.8])('is that of noise whose neighbours are alike as far as %d', (correlation) => {
    const ratio = reported((random, before) => correlation * before + random.normal(0, 0.003));
    expect(ratio).toBeGreaterThan(0.7);
    expect(ratio).toBeLessThan(1.3);
  });

  it('grows with the length of a stretch only where noise is alike', () => {
    const { noise } = new DetectorPlan();
    const of = (correlation: number): number => {
      const random = new Random(5, 'levels');
      let level = 0;
      const values = learnt(
        Array.from({ length: 1000 }, () => {
          level = correlation * level + random.normal(0, 0.003);
          return level;
        }),
      );
      noise.measure(values, blocks, blocks, 2, 32, floor);
      const short = noise.variance;
      noise.measure(values, blocks, blocks, 32, 32, floor);
      return noise.variance / short;
    };
    expect(of(0)).toBeLessThan(0.3);
    expect(of(0.95)).toBeGreaterThan(0.7);
  });

  it('is that beside a rise which is told, however steep (40 blocks)', () => {
    const { noise } = new DetectorPlan();
    const random = new Random(3, 'levels');
    const flat = Array.from({ length: 40 }, () => random.normal(0, 0.003));
    const measured = (rise: number, told: number): number => {
      noise.measure(learnt(flat.map((level, at) => level + rise * at)).fill(Number.NaN, blocks), 40, blocks, 16, 16, floor, told);
      return noise.variance;
    };
    const plain = measured(0, 0);
    for (const rise of [0.001, 0.01, 0.1]) {
      expect(Math.abs(measured(rise, rise) / plain - 1)).toBeLessThan(0.001);
      expect(measured(rise, 0)).toBeGreaterThan(2 * plain);
    }
  });

  it('rests on more the longer it is known, is never below the floor, and not taken from one fault alone', () => {
    const { noise } = new DetectorPlan();
    noise.measure(learnt(new Array(40).fill(5)), 40, blocks, 4, 32, floor);
    const young = noise.degrees;
    expect(noise.blockVariance).toBeCloseTo(floor ** 2, 12);
    const long = learnt(new Array(2000).fill(5));
    noise.measure(long, blocks, blocks, 4, 32, floor);
    expect(noise.degrees).toBeGreaterThan(young);
    const before = noise.variance;
    learnNoise(long, blocks, 9);
    learnNoise(long, blocks, 5);
    noise.measure(long, blocks, blocks, 4, 32, floor);
    expect(Math.sqrt(noise.variance - before)).toBeLessThan(0.01);
  });

  it('forgets what waits for a neighbour after a change, and moves up a scale where blocks are doubled', () => {
    const values = learnt(Array.from({ length: 200 }, (_, at) => (at % 2) / 1000));
    const variances = [...values.subarray(blocks + 7)];
    breakNoise(values, blocks);
    expect([...values.subarray(blocks + 1, blocks + 7)].every(Number.isNaN)).toBe(true);
    coarsenNoise(values, blocks);
    expect([...values.subarray(blocks + 7, blocks + 12)]).toEqual(variances.slice(1));
    expect(values[blocks]).toBe(100);
  });
});

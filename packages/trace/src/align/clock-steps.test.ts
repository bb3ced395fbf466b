import { describe, expect, it } from 'vitest';
import { Random } from '../simulate/random.ts';
import { clockSteps } from './clock-steps.ts';
import type { HostPing } from './host-pings.ts';

const second = 1e9;

/** Eight pings a second over `seconds` of a clock that drifts by 10 ppm and steps by `by` at `stepAt` (ns of host time). */
function pingsOf(seed: number, seconds: number, by = 0, stepAt = (seconds / 2) * second): HostPing[] {
  const random = new Random(seed);
  const queue = (): number => -60e3 * Math.log(1 - random.uniform()) + (random.uniform() < 0.01 ? 4e6 * random.uniform() : 0);
  return Array.from({ length: seconds * 8 }, (_, index) => {
    const at = Math.round((index / 8) * second);
    const offset = 10e-6 * at + (at >= stepAt ? by : 0);
    const [there, back] = [90e3 + queue(), 90e3 + queue()];
    return { at, upper: offset + there, lower: offset - back, way: there + back };
  });
}

const stepsOf = (pings: readonly HostPing[]): number[] => clockSteps(pings).map((index) => (pings[index] as HostPing).at / second);

describe('clockSteps', () => {
  it.each([1, 2, 3, 4, 5, 6, 7, 8])('finds none where there is none (seed %i)', (seed) => {
    expect(stepsOf(pingsOf(seed, 300))).toEqual([]);
  });

  it.each([-300e3, -100e3, -50e3, 50e3, 100e3, 300e3, 5e6, -2e9])('finds one of %d ns where it is', (by) => {
    for (const seed of [11, 12, 13]) {
      const steps = stepsOf(pingsOf(seed, 200, by));
      expect(steps.length).toBe(1);
      expect(Math.abs((steps[0] as number) - 100)).toBeLessThanOrEqual(4);
    }
  });

  it('finds two, each in its place', () => {
    const pings = pingsOf(21, 300, 200e3, 100 * second).map((ping) => {
      const later = ping.at >= 200 * second ? -400e3 : 0;
      return { ...ping, upper: ping.upper + later, lower: ping.lower + later };
    });
    const steps = stepsOf(pings);
    expect(steps.map((at) => Math.round(at / 10))).toEqual([10, 20]);
  });

  it('finds a large one with hardly any history, by proof', () => {
    expect(stepsOf(pingsOf(31, 4, 3e6, second))).toEqual([1]);
  });

  it('gives up on a clock that steps all the time', () => {
    const pings = pingsOf(41, 300).map((ping) => {
      const shift = 50e6 * (Math.floor(ping.at / (2 * second)) % 2);
      return { ...ping, upper: ping.upper + shift, lower: ping.lower + shift };
    });
    expect(clockSteps(pings)).toEqual([]);
  });
});

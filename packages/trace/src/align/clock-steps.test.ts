import { describe, expect, it } from 'vitest';
import { Random } from '../simulate/random.ts';
import { clockBreaks } from './clock-steps.ts';
import type { HostPing } from './host-pings.ts';

const second = 1e9;

/** Extra delay in a stretch of host time (s), ns, as on a host that is starved of CPU: its ranks send late, or receive late, or both. */
interface Starved {
  readonly from: number;
  readonly until: number;
  readonly there: (random: Random) => number;
  readonly back: (random: Random) => number;
}

/** Eight pings a second over `seconds` of a clock that drifts by 10 ppm and steps by `by` at `stepAt` (ns of host time). */
function pingsOf(seed: number, seconds: number, by = 0, stepAt = (seconds / 2) * second, starved?: Starved): HostPing[] {
  const random = new Random(seed);
  const late = starved && new Random(seed + 1000);
  const queue = (): number => -60e3 * Math.log(1 - random.uniform()) + (random.uniform() < 0.01 ? 4e6 * random.uniform() : 0);
  return Array.from({ length: seconds * 8 }, (_, index) => {
    const at = Math.round((index / 8) * second);
    const offset = 10e-6 * at + (at >= stepAt ? by : 0);
    let [there, back] = [90e3 + queue(), 90e3 + queue()];
    if (starved && late && at >= starved.from * second && at < starved.until * second) {
      there += starved.there(late);
      back += starved.back(late);
    }
    return { at, upperAt: at - (there + back) / 2, upper: offset + there, lowerAt: at + (there + back) / 2, lower: offset - back };
  });
}

const stepsOf = (pings: readonly HostPing[]): number[] => clockBreaks(pings).steps.map((index) => (pings[index] as HostPing).at / second);

describe('clockBreaks', () => {
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

  const none = (): number => 0;
  const slice = (random: Random): number => 3e6 + random.exponential(2e6);
  const queued = (random: Random): number => 200e3 + random.exponential(100e3);
  it.each([
    { what: 'hears late for 10 s', from: 60, until: 70, there: none, back: slice },
    { what: 'sends late for 10 s', from: 60, until: 70, there: slice, back: none },
    { what: 'hears late for 40 s, longer than the line remembers', from: 60, until: 130, there: none, back: slice },
    { what: 'hears late at its start', from: 0, until: 20, there: none, back: slice },
    { what: 'sends late at its end', from: 180, until: 200, there: slice, back: none },
    { what: 'hears late by a queue that is never empty', from: 80, until: 120, there: none, back: queued },
    { what: 'sends late by a queue that is never empty', from: 30, until: 200, there: queued, back: none },
    { what: 'hears late, by the same each time', from: 90, until: 200, there: none, back: () => 500e3 },
  ])('finds none where a host $what', ({ what: _, ...starved }) => {
    for (let seed = 51; seed < 71; seed++) expect(stepsOf(pingsOf(seed, 200, 0, 100 * second, starved)), `seed ${seed}`).toEqual([]);
  });

  it('finds none where a host first sends late and then hears late, by as much', () => {
    for (let seed = 81; seed < 101; seed++) {
      const [sends, hears] = [
        { from: 40, until: 110, there: () => 2e6, back: none },
        { from: 110, until: 200, there: none, back: () => 2e6 },
      ];
      const [first, then] = [sends, hears].map((starved) => pingsOf(seed, 200, 0, 0, starved)) as [HostPing[], HostPing[]];
      expect(
        stepsOf(first.map((ping, index) => (ping.at < hears.from * second ? ping : (then[index] as HostPing)))),
        `seed ${seed}`,
      ).toEqual([]);
    }
  });

  it('finds one on a host that was starved before', () => {
    const starved = { from: 20, until: 40, there: none, back: slice };
    for (const seed of [71, 72, 73]) {
      const steps = stepsOf(pingsOf(seed, 300, 300e3, 200 * second, starved));
      expect(steps.map((at) => Math.round(at / 10))).toEqual([20]);
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
    expect(clockBreaks(pings)).toEqual({ steps: [], strays: [] });
  });
});

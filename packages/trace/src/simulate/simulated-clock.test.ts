import { describe, expect, it } from 'vitest';
import { Random } from './random.ts';
import { type OffsetKnots, SimulatedClock } from './simulated-clock.ts';

const second = 1e9;

/** The offset for a reading, as a reader of truth.json finds it. */
function offsetAt({ at, offset }: OffsetKnots, reading: number): number {
  let right = at.findIndex((knot) => knot > reading);
  if (right === -1) right = at.length - 1;
  const [from, to] = [at[right - 1] as number, at[right] as number];
  return (offset[right - 1] as number) + ((reading - from) / (to - from)) * ((offset[right] as number) - (offset[right - 1] as number));
}

describe('simulated clock', () => {
  it('starts within 5 ms, drifts as its host does, and wanders by well under a ppm (seeds 0 to 63)', () => {
    const rates = Array.from({ length: 64 }, (_, host) => {
      const clock = new SimulatedClock(new Random(0, 'clock', host), 10);
      expect(Math.abs(clock.read(0))).toBeLessThan(5e6);
      const rate = (from: number): number => (clock.read(from + 60 * second) - clock.read(from)) / (60 * second) - 1;
      expect(Math.abs(rate(0) - rate(540 * second))).toBeLessThan(2.5e-6);
      return rate(0);
    });
    const deviation = Math.sqrt(rates.reduce((sum, rate) => sum + rate * rate, 0) / rates.length);
    expect(deviation * 1e6).toBeGreaterThan(7);
    expect(deviation * 1e6).toBeLessThan(13);
  });

  it('gives true time back from its readings, by function and by knots, to a nanosecond', () => {
    const clock = new SimulatedClock(new Random(3, 'clock', 0), 30);
    const knots = clock.knots(600 * second);
    expect(knots.at).toHaveLength(601);
    const random = new Random(3, 'times');
    for (let draw = 0; draw < 1000; draw++) {
      const time = random.uniform(0, 600 * second);
      const reading = clock.read(time);
      expect(Math.abs(clock.trueTime(reading) - time)).toBeLessThan(1);
      expect(Math.abs(reading + offsetAt(knots, reading) - time)).toBeLessThan(1);
    }
  });

  it('does not depend on the order in which it is asked', () => {
    const [one, other] = [new SimulatedClock(new Random(4, 'c'), 10), new SimulatedClock(new Random(4, 'c'), 10)];
    expect(one.read(500 * second)).toBe([one.read(3 * second), other.read(2 * second), other.read(500 * second)][2]);
  });

  it('jumps at its steps, and knows the time before, at and after them', () => {
    const steps = [
      { at: 20.5 * second, jump: -50_000 },
      { at: 10 * second, jump: 300_000 },
    ];
    const [stepped, plain] = [new SimulatedClock(new Random(5, 'c'), 10, steps), new SimulatedClock(new Random(5, 'c'), 10)];
    const jumped = (time: number): number => Math.round(stepped.read(time) - plain.read(time));
    expect([9.999, 10, 20.499, 20.5, 30].map((time) => jumped(time * second))).toEqual([0, 300_000, 300_000, 250_000, 250_000]);
    for (const time of [5, 9.9999999, 10.0000001, 15, 20.49, 20.5, 20.6, 40].map((seconds) => seconds * second)) {
      expect(Math.abs(stepped.trueTime(stepped.read(time)) - time)).toBeLessThan(1);
    }
    // A reading left out by a step is the step's time; one shown twice is the later.
    expect(stepped.trueTime(stepped.read(10 * second) - 100_000)).toBeCloseTo(10 * second, 0);
    expect(stepped.trueTime(stepped.read(20.5 * second) + 10_000)).toBeGreaterThan(20.5 * second);
    const knots = stepped.knots(30 * second);
    expect(knots.at).toHaveLength(31 - 1 + 2 + 2);
    const jump = knots.at.findIndex((at, index) => Math.round((knots.at[index + 1] as number) - at) === 300_000);
    expect((knots.offset[jump] as number) - (knots.offset[jump + 1] as number)).toBeCloseTo(300_000, 0);
  });
});

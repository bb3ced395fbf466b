// A host's monotonic clock against true time: its reading at each time, and the offset from a reading back to true time.
//
//   reading(t) = t + lead(t)        lead: linear between the knots of a 1 s grid, plus every step of the clock up to t
//
//   rate = N(0, drift) + a random walk of 0.01 ppm per √s + 0.5 ppm · sin over 150 to 600 s (the room's temperature)
//
// A step of the clock takes no time.
// Times are ns: true time since the start, readings since the host's epoch (at true time 0 a reading is 0 ± 5 ms).

import { nanosPerSecond } from '@ranktrace/protocol';
import type { Random } from './random.ts';

/** At true time `at` ns the clock jumps ahead by `jump` ns, or back. */
export interface ClockStep {
  readonly at: number;
  readonly jump: number;
}

/** Offsets to add to the readings `at` (ns after the host's epoch) for true time, linear in between; ns. A step is two knots. */
export interface OffsetKnots {
  readonly at: readonly number[];
  readonly offset: readonly number[];
}

const walk = 0.01e-6;
const warmth = 0.5e-6;
const leadNsMax = 5e6;

export class SimulatedClock {
  /** In order of time. */
  readonly steps: readonly ClockStep[];
  readonly #random: Random;
  readonly #rate: number;
  readonly #period: number;
  readonly #phase: number;
  /** Lead at each whole second, without steps; grows on demand. */
  readonly #leads: number[];
  #walked = 0;

  /** `driftPpm`: deviation of the rate among hosts. */
  constructor(random: Random, driftPpm: number, steps: readonly ClockStep[] = []) {
    this.steps = [...steps].sort((a, b) => a.at - b.at);
    this.#random = random;
    this.#rate = random.normal(0, driftPpm * 1e-6);
    this.#period = random.uniform(150, 600);
    this.#phase = random.uniform(0, 2 * Math.PI);
    this.#leads = [random.uniform(-leadNsMax, leadNsMax)];
  }

  /** The clock's reading at true time `time` ≥ 0: ns after the host's epoch, not rounded. */
  read(time: number): number {
    let reading = time + this.#lead(time);
    for (const step of this.steps) if (step.at <= time) reading += step.jump;
    return reading;
  }

  /**
   * True time of a reading. For one that the clock showed twice (it was stepped back) the later time; for one that it left out (stepped
   * ahead) the time of the step.
   */
  trueTime(reading: number): number {
    let jumps = this.steps.reduce((sum, step) => sum + step.jump, 0);
    let until = Number.POSITIVE_INFINITY;
    for (let index = this.steps.length - 1; index >= 0; index--) {
      const step = this.steps[index] as ClockStep;
      const time = this.#withoutSteps(reading - jumps);
      if (time >= step.at) return Math.min(time, until);
      jumps -= step.jump;
      until = step.at;
    }
    return Math.min(this.#withoutSteps(reading - jumps), until);
  }

  /** Knots from true time 0 to the first whole second at or after `until`. */
  knots(until: number): OffsetKnots {
    const at: number[] = [];
    const offset: number[] = [];
    const add = (time: number, reading: number): void => {
      at.push(Math.round(reading));
      offset.push(time - reading);
    };
    let next = 0;
    for (let second = 0; second <= Math.ceil(until / nanosPerSecond); second++) {
      const time = second * nanosPerSecond;
      for (let step = this.steps[next]; step !== undefined && step.at <= time; step = this.steps[++next]) {
        const after = this.read(step.at);
        add(step.at, after - step.jump);
        add(step.at, after);
      }
      if (this.steps[next - 1]?.at !== time) add(time, this.read(time));
    }
    return { at, offset };
  }

  #lead(time: number): number {
    const seconds = time / nanosPerSecond;
    const second = Math.max(0, Math.floor(seconds));
    if (second + 1 >= this.#leads.length) this.#extend(second + 1);
    const from = this.#leads[second] as number;
    return from + (seconds - second) * ((this.#leads[second + 1] as number) - from);
  }

  #extend(to: number): void {
    for (let second = this.#leads.length - 1; second < to; second++) {
      this.#walked += this.#random.normal(0, walk);
      const rate = this.#rate + this.#walked + warmth * Math.sin((2 * Math.PI * second) / this.#period + this.#phase);
      this.#leads.push((this.#leads[second] as number) + rate * nanosPerSecond);
    }
  }

  /** A lead changes far less than time itself, so each iteration leaves a ten-thousandth of the error. */
  #withoutSteps(reading: number): number {
    let time = Math.max(0, reading);
    for (let round = 0; round < 6; round++) time = Math.max(0, reading - this.#lead(time));
    return time;
  }
}

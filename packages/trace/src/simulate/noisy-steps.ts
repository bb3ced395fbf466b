// Step times of runs at one level with unusual noise: a detector of slower steps must stay silent about them.
//
//   time = level × change × exp(noise) × longer, rounded to whole ticks
//
// `noise` is one process of the kinds below, and `longer` the factor of that kind's occasional much longer steps. Every number of a series is
// drawn from its seed within its kind's range, so that a hundred seeds are a hundred different jobs. Wandering levels stay below 3 %: a larger
// wander is a change of the job, not noise.

import { Random } from './random.ts';

/** The kind of a series' noise. */
export type StepNoise = keyof typeof processes;

export interface NoisyStepsOptions {
  readonly kind: StepNoise;
  readonly seed: number;
  readonly steps: number;
  /** Planted factor at a step; default 1. */
  readonly factorAt?: (step: number) => number;
}

/** Step times in ms: the same for the same options. The first steps are slow, as with compilation. */
export function noisySteps({ kind, seed, steps, factorAt = () => 1 }: NoisyStepsOptions): Float64Array {
  const random = new Random(seed, 'noisy steps', kind);
  const { next, level = random.lognormal(300, 0.7), tick = random.chance(0.5) ? 1 : 0.001 } = processes[kind](random);
  const base = Math.max(60, level);
  return Float64Array.from({ length: steps }, (_, step) => {
    const start = step === 0 ? random.uniform(1.2, 20) : step < 3 ? random.uniform(0.95, 1.1) : 1;
    return Math.max(1, Math.round((base * start * factorAt(step) * next(step)) / tick)) * tick;
  });
}

/** One process: the factor of each step in turn, and, for some kinds, the level and the unit that times are rounded to, ms. */
interface Process {
  readonly next: (step: number) => number;
  readonly level?: number;
  readonly tick?: number;
}

const processes = {
  /** Normal noise of 0.2 to 2 %, independent for each step. */
  plain: (random: Random): Process => {
    const noise = random.uniform(0.002, 0.02);
    return { next: () => random.lognormal(1, noise) };
  },
  /** Whole milliseconds, 0.2 to 1.2 %, a step in fifty longer: like training logs. */
  wholeMs: (random: Random): Process => {
    const noise = random.uniform(0.002, 0.012);
    const spikes = random.uniform(0.002, 0.025);
    return { next: () => random.lognormal(1, noise) * spike(random, spikes), level: 60 * 25 ** random.uniform(), tick: 1 };
  },
  /** Tens of milliseconds, on noise of 0.1 to 2 %: rounding is a large part of a small change. */
  tensOfMs: (random: Random): Process => {
    const noise = random.uniform(0.001, 0.02);
    return { next: () => random.lognormal(1, noise) * spike(random, 0.01), level: 150 * 20 ** random.uniform(), tick: 10 };
  },
  /** A clock as coarse as 0.7 to 2 % of a step, on a level that moves far less: one tick more or less is no change. */
  coarseClock: (random: Random): Process => {
    const slow = autoregression(random, Math.exp(-1 / random.uniform(50, 2000)), random.uniform(0.001, 0.005));
    const noise = random.uniform(0.0005, 0.008);
    const level = random.lognormal(300, 0.7);
    return { next: () => Math.exp(slow()) * random.lognormal(1, noise), level, tick: level * random.uniform(0.007, 0.02) };
  },
  /** Neighbours correlated by 0.3, 0.6, 0.8, 0.9 or 0.95; 0.4 to 4 % in all. */
  autoregressive: (random: Random): Process => {
    const of = autoregression(random, [0.3, 0.6, 0.8, 0.9, 0.95][random.whole(5)] as number, random.lognormal(0.012, 0.6));
    return { next: () => Math.exp(of()) };
  },
  /** Means over 2 to 40 steps of noise: correlated within that range, and not beyond. */
  movingMean: (random: Random): Process => {
    const width = 2 + random.whole(39);
    const noise = random.lognormal(0.012, 0.6) * Math.sqrt(width);
    const last = Array.from({ length: width }, () => random.normal(0, noise));
    let sum = last.reduce((all, one) => all + one, 0);
    return {
      next: (step) => {
        const fresh = random.normal(0, noise);
        sum += fresh - (last[step % width] as number);
        last[step % width] = fresh;
        return Math.exp(sum / width);
      },
    };
  },
  /** Now and then 2 to 20 steps in a row that take up to 2.2 × as long. */
  bursts: (random: Random): Process => {
    const noise = random.uniform(0.002, 0.01);
    const rate = 1 / random.uniform(150, 800);
    const length = random.uniform(2, 7);
    let until = 0;
    return {
      next: (step) => {
        if (random.chance(rate)) until = step + Math.min(24, 1 + Math.ceil(random.exponential(length)));
        return random.lognormal(1, noise) * (step < until ? random.uniform(1.05, 2.2) : 1);
      },
      tick: 1,
    };
  },
  /** Many outliers: Student's t of 2 to 3 degrees, and up to 12 % of the steps longer. */
  heavyTails: (random: Random): Process => {
    const noise = random.uniform(0.002, 0.012);
    const degrees = 2 + random.whole(2);
    const spikes = random.uniform(0, 0.12);
    return { next: () => Math.exp(noise * student(random, degrees)) * spike(random, spikes) };
  },
  /** The level wanders by 0.2 to 0.7 % over 300 to 3000 steps and comes back. */
  drifts: (random: Random): Process => {
    const slow = autoregression(random, Math.exp(-1 / random.uniform(300, 3000)), random.uniform(0.002, 0.007));
    const noise = random.uniform(0.002, 0.01);
    return { next: () => Math.exp(slow()) * random.lognormal(1, noise) };
  },
  /** Every 3rd to 200th step takes 1.05 to 4 × as long; in some series several in a row, like an evaluation. */
  periodic: (random: Random): Process => {
    const noise = random.uniform(0.002, 0.01);
    const period = random.chance(0.4) ? 3 + random.whole(14) : 20 + random.whole(181);
    const inARow = period < 20 ? 1 : 1 + random.whole(random.chance(0.3) ? Math.min(12, period >> 2) : 1);
    const longer = random.uniform(1.05, 4);
    return { next: (step) => random.lognormal(1, noise) * (step % period < inARow ? longer : 1) };
  },
  /** A shared cluster: noise of 1 to 2.5 %, partly correlated, and a level that jumps by 1.5 to 2.4 % every 30 to 400 steps. */
  sharedCluster: (random: Random): Process => {
    const own = autoregression(random, random.uniform(0, 0.6), random.uniform(0.01, 0.025));
    const jumps = levels(random, random.uniform(0.015, 0.024), random.uniform(30, 400));
    return { next: () => Math.exp(own() + jumps()) * spike(random, 0.01) };
  },
  /** 1/f noise: the same amount in every octave, from 2 to 4096 steps; 0.6 to 2 % in all. */
  pink: (random: Random): Process => {
    const octaves = 12;
    const share = random.uniform(0.006, 0.02) / Math.sqrt(octaves);
    const parts = Array.from({ length: octaves }, (_, octave) => autoregression(random, Math.exp(-1 / 2 ** octave), share));
    return { next: () => Math.exp(parts.reduce((sum, part) => sum + part(), 0)) };
  },
  /** Two levels, 1 to 2.4 % apart, each for 20 to 2000 steps, on little noise. */
  telegraph: (random: Random): Process => {
    const jumps = levels(random, random.uniform(0.01, 0.024), 20 * 100 ** random.uniform());
    const noise = random.uniform(0.002, 0.008);
    return { next: () => Math.exp(jumps()) * random.lognormal(1, noise), tick: 1 };
  },
  /** Noise with a deviation that itself changes, between 0.3 and 3 %, over 50 to 1000 steps. */
  restless: (random: Random): Process => {
    const volatility = autoregression(random, Math.exp(-1 / random.uniform(50, 1000)), 0.6);
    const own = autoregression(random, random.uniform(0, 0.5), 1);
    return { next: () => Math.exp(0.01 * Math.exp(volatility()) * own()) };
  },
  /** A wave of 0.5 to 1.2 % either way, 200 to 5000 steps long, on correlated noise. */
  waves: (random: Random): Process => {
    const [length, height] = [200 * 25 ** random.uniform(), random.uniform(0.005, 0.012)];
    const own = autoregression(random, random.uniform(0, 0.8), random.uniform(0.002, 0.01));
    return { next: (step) => Math.exp(height * Math.sin((2 * Math.PI * step) / length) + own()) };
  },
  /** About every other step takes another path that is 3 to 15 % longer, by chance; its frequency changes slowly. */
  twoWays: (random: Random): Process => {
    const usual = random.uniform(0.15, 0.85);
    const longer = random.uniform(0.03, 0.15);
    const slow = autoregression(random, Math.exp(-1 / random.uniform(100, 2000)), random.uniform(0.001, 0.005) / longer);
    const noise = random.uniform(0.002, 0.008);
    return { next: () => random.lognormal(1, noise) * (random.chance(usual + slow()) ? 1 + longer : 1) };
  },
  /** Batches of varying length: skewed, 1 to 8 %, in whole milliseconds. */
  skewed: (random: Random): Process => {
    const [spread, shape] = [random.uniform(0.01, 0.08), 1 + random.whole(4)];
    return {
      next: () => {
        let sum = 0;
        for (let at = 0; at < shape; at++) sum += random.exponential(1);
        return 1 + (spread * sum) / Math.sqrt(shape);
      },
      tick: 1,
    };
  },
  /** A slow rise by 0.5 to 1.4 %, reset every 100 to 2000 steps: caches that fill, memory that is freed. */
  sawTooth: (random: Random): Process => {
    const [length, height] = [100 * 20 ** random.uniform(), random.uniform(0.005, 0.014)];
    const own = autoregression(random, random.uniform(0, 0.5), random.uniform(0.002, 0.01));
    return { next: (step) => Math.exp((height * (step % length)) / length + own()) };
  },
  /** Two of the other kinds at once, in whole milliseconds. */
  mixtures: (random: Random): Process => {
    const kinds = ['autoregressive', 'movingMean', 'bursts', 'heavyTails', 'drifts', 'periodic', 'pink'] as const;
    const first = random.whole(kinds.length);
    const second = (first + 1 + random.whole(kinds.length - 1)) % kinds.length;
    const [a, b] = [first, second].map((at) => processes[kinds[at] as (typeof kinds)[number]](random)) as [Process, Process];
    return { next: (step) => a.next(step) * b.next(step), tick: 1 };
  },
};

/** All kinds. */
export const stepNoises: readonly StepNoise[] = Object.keys(processes) as StepNoise[];

/** First-order autoregression of this deviation. */
function autoregression(random: Random, correlation: number, deviation: number): () => number {
  const fresh = deviation * Math.sqrt(1 - correlation ** 2);
  let value = random.normal(0, deviation);
  return () => {
    value = correlation * value + random.normal(0, fresh);
    return value;
  };
}

/** 0 or `apart`, each for `steps` steps on average. */
function levels(random: Random, apart: number, steps: number): () => number {
  let isHigh = random.chance(0.5);
  return () => {
    if (random.chance(1 / steps)) isHigh = !isHigh;
    return isHigh ? apart : 0;
  };
}

const spike = (random: Random, share: number): number => (random.chance(share) ? random.uniform(1.3, 3) : 1);

/** Student's t, cut at 50. */
function student(random: Random, degrees: number): number {
  let squares = 0;
  for (let at = 0; at < degrees; at++) squares += random.normal(0, 1) ** 2;
  return Math.max(-50, Math.min(50, random.normal(0, 1) / Math.sqrt(squares / degrees)));
}

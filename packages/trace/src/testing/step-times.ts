// Step times of simulated training runs, modelled on published ones: whole milliseconds, a few steps in a hundred two or three times as
// long, a slow start, a wander below the noise, and any planted change.

import { Random } from '../simulate/random.ts';

export interface StepRow {
  readonly step: number;
  readonly ms: number;
  /** `eval` for a row other than a training step. */
  readonly tag: 'eval' | undefined;
}

export interface StepTimesOptions {
  readonly seed: number;
  readonly steps: number;
  /** Level, ms. */
  readonly ms: number;
  /** Deviation of the logarithm; default 0.01. */
  readonly noise?: number;
  /** Share of steps that take 1.3 to 3 times as long; default 0.015. */
  readonly spikes?: number;
  /** Decimals of a ms in the output; default 0. */
  readonly decimals?: number;
  /** Odd steps take this share longer; default 0. */
  readonly alternating?: number;
  /** Number of training rows between evaluations of ten rows, each a quarter as long; default: no evaluations. */
  readonly evaluateEvery?: number;
  /** Planted factor on the level at a step; default 1. */
  readonly factorAt?: (step: number) => number;
}

/** The rows of one run: the same for the same options. */
export function stepTimes(options: StepTimesOptions): StepRow[] {
  const { seed, steps, ms, noise = 0.01, spikes = 0.015, decimals = 0, alternating = 0, evaluateEvery, factorAt = () => 1 } = options;
  const random = new Random(seed, 'step times');
  const rows: StepRow[] = [];
  const unit = 10 ** decimals;
  const add = (time: number, tag: StepRow['tag']): void => {
    rows.push({ step: rows.length, ms: Math.round(time * unit) / unit, tag });
  };
  let wander = 0;
  for (let step = 0; step < steps; step++) {
    // Pulled back to 0, within a tenth of the noise.
    wander = 0.99 * wander + random.normal(0, 0.014 * noise);
    const start = step === 0 ? random.uniform(1.2, 20) : step < 3 ? random.uniform(0.95, 1.1) : 1;
    const spike = random.chance(spikes) ? random.uniform(1.3, 3) : 1;
    const parity = step % 2 === 1 ? 1 + alternating : 1;
    add(ms * start * spike * parity * factorAt(step) * (1 + wander) * random.lognormal(1, noise), undefined);
    if (evaluateEvery === undefined || step % evaluateEvery !== evaluateEvery - 1) continue;
    for (let row = 0; row < 10; row++) add(0.23 * ms * random.lognormal(1, noise), 'eval');
  }
  return rows;
}

/** Runs at one level: 24, from 60 to 1700 ms, quiet and noisy. */
export const stationaryRuns = (steps: number): { readonly seed: number; readonly rows: readonly StepRow[] }[] =>
  Array.from({ length: 24 }, (_, seed) => {
    const random = new Random(seed, 'run');
    const about = { ms: random.lognormal(200, 0.8), noise: random.uniform(0.002, 0.015), spikes: random.uniform(0.002, 0.025) };
    const parity = seed % 4 === 3 ? 0.04 : 0;
    return { seed, rows: stepTimes({ seed, steps, ...about, ms: Math.max(60, about.ms), alternating: parity }) };
  });

/** Runs with planned growth of work: 2 to 3 %, or 9 to 16 %, throughout or over a part. */
export const growingRuns = (steps: number): { readonly seed: number; readonly rows: readonly StepRow[] }[] =>
  Array.from({ length: 24 }, (_, seed) => {
    const random = new Random(seed, 'growth');
    const growth = seed % 2 === 0 ? random.uniform(0.02, 0.03) : random.uniform(0.09, 0.16);
    const [from, until] = seed % 3 === 0 ? [0, steps] : [0.3 * steps, 0.9 * steps];
    // Evenly, or in stairs with the highest ones first.
    const [stairs, power] = seed % 4 < 2 ? [1000, 1] : [12, 0.6];
    const factorAt = (step: number): number => {
      const share = Math.min(1, Math.max(0, (step - from) / (until - from)));
      return 1 + growth * (Math.floor(share * stairs) / stairs) ** power;
    };
    return {
      seed,
      rows: stepTimes({ seed, steps, ms: random.uniform(60, 250), noise: 0.008, alternating: seed % 5 === 4 ? 0.03 : 0, factorAt }),
    };
  });

/** Runs with evaluations: 12, of about 300 rows, of 0.9 to 11 s to the µs. */
export const evaluatedRuns = (): { readonly seed: number; readonly rows: readonly StepRow[] }[] =>
  Array.from({ length: 12 }, (_, seed) => {
    const random = new Random(seed, 'evaluated');
    const about = { ms: random.uniform(900, 11_000), noise: random.uniform(0.0005, 0.009), spikes: 0.004, decimals: 3 };
    return { seed, rows: stepTimes({ seed, steps: 230, ...about, evaluateEvery: 35 }) };
  });

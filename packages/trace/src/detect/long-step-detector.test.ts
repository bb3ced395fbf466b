import { describe, expect, test } from 'vitest';
import { noisySteps, stepNoises } from '../simulate/noisy-steps.ts';
import { Random } from '../simulate/random.ts';
import { detectLimits } from './detect-limits.ts';
import { LongStepDetector, type LongStepsOver, type LongStepsRise } from './long-step-detector.ts';

type More = (step: number, random: Random) => number;

/** Findings in steps of 60 ms, within 1 %, with more where `more` says so, ms; a rise once, as it was told first. */
const found = (seed: number, steps: number, more: More): (LongStepsRise | LongStepsOver)[] =>
  told(seed, steps, more).filter(({ kind }) => kind !== 'long_steps_refined');

function told(seed: number, steps: number, more: More): (LongStepsRise | LongStepsOver)[] {
  const random = new Random(seed, 'steps');
  const detector = new LongStepDetector(0.05);
  return Array.from({ length: steps }, (_, step) => detector.add(step, 60 * random.uniform(0.99, 1.01) + more(step, random))).filter(
    (finding) => finding !== undefined,
  );
}

const every =
  (period: number, ms: number): More =>
  (step) =>
    step % period === period - 1 ? ms : 0;
const byChance =
  (share: number, ms: number): More =>
  (_, random) =>
    random.uniform() < share ? ms : 0;
const from =
  (onset: number, more: More, before: More = () => 0): More =>
  (step, random) =>
    (step < onset ? before : more)(step, random);

test.each([2, 3, 4, 8])(
  'every second step of a job that takes %i times as long is none that takes more, though epochs begin with either',
  (factor) => {
    for (const epoch of [101, 301, 1001]) {
      for (let seed = 0; seed < 5; seed++) {
        expect(
          found(seed, 4000, (step) => ((step % epoch) % 2 === 1 ? 60 * (factor - 1) : 0)),
          `epochs of ${epoch} steps, seed ${seed}`,
        ).toEqual([]);
      }
    }
  },
);

describe('long steps that take more of the time', () => {
  const rises: readonly [string, More, { readonly by: number; readonly change: number }][] = [
    ['checkpoints that take 3 s and not 0.1 s', from(1500, every(50, 3000), every(50, 100)), { by: 1900, change: 0.94 }],
    ['each eighth step five times as long', from(1500, every(8, 240)), { by: 1700, change: 0.5 }],
    ['stalls of one step in eight, ten times as long', from(1500, byChance(0.125, 540)), { by: 2400, change: 1.1 }],
    ['stalls that come more often', from(1500, byChance(0.15, 240), byChance(0.05, 240)), { by: 4000, change: 0.33 }],
  ];
  test.each(rises)('%s are found (20 seeds)', (_, more, { by, change }) => {
    for (let seed = 0; seed < 20; seed++) {
      const [rise, ...others] = found(seed, 4000, more);
      expect(rise, `seed ${seed}`).toMatchObject({ kind: 'long_steps' });
      expect(others, `seed ${seed}`).toEqual([]);
      const { step, onsetStep, ...about } = rise as LongStepsRise;
      expect(step, `seed ${seed}`).toBeGreaterThan(1500);
      expect(step, `seed ${seed}`).toBeLessThan(by);
      expect(Math.abs(onsetStep - 1500), `seed ${seed}`).toBeLessThan(300);
      expect(about.change, `seed ${seed}`).toBeGreaterThan(0.5 * change);
      // The first steps that are clear are those that happen to show it most.
      expect(about.change, `seed ${seed}`).toBeLessThan(2 * change);
      expect(about.confidence.low, `seed ${seed}`).toBeGreaterThan(0);
      expect(about.after / about.before - 1).toBeCloseTo(about.change, 6);
    }
  });

  test('are told again where the first numbers were those of chance (40 seeds)', () => {
    const stalls = from(1500, byChance(0.1, 240));
    const [first, last]: number[][] = [[], []];
    let again = 0;
    for (let seed = 0; seed < 40; seed++) {
      const [rise, ...more] = told(seed, 12_000, stalls) as LongStepsRise[];
      expect(more.every(({ kind, onsetStep }) => kind === 'long_steps_refined' && onsetStep === rise?.onsetStep)).toBe(true);
      expect(more.length, `seed ${seed}`).toBeLessThanOrEqual(3);
      first?.push(Math.abs((rise?.change ?? 0) / 0.4 - 1));
      last?.push(Math.abs(((more.at(-1) ?? rise)?.change ?? 0) / 0.4 - 1));
      again += more.length;
    }
    const worst = (errors: number[] = []): number => errors.toSorted((a, b) => b - a)[3] as number;
    expect(worst(first)).toBeGreaterThan(0.3);
    expect(worst(last)).toBeLessThan(0.22);
    expect(again).toBeGreaterThan(5);
  });

  test('are over when they stop, and found again when they come back (20 seeds)', () => {
    const stalls = byChance(0.125, 540);
    for (let seed = 0; seed < 20; seed++) {
      const kinds = found(seed, 8000, (step, random) => ((step >= 1500 && step < 3000) || step >= 5500 ? stalls(step, random) : 0)).map(
        ({ kind, step }) => [kind, step < 3000 ? 'first' : step < 5500 ? 'between' : 'second'],
      );
      expect(kinds, `seed ${seed}`).toEqual([
        ['long_steps', 'first'],
        ['long_steps_over', 'between'],
        ['long_steps', 'second'],
      ]);
    }
  });

  const alike: readonly [string, () => More][] = [
    ['none', () => () => 0],
    ['regular ones', () => every(500, 3000)],
    ['the first one late', () => every(2000, 20_000)],
    ['two kinds of regular ones', () => (step) => (step % 1000 === 999 ? 6000 : step % 250 === 249 ? 900 : 0)],
    ['some by chance', () => byChance(0.025, 120)],
    ['rare ones by chance, of twenty steps', () => byChance(0.0067, 1200)],
    ['some in the first steps of an epoch', () => (step) => (step % 500 < 5 ? 1200 : 0)],
    ['a level that doubles', () => (step) => (step >= 3000 ? 60 : 0)],
    ['a level that is higher for a while, again and again', () => (step) => (Math.floor(step / 700) % 3 === 2 ? 40 : 0)],
  ];
  test.each(alike)('are not found among %s (20 seeds of 10 000 steps)', (_, more) => {
    for (let seed = 0; seed < 20; seed++) expect(found(seed, 10_000, more()), `seed ${seed}`).toEqual([]);
  });

  test.each(stepNoises)('are not found in %s noise (10 seeds of 5000 steps)', (kind) => {
    for (let seed = 0; seed < 10; seed++) {
      const detector = new LongStepDetector(0.05);
      const findings = [...noisySteps({ kind, seed, steps: 5000 })].flatMap((time, step) => detector.add(step, time) ?? []);
      expect(findings, `seed ${seed}`).toEqual([]);
    }
  });
});

describe('the detector', () => {
  test('continues from its state unchanged, in bounded memory', () => {
    const random = new Random(1, 'steps');
    const stalls = from(1500, byChance(0.125, 540));
    const times = Array.from({ length: 5000 }, (_, step) => 60 * random.uniform(0.99, 1.01) + stalls(step, random));
    const whole = new LongStepDetector(0.05);
    let parted = new LongStepDetector(0.05);
    for (const [step, time] of times.entries()) {
      if (step % 37 === 0) {
        const state = parted.state();
        expect(state.tallies.length).toBeLessThanOrEqual(detectLimits.detectTalliesMax);
        parted = new LongStepDetector(0.05);
        parted.restore(JSON.parse(JSON.stringify(state)));
      }
      expect(parted.add(step, time)).toEqual(whole.add(step, time));
    }
  });

  test('begins anew with a run that is restarted, and takes no times that are none', () => {
    const detector = new LongStepDetector(0.05);
    for (let run = 0; run < 3; run++) {
      for (let step = 0; step < 900; step++) {
        expect(detector.add(step, step % 50 === 49 ? 60 + 600 * run : 60)).toBeUndefined();
        for (const odd of [0, -1, Number.NaN, Number.POSITIVE_INFINITY]) expect(detector.add(step, odd)).toBeUndefined();
      }
    }
  });
});

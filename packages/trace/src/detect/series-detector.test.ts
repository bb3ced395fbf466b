import { describe, expect, it } from 'vitest';
import { TraceError } from '../model/errors.ts';
import { Random } from '../simulate/random.ts';
import { slowDownsOf, slowedFrom } from '../testing/judge-steps.ts';
import { evaluatedRuns, growingRuns, type StepRow, stationaryRuns } from '../testing/step-times.ts';
import { contextKeyOf } from './context-key.ts';
import { DetectorPlan, shortSeriesOptions } from './detector-options.ts';
import type { DetectorState } from './detector-state.ts';
import { SeriesDetector } from './series-detector.ts';
import type { StepTimeFinding } from './step-time-finding.ts';

const plan = new DetectorPlan();
const seeds = [1, 2, 3, 4, 5, 6, 7, 8];

/** Step times: a level, noise, and now and then a step three times as long. */
function noisy(seed: number, steps: number, factorAt: (step: number) => number = () => 1, noise = 0.01): number[] {
  const random = new Random(seed, 'steps', noise);
  return Array.from({ length: steps }, (_, step) => {
    const warm = step < 3 ? 20 : 1;
    const spike = random.chance(0.02) ? 3 : 1;
    return 200 * warm * spike * factorAt(step) * random.lognormal(1, noise);
  });
}

function found(times: readonly number[], detector = new SeriesDetector(plan)): StepTimeFinding[] {
  return times.flatMap((time, step) => detector.add(step, time) ?? []);
}

const kinds = (findings: readonly StepTimeFinding[]): string[] => findings.map(({ kind }) => kind);
const from =
  (onset: number, factor: number, until = Number.POSITIVE_INFINITY) =>
  (step: number): number =>
    step >= onset && step < until ? factor : 1;

describe.each(seeds)('a series of steps (seed %i)', (seed) => {
  it.each([0.002, 0.01, 0.03, 0.1])('says nothing of stationary noise of %d', (noise) => {
    expect(found(noisy(seed, 20_000, undefined, noise))).toEqual([]);
  });

  it('finds +3 % within 40 steps, says how much and since when, and says it once', () => {
    const onset = 900 + seed;
    const detector = new SeriesDetector(plan);
    const findings = found(noisy(seed, 4000, from(onset, 1.03)), detector);
    expect(kinds(findings)).toEqual(['regression']);
    const [regression] = findings as [Extract<StepTimeFinding, { kind: 'regression' }>];
    expect(regression.step - onset).toBeLessThan(40);
    expect(Math.abs(regression.onsetStep - onset)).toBeLessThanOrEqual(8);
    expect(Math.abs(regression.change - 0.03)).toBeLessThan(0.012);
    expect(regression.after / regression.before - 1).toBeCloseTo(regression.change, 9);
    expect(regression.confidence.low).toBeLessThan(regression.change);
    expect(regression.confidence.high).toBeGreaterThan(regression.change);
    expect(regression.isFurther).toBe(false);
    expect(detector.incident).toMatchObject({ kind: 'regression', onsetStep: regression.onsetStep });
    expect(detector.incident?.before).toBeCloseTo(regression.before, 2);
    expect(detector.incident?.slowest).toBeCloseTo(regression.after, 2);
  });

  it.each([24, 40, 64, 100])('reports %i slow steps in every 800 as long as they are new, and then no more', (length) => {
    for (const factor of [1.1, 2]) {
      const evaluations = (step: number): number => (step >= 1500 && step % 800 < length ? factor : 1);
      for (const noise of [0.005, 0.01, 0.03, 0.1]) {
        const reported = found(noisy(seed, 10_000, evaluations, noise)).filter(({ kind }) => kind !== 'went_away');
        expect(reported.length, `× ${factor}, noise ${noise}`).toBeLessThanOrEqual(noise < 0.03 ? 1 : 4);
      }
    }
  });

  it('finds a slow-down that lasts, whatever came and went before', () => {
    for (const [length, within] of [
      [100, 160],
      [500, 40],
    ] as const) {
      const twice = (step: number): number => ((step >= 1500 && step < 1500 + length) || step >= 3003 ? 1.5 : 1);
      const last = found(noisy(seed, 4000, twice)).at(-1);
      expect(last).toMatchObject({ kind: 'regression' });
      expect((last?.step ?? Number.NaN) - 3003, `after ${length}`).toBeLessThan(within);
    }
  });

  it('says when it went away', () => {
    const detector = new SeriesDetector(plan);
    const findings = found(noisy(seed, 4000, from(1000, 1.06, 2000)), detector);
    expect(kinds(findings)).toEqual(['regression', 'went_away']);
    const [regression, away] = findings as [
      Extract<StepTimeFinding, { kind: 'regression' }>,
      Extract<StepTimeFinding, { kind: 'went_away' }>,
    ];
    expect(away.openedStep).toBe(regression.onsetStep);
    expect(Math.abs(away.onsetStep - 2000)).toBeLessThanOrEqual(16);
    expect(away.step).toBeLessThan(2000 + 20 * 8);
    expect(away.change).toBeLessThan(-0.04);
    expect(detector.incident).toBeUndefined();
  });

  it('reports a further regression, and no small step on top', () => {
    const levels = (step: number): number => (step < 1000 ? 1 : step < 2000 ? 1.05 : step < 3000 ? 1.07 : 1.15);
    const findings = found(noisy(seed, 4000, levels)) as Extract<StepTimeFinding, { kind: 'regression' }>[];
    expect(findings.map(({ kind, isFurther }) => [kind, isFurther])).toEqual([
      ['regression', false],
      ['regression', true],
    ]);
    expect(findings[1]?.onsetStep).toBeGreaterThan(2980);
  });

  it('does not report again what only comes and goes while it is open', () => {
    const flapping = (step: number): number => (step < 1000 ? 1 : Math.floor(step / 300) % 2 === 0 ? 1.12 : 1.06);
    expect(kinds(found(noisy(seed, 6000, flapping))).filter((kind) => kind !== 'improvement').length).toBeLessThanOrEqual(2);
  });

  it('notes an improvement, and takes it for the new baseline once it has held', () => {
    const findings = found(noisy(seed, 4000, (step) => (step < 1000 ? 1 : step < 2500 ? 0.9 : 1)));
    expect(kinds(findings)).toEqual(['improvement', 'regression']);
    expect(findings[0]).toMatchObject({ change: expect.closeTo(-0.1, 1) });
    // It returns from a short speed-up: no regression.
    expect(kinds(found(noisy(seed, 4000, from(1000, 0.9, 1090))))).not.toContain('regression');
  });

  it('reports a slow rise once, as a drift, at 5 %', () => {
    const findings = found(noisy(seed, 12_000, (step) => 1 + 0.2 * Math.min(1, Math.max(0, (step - 1000) / 10_000))));
    expect(kinds(findings)).toEqual(['drift']);
    const [drift] = findings as [Extract<StepTimeFinding, { kind: 'drift' }>];
    // 5 % are reached at step 3500.
    expect(Math.abs(drift.step - 3550)).toBeLessThan(350);
    expect(Math.abs(drift.change - 0.05)).toBeLessThan(0.01);
  });

  it('takes a new context for a new baseline', () => {
    const detector = new SeriesDetector(plan);
    const [small, large] = [contextKeyOf('batch=256'), contextKeyOf('batch=512')];
    const times = noisy(seed, 4000, (step) => (step < 1000 ? 1 : step < 2000 ? 1.8 : step < 3000 ? 1.8 * 1.05 : 1));
    const findings = times.flatMap((time, step) => detector.add(step, time, step < 1000 || step >= 3000 ? small : large) ?? []);
    expect(kinds(findings)).toEqual(['regression', 'rebaselined']);
    expect(findings[0]).toMatchObject({ onsetStep: expect.closeTo(2000, -1.3) });
    expect(findings[1]).toMatchObject({ step: 3000, reason: 'context' });
  });

  it('drops steps with a tag and steps without a time', () => {
    const detector = new SeriesDetector(plan);
    const findings: StepTimeFinding[] = [];
    let step = 0;
    for (const [index, time] of noisy(seed, 3000).entries()) {
      if (index % 3 === 0) findings.push(...[detector.add(step++, time * 5, 0, 'eval')].filter((one) => one !== undefined));
      if (index % 10 === 0) for (const bad of [0, -1, Number.NaN, Number.POSITIVE_INFINITY]) detector.add(step++, bad);
      const finding = detector.add(step++, time);
      if (finding !== undefined) findings.push(finding);
    }
    expect(findings).toEqual([]);
    expect(detector.latest).toBeCloseTo(200, -1);
  });

  it('restored from its state anywhere goes on as if nothing had been', () => {
    const levels = (step: number): number =>
      step < 700 ? 1 : step < 1400 ? 1.05 : step < 2200 ? 1.15 : step < 3000 ? 1 : 1 + (step - 3000) / 20_000;
    // With noise above 1 % blocks are doubled on the way.
    for (const noise of [0.01, 0.06]) {
      const times = noisy(seed, 5000, levels, noise);
      const whole = new SeriesDetector(plan);
      let restarted = new SeriesDetector(plan);
      const random = new Random(seed, 'restart');
      for (const [step, time] of times.entries()) {
        const number = step + (step > 2500 ? 40 : 0);
        const want = whole.add(number, time, 1);
        expect(restarted.add(number, time, 1)).toEqual(want);
        if (random.chance(0.02)) restarted = SeriesDetector.restore(JSON.parse(JSON.stringify(restarted.state())) as DetectorState, plan);
      }
      expect(restarted.state()).toEqual(whole.state());
      expect(restarted.incident).toEqual(whole.incident);
    }
  });
});

it.each([0.03, 0.06, 0.1])('a step twice as long is found within 64 steps in noise of %d, nearly always within 40 (100 seeds)', (noise) => {
  let soon = 0;
  for (let seed = 1; seed <= 100; seed++) {
    const onset = 900 + 7 * seed;
    const findings = found(noisy(seed, onset + 400, from(onset, 2), noise));
    expect(kinds(findings), `seed ${seed}`).toEqual(['regression']);
    const [regression] = findings as [Extract<StepTimeFinding, { kind: 'regression' }>];
    expect(regression.step - onset, `seed ${seed}`).toBeLessThan(64);
    expect(Math.abs(regression.onsetStep - onset), `seed ${seed}`).toBeLessThanOrEqual(16);
    expect(Math.abs(regression.change - 1), `seed ${seed}`).toBeLessThan(0.25);
    if (regression.step - onset < 40) soon++;
  }
  expect(soon).toBeGreaterThanOrEqual(90);
});

describe('the first steps of a series', () => {
  it.each([
    [0.005, 0.1, [80, 100, 140, 200, 400]],
    [0.02, 0.3, [80, 100, 140, 200, 400]],
    [0.08, 0.6, [100, 140, 200, 400]],
    [0.12, 1, [100, 140, 200, 400]],
    [0.2, 1, [140, 200, 400]],
  ])('in noise of %d: a rise by %d from step %j on is found, and said once (40 seeds each)', (noise, rise, onsets) => {
    for (const onset of onsets) {
      let [ever, soon, early] = [0, 0, 0];
      for (let seed = 1; seed <= 40; seed++) {
        const random = new Random(seed, 'young', noise, onset);
        const times = Array.from({ length: onset + 300 }, (_, step) =>
          Math.max(1, 200 * from(onset, 1 + rise)(step) * (1 + random.normal(0, noise))),
        );
        const slower = found(times).filter(({ kind }) => kind === 'regression');
        const first = slower.find(({ step }) => step >= onset);
        early += slower.filter((finding) => finding !== first).length;
        if (first === undefined) continue;
        ever++;
        if (first.step < onset + 64) soon++;
      }
      expect(early, `from step ${onset}`).toBe(0);
      expect(ever, `from step ${onset}`).toBeGreaterThanOrEqual(36);
      expect(soon, `from step ${onset}`).toBeGreaterThanOrEqual(32);
    }
  });

  it.each([
    [0.002, 0.05, 600],
    [0.002, 0.7, 330],
    [0.01, 0.05, 800],
    [0.01, 0.25, 330],
    [0.03, 0.1, 700],
    [0.03, 0.25, 450],
    [0.08, 0.25, 600],
    [0.08, 0.7, 400],
  ])(
    'in noise of %d: a rise by %d ms a step from the first on is a drift from there, reported by step %i (20 seeds)',
    (noise, slope, latest) => {
      for (let seed = 1; seed <= 20; seed++) {
        const random = new Random(seed, 'rising', noise, slope);
        const times = Array.from({ length: latest }, (_, step) => (200 + slope * step) * (1 + random.normal(0, noise)));
        const [drift] = found(times);
        if (drift?.kind !== 'drift') throw new Error(`seed ${seed}: ${drift?.kind}`);
        expect(drift.onsetStep, `seed ${seed}`).toBeLessThan(200);
        expect(drift.before, `seed ${seed}`).toBeLessThan(200 + 200 * slope);
        expect(drift.after, `seed ${seed}`).toBeLessThan(1.05 * (200 + slope * drift.step));
      }
    },
  );

  it('that become faster are warm-up, also in noise; so are faster ones within it (100 seeds)', () => {
    for (let seed = 1; seed <= 100; seed++) {
      const random = new Random(seed, 'warm');
      const [excess, steps, noise] = [random.uniform(-0.4, 3), random.uniform(5, 60), random.uniform(0.005, 0.05)];
      const times = Array.from({ length: 800 }, (_, step) => {
        const start = excess > 0 ? excess * Math.exp(-step / steps) : step < Math.min(28, steps) ? excess : 0;
        return 200 * (1 + start) * (1 + random.normal(0, noise));
      });
      expect(
        kinds(found(times)).filter((kind) => kind !== 'improvement'),
        `seed ${seed}`,
      ).toEqual([]);
    }
  });
});

describe('training runs as people log them: whole ms, spikes, evaluations', () => {
  it('at one level say nothing (24 seeds)', () => {
    expect(stationaryRuns(8000).flatMap(({ seed, rows }) => slowDownsOf(rows, plan).map(({ kind, step }) => [seed, kind, step]))).toEqual(
      [],
    );
  });

  it('that became 3.5 % slower for real say it once, and since when (24 seeds)', () => {
    for (const { seed, rows } of stationaryRuns(1500)) {
      const found = slowDownsOf(slowedFrom(rows, 700, 1.035), plan);
      expect([seed, found.map(({ kind }) => kind)]).toEqual([seed, ['regression']]);
      expect(Math.abs((found[0]?.onsetStep ?? 0) - 700), `seed ${seed}`).toBeLessThanOrEqual(16);
    }
  });

  it('that grow as planned, by 2 to 16 %, raise one alert at most (24 seeds)', () => {
    const reported = growingRuns(3000).map(({ rows }) => slowDownsOf(rows, plan).length);
    expect(Math.max(...reported)).toBe(1);
  });

  it('that evaluate now and then do not regress in their train steps (12 seeds)', () => {
    for (const { seed, rows } of evaluatedRuns()) expect([seed, slowDownsOf(rows, plan)]).toEqual([seed, []]);
  });

  it('are not slower because they evaluate less: evaluations are no steps (12 seeds)', () => {
    const short = new DetectorPlan(shortSeriesOptions);
    for (const { seed, rows } of evaluatedRuns()) {
      // Evaluation at every second step, then none.
      const often = rows.flatMap((row, at): StepRow[] => (at < 150 ? [row, { ...row, ms: 0.23 * row.ms, tag: 'eval' }] : [row]));
      expect([seed, slowDownsOf(often, short)]).toEqual([seed, []]);
    }
  });
});

describe('a detector', () => {
  it('knows the step numbers of the onset where some are missing', () => {
    const detector = new SeriesDetector(plan);
    const times = noisy(1, 2000, from(1200, 1.1));
    const findings = times.flatMap((time, step) => detector.add(1000 * step, time) ?? []);
    expect(findings).toMatchObject([{ kind: 'regression', onsetStep: 1_200_000 }]);
  });

  it('says an onset in the numbers that count now, where they went back as the job was started again', () => {
    for (const onset of [1180, 1198, 1200, 1202, 1260]) {
      for (const first of [0, 1100]) {
        const detector = new SeriesDetector(plan);
        const times = noisy(1, 2000, from(onset, 1.1));
        const findings = times.flatMap((time, step) => detector.add(step < 1200 ? step : step - 1200 + first, time) ?? []);
        const [found] = findings.filter((one) => one.kind === 'regression');
        expect(findings).toEqual([found]);
        expect(Math.abs((found?.onsetStep ?? Number.NaN) - (first + Math.max(0, onset - 1200)))).toBeLessThanOrEqual(16);
        expect(found?.onsetStep).toBeLessThanOrEqual(found?.step ?? Number.NaN);
      }
    }
  });

  it('begins anew when asked', () => {
    const detector = new SeriesDetector(plan);
    const times = noisy(1, 4000, from(1200, 1.1));
    expect(kinds(found(times.slice(0, 2000), detector))).toEqual(['regression']);
    expect(detector.rebaseline()).toMatchObject({ kind: 'rebaselined', step: 1999, reason: 'asked' });
    expect(detector.incident).toBeUndefined();
    expect(detector.isReady).toBe(false);
    expect(found(times.slice(2000), detector)).toEqual([]);
    expect(detector.isReady).toBe(true);
    expect(detector.rebaseline()).toBeUndefined();
  });

  it('is ready after 70 steps with the settings for short series', () => {
    const short = new SeriesDetector(new DetectorPlan(shortSeriesOptions));
    found(noisy(1, 72), short);
    expect(short.isReady).toBe(true);
    expect(kinds(found(noisy(2, 250, from(120, 1.05)), new SeriesDetector(new DetectorPlan(shortSeriesOptions))))).toEqual(['regression']);
  });

  it('reads any unit: the same in ns as in s', () => {
    const times = noisy(3, 3000, from(1200, 1.1));
    const [inNanos] = found(times.map((time) => time * 1e6));
    const [inSeconds] = found(times.map((time) => time / 1e3));
    expect(inNanos).toMatchObject({ step: inSeconds?.step, kind: 'regression' });
    expect((inNanos as { before: number }).before / (inSeconds as { before: number }).before / 1e9).toBeCloseTo(1, 4);
  });

  it('survives whatever comes (seed 9)', () => {
    const random = new Random(9, 'anything');
    const times = [1e-300, 1e300, 5e-324, 1, 200, 200, 200, 0, -0, Number.NaN, Number.MAX_VALUE];
    const detector = new SeriesDetector(plan);
    for (let index = 0; index < 50_000; index++) {
      const step = random.chance(0.01) ? random.whole(2 ** 52) : index;
      const time = random.chance(0.2) ? (times[random.whole(times.length)] as number) : random.lognormal(200, 0.5);
      const finding = detector.add(step, time, random.chance(0.0005) ? index : 0, random.chance(0.1) ? 'checkpoint' : undefined);
      if (finding !== undefined && finding.kind !== 'rebaselined') expect(Number.isFinite(finding.onsetStep)).toBe(true);
    }
    const state = detector.state();
    expect(state.blocks.length).toBeLessThanOrEqual(plan.blocksMax);
    expect(state.blocks.every(Number.isFinite)).toBe(true);
  });

  it('says what is wrong with its settings, and with a state that is not one of theirs', () => {
    const codeOf = (make: () => unknown): string => {
      try {
        make();
      } catch (error) {
        if (error instanceof TraceError) return `${error.code}: ${error.message}`;
        throw error;
      }
      return 'fine';
    };
    const state = new SeriesDetector(plan).state();
    expect([
      codeOf(() => new DetectorPlan({ blockSteps: 0 })),
      codeOf(() => new DetectorPlan({ changeMin: Number.NaN })),
      codeOf(() => new DetectorPlan({ thresholdT: 0 })),
      codeOf(() => SeriesDetector.restore({ ...state, version: 2 as 1 }, plan)),
      codeOf(() => SeriesDetector.restore({ ...state, blocks: new Array(97).fill(1) }, plan)),
      codeOf(() => SeriesDetector.restore({ ...state, steps: new Array(8).fill(1) }, plan)),
      codeOf(() => SeriesDetector.restore({ ...state, leaps: 2 ** 31 }, plan)),
      codeOf(() => SeriesDetector.restore(state, plan)),
    ]).toMatchInlineSnapshot(`
      [
        "bad_option: Cannot detect with blockSteps 0: it must be a whole number from 1 to 32",
        "bad_option: Cannot detect with changeMin NaN: it must be more than 0 and less than 10",
        "bad_option: Cannot detect with thresholdT 0: it must be more than 0 and less than 1e6",
        "bad_option: Cannot restore a step-time detector: its state must have version 1, got 2",
        "bad_option: Cannot restore a step-time detector: it holds 97 blocks, these settings keep 96",
        "bad_option: Cannot restore a step-time detector: it holds 8 steps of a block of 8",
        "bad_option: Cannot restore a step-time detector: leaps must be 0 to 65536 and halfStep a whole number, got 2147483648 and 0",
        "fine",
      ]
    `);
  });

  it('gives equal keys to equal contexts only', () => {
    const texts = Array.from({ length: 2000 }, (_, index) => `batch=${index % 50} sequence=${Math.floor(index / 50)}`);
    const keys = new Set(texts.map(contextKeyOf));
    expect(keys.size).toBe(texts.length);
    expect(contextKeyOf('a')).toBe(contextKeyOf('a'));
    expect([...keys].every((key) => Number.isInteger(key) && key > 0 && key < 2 ** 31)).toBe(true);
  });
});

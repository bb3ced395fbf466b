// Step-time regressions: false alarms on series without one, injected ones found, planned growth and jumps; the peers' rules on the same series in
// the same run; kinds of noise that no plain rule survives (detect-noise.ts); the cost of a step and a series. Inputs: generated-steps.ts, and recordings.

import { DetectorPlan, detectorOptionsFor, SeriesDetector, shortSeriesOptions } from '@ranktrace/trace/detect';
import { changeCover, changeF1 } from './change-scores.ts';
import {
  bocpd,
  claimsOn,
  cusum,
  falseRate,
  findingsIn,
  inject,
  type Method,
  ours,
  perfherder,
  shareWithin,
  slowDowns,
  stepsOf,
} from './detect-methods.ts';
import { noiseFigures } from './detect-noise.ts';
import { type Figure, figure, median, type NotMeasured, type Target } from './figure.ts';
import { generateGrowing, generateMarked, generateStationary, generateWithEvaluations } from './generated-steps.ts';
import { readRecordedCorpus } from './recorded-steps.ts';
import { overRecordings } from './recordings.ts';
import type { StepCorpus, StepSeries } from './step-series.ts';
import { progress } from './turns.ts';

const injections = [0.02, 0.03, 0.1];
/** Where changes are injected, as shares of a run. */
const injectedAt = [0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8];
/** The same for slow rules, and for short runs. */
const fewInjectedAt = [0.3, 0.45, 0.6, 0.75];

export async function detect(): Promise<(Figure | NotMeasured)[]> {
  progress('detect: generated series');
  const generated: StepCorpus = {
    names: {
      stationary: 'stationary',
      withEvaluations: 'short with evaluations',
      growth: 'growth of 10 %',
      slightGrowth: 'growth of 2.5 %',
      marked: 'planted changes',
    },
    stationary: generateStationary(),
    withEvaluations: generateWithEvaluations(),
    growth: generateGrowing(0.1),
    slightGrowth: generateGrowing(0.025),
    marked: generateMarked(),
  };
  const figures = figuresOver(generated);
  const costs = costFigures(generated.stationary);
  progress('detect: kinds of noise');
  const noise = noiseFigures();
  const recorded = await overRecordings('steptime and changepoint', (data) => {
    progress('detect: recorded series');
    return figuresOver(readRecordedCorpus(data));
  });
  return [...figures, ...costs, ...noise, ...recorded];
}

function figuresOver(corpus: StepCorpus): Figure[] {
  const { names, stationary, withEvaluations } = corpus;
  const tuned = ours('ours');
  const short = ours('ours, short', shortSeriesOptions);
  const shortName = `${names.withEvaluations}, settings for short series`;
  return [
    figure({
      name: `${names.stationary}, ${stationary.length} runs, ${stepsOf(stationary)} steps: false regressions`,
      value: falseRate(tuned, stationary),
      unit: 'per 100 k steps',
      target: { at: 'most', value: 0, of: 'value' },
    }),
    figure({
      name: `${names.stationary}: regressions reported, real ones included`,
      value: claimsOn(tuned, stationary),
      unit: 'regressions',
    }),
    ...injectionFigures(names.stationary, tuned, stationary, injectedAt, true),
    figure({
      name: `${names.withEvaluations}, ${withEvaluations.length} runs, ${stepsOf(withEvaluations)} train steps: false regressions`,
      value: falseRate(tuned, withEvaluations),
      unit: 'per 100 k steps',
      target: { at: 'most', value: 5, of: 'value' },
    }),
    figure({
      name: `${shortName}: false regressions`,
      value: falseRate(short, withEvaluations),
      unit: 'per 100 k steps',
      target: { at: 'most', value: 5, of: 'value' },
    }),
    ...injectionFigures(shortName, short, withEvaluations, fewInjectedAt, false),
    ...growthFigures(corpus),
    ...jumpFigures(names.stationary, stationary),
    ...[perfherder, cusum, bocpd(0.1), bocpd(0.02)].flatMap((peer) => peerFigures(peer, corpus)),
    ...markedFigures(corpus),
  ];
}

/** The share of injected changes found, their delay, and the error of the reported onset. */
function injectionFigures(
  name: string,
  method: Method,
  series: readonly StepSeries[],
  places: readonly number[],
  isGated: boolean,
): Figure[] {
  return injections.flatMap((size) => {
    const found = inject(method, series, places, size);
    const label = `${name}: +${100 * size} %`;
    const target = (at: 'most' | 'least', value: number): { target?: Target<'value'> } =>
      isGated && size === 0.03 ? { target: { at, value, of: 'value' } } : {};
    return [
      figure({ name: `${label} found`, value: shareWithin(found), unit: '%' }),
      figure({ name: `${label} found within 40 steps`, value: shareWithin(found, 40), unit: '%', ...target('least', 99) }),
      figure({ name: `${label}, median delay`, value: median(found.delays), unit: 'steps', ...target('most', 35) }),
      figure({ name: `${label}, p95 delay`, value: found.delays[Math.floor(0.95 * found.delays.length)] as number, unit: 'steps' }),
      figure({ name: `${label}, median error of the onset`, value: median(found.onsets), unit: 'steps' }),
    ];
  });
}

/** The same questions for another rule. */
function peerFigures(method: Method, { names, stationary, withEvaluations }: StepCorpus): Figure[] {
  progress(`detect: ${method.name}`);
  const found = injections.map((size) => ({ size, found: inject(method, stationary, fewInjectedAt, size) }));
  const unit = 'per 100 k steps';
  const label = `${method.name}, ${names.stationary}`;
  return [
    figure({ name: `${label}: false regressions`, value: falseRate(method, stationary), unit }),
    figure({ name: `${method.name}, ${names.withEvaluations}: false regressions`, value: falseRate(method, withEvaluations), unit }),
    ...found.flatMap(({ size, found }) => [
      figure({ name: `${label}: +${100 * size} % found`, value: shareWithin(found), unit: '%' }),
      figure({ name: `${label}: +${100 * size} % found within 40 steps`, value: shareWithin(found, 40), unit: '%' }),
    ]),
  ];
}

/** Runs that grow as planned: one alert reports it, not one for each percent. */
function growthFigures({ names, growth, slightGrowth }: StepCorpus): Figure[] {
  const plan = new DetectorPlan();
  const most = (runs: readonly StepSeries[]): number =>
    Math.max(...runs.map(({ times, isEval }) => slowDowns(findingsIn(plan, times, isEval)).length));
  return [
    figure({
      name: `${names.growth} (planned growth, ${growth.length} runs): most alerts of one run`,
      value: most(growth),
      unit: 'alerts',
      target: { at: 'most', value: 1, of: 'value' },
    }),
    figure({
      name: `${names.slightGrowth} (growth of 2 to 3 %, ${slightGrowth.length} runs): most alerts of one run`,
      value: most(slightGrowth),
      unit: 'alerts',
    }),
  ];
}

/** Two planned jumps in each stationary run: without a context key, and with one. */
function jumpFigures(name: string, series: readonly StepSeries[]): Figure[] {
  const plan = new DetectorPlan();
  let [reported, others, withKey] = [0, 0, 0];
  for (const { times, isEval } of series) {
    const jumps = [Math.floor(times.length / 3), Math.floor((2 * times.length) / 3)];
    const regimeAt = (at: number): number => jumps.filter((jump) => at >= jump).length;
    const jumped = times.map((time, at) => time * 1.3 ** regimeAt(at));
    const without = slowDowns(findingsIn(plan, jumped, isEval));
    const right = without.filter(({ step }) => jumps.some((jump) => step >= jump && step < jump + 64));
    reported += right.length;
    others += without.length - right.length;
    // Real slow-downs of the run itself stay.
    withKey += slowDowns(findingsIn(plan, jumped, isEval, regimeAt)).filter(({ step }) =>
      jumps.some((jump) => step >= jump && step < jump + 64),
    ).length;
  }
  return [
    figure({
      name: `${name} with two planned jumps: reported without a context key`,
      value: (100 * reported) / (2 * series.length),
      unit: '%',
      target: { at: 'least', value: 99, of: 'value' },
    }),
    figure({ name: `${name} with two planned jumps: other regressions reported`, value: others, unit: 'regressions' }),
    figure({
      name: `${name} with two planned jumps: reported with a context key`,
      value: withKey,
      unit: 'regressions',
      target: { at: 'most', value: 0, of: 'value' },
    }),
  ];
}

/** Other series than step times, with blocks of one value. Not gated. */
function markedFigures({ names, marked }: StepCorpus): Figure[] {
  const plan = new DetectorPlan({
    ...detectorOptionsFor({ sensitivity: 'high' }),
    blockSteps: 1,
    referenceBlocks: 16,
    windowBlocksMax: 16,
    confirmBlocks: 2,
  });
  const scores = marked.map(({ values, annotations }) => {
    const findings = findingsIn(plan, asTimes(values), []);
    const found = findings.flatMap((finding) => (finding.kind === 'rebaselined' ? [] : [finding.onsetStep]));
    return {
      f1: changeF1(found, annotations),
      cover: changeCover(found, annotations, values.length),
      zeroF1: changeF1([], annotations),
      zeroCover: changeCover([], annotations, values.length),
    };
  });
  const mean = (pick: (score: (typeof scores)[number]) => number): number =>
    scores.reduce((sum, score) => sum + pick(score), 0) / scores.length;
  return [
    figure({
      name: `${names.marked}, ${scores.length} series: F1`,
      value: mean(({ f1 }) => f1),
      unit: 'F1',
      baseline: { name: 'no change anywhere', value: mean(({ zeroF1 }) => zeroF1) },
    }),
    figure({
      name: `${names.marked}: cover`,
      value: mean(({ cover }) => cover),
      unit: 'cover',
      baseline: { name: 'no change anywhere', value: mean(({ zeroCover }) => zeroCover) },
    }),
  ];
}

/** Any numbers as times: noise, by how far neighbours differ, becomes 0.5 %. */
function asTimes(values: readonly number[]): Float64Array {
  const middle = median(values);
  const noise = median(values.slice(1).map((value, at) => Math.abs(value - (values[at] as number)))) || 1;
  return Float64Array.from(values, (value) => Math.exp(Math.max(-50, Math.min(50, (0.005 * (value - middle)) / noise))));
}

/** Time per step, beside reading the steps alone, and memory per series. */
function costFigures(series: readonly StepSeries[]): Figure[] {
  const all = Float64Array.from(series.flatMap(({ times }) => [...times]));
  const plan = new DetectorPlan();
  const nanosecondsOf = (take: (time: number, at: number) => void): number => {
    const began = performance.now();
    for (let at = 0; at < all.length; at++) take(all[at] as number, at);
    return ((performance.now() - began) / all.length) * 1e6;
  };
  const rounds = [1, 2, 3, 4, 5].map(() => {
    const detector = new SeriesDetector(plan);
    let sum = 0;
    const nothing = nanosecondsOf((time) => {
      sum += Math.log(time);
    });
    const value = nanosecondsOf((time, at) => {
      detector.add(at, time);
    });
    return { value, nothing: sum === 0 ? 0 : nothing };
  });
  const count = 20_000;
  const kept: SeriesDetector[] = new Array(count);
  const before = bytesInUse();
  for (let index = 0; index < count; index++) kept[index] = new SeriesDetector(plan);
  // Every place of a series in use: two levels, and what is open.
  for (const detector of kept) {
    for (let at = 0; at < 1200; at++) detector.add(at, (all[at + 1000] as number) * (at < 1000 ? 1 : 1.1));
  }
  const bytes = (bytesInUse() - before) / count;
  const open = kept.filter(({ incident }) => incident !== undefined).length;
  if (open !== count) throw new Error(`bench: detect: ${open} of ${count} series have something open`);
  return [
    figure({
      name: 'a step, mean over blocks',
      value: median(rounds.map(({ value }) => value)),
      unit: 'ns',
      baseline: { name: 'a logarithm a step, no detector', value: median(rounds.map(({ nothing }) => nothing)) },
    }),
    figure({
      name: `memory of a series, mean of ${count}, with something open`,
      value: bytes,
      unit: 'B',
      target: { at: 'most', value: 1024, of: 'value' },
    }),
  ];
}

function bytesInUse(): number {
  if (globalThis.gc === undefined) throw new Error('bench: detect: node must run with --expose-gc');
  globalThis.gc();
  globalThis.gc();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

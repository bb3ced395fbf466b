// Step-time regressions: false alarms on real series without one, injected ones found, planned growth and jumps; the peers' rules on the same
// series in the same run; what a step and a series cost. Data: ../shared/data/steptime and changepoint.
//
// A false alarm is a claim of a slow-down where no real one is near: nowhere in the 400 steps before do the medians of 100 steps on either side
// differ by 1.2 % or more. The same for everybody. An injection multiplies every step from one on; each is a series of its own, of 600 to 607 steps
// before it (so that it begins anywhere in a block) and 400 after it.

import { type DetectorOptions, DetectorPlan, SeriesDetector, type StepTimeFinding, shortSeriesOptions } from '@ranktrace/trace';
import { changeCover, changeF1 } from './change-scores.ts';
import { type BaselineDetector, Bocpd, Cusum, Perfherder } from './detect-baselines.ts';
import { type Figure, figure, median } from './figure.ts';
import { type RecordedSteps, readMarkedSeries, readMlperfSteps, readNanogptSteps } from './recorded-steps.ts';

const injections = [0.02, 0.03, 0.1];
/** Where changes are injected, as shares of a run. */
const injectedAt = [0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8];
/** The same for what is slow, and for short runs. */
const fewInjectedAt = [0.3, 0.45, 0.6, 0.75];
const stepsBefore = 600;
const stepsAfter = 400;

/** One method: of a series, the steps (as indices) with which it claims a slow-down, and what it gives for the onset. */
interface Method {
  readonly name: string;
  readonly claims: (times: Float64Array, isEval: readonly boolean[]) => Claim[];
}

interface Claim {
  readonly at: number;
  readonly onset: number | undefined;
}

export async function detect(): Promise<Figure[]> {
  const runs = readNanogptSteps();
  const stationary = ofKind(runs, 'S');
  const mlperf = readMlperfSteps();
  const tuned = ours('ours');
  const short = ours('ours, short', shortSeriesOptions);
  return [
    figure({
      name: `class S, ${stationary.length} runs, ${stepsOf(stationary)} steps: false regressions`,
      value: falseRate(tuned, stationary),
      unit: 'per 100 k steps',
      target: { at: 'most', value: 0, of: 'value' },
    }),
    figure({ name: 'class S: regressions told, real ones included', value: claimsOn(tuned, stationary), unit: 'regressions' }),
    ...injectionFigures('class S', tuned, stationary, injectedAt, true),
    figure({
      name: `MLPerf, ${mlperf.length} runs, ${stepsOf(mlperf)} train steps: false regressions`,
      value: falseRate(tuned, mlperf),
      unit: 'per 100 k steps',
      target: { at: 'most', value: 5, of: 'value' },
    }),
    figure({
      name: 'MLPerf, settings for short series: false regressions',
      value: falseRate(short, mlperf),
      unit: 'per 100 k steps',
      target: { at: 'most', value: 5, of: 'value' },
    }),
    ...injectionFigures('MLPerf, settings for short series', short, mlperf, fewInjectedAt, false),
    ...growthFigures(runs),
    ...jumpFigures(stationary),
    ...[perfherder, cusum, bocpd(0.1), bocpd(0.02)].flatMap((peer) => peerFigures(peer, stationary, mlperf)),
    ...markedFigures(),
    ...costFigures(stationary),
  ];
}

const ofKind = (runs: readonly RecordedSteps[], kind: string): RecordedSteps[] => runs.filter((run) => run.kind === kind);

/** Steps that are no evaluations. */
const stepsOf = (series: readonly RecordedSteps[]): number =>
  series.reduce((sum, { isEval }) => sum + isEval.filter((one) => !one).length, 0);

function ours(name: string, options: Partial<DetectorOptions> = {}): Method {
  const plan = new DetectorPlan(options);
  return {
    name,
    claims: (times, isEval) => slowDowns(findingsIn(plan, times, isEval)).map(({ step, onsetStep }) => ({ at: step, onset: onsetStep })),
  };
}

/** Findings of one series, whose steps are counted from 0. `contextAt`: the context key of a step. */
function findingsIn(
  plan: DetectorPlan,
  times: Float64Array,
  isEval: readonly boolean[],
  contextAt = (_: number): number => 0,
): StepTimeFinding[] {
  const detector = new SeriesDetector(plan);
  const findings: StepTimeFinding[] = [];
  for (let at = 0; at < times.length; at++) {
    const finding = detector.add(at, times[at] as number, contextAt(at), isEval[at] ? 'eval' : undefined);
    if (finding !== undefined) findings.push(finding);
  }
  return findings;
}

const slowDowns = (findings: readonly StepTimeFinding[]) =>
  findings.filter((finding) => finding.kind === 'regression' || finding.kind === 'drift');

/** Steps that peers are spared at the beginning: none of them knows of compilation, which takes 100 steps' time. */
const peerWarmUp = 20;

/** A peer that takes one step at a time; changes smaller than `least` do not count. */
function peer(name: string, make: () => BaselineDetector, least = 0): Method {
  return {
    name,
    claims: (times, isEval) => {
      const detector = make();
      const claims: Claim[] = [];
      for (let at = 0; at < times.length; at++) {
        if (isEval[at] || at < peerWarmUp || !((times[at] as number) > 0)) continue;
        const change = detector.push(times[at] as number);
        if (change !== undefined && change > 0 && change >= least) claims.push({ at, onset: undefined });
      }
      return claims;
    },
  };
}

const perfherder = peer("Perfherder's rule", () => new Perfherder());
const cusum = peer('CUSUM, k 0.5, h 5', () => new Cusum());
const bocpd = (least: number): Method => peer(`BOCPD, verified at ${100 * least} %`, () => new Bocpd(), least);

const claimsOn = (method: Method, series: readonly RecordedSteps[]): number =>
  series.reduce((sum, { times, isEval }) => sum + method.claims(times, isEval).length, 0);

/** False claims per 100 000 steps. */
function falseRate(method: Method, series: readonly RecordedSteps[]): number {
  let count = 0;
  for (const { times, isEval } of series) {
    const training = times.filter((_, at) => !isEval[at]);
    // The same step among those that are no evaluations.
    const place = (at: number): number => isEval.slice(0, at).filter((one) => !one).length;
    count += method.claims(times, isEval).filter(({ at }) => !isRealBefore(training, place(at))).length;
  }
  return count / (stepsOf(series) / 100_000);
}

/** Whether there was a real slow-down of 1.2 % or more in the 400 steps up to `at`. */
function isRealBefore(times: Float64Array, at: number): boolean {
  for (let split = Math.max(20, at - 400); split <= Math.min(at, times.length - 20); split += 4) {
    const before = median([...times.subarray(Math.max(0, split - 100), split)]);
    const after = median([...times.subarray(split, split + 100)]);
    if (after / before >= 1.012) return true;
  }
  return false;
}

/** Injected changes of one size: how many, with what delay those that were found, and how far off the onset that was told. */
interface Found {
  readonly wanted: number;
  readonly delays: readonly number[];
  readonly onsets: readonly number[];
}

function inject(method: Method, series: readonly RecordedSteps[], places: readonly number[], size: number): Found {
  const [delays, onsets]: [number[], number[]] = [[], []];
  for (const { times, isEval } of series) {
    for (const [index, share] of places.entries()) {
      const at = Math.floor(times.length * share);
      const from = Math.max(0, at - stepsBefore - (index % 8));
      const injected = times.slice(from, at + stepsAfter).map((time, offset) => (from + offset >= at ? time * (1 + size) : time));
      const claim = method.claims(injected, isEval.slice(from, at + stepsAfter)).find((one) => one.at >= at - from);
      if (claim === undefined) continue;
      delays.push(claim.at - (at - from) + 1);
      if (claim.onset !== undefined) onsets.push(Math.abs(claim.onset - (at - from)));
    }
  }
  return { wanted: series.length * places.length, delays: delays.sort((a, b) => a - b), onsets };
}

const shareWithin = ({ wanted, delays }: Found, most = stepsAfter): number =>
  (100 * delays.filter((delay) => delay <= most).length) / wanted;

/** How many injected changes are found, how soon, and how near the onset that is told. */
function injectionFigures(
  name: string,
  method: Method,
  series: readonly RecordedSteps[],
  places: readonly number[],
  isGated: boolean,
): Figure[] {
  return injections.flatMap((size) => {
    const found = inject(method, series, places, size);
    const label = `${name}: +${100 * size} %`;
    const target = (at: 'most' | 'least', value: number): Pick<Figure, 'target'> =>
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

/** The same questions, asked of somebody else's rule. */
function peerFigures(method: Method, stationary: readonly RecordedSteps[], mlperf: readonly RecordedSteps[]): Figure[] {
  const found = injections.map((size) => ({ size, found: inject(method, stationary, fewInjectedAt, size) }));
  const unit = 'per 100 k steps';
  return [
    figure({ name: `${method.name}, class S: false regressions`, value: falseRate(method, stationary), unit }),
    figure({ name: `${method.name}, MLPerf: false regressions`, value: falseRate(method, mlperf), unit }),
    ...found.flatMap(({ size, found }) => [
      figure({ name: `${method.name}, class S: +${100 * size} % found`, value: shareWithin(found), unit: '%' }),
      figure({ name: `${method.name}, class S: +${100 * size} % found within 40 steps`, value: shareWithin(found, 40), unit: '%' }),
    ]),
  ];
}

/** Runs that grow as planned: one alert tells it, not one for each percent. */
function growthFigures(runs: readonly RecordedSteps[]): Figure[] {
  const plan = new DetectorPlan();
  const most = (kind: string): number =>
    Math.max(...ofKind(runs, kind).map(({ times, isEval }) => slowDowns(findingsIn(plan, times, isEval)).length));
  return [
    figure({
      name: `class B (planned growth, ${ofKind(runs, 'B').length} runs): most alerts of one run`,
      value: most('B'),
      unit: 'alerts',
      target: { at: 'most', value: 1, of: 'value' },
    }),
    figure({
      name: `class D (growth of 2 to 3 %, ${ofKind(runs, 'D').length} runs): most alerts of one run`,
      value: most('D'),
      unit: 'alerts',
    }),
  ];
}

/** As class C, which the data do not hold: two planned jumps in each run of class S; without a context key, and with one. */
function jumpFigures(series: readonly RecordedSteps[]): Figure[] {
  const plan = new DetectorPlan();
  let [told, others, withKey] = [0, 0, 0];
  for (const { times, isEval } of series) {
    const jumps = [Math.floor(times.length / 3), Math.floor((2 * times.length) / 3)];
    const regimeAt = (at: number): number => jumps.filter((jump) => at >= jump).length;
    const jumped = times.map((time, at) => time * 1.3 ** regimeAt(at));
    const without = slowDowns(findingsIn(plan, jumped, isEval));
    const right = without.filter(({ step }) => jumps.some((jump) => step >= jump && step < jump + 64));
    told += right.length;
    others += without.length - right.length;
    // Real slow-downs of the run itself stay what they are.
    withKey += slowDowns(findingsIn(plan, jumped, isEval, regimeAt)).filter(({ step }) =>
      jumps.some((jump) => step >= jump && step < jump + 64),
    ).length;
  }
  return [
    figure({
      name: 'class S with two planned jumps (as class C): told without a context key',
      value: (100 * told) / (2 * series.length),
      unit: '%',
      target: { at: 'least', value: 99, of: 'value' },
    }),
    figure({ name: 'class S with two planned jumps: other regressions told', value: others, unit: 'regressions' }),
    figure({
      name: 'class S with two planned jumps: told with a context key',
      value: withKey,
      unit: 'regressions',
      target: { at: 'most', value: 0, of: 'value' },
    }),
  ];
}

/** The Turing change-point data set: other series than step times, with blocks of one value. Not gated. */
function markedFigures(): Figure[] {
  const plan = new DetectorPlan({ blockSteps: 1, referenceBlocks: 16, windowBlocksMax: 16, confirmBlocks: 2 });
  const scores = readMarkedSeries().map(({ values, annotations }) => {
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
      name: `TCPD, ${scores.length} series: F1`,
      value: mean(({ f1 }) => f1),
      unit: 'F1',
      baseline: { name: 'no change anywhere', value: mean(({ zeroF1 }) => zeroF1) },
    }),
    figure({
      name: 'TCPD: cover',
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
function costFigures(series: readonly RecordedSteps[]): Figure[] {
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
      unit: 'bytes',
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

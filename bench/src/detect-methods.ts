// Methods that find a slow-down in a series, ours and the peers', and their scores: false claims, and injected changes found.
//
// A false alarm is a claim of a slow-down where no real one is near: nowhere in the 400 steps before do the medians of 100 steps on either side
// differ by 1.2 % or more. One rule for all. An injection multiplies every step from one on; each is a series of its own, of 600 to 607 steps
// before it (so that it begins anywhere in a block) and 400 after it.

import { type DetectorOptions, DetectorPlan, SeriesDetector, type StepTimeFinding } from '@ranktrace/trace/detect';
import { type BaselineDetector, Bocpd, Cusum, Perfherder } from './detect-baselines.ts';
import { median } from './figure.ts';
import type { StepSeries } from './step-series.ts';

const stepsBefore = 600;
const stepsAfter = 400;

/** One method: for a series, the steps (as indices) with which it claims a slow-down, and its onset. */
export interface Method {
  readonly name: string;
  readonly claims: (times: Float64Array, isEval: readonly boolean[]) => Claim[];
}

interface Claim {
  readonly at: number;
  readonly onset: number | undefined;
}

/** Steps that are no evaluations. */
export const stepsOf = (series: readonly StepSeries[]): number =>
  series.reduce((sum, { isEval }) => sum + isEval.filter((one) => !one).length, 0);

export function ours(name: string, options: Partial<DetectorOptions> = {}): Method {
  const plan = new DetectorPlan(options);
  return {
    name,
    claims: (times, isEval) => slowDowns(findingsIn(plan, times, isEval)).map(({ step, onsetStep }) => ({ at: step, onset: onsetStep })),
  };
}

/** Findings of one series, whose steps are counted from 0. `contextAt`: the context key of a step. */
export function findingsIn(
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

type SlowDown = Extract<StepTimeFinding, { kind: 'regression' | 'drift' }>;

export const slowDowns = (findings: readonly StepTimeFinding[]): SlowDown[] =>
  findings.filter((finding) => finding.kind === 'regression' || finding.kind === 'drift');

/** Steps at the beginning that peers may skip: none of them models compilation, which takes 100 steps' time. */
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

export const perfherder = peer("Perfherder's rule", () => new Perfherder());
export const cusum = peer('CUSUM, k 0.5, h 5', () => new Cusum());
export const bocpd = (least: number): Method => peer(`BOCPD, verified at ${100 * least} %`, () => new Bocpd(), least);

export const claimsOn = (method: Method, series: readonly StepSeries[]): number =>
  series.reduce((sum, { times, isEval }) => sum + method.claims(times, isEval).length, 0);

/** False claims per 100 000 steps. */
export function falseRate(method: Method, series: readonly StepSeries[]): number {
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

/** Injected changes of one size: their number, the delay of those that were found, and the error of the reported onset. */
export interface Found {
  readonly wanted: number;
  readonly delays: readonly number[];
  readonly onsets: readonly number[];
}

export function inject(method: Method, series: readonly StepSeries[], places: readonly number[], size: number): Found {
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

/** The same for series that hold their change already, from step `onset` on. */
export function findPlanted(method: Method, planted: readonly (StepSeries & { readonly onset: number })[]): Found {
  const [delays, onsets]: [number[], number[]] = [[], []];
  for (const { times, isEval, onset } of planted) {
    const claim = method.claims(times, isEval).find(({ at }) => at >= onset);
    if (claim === undefined) continue;
    delays.push(claim.at - onset + 1);
    if (claim.onset !== undefined) onsets.push(Math.abs(claim.onset - onset));
  }
  return { wanted: planted.length, delays: delays.sort((a, b) => a - b), onsets };
}

export const shareWithin = ({ wanted, delays }: Found, most = stepsAfter): number =>
  (100 * delays.filter((delay) => delay <= most).length) / wanted;

// The verdict on the steps of a run against those of another, and its meaning in words: for `check`, `diff` and the page.

import type { Nanos, StepVerdict } from '@ranktrace/protocol';
import { compareSeries, levelOfSeries, type SeriesComparison, type SeriesLevel } from '../detect/compare-series.ts';
import { percentText } from '../model/quantity-text.ts';
import type { RunSummary } from '../steps/step-summary.ts';

export interface JudgedSteps {
  readonly verdict: StepVerdict;
  /** Share: 0.03 is 3 %. */
  readonly failOn: number;
  readonly comparison: SeriesComparison;
}

/** Lengths of the steps that compare, ns, each as long as its slowest rank: a step that some ranks did not report may have been longer. */
export function stepTimesOf({ steps }: RunSummary): readonly Nanos[] {
  const most = steps.reduce((most, { ranks }) => Math.max(most, ranks), 0);
  return steps.filter(({ ranks }) => ranks === most).map(({ longest }) => longest);
}

/** The level of those steps; undefined for fewer than `seriesStepsMin`. */
export const stepLevelOf = (summary: RunSummary): SeriesLevel | undefined => levelOfSeries(stepTimesOf(summary));

/** Compares the steps of a run with those before; they are longer if by the share `failOn` or more, and by more than scatter explains. */
export function judgeSteps(before: SeriesLevel, after: SeriesLevel, failOn: number): JudgedSteps {
  const comparison = compareSeries(before, after);
  return { verdict: verdictOf(comparison, failOn), failOn, comparison };
}

function verdictOf({ change, isCertain }: SeriesComparison, failOn: number): StepVerdict {
  if (change >= failOn) return isCertain ? 'slower' : 'probably_slower';
  if (change <= -failOn) return isCertain ? 'faster' : 'probably_faster';
  return 'unchanged';
}

/** `slower: +12.3 % (95 %: …), MEANING`. */
export function verdictLine({ verdict, failOn, comparison: { change, confidence } }: JudgedSteps): string {
  const range = `95 %: ${signed(confidence.low)} to ${signed(confidence.high)}, T ${confidence.t.toFixed(1)}`;
  return `${verdictNames[verdict]}: ${signed(change)} (${range}), ${meaningOf(verdict, failOn)}`;
}

/** A verdict in words. */
export const verdictNames: Readonly<Record<StepVerdict, string>> = {
  slower: 'slower',
  probably_slower: 'probably slower, not certain',
  unchanged: 'unchanged',
  probably_faster: 'probably faster, not certain',
  faster: 'faster',
};

function meaningOf(verdict: StepVerdict, failOn: number): string {
  const limit = limitText(failOn);
  switch (verdict) {
    case 'slower':
      return `${limit} or more fail the check`;
    case 'probably_slower':
      return `over ${limit}, but steps scatter so much that it may be chance: more steps would decide`;
    case 'probably_faster':
      return 'but steps scatter so much that it may be chance: more steps would decide';
    case 'faster':
      return 'a new baseline would hold it';
    default:
      return `less than ${limit}`;
  }
}

/** The smallest difference that this many steps can prove, computed from their scatter, and whether that is enough for `failOn`. */
export function provableLine({ verdict, failOn, comparison: { before, after, provable } }: JudgedSteps): string {
  const steps = before.steps === after.steps ? `${after.steps} steps each` : `${before.steps} and ${after.steps} steps`;
  const line = `${steps}: a difference under ${percentText(provable)} cannot be distinguished from scatter`;
  if (provable <= failOn || verdict === 'slower') return line;
  return `${line}, so ${limitText(failOn)} more would not fail this check: record more steps, or choose --fail-on ${Math.ceil(100 * provable)}`;
}

const limitText = (failOn: number): string => `${Number((100 * failOn).toFixed(4))} %`;

/** `+12.3 %` or `−12.3 %` */
export const signed = (share: number): string => `${share < 0 ? '−' : '+'}${percentText(Math.abs(share))}`;

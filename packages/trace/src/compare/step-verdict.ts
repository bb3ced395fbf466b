// The verdict on the steps of a run against those of another, and its meaning in words: for `check`, `diff` and the page.

import type { Nanos, StepVerdict } from '@ranktrace/protocol';
import { compareSeries, levelOfSeries, type SeriesChange, type SeriesComparison, type SeriesLevel } from '../detect/compare-series.ts';
import { addedBy, type LongSteps, longOver } from '../detect/long-steps.ts';
import { percentText } from '../model/quantity-text.ts';
import type { RunSummary, StepSummary } from '../steps/step-summary.ts';

export interface JudgedSteps {
  readonly verdict: StepVerdict;
  /** Share: 0.03 is 3 %. */
  readonly failOn: number;
  readonly comparison: SeriesComparison;
  /** The steps that decided: `usual` ones, without long ones such as those with a checkpoint; or `all`. */
  readonly basis: 'usual' | 'all';
}

/** Where both sides' long steps together add less, they are not worth a line. */
const longLineMin = 0.01;
/** From this T on the odds are three to one that a difference is not the other way round, even where few steps show how much they scatter. */
const probableT = 0.8;
/** An interval that reaches further says nothing. */
const intervalMax = 1;
/** The highest limit that --fail-on takes. */
const limitPercentMax = 9999;

/** The steps that compare: a step that some ranks did not report may have been longer. */
function comparedSteps({ steps }: RunSummary): readonly StepSummary[] {
  const most = steps.reduce((most, { ranks }) => Math.max(most, ranks), 0);
  return steps.filter(({ ranks }) => ranks === most);
}

/** Their lengths, ns, each as long as its slowest rank. */
export const stepTimesOf = (summary: RunSummary): readonly Nanos[] => comparedSteps(summary).map(({ longest }) => longest);

/** Their level; undefined for fewer than `seriesStepsMin`. */
export function stepLevelOf(summary: RunSummary): SeriesLevel | undefined {
  const steps = comparedSteps(summary);
  return levelOfSeries(
    steps.map(({ longest }) => longest),
    steps.map(({ mean }) => mean),
  );
}

/**
 * Compares the steps of a run with those before; they are longer if by the share `failOn` or more, and by more than scatter explains. Long steps are too few
 * to move a level: where usual steps prove no change, the mean of all steps may.
 */
export function judgeSteps(before: SeriesLevel, after: SeriesLevel, failOn: number): JudgedSteps {
  const comparison = compareSeries(before, after);
  const usual = verdictOf(comparison, failOn);
  const ofAll = comparison.ofAll === undefined || isWithin(comparison.ofAll) ? 'unchanged' : verdictOf(comparison.ofAll, failOn);
  const isStronger = strengths[ofAll] > strengths[usual];
  return { verdict: isStronger ? ofAll : usual, failOn, comparison, basis: isStronger ? 'all' : 'usual' };
}

/** The verdict that counts, of two. */
const strengths: Readonly<Record<StepVerdict, number>> = { unchanged: 0, probably_faster: 1, probably_slower: 2, faster: 3, slower: 4 };

/** Whether no difference at all is within the 95 % interval. */
const isWithin = ({ confidence: { low, high } }: SeriesChange): boolean => low <= 0 && high >= 0;

function verdictOf({ change, isCertain, confidence }: SeriesChange, failOn: number): StepVerdict {
  if (!isCertain && Math.abs(confidence.t) < probableT) return 'unchanged';
  if (change >= failOn) return isCertain ? 'slower' : 'probably_slower';
  if (change <= -failOn) return isCertain ? 'faster' : 'probably_faster';
  return 'unchanged';
}

/** The difference that decided. */
const decidingChange = ({ comparison, basis }: JudgedSteps): SeriesChange =>
  basis === 'all' ? (comparison.ofAll ?? comparison) : comparison;

/** `slower: +12.3 % (95 %: …), MEANING`, and whose steps these are, if that is to be said. */
export function verdictLine(judged: JudgedSteps, whose = ''): string {
  const { verdict, basis } = judged;
  const of = basis === 'all' ? ' over all steps, the long ones too' : '';
  const change = changeText(decidingChange(judged), of, decidingText(judged));
  return `${verdictNames[verdict]}: ${change}, ${meaningOf(judged)}${whose === '' ? '' : `; ${whose}`}`;
}

/** The difference that decided, with as many digits (at most 6) as show on which side of the limit it is: `+0.96 %` is less than 1 %. */
export function decidingText(judged: JudgedSteps): string {
  const { change } = decidingChange(judged);
  const [size, limit] = [Math.abs(change), judged.failOn];
  const isSameSide = (digits: number): boolean =>
    Number((100 * size).toFixed(digits)) >= Number((100 * limit).toFixed(4)) === size >= limit;
  return signed(change, [1, 2, 3, 4, 5].find(isSameSide) ?? 6);
}

/** The time that long steps add on both sides, and the difference that did not decide; undefined where there are hardly any. */
export function longLine({ basis, comparison }: JudgedSteps): string | undefined {
  const { before, after, ofAll } = comparison;
  if (ofAll === undefined || before.long === undefined || after.long === undefined) return undefined;
  if (addedBy(before.long) + addedBy(after.long) < longLineMin) return undefined;
  const side = (long: LongSteps): string => `${percentText(addedBy(long))} (${long.count} times)`;
  const together =
    ofAll.confidence.high > intervalMax && isWithin(ofAll) ? `${signed(ofAll.change)}, too few to be more than chance` : changeText(ofAll);
  const other = basis === 'all' ? `the others: ${changeText(comparison)}` : `all steps together: ${together}`;
  return `long steps, over ${longOver} times as long as the others, add ${side(before.long)} and ${side(after.long)}; ${other}`;
}

const changeText = ({ change, confidence: { low, high, t } }: SeriesChange, of = '', shown = signed(change)): string =>
  `${shown}${of} (95 %: ${signed(low)} to ${signed(high)}, T ${t.toFixed(1).replace('-', '−')})`;

/** A verdict in words. */
export const verdictNames: Readonly<Record<StepVerdict, string>> = {
  slower: 'slower',
  probably_slower: 'probably slower, not certain',
  unchanged: 'unchanged',
  probably_faster: 'probably faster, not certain',
  faster: 'faster',
};

function meaningOf(judged: JudgedSteps): string {
  const { verdict, failOn } = judged;
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
      if (Math.abs(decidingChange(judged).change) < failOn) return `less than ${limit}`;
      return `over ${limit}, but steps scatter too much to show any difference: more steps would decide`;
  }
}

/** The smallest difference that this many steps can prove, computed from their scatter, and whether that is enough for `failOn`. */
export function provableLine({ verdict, failOn, comparison: { before, after, provable } }: JudgedSteps): string {
  const steps = before.steps === after.steps ? `${after.steps} steps each` : `${before.steps} and ${after.steps} steps`;
  // Levels compare by their logarithms: 25 % more are as far as 20 % less.
  const least = verdict === 'faster' ? provable / (1 + provable) : provable;
  const line = `${steps}: a difference under ${percentText(least)} cannot be distinguished from scatter`;
  if (provable <= failOn || verdict === 'slower') return line;
  const enough = Math.ceil(100 * provable);
  const choice = enough > limitPercentMax ? '' : `, or choose --fail-on ${enough}`;
  return `${line}, so ${limitText(failOn)} more would not fail this check: record more steps${choice}`;
}

const limitText = (failOn: number): string => `${Number((100 * failOn).toFixed(4))} %`;

/** `+12.3 %` or `−12.3 %` */
export const signed = (share: number, digits = 1): string => `${share < 0 ? '−' : '+'}${percentText(Math.abs(share), digits)}`;

// The headline's sentences with figures: the cost of the ranks that it names, and the ranks that others wait for. They state the panels' figures, so
// they never contradict one: where the findings and the waiting point at different ranks, both appear.

import { formatCount, formatDuration, formatPercent } from '../controls/format.ts';
import type { Headline } from './slow-ranks.ts';
import { stepsText } from './step-bins.ts';

/**
 * `58.5 ms in each of 600 affected steps (steps 400–999), 23.4 ms per step of the run, 27.8 % of the mean step (84.2 ms)`; of several faults, all
 * together. The share is of the mean step, which is given: the page's figure of a step is the median.
 */
export function costText(costs: Headline['costs']): string {
  const [first, ...others] = costs;
  if (first === undefined) return '';
  const [perStep, share] = [sum(costs.map(({ nsPerStep }) => nsPerStep)), sum(costs.map(({ shareOfStep }) => shareOfStep))];
  const inAll = `${formatDuration(perStep)} per step`;
  const ofMean = `${formatPercent(share)} of the mean step${share > 0 ? ` (${formatDuration(perStep / share)})` : ''}`;
  if (others.length > 0) return `together ${inAll} of the run, ${ofMean}`;
  const { affectedSteps, comparedSteps, nsPerAffectedStep, fromStep, toStep } = first;
  if (affectedSteps >= comparedSteps) return `${inAll}, ${ofMean}`;
  const each = `in each of ${formatCount(affectedSteps)} affected steps (${stepsText(fromStep, toStep)})`;
  return `${formatDuration(nsPerAffectedStep)} ${each}, ${inAll} of the run, ${ofMean}`;
}

/** The ranks that others wait for, where ranks are named or a cause is: whole sentences, or nothing where no rank sticks out. */
export function waitingText({ ranks, waiting, cause }: Pick<Headline, 'ranks' | 'waiting' | 'cause'>): string {
  if (waiting === undefined) return '';
  const { forRanks, most, isOneRank } = waiting;
  const named = ranks.some(({ rank }) => rank.rank === most.rank);
  const isForMost = `${formatPercent(most.part)} of all waiting is for rank ${most.rank}`;
  if (cause !== undefined) return isOneRank ? `${isForMost}.` : '';
  const isForThem = `${formatPercent(forRanks)} of all waiting is for ${ranks.length === 1 ? 'it' : 'them'}`;
  if (named || most.part <= forRanks) return forRanks > 0 ? `${isForThem}.` : '';
  return forRanks > 0
    ? `${isForThem}, and ${formatPercent(most.part)} for rank ${most.rank}: the evidence is split.`
    : `But ${isForMost}: the evidence is split.`;
}

/** The sentence where no rank is charged with anything, beside the panel on waiting. */
export function nobodyText({ waiting, tone, isUnknown }: Pick<Headline, 'waiting' | 'tone' | 'isUnknown'>, analysed: boolean): string {
  if (!analysed) return 'No rank stands out so far.';
  if (isUnknown) return 'Whether a rank holds the others up is unknown.';
  if (waiting === undefined) return 'No rank holds the others up.';
  const { most, isOneRank, ofSteps, ofStepsForMost } = waiting;
  const part = formatPercent(most.part);
  if (tone !== 'good') {
    const longest = `the others wait for rank ${most.rank} for ${formatPercent(ofStepsForMost)} of a step, ${part} of all waiting`;
    return `No rank works longer than its peers step for step, yet ${longest}: the evidence is split.`;
  }
  if (ofSteps <= 0) return 'No rank holds the others up.';
  const whose = isOneRank ? `${part} of it for rank ${most.rank}` : 'for one rank after the other';
  return `No rank holds the others up: they wait for ${formatPercent(ofSteps)} of a step, ${whose}.`;
}

/** Before a verdict beside figures of some steps: findings and waits are of the whole run. Of a rank by itself there may be no verdict. */
export function scopeText({ ranks, cause, tone }: Pick<Headline, 'ranks' | 'cause' | 'tone'>, hasOthers: boolean): string {
  return ranks.length > 0 || cause !== undefined || tone === 'alert' || hasOthers ? 'In the whole run: ' : '';
}

const sum = (values: readonly number[]): number => values.reduce((all, value) => all + value, 0);

// Findings of single step-time series, and how several about one fault are reported: the lead, the blamed ranks, severity and text.

import type { Alert } from '@ranktrace/protocol';
import type { Drift, Rebaselined, Regression, WentAway } from '../detect/step-time-finding.ts';
import { lengthText, percentText } from '../model/quantity-text.ts';
import type { AlertHint } from './alert-change.ts';
import { alertSeverities, criticalShare } from './alert-severity.ts';
import { nameText } from './alert-text.ts';

/** A series of step times: the cluster's, a rank's own work, a phase. */
export type StepSeries = Alert['series'];
export type Slower = Regression | Drift;

/** One series' finding. */
export interface Found {
  readonly about: StepSeries;
  readonly finding: Slower;
  /** The latest rise of a series that rose again; `finding` is then of all of them. */
  readonly latest?: { readonly onsetStep: number; readonly by: number };
}

/** Identifies a series in ids and states. */
export const seriesKey = ({ kind, rank, phase }: StepSeries): string => (kind === 'cluster' ? kind : `${kind}-${rank ?? phase}`);

/** Slow-down, ns per step. */
export const slowerBy = ({ finding }: Found): number => finding.after - finding.before;

/** The rule that reports it. */
export const ruleOf = ({ kind }: Slower) => (kind === 'drift' ? 'step_time_drift' : 'step_time');

/** The lead of a report: the rank that changed most, or the phase, if that changed more than twice as much. */
export function leadOf(found: readonly Found[]): Found | undefined {
  const sorted = found.filter(({ about }) => about.kind !== 'cluster').sort((a, b) => slowerBy(b) - slowerBy(a));
  const [most] = sorted;
  return most && (sorted.find((one) => one.about.kind === 'rank' && slowerBy(one) >= slowerBy(most) / 2) ?? most);
}

/** `critical` if the cluster's steps jumped by `criticalShare`. */
export function severityOf(parts: Iterable<Found>): Alert['severity'] {
  for (const { about, finding } of parts) {
    if (about.kind === 'cluster' && finding.kind === 'regression' && finding.change >= criticalShare) return 'critical';
  }
  return alertSeverities.step_time.first;
}

export function resolutionOf(finding: WentAway | Rebaselined): string {
  if (finding.kind === 'went_away') return `it went away: ${lengthText(finding.after)} since step ${finding.onsetStep}`;
  if (finding.reason === 'asked') return 'what steps take now was accepted as usual';
  return newContextSince(finding.step);
}

export const newContextSince = (step: number): string => `a new context since step ${step}: there is nothing to compare with any more`;

/** Facts about the series of ranks. */
export interface RankFacts {
  /** Number of ranks with known own work. */
  readonly ranks: number;
  /** Ranks whose own work takes at least `least` ns longer since this step, certain or not. */
  readonly risen: (onsetStep: number, least: number) => readonly number[];
}

/** The ranks with the largest slow-down, unless they are half of all, and the phase. */
export function hintOf(found: Iterable<Found>, { ranks, risen }: RankFacts): AlertHint | null {
  const all = [...found];
  const of = (kind: StepSeries['kind']): Found[] =>
    all.filter(({ about }) => about.kind === kind).sort((a, b) => slowerBy(b) - slowerBy(a));
  const [slowRanks, slowPhases] = [of('rank'), of('phase')];
  const most = slowRanks[0] === undefined ? 0 : slowerBy(slowRanks[0]);
  // The first rank to be certain is not to blame for what others take longer, too.
  const also = slowRanks[0] === undefined ? [] : risen(slowRanks[0].finding.onsetStep, most / 2);
  const certain = slowRanks.filter((one) => slowerBy(one) >= most / 2).map(({ about }) => about.rank as number);
  const named = [...new Set([...certain, ...also])];
  const phase = namedPhase(slowPhases, named.length);
  if (named.length === 0 && phase === undefined) return null;
  const isOfAll = 2 * named.length >= Math.max(ranks, 2) && named.length > 1;
  return { ranks: isOfAll ? [] : named.sort((a, b) => a - b), ...(isOfAll && { isOfAll }), phase };
}

/** The phase that became slower most; none where several ranks may each be slow in one of several. */
function namedPhase([first, second]: readonly Found[], ranks: number): string | undefined {
  if (ranks > 1 && first !== undefined && second !== undefined && slowerBy(second) >= slowerBy(first) / 2) return undefined;
  return first?.about.phase;
}

/** `latest`: the onset of its latest rise, where that is another one. */
export function summaryOf(about: StepSeries, { kind, change, after, onsetStep }: Slower, before: number, latest = onsetStep): string {
  const what =
    about.kind === 'cluster' ? 'steps are' : about.kind === 'rank' ? `rank ${about.rank} is` : `phase "${nameText(about.phase ?? '')}" is`;
  const slowly = kind === 'drift' ? ', little by little,' : '';
  const since = `since step ${onsetStep}${latest > onsetStep ? `, more so since step ${latest}` : ''}`;
  return `${what} ${percentText(change)} slower${slowly} ${since}: ${lengthText(before)} → ${lengthText(after)}`;
}

// The result of a check, and the meaning of each of its verdicts.

import { type BlameChange, blameOf } from '@ranktrace/trace/blame';
import { compareSeries, type SeriesComparison } from '@ranktrace/trace/detect';
import type { RecordedSteps } from './recorded-steps.ts';

/** Only `slower` fails a check. */
export type CheckVerdict = 'slower' | 'probably_slower' | 'unchanged' | 'probably_faster' | 'faster';

export interface CheckResult {
  readonly verdict: CheckVerdict;
  /** Share: 0.03 is 3 %. */
  readonly failOn: number;
  readonly baseline: RecordedSteps;
  readonly checked: RecordedSteps;
  readonly comparison: SeriesComparison;
  /** The cause of the difference; undefined where there is none to explain. */
  readonly cause: BlameChange | undefined;
}

/** Compares the steps of a run with those of its baseline. */
export function checkResult(baseline: RecordedSteps, checked: RecordedSteps, failOn: number): CheckResult {
  const comparison = compareSeries(baseline.level, checked.level);
  const verdict = verdictOf(comparison, failOn);
  const hasCause = verdict === 'slower' || verdict === 'faster';
  const cause = hasCause && baseline.blame && checked.blame && blameOf(baseline.blame, checked.blame);
  return { verdict, failOn, baseline, checked, comparison, cause: cause || undefined };
}

function verdictOf({ change, isCertain }: SeriesComparison, failOn: number): CheckVerdict {
  if (change >= failOn) return isCertain ? 'slower' : 'probably_slower';
  if (change <= -failOn) return isCertain ? 'faster' : 'probably_faster';
  return 'unchanged';
}

/** `slower: +12.3 % (95 %: …), MEANING`. */
export function verdictLine({ verdict, failOn, comparison: { change, confidence } }: CheckResult): string {
  const range = `95 %: ${signed(confidence.low)} to ${signed(confidence.high)}, T ${confidence.t.toFixed(1)}`;
  return `${verdictNames[verdict]}: ${signed(change)} (${range}), ${meaningOf(verdict, failOn)}`;
}

/** A verdict in words. */
export const verdictNames: Readonly<Record<CheckVerdict, string>> = {
  slower: 'slower',
  probably_slower: 'probably slower, not certain',
  unchanged: 'unchanged',
  probably_faster: 'probably faster, not certain',
  faster: 'faster',
};

function meaningOf(verdict: CheckVerdict, failOn: number): string {
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
export function provableLine({ verdict, failOn, comparison: { before, after, provable } }: CheckResult): string {
  const steps = before.steps === after.steps ? `${after.steps} steps each` : `${before.steps} and ${after.steps} steps`;
  const line = `${steps}: a difference under ${percent(provable)} cannot be distinguished from scatter`;
  if (provable <= failOn || verdict === 'slower') return line;
  return `${line}, so ${limitText(failOn)} more would not fail this check: record more steps, or choose --fail-on ${Math.ceil(100 * provable)}`;
}

const limitText = (failOn: number): string => `${Number((100 * failOn).toFixed(4))} %`;

/** `12.3 %` */
export const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;
/** `+12.3 %` or `−12.3 %` */
export const signed = (share: number): string => `${share < 0 ? '−' : '+'}${percent(Math.abs(share))}`;

export interface PhaseChange {
  readonly phase: string;
  /** Mean per step and rank, ns. */
  readonly before: number;
  readonly after: number;
}

/** Phases of both sides, in order of the difference. */
export function phasesOf({ baseline: { phases: before }, checked: { phases: after } }: CheckResult): readonly PhaseChange[] {
  const names = [...new Set([...before.keys(), ...after.keys()])];
  const rows = names.map((phase) => ({ phase, before: before.get(phase) ?? 0, after: after.get(phase) ?? 0 }));
  return rows.sort((a, b) => Math.abs(b.after - b.before) - Math.abs(a.after - a.before) || (a.phase < b.phase ? -1 : 1));
}

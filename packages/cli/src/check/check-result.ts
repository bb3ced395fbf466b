// The result of a check: the verdict on its steps, the cause of the difference, and its phases.

import { type BlameChange, blameOf } from '@ranktrace/trace/blame';
import { type JudgedSteps, judgeSteps, sidesTakenBy, sidesText } from '@ranktrace/trace/compare';
import type { RecordedSteps } from './recorded-steps.ts';

export interface CheckResult extends JudgedSteps {
  /** Whose steps are compared; and that in a phrase, '' where there is nothing to say. */
  readonly stepsTakenBy: 'hosts' | 'devices';
  readonly whose: string;
  readonly baseline: RecordedSteps;
  readonly checked: RecordedSteps;
  /** The cause of the difference; undefined where there is none to explain. */
  readonly cause: BlameChange | undefined;
}

/** Compares the steps of a run with those of its baseline. */
export function checkResult(before: RecordedSteps, after: RecordedSteps, failOn: number): CheckResult {
  const stepsTakenBy = sidesTakenBy(before, after);
  const ofHosts = ({ hostLevel, ...side }: RecordedSteps): RecordedSteps =>
    hostLevel === undefined ? side : { ...side, level: hostLevel };
  const [baseline, checked] = stepsTakenBy === 'hosts' ? ([ofHosts(before), ofHosts(after)] as const) : ([before, after] as const);
  const judged = judgeSteps(baseline.level, checked.level, failOn);
  // Blame compares usual steps, and those of hosts: where they run ahead, their phases do not show what makes steps long.
  const hasCause = judged.basis === 'usual' && stepsTakenBy === 'hosts' && (judged.verdict === 'slower' || judged.verdict === 'faster');
  const cause = hasCause && baseline.blame && checked.blame && blameOf(baseline.blame, checked.blame);
  return {
    ...judged,
    stepsTakenBy,
    whose: sidesText(before, after, ['the baseline', 'the checked run']),
    baseline,
    checked,
    cause: cause || undefined,
  };
}

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

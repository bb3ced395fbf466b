// The result of a check: the verdict on its steps, the cause of the difference, and its phases and kernels.

import { type BlameChange, blameOf } from '@ranktrace/trace/blame';
import { type JudgedSteps, judgeSteps, sidesTakenBy, sidesText } from '@ranktrace/trace/compare';
import { changeOnDevices, type DeviceLevels } from '@ranktrace/trace/gpu';
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
  // Blame compares usual steps.
  const hasCause = judged.basis === 'usual' && (judged.verdict === 'slower' || judged.verdict === 'faster');
  const cause = hasCause ? causeOf(baseline, checked, stepsTakenBy) : undefined;
  return {
    ...judged,
    stepsTakenBy,
    whose: sidesText(before, after, ['the baseline', 'the checked run']),
    baseline,
    checked,
    cause,
  };
}

/**
 * The cause on devices where their steps count or are as long as the hosts', else the one on hosts: ahead of their devices, these do not know why steps are
 * long.
 */
function causeOf(before: RecordedSteps, after: RecordedSteps, takenBy: CheckResult['stepsTakenBy']): BlameChange | undefined {
  const areAlike = before.takenBy === 'both' && after.takenBy === 'both';
  const canCompare = (takenBy === 'devices' || areAlike) && before.devices !== undefined && after.devices !== undefined;
  const ofDevices = canCompare ? changeOnDevices(before.devices.blame, after.devices.blame) : undefined;
  if (takenBy === 'devices' || (ofDevices !== undefined && ofDevices.kind !== 'inconclusive')) return ofDevices;
  return before.blame && after.blame && blameOf(before.blame, after.blame);
}

/** Mean time per step and rank in a phase, or of a kernel. */
export interface TimeChange {
  readonly name: string;
  /** ns. */
  readonly before: number;
  readonly after: number;
}

/** Phases of both sides, in order of the difference. */
export const phasesOf = ({ baseline, checked }: CheckResult): readonly TimeChange[] => changesOf(baseline.phases, checked.phases);

/** Kernels of both sides, in order of the difference; none where not both have them of all ranks. One that a side may have left out is not compared. */
export function kernelsOf({ baseline: { devices: before }, checked: { devices: after } }: CheckResult): readonly TimeChange[] {
  if (before === undefined || after === undefined) return [];
  const isKnown = (side: DeviceLevels, name: string): boolean => side.kernelsLeftOut === 0 || side.kernels.has(name);
  return changesOf(before.kernels, after.kernels).filter(({ name }) => isKnown(before, name) && isKnown(after, name));
}

function changesOf(before: ReadonlyMap<string, number>, after: ReadonlyMap<string, number>): readonly TimeChange[] {
  const names = [...new Set([...before.keys(), ...after.keys()])];
  const rows = names.map((name) => ({ name, before: before.get(name) ?? 0, after: after.get(name) ?? 0 }));
  return rows.sort((a, b) => Math.abs(b.after - b.before) - Math.abs(a.after - a.before) || (a.name < b.name ? -1 : 1));
}

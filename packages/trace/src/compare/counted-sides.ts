// The steps of two runs that compare: both as the GPUs take them, or both as the hosts do. A window on the devices beside a host's pace of launches says
// nothing; so where one run does not show the windows, neither side counts them.

import type { RunSummary, StepTakers } from '../steps/step-summary.ts';

/** The part of a side that tells whose steps it has. */
export interface CountedSide {
  readonly takenBy?: StepTakers | undefined;
}

/** Whose steps compare, of two runs: those of devices where either's are, and the other's are known. */
export function sidesTakenBy(a: CountedSide, b: CountedSide): 'hosts' | 'devices' {
  const isKnown = ({ takenBy }: CountedSide): boolean => takenBy === 'devices' || takenBy === 'both';
  const areDevices = a.takenBy === 'devices' || b.takenBy === 'devices';
  return areDevices && isKnown(a) && isKnown(b) ? 'devices' : 'hosts';
}

/** The summary with the steps of hosts. */
export const ofHosts = (summary: RunSummary): RunSummary => summary.hosts ?? summary;

/** Whose steps are compared, in a phrase; '' where hosts and devices agree, or there are no devices. */
export function sidesText(a: CountedSide, b: CountedSide, names: readonly [string, string] = ['A', 'B']): string {
  if (sidesTakenBy(a, b) === 'devices') return 'steps as the GPUs take them';
  const lacking = [
    { side: names[0], is: a.takenBy },
    { side: names[1], is: b.takenBy },
  ].filter(({ is }) => is === undefined || is === 'hosts' || is === 'unknown');
  const hasDevices = [a, b].some(({ takenBy }) => takenBy === 'devices' || takenBy === 'unknown');
  if (!hasDevices || lacking.length === 0) return '';
  return `steps as the hosts take them: those of the GPUs are not known of all ranks and steps of ${lacking.map(({ side }) => side).join(' and ')}`;
}

// Marks limits of the clocks: contradictions between hosts, and stretches in which events were shifted behind their causes.
//
//   ruler     ─────▲────────▬▬▬▬▬▬▬───      ▲ clocks contradict each other      ▬ some rank's events are shifted
//   rank 3    │ step 10 │ step 11 │
//             └────────▬▬▬▬▬▬▬────┘         ▬ those of this rank
//
// Invariant: stretches of all ranks together neither overlap nor touch, and are in order of time.

import type { RunModel, ViewAlignment } from '@ranktrace/protocol';
import { formatCount, formatDuration, formatMany, formatRanks } from '../controls/format.ts';

/** Time in which events of some ranks are shifted, by at most `most` ns. */
export interface ShiftedStretch {
  readonly from: number;
  readonly until: number;
  readonly most: number;
  readonly ranks: ReadonlySet<number>;
}

export interface ClockMarks {
  readonly conflicts: RunModel['clockConflicts'];
  readonly shifted: readonly ShiftedStretch[];
}

/** Number of hosts that a conflict names. */
const hostsNamedMax = 4;

export const noClockMarks: ClockMarks = { conflicts: [], shifted: [] };

/** The marks over the time of a run. */
export function clockMarks({ processes, clockConflicts }: Pick<RunModel, 'processes' | 'clockConflicts'>): ClockMarks {
  const all = processes.flatMap(({ rank, alignment }) => alignment.shifted.map((stretch) => ({ ...stretch, rank })));
  if (all.length === 0 && clockConflicts.length === 0) return noClockMarks;
  all.sort((a, b) => a.from - b.from);
  const shifted: { from: number; until: number; most: number; ranks: Set<number> }[] = [];
  for (const { from, until, most, rank } of all) {
    const before = shifted.at(-1);
    if (before === undefined || from > before.until) shifted.push({ from, until, most, ranks: new Set([rank]) });
    else {
      before.until = Math.max(before.until, until);
      before.most = Math.max(before.most, most);
      before.ranks.add(rank);
    }
  }
  return { conflicts: clockConflicts, shifted };
}

/** Texts of the marks within `reach` ns of a time, a line each; of several conflicts, the one with the most slack. */
export function marksAt({ conflicts, shifted }: ClockMarks, time: number, reach: number): readonly string[] {
  const near = conflicts.filter((conflict) => Math.abs(conflict.time - time) <= reach).sort((a, b) => b.slack - a.slack);
  const stretch = stretchAt(shifted, time, reach);
  return [
    ...near.slice(0, 1).map(conflictText),
    ...(near.length > 1 ? [`and ${formatMany(near.length - 1, 'more contradiction')} here`] : []),
    ...(stretch === undefined ? [] : [`${shiftText(stretch.most)} on rank ${formatRanks([...stretch.ranks])}`]),
  ];
}

/** The stretch that holds a time, or comes within `reach` ns of it. */
export const stretchAt = <Stretch extends { readonly from: number; readonly until: number }>(
  stretches: readonly Stretch[],
  time: number,
  reach: number,
): Stretch | undefined => stretches.find(({ from, until }) => time >= from - reach && time <= until + reach);

/** The ± ns of a process's clock at a time; null when it is not aligned. */
export function boundAt({ bound, bounds }: Pick<ViewAlignment, 'bound' | 'bounds'>, time: number): number | null {
  let [low, high] = [0, bounds.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((bounds[middle] as readonly [number, number])[0] <= time) low = middle + 1;
    else high = middle;
  }
  return (bounds[Math.max(0, low - 1)] ?? [time, bound])[1];
}

export const shiftText = (most: number): string => `Shifted behind their causes by up to ${formatDuration(most)}`;

function conflictText({ hosts, slack }: RunModel['clockConflicts'][number]): string {
  const more = hosts.length - hostsNamedMax;
  const named = hosts.slice(0, hostsNamedMax).join(', ');
  return `Clocks of ${named}${more > 0 ? ` and ${formatCount(more)} more` : ''} contradict each other by ${formatDuration(slack)}`;
}

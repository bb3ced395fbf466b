// Windows for a recording without steps: cut at a collective that repeats on all ranks at nearly equal intervals.
//
//   rank 0   ag rs rs AR   ag rs rs AR   ag rs rs AR        AR (by op, group and bytes) comes once a round, evenly: a round is a window
//   rank 1      rs rs AR   ag rs rs AR   ag rs rs AR        the last of all ranks are the same ones
//
// Of the candidates the one that comes least often is the longest round, if its intervals differ little.

import type { RawCollective } from '../blame/raw-steps.ts';
import { deviation, median } from '../model/robust.ts';
import type { DeviceRank } from './device-window.ts';
import type { WorkStep } from './device-work.ts';

/** Fewest windows that are worth judging. */
const windowsMin = 3;
/** Largest deviation of the intervals, as a share of their median. */
const unevenMax = 0.25;

export interface RepeatingWindows {
  /** Op, group and bytes of the collective. */
  readonly name: string;
  /** By rank. */
  readonly windows: readonly (readonly WorkStep[])[];
}

/** `names`: op, group and bytes of each part. Undefined where nothing repeats evenly on all ranks. */
export function repeatingWindows(ranks: readonly DeviceRank[], names: ReadonlyMap<RawCollective, string>): RepeatingWindows | undefined {
  const byName = ranks.map(({ collectives }) => {
    const entries = new Map<string, number[]>();
    for (const collective of collectives) {
      const name = names.get(collective) ?? '';
      const of = entries.get(name);
      if (of === undefined) entries.set(name, [collective.entry]);
      else of.push(collective.entry);
    }
    return entries;
  });
  const candidates = [...(byName[0] ?? [])]
    .filter(([name]) => byName.every((entries) => isEven(entries.get(name) ?? [])))
    .sort(([, a], [, b]) => a.length - b.length);
  const [name] = candidates[0] ?? [];
  if (name === undefined) return undefined;
  const windows = byName.map((entries) => {
    const cuts = entries.get(name) ?? [];
    // Recordings begin at different times and end together: windows are numbered from the end.
    return cuts.slice(1).map((end, index): WorkStep => ({ number: index + 2 - cuts.length, start: cuts[index] as number, end }));
  });
  return { name, windows };
}

function isEven(entries: readonly number[]): boolean {
  if (entries.length <= windowsMin) return false;
  const intervals = Float64Array.from(entries.slice(1), (entry, index) => entry - (entries[index] as number));
  return deviation(intervals) <= unevenMax * median(intervals);
}

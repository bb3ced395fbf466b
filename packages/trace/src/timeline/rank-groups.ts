// The ranks seen in each group's collectives, and the parallel axis that a group's name suggests.

import type { ViewGroup } from '@ranktrace/protocol';
import { collectiveNumber, countedPlace } from '../match/collective-number.ts';
import { displayName } from '../model/shown-name.ts';
import { timelineLimits } from './timeline-limits.ts';

const isRestOfName = /[\s\d_:.#/,;|()[\]{}<>=-]/;

/** The parallel axis of a group's name, the text before its number or its ranks: `tp 3`, `tp3`, `dp_0`, `tp [0, 1]` → `tp`, `tp`, `dp`, `tp`. */
export function axisOf(group: string): string {
  let end = group.length;
  while (end > 0 && isRestOfName.test(group[end - 1] as string)) end--;
  return end === 0 ? 'group' : group.slice(0, end);
}

/** The axis of a group of all ranks. */
export const worldAxis = 'world';

export class RankGroups {
  /** Grows whenever a rank is seen in a group for the first time. */
  revision = 0;
  readonly #ranks = new Map<string, Set<number>>();
  #members = 0;
  /** By group and window: the greatest place from the end, which is the number of collectives. */
  readonly #counted = new Map<string, Map<number, number>>();

  see(group: string, rank: number): void {
    let ranks = this.#ranks.get(group);
    if (ranks === undefined) {
      if (this.#ranks.size >= timelineLimits.timelineGroupsMax) return;
      ranks = new Set();
      this.#ranks.set(group, ranks);
    }
    if (ranks.has(rank) || this.#members >= timelineLimits.timelineGroupRanksMax) return;
    ranks.add(rank);
    this.#members++;
    this.revision++;
  }

  /** Notes a collective's number, where it was counted from the end of a window. */
  count(group: string, sequence: number): void {
    const counted = countedPlace(sequence);
    if (counted === undefined) return;
    let windows = this.#counted.get(group);
    if (windows === undefined) {
      if (this.#counted.size >= timelineLimits.timelineGroupsMax) return;
      windows = new Map();
      this.#counted.set(group, windows);
    }
    const known = windows.get(counted.window);
    if (known === undefined && windows.size >= timelineLimits.timelineGroupWindowsMax) return;
    if (counted.place > (known ?? 0)) windows.set(counted.window, counted.place);
  }

  /** A collective's number for people: `#7`; counted from the end of a window, its place there: `#28 of 42`. */
  numberText(group: string, sequence: number): string {
    const counted = countedPlace(sequence);
    const all = counted === undefined ? undefined : this.#counted.get(group)?.get(counted.window);
    if (counted === undefined || all === undefined) return collectiveNumber(sequence).replace(/^, /, '');
    const inWindow =
      counted.window === 0 && this.#counted.get(group)?.size === 1 ? '' : collectiveNumber(sequence).replace(/^.*?( of |$)/, '$1');
    return `#${all - counted.place + 1} of ${all}${inWindow}`;
  }

  /** Ranks seen in a group. */
  ranksOf(group: string): ReadonlySet<number> | undefined {
    return this.#ranks.get(group);
  }

  /** All groups, by axis and group; `ranks`: the run's number of ranks. */
  shown(ranks: number): ViewGroup[] {
    const groups = [...this.#ranks].map(([group, members]) => ({
      axis: members.size >= ranks ? worldAxis : displayName(axisOf(group)),
      group: displayName(group),
      ranks: [...members].sort((a, b) => a - b),
    }));
    return groups.sort((a, b) => compare(a.axis, b.axis) || compareGroups(a.group, b.group));
  }
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** `tp 2` before `tp 10`. */
const compareGroups = (a: string, b: string): number => a.length - b.length || compare(a, b);

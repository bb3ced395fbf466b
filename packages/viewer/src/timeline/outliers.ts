// Chooses the ranks that represent a large run, and the band of the others: nobody reads a thousand rows, but the slowest, the fastest and a typical
// one show the picture, and the rest is least, median and greatest step time over time.

import type { Overview, OverviewRank } from '@ranktrace/protocol';
import { type Blamed, rankPhases } from '../overview/slow-ranks.ts';
import { binRange } from '../overview/step-bins.ts';

/** `slow`: it keeps the others waiting, or is clearly slower than they are in a phase of its own. */
export type Representative = 'slow' | 'slowest' | 'median' | 'fastest';

/** Why a rank represents the others; of its lives, the one in which it was so. */
export interface Represented {
  readonly as: Representative | undefined;
  /** Index of that life's process; undefined where nothing is known of steps. */
  readonly process: number | undefined;
}

const slowMax = 3;

/**
 * For more than `openMax` ranks: the slow ones (at most three, else the slowest), the median and the fastest; without steps, the first two represent
 * all. For fewer, which are all shown anyway, the slow ones; one alone is slower than nothing.
 */
export function representativesOf(
  overview: Blamed | undefined,
  ranks: readonly number[],
  openMax: number,
): ReadonlyMap<number, Represented> {
  const found = new Map<number, Represented>();
  const add = ({ rank, process }: OverviewRank, as: Representative): void => {
    if (!found.has(rank)) found.set(rank, { as, process });
  };
  // The slowest first: by the others' waiting for them, and by phases that are not waiting, as all steps are equally long.
  const bySlowness = overview === undefined ? [] : rankPhases(overview);
  for (const { rank, standsOut } of bySlowness.slice(0, slowMax)) if (standsOut && bySlowness.length > 1) add(rank, 'slow');
  if (ranks.length <= openMax) return found;
  if (bySlowness.length < 4) {
    for (const rank of [...new Set(ranks)].sort((a, b) => a - b).slice(0, 2)) found.set(rank, { as: undefined, process: undefined });
    return found;
  }
  const put = (at: number, as: Representative): void => {
    const rank = bySlowness[at]?.rank;
    if (rank !== undefined) add(rank, as);
  };
  if (found.size === 0) put(0, 'slowest');
  put(bySlowness.length - 1, 'fastest');
  put(bySlowness.length >> 1, 'median');
  return found;
}

/** Step times of some ranks over time, ns; NaN where no rank has a step. */
export interface Band {
  /** Begin and end of each bin. */
  readonly times: readonly number[];
  readonly ends: readonly number[];
  readonly low: Float64Array;
  readonly median: Float64Array;
  readonly high: Float64Array;
  /** The greatest of all ranks and bins, so that bands can be compared. */
  readonly most: number;
}

/** The band of those ranks. */
export function bandOf(overview: Pick<Overview, 'bins' | 'times' | 'toStep' | 'ranks' | 'slowest'>, ranks: readonly number[]): Band {
  const wanted = new Set(ranks);
  const cells = overview.ranks.filter(({ rank }) => wanted.has(rank)).map((each) => each.cells);
  const bins = overview.times.length;
  const low = new Float64Array(bins).fill(Number.NaN);
  const median = new Float64Array(bins).fill(Number.NaN);
  const high = new Float64Array(bins).fill(Number.NaN);
  const values: number[] = [];
  for (let bin = 0; bin < bins; bin++) {
    values.length = 0;
    for (const each of cells) {
      const value = each[bin];
      if (value !== null && value !== undefined) values.push(value);
    }
    if (values.length === 0) continue;
    values.sort((a, b) => a - b);
    low[bin] = values[0] as number;
    median[bin] = values[values.length >> 1] as number;
    high[bin] = values[values.length - 1] as number;
  }
  let most = 0;
  for (const value of overview.slowest) if (value !== null && value > most) most = value;
  for (const value of high) if (value > most) most = value;
  const ends = overview.times.map((time, bin) => binRange(overview, bin)?.until ?? time);
  return { times: overview.times, ends, low, median, high, most };
}

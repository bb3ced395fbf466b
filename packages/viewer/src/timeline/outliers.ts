// Which ranks stand for all of a large run, and the band of the others: nobody reads a thousand rows, but the slowest, the fastest and a typical
// one say what there is to see, and the rest is least, median and greatest step time over time.

import type { Overview } from '@ranktrace/protocol';

export type Representative = 'slowest' | 'slow' | 'median' | 'fastest';

/** The slowest two, the median and the fastest by mean step; without steps, the first `ranks` stand for all. */
export function representativesOf(
  overview: Pick<Overview, 'ranks'> | undefined,
  ranks: readonly number[],
): ReadonlyMap<number, Representative> {
  const found = new Map<number, Representative>();
  const byStep = (overview?.ranks ?? []).filter(({ steps }) => steps > 0).sort((a, b) => a.mean - b.mean || a.rank - b.rank);
  if (byStep.length < 4) {
    for (const rank of [...new Set(ranks)].sort((a, b) => a - b).slice(0, 2)) found.set(rank, 'median');
    return found;
  }
  const put = (place: number, as: Representative): void => {
    const { rank } = byStep[place] as { rank: number };
    if (!found.has(rank)) found.set(rank, as);
  };
  put(byStep.length - 1, 'slowest');
  put(0, 'fastest');
  put(byStep.length >> 1, 'median');
  put(byStep.length - 2, 'slow');
  return found;
}

/** Step times of some ranks over time, ns; NaN where nobody has a step. */
export interface Band {
  /** When each bin begins; it ends where the next begins. */
  readonly times: readonly number[];
  readonly low: Float64Array;
  readonly median: Float64Array;
  readonly high: Float64Array;
  /** The greatest of all ranks and bins, so that bands can be compared. */
  readonly most: number;
}

/** The band of those ranks. */
export function bandOf(overview: Pick<Overview, 'times' | 'ranks' | 'slowest'>, ranks: readonly number[]): Band {
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
  return { times: overview.times, low, median, high, most };
}

// The steps of an overview by its bins: the steps and the time of a bin, its slowest rank, and the number of bins to request.
//
//   bins     0        10        20        30      toStep 36
//            ├────────┼─────────┼─────────┼──────┤         a bin ends where the next begins, the last at toStep (which is in it)
//
// Invariant: a bin's range of time is never empty, and lies within the overview's times.

import type { Overview, OverviewRank } from '@ranktrace/protocol';

/** Place of a bin: steps `fromStep` to `toStep` (both included), trace time in ns. */
export interface BinRange {
  readonly fromStep: number;
  readonly toStep: number;
  readonly from: number;
  readonly until: number;
}

/** Cells (ranks × bins) that one answer may have: with both means and peaks some 4 MB of JSON, read in less than a frame or two. */
const cellsMax = 2 ** 17;
const binsMin = 32;
/** Number of bins requested while the number of ranks is unknown: few enough for a thousand ranks, so that they need no second request. */
export const firstBins = 128;

/**
 * Number of bins to request: no more than the chart has distinct pixels, fewer with many ranks, and in multiples of `binsMin`, so that a resized
 * window does not request all the time.
 */
export function binsFor(ranks: number | undefined, widthPx: number): number {
  if (ranks === undefined) return firstBins;
  const most = Math.min(512, widthPx / 2, cellsMax / Math.max(ranks, 1));
  return Math.max(1, Math.floor(most / binsMin)) * binsMin;
}

type Bins = Pick<Overview, 'bins' | 'times' | 'toStep' | 'slowest'>;

/** The last step of a bin. */
export const lastStepOf = ({ bins, toStep }: Pick<Overview, 'bins' | 'toStep'>, bin: number): number =>
  Math.max(bins[bin] ?? 0, bin + 1 < bins.length ? (bins[bin + 1] as number) - 1 : toStep);

/** Undefined where there is no such bin. */
export function binRange(overview: Bins, bin: number): BinRange | undefined {
  const { bins, times, slowest } = overview;
  const [fromStep, from] = [bins[bin], times[bin]];
  if (fromStep === undefined || from === undefined) return undefined;
  const toStep = lastStepOf(overview, bin);
  const next = times[bin + 1];
  // The last bin, and a bin before a rank's restart: as long as its steps.
  const until = next !== undefined && next > from ? next : from + Math.max(1, (slowest[bin] ?? 0) * (toStep - fromStep + 1));
  return { fromStep, toStep, from, until };
}

/** Place of a bin in a row of the heat map: where its rank was started again, the time of its own life. */
export function cellRange(overview: Bins, { starts, cells }: Pick<OverviewRank, 'starts' | 'cells'>, bin: number): BinRange | undefined {
  const range = binRange(overview, bin);
  const from = starts?.[bin] ?? undefined;
  if (range === undefined || from === undefined) return range;
  const next = starts?.[bin + 1] ?? undefined;
  const until = next !== undefined && next > from ? next : from + Math.max(1, (cells[bin] ?? 0) * (range.toStep - range.fromStep + 1));
  return { ...range, from, until };
}

/** The bin that holds a step; undefined outside. */
export function binOfStep(overview: Pick<Overview, 'bins' | 'toStep'>, step: number): number | undefined {
  const { bins, toStep } = overview;
  // Written such that NaN, an empty field's number, is outside.
  const isInside = bins.length > 0 && step >= (bins[0] as number) && step <= Math.max(toStep, bins.at(-1) as number);
  if (!isInside) return undefined;
  let [low, high] = [0, bins.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if ((bins[middle] as number) <= step) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** Time when a step begins, ns of trace time: interpolated between the begins of its bin and the next; undefined outside. */
export function timeOfStep(overview: Bins, step: number): number | undefined {
  const bin = binOfStep(overview, step);
  const range = bin === undefined ? undefined : binRange(overview, bin);
  if (range === undefined) return undefined;
  return range.from + ((step - range.fromStep) / (range.toStep - range.fromStep + 1)) * (range.until - range.from);
}

/** The rank whose longest step in a bin is the longest of all: the one to look at. */
export function slowestRankIn(ranks: readonly OverviewRank[], bin: number): OverviewRank | undefined {
  let slowest: OverviewRank | undefined;
  for (const rank of ranks) {
    const cell = rank.peaks[bin] ?? undefined;
    if (cell !== undefined && (slowest === undefined || cell > (slowest.peaks[bin] as number))) slowest = rank;
  }
  return slowest;
}

/** The longest step of any rank in each bin, ns; null where there is none. */
export const longestSteps = ({ bins, ranks }: Pick<Overview, 'bins' | 'ranks'>): readonly (number | null)[] =>
  bins.map((_, bin) =>
    ranks.reduce<number | null>((longest, { peaks }) => {
      const peak = peaks[bin] ?? null;
      return peak === null || (longest !== null && longest >= peak) ? longest : peak;
    }, null),
  );

/** A bin's steps for a person: `step 12`, `steps 10–19`. */
export const stepsText = (fromStep: number, toStep: number): string =>
  fromStep === toStep ? `step ${fromStep}` : `steps ${fromStep}–${toStep}`;

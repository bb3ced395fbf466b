// The range of a chart of step times: from 0, so that twice as high is twice as long, unless all values differ by little, and then wide enough that
// a scatter of 1 % stays small; the top ignores a first step that takes a hundred times as long as all others.

export interface ChartRange {
  /** ns. */
  readonly low: number;
  readonly high: number;
  /** Indexes of the values above `high`. */
  readonly beyond: readonly number[];
}

/** Beyond this many times the 95th percentile, a value does not set the scale. */
const farTimes = 2.5;

/** Room below the values, as a part of them: the chart shows a tenth of their size at least. */
const scatterPart = 0.1;

/** The range that shows `lines` (values by the same index; null where there is none). */
export function chartRange(lines: readonly (readonly (number | null)[])[]): ChartRange {
  const values = lines
    .flat()
    .filter((value) => value !== null)
    .sort((a, b) => a - b);
  const greatest = values.at(-1);
  if (greatest === undefined || greatest <= 0) return { low: 0, high: 1, beyond: [] };
  const usual = values[Math.floor((values.length - 1) * 0.95)] as number;
  const top = greatest > farTimes * usual && usual > 0 ? 1.25 * usual : greatest;
  const shownLow = values[0] as number;
  // Below a fifth of the height, differences are too small to see on a scale from 0.
  const low = top - shownLow < top / 5 ? Math.max(0, shownLow - Math.max(top - shownLow, scatterPart * top)) : 0;
  const high = top + 0.06 * (top - low || top);
  const beyond = new Set(lines.flatMap((line) => line.flatMap((value, at) => (value !== null && value > high ? [at] : []))));
  return { low, high, beyond: [...beyond].sort((a, b) => a - b) };
}

// Whether a series of measurements grows: Theil and Sen's slope, and the slope that it has at least, noise taken off.
//
// Memory of a process is a saw: it rises until garbage is collected. Neighbours are alike, so each slope is one between medians of blocks.

import { median } from './figure.ts';

/** One measurement; `at` in s. */
export interface Sample {
  readonly at: number;
  readonly value: number;
}

export interface Trend {
  readonly median: number;
  /** Median of the slopes between all pairs of blocks, per s. */
  readonly slope: number;
  /** Bounds of the slope at 95 %, from Kendall's variance. */
  readonly least: number;
  readonly most: number;
}

const blocks = 20;

/** The trend of samples that are spread evenly; at least 2 must be there. */
export function trendOf(samples: readonly Sample[]): Trend {
  const count = Math.min(blocks, samples.length);
  const points = Array.from({ length: count }, (_, block) => {
    const part = samples.slice(Math.round((block * samples.length) / count), Math.round(((block + 1) * samples.length) / count));
    return { at: median(part.map(({ at }) => at)), value: median(part.map(({ value }) => value)) };
  });
  const slopes = points
    .flatMap((one, index) => points.slice(index + 1).map((later) => (later.value - one.value) / (later.at - one.at)))
    .sort((a, b) => a - b);
  const width = 1.96 * Math.sqrt((count * (count - 1) * (2 * count + 5)) / 18);
  const rank = (place: number): number => slopes[Math.min(slopes.length - 1, Math.max(0, Math.round(place)))] as number;
  return {
    median: median(samples.map(({ value }) => value)),
    slope: median(slopes),
    least: rank((slopes.length - width) / 2 - 1),
    most: rank((slopes.length + width) / 2),
  };
}

// A counter as columns of pixels: the value at the end of each, and its range within.

import type { CounterTile } from '@ranktrace/protocol';

/** One value per column; NaN where it is unknown. */
export interface CounterColumns {
  readonly last: Float64Array;
  readonly low: Float64Array;
  readonly high: Float64Array;
}

export function emptyColumns(width: number): CounterColumns {
  return { last: new Float64Array(width), low: new Float64Array(width), high: new Float64Array(width) };
}

/** The values of each column of pixels: at its end, and the least and greatest in it. */
export function fillColumns(
  tile: CounterTile,
  from: number,
  scale: number,
  clipLeft: number,
  clipRight: number,
  columns: CounterColumns,
): void {
  const { time, last, low, high } = tile;
  for (let item = 0; item < time.length; item++) {
    const x = ((time[item] as number) - from) * scale;
    const next = item + 1 < time.length ? ((time[item + 1] as number) - from) * scale : clipRight;
    if (next < clipLeft) continue;
    if (x >= clipRight) break;
    const value = last[item] as number;
    const at = Math.floor(x);
    if (at >= clipLeft) {
      const [least, most] = [low[item] as number, high[item] as number];
      // Written such that NaN, of values that are no numbers, gives way to a number.
      if (!((columns.low[at] as number) <= least || Number.isNaN(least))) columns.low[at] = least;
      if (!((columns.high[at] as number) >= most || Number.isNaN(most))) columns.high[at] = most;
      columns.last[at] = value;
    }
    const [x0, x1] = [Math.max(clipLeft, at + 1), Math.min(clipRight, Math.ceil(next))];
    if (x0 >= x1) continue;
    columns.last.fill(value, x0, x1);
    columns.low.fill(value, x0, x1);
    columns.high.fill(value, x0, x1);
  }
}

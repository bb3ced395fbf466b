// A tile of a counter from the values in its window, in trace time: one item per cell of the grain, and the value in force at its start.

import { type CounterTile, type TileKey, tileGrains, tileWidth } from '@ranktrace/protocol';
import type { TimelineClock } from './timeline-clock.ts';

/** Values of one cell: `time` of the first, own clock, ns. A value is NaN where the counter has no number; `low` and `high` where none has. */
export interface CounterItem {
  readonly time: number;
  readonly last: number;
  readonly low: number;
  readonly high: number;
  readonly count: number;
}

/** Cells of one tile: values come in any order; of equal times the last to come counts. */
export class CounterItems {
  readonly clock: TimelineClock;
  readonly time = new Float64Array(tileGrains).fill(Number.POSITIVE_INFINITY);
  readonly last = new Float64Array(tileGrains);
  readonly low = new Float64Array(tileGrains).fill(Number.POSITIVE_INFINITY);
  readonly high = new Float64Array(tileGrains).fill(Number.NEGATIVE_INFINITY);
  readonly count = new Float64Array(tileGrains);
  readonly #latest = new Float64Array(tileGrains).fill(Number.NEGATIVE_INFINITY);
  readonly #from: number;
  readonly #until: number;

  constructor(clock: TimelineClock, from: number, until: number) {
    this.clock = clock;
    this.#from = from;
    this.#until = until;
  }

  add(own: number, last: number, low: number, high: number, count: number): void {
    const time = this.clock.toTrace(own);
    if (time < this.#from || time >= this.#until) return;
    const cell = Math.floor(((time - this.#from) / (this.#until - this.#from)) * tileGrains);
    if (time < (this.time[cell] as number)) this.time[cell] = time;
    if (time >= (this.#latest[cell] as number)) {
      this.#latest[cell] = time;
      this.last[cell] = last;
    }
    if (low < (this.low[cell] as number)) this.low[cell] = low;
    if (high > (this.high[cell] as number)) this.high[cell] = high;
    (this.count[cell] as number) += count;
  }
}

/** `before`: the latest value before the tile, if any. */
export function counterTile(
  key: TileKey,
  items: CounterItems,
  before: CounterItem | undefined,
  version: number,
  complete: boolean,
): CounterTile {
  const from = key.index * tileWidth(key.level);
  const cells: number[] = [];
  for (let cell = 0; cell < tileGrains; cell++) if ((items.count[cell] as number) > 0) cells.push(cell);
  const timeBefore = before === undefined ? 0 : Math.min(items.clock.toTrace(before.time), from);
  const column = (values: Float64Array, first: number | undefined): Float64Array => {
    // Without a number, least and greatest are still what they began with.
    const rest = cells.map((cell) =>
      Math.abs(values[cell] as number) === Number.POSITIVE_INFINITY ? Number.NaN : (values[cell] as number),
    );
    return Float64Array.from(first === undefined ? rest : [first, ...rest]);
  };
  return {
    type: 'counter',
    ...key,
    version,
    complete,
    time: column(items.time, before && timeBefore),
    last: column(items.last, before?.last),
    low: column(items.low, before?.low),
    high: column(items.high, before?.high),
    count: Uint32Array.from(column(items.count, before?.count)),
  };
}

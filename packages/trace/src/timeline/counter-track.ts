// A counter's line: values in blocks, and levels above them that keep each cell's last, least and greatest value.
//
//   values   ·  · ·    ·  ··
//   level k  [ last low high count ]  per cell of the grain; the last cell is held back until a value of the next one comes
//
// A value that is no number, as of a loss that diverged, is NaN: from there to the next value the line has a gap. Least and greatest leave it out.
//
// As with spans, a finished block's values enter the level that fits their density, and all levels above it.

import { type CounterTile, type TileKey, tileWidth } from '@ranktrace/protocol';
import { hasArguments, visitArguments } from '../model/event-arguments.ts';
import type { TraceEvent, TraceLane } from '../model/trace-sink.ts';
import type { BlockCache } from './block-cache.ts';
import { BlockLog } from './block-log.ts';
import { type CounterItem, CounterItems, counterTile } from './counter-tile.ts';
import type { IndexParts } from './index-parts.ts';
import { coarsestLevel, grainOf, levelFor } from './level-grains.ts';
import type { ProcessTimeline } from './process-timeline.ts';
import { TrackTimeline } from './track-timeline.ts';

/** Own time, ns. */
const valueColumns = { time: 'f64', value: 'f64', detail: 'f64' } as const;
/** `time`: that of the cell's first value. */
const cellColumns = { time: 'f64', last: 'f64', low: 'f64', high: 'f64', count: 'u32' } as const;

class CounterLevel {
  readonly log: BlockLog<typeof cellColumns>;
  readonly #grain: number;
  #held: { time: number; last: number; low: number; high: number; count: number } | undefined;
  #cell = 0;

  constructor(level: number, cache: BlockCache) {
    this.#grain = grainOf(level);
    this.log = new BlockLog(cache, cellColumns);
  }

  get held(): CounterItem | undefined {
    return this.#held;
  }

  /** Takes an item; returns the one that it completes. */
  add(item: CounterItem, rowsMax: number): CounterItem | undefined {
    const cell = Math.floor(item.time / this.#grain);
    const held = this.#held;
    if (held !== undefined && cell === this.#cell) {
      held.last = item.last;
      held.low = leastOf(held.low, item.low);
      held.high = greatestOf(held.high, item.high);
      held.count += item.count;
      return undefined;
    }
    this.#held = { ...item };
    this.#cell = cell;
    if (held !== undefined) this.#write(held, rowsMax);
    return held;
  }

  #write(item: CounterItem, rowsMax: number): void {
    const { log } = this;
    const row = log.next();
    const { columns } = log;
    columns.time[row] = item.time;
    columns.last[row] = item.last;
    columns.low[row] = item.low;
    columns.high[row] = item.high;
    columns.count[row] = item.count;
    log.cover(item.time, item.time);
    if (++log.rows >= rowsMax) log.finish();
  }
}

export class CounterTrack extends TrackTimeline {
  log: BlockLog<typeof valueColumns>;
  #levels: (CounterLevel | undefined)[] = [];
  /** The level that each finished block's values entered first. */
  #entries: number[] = [];
  #low = Number.POSITIVE_INFINITY;
  #high = Number.NEGATIVE_INFINITY;

  constructor(id: number, process: ProcessTimeline, lane: TraceLane, parts: IndexParts) {
    super(id, process, lane, parts);
    this.log = new BlockLog(parts.cache, valueColumns);
  }

  override get events(): number {
    return this.log.length;
  }

  override get depth(): number {
    return 1;
  }

  override get range(): readonly [number, number] {
    return this.#low <= this.#high ? [this.#low, this.#high] : [0, 0];
  }

  override add(event: TraceEvent): void {
    const { log } = this;
    const row = log.next();
    const value = Number.isFinite(event.value) ? event.value : Number.NaN;
    log.columns.time[row] = event.start;
    log.columns.value[row] = value;
    log.columns.detail[row] = hasArguments(event) ? this.#report(event) : 0;
    log.cover(event.start, event.start);
    this.#low = leastOf(this.#low, value);
    this.#high = greatestOf(this.#high, value);
    if (++log.rows >= this.parts.blockRows) this.#finishBlock();
  }

  override tile(key: TileKey): CounterTile {
    const { clock, version } = this.process;
    const from = key.index * tileWidth(key.level);
    const until = from + tileWidth(key.level);
    const items = new CounterItems(clock, from, until);
    const [ownFrom, ownUntil] = [clock.toOwn(from) - 4, clock.toOwn(until) + 4];
    this.#collect(items, ownFrom, ownUntil, 2 ** key.level);
    return counterTile(
      key,
      items,
      this.#valueBefore(ownFrom + 8, (own) => clock.toTrace(own) < from),
      version,
      this.process.isCompleteUntil(until),
    );
  }

  /** Least, greatest and time-weighted mean value between two trace times, of the numbers alone; undefined if none is known there. */
  summary(from: number, until: number): { readonly low: number; readonly high: number; readonly mean: number } | undefined {
    const { clock } = this.process;
    const [start, end] = [clock.toOwn(from), Math.min(clock.toOwn(until), Math.max(this.process.until, clock.toOwn(from)))];
    const before = this.#valueBefore(start, (own) => own < start);
    let [low, high] = [leastOf(Number.POSITIVE_INFINITY, before?.low), greatestOf(Number.NEGATIVE_INFINITY, before?.high)];
    let [held, since, area, covered] = [before?.last ?? Number.NaN, start, 0, 0];
    const { log } = this;
    const hold = (until: number): void => {
      if (Number.isNaN(held) || !(until > since)) return;
      area += held * (until - since);
      covered += until - since;
    };
    for (let block = 0; block < log.blocks; block++) {
      if (log.from(block) > end || log.until(block) < start) continue;
      const { time, value } = log.read(block);
      for (let row = 0; row < log.rowsOf(block); row++) {
        const at = time[row] as number;
        if (at < start || at > end) continue;
        const one = value[row] as number;
        low = leastOf(low, one);
        high = greatestOf(high, one);
        hold(at);
        held = one;
        since = Math.max(since, at);
      }
    }
    hold(end);
    return low > high ? undefined : { low, high, mean: covered > 0 ? area / covered : Number.isNaN(held) ? high : held };
  }

  override clear(): void {
    this.log = new BlockLog(this.parts.cache, valueColumns);
    this.#levels = [];
    this.#entries = [];
    this.#low = Number.POSITIVE_INFINITY;
    this.#high = Number.NEGATIVE_INFINITY;
  }

  #collect(items: CounterItems, from: number, until: number, grain: number): void {
    let level = -1;
    for (const [each, one] of this.#levels.entries()) if (one !== undefined && grainOf(each) <= grain) level = each;
    const cells = this.#levels[level]?.log;
    for (let block = 0; cells !== undefined && block < cells.blocks; block++) {
      if (cells.from(block) >= until || cells.until(block) < from) continue;
      const { time, last, low, high, count } = cells.read(block);
      for (let row = 0; row < cells.rowsOf(block); row++) {
        items.add(time[row] as number, last[row] as number, low[row] as number, high[row] as number, count[row] as number);
      }
    }
    for (let each = 0; each <= level; each++) {
      const held = this.#levels[each]?.held;
      if (held !== undefined) items.add(held.time, held.last, held.low, held.high, held.count);
    }
    const { log } = this;
    for (let block = 0; block < log.blocks; block++) {
      if (log.from(block) >= until || log.until(block) < from || (this.#entries[block] ?? Number.POSITIVE_INFINITY) <= level) continue;
      const { time, value } = log.read(block);
      for (let row = 0; row < log.rowsOf(block); row++) {
        const one = value[row] as number;
        items.add(time[row] as number, one, one, one, 1);
      }
    }
  }

  /** The latest value accepted by `isBefore`; all accepted ones lie before `time`. */
  #valueBefore(time: number, isBefore: (own: number) => boolean): CounterItem | undefined {
    const { log } = this;
    let found: CounterItem | undefined;
    for (let block = log.blocks - 1; block >= 0; block--) {
      if (log.from(block) >= time || (found !== undefined && log.until(block) <= found.time)) continue;
      const { time: times, value } = log.read(block);
      for (let row = 0; row < log.rowsOf(block); row++) {
        const at = times[row] as number;
        if ((found !== undefined && at < found.time) || !isBefore(at)) continue;
        const last = value[row] as number;
        found = { time: at, last, low: last, high: last, count: 1 };
      }
    }
    return found;
  }

  #finishBlock(): void {
    const { log } = this;
    const level = levelFor((log.greatest - log.least) / log.rows);
    const { time, value } = log.columns;
    for (let row = 0; row < log.rows; row++) {
      const one = value[row] as number;
      this.#feed(level, { time: time[row] as number, last: one, low: one, high: one, count: 1 });
    }
    this.#entries.push(level);
    log.finish();
  }

  #feed(level: number, first: CounterItem): void {
    let item: CounterItem | undefined = first;
    for (let each = level; item !== undefined && each <= coarsestLevel; each++) {
      let one = this.#levels[each];
      if (one === undefined) {
        one = new CounterLevel(each, this.parts.cache);
        this.#levels[each] = one;
      }
      item = one.add(item, Math.max(16, this.parts.blockRows >> 3));
    }
  }

  #report(event: TraceEvent): number {
    this.parts.details.begin();
    visitArguments(event, this.parts.details);
    return this.parts.details.end();
  }
}

/** The lesser of two values, NaN only where both are. */
const leastOf = (a: number, b = Number.NaN): number => (a <= b || Number.isNaN(b) ? a : b);
const greatestOf = (a: number, b = Number.NaN): number => (a >= b || Number.isNaN(b) ? a : b);

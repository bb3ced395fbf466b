// Levels of detail of a span track: per grain, items that merge shorter events with their neighbours of the same depth.
//
//   events   ▌▌▐ ▌ ▐███████▌ ▌▌
//   level k  ▐██▌  ▐███████▌ ▐▌      cells of the grain: |      |      |      |
//   level k+1 …                      fed with the output of level k
//
// A level holds back one item per depth, to which it adds the next short event of the same cell; its output goes to its log and to the next
// level. So for each level from the entry level up, every event is exactly once in that level's log, or held back at or below it.
// Instants are merged with instants only: they lie on the line of the spans that come after them.
// Invariant: in an item of several events, its start and the last event's start lie in one cell, and no event in it is as long as the grain.

import type { BlockCache } from './block-cache.ts';
import { BlockLog, type ColumnsOf } from './block-log.ts';
import { coarsestLevel, grainOf } from './level-grains.ts';
import { instantKind } from './span-log.ts';

/** `busy`: ns that its events cover; `longest`: ns of the longest, which `name`, `event` and `kind` describe. */
const itemColumns = {
  start: 'f64',
  length: 'f64',
  busy: 'f32',
  longest: 'f32',
  count: 'u32',
  name: 'u32',
  event: 'u32',
  depth: 'u8',
  kind: 'u8',
} as const;

export type ItemColumns = ColumnsOf<typeof itemColumns>;

/** One item; own times, ns. Objects are reused: a taker keeps none. */
export interface SpanItem {
  start: number;
  end: number;
  busy: number;
  longest: number;
  count: number;
  name: number;
  event: number;
  depth: number;
  kind: number;
}

export const spanItem = (): SpanItem => ({ start: 0, end: 0, busy: 0, longest: 0, count: 0, name: 0, event: 0, depth: 0, kind: 0 });

export type TakeItem = (item: SpanItem) => void;

/** Fields of a depth's slot in `#held`. */
const field = { start: 0, end: 1, busy: 2, longest: 3, count: 4, name: 5, event: 6, kind: 7, cell: 8, size: 9 } as const;

class SpanLevel {
  readonly log: BlockLog<typeof itemColumns>;
  readonly #grain: number;
  readonly #levels: SpanLevels;
  readonly #level: number;
  /** Slots for spans at 2 · depth, for instants at 2 · depth + 1. */
  #held = new Float64Array(8 * field.size);
  readonly #released = spanItem();

  constructor(levels: SpanLevels, level: number, cache: BlockCache) {
    this.#levels = levels;
    this.#level = level;
    this.#grain = grainOf(level);
    this.log = new BlockLog(cache, itemColumns);
  }

  add(item: SpanItem): void {
    const { start, end, busy, longest, count, depth, kind } = item;
    const slot = 2 * depth + (kind === instantKind ? 1 : 0);
    let at = slot * field.size;
    if (at >= this.#held.length) this.#grow(slot);
    const held = this.#held;
    const isHeld = (held[at + field.count] as number) > 0;
    if (longest >= this.#grain) {
      if (isHeld) this.#release(at, depth);
      this.#give(item);
      return;
    }
    const cell = Math.floor(start / this.#grain);
    if (isHeld && held[at + field.cell] === cell) {
      if (start < (held[at] as number)) held[at] = start;
      if (end > (held[at + field.end] as number)) held[at + field.end] = end;
      held[at + field.busy] = (held[at + field.busy] as number) + busy;
      held[at + field.count] = (held[at + field.count] as number) + count;
      if (longest <= (held[at + field.longest] as number)) return;
    } else {
      if (isHeld) this.#release(at, depth);
      held[at] = start;
      held[at + field.end] = end;
      held[at + field.busy] = busy;
      held[at + field.count] = count;
      held[at + field.cell] = cell;
    }
    held[at + field.longest] = longest;
    held[at + field.name] = item.name;
    held[at + field.event] = item.event;
    at += field.kind;
    held[at] = kind;
  }

  /** Visits the held items. */
  visitHeld(take: TakeItem): void {
    const held = this.#held;
    for (let at = 0; at < held.length; at += field.size) {
      if (held[at + field.count] === 0) continue;
      take(this.#heldAt(at, Math.floor(at / field.size / 2)));
    }
  }

  #release(at: number, depth: number): void {
    this.#give(this.#heldAt(at, depth));
    this.#held[at + field.count] = 0;
  }

  #heldAt(at: number, depth: number): SpanItem {
    const held = this.#held;
    const item = this.#released;
    item.start = held[at] as number;
    item.end = held[at + field.end] as number;
    item.busy = held[at + field.busy] as number;
    item.longest = held[at + field.longest] as number;
    item.count = held[at + field.count] as number;
    item.name = held[at + field.name] as number;
    item.event = held[at + field.event] as number;
    item.depth = depth;
    item.kind = held[at + field.kind] as number;
    return item;
  }

  #give(item: SpanItem): void {
    const { log } = this;
    const row = log.next();
    const { columns } = log;
    columns.start[row] = item.start;
    columns.length[row] = item.end - item.start;
    columns.busy[row] = item.busy;
    columns.longest[row] = item.longest;
    columns.count[row] = item.count;
    columns.name[row] = item.name;
    columns.event[row] = item.event;
    columns.depth[row] = item.depth;
    columns.kind[row] = item.kind;
    log.cover(item.start, item.end);
    if (++log.rows >= this.#levels.blockRows) log.finish();
    if (this.#level < coarsestLevel) this.#levels.level(this.#level + 1).add(item);
  }

  #grow(slot: number): void {
    const grown = new Float64Array(Math.max(2 * this.#held.length, (slot + 1) * field.size));
    grown.set(this.#held);
    this.#held = grown;
  }
}

export class SpanLevels {
  /** Rows at which a level's block is finished. */
  blockRows = 512;
  readonly #cache: BlockCache;
  readonly #levels: (SpanLevel | undefined)[] = [];

  constructor(cache: BlockCache) {
    this.#cache = cache;
  }

  /** The level; created if missing. */
  level(level: number): SpanLevel {
    let found = this.#levels[level];
    if (found === undefined) {
      found = new SpanLevel(this, level, this.#cache);
      this.#levels[level] = found;
    }
    return found;
  }

  /** The coarsest level with a grain of at most `grain` ns; undefined if there is none. */
  coarsestWithin(grain: number): number | undefined {
    let found: number | undefined;
    for (const [level, one] of this.#levels.entries()) {
      if (one === undefined) continue;
      if (grainOf(level) > grain) break;
      found = level;
    }
    return found;
  }

  /** Blocks of one level. */
  log(level: number): BlockLog<typeof itemColumns> | undefined {
    return this.#levels[level]?.log;
  }

  /** Visits the items held back by the levels up to this one. */
  visitHeld(level: number, take: TakeItem): void {
    for (let each = 0; each <= level; each++) this.#levels[each]?.visitHeld(take);
  }
}

// Finds the item under a pixel, and the neighbours of a span: on tiles, without a picture.

import { itemKinds, openBit, type SpanTile } from '@ranktrace/protocol';
import { firstEndingAfter, linesOf, overlapMax } from './span-line.ts';
import type { Part } from './tile-cache.ts';

/** An item of a tile, with the tile's data. */
export interface Item {
  readonly track: number;
  readonly event: number;
  readonly start: number;
  readonly length: number;
  readonly depth: number;
  /** Index of its name. */
  readonly name: number;
  /** Events that it stands for. */
  readonly count: number;
  readonly busy: number;
  readonly kind: (typeof itemKinds)[number];
  readonly isOpen: boolean;
}

/** The item of a depth at a time; else the nearest within `reach` ns. Instants win over spans, as they are drawn on top. */
export function itemAt(parts: readonly Part[], depth: number, time: number, reach: number): Item | undefined {
  let best: Item | undefined;
  let bestAway = Number.POSITIVE_INFINITY;
  for (const { entry, from, until } of parts) {
    const tile = entry.tile;
    if (tile === undefined || tile.type !== 'spans' || time + reach < from || time - reach > until) continue;
    const [first, last] = lineOf(tile, depth, entry);
    for (let item = Math.max(first, firstEndingAfter(tile, first, last, time - reach) - overlapMax); item < last; item++) {
      const begin = tile.start[item] as number;
      if (begin > time + reach) break;
      const end = begin + (tile.length[item] as number);
      const isInstant = ((tile.kind[item] as number) & ~openBit) === instantKind;
      if (isInstant && Math.abs(begin - time) > reach) continue;
      const away = isInstant
        ? Math.abs(begin - time) / 4 - 2 * reach
        : begin <= time && time < end
          ? -reach
          : Math.max(begin - time, time - end);
      if (away > reach || away >= bestAway) continue;
      best = itemOf(tile, item);
      bestAway = away;
    }
  }
  return best;
}

/** The next item of the same depth that begins after (before) `start`, or with it and has a greater (smaller) number than `event`. */
export function itemBeside(
  parts: readonly Part[],
  depth: number,
  start: number,
  event: number,
  direction: 'next' | 'previous',
): Item | undefined {
  let best: Item | undefined;
  for (const { entry } of parts) {
    const tile = entry.tile;
    if (tile === undefined || tile.type !== 'spans') continue;
    const [first, last] = lineOf(tile, depth, entry);
    for (let item = first; item < last; item++) {
      const begin = tile.start[item] as number;
      const number = tile.event[item] as number;
      if (number === event) continue;
      if (direction === 'next') {
        if (best !== undefined && begin > best.start) break;
        const isAfter = begin > start || (begin === start && number > event);
        if (isAfter && (best === undefined || begin < best.start || number < best.event)) best = itemOf(tile, item);
      } else {
        if (begin > start) break;
        const isBefore = begin < start || number < event;
        if (isBefore && (best === undefined || begin > best.start || (begin === best.start && number > best.event)))
          best = itemOf(tile, item);
      }
    }
  }
  return best;
}

/** The item of a depth that covers most of [from, until]; else the nearest to its middle. */
export function itemOver(parts: readonly Part[], depth: number, from: number, until: number): Item | undefined {
  let best: Item | undefined;
  let bestRank = Number.NEGATIVE_INFINITY;
  const middle = (from + until) / 2;
  for (const { entry } of parts) {
    const tile = entry.tile;
    if (tile === undefined || tile.type !== 'spans') continue;
    const [first, last] = lineOf(tile, depth, entry);
    for (let item = first; item < last; item++) {
      const begin = tile.start[item] as number;
      const end = begin + (tile.length[item] as number);
      const shared = Math.min(until, end) - Math.max(from, begin);
      const rank = shared > 0 ? shared : shared - Math.abs((begin + end) / 2 - middle);
      if (rank > bestRank) {
        best = itemOf(tile, item);
        bestRank = rank;
      }
    }
  }
  return best;
}

/** A counter's value at a time: the last one set, and the range of values where several were merged. */
export function valueAt(
  parts: readonly Part[],
  time: number,
): { readonly last: number; readonly low: number; readonly high: number; readonly count: number } | undefined {
  let best: { last: number; low: number; high: number; count: number } | undefined;
  let bestTime = Number.NEGATIVE_INFINITY;
  for (const { entry } of parts) {
    const tile = entry.tile;
    if (tile === undefined || tile.type !== 'counter') continue;
    for (let item = 0; item < tile.time.length; item++) {
      const at = tile.time[item] as number;
      if (at > time) break;
      if (at < bestTime) continue;
      bestTime = at;
      best = {
        last: tile.last[item] as number,
        low: tile.low[item] as number,
        high: tile.high[item] as number,
        count: tile.count[item] as number,
      };
    }
  }
  return best;
}

const instantKind = itemKinds.indexOf('instant');

function lineOf(tile: SpanTile, depth: number, entry: Part['entry']): readonly [number, number] {
  entry.lines ??= linesOf(tile);
  return depth + 1 < entry.lines.length ? [entry.lines[depth] as number, entry.lines[depth + 1] as number] : [0, 0];
}

function itemOf(tile: SpanTile, item: number): Item {
  const kind = tile.kind[item] as number;
  return {
    track: tile.track,
    event: tile.event[item] as number,
    start: tile.start[item] as number,
    length: tile.length[item] as number,
    depth: tile.depth[item] as number,
    name: tile.name[item] as number,
    count: tile.count[item] as number,
    busy: tile.busy[item] as number,
    kind: itemKinds[kind & ~openBit] ?? 'span',
    isOpen: (kind & openBit) !== 0,
  };
}

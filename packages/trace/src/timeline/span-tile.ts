// A tile of spans from the items in its window: mapped to trace time, and merged further to the tile's grain.
//
//   own clock   items of a level, or events     read with a slightly wider window
//   trace time  items that overlap the tile     short ones of one depth and cell become one
//
// Invariant: every event that overlaps the tile counts in exactly one item of it; one as long as the grain is an item with its own times.

import { makeTile, openBit, type SpanTile, type TileKey, tileWidth } from '@ranktrace/protocol';
import { instantKind } from './span-log.ts';
import type { TileItems } from './tile-items.ts';
import type { TimelineClock } from './timeline-clock.ts';

/** An open event; own times, ns. */
export interface OpenItem {
  readonly start: number;
  readonly name: number;
  readonly event: number;
  readonly depth: number;
  readonly kind: number;
}

class TileRows {
  readonly start: number[] = [];
  readonly end: number[] = [];
  readonly busy: number[] = [];
  readonly longest: number[] = [];
  readonly count: number[] = [];
  readonly name: number[] = [];
  readonly event: number[] = [];
  readonly depth: number[] = [];
  readonly kind: number[] = [];
}

/** `opens` last until `now` (own). `complete`: nothing more can come before the tile's end; a tile with an open span is never complete. */
export function spanTile(
  key: TileKey,
  items: TileItems,
  clock: TimelineClock,
  version: number,
  complete: boolean,
  opens: readonly OpenItem[],
  now: number,
): SpanTile {
  const grain = 2 ** key.level;
  const from = key.index * tileWidth(key.level);
  const until = from + tileWidth(key.level);
  const rows = new TileRows();
  let hasOpen = false;
  // Rows still open for short items: one for spans, one for instants.
  let [spanRow, instantRow] = [-1, -1];
  let [spanCell, instantCell] = [0, 0];
  let line = -1;
  const put = (
    start: number,
    end: number,
    busy: number,
    longest: number,
    count: number,
    name: number,
    event: number,
    depth: number,
    kind: number,
  ): number => {
    rows.end.push(end);
    rows.busy.push(busy);
    rows.longest.push(longest);
    rows.count.push(count);
    rows.name.push(name);
    rows.event.push(event);
    rows.depth.push(depth);
    rows.kind.push(kind);
    return rows.start.push(start) - 1;
  };
  for (const at of items.ordered()) {
    const ownStart = items.start[at] as number;
    const start = clock.toTrace(ownStart);
    if (start >= until) continue;
    const ownEnd = items.end[at] as number;
    const end = ownEnd === ownStart ? start : clock.toTrace(ownEnd);
    if (end <= from && start < from) continue;
    const depth = items.depth[at] as number;
    if (depth !== line) {
      line = depth;
      spanRow = instantRow = -1;
    }
    const kind = items.kind[at] as number;
    const count = items.count[at] as number;
    const longest = items.longest[at] as number;
    const name = items.name[at] as number;
    const event = items.event[at] as number;
    const isInstant = kind === instantKind;
    if (count === 1 && end - start >= grain) {
      put(start, end, items.busy[at] as number, longest, 1, name, event, depth, kind);
      spanRow = -1;
      continue;
    }
    const cell = Math.floor(start / grain);
    const row = isInstant ? instantRow : spanRow;
    if (row >= 0 && (cell === (isInstant ? instantCell : spanCell) || start < (rows.end[row] as number))) {
      if (end > (rows.end[row] as number)) rows.end[row] = end;
      (rows.busy[row] as number) += items.busy[at] as number;
      (rows.count[row] as number) += count;
      if (longest > (rows.longest[row] as number)) {
        rows.longest[row] = longest;
        rows.name[row] = name;
        rows.event[row] = event;
        rows.kind[row] = kind;
      }
      continue;
    }
    const added = put(start, end, items.busy[at] as number, longest, count, name, event, depth, kind);
    if (isInstant) [instantRow, instantCell] = [added, cell];
    else [spanRow, spanCell] = [added, cell];
  }
  const end = clock.toTrace(now);
  for (const open of opens) {
    const start = clock.toTrace(open.start);
    if (start >= until || Math.max(start, end) < from) continue;
    hasOpen = true;
    put(start, Math.max(start, end), Math.max(0, end - start), 0, 1, open.name, open.event, open.depth, open.kind | openBit);
  }
  const order = hasOpen ? orderOf(rows) : undefined;
  const size = rows.start.length;
  const columns = { ...rows, length: rows.end.map((value, row) => value - (rows.start[row] as number)) };
  return makeTile('spans', { ...key, version, complete: complete && !hasOpen }, (name, Values) => {
    const values = columns[name];
    const column = new Values(size);
    for (let row = 0; row < size; row++) column[row] = values[order === undefined ? row : (order[row] as number)] as number;
    return column;
  });
}

/** By depth, then start. */
function orderOf(rows: TileRows): number[] {
  const { depth, start } = rows;
  return start
    .map((_, row) => row)
    .sort((a, b) => (depth[a] as number) - (depth[b] as number) || (start[a] as number) - (start[b] as number) || a - b);
}

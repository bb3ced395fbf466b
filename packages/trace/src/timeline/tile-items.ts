// Items in a tile's window before merging: columns of items read from blocks, reused from tile to tile.

import type { ItemColumns, TakeItem } from './span-levels.ts';
import { kindMask, type SpanColumns } from './span-log.ts';

const firstItems = 4096;

export class TileItems {
  length = 0;
  start = new Float64Array(firstItems);
  end = new Float64Array(firstItems);
  busy = new Float64Array(firstItems);
  longest = new Float64Array(firstItems);
  count = new Uint32Array(firstItems);
  name = new Uint32Array(firstItems);
  event = new Uint32Array(firstItems);
  depth = new Uint8Array(firstItems);
  kind = new Uint8Array(firstItems);
  #from = 0;
  #until = 0;

  /** Resets for a window on the own clock, ns. */
  begin(from: number, until: number): void {
    this.length = 0;
    this.#from = from;
    this.#until = until;
  }

  /** Takes one item if it is in the window. */
  readonly take: TakeItem = ({ start, end, busy, longest, count, name, event, depth, kind }) => {
    if (start >= this.#until || end < this.#from) return;
    this.#reserve(1);
    this.#put(start, end, busy, longest, count, name, event, depth, kind);
  };

  /** Adds the rows of a level's block that are in the window. */
  addItems(columns: ItemColumns, rows: number): void {
    this.#reserve(rows);
    const { start, length } = columns;
    for (let row = 0; row < rows; row++) {
      const from = start[row] as number;
      const until = from + (length[row] as number);
      if (from >= this.#until || until < this.#from) continue;
      const count = columns.count[row] as number;
      this.#put(
        from,
        until,
        columns.busy[row] as number,
        count === 1 ? (length[row] as number) : (columns.longest[row] as number),
        count,
        columns.name[row] as number,
        columns.event[row] as number,
        columns.depth[row] as number,
        columns.kind[row] as number,
      );
    }
  }

  /** Adds a block's closed events that are in the window; `first`: number of the block's first. */
  addSpans(columns: SpanColumns, rows: number, first: number): void {
    this.#reserve(rows);
    const { start, length, name, depth, kind } = columns;
    for (let row = 0; row < rows; row++) {
      const from = start[row] as number;
      const size = length[row] as number;
      // A span without an end fails the second comparison.
      if (from >= this.#until || !(from + size >= this.#from)) continue;
      this.#put(from, from + size, size, size, 1, name[row] as number, first + row, depth[row] as number, (kind[row] as number) & kindMask);
    }
  }

  /** Indexes of the items in order of depth, then of start. */
  ordered(): Uint32Array {
    const { length, depth, start } = this;
    const ends = new Uint32Array(257);
    for (let at = 0; at < length; at++) (ends[(depth[at] as number) + 1] as number)++;
    for (let each = 1; each < 257; each++) (ends[each] as number) += ends[each - 1] as number;
    const order = new Uint32Array(length);
    const next = ends.slice();
    for (let at = 0; at < length; at++) {
      const of = depth[at] as number;
      order[next[of] as number] = at;
      (next[of] as number)++;
    }
    for (let each = 0; each < 256; each++) sortByStart(order.subarray(ends[each], ends[each + 1]), start);
    return order;
  }

  #put(
    start: number,
    end: number,
    busy: number,
    longest: number,
    count: number,
    name: number,
    event: number,
    depth: number,
    kind: number,
  ): void {
    const at = this.length++;
    this.start[at] = start;
    this.end[at] = end;
    this.busy[at] = busy;
    this.longest[at] = longest;
    this.count[at] = count;
    this.name[at] = name;
    this.event[at] = event;
    this.depth[at] = depth;
    this.kind[at] = kind;
  }

  #reserve(rows: number): void {
    const wanted = this.length + rows;
    if (wanted <= this.start.length) return;
    const size = Math.max(wanted, 2 * this.start.length);
    this.start = grown(this.start, new Float64Array(size));
    this.end = grown(this.end, new Float64Array(size));
    this.busy = grown(this.busy, new Float64Array(size));
    this.longest = grown(this.longest, new Float64Array(size));
    this.count = grown(this.count, new Uint32Array(size));
    this.name = grown(this.name, new Uint32Array(size));
    this.event = grown(this.event, new Uint32Array(size));
    this.depth = grown(this.depth, new Uint8Array(size));
    this.kind = grown(this.kind, new Uint8Array(size));
  }
}

/** Sorts only if needed: blocks come nearly in order. */
function sortByStart(order: Uint32Array, start: Float64Array): void {
  for (let at = 1; at < order.length; at++) {
    if ((start[order[at] as number] as number) >= (start[order[at - 1] as number] as number)) continue;
    order.sort((a, b) => (start[a] as number) - (start[b] as number) || a - b);
    return;
  }
}

function grown<T extends Float64Array | Uint32Array | Uint8Array>(old: T, larger: T): T {
  larger.set(old);
  return larger;
}

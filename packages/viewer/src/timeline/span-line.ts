// Paints the items of one depth of one tile into a line of pixels.
//
//   x = (time − from) · scale, device pixels
//   wider than a pixel: filled from edge to edge, one pixel of ground before the next when there is room for it
//   narrower:           the pixel takes the item's colour in proportion to its busy part, at least `leastSeen`: crowds look denser than single spans
//
// Items of one depth do not overlap, so both their starts and their ends are in order and a binary search finds the first one to paint.
// Invariant: pixels outside of [clipFrom, clipUntil) of the part stay as they are, so parts beside each other join without a seam.

import { itemKinds, openBit, type SpanTile } from '@ranktrace/protocol';
import { mixed } from './palette.ts';

/** Index of each line's first item in a tile: items of depth d are those from `lines[d]` to before `lines[d + 1]`. */
export function linesOf(tile: SpanTile): Uint32Array {
  const { depth } = tile;
  const deepest = depth.length === 0 ? -1 : (depth[depth.length - 1] as number);
  const lines = new Uint32Array(deepest + 2);
  let item = 0;
  for (let line = 0; line <= deepest; line++) {
    while (item < depth.length && (depth[item] as number) < line) item++;
    lines[line] = item;
  }
  lines[deepest + 1] = depth.length;
  return lines;
}

export interface LineView {
  /** Time at the left edge. */
  readonly from: number;
  /** Device pixels per ns. */
  readonly scale: number;
  /** Device pixels. */
  readonly width: number;
}

/** Colours of a line's items: by the index of their name's colour, or for steps by parity. */
export interface LineColours {
  readonly table: Uint32Array;
  readonly dimmed: Uint32Array;
  /** Number in the table by name. */
  readonly byName: (name: number) => number;
  /** Whether a name matches the search; undefined without a search. */
  readonly means: ((name: number) => boolean) | undefined;
  /** Names that another pass over the same line paints. */
  readonly isLeftOut?: ((name: number) => boolean) | undefined;
}

/** Callbacks beside painting: for items that are wide enough for a text, and for instants. */
export interface LineEvents {
  readonly labelPxMin: number;
  label(left: number, right: number, item: number, tile: SpanTile, isDimmed: boolean): void;
  instant(x: number, item: number, tile: SpanTile): void;
}

const instantKind = itemKinds.indexOf('instant');
const leastSeen = 0.32;
/** Instants and merged items may overlap their neighbours by a grain: the search goes back by this many. */
export const overlapMax = 3;

/** The first item from `low` to before `high` that ends after `time`. */
export function firstEndingAfter(tile: SpanTile, low: number, high: number, time: number): number {
  const { start, length } = tile;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((start[middle] as number) + (length[middle] as number) <= time) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Paints the items `first` to before `last` between two times. */
export function paintLine(
  line: Uint32Array,
  tile: SpanTile,
  first: number,
  last: number,
  clipFrom: number,
  clipUntil: number,
  view: LineView,
  colours: LineColours,
  events: LineEvents,
): void {
  const { start, length, busy, name, kind } = tile;
  const { from, scale, width } = view;
  const clipLeft = Math.max(0, (clipFrom - from) * scale);
  const clipRight = Math.min(width, (clipUntil - from) * scale);
  if (clipLeft >= clipRight) return;
  const nsPerPx = 1 / scale;
  for (let item = Math.max(first, firstEndingAfter(tile, first, last, clipFrom) - overlapMax); item < last; item++) {
    const begin = start[item] as number;
    if (begin >= clipUntil) break;
    const long = length[item] as number;
    if (begin + long < clipFrom) continue;
    const itemName = name[item] as number;
    if (colours.isLeftOut?.(itemName) === true) continue;
    const itemKind = kind[item] as number;
    const left = (begin - from) * scale;
    if ((itemKind & ~openBit) === instantKind) {
      if (left >= clipLeft && left < clipRight) events.instant(left, item, tile);
      continue;
    }
    const isDimmed = colours.means !== undefined && !colours.means(itemName);
    const colour = (isDimmed ? colours.dimmed : colours.table)[colours.byName(itemName)] as number;
    const right = (begin + long - from) * scale;
    const wide = right - left;
    if (wide < 1.25) {
      // Drawn by the part in which it begins; an item from before the window, by the first.
      if (left < clipLeft && (clipLeft > 0 || right <= 0)) continue;
      const x = Math.max(left, 0) | 0;
      line[x] = mixed(line[x] as number, colour, Math.min(1, Math.max(leastSeen, (busy[item] as number) / nsPerPx)));
      continue;
    }
    const isMerged = (tile.count[item] as number) > 1;
    const shade = isMerged ? Math.min(1, Math.max(0.4, (busy[item] as number) / long)) : 1;
    // Its place in a line without parts, then the portion of that in this part.
    const end = Math.max(Math.floor(right) - (wide >= 4 ? 1 : 0), Math.floor(left) + 1);
    const x0 = Math.max(Math.floor(left), clipLeft | 0);
    const x1 = Math.min(end, Math.ceil(clipRight));
    if (shade === 1) line.fill(colour, x0, Math.max(x0, x1));
    else for (let x = x0; x < x1; x++) line[x] = mixed(line[x] as number, colour, shade);
    if ((itemKind & openBit) !== 0 && x1 === end) fadeOut(line, x0, x1, colour);
    // A text is written by the part in which the visible span begins.
    if (wide < events.labelPxMin || (left < clipLeft && clipLeft > 0)) continue;
    const textLeft = Math.max(left, 0);
    const textRight = Math.min(right, width);
    if (textRight - textLeft >= events.labelPxMin) events.label(textLeft, textRight, item, tile, isDimmed);
  }
}

// A span that has not ended has no end to show: its last pixels are striped.
function fadeOut(line: Uint32Array, x0: number, x1: number, colour: number): void {
  const striped = mixed(colour, 0xff808080, 0.35);
  for (let x = Math.max(x0, x1 - 24); x < x1; x++) if ((x1 - x) % 4 < 2) line[x] = striped;
}

// Paints the rows of one frame into pixels and notes the texts to write over them. No canvas here: the same code runs in tests and in Node.
//
//   ┌────────────────────────────┐ 0
//   │ (ruler, drawn by canvas)   │ rulerHeight
//   ├────────────────────────────┤
//   │ pinned rows                │ + pinnedHeight
//   ├────────────────────────────┤
//   │ header of the rank whose rows are scrolled (`stickyRow`)
//   ├────────────────────────────┤
//   │ rows, moved up by scroll   │
//   └────────────────────────────┘ height              CSS pixels here, device pixels (× ratio) in `Pixels`
//
// Invariant: the cost depends on the visible pixels and tiles, not on the run's number of rows or events.

import { type CounterTile, type SpanTile, tileWidth, type ViewProcess, type ViewTrack } from '@ranktrace/protocol';
import { emptyColumns, fillColumns } from './counter-columns.ts';
import { FrameTexts, LineSink } from './frame-texts.ts';
import type { Band } from './outliers.ts';
import { communicationColour, type Palette } from './palette.ts';
import { Pixels } from './pixels.ts';
import { lanesDepthMax, lanesPlace, stepsPlace } from './row-lines.ts';
import { type Layout, lineHeight, type Row, rowsBetween, stickyRow } from './rows.ts';
import { type LineColours, type LineEvents, linesOf, paintLine } from './span-line.ts';
import type { Part, TileCache, TrackState } from './tile-cache.ts';
import { lengthOf, type TimeWindow } from './viewport.ts';

export interface Frame {
  /** CSS pixels. */
  readonly width: number;
  readonly height: number;
  readonly ratio: number;
  readonly window: TimeWindow;
  readonly layout: Layout;
  readonly scrollTop: number;
  /** The newest time of the run: beyond a live rank's own, nothing is known yet. */
  readonly until: number;
  readonly palette: Palette;
  readonly colours: NameColours;
  readonly means: ((name: number) => boolean) | undefined;
  readonly bandOf: (row: Row) => Band | undefined;
}

/** The number of a name's colour, kept by the name's index. */
export interface NameColours {
  span(name: number): number;
  step(name: number): number;
}

export const rulerHeight = 26;
const slotsMax = 64;
/** Slots beside the visible ones that are fetched ahead. */
const ahead = 1;

/** Level whose grain is at most one device pixel. */
export const levelOf = (nsPerPixel: number): number => Math.max(0, Math.min(52, Math.floor(Math.log2(Math.max(nsPerPixel, 1)))));

export const stateOf = (track: ViewTrack, process: ViewProcess): TrackState => ({
  track: track.track,
  version: process.version,
  // Grows with everything that may have changed an incomplete tile.
  stamp: track.events * 2 + process.until + (process.ended ? 0.5 : 0),
});

export class FramePainter {
  pixels = new Pixels(1, 1);
  readonly texts = new FrameTexts();
  #line = new Uint32Array(1);
  #columns = emptyColumns(1);
  readonly #cache: TileCache;
  readonly #parts: Part[] = [];

  constructor(cache: TileCache) {
    this.#cache = cache;
  }

  paint(frame: Frame): void {
    const { width, height, ratio, layout, palette, scrollTop } = frame;
    const [columns, rows] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
    if (this.pixels.width !== columns || this.pixels.height !== rows) {
      this.pixels = new Pixels(columns, rows);
      this.#line = new Uint32Array(columns);
      this.#columns = emptyColumns(columns);
    }
    this.texts.clear();
    this.pixels.unclip();
    this.pixels.data.fill(palette.background);
    this.#cache.begin();
    const split = pinnedBottom(layout, height);
    if (split > rulerHeight) {
      this.#rows(frame, layout.pinned, 0, rulerHeight, rulerHeight, split);
      this.pixels.unclip();
      this.pixels.rect(0, Math.round((split - 2) * ratio), columns, Math.round(split * ratio), palette.separatorStrong);
    }
    const sticky = stickyRow(layout.rows, scrollTop);
    const top = split + (sticky?.height ?? 0);
    this.#rows(frame, layout.rows, scrollTop, split, top, height);
    if (sticky !== undefined) {
      this.#rows(frame, [{ ...sticky, top: 0 }], 0, split, split, top);
      this.pixels.unclip();
      this.pixels.rect(0, Math.round((top - 1) * ratio), columns, Math.round(top * ratio), palette.separatorStrong);
    }
    this.#cache.end();
  }

  #rows(frame: Frame, rows: readonly Row[], scroll: number, offset: number, clipTop: number, clipBottom: number): void {
    const { ratio, palette } = frame;
    const { pixels } = this;
    const [first, last] = rowsBetween(rows, scroll + clipTop - offset, scroll + clipBottom - offset);
    for (let at = first; at < last; at++) {
      const row = rows[at] as Row;
      const top = row.top - scroll + offset;
      const [y0, y1] = [Math.round(top * ratio), Math.round((top + row.height) * ratio)];
      pixels.clip(Math.round(clipTop * ratio), Math.round(clipBottom * ratio));
      pixels.clip(Math.max(y0, Math.round(clipTop * ratio)), Math.min(y1, Math.round(clipBottom * ratio)));
      const isHeader = row.kind === 'rank' || row.kind === 'group' || row.kind === 'rest';
      if (isHeader) pixels.rect(0, y0, pixels.width, y1, palette.header);
      if (row.process !== undefined) this.#beyond(frame, row.process, y0, y1);
      this.texts.markers.length = 0;
      if (row.hasBand) this.#band(frame, row, y0, y1);
      if (row.track !== undefined && row.process !== undefined) {
        if (row.kind === 'counter') this.#counter(frame, row.track, row.process, y0, y1);
        else this.#spans(frame, row, row.track, row.process, top, clipTop, clipBottom);
      }
      if (row.lanes.length > 0 && row.process !== undefined) this.#lanes(frame, row, row.process, top, clipTop, clipBottom);
      if (row.process !== undefined) this.#gaps(frame, row.process, y0, y1);
      if (row.kind === 'rank' && row.process !== undefined) {
        this.#shifted(frame, row.process, y1);
        this.#clockSteps(frame, row.process, y0, y1);
      }
      for (const { x, y, colour } of this.texts.markers) pixels.marker(x, y, Math.round(7 * ratio), colour);
      pixels.rect(0, y1 - Math.max(1, Math.floor(ratio)), pixels.width, y1, isHeader ? palette.separatorStrong : palette.separator);
    }
  }

  // Parts of all visible slots, in order of time; neighbours are fetched ahead.
  #slots(frame: Frame, track: ViewTrack, process: ViewProcess): void {
    const { window, width, ratio } = frame;
    const level = levelOf(lengthOf(window) / (width * ratio));
    const wide = tileWidth(level);
    const state = stateOf(track, process);
    const first = Math.floor(window.from / wide);
    const last = Math.min(Math.floor(window.until / wide), first + slotsMax);
    const middle = (window.from + window.until) / 2 / wide - 0.5;
    this.#parts.length = 0;
    for (let index = first; index <= last; index++) this.#cache.parts(state, level, index, Math.abs(index - middle), this.#parts);
    for (let beside = 1; beside <= ahead; beside++) {
      this.#cache.want(state, level, first - beside, 1000 + beside);
      this.#cache.want(state, level, last + beside, 1000 + beside);
    }
  }

  #spans(frame: Frame, row: Row, track: ViewTrack, process: ViewProcess, top: number, clipTop: number, clipBottom: number): void {
    const { ratio, window, width, palette, colours, means } = frame;
    const { pixels } = this;
    this.#slots(frame, track, process);
    const isSteps = row.kind === 'rank';
    const view = { from: window.from, scale: (width * ratio) / lengthOf(window), width: pixels.width };
    const lineColours: LineColours = isSteps
      ? { table: palette.steps, dimmed: palette.steps, byName: (name) => colours.step(name), means: undefined }
      : { table: palette.spans, dimmed: palette.dimmed, byName: (name) => colours.span(name), means };
    const steps = stepsPlace(row);
    const [pad, tall, lines] = isSteps ? [steps.top, steps.tall, 1] : [1, lineHeight - 1, row.lines];
    const ground = isSteps ? palette.header : palette.background;
    const sink = new LineSink(this.texts, frame, isSteps, clipTop, clipBottom);
    for (let depth = 0; depth < lines; depth++) {
      const lineTop = top + pad + depth * lineHeight;
      if (lineTop + tall < clipTop || lineTop > clipBottom) continue;
      const [y0, y1] = [Math.round(lineTop * ratio), Math.round((lineTop + tall) * ratio)];
      const line = this.#line;
      line.fill(ground);
      this.#beyondLine(frame, process, line);
      sink.at(lineTop, tall);
      let isPainted = false;
      for (const { entry, from, until } of this.#parts) {
        const tile = entry.tile as SpanTile;
        if (tile.type !== 'spans') continue;
        entry.lines ??= linesOf(tile);
        const itemLines = entry.lines;
        const of = row.firstLine + depth;
        if (of + 1 >= itemLines.length) continue;
        const [first, last] = [itemLines[of] as number, itemLines[of + 1] as number];
        if (first === last) continue;
        isPainted = true;
        paintLine(line, tile, first, last, from, until, view, lineColours, sink);
      }
      if (isPainted) pixels.repeat(line, y0, y1);
    }
  }

  // Several tracks on one line: inner spans over outer ones, and all work over communication, so that what shows of that is exposed.
  #lanes(frame: Frame, row: Row, process: ViewProcess, top: number, clipTop: number, clipBottom: number): void {
    const { ratio, window, width, palette, colours, means } = frame;
    const { pixels } = this;
    const lineTop = top + lanesPlace.top;
    if (lineTop + lanesPlace.tall < clipTop || lineTop > clipBottom) return;
    const [y0, y1] = [Math.round(lineTop * ratio), Math.round((lineTop + lanesPlace.tall) * ratio)];
    const view = { from: window.from, scale: (width * ratio) / lengthOf(window), width: pixels.width };
    const line = this.#line;
    line.fill(palette.background);
    this.#beyondLine(frame, process, line);
    const isCommunication = (name: number): boolean => colours.span(name) === communicationColour;
    const passes = [(name: number): boolean => !isCommunication(name), isCommunication].flatMap((isLeftOut) =>
      row.lanes.map((track) => ({ track, isLeftOut })),
    );
    const firstLabel = this.texts.labelCount;
    for (const { track, isLeftOut } of passes) {
      const byName = (name: number): number => colours.span(name);
      const lineColours: LineColours = { table: palette.spans, dimmed: palette.dimmed, byName, means, isLeftOut };
      this.#slots(frame, track, process);
      const deepest = lanesDepthMax(track);
      for (let depth = 0; depth <= deepest; depth++) {
        // Texts of the innermost spans alone: others lie below them.
        const sink = depth === deepest ? new LineSink(this.texts, frame, false, clipTop, clipBottom) : noTexts;
        if (sink !== noTexts) (sink as LineSink).at(lineTop, lanesPlace.tall);
        for (const { entry, from, until } of this.#parts) {
          const tile = entry.tile as SpanTile;
          if (tile.type !== 'spans') continue;
          entry.lines ??= linesOf(tile);
          if (depth + 1 >= entry.lines.length) continue;
          const [first, last] = [entry.lines[depth] as number, entry.lines[depth + 1] as number];
          if (first < last) paintLine(line, tile, first, last, from, until, view, lineColours, sink);
        }
      }
    }
    this.texts.dropOverlapping(firstLabel);
    pixels.repeat(line, y0, y1);
  }

  #counter(frame: Frame, track: ViewTrack, process: ViewProcess, y0: number, y1: number): void {
    const { window, width, ratio, palette } = frame;
    const { pixels } = this;
    this.#slots(frame, track, process);
    const { last, low, high } = this.#columns;
    last.fill(Number.NaN);
    low.fill(Number.NaN);
    high.fill(Number.NaN);
    const scale = (width * ratio) / lengthOf(window);
    const right = Math.min(pixels.width, Math.ceil((process.until - window.from) * scale));
    for (const { entry, from, until } of this.#parts) {
      const tile = entry.tile as CounterTile;
      if (tile.type !== 'counter') continue;
      const clipLeft = Math.max(0, Math.round((from - window.from) * scale));
      const clipRight = Math.min(right, Math.round((until - window.from) * scale));
      fillColumns(tile, window.from, scale, clipLeft, clipRight, this.#columns);
    }
    const [least, most] = [Math.min(0, track.low), Math.max(track.high, track.low + 1e-9)];
    const [bottom, top] = [y1 - Math.round(3 * ratio), y0 + Math.round(5 * ratio)];
    const yOf = (value: number): number => Math.round(bottom - ((value - least) / (most - least || 1)) * (bottom - top));
    const thick = Math.max(1, Math.round(1.25 * ratio));
    let before = Number.NaN;
    for (let x = 0; x < right; x++) {
      const value = last[x] as number;
      if (Number.isNaN(value)) {
        before = Number.NaN;
        continue;
      }
      const [y, yLow, yHigh] = [yOf(value), yOf(low[x] as number), yOf(high[x] as number)];
      pixels.column(x, y, bottom, palette.counter);
      if (yLow - yHigh > thick) pixels.column(x, yHigh, yLow, palette.counterBand);
      const joined = Number.isNaN(before) ? y : before;
      pixels.column(x, Math.min(y, joined), Math.max(y, joined) + thick, palette.counterLine);
      before = y;
    }
  }

  #band(frame: Frame, row: Row, y0: number, y1: number): void {
    const band = frame.bandOf(row);
    if (band === undefined || band.most <= 0) return;
    const { window, width, ratio, palette } = frame;
    const { pixels } = this;
    const scale = (width * ratio) / lengthOf(window);
    const [bottom, top] = [y1 - Math.round(3 * ratio), y0 + Math.round(4 * ratio)];
    const yOf = (value: number): number => Math.round(bottom - (value / band.most) * (bottom - top));
    for (let bin = 0; bin < band.times.length; bin++) {
      const high = band.high[bin] as number;
      if (Number.isNaN(high)) continue;
      const x0 = Math.floor(((band.times[bin] as number) - window.from) * scale);
      const x1 = Math.max(x0 + 1, Math.floor(((band.ends[bin] as number) - window.from) * scale));
      if (x1 < 0 || x0 >= pixels.width) continue;
      const [yHigh, yLow, y] = [yOf(high), yOf(band.low[bin] as number), yOf(band.median[bin] as number)];
      pixels.rect(x0, yHigh, x1, Math.max(yLow, yHigh + 1), palette.bandRange);
      pixels.rect(x0, y, x1, y + Math.max(1, Math.round(1.5 * ratio)), palette.bandMedian);
    }
  }

  #gaps({ window, width, ratio, palette }: Frame, process: ViewProcess, y0: number, y1: number): void {
    const scale = (width * ratio) / lengthOf(window);
    for (const gap of process.gaps) {
      if (gap.until < window.from || gap.from > window.until) continue;
      const x0 = Math.floor((gap.from - window.from) * scale);
      const x1 = Math.max(x0 + Math.round(2 * ratio), Math.ceil((gap.until - window.from) * scale));
      this.pixels.hatch(x0, y0, x1, y1, palette.gap, palette.gapLine, Math.round(8 * ratio));
    }
  }

  // Marks where a rank's clock was set: times before and after are mapped separately.
  #clockSteps({ window, width, ratio, palette }: Frame, process: ViewProcess, y0: number, y1: number): void {
    const scale = (width * ratio) / lengthOf(window);
    for (const time of process.alignment.clockSteps) {
      if (time < window.from || time > window.until) continue;
      const x = Math.floor((time - window.from) * scale);
      this.pixels.rect(x, y0, x + Math.max(2, Math.round(2 * ratio)), y1, palette.clockStep);
    }
  }

  // Marks where events were shifted behind their causes, as clocks contradict each other: a line below the steps.
  #shifted({ window, width, ratio, palette }: Frame, process: ViewProcess, y1: number): void {
    const scale = (width * ratio) / lengthOf(window);
    for (const { from, until } of process.alignment.shifted) {
      if (until < window.from || from > window.until) continue;
      const x0 = Math.max(0, Math.floor((from - window.from) * scale));
      const x1 = Math.min(this.pixels.width, Math.max(x0 + Math.round(2 * ratio), Math.ceil((until - window.from) * scale)));
      this.pixels.rect(x0, y1 - Math.round(4 * ratio), x1, y1 - Math.max(1, Math.floor(ratio)), palette.clockStep);
    }
  }

  // Hatches the time that a rank has not reported yet although others have.
  #beyond(frame: Frame, process: ViewProcess, y0: number, y1: number): void {
    const [x0, x1] = beyondOf(frame, process);
    if (x0 < x1) this.pixels.rect(x0, y0, x1, y1, frame.palette.unknown);
  }

  #beyondLine(frame: Frame, process: ViewProcess, line: Uint32Array): void {
    const [x0, x1] = beyondOf(frame, process);
    if (x0 < x1) line.fill(frame.palette.unknown, Math.max(0, x0), Math.max(0, x1));
  }
}

const noTexts: LineEvents = { labelPxMin: Number.POSITIVE_INFINITY, label: () => undefined, instant: () => undefined };

/** Upper edge of the rows that scroll, CSS pixels: below the header that stays. */
export const lanesTop = (layout: Layout, height: number, scrollTop: number): number =>
  pinnedBottom(layout, height) + (stickyRow(layout.rows, scrollTop)?.height ?? 0);

/** Lower edge of the pinned rows, CSS pixels: they never take more than 60 % of the height. */
export const pinnedBottom = (layout: Layout, height: number): number =>
  layout.pinned.length === 0 ? rulerHeight : rulerHeight + Math.min(layout.pinnedHeight + 2, Math.max(0, (height - rulerHeight) * 0.6));

function beyondOf({ window, width, ratio, until }: Frame, process: ViewProcess): readonly [number, number] {
  if (process.ended) return [0, 0];
  const scale = (width * ratio) / lengthOf(window);
  const x0 = Math.max(0, Math.ceil((process.until - window.from) * scale));
  const x1 = Math.min(Math.round(width * ratio), Math.floor((until - window.from) * scale));
  return [x0, x1];
}

// Puts a painted frame onto the canvas, and draws over it what is thin and few: texts, the ruler, arrows, selection, cursor.
//
// Order: pixels, grid, texts, searched-for dimming is in the pixels already, arrows, selection, marked area, ruler, cursor.

import type { ViewTrack } from '@ranktrace/protocol';
import { formatTime } from '../format.ts';
import { type Frame, type FramePainter, pinnedBottom, rulerHeight } from './frame-painter.ts';
import { lineHeight, type Row } from './rows.ts';
import { ticksOf } from './ruler.ts';
import type { TimelineSession } from './session.ts';
import { linksShownMax } from './session.ts';
import { lengthOf, xAt } from './viewport.ts';

const font = '11px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif';
const fontSmall = '10px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif';

interface Point {
  readonly x: number;
  readonly y: number;
}

export class CanvasPainter {
  readonly #context: CanvasRenderingContext2D;
  readonly #session: TimelineSession;
  readonly #painter: FramePainter;
  /** Widths of whole texts, CSS pixels; names repeat. */
  readonly #widths = new Map<string, number>();
  #image: ImageData | undefined;

  constructor(context: CanvasRenderingContext2D, session: TimelineSession, painter: FramePainter) {
    this.#context = context;
    this.#session = session;
    this.#painter = painter;
  }

  paint(frame: Frame, zero: number): void {
    const { ratio, width, height } = frame;
    this.#painter.paint(frame);
    const { pixels } = this.#painter;
    if (this.#image === undefined || this.#image.data.buffer !== pixels.data.buffer) {
      this.#image = new ImageData(new Uint8ClampedArray(pixels.data.buffer as ArrayBuffer), pixels.width, pixels.height);
    }
    const context = this.#context;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.putImageData(this.#image, 0, 0);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const split = pinnedBottom(frame.layout, height);
    this.#texts(frame);
    this.#clipped(0, split, width, height - split, () => {
      this.#links(frame, split);
      this.#selection(frame, split);
      this.#marked(frame, split);
    });
    if (split > rulerHeight)
      this.#clipped(0, rulerHeight, width, split - rulerHeight, () => this.#selectionIn(frame, frame.layout.pinned, rulerHeight));
    this.#ruler(frame, zero);
    this.#cursor(frame, zero);
  }

  #clipped(x: number, y: number, width: number, height: number, draw: () => void): void {
    const context = this.#context;
    context.save();
    context.beginPath();
    context.rect(x, y, width, height);
    context.clip();
    draw();
    context.restore();
  }

  #texts({ palette }: Frame): void {
    const context = this.#context;
    const { labels, labelCount } = this.#painter;
    context.font = font;
    context.textBaseline = 'middle';
    context.textAlign = 'left';
    for (const isDimmed of [false, true]) {
      context.fillStyle = isDimmed ? palette.textDimmed : palette.text;
      for (let at = 0; at < labelCount; at++) {
        const label = this.#painter.labels[at] as (typeof labels)[number];
        if (label.isDimmed !== isDimmed) continue;
        // A text that the header or the ruler would cut is better left out than half seen.
        if (label.middle - 6 < label.clipTop || label.middle + 6 > label.clipBottom) continue;
        const room = label.right - label.left - 7;
        const text = this.#session.nameOf(label.name);
        if (label.isStep) {
          const number = stepText(text);
          const short = room > 52 && number !== text ? `step ${number}` : number;
          if (this.#widthOf(short) <= room) context.fillText(short, label.left + 4, label.middle);
          continue;
        }
        const cut = this.#cutText(text, room);
        if (cut !== '') context.fillText(cut, label.left + 4, label.middle + 0.5);
      }
    }
  }

  #widthOf(text: string): number {
    let width = this.#widths.get(text);
    if (width === undefined) {
      if (this.#widths.size > 20_000) this.#widths.clear();
      width = this.#context.measureText(text).width;
      this.#widths.set(text, width);
    }
    return width;
  }

  // Cut by the mean width of its own characters: measuring each cut would cost more than the text is worth.
  #cutText(text: string, room: number): string {
    const width = this.#widthOf(text);
    if (width <= room) return text;
    const chars = Math.floor((room / width) * text.length * 0.96) - 1;
    if (chars < 2) return '';
    const end = /[\ud800-\udbff]/.test(text[chars - 1] as string) ? chars - 1 : chars;
    return `${text.slice(0, end)}…`;
  }

  #ruler({ width, window, palette }: Frame, zero: number): void {
    const context = this.#context;
    context.fillStyle = cssOf(palette.header);
    context.fillRect(0, 0, width, rulerHeight);
    context.fillStyle = cssOf(palette.separatorStrong);
    context.fillRect(0, rulerHeight - 1, width, 1);
    context.font = fontSmall;
    context.textBaseline = 'alphabetic';
    context.textAlign = 'left';
    for (const { time, label } of ticksOf(window, width, zero)) {
      const x = Math.round(xAt(window, width, time));
      context.fillStyle = cssOf(palette.separatorStrong);
      context.fillRect(x, label === undefined ? rulerHeight - 5 : rulerHeight - 10, 1, label === undefined ? 4 : 9);
      if (label === undefined || x + 4 + this.#context.measureText(label).width > width) continue;
      context.fillStyle = palette.muted;
      context.fillText(label, x + 4, rulerHeight - 10);
    }
  }

  #cursor({ width, height, window, palette }: Frame, zero: number): void {
    const hover = this.#session.hover.peek();
    if (hover === undefined) return;
    const context = this.#context;
    const x = Math.round(hover.x);
    context.fillStyle = palette.hover;
    context.globalAlpha = 0.35;
    context.fillRect(x, rulerHeight, 1, height - rulerHeight);
    context.globalAlpha = 1;
    const text = formatTime(hover.time - zero, lengthOf(window) / width);
    context.font = fontSmall;
    const wide = context.measureText(text).width + 10;
    const left = Math.min(Math.max(0, x - wide / 2), width - wide);
    context.fillStyle = palette.text;
    context.beginPath();
    context.roundRect(left, 4, wide, 16, 3);
    context.fill();
    context.fillStyle = cssOf(palette.background);
    context.textBaseline = 'middle';
    context.textAlign = 'left';
    context.fillText(text, left + 5, 12.5);
  }

  #selection(frame: Frame, split: number): void {
    this.#partners(frame, split);
    this.#selectionIn(frame, frame.layout.rows, split - frame.scrollTop);
    const hover = this.#session.hover.peek();
    const item = hover?.item;
    const selected = this.#session.place.peek();
    if (hover?.row === undefined || item === undefined || (selected?.event === item.event && selected.track === item.track)) return;
    if (hover.y < split) return;
    this.#outline(frame, hover.row, split - frame.scrollTop, item, frame.palette.hover, 1);
  }

  #selectionIn(frame: Frame, rows: readonly Row[], offset: number): void {
    const place = this.#session.place.peek();
    if (place === undefined) return;
    const row = rows.find((each) => each.track?.track === place.track);
    if (row !== undefined) this.#outline(frame, row, offset, place, frame.palette.accent, 2);
  }

  #outline(
    { window, width }: Frame,
    row: Row,
    offset: number,
    { start, length, depth }: { readonly start: number; readonly length: number; readonly depth: number },
    colour: string,
    thick: number,
  ): void {
    const context = this.#context;
    const left = Math.max(-4, xAt(window, width, start));
    const right = Math.min(width + 4, xAt(window, width, start + length));
    if (right < 0 || left > width) return;
    const [top, tall] = row.kind === 'rank' ? [row.top + 4, row.height - 9] : [row.top + 1 + depth * lineHeight, lineHeight - 1];
    const wide = Math.max(3, right - left);
    context.strokeStyle = colour;
    context.lineWidth = thick;
    context.strokeRect(left - (wide === 3 ? 1.5 : 0) + thick / 2 - 1, top + offset + thick / 2 - 1, wide - thick + 2, tall - thick + 2);
  }

  // Everything that is known of the selected collective or call: its partners, who was last, and how sure the clocks are.
  #partners(frame: Frame, split: number): void {
    const details = this.#session.details.peek();
    const place = this.#session.place.peek();
    if (details === undefined || details.partners.length === 0 || place === undefined) return;
    if (place.track !== details.track || place.event !== details.event) return;
    const { palette, window, width } = frame;
    const context = this.#context;
    const all = [{ ...details, rank: -1 }, ...details.partners];
    const last = all.reduce((latest, each) => (each.start > latest.start ? each : latest));
    for (const partner of details.partners) {
      const row = this.#rowOf(frame, partner.track);
      if (row?.kind !== 'track') continue;
      this.#outline(frame, row, split - frame.scrollTop, partner, palette.link, 1.5);
    }
    if (details.kind === 'rpc') {
      for (const partner of details.partners) {
        const isCaller = details.start <= partner.start;
        const [outer, inner] = isCaller ? [details, partner] : [partner, details];
        this.#arrow(frame, split, { ...outer, time: outer.start }, { ...inner, time: inner.start }, 1.5);
        this.#arrow(frame, split, { ...inner, time: inner.start + inner.length }, { ...outer, time: outer.start + outer.length }, 1.5);
      }
    } else {
      // Until the last one came in, the others waited: the time is marked on each.
      for (const each of all) {
        if (each === last) continue;
        const row = this.#rowOf(frame, each.track);
        if (row === undefined) continue;
        const y = row.top + split - frame.scrollTop + (row.kind === 'track' ? 1 + each.depth * lineHeight : 4);
        const [left, right] = [xAt(window, width, each.start), xAt(window, width, Math.min(last.start, each.start + each.length))];
        if (right - left >= 1) {
          context.fillStyle = palette.slow;
          context.fillRect(left, y + lineHeight - 4, right - left, 2);
        }
        this.#arrow(frame, split, { ...last, time: last.start }, { ...each, time: Math.max(each.start, last.start) }, 1.5);
      }
      this.#dot(frame, split, { ...last, time: last.start });
    }
    if (details.bound !== null) {
      for (const each of all) this.#boundAt(frame, split, { ...each, time: each.start }, details.bound);
    }
  }

  // What is in view, when it is few enough to be read.
  #links(frame: Frame, split: number): void {
    const links = this.#session.links.peek();
    if (links === undefined || links.leftOut > 0 || links.links.length > linksShownMax) return;
    // Those of the selected event are drawn for themselves.
    if ((this.#session.details.peek()?.partners.length ?? 0) > 0) return;
    this.#context.globalAlpha = links.links.length > 60 ? 0.25 : 0.45;
    const { window } = frame;
    for (const { from, to } of links.links) {
      const isNear = (time: number): boolean => time >= window.from && time <= window.until;
      if (isNear(from.time) || isNear(to.time)) this.#arrow(frame, split, from, to, 1);
    }
    this.#context.globalAlpha = 1;
  }

  #arrow(
    frame: Frame,
    split: number,
    from: { readonly track: number; readonly depth: number; readonly time: number },
    to: { readonly track: number; readonly depth: number; readonly time: number },
    thick: number,
  ): void {
    const start = this.#pointOf(frame, split, from);
    const end = this.#pointOf(frame, split, to);
    if (start === undefined || end === undefined) return;
    const { width, height, palette } = frame;
    if (Math.max(start.x, end.x) < -20 || Math.min(start.x, end.x) > width + 20) return;
    if (Math.max(start.y, end.y) < 0 || Math.min(start.y, end.y) > height) return;
    const context = this.#context;
    context.strokeStyle = palette.link;
    context.fillStyle = palette.link;
    context.lineWidth = thick;
    const bend = Math.min(40, Math.max(Math.abs(end.x - start.x) / 2, 0));
    context.beginPath();
    context.moveTo(start.x, start.y);
    context.bezierCurveTo(start.x + bend, start.y, end.x - bend, end.y, end.x, end.y);
    context.stroke();
    const angle = bend < 3 ? Math.atan2(end.y - start.y, end.x - start.x) : 0;
    context.beginPath();
    context.moveTo(end.x, end.y);
    for (const turn of [0.45, -0.45]) context.lineTo(end.x - 7 * Math.cos(angle + turn), end.y - 7 * Math.sin(angle + turn));
    context.fill();
  }

  #dot(frame: Frame, split: number, at: { readonly track: number; readonly depth: number; readonly time: number }): void {
    const point = this.#pointOf(frame, split, at);
    if (point === undefined) return;
    const context = this.#context;
    context.fillStyle = frame.palette.slow;
    context.beginPath();
    context.arc(point.x, point.y, 3.5, 0, 2 * Math.PI);
    context.fill();
  }

  // ± what the clocks leave open, where it can be seen.
  #boundAt(
    frame: Frame,
    split: number,
    at: { readonly track: number; readonly depth: number; readonly time: number },
    bound: number,
  ): void {
    const point = this.#pointOf(frame, split, at);
    const half = (bound / lengthOf(frame.window)) * frame.width;
    if (point === undefined || half < 1) return;
    const context = this.#context;
    context.fillStyle = frame.palette.bound;
    context.fillRect(point.x - half, point.y - 7, 2 * half, 14);
  }

  #pointOf(
    { window, width, scrollTop }: Frame,
    split: number,
    { track, depth, time }: { readonly track: number; readonly depth: number; readonly time: number },
  ): Point | undefined {
    const row = this.#rowOf({ layout: this.#session.layout.peek() }, track);
    if (row === undefined) return undefined;
    const middle = row.kind === 'track' ? 1 + depth * lineHeight + lineHeight / 2 : row.height / 2;
    return { x: xAt(window, width, time), y: row.top + middle + split - scrollTop };
  }

  // The row of a track, or the row that it is folded into.
  #rows: { readonly of: unknown; readonly byTrack: Map<number, Row> } | undefined;
  #rowOf({ layout }: Pick<Frame, 'layout'>, track: number): Row | undefined {
    if (this.#rows?.of !== layout) this.#rows = { of: layout, byTrack: rowsByTrack(layout.rows, this.#session.tracks.peek()) };
    return this.#rows.byTrack.get(track);
  }

  #marked(frame: Frame, split: number): void {
    const { window, width, height, palette } = frame;
    const marking = this.#session.marking.peek();
    const area = this.#session.state.area.peek();
    const context = this.#context;
    if (marking !== undefined) {
      const [left, right] = [xAt(window, width, marking.from), xAt(window, width, marking.until)];
      context.fillStyle = palette.accentSoft;
      context.fillRect(left, marking.top, right - left, marking.bottom - marking.top);
      context.strokeStyle = palette.accent;
      context.lineWidth = 1;
      context.strokeRect(left + 0.5, marking.top + 0.5, right - left - 1, marking.bottom - marking.top - 1);
      return;
    }
    if (area === undefined) return;
    const [left, right] = [xAt(window, width, area.from), xAt(window, width, area.until)];
    const tracks = new Set(area.tracks);
    context.fillStyle = palette.accentSoft;
    if (tracks.size === 0) context.fillRect(left, split, right - left, height - split);
    else {
      for (const row of frame.layout.rows) {
        if (row.track === undefined || !tracks.has(row.track.track)) continue;
        const top = row.top + split - frame.scrollTop;
        if (top + row.height > split && top < height) context.fillRect(left, top, right - left, row.height);
      }
    }
    context.fillStyle = palette.accent;
    for (const x of [left, right]) context.fillRect(Math.round(x), split, 1, height - split);
  }
}

/** `ProfilerStep#12` is 12. */
export const stepText = (name: string): string => /(\d+)$/.exec(name)?.[1] ?? name;

function rowsByTrack(rows: readonly Row[], tracks: ReadonlyMap<number, ViewTrack>): Map<number, Row> {
  const found = new Map<number, Row>();
  const byProcess = new Map<number, Row>();
  for (const row of rows) {
    if (row.track !== undefined) found.set(row.track.track, row);
    if (row.kind === 'rank' && row.process !== undefined) byProcess.set(row.process.index, row);
  }
  for (const { track, process } of tracks.values()) {
    const row = byProcess.get(process);
    if (!found.has(track) && row !== undefined) found.set(track, row);
  }
  return found;
}

const cssOf = (pixel: number): string => `rgb(${pixel & 0xff} ${(pixel >>> 8) & 0xff} ${(pixel >>> 16) & 0xff})`;

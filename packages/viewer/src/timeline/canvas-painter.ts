// Puts a painted frame onto the canvas, and draws thin and few things over it: texts, the ruler, arrows, selection, cursor.
//
// Order: pixels (with the dimming of a search), grid, texts, arrows, selection, marked area, ruler, cursor.

import { formatTime } from '../controls/format.ts';
import { drawClockMarks } from './clock-mark-painter.ts';
import { cutText } from './cut-text.ts';
import { type Frame, type FramePainter, lanesTop, pinnedBottom, rulerHeight } from './frame-painter.ts';
import { LinkPainter } from './link-painter.ts';
import { outline } from './outline.ts';
import { cssOf } from './palette.ts';
import { drawPath } from './path-painter.ts';
import { rowOf } from './row-lines.ts';
import type { Row } from './rows.ts';
import { ticksOf } from './ruler.ts';
import type { TimelineSession } from './session.ts';
import { lengthOf, xAt } from './viewport.ts';

const font = '11px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif';
const fontSmall = '10px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif';

export class CanvasPainter {
  readonly #context: CanvasRenderingContext2D;
  readonly #session: TimelineSession;
  readonly #painter: FramePainter;
  /** Widths of whole texts, CSS pixels; names repeat. */
  readonly #widths = new Map<string, number>();
  readonly #charWidth = (char: string): number => this.#widthOf(char);
  readonly #linkPainter: LinkPainter;
  #image: ImageData | undefined;

  constructor(context: CanvasRenderingContext2D, session: TimelineSession, painter: FramePainter) {
    this.#context = context;
    this.#session = session;
    this.#painter = painter;
    this.#linkPainter = new LinkPainter(context, session);
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
    const top = lanesTop(frame.layout, height, frame.scrollTop);
    this.#clipped(0, top, width, height - top, () => {
      // Beside the path, other arrows would only confuse.
      if (!this.#session.state.path.peek()) this.#linkPainter.links(frame, split);
      const path = this.#session.path.peek();
      if (path !== undefined && path !== null) {
        const rowOfTrack = (track: number): Row | undefined => this.#linkPainter.rowOf(frame, track);
        drawPath(this.#context, frame, split, path, this.#session.pathAt.peek(), rowOfTrack);
      }
      this.#selection(frame, split);
      this.#marked(frame, split);
    });
    if (split > rulerHeight)
      this.#clipped(0, rulerHeight, width, split - rulerHeight, () => this.#selectionIn(frame, frame.layout.pinned, rulerHeight));
    this.#ruler(frame, zero);
    drawClockMarks(context, this.#session.clockMarks.peek(), frame.window, width, rulerHeight, cssOf(frame.palette.clockStep));
    this.#alerts(frame);
    this.#cursor(frame, zero);
  }

  // A flag on the ruler where an alert began: filled while it is open.
  #alerts({ window, width, palette }: Frame): void {
    const context = this.#context;
    for (const { time, isOpen } of this.#session.alertMarks.peek()) {
      if (time < window.from || time > window.until) continue;
      const x = Math.round(xAt(window, width, time));
      context.fillStyle = palette.alert;
      context.strokeStyle = palette.alert;
      context.fillRect(x, 2, 1, rulerHeight - 2);
      context.beginPath();
      context.moveTo(x + 1, 2);
      context.lineTo(x + 10, 6);
      context.lineTo(x + 1, 10);
      if (isOpen) context.fill();
      else context.stroke();
    }
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
    const { labels, labelCount } = this.#painter.texts;
    context.font = font;
    context.textBaseline = 'middle';
    context.textAlign = 'left';
    for (const isDimmed of [false, true]) {
      context.fillStyle = isDimmed ? palette.textDimmed : palette.text;
      for (let at = 0; at < labelCount; at++) {
        const label = this.#painter.texts.labels[at] as (typeof labels)[number];
        if (label.isDimmed !== isDimmed) continue;
        // A text that the header or the ruler would cut is left out.
        if (label.middle - 6 < label.clipTop || label.middle + 6 > label.clipBottom) continue;
        const room = label.right - label.left - 7;
        const text = label.isStep ? this.#session.nameOf(label.name) : this.#session.shortNameOf(label.name);
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

  // By the widths of its characters: measuring each cut would cost too much.
  #cutText(text: string, room: number): string {
    return this.#widthOf(text) <= room ? text : cutText(text, room, this.#charWidth);
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
    this.#linkPainter.partners(frame, split);
    this.#linkPainter.launches(frame, split);
    this.#linkPainter.hovered(frame, split);
    this.#selectionIn(frame, frame.layout.rows, split - frame.scrollTop);
    const hover = this.#session.hover.peek();
    const item = hover?.item;
    const selected = this.#session.place.peek();
    if (hover?.row === undefined || item === undefined || (selected?.event === item.event && selected.track === item.track)) return;
    if (hover.y < split) return;
    outline(this.#context, frame, hover.row, split - frame.scrollTop, item, frame.palette.hover, 1);
  }

  #selectionIn(frame: Frame, rows: readonly Row[], offset: number): void {
    const place = this.#session.place.peek();
    if (place === undefined) return;
    const row = rowOf(rows, place.track, place.depth);
    if (row !== undefined) outline(this.#context, frame, row, offset, place, frame.palette.accent, 2);
  }

  #marked(frame: Frame, split: number): void {
    const { window, width, height, palette } = frame;
    const marking = this.#session.marking.peek();
    const area = this.#session.area.peek();
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

// Arrows between events: always for the selected collective or call, and for everything in view when that is little.
//
//   collective   the others ├────waited────┤● the last one in        a line from the last one to each of the others
//   call         caller ──► server … server ──► caller
//
// ± bounds are drawn at both ends of a selected or hovered collective or call, where the clocks' uncertainty is visible.

import type { EventPlace, ViewTrack } from '@ranktrace/protocol';
import { boundAt } from './clock-marks.ts';
import type { Frame } from './frame-painter.ts';
import type { Item } from './hit.ts';
import { outline } from './outline.ts';
import { placeIn } from './row-lines.ts';
import type { Row } from './rows.ts';
import type { TimelineSession } from './session.ts';
import { lengthOf, xAt } from './viewport.ts';

/** Largest number of arrows: more would hide their content. */
const linksShownMax = 80;

interface Point {
  readonly x: number;
  readonly y: number;
}

interface End {
  readonly track: number;
  readonly depth: number;
  readonly time: number;
}

export class LinkPainter {
  readonly #context: CanvasRenderingContext2D;
  readonly #session: TimelineSession;

  constructor(context: CanvasRenderingContext2D, session: TimelineSession) {
    this.#context = context;
    this.#session = session;
  }

  /** The selected collective or call: its partners, the last rank in, and the bounds of the clocks. */
  partners(frame: Frame, split: number): void {
    const details = this.#session.details.peek();
    const place = this.#session.place.peek();
    if (details === undefined || details.partners.length === 0 || place === undefined) return;
    if (place.track !== details.track || place.event !== details.event) return;
    const { palette, window, width } = frame;
    const context = this.#context;
    const all = [{ ...details, rank: -1 }, ...details.partners];
    const last = all.reduce((latest, each) => (each.start > latest.start ? each : latest));
    for (const partner of details.partners) {
      const row = this.rowOf(frame, partner.track);
      if (row === undefined) continue;
      outline(this.#context, frame, row, split - frame.scrollTop, partner, palette.link, 1.5);
    }
    if (details.kind === 'rpc') {
      for (const partner of details.partners) {
        const isCaller = details.start <= partner.start;
        const [outer, inner] = isCaller ? [details, partner] : [partner, details];
        this.#arrow(frame, split, { ...outer, time: outer.start }, { ...inner, time: inner.start }, 1.5);
        this.#arrow(frame, split, { ...inner, time: inner.start + inner.length }, { ...outer, time: outer.start + outer.length }, 1.5);
      }
    } else {
      // Until the last rank came in, the others waited: the time is marked on each.
      for (const each of all) {
        if (each === last) continue;
        const row = this.rowOf(frame, each.track);
        if (row === undefined) continue;
        const place = placeIn(row, each.track, each.depth) ?? { top: 4, tall: 17 };
        const y = row.top + split - frame.scrollTop + place.top + place.tall;
        const [left, right] = [xAt(window, width, each.start), xAt(window, width, Math.min(last.start, each.start + each.length))];
        if (right - left >= 1) {
          context.fillStyle = palette.slow;
          context.fillRect(left, y - 3, right - left, 2);
        }
        this.#arrow(frame, split, { ...last, time: last.start }, { ...each, time: Math.max(each.start, last.start) }, 1.5);
      }
      this.#dot(frame, split, { ...last, time: last.start });
    }
    for (const each of all) this.#bounds(frame, split, each);
  }

  /** Arrows between the selected call or work and what it launched, or the call that launched it. */
  launches(frame: Frame, split: number): void {
    const details = this.#session.details.peek();
    const place = this.#session.place.peek();
    if (details === undefined || place?.track !== details.track || place.event !== details.event) return;
    const startOf = ({ track, depth, start }: EventPlace): End => ({ track, depth, time: start });
    const [call] = details.launchedBy;
    if (call !== undefined) this.#arrow(frame, split, startOf(call), startOf(details), 1.5);
    for (const work of details.launched) this.#arrow(frame, split, startOf(details), startOf(work), 1.5);
    for (const each of [...details.launchedBy.slice(0, 1), ...details.launched]) {
      const row = this.rowOf(frame, each.track);
      if (row !== undefined) outline(this.#context, frame, row, split - frame.scrollTop, each, frame.palette.link, 1.5);
    }
  }

  /** The clocks' bounds at both ends of the collective or call under the pointer, and its arrows in view. */
  hovered(frame: Frame, split: number): void {
    const hover = this.#session.hover.peek();
    const item = hover?.item;
    if (hover === undefined || item === undefined || hover.y < split || (item.kind !== 'collective' && item.kind !== 'rpc')) return;
    this.#bounds(frame, split, item);
    const isOfIt = ({ track, depth, time }: End): boolean =>
      track === item.track && depth === item.depth && time >= item.start - 1 && time <= item.start + item.length + 1;
    for (const { from, to } of this.#session.links.peek()?.links ?? []) {
      if (!isOfIt(from) && !isOfIt(to)) continue;
      for (const end of [from, to]) this.#boundAt(frame, split, end);
    }
  }

  #bounds(frame: Frame, split: number, { track, depth, start, length }: Pick<Item, 'track' | 'depth' | 'start' | 'length'>): void {
    this.#boundAt(frame, split, { track, depth, time: start });
    if (length > 0) this.#boundAt(frame, split, { track, depth, time: start + length });
  }

  /** Arrows in view, when they are few enough to be read. */
  links(frame: Frame, split: number): void {
    const links = this.#session.links.peek();
    if (links === undefined || links.leftOut > 0 || links.links.length > linksShownMax) return;
    // The selected event's arrows are drawn separately.
    const { partners = [], launchedBy = [], launched = [] } = this.#session.details.peek() ?? {};
    if (partners.length + launchedBy.length + launched.length > 0) return;
    this.#context.globalAlpha = links.links.length > 60 ? 0.25 : 0.45;
    const { window } = frame;
    for (const { from, to } of links.links) {
      const isNear = (time: number): boolean => time >= window.from && time <= window.until;
      if (isNear(from.time) || isNear(to.time)) this.#arrow(frame, split, from, to, 1);
    }
    this.#context.globalAlpha = 1;
  }

  #arrow(frame: Frame, split: number, from: End, to: End, thick: number): void {
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

  #dot(frame: Frame, split: number, at: End): void {
    const point = this.#pointOf(frame, split, at);
    if (point === undefined) return;
    const context = this.#context;
    context.fillStyle = frame.palette.slow;
    context.beginPath();
    context.arc(point.x, point.y, 3.5, 0, 2 * Math.PI);
    context.fill();
  }

  // The ± of the clocks, where it is visible.
  #boundAt(frame: Frame, split: number, at: End): void {
    const session = this.#session;
    const process = session.processes.peek().get(session.tracks.peek().get(at.track)?.process ?? -1);
    const bound = process === undefined ? null : boundAt(process.alignment, at.time);
    if (bound === null) return;
    const point = this.#pointOf(frame, split, at);
    const half = (bound / lengthOf(frame.window)) * frame.width;
    if (point === undefined || half < 1) return;
    const context = this.#context;
    context.fillStyle = frame.palette.bound;
    context.fillRect(point.x - half, point.y - 7, 2 * half, 14);
  }

  #pointOf({ window, width, scrollTop }: Frame, split: number, { track, depth, time }: End): Point | undefined {
    const row = this.rowOf({ layout: this.#session.layout.peek() }, track);
    if (row === undefined) return undefined;
    const place = placeIn(row, track, depth);
    const middle = place === undefined ? row.height / 2 : place.top + place.tall / 2;
    return { x: xAt(window, width, time), y: row.top + middle + split - scrollTop };
  }

  #rows: { readonly of: unknown; readonly byTrack: Map<number, Row> } | undefined;

  /** The row of a track, or the row that it is folded into. */
  rowOf({ layout }: Pick<Frame, 'layout'>, track: number): Row | undefined {
    if (this.#rows?.of !== layout) this.#rows = { of: layout, byTrack: rowsByTrack(layout.rows, this.#session.tracks.peek()) };
    return this.#rows.byTrack.get(track);
  }
}

function rowsByTrack(rows: readonly Row[], tracks: ReadonlyMap<number, ViewTrack>): Map<number, Row> {
  const found = new Map<number, Row>();
  const byProcess = new Map<number, Row>();
  for (const row of rows) {
    // A track's frames of Python, which no arrow leads to, are another row of it.
    if (row.track !== undefined && row.firstLine === 0) found.set(row.track.track, row);
    for (const lane of row.lanes) found.set(lane.track, row);
    if (row.kind === 'rank' && row.process !== undefined) byProcess.set(row.process.index, row);
  }
  for (const { track, process } of tracks.values()) {
    const row = byProcess.get(process);
    if (!found.has(track) && row !== undefined) found.set(track, row);
  }
  return found;
}

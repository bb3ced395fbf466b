// The canvas of one timeline: schedules its drawing, and handles the pointer.
//
//   a signal changes ──► one requestAnimationFrame ──► paint          nothing changes: nothing is drawn
//   a key is held, or a live run is followed ──► the next frame as well
//
// Pointer: press ─► drag > 3 px ─► pan, with shift: mark an area
//                └► release    ─► select                            double click: fit

import { effect, type ReadonlySignal } from '@preact/signals';
import { formatCount, formatMany } from '../controls/format.ts';
import type { ThemeName } from '../controls/theme.ts';
import { CanvasPainter } from './canvas-painter.ts';
import { FrameLog } from './frame-log.ts';
import { type Frame, FramePainter, pinnedBottom, rulerHeight } from './frame-painter.ts';
import { heldActions, type KeyAction } from './keys.ts';
import { foldedTracks, markedTracks } from './marked-tracks.ts';
import { palettes } from './palette.ts';
import { type Row, rowsBetween } from './rows.ts';
import type { TimelineSession } from './session.ts';
import { eased, fitted, followed, lengthOf, type TimeWindow, timeAt } from './viewport.ts';

const dragPx = 3;
/** Speed of held keys, per second: zoom (factor e^…) and move (parts of the window). */
const zoomRate = 3.2;
const panRate = 1.1;
const followEase = 0.22;

interface Press {
  readonly x: number;
  readonly y: number;
  readonly from: number;
  readonly until: number;
  readonly isMarking: boolean;
  isDragging: boolean;
}

export class Stage {
  readonly #session: TimelineSession;
  readonly #canvas: HTMLCanvasElement;
  readonly #theme: ReadonlySignal<ThemeName>;
  readonly #painter: FramePainter;
  readonly #canvasPainter: CanvasPainter;
  readonly #onFrame: () => void;
  readonly #log = new FrameLog();
  readonly #held = new Set<KeyAction>();
  readonly #stops: (() => void)[] = [];
  #press: Press | undefined;
  #request = 0;
  #heldAt: number | undefined;
  #hoveredIn: TimeWindow | undefined;

  /** `onFrame` moves the elements beside the canvas, in the same frame. */
  constructor(session: TimelineSession, canvas: HTMLCanvasElement, theme: ReadonlySignal<ThemeName>, onFrame: () => void) {
    const context = canvas.getContext('2d', { alpha: false });
    if (context === null) throw new Error('This browser gives no 2D canvas');
    this.#session = session;
    this.#canvas = canvas;
    this.#theme = theme;
    this.#onFrame = onFrame;
    this.#painter = new FramePainter(session.cache);
    this.#canvasPainter = new CanvasPainter(context, session, this.#painter);
    this.#stops.push(
      effect(() => {
        // All signals that a frame shows.
        for (const each of [
          session.window,
          session.layout,
          session.scrollTop,
          session.size,
          session.tilesCame,
          session.hover,
          session.place,
          session.details,
          session.links,
          session.matches,
          session.path,
          session.pathAt,
          session.marking,
          session.clockMarks,
          session.alertMarks,
          session.overview.now,
          session.area,
          session.state.follow,
          theme,
        ]) {
          void each.value;
        }
        this.#schedule();
      }),
    );
    const listen = <Name extends keyof HTMLElementEventMap>(
      name: Name,
      listener: (event: HTMLElementEventMap[Name]) => void,
      options?: AddEventListenerOptions,
    ): void => {
      canvas.addEventListener(name, listener, options);
      this.#stops.push(() => canvas.removeEventListener(name, listener, options));
    };
    listen('pointerdown', (event) => this.#down(event));
    listen('pointermove', (event) => this.#move(event));
    listen('pointerup', (event) => this.#up(event));
    listen('pointercancel', () => this.#cancel());
    listen('pointerleave', () => {
      session.hover.value = undefined;
    });
    listen('dblclick', (event) => this.#doubleClick(event));
    listen('wheel', (event) => this.#wheel(event), { passive: false });
  }

  dispose(): void {
    for (const stop of this.#stops) stop();
    cancelAnimationFrame(this.#request);
  }

  /** Starts an action that continues while its key is held. */
  hold(action: KeyAction): void {
    if (!heldActions.has(action) || this.#held.has(action)) return;
    if (this.#held.size === 0) this.#heldAt = undefined;
    this.#held.add(action);
    this.#schedule();
  }

  release(action: KeyAction): void {
    this.#held.delete(action);
  }

  releaseAll(): void {
    this.#held.clear();
  }

  #schedule(): void {
    this.#request ||= requestAnimationFrame((at) => {
      this.#request = 0;
      this.#draw(at);
    });
  }

  #draw(at: number): void {
    const session = this.#session;
    const { width, height } = session.size.peek();
    if (width === 0 || height === 0) return;
    this.#moveHeld(at);
    this.#follow();
    const begun = performance.now();
    this.#hoverAgain();
    const ratio = devicePixelRatio;
    const [columns, rows] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (this.#canvas.width !== columns) this.#canvas.width = columns;
    if (this.#canvas.height !== rows) this.#canvas.height = rows;
    const matches = session.matches.peek();
    const frame: Frame = {
      width,
      height,
      ratio,
      window: session.window.peek(),
      layout: session.layout.peek(),
      scrollTop: session.scrollTop.peek(),
      until: session.extent.peek().until,
      palette: palettes[this.#theme.peek()],
      colours: session.colours,
      means: matches === undefined ? undefined : (name) => matches.names.has(name),
      bandOf: (row) => session.overview.bandOf(row),
    };
    this.#canvasPainter.paint(frame, session.zero.peek());
    this.#onFrame();
    session.isLoading.value = session.cache.isLoading;
    this.#log.add(begun, performance.now() - begun);
  }

  // The pointer stays where it is while the picture moves below it.
  #hoverAgain(): void {
    const session = this.#session;
    const hover = session.hover.peek();
    const window = session.window.peek();
    if (hover !== undefined && this.#hoveredIn !== window) session.hover.value = session.at(hover.x, hover.y);
    this.#hoveredIn = window;
  }

  #moveHeld(at: number): void {
    if (this.#held.size === 0) return;
    const seconds = Math.min(0.05, (at - (this.#heldAt ?? at - 16)) / 1000);
    this.#heldAt = at;
    const session = this.#session;
    const { width } = session.size.peek();
    const zoom = (this.#held.has('zoomOut') ? 1 : 0) - (this.#held.has('zoomIn') ? 1 : 0);
    if (zoom !== 0) session.zoomAt(Math.exp(zoom * zoomRate * seconds), session.hover.peek()?.x ?? width / 2);
    const pan = (this.#held.has('panRight') ? 1 : 0) - (this.#held.has('panLeft') ? 1 : 0);
    if (pan !== 0) session.panBy(pan * panRate * seconds * width);
    this.#schedule();
  }

  #follow(): void {
    const session = this.#session;
    if (!session.state.follow.peek() || session.state.from.peek() === undefined) return;
    const window = session.window.peek();
    const goal = followed(window, session.extent.peek());
    const isCalm = matchMedia('(prefers-reduced-motion: reduce)').matches || goal.from - window.from > lengthOf(window);
    const next = isCalm ? goal : eased(window, goal, followEase, session.size.peek().width);
    if (next.from === window.from && next.until === window.until) return;
    session.show(next, false);
  }

  #pointOf(event: MouseEvent): readonly [number, number] {
    const box = this.#canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  #down(event: PointerEvent): void {
    if (event.button !== 0) return;
    const [x, y] = this.#pointOf(event);
    this.#canvas.setPointerCapture(event.pointerId);
    const { from, until } = this.#session.window.peek();
    this.#press = { x, y, from, until, isMarking: event.shiftKey, isDragging: false };
  }

  #move(event: PointerEvent): void {
    const session = this.#session;
    const [x, y] = this.#pointOf(event);
    const press = this.#press;
    if (press === undefined) {
      session.hover.value = session.at(x, y);
      this.#canvas.style.cursor = session.hover.value.item === undefined ? 'default' : 'pointer';
      return;
    }
    if (!press.isDragging && Math.hypot(x - press.x, y - press.y) < dragPx) return;
    press.isDragging = true;
    const { width } = session.size.peek();
    if (press.isMarking) {
      const window = session.window.peek();
      const [a, b] = [timeAt(window, width, press.x), timeAt(window, width, x)];
      session.marking.value = { from: Math.min(a, b), until: Math.max(a, b), top: Math.min(press.y, y), bottom: Math.max(press.y, y) };
      return;
    }
    this.#canvas.style.cursor = 'grabbing';
    session.hover.value = undefined;
    const by = ((press.x - x) / width) * (press.until - press.from);
    session.show({ from: press.from + by, until: press.until + by });
    // The lanes follow the hand up and down, too.
    const goal = session.scrollTop.peek() - event.movementY;
    if (event.movementY !== 0) session.scrollGoal.value = Math.max(0, goal);
  }

  #up(event: PointerEvent): void {
    const session = this.#session;
    const press = this.#press;
    this.#press = undefined;
    if (press === undefined) return;
    const [x, y] = this.#pointOf(event);
    if (!press.isDragging) {
      session.select(session.at(x, y).item);
      return;
    }
    this.#canvas.style.cursor = 'default';
    const marking = session.marking.peek();
    session.marking.value = undefined;
    if (marking === undefined) return;
    const found = this.#tracksBetween(marking.top, marking.bottom);
    if (found.size === 0 || marking.until <= marking.from) return;
    const { tracks, leftOut } = markedTracks(found, session.tracks.peek().size);
    session.state.area.value = { from: marking.from, until: marking.until, tracks: session.keys.peek()?.of(tracks) ?? [] };
    if (leftOut > 0) session.say(`The area has the first ${formatMany(tracks.length, 'track')}: ${formatCount(leftOut)} more are too many`);
  }

  #cancel(): void {
    this.#press = undefined;
    this.#session.marking.value = undefined;
  }

  #doubleClick(event: MouseEvent): void {
    const { item } = this.#session.at(...this.#pointOf(event));
    if (item !== undefined) this.#session.show(fitted(item.start, item.start + item.length));
  }

  #wheel(event: WheelEvent): void {
    const session = this.#session;
    const [x] = this.#pointOf(event);
    const unit = event.deltaMode === 1 ? 30 : 1;
    const [across, down] = [event.deltaX * unit, event.deltaY * unit];
    if (event.ctrlKey || event.altKey || event.metaKey) {
      event.preventDefault();
      session.zoomAt(Math.exp(Math.max(-1, Math.min(1, (down || across) * 0.0035))), x);
    } else if (event.shiftKey || Math.abs(across) > Math.abs(down)) {
      event.preventDefault();
      session.panBy(event.shiftKey ? down || across : across);
    }
  }

  // Tracks of all rows that lie partly between two heights: folded ranks with all their tracks.
  #tracksBetween(top: number, bottom: number): ReadonlySet<number> {
    const session = this.#session;
    const layout = session.layout.peek();
    const split = pinnedBottom(layout, session.size.peek().height);
    const scroll = session.scrollTop.peek();
    const found = new Set<number>();
    const add = (rows: readonly Row[], from: number, until: number): void => {
      const [first, last] = rowsBetween(rows, from, until);
      for (const row of rows.slice(first, last)) {
        if (row.track !== undefined) found.add(row.track.track);
        for (const lane of row.lanes) found.add(lane.track);
        for (const track of foldedTracks(row, session.tracks.peek(), session.processes.peek())) found.add(track);
      }
    };
    if (top < split) add(layout.pinned, top - rulerHeight, Math.min(bottom, split) - rulerHeight);
    if (bottom > split) add(layout.rows, Math.max(top, split) - split + scroll, bottom - split + scroll);
    return found;
  }
}

// The whole run in a strip: the cluster's step time over time, and the window in it. Drag the window to move it, its edges to resize it, or draw
// a new one beside it.

import { effect } from '@preact/signals';
import type { Overview } from '@ranktrace/protocol';
import type { JSX } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { useTheme } from '../controls/theme.ts';
import { binRange } from '../overview/step-bins.ts';
import { drawClockMarks, markReachPx } from './clock-mark-painter.ts';
import { marksAt } from './clock-marks.ts';
import { cssOf as css, palettes } from './palette.ts';
import type { TimelineSession } from './session.ts';
import { lengthOf, type TimeWindow, timeAt, wholeWindow, xAt } from './viewport.ts';

const edgePx = 6;
const hint = 'The whole run: drag to choose what is shown, double click for all';

type Grip = { readonly kind: 'move' | 'from' | 'until' | 'new'; readonly time: number; readonly window: TimeWindow };

export function Minimap({ session }: { session: TimelineSession }): JSX.Element {
  const canvas = useRef<HTMLCanvasElement>(null);
  const theme = useTheme();
  const grip = useRef<Grip | undefined>(undefined);

  useEffect(() => {
    let frame = 0;
    const stop = effect(() => {
      void session.window.value;
      void session.extent.value;
      void session.overview.now.value;
      void session.size.value;
      void session.clockMarks.value;
      void theme.value;
      frame ||= requestAnimationFrame(() => {
        frame = 0;
        if (canvas.current !== null) draw(canvas.current, session, palettes[theme.peek()]);
      });
    });
    return () => {
      stop();
      cancelAnimationFrame(frame);
    };
  }, [session, theme]);

  const timeOf = (event: PointerEvent): number => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    return timeAt(wholeWindow(session.extent.peek()), box.width, event.clientX - box.left);
  };
  const kindOf = (event: PointerEvent): Grip['kind'] => {
    const box = (event.currentTarget as HTMLElement).getBoundingClientRect();
    const whole = wholeWindow(session.extent.peek());
    const window = session.window.peek();
    const x = event.clientX - box.left;
    const [left, right] = [xAt(whole, box.width, window.from), xAt(whole, box.width, window.until)];
    if (Math.abs(x - left) <= edgePx) return 'from';
    if (Math.abs(x - right) <= edgePx) return 'until';
    return x > left && x < right && right - left < box.width - 2 ? 'move' : 'new';
  };
  return (
    <canvas
      ref={canvas}
      class="minimap"
      role="img"
      aria-label="Step time of the whole run, and the window that is shown"
      title={hint}
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId);
        grip.current = { kind: kindOf(event), time: timeOf(event), window: session.window.peek() };
      }}
      onPointerMove={(event) => {
        const held = grip.current;
        if (held === undefined) {
          const kind = kindOf(event);
          const reach = (lengthOf(wholeWindow(session.extent.peek())) / Math.max(1, event.currentTarget.clientWidth)) * markReachPx;
          const marks = marksAt(session.clockMarks.peek(), timeOf(event), reach);
          event.currentTarget.title = marks.length > 0 ? marks.join('\n') : hint;
          event.currentTarget.style.cursor = kind === 'move' ? 'grab' : kind === 'new' ? 'crosshair' : 'ew-resize';
          return;
        }
        const time = timeOf(event);
        const { window } = held;
        const by = time - held.time;
        if (held.kind === 'move') session.show({ from: window.from + by, until: window.until + by });
        else if (held.kind === 'from') session.show({ from: Math.min(time, window.until - 1), until: window.until });
        else if (held.kind === 'until') session.show({ from: window.from, until: Math.max(time, window.from + 1) });
        else if (Math.abs(by) > 0) session.show({ from: Math.min(time, held.time), until: Math.max(time, held.time) });
      }}
      onPointerUp={(event) => {
        const held = grip.current;
        grip.current = undefined;
        // A press beside the window moves it there.
        const time = timeOf(event);
        if (held === undefined || held.kind !== 'new' || time !== held.time) return;
        const half = lengthOf(held.window) / 2;
        session.show({ from: time - half, until: time + half });
      }}
      onDblClick={() => session.showWhole()}
    />
  );
}

function draw(canvas: HTMLCanvasElement, session: TimelineSession, palette: (typeof palettes)['light']): void {
  const ratio = devicePixelRatio;
  const width = canvas.clientWidth;
  const height = canvas.clientHeight;
  if (width === 0) return;
  if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
  if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
  const context = canvas.getContext('2d', { alpha: false });
  if (context === null) return;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.fillStyle = css(palette.background);
  context.fillRect(0, 0, width, height);
  const whole = wholeWindow(session.extent.peek());
  const overview = session.overview.now.peek();
  if (overview !== undefined) drawSteps(context, overview, whole, width, height, css(palette.bandRange), css(palette.bandMedian));
  drawClockMarks(context, session.clockMarks.peek(), whole, width, height, css(palette.clockStep));
  const window = session.window.peek();
  const left = Math.max(0, xAt(whole, width, window.from));
  const right = Math.min(width, Math.max(xAt(whole, width, window.until), left + 2));
  context.globalAlpha = 0.62;
  context.fillStyle = css(palette.header);
  context.fillRect(0, 0, left, height);
  context.fillRect(right, 0, width - right, height);
  context.globalAlpha = 1;
  context.fillStyle = palette.accentSoft;
  if (right - left < width - 2) context.fillRect(left, 0, right - left, height);
  context.fillStyle = palette.accent;
  for (const x of [left, right - 1]) context.fillRect(Math.round(x), 0, 1, height);
  for (const x of [left, right - 1]) {
    context.beginPath();
    context.roundRect(x - 2, height / 2 - 7, 5, 14, 2);
    context.fill();
  }
}

// From nothing to the slowest step, so that a step twice as long is twice as high; the rare giant is cut off rather than flattening all others.
function drawSteps(
  context: CanvasRenderingContext2D,
  overview: Overview,
  whole: TimeWindow,
  width: number,
  height: number,
  range: string,
  line: string,
): void {
  const { times, slowest, median, fastest } = overview;
  const sorted = slowest.filter((value): value is number => value !== null).sort((a, b) => a - b);
  const most = Math.min(sorted.at(-1) ?? 0, (sorted[sorted.length >> 1] ?? 0) * 4) * 1.08;
  if (most <= 0) return;
  const yOf = (value: number): number => Math.max(2, height - 3 - (value / most) * (height - 6));
  for (let bin = 0; bin < times.length; bin++) {
    const [slow, middle, fast] = [slowest[bin], median[bin], fastest[bin]];
    const place = binRange(overview, bin);
    if (slow === null || slow === undefined || place === undefined) continue;
    const { from, until } = place;
    const left = xAt(whole, width, from);
    const wide = Math.max(1, xAt(whole, width, until) - left);
    context.fillStyle = range;
    context.fillRect(left, yOf(slow), wide, Math.max(1, yOf(fast ?? 0) - yOf(slow)));
    context.fillStyle = line;
    if (middle !== null && middle !== undefined) context.fillRect(left, yOf(middle), wide, 1.25);
  }
}

// Draws the marks of the clocks (clock-marks.ts) along the bottom of a strip of time: the ruler, the whole run.

import type { ClockMarks } from './clock-marks.ts';
import { type TimeWindow, xAt } from './viewport.ts';

/** Pixels around a mark in which the pointer is on it. */
export const markReachPx = 5;

export function drawClockMarks(
  context: CanvasRenderingContext2D,
  { conflicts, shifted }: ClockMarks,
  window: TimeWindow,
  width: number,
  bottom: number,
  colour: string,
): void {
  if (conflicts.length === 0 && shifted.length === 0) return;
  context.fillStyle = colour;
  for (const { from, until } of shifted) {
    if (until < window.from || from > window.until) continue;
    const left = Math.max(0, xAt(window, width, from));
    const right = Math.min(width, xAt(window, width, until));
    context.fillRect(left, bottom - 3, Math.max(2, right - left), 3);
  }
  for (const { time } of conflicts) {
    if (time < window.from || time > window.until) continue;
    const x = xAt(window, width, time);
    context.beginPath();
    context.moveTo(x - 4, bottom - 1);
    context.lineTo(x + 4, bottom - 1);
    context.lineTo(x, bottom - 9);
    context.fill();
  }
}

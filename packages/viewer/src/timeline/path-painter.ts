// Draws the critical path over the lanes: a bar below each span on it, a thin line where it waits, and arrows where it goes to another line.
//
//   ██ aten::mm ██            ██ gemm ██
//   ▀▀▀▀▀▀▀▀▀▀▀▀▀╲            ▀▀▀▀▀▀▀▀▀╲            the bars of the path
//                 ╲─── launch ↗

import type { ViewPath, ViewPathSegment } from '@ranktrace/protocol';
import type { Frame } from './frame-painter.ts';
import { placeIn } from './row-lines.ts';
import type { Row } from './rows.ts';
import { xAt } from './viewport.ts';

const barPx = 3;
/** Where there are more changes of line in view, arrows would hide the lanes. */
const arrowsMax = 150;
/** Segments in which nothing works. */
const pauses: ReadonlySet<ViewPathSegment['bound']> = new Set(['gap', 'launch', 'none']);

export const isPause = ({ bound }: Pick<ViewPathSegment, 'bound'>): boolean => pauses.has(bound);

interface Drawn {
  readonly left: number;
  readonly right: number;
  readonly y: number;
}

/** `rowOf`: the row of a track, or the one that it is folded into. `chosen`: the segment that a person looks at. */
export function drawPath(
  context: CanvasRenderingContext2D,
  frame: Frame,
  split: number,
  path: ViewPath,
  chosen: number | undefined,
  rowOf: (track: number) => Row | undefined,
): void {
  const { window, width, height, palette } = frame;
  const drawn: Drawn[] = [];
  context.fillStyle = palette.path;
  for (const [at, segment] of path.segments.entries()) {
    const { start, end, place } = segment;
    if (place === null || end < window.from || start > window.until) continue;
    const row = rowOf(place.track);
    if (row === undefined) continue;
    const line = placeIn(row, place.track, place.depth) ?? { top: 0, tall: row.height - 2 };
    const bottom = row.top + split - frame.scrollTop + line.top + line.tall;
    const left = Math.max(-4, xAt(window, width, start));
    const right = Math.min(width + 4, xAt(window, width, end));
    drawn.push({ left, right, y: bottom - barPx / 2 });
    if (bottom < 0 || bottom - line.tall > height) continue;
    const wide = Math.max(1, right - left);
    if (isPause(segment)) context.fillRect(left, bottom - 2, wide, 1);
    else context.fillRect(left, bottom - barPx, wide, barPx);
    if (at === chosen) {
      context.strokeStyle = palette.path;
      context.lineWidth = 2;
      context.strokeRect(left - 1, bottom - line.tall - 1, wide + 2, line.tall + 2);
    }
  }
  drawArrows(context, frame, drawn);
}

function drawArrows(context: CanvasRenderingContext2D, { height, palette }: Frame, drawn: readonly Drawn[]): void {
  const turns = drawn.flatMap((to, at) => {
    const from = drawn[at - 1];
    const isTurn = from !== undefined && Math.abs(from.y - to.y) > 1 && Math.max(from.y, to.y) > 0 && Math.min(from.y, to.y) < height;
    return isTurn ? [[from, to] as const] : [];
  });
  if (turns.length > arrowsMax) return;
  context.strokeStyle = palette.path;
  context.fillStyle = palette.path;
  context.lineWidth = 1.25;
  context.globalAlpha = turns.length > 40 ? 0.5 : 0.9;
  for (const [from, to] of turns) {
    const [x0, x1] = [from.right, Math.max(to.left, from.right)];
    const bend = Math.min(24, (x1 - x0) / 2);
    context.beginPath();
    context.moveTo(x0, from.y);
    context.bezierCurveTo(x0 + bend, from.y, x1 - bend, to.y, x1, to.y);
    context.stroke();
    const angle = bend < 3 ? Math.atan2(to.y - from.y, x1 - x0) : 0;
    context.beginPath();
    context.moveTo(x1, to.y);
    for (const turn of [0.45, -0.45]) context.lineTo(x1 - 6 * Math.cos(angle + turn), to.y - 6 * Math.sin(angle + turn));
    context.fill();
  }
  context.globalAlpha = 1;
}

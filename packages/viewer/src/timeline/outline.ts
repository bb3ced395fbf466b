// The frame around an event that is selected, hovered, or a partner of the selected one.

import type { Frame } from './frame-painter.ts';
import { placeIn } from './row-lines.ts';
import type { Row } from './rows.ts';
import { xAt } from './viewport.ts';

/** Draws a frame around an event; instants and very short events get one of 3 px. `offset` moves the row's top into the drawing. */
export function outline(
  context: CanvasRenderingContext2D,
  { window, width }: Frame,
  row: Row,
  offset: number,
  { track, start, length, depth }: { readonly track: number; readonly start: number; readonly length: number; readonly depth: number },
  colour: string,
  thick: number,
): void {
  const left = Math.max(-4, xAt(window, width, start));
  const right = Math.min(width + 4, xAt(window, width, start + length));
  if (right < 0 || left > width) return;
  const place = placeIn(row, track, depth);
  if (place === undefined) return;
  const [top, tall] = [row.top + place.top, place.tall];
  const wide = Math.max(3, right - left);
  context.strokeStyle = colour;
  context.lineWidth = thick;
  context.strokeRect(left - (wide === 3 ? 1.5 : 0) + thick / 2 - 1, top + offset + thick / 2 - 1, wide - thick + 2, tall - thick + 2);
}

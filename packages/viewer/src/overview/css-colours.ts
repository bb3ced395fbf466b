// Colours of the style sheet for canvas painters: the variables of theme.css as numbers.

import { parseColour, type Rgb } from './heat-cells.ts';

/** The current colour of a CSS variable (`--accent`) for `element`, as the browser computes it: `rgb(31, 102, 214)`. */
export function cssColour(element: HTMLElement, variable: string): string {
  const probe = document.createElement('span');
  probe.style.color = `var(${variable})`;
  probe.hidden = true;
  element.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

/** The colour as numbers. */
export const cssRgb = (element: HTMLElement, variable: string): Rgb => parseColour(cssColour(element, variable));

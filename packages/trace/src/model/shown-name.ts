// Text of a trace made harmless to show (protocol/printable.ts) and cut, so that its writer cannot fill the page either.

import { limits, printable } from '@ranktrace/protocol';

const lone = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/** Share of a cut text that shows its end, where kernels of one template differ. */
const tailShare = 0.3;

/** `text` to show, at most `charsMax` characters; a longer one loses its middle. */
export function displayText(text: string, charsMax: number): string {
  const shown = printable(text.length > 8 * charsMax ? text.slice(0, 4 * charsMax) + text.slice(-4 * charsMax) : text);
  if (shown.length <= charsMax) return shown;
  const tail = Math.floor(charsMax * tailShare);
  return wellFormed(`${shown.slice(0, charsMax - tail - 1)}…${shown.slice(shown.length - tail)}`);
}

/** How a process ended, as it or another program told it: `SIGTERM`, `ended with exit code 1`. */
export const shownEnd = (text: string): string => displayText(text, endCharsMax);
const endCharsMax = 64;

/** A name as it is shown, at most `limits.viewNameCharsMax` characters. */
export const displayName = (text: string): string => displayText(text, limits.viewNameCharsMax);

/** Replaces the halves of surrogate pairs that a cut split by one character each. */
const wellFormed = (text: string): string => text.replace(lone, '\ufffd');

// Text of a trace made harmless to show (protocol/printable.ts) and cut: whoever wrote it cannot fill the page either.

import { limits, printable } from '@ranktrace/protocol';

const lone = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/** Characters of a cut text that are its end: what sets kernels of one template apart stands there. */
const tailShare = 0.3;

/** `text` to show, at most `charsMax` characters: the middle of a longer one is left out. */
export function displayText(text: string, charsMax: number): string {
  const shown = printable(text.length > 8 * charsMax ? text.slice(0, 4 * charsMax) + text.slice(-4 * charsMax) : text);
  if (shown.length <= charsMax) return shown;
  const tail = Math.floor(charsMax * tailShare);
  return wellFormed(`${shown.slice(0, charsMax - tail - 1)}…${shown.slice(shown.length - tail)}`);
}

/** A name as it is shown, at most `limits.viewNameCharsMax` characters. */
export const displayName = (text: string): string => displayText(text, limits.viewNameCharsMax);

/** Halves of a pair that a cut went through become one character each. */
const wellFormed = (text: string): string => text.replace(lone, '\ufffd');

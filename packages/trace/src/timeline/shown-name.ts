// Text of a trace made harmless to show: whoever wrote it can neither hide nor turn round what stands beside it, nor fill the page.
//
// Invariant: what comes out holds no control, direction or invisible mark and no lone surrogate; each is shown as an escape such as `\u202e`.

import { limits } from '@ranktrace/protocol';

/** C0, DEL and C1; Arabic letter mark; zero-width and direction marks; line and paragraph separators; embeddings, overrides, isolates; BOM. */
const marks = '\\u0000-\\u001f\\u007f-\\u009f\\u061c\\u180e\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb';
const loneSurrogates = '[\\ud800-\\udbff](?![\\udc00-\\udfff])|(?<![\\ud800-\\udbff])[\\udc00-\\udfff]';
const harmful = new RegExp(`[${marks}]|${loneSurrogates}`, 'g');
const lone = new RegExp(loneSurrogates, 'g');

const escaped = (text: string): string => text.replace(harmful, (mark) => `\\u${mark.charCodeAt(0).toString(16).padStart(4, '0')}`);

/** Characters of a cut text that are its end: what sets kernels of one template apart stands there. */
const tailShare = 0.3;

/** `text` to show, at most `charsMax` characters: the middle of a longer one is left out. */
export function displayText(text: string, charsMax: number): string {
  const shown = escaped(text.length > 8 * charsMax ? text.slice(0, 4 * charsMax) + text.slice(-4 * charsMax) : text);
  if (shown.length <= charsMax) return shown;
  const tail = Math.floor(charsMax * tailShare);
  return wellFormed(`${shown.slice(0, charsMax - tail - 1)}…${shown.slice(shown.length - tail)}`);
}

/** A name as it is shown, at most `limits.viewNameCharsMax` characters. */
export const displayName = (text: string): string => displayText(text, limits.viewNameCharsMax);

/** Halves of a pair that a cut went through become one character each. */
const wellFormed = (text: string): string => text.replace(lone, '\ufffd');

// Lines of text for a terminal: pieces with a style, laid out to a width. They are independent of runs.
//
// Invariant: only words are cut; a number is shown whole or not at all. A line is cut to the width before it is painted, so that colours take no
// room. All painted text is printable.

import { printable } from '@ranktrace/protocol';

export type Style = 'bold' | 'dim' | 'red' | 'yellow' | 'green';
export type Piece = readonly [text: string, style?: Style | undefined];
export type Line = readonly Piece[];

const codes: Readonly<Record<Style, string>> = { bold: '1', dim: '2', red: '31', yellow: '33', green: '32' };
const gap = '   ';

/** The line as the terminal needs it, at most `columns` wide. */
export function paint(line: Line, columns: number, colour: boolean): string {
  let left = columns;
  let text = '';
  for (const [piece, style] of line) {
    const shown = printable(piece).slice(0, left);
    left -= shown.length;
    text += colour && style !== undefined && shown !== '' ? `\u001b[${codes[style]}m${shown}\u001b[0m` : shown;
  }
  return text;
}

/** Items side by side on at most `linesMax` lines, the first ones first; an item that finds no room is left out whole. */
export function flowed(items: readonly Piece[], columns: number, linesMax: number): Line[] {
  const lines: Piece[][] = [];
  let width = Number.POSITIVE_INFINITY;
  for (const item of items) {
    const [{ length }] = item;
    if (width + gap.length + length <= columns) {
      lines.at(-1)?.push([gap], item);
      width += gap.length + length;
    } else if (lines.length < linesMax && (length <= columns || lines.length === 0)) {
      lines.push([item]);
      width = length;
    }
  }
  return lines;
}

/** Words on lines of at most `columns`, all but the first indented; a word that is longer than that is broken. */
export function wrapped(text: string, columns: number, indent: number): string[] {
  const width = Math.max(1, columns - indent);
  const lines: string[] = [];
  let line = '';
  const room = (): number => (lines.length === 0 ? Math.max(1, columns) : width);
  for (let word of text.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > room()) {
      lines.push(line);
      line = '';
    }
    for (; word.length > room() && line === ''; word = word.slice(room())) lines.push(word.slice(0, room()));
    line = line === '' ? word : `${line} ${word}`;
  }
  if (line !== '' || lines.length === 0) lines.push(line);
  return lines.map((each, at) => (at === 0 ? each : ' '.repeat(Math.min(indent, columns)) + each));
}

/** At most `linesMax` of the lines; a `…` in the last one marks that there were more. */
export function firstLines(lines: readonly string[], linesMax: number, columns: number): string[] {
  if (lines.length <= linesMax) return [...lines];
  return lines.slice(0, linesMax).map((line, at) => (at === linesMax - 1 ? `${line.slice(0, Math.max(0, columns - 1))}…` : line));
}

/** The text, or its beginning with `…`. */
export const cut = (text: string, charsMax: number): string =>
  text.length <= charsMax ? text : `${text.slice(0, Math.max(0, charsMax - 1))}…`;

// Numbers and tables as people read them.

import { lineName } from '@ranktrace/protocol';
import { displayText, lengthText, significant } from '@ranktrace/trace';

/** Nanoseconds as findings and alerts write them: `8.42 ms`. */
export const formatNanos = lengthText;

/** Bytes in binary units: `3.2 MiB`. */
export function formatBytes(bytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let size = bytes;
  let unit = 0;
  for (; size >= 1024 && unit < units.length - 1; unit++) size /= 1024;
  return `${unit === 0 ? size : significant(size)} ${units[unit]}`;
}

/** A count with thin groups of three: `12 345`. */
export const formatCount = (count: number): string => String(Math.round(count)).replace(/\B(?=(\d{3})+$)/g, ' ');

/** Longest cell of a table: a name of a megabyte would make every row as wide. */
const cellCharsMax = 1000;

/** A phase's name at the head of a column. */
export const phaseChars = 28;

/** A name of a trace on a line of ours: safe to show, shortened, at most `chars` characters. */
export const nameInLine = (name: string, chars: number): string => lineName(displayText(name, cellCharsMax), chars);

/** Left- or right-aligned columns, two spaces apart; the first row is the head. Cells are made printable, so a row is always one line. */
export function formatTable(rows: readonly (readonly string[])[], right: readonly boolean[]): string {
  const shown = rows.map((row) => row.map((cell) => displayText(cell, cellCharsMax)));
  // A call takes fewer arguments than a table may have rows.
  const widths = (shown[0] ?? []).map((_, column) => shown.reduce((most, row) => Math.max(most, (row[column] ?? '').length), 0));
  const line = (row: readonly string[]): string =>
    row
      .map((cell, column) => (right[column] ? cell.padStart(widths[column] as number) : cell.padEnd(widths[column] as number)))
      .join('  ')
      .trimEnd();
  return shown.map(line).join('\n');
}

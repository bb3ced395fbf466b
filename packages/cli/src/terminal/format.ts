// Numbers and tables as people read them.

import { lineName } from '@ranktrace/protocol';
import { displayText, lengthText, significant } from '@ranktrace/trace';

/** Nanoseconds as findings and alerts write them: `8.42 ms`. */
export const formatNanos = lengthText;

const unitNs: Readonly<Record<string, number>> = { d: 86_400e9, h: 3600e9, s: 1e9, ms: 1e6, µs: 1e3 };

/** Lengths, ns, in the unit of the last one: `1.20/3.40/9.00 ms`. */
export function formatLengths(lengths: readonly number[]): string {
  const [, unit = 'ns'] = formatNanos(lengths.at(-1) ?? 0).split(' ');
  const size = unitNs[unit] ?? 1;
  return `${lengths.map((ns) => (size === 1 ? Math.round(ns) : significant(ns / size))).join('/')} ${unit}`;
}

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

// A table as text for other programs: comma-separated values after RFC 4180, or tab-separated for a spreadsheet's clipboard.
//
// Invariant: no cell of text begins with a character that a spreadsheet takes for a formula: an apostrophe comes before it.

export type CsvValue = number | string | boolean | null | undefined;

/** Lines end with CR LF; numbers are written exactly, and missing ones are empty. */
export const csvText = (rows: readonly (readonly CsvValue[])[]): string => rows.map((row) => `${row.map(csvCell).join(',')}\r\n`).join('');

/** Cells between tabs; line ends and tabs within a cell become spaces. */
export const tabbedText = (rows: readonly (readonly CsvValue[])[]): string =>
  rows.map((row) => row.map((value) => plain(value).replaceAll(/[\t\r\n]+/g, ' ')).join('\t')).join('\n');

function csvCell(value: CsvValue): string {
  const text = plain(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function plain(value: CsvValue): string {
  if (value === null || value === undefined) return '';
  if (typeof value === 'number') return Number.isFinite(value) ? String(value) : '';
  const text = String(value);
  return /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
}

/** A file's name from a title: `Kernels of rank 3` is `kernels-of-rank-3.csv`. */
export const csvName = (title: string): string =>
  `${title
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^-|-$/g, '')
    .slice(0, 60)}.csv`;

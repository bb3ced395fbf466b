// Columns that the tables of a profile share: names that lead to the timeline, times, shares with a bar, figures that may be unknown.

import { lineName, type ProfilePlace } from '@ranktrace/protocol';
import type { JSX } from 'preact';
import type { Column } from '../controls/data-table.tsx';
import { formatBytes, formatCount, formatDuration, formatMany, formatNumber, formatPercent } from '../controls/format.ts';

/** Shows the longest event of a line in the timeline; undefined where there is no timeline, as in a report's file. */
export type ShowPlace = ((name: string, place: ProfilePlace) => void) | undefined;

/** The line's name, with a link to its longest event. */
export const nameColumn = <Row extends { readonly name: string; readonly place?: ProfilePlace | null }>(
  title: string,
  onPlace: ShowPlace,
  unnamed = '(no name)',
): Column<Row> => ({
  key: 'name',
  title,
  sort: ({ name }) => name,
  show: ({ name, place }) => <PlaceName name={name === '' ? unnamed : name} searched={name} place={place ?? null} onPlace={onPlace} />,
});

export function PlaceName(props: {
  readonly name: string;
  readonly searched: string;
  readonly place: ProfilePlace | null;
  readonly onPlace: ShowPlace;
}): JSX.Element {
  const { name, searched, place, onPlace } = props;
  const text = <span class="data-table-name">{lineName(name)}</span>;
  if (place === null || onPlace === undefined) return <span title={name}>{text}</span>;
  return (
    <button type="button" class="is-link" title={`${name}: show the longest in the timeline`} onClick={() => onPlace(searched, place)}>
      {text}
    </button>
  );
}

interface Figure<Row> {
  readonly key: string;
  readonly title: string;
  readonly hint?: string;
  readonly of: (row: Row) => number | null | undefined;
}

const figure = <Row,>({ key, title, hint, of }: Figure<Row>, unit: string, shown: (value: number) => string): Column<Row> => ({
  key,
  title,
  ...(hint === undefined ? {} : { hint }),
  isNumber: true,
  unit,
  sort: (row) => of(row) ?? undefined,
  show: (row) => {
    const value = of(row);
    return value === null || value === undefined ? '–' : shown(value);
  },
});

export const timeColumn = <Row,>(about: Figure<Row>): Column<Row> => figure(about, 'ns', formatDuration);
export const bytesColumn = <Row,>(about: Figure<Row>): Column<Row> => figure(about, 'B', formatBytes);
export const bandwidthColumn = <Row,>(about: Figure<Row>): Column<Row> =>
  figure(about, 'B/s', (value) => `${formatNumber(value / 1e9)}\u2009GB/s`);
export const numberColumn = <Row,>(about: Figure<Row>): Column<Row> => figure(about, '1', formatNumber);
export const percentColumn = <Row,>(about: Figure<Row>): Column<Row> => figure(about, '1', formatPercent);

export const countColumn = <Row,>({ unit: _, ...about }: Figure<Row> & { readonly unit?: undefined }): Column<Row> => {
  const { unit: __, ...column } = figure(about, '', formatCount);
  return column;
};

/** A share, with a bar of that length before it. */
export const shareColumn = <Row,>(about: Figure<Row>): Column<Row> => ({
  ...figure(about, '1', formatPercent),
  show: (row) => {
    const share = about.of(row);
    if (share === null || share === undefined) return '–';
    return (
      <>
        <span class="data-table-bar" aria-hidden="true">
          <span style={{ width: `${Math.max(0, Math.min(100, 100 * share))}%` }} />
        </span>
        {formatPercent(share)}
      </>
    );
  },
});

interface Rest {
  readonly lines: number;
  readonly count: number;
  readonly total: number;
}

/** `and 1,204 more calls, 3.4 ms together`; nothing where all lines are shown. Of several ranks the same names may be left out more than once. */
export const restText = ({ lines, count, total }: Rest, what = 'call', shown = formatDuration): string | undefined =>
  lines === 0 ? undefined : `and ${formatMany(count > 0 ? count : lines, `more ${what}`)}${total > 0 ? `, ${shown(total)} together` : ''}`;

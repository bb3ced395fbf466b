// A table that a person sorts by its headers and reads a page at a time: an HTML table, for screen readers, with a bounded number of rows in the
// document however many there are.

import type { ComponentChildren, JSX } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import { CopyButton } from './copy-button.tsx';
import { type CsvValue, csvName, csvText, tabbedText } from './csv.ts';
import { formatCount } from './format.ts';
import { saveText } from './save-text.ts';
import { nextOrder, type SortOrder, type SortValue, sortRows } from './sort-rows.ts';
import './data-table.css';

export interface Column<Row> {
  readonly key: string;
  readonly title: string;
  /** Meaning of the column, shown on hover. */
  readonly hint?: string;
  /** Numbers are right-aligned, and first sorted in descending order. */
  readonly isNumber?: boolean;
  /** The key to sort by; a column without one cannot be sorted by. */
  readonly sort?: (row: Row) => SortValue;
  readonly show: (row: Row) => ComponentChildren;
  /** The value for other programs, with its unit in `unit`; default: the key to sort by. */
  readonly value?: (row: Row) => CsvValue;
  /** Unit of that value, for its header: `ns`. */
  readonly unit?: string;
  /** Only for other programs: the page has no room for it. */
  readonly isOnlyInFile?: boolean;
  /** Not for other programs: columns of `isOnlyInFile` have its parts one by one. */
  readonly isOnlyOnPage?: boolean;
}

export interface DataTableProps<Row> {
  /** Title of the table, for a screen reader. */
  readonly caption: string;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly keyOf: (row: Row) => string;
  readonly order: SortOrder;
  readonly pageRows?: number;
  /** Shown instead of rows when there are none. */
  readonly empty: string;
  readonly classOf?: (row: Row) => string;
  /** A line below the rows: what is not among them. */
  readonly foot?: string | undefined;
}

/** The table sorts its rows; the caller filters them. */
export function DataTable<Row>(props: DataTableProps<Row>): JSX.Element {
  const { caption, rows, keyOf, pageRows = 50, empty, classOf, foot = '' } = props;
  const columns = props.columns.filter(({ isOnlyInFile }) => isOnlyInFile !== true);
  const [order, setOrder] = useState(props.order);
  const [page, setPage] = useState(0);
  const column = columns.find(({ key }) => key === order.by);
  const sorted = useMemo(
    () => (column?.sort === undefined ? rows : sortRows(rows, column.sort, order.direction)),
    // Columns are new objects at each rendering; only the sorted one matters.
    [rows, order],
  );
  const pages = Math.max(1, Math.ceil(sorted.length / pageRows));
  const at = Math.min(page, pages - 1);
  const sortBy = ({ key, isNumber }: Column<Row>): void => {
    setOrder(nextOrder(order, key, isNumber === true ? 'down' : 'up'));
    setPage(0);
  };
  // Outside of the title, so that titles align with the cells below.
  const arrow = ({ key }: Column<Row>): JSX.Element => (
    <span class="data-table-arrow" aria-hidden="true">
      {key !== order.by ? '' : order.direction === 'up' ? '▲' : '▼'}
    </span>
  );
  return (
    <div class="data-table">
      <div class="data-table-scroll">
        <table>
          <caption class="only-aloud">{caption}</caption>
          <thead>
            <tr>
              {columns.map((one) => (
                <th
                  key={one.key}
                  scope="col"
                  class={one.isNumber === true ? 'is-number' : ''}
                  {...(one.sort === undefined
                    ? {}
                    : { 'aria-sort': one.key === order.by ? (order.direction === 'up' ? 'ascending' : 'descending') : 'none' })}
                >
                  {one.sort === undefined ? (
                    one.title
                  ) : (
                    <button type="button" class="data-table-sort" title={one.hint} onClick={() => sortBy(one)}>
                      {one.isNumber === true && arrow(one)}
                      {one.title}
                      {one.isNumber !== true && arrow(one)}
                    </button>
                  )}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {sorted.slice(at * pageRows, (at + 1) * pageRows).map((row) => (
              <tr key={keyOf(row)} class={classOf?.(row) ?? ''}>
                {columns.map((one) => (
                  <td key={one.key} class={one.isNumber === true ? 'is-number' : ''}>
                    {one.show(row)}
                  </td>
                ))}
              </tr>
            ))}
            {sorted.length === 0 && (
              <tr>
                <td colSpan={columns.length} class="data-table-empty">
                  {empty}
                </td>
              </tr>
            )}
          </tbody>
        </table>
      </div>
      {foot !== '' && <p class="data-table-foot">{foot}</p>}
      {sorted.length > 0 && <TableExport caption={caption} columns={props.columns} rows={sorted} />}
      {pages > 1 && (
        <nav class="data-table-pages" aria-label={`Pages of ${caption}`}>
          <button type="button" disabled={at === 0} onClick={() => setPage(at - 1)}>
            Previous
          </button>
          <span aria-live="polite">
            {formatCount(at * pageRows + 1)}–{formatCount(Math.min((at + 1) * pageRows, sorted.length))} of {formatCount(sorted.length)}
          </span>
          <button type="button" disabled={at === pages - 1} onClick={() => setPage(at + 1)}>
            Next
          </button>
        </nav>
      )}
    </div>
  );
}

/** All rows of the table, in its order, for other programs: to the clipboard, or as a file. */
function TableExport<Row>({ caption, columns, rows }: Pick<DataTableProps<Row>, 'caption' | 'columns' | 'rows'>): JSX.Element {
  const values = (): CsvValue[][] => {
    const known = columns.filter(({ sort, value, isOnlyOnPage }) => isOnlyOnPage !== true && (sort !== undefined || value !== undefined));
    const head = known.map(({ title, unit }) => (unit === undefined ? title : `${title} (${unit})`));
    return [head, ...rows.map((row) => known.map(({ sort, value }) => (value ?? sort)?.(row)))];
  };
  return (
    <p class="data-table-export">
      <CopyButton class="is-link" title="Copy all rows, for a spreadsheet" text={() => tabbedText(values())}>
        Copy<span class="only-aloud"> {caption}</span>
      </CopyButton>
      <button
        type="button"
        class="is-link"
        title="All rows as comma-separated values"
        onClick={() => saveText(csvName(caption), csvText(values()))}
      >
        CSV<span class="only-aloud"> of {caption}</span>
      </button>
    </p>
  );
}

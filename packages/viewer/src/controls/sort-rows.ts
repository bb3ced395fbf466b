// Prepares rows of a table: sorted by one column, filtered by words, a page at a time.
//
// Invariant: sorting is stable, and rows without a value (undefined, NaN) come last in either direction.

/** The value that a column sorts by. */
export type SortValue = number | string | undefined;

export interface SortOrder {
  /** Key of the column. */
  readonly by: string;
  readonly direction: 'up' | 'down';
}

const collator = new Intl.Collator('en', { numeric: true, sensitivity: 'base' });

/** A sorted copy. */
export function sortRows<Row>(rows: readonly Row[], keyOf: (row: Row) => SortValue, direction: SortOrder['direction']): readonly Row[] {
  const sign = direction === 'up' ? 1 : -1;
  const keyed = rows.map((row) => ({ row, value: keyOf(row) }));
  keyed.sort((a, b) => {
    const [hasNoA, hasNoB] = [isNothing(a.value), isNothing(b.value)];
    if (hasNoA || hasNoB) return Number(hasNoA) - Number(hasNoB);
    if (typeof a.value === 'number' && typeof b.value === 'number') return sign * (a.value - b.value);
    return sign * collator.compare(String(a.value), String(b.value));
  });
  return keyed.map(({ row }) => row);
}

/** The next order after a click on a column: the other direction of it, or its first direction. */
export const nextOrder = (order: SortOrder, by: string, first: SortOrder['direction']): SortOrder =>
  order.by === by ? { by, direction: order.direction === 'up' ? 'down' : 'up' } : { by, direction: first };

/** A test for texts that hold each word of the filter, case-insensitive; all of them for an empty one. */
export function wordFilter(filter: string): (text: string) => boolean {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  return (text) => {
    const lower = text.toLowerCase();
    return words.every((word) => lower.includes(word));
  };
}

// A run of spaces matches in one way only: with several ways each, a pasted row of numbers would take minutes.
const ranksPattern = /^\s*\d+(?:\s*[-–]\s*\d+)?(?:(?:\s*,\s*|\s+)\d+(?:\s*[-–]\s*\d+)?)*\s*(?:,\s*)?$/;

/** Parses ranks: `3`, `0-7`, `0–7, 12`; undefined for any other text. */
export function rankFilter(filter: string): ((rank: number) => boolean) | undefined {
  if (!ranksPattern.test(filter)) return undefined;
  const ranges = [...filter.matchAll(/(\d+)(?:\s*[-–]\s*(\d+))?/g)].map(([, from, to]) => [Number(from), Number(to ?? from)] as const);
  return (rank) => ranges.some(([from, to]) => rank >= Math.min(from, to) && rank <= Math.max(from, to));
}

const isNothing = (value: SortValue): boolean => value === undefined || Number.isNaN(value);

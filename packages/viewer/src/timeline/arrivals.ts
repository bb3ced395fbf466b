// The same collective or call on every rank, in order of rank: when each came in, and how long it waited for the last. The panel and the copied text
// are made of these rows.
//
// Where ranks of the group are missing, nobody is known to be last: a missing one may have come later, so waits are at least those of the known ranks.

import type { EventDetails, EventPlace } from '@ranktrace/protocol';
import { formatDuration } from '../controls/format.ts';

export interface Arrival {
  readonly place: EventPlace;
  readonly rank: number;
  readonly isThis: boolean;
  /** It certainly came in last. */
  readonly isLast: boolean;
  /** `first`, or how much later. */
  readonly cameIn: string;
  /** Undefined for a call: only ranks of a collective wait for each other. */
  readonly waited: string | undefined;
}

/** The title of the rows: a send has one other side, as a call. */
export const arrivalsTitle = ({ kind, fields }: Pick<EventDetails, 'kind' | 'fields'>): string =>
  kind === 'collective' && !fields.some(([key]) => key === 'peer') ? 'On every rank' : 'The other side';

/** `rank`: that of the event itself; -1 if unknown. */
export function arrivalsOf(details: EventDetails, rank: number): readonly Arrival[] {
  const all = [{ ...details, rank }, ...details.partners].sort((a, b) => a.rank - b.rank || a.start - b.start);
  const first = Math.min(...all.map(({ start }) => start));
  const last = Math.max(...all.map(({ start }) => start));
  const isWhole = details.partnersMissing.length === 0;
  const waitedText = (start: number, length: number): string => {
    if (start === last && all.length > 1) return isWhole ? 'last in' : 'last of those found';
    return `${isWhole ? '' : '≥ '}${formatDuration(Math.min(last - start, length))}`;
  };
  return all.map(
    ({ rank: of, track, event, start, length, depth, name }): Arrival => ({
      place: { track, event, start, length, depth, name },
      rank: of,
      isThis: track === details.track && event === details.event,
      isLast: details.kind === 'collective' && isWhole && all.length > 1 && start === last,
      cameIn: start === first ? 'first' : `+ ${formatDuration(start - first)}`,
      waited: details.kind === 'collective' ? waitedText(start, length) : undefined,
    }),
  );
}

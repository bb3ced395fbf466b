// The fields of an event as a person reads them: bytes with their unit, and what a collective was in its file under the name of what that is.

import type { EventDetails } from '@ranktrace/protocol';
import { formatBytes } from '../controls/format.ts';

/** How a collective is called in the file it was read from: its lane shows what it does (`all_gather`). */
const nameInFile = 'event';
const isKernel = /kernel/i;

/** Fields in order; the name that a collective has in its file comes first, as `kernel` where it is one's. */
export function shownFields({ kind, fields }: Pick<EventDetails, 'kind' | 'fields'>): readonly (readonly [string, string])[] {
  const shown = fields.map(([name, value]): readonly [string, string] =>
    name === 'bytes' && /^\d{4,15}$/.test(value) ? [name, `${formatBytes(Number(value))} (${value})`] : [name, value],
  );
  if (kind !== 'collective') return shown;
  const own = shown.find(([name]) => name === nameInFile);
  if (own === undefined) return shown;
  const [, value] = own;
  return [[isKernel.test(value) ? 'kernel' : 'recorded as', value], ...shown.filter((field) => field !== own)];
}

// The fields of an event for people: bytes with their unit, and a collective's name in its file under the name of its kind.

import type { EventDetails } from '@ranktrace/protocol';
import { formatBytes } from '../controls/format.ts';

/** Field with a collective's name in its source file; its lane shows the operation (`all_gather`). */
const nameInFile = 'event';
const isKernel = /kernel/i;

/** Fields in order; a collective's name in its file comes first, as `kernel` if it is a kernel's. */
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

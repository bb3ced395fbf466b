// Metadata of a batch by key.

import type { Batch } from '@ranktrace/protocol';

/** The values of a batch's metadata under `key`, in its order. */
export function* metadataOf({ strings, tables }: Batch, key: string): Generator<string> {
  const { columns, length } = tables.metadata;
  for (let row = 0; row < length; row++) {
    if (strings[columns.key[row] as number] === key) yield strings[columns.value[row] as number] ?? '';
  }
}

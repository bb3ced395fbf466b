// Where merge reads from: one life of one rank, as its batches in order of sequence.

import type { Batch, TableName } from '@ranktrace/protocol';

export interface BatchSource {
  readonly rank: number;
  readonly incarnation: string;
  /** Batches there are, for progress. */
  readonly count: number;
  /** Batches missing in the sequence. */
  readonly missing: number;
  /** Reads from the start, each time it is called; with `only`, the other tables stay empty. Unreadable batches are skipped by the source. */
  batches(only?: readonly TableName[]): Iterable<Batch>;
}

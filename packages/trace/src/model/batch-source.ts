// The input of merge: one life of one rank, as its batches in order of sequence.

import type { Batch, TableName } from '@ranktrace/protocol';

export interface BatchSource {
  readonly rank: number;
  readonly incarnation: string;
  /** Number of batches. */
  readonly count: number;
  /** Batches missing in the sequence. */
  readonly missing: number;
  /** The input does not name the host that recorded it; its epoch is that of a wall clock. */
  readonly hostUnknown?: boolean;
  /** The attempt of its job (attempts.ts): sources of different ones share no events. Absent: 0. */
  readonly attempt?: number;
  /** Its batches have the tracks of devices also where the events on them are not asked for. Absent: perhaps not. */
  readonly tellsTracks?: boolean;
  /** The batch at `index` in order of sequence, 0 ≤ index < count; with `only`, its other tables stay empty. Undefined when it is unreadable. */
  batch(index: number, only?: readonly TableName[]): Batch | undefined;
}

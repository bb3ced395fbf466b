// A simulated batch as its rank would have sent it in a later life: the same events, later, under other step numbers.

import type { Batch } from '@ranktrace/protocol';

export interface LaterLife {
  readonly incarnation: string;
  /** How much later all of it is. */
  readonly seconds: number;
  /** Added to the numbers of its steps. */
  readonly firstStep: number;
}

/** Changes the tables of `batch` in place. */
export function inLaterLife({ header, strings, tables }: Batch, { incarnation, seconds, firstStep }: LaterLife): Batch {
  const add = (table: 'steps' | 'phases' | 'clockSamples' | 'wallClocks', column: string, more: number): void => {
    const { columns, length } = tables[table];
    const values = (columns as unknown as Record<string, Float64Array>)[column] as Float64Array;
    for (let row = 0; row < length; row++) values[row] = (values[row] as number) + more;
  };
  add('steps', 'step', firstStep);
  add('phases', 'step', firstStep);
  // The rank's own times count from its epoch; those of others do not.
  for (const column of ['remoteReceived', 'remoteSent']) add('clockSamples', column, seconds * 1e9);
  add('wallClocks', 'seconds', seconds);
  return { header: { ...header, incarnation, epoch: String(BigInt(header.epoch) + BigInt(seconds * 1e9)) }, strings, tables };
}

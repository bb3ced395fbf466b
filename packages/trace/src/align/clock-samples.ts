// Clock samples of one rank as columns, oldest first: a run of hours has tens of thousands of them per rank, and an object takes seven times as much.

import { ColumnTable } from '../model/column-table.ts';
import type { ClockSample } from './clock-evidence.ts';

type Remote = Pick<ClockSample, 'remoteHost' | 'remoteEpoch'>;

export class ClockSamples implements Iterable<ClockSample> {
  readonly #rows = new ColumnTable({ sent: 'f64', received: 'f64', remoteReceived: 'f64', remoteSent: 'f64', remote: 'u32' });
  readonly #remotes: Remote[] = [];
  readonly #places = new Map<string, number>();

  get length(): number {
    return this.#rows.length;
  }

  push({ sent, received, remoteReceived, remoteSent, ...remote }: ClockSample): void {
    const row = this.#rows.add();
    const { columns } = this.#rows;
    columns.sent[row] = sent;
    columns.received[row] = received;
    columns.remoteReceived[row] = remoteReceived;
    columns.remoteSent[row] = remoteSent;
    columns.remote[row] = this.#placeOf(remote);
  }

  /** Keeps the sample with the shorter round trip of every two neighbours: a run of any length keeps as many, spread over all of it. */
  thin(): void {
    const { columns, length } = this.#rows;
    const way = (row: number): number => (columns.received[row] as number) - (columns.sent[row] as number);
    let kept = 0;
    for (let row = 0; row < length; row += 2) {
      const better = row + 1 < length && way(row + 1) < way(row) ? row + 1 : row;
      for (const column of Object.values(columns)) column[kept] = column[better] as number;
      kept++;
    }
    this.#rows.length = kept;
  }

  *[Symbol.iterator](): Generator<ClockSample> {
    const { columns, length } = this.#rows;
    for (let row = 0; row < length; row++)
      yield {
        sent: columns.sent[row] as number,
        received: columns.received[row] as number,
        remoteReceived: columns.remoteReceived[row] as number,
        remoteSent: columns.remoteSent[row] as number,
        ...(this.#remotes[columns.remote[row] as number] as Remote),
      };
  }

  #placeOf(remote: Remote): number {
    const key = `${remote.remoteEpoch} ${remote.remoteHost}`;
    const known = this.#places.get(key);
    if (known !== undefined) return known;
    this.#places.set(key, this.#remotes.length);
    return this.#remotes.push(remote) - 1;
  }
}

// Totals of a file's rows: counts, times, and the tracks of devices. Rows are added in parts, for those of a large file are never in memory together.

import { deviceCategories, indexesOf } from '../model/kineto-categories.ts';
import type { KinetoTable } from './kineto-table.ts';

/** Rows of a table that are items of batches. */
export const itemKinds = ['events', 'memory', 'memoryCategories', 'instants', 'counters'] as const;
export type ItemKind = (typeof itemKinds)[number];

export class KinetoTally {
  /** Rows by kind, and of flows. */
  readonly rows: Record<ItemKind | 'flows', number> = { events: 0, memory: 0, memoryCategories: 0, instants: 0, counters: 0, flows: 0 };
  /** First and last begin of an event, an allocation, an instant or a counter; ns from the table's epoch. */
  first = Number.POSITIVE_INFINITY;
  last = Number.NEGATIVE_INFINITY;
  /** Last end of an event, and time of any point. */
  end = Number.NEGATIVE_INFINITY;
  /** The least and the greatest number of a launch, which its driver counts up in a process. */
  leastCorrelation = Number.POSITIVE_INFINITY;
  greatestCorrelation = 0;
  /** By track: events on the host, and whether any is on a device. */
  readonly #onHost: number[] = [];
  readonly #onDevice: boolean[] = [];

  /** Adds the rows that the table has now. */
  add(table: KinetoTable): this {
    for (const kind of [...itemKinds, 'flows'] as const) this.rows[kind] += table[kind].length;
    for (const { columns, length } of [table.memory, table.instants, table.counters]) {
      for (let row = 0; row < length; row++) this.#addTime(columns.time[row] as number);
    }
    const categories = table.memoryCategories;
    for (let row = 0; row < categories.length; row++) this.end = Math.max(this.end, categories.columns.time[row] as number);
    const { columns, length } = table.events;
    const onDevice = indexesOf(table.strings, deviceCategories);
    for (let row = 0; row < length; row++) {
      const start = columns.start[row] as number;
      this.#addTime(start);
      this.end = Math.max(this.end, start + (columns.duration[row] as number));
      const correlation = columns.correlation[row] as number;
      if (correlation > 0 && correlation < this.leastCorrelation) this.leastCorrelation = correlation;
      if (correlation > this.greatestCorrelation) this.greatestCorrelation = correlation;
      const track = columns.track[row] as number;
      if (onDevice.has(columns.category[row] as number)) this.#onDevice[track] = true;
      else this.#onHost[track] = (this.#onHost[track] ?? 0) + 1;
    }
    return this;
  }

  /** Rows of all items. */
  get items(): number {
    return itemKinds.reduce((sum, kind) => sum + this.rows[kind], 0);
  }

  /** Whether the track has any event of a device. */
  isDevice(track: number): boolean {
    return this.#onDevice[track] === true;
  }

  /** The process with the most host events; 0 if there are none. */
  mainPid({ tracks }: KinetoTable): number {
    const ofPid = new Map<number, number>();
    for (const [track, { pid }] of tracks.entries()) ofPid.set(pid, (ofPid.get(pid) ?? 0) + (this.#onHost[track] ?? 0));
    let main = 0;
    let most = 0;
    for (const [pid, count] of ofPid) {
      if (count <= most || !Number.isSafeInteger(pid) || pid < 0) continue;
      main = pid;
      most = count;
    }
    return main;
  }

  #addTime(time: number): void {
    if (time < this.first) this.first = time;
    if (time > this.last) this.last = time;
    if (time > this.end) this.end = time;
  }
}

/** The tally of a whole file. */
export const tallyOf = (table: KinetoTable): KinetoTally => table.spilled?.tally ?? new KinetoTally().add(table);

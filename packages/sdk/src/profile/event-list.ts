// Results of `events()` and `keyAverages()`: torch's EventList, as two lists.

import {
  type AveragesTableOptions,
  averagesTable,
  collapsedStacks,
  type FunctionAverage,
  type FunctionEvent,
  functionAverages,
  functionEventList,
  sortAverages,
  tableHeader,
  totalAverage,
} from '@ranktrace/trace/torch';
import type { Recording } from './recording.ts';
import { writeResult } from './result-file.ts';

/** Grouping of rows; by name alone by default. */
export interface KeyAveragesOptions {
  readonly groupByInputShape?: boolean;
  /** By this many of the innermost frames of the stack; 0 (default) by none. */
  readonly groupByStackN?: number;
}

/** Options of a table; the recording decides whether it has columns of memory and FLOPs. */
export type TableOptions = Omit<AveragesTableOptions, 'profileMemory' | 'withFlops'>;

abstract class List<Row> implements Iterable<Row> {
  protected abstract readonly rows: readonly Row[];

  get length(): number {
    return this.rows.length;
  }

  /** The row at `index`; a negative index counts from the end. */
  at(index: number): Row | undefined {
    return this.rows.at(index);
  }

  [Symbol.iterator](): Iterator<Row> {
    return this.rows[Symbol.iterator]();
  }
}

/** Rows of `keyAverages()`. */
export class KeyAverages extends List<FunctionAverage> {
  protected readonly rows: readonly FunctionAverage[];
  readonly #recording: Recording;

  /** Made by `Profile.keyAverages`. */
  constructor(recording: Recording, options: KeyAveragesOptions) {
    super();
    this.#recording = recording;
    this.rows = functionAverages(recording.events, options);
  }

  /**
   * torch's text table. Throws TraceError `bad_option` for an unknown sort key.
   *
   * @example console.log(prof.keyAverages().table({ sortBy: 'selfCpuTimeTotal', rowLimit: 10 }));
   */
  table(options: TableOptions = {}): string {
    return averagesTable(this.rows, optionsOf(this.#recording, options));
  }

  /** All events as one row, `Total`. */
  totalAverage(): FunctionAverage {
    return totalAverage(this.#recording.events);
  }

  /** The rows, largest first by torch's name of a sort key or its camelCase. */
  sorted(sortBy: string): FunctionAverage[] {
    return sortAverages(this.rows, sortBy);
  }

  override toString(): string {
    return this.table();
  }
}

/** Rows of `events()`: every op and span by itself. */
export class EventList extends List<FunctionEvent> {
  protected readonly rows: readonly FunctionEvent[];
  readonly #recording: Recording;

  /** Made by `Profile.events`. */
  constructor(recording: Recording) {
    super();
    this.#recording = recording;
    this.rows = functionEventList(recording.events);
  }

  keyAverages(options: KeyAveragesOptions = {}): KeyAverages {
    return new KeyAverages(this.#recording, options);
  }

  totalAverage(): FunctionAverage {
    return totalAverage(this.#recording.events);
  }

  /** µs. */
  get selfCpuTimeTotal(): number {
    return this.totalAverage().selfCpuTimeTotal;
  }

  table(options: TableOptions = {}): string {
    return averagesTable(this.rows, optionsOf(this.#recording, options));
  }

  /** As `Profile.exportChromeTrace`. */
  exportChromeTrace(path: string): void {
    this.#recording.writeTrace(path);
  }

  /** As `Profile.exportStacks`. */
  exportStacks(path: string, metric: string): void {
    writeStacks(this.#recording, path, metric);
  }

  override toString(): string {
    return this.table();
  }
}

export const writeStacks = ({ events }: Recording, path: string, metric: string): void =>
  writeResult(path, collapsedStacks(events, metric));

/** The recording decides about columns; remarks about it or about where ops ran stand above them. */
function optionsOf({ about: { switches }, events, lossText }: Recording, options: TableOptions): AveragesTableOptions {
  const header = [options.header, tableHeader(events.table.metadata), lossText].filter((line) => line !== undefined).join('\n');
  return {
    ...options,
    ...(header === '' ? {} : { header }),
    profileMemory: switches.profile_memory === '1',
    withFlops: switches.with_flops === '1',
  };
}

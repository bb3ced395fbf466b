// Joins several batches of one incarnation into one, without the events that pruning leaves out.
//
//   batches    17  18  19  20      spans, ops, counters … │ steps, phases, facts, clocks
//   summary    ───────────20       pruned { from: 17 }    │ steps, phases, facts, clocks     `detail`
//                                                         │                facts, one clock  `steps`
//
// Most of a small batch is its header and its strings, so joined batches hold an hour's steps in a tenth of the bytes. Invariant: a summary stands
// for the same sequences as its batches, states what was left out, and keeps their promises about time: its watermark is the last batch's.

import { deflateRawSync } from 'node:zlib';
import {
  type Batch,
  type BatchHeader,
  capturedKey,
  createEventTables,
  type EventTable,
  type EventTables,
  encodeBatch,
  ProtocolError,
  type Pruned,
  spanState,
  type TableName,
  tableColumns,
} from '@ranktrace/protocol';
import { aggregatorLimits as limits } from '../model/limits.ts';

/** The kind of rows that a pruning leaves out. */
export type PrunedWhat = Pruned['what'];

/** Tables about whole steps; the rest is detail. */
const stepTables: readonly TableName[] = ['tracks', 'steps', 'phases'];
const eventTables = {
  spans: 'span',
  instants: 'instant',
  counters: 'counter',
  steps: 'step',
  collectives: 'collective',
  rpcs: 'rpc',
  memory: 'instant',
} as const satisfies Partial<Record<TableName, keyof Pruned['events']>>;

type AnyRow = Record<string, number | Uint8Array>;

/**
 * Encodes batches that stand for `batches`, which follow each other without a gap: one, or several where one would be too large. `on`: the day of the
 * pruning.
 */
export function encodeSummary(batches: readonly Batch[], what: PrunedWhat, on: string): { header: BatchHeader; bytes: Uint8Array }[] {
  const summary = summaryOf(batches, what, on);
  try {
    return [{ header: summary.header, bytes: encodeBatch(summary, deflateRawSync) }];
  } catch (error) {
    if (!(error instanceof ProtocolError && error.code === 'oversized') || batches.length < 2) throw error;
    const middle = batches.length >>> 1;
    return [...encodeSummary(batches.slice(0, middle), what, on), ...encodeSummary(batches.slice(middle), what, on)];
  }
}

/** Rows of a batch that a summary may keep: they bound the number of batches that become one. */
export function summaryRows({ tables }: Batch): number {
  return Math.max(tables.steps.length, tables.phases.length, tables.clockSamples.length, tables.metadata.length) + 1;
}

function summaryOf(batches: readonly Batch[], what: PrunedWhat, on: string): Batch {
  const [first, last] = [batches[0] as Batch, batches.at(-1) as Batch];
  const rows = new SummaryRows();
  for (const batch of batches) {
    if (what === 'detail') rows.addSteps(batch);
    rows.addFacts(batch);
  }
  const { since: _since, pruned: _pruned, ...header } = last.header;
  const steps = stepsOf(batches);
  const pruned: Pruned = {
    from: first.header.pruned?.from ?? first.header.sequence,
    what,
    ...(steps === undefined ? {} : { steps }),
    on,
    events: leftOut(batches, what),
  };
  const clockWindowNs = what === 'detail' ? limits.prunedClockMs * 1e6 : Number.POSITIVE_INFINITY;
  return { header: { ...header, pruned }, ...rows.finish(clockWindowNs) };
}

/** The first and the last step, including those of earlier prunings. */
function stepsOf(batches: readonly Batch[]): [number, number] | undefined {
  let [least, most] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const { header, tables } of batches) {
    const { length, columns } = tables.steps;
    const known = [...(header.pruned?.steps ?? []), ...columns.step.subarray(0, length)];
    for (const step of known) [least, most] = [Math.min(least, step), Math.max(most, step)];
  }
  return least > most ? undefined : [least, most];
}

function leftOut(batches: readonly Batch[], what: PrunedWhat): Pruned['events'] {
  const events = { span: 0, instant: 0, counter: 0, step: 0, collective: 0, rpc: 0 };
  for (const { header, tables } of batches) {
    for (const kind of Object.keys(events) as (keyof typeof events)[]) events[kind] += header.pruned?.events[kind] ?? 0;
    for (const [name, kind] of Object.entries(eventTables) as [keyof typeof eventTables, keyof typeof events][]) {
      if (name === 'steps' && what === 'detail') continue;
      const { length, columns } = tables[name];
      events[kind] += length;
      // An announced span was counted at its announcement.
      if ('state' in columns) for (let row = 0; row < length; row++) if (columns.state[row] === spanState.close) events[kind]--;
    }
  }
  for (const kind of Object.keys(events) as (keyof typeof events)[]) events[kind] = Math.max(0, events[kind]);
  return events;
}

/** The rows that stay, with one string table. */
class SummaryRows {
  readonly #tables: EventTables = createEventTables();
  readonly #strings = new Map<string, number>([['', 0]]);
  readonly #tracks = new Set<number>();
  /** The last value of each metadata name, with its position. */
  readonly #facts = new Map<string, string>();
  readonly #clocks: AnyRow[] = [];

  addSteps(batch: Batch): void {
    for (const name of stepTables) {
      for (const row of this.#rows(batch, name)) {
        if (name === 'tracks' && this.#tracks.has(row.track as number)) continue;
        if (name === 'tracks') this.#tracks.add(row.track as number);
        this.#append(name, row);
      }
    }
  }

  addFacts(batch: Batch): void {
    const { strings, tables } = batch;
    const { columns, length } = tables.metadata;
    for (let row = 0; row < length; row++) {
      const key = strings[columns.key[row] as number] as string;
      if (key !== capturedKey) this.#facts.set(key, strings[columns.value[row] as number] as string);
    }
    // The first reading of the wall clock is the one that counts.
    if (this.#tables.wallClocks.length === 0) {
      for (const row of this.#rows(batch, 'wallClocks')) if (this.#tables.wallClocks.length === 0) this.#append('wallClocks', row);
    }
    this.#clocks.push(...this.#rows(batch, 'clockSamples'));
  }

  /** Keeps the clock sample with the shortest round trip of each window: it has the tightest bound. */
  finish(clockWindowNs: number): Pick<Batch, 'strings' | 'tables'> {
    const best = new Map<string, AnyRow>();
    for (const row of this.#clocks) {
      const window = Number.isFinite(clockWindowNs) ? Math.floor((row.sent as number) / clockWindowNs) : 0;
      const key = `${row.host} ${row.hostEpoch} ${window}`;
      const known = best.get(key);
      if (known === undefined || wayOf(row) < wayOf(known)) best.set(key, row);
    }
    for (const row of best.values()) this.#append('clockSamples', row);
    for (const [key, value] of this.#facts) this.#append('metadata', { key: this.#string(key), value: this.#string(value) });
    return { strings: [...this.#strings.keys()], tables: this.#tables };
  }

  *#rows({ strings, tables }: Batch, name: TableName): Generator<AnyRow> {
    const types = Object.entries(tableColumns[name]) as [string, string][];
    const { length } = tables[name];
    const columns = tables[name].columns as unknown as Record<string, ArrayLike<number>>;
    for (let row = 0; row < length; row++) {
      const fields: AnyRow = {};
      for (const [column, type] of types) {
        const value = columns[column]?.[row] ?? 0;
        fields[column] = type === 'string' ? this.#string(strings[value] ?? '') : value;
      }
      yield fields;
    }
  }

  #append(name: TableName, row: AnyRow): void {
    (this.#tables[name] as EventTable<TableName>).append(row as never);
  }

  #string(text: string): number {
    let index = this.#strings.get(text);
    if (index === undefined) {
      index = this.#strings.size;
      this.#strings.set(text, index);
    }
    return index;
  }
}

const wayOf = ({ sent, received }: AnyRow): number => (received as number) - (sent as number);

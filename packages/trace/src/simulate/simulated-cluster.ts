// A simulated cluster in memory: the input of `mergeRun`, and the truth to compare its result with.

import {
  type Batch,
  type ColumnType,
  createEventTables,
  EventTable,
  type EventTables,
  elementsPerRow,
  type TableName,
  tableColumns,
  tableNames,
} from '@ranktrace/protocol';
import type { BatchSource } from '../model/batch-source.ts';
import { type ClusterObserver, ClusterSimulation } from './cluster-simulation.ts';
import type { ClusterTruth } from './cluster-truth.ts';
import type { ClusterOptions } from './simulation-options.ts';

/**
 * Simulates the whole run at once and keeps its batches: about 100 bytes an event. Throws TraceError `bad_option`.
 *
 * @example
 * const { sources, truth } = simulatedCluster({ ranks: 4, hosts: 2, seconds: 10, seed: 1 });
 * for (const progress of mergeRun(sources, sink)) show(progress);
 */
export function simulatedCluster(
  options: ClusterOptions,
  observer: ClusterObserver = {},
): { readonly sources: readonly BatchSource[]; readonly truth: ClusterTruth } {
  const simulation = new ClusterSimulation(options, observer);
  const kept: Batch[][] = Array.from({ length: simulation.cluster.ranks }, () => []);
  for (const batch of simulation.batches()) {
    if (batch !== undefined) kept[batch.header.rank]?.push({ ...batch, tables: copiedTables(batch.tables, tableNames) });
  }
  return { sources: kept.map(sourceOf), truth: simulation.truth };
}

function sourceOf(batches: readonly Batch[], rank: number): BatchSource {
  const last = batches.at(-1)?.header;
  return {
    rank,
    incarnation: last?.incarnation ?? '',
    count: batches.length,
    missing: last === undefined ? 0 : last.sequence + 1 - batches.length,
    tellsTracks: true,
    batch: (index, only = tableNames) => {
      const batch = batches[index];
      return batch && { ...batch, tables: copiedTables(batch.tables, only) };
    },
  };
}

/** Copies tables: a reader may write into them, and mostly needs only a few. */
function copiedTables(tables: EventTables, only: readonly TableName[]): EventTables {
  const copies = createEventTables() as unknown as Record<TableName, EventTable<TableName>>;
  for (const name of only) {
    const { columns, length } = tables[name];
    if (length === 0) continue;
    const types = tableColumns[name] as Record<string, ColumnType>;
    const copied = Object.entries(columns).map(([column, values]) => {
      return [column, values.slice(0, length * elementsPerRow(types[column] as ColumnType))];
    });
    copies[name] = EventTable.of(name, Object.fromEntries(copied), length) as EventTable<TableName>;
  }
  return copies as unknown as EventTables;
}

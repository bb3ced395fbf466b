// Files of torch.profiler read twice: with all rows in memory, and with so little room that all of them go to a block store.

import { type Batch, type TableName, tableNames } from '@ranktrace/protocol';
import type { BatchSource } from '../model/batch-source.ts';
import { MemoryBlocks } from '../model/block-store.ts';
import { readKineto } from '../torch/kineto-reader.ts';
import { kinetoExtent, kinetoSources } from '../torch/kineto-source.ts';
import type { KinetoTable } from '../torch/kineto-table.ts';

/** The table of a file, with no more than `rowsMax` rows in memory. */
export function spilledKineto(file: Uint8Array, rowsMax: number): KinetoTable {
  const store = new MemoryBlocks();
  return readKineto(file, { keep: 'all', spill: { store: () => store, rowsMax } });
}

/** Tables that readers ask for alone. */
const asked: readonly (readonly TableName[] | undefined)[] = [undefined, ['collectives'], ['steps', 'phases'], ['spans', 'instants']];

/** Where the sources of `files`, the ranks of a job, differ from those of files in memory: '' if they give the same batches. */
export function differencesOfSpilled(files: readonly Uint8Array[], rowsMax: number): string {
  const tables = files.map((file) => readKineto(file, { keep: 'all' }));
  const spilled = files.map((file) => spilledKineto(file, rowsMax));
  // Only a file in memory counts the arrows that no event carries.
  for (const { skipped } of [...tables, ...spilled]) skipped.flows = 0;
  for (const [rank, table] of tables.entries()) {
    const [one, other] = [kinetoExtent(table), kinetoExtent(spilled[rank] as KinetoTable)];
    if (one.first !== other.first || one.last !== other.last || one.pid !== other.pid) return `extent of rank ${rank}`;
  }
  const [whole, read] = [sourcesOf(tables), sourcesOf(spilled)];
  for (const [rank, source] of whole.entries()) {
    const other = read[rank] as BatchSource;
    if (source.count !== other.count) return `rank ${rank}: ${source.count} and ${other.count} batches`;
    for (const only of asked) {
      for (let index = 0; index < source.count; index++) {
        const what = differenceOf(batchOf(source, index, only), batchOf(other, index, only));
        if (what !== '') return `rank ${rank}, batch ${index} of ${source.count}, tables ${only?.join() ?? 'all'}: ${what}`;
      }
    }
  }
  return '';
}

const sourcesOf = (tables: readonly KinetoTable[]): readonly BatchSource[] =>
  kinetoSources(
    tables.map((table, rank) => ({ run: 'test', rank, worldSize: tables.length, files: [{ name: `rank${rank}.json`, table }] })),
  );

function batchOf(source: BatchSource, index: number, only: readonly TableName[] | undefined): Batch {
  const batch = source.batch(index, only);
  if (batch === undefined) throw new RangeError(`No batch ${index} of ${source.count}`);
  return batch;
}

/** The part in which two batches differ; '' if none. */
function differenceOf(one: Batch, other: Batch): string {
  if (JSON.stringify(one.header) !== JSON.stringify(other.header)) return 'header';
  if (JSON.stringify(one.strings) !== JSON.stringify(other.strings)) return 'strings';
  for (const name of tableNames) {
    const [table, same] = [one.tables[name], other.tables[name]];
    if (table.length !== same.length) return `${name}: ${table.length} and ${same.length} rows`;
    for (const [column, values] of Object.entries(table.columns)) {
      const others = same.columns[column as keyof typeof same.columns] as Float64Array;
      for (let at = 0; at < table.length; at++) if (values[at] !== others[at]) return `${name}.${column}, row ${at}`;
    }
  }
  return '';
}

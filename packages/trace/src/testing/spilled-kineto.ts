// Files of torch.profiler read twice: with all rows in memory, and with so little room that all of them go to a block store.

import { encodeBatch, type TableName } from '@ranktrace/protocol';
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

/** Where the sources of `files`, the ranks of a job, differ from those of files in memory: '' if they give the same bytes. */
export function differencesOfSpilled(files: readonly Uint8Array[], rowsMax: number): string {
  const tables = files.map((file) => readKineto(file, { keep: 'all' }));
  const spilled = files.map((file) => spilledKineto(file, rowsMax));
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
        const [one, two] = [bytesOf(source, index, only), bytesOf(other, index, only)];
        const at = one.findIndex((byte, place) => byte !== two[place]);
        if (at >= 0 || one.length !== two.length)
          return `rank ${rank}, batch ${index} of ${source.count}, tables ${only?.join() ?? 'all'}, byte ${at}`;
      }
    }
  }
  return '';
}

const sourcesOf = (tables: readonly KinetoTable[]): readonly BatchSource[] =>
  kinetoSources(
    tables.map((table, rank) => ({ run: 'test', rank, worldSize: tables.length, files: [{ name: `rank${rank}.json`, table }] })),
  );

function bytesOf(source: BatchSource, index: number, only: readonly TableName[] | undefined): Uint8Array {
  const batch = source.batch(index, only);
  if (batch === undefined) throw new RangeError(`No batch ${index} of ${source.count}`);
  return encodeBatch(batch, (body) => body);
}

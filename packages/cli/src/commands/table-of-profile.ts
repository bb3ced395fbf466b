// `ranktrace table FILE` of a torch.profiler file (Kineto JSON, .gz too): torch's own key averages, as its `key_averages().table()` prints
// them. The file is read in pieces, so its size is bounded by the columns that are kept of it, not by memory for its text.

import { averagesTable, functionAverages, functionEvents, type KinetoTable, sortAverages } from '@ranktrace/trace';
import { readProfiles } from '../kineto-inputs.ts';

export interface ProfileTableOptions {
  /** torch's name of a sort key, or its camelCase. */
  readonly sort: string;
  /** Rows, undefined for all. */
  readonly limit: number | undefined;
  readonly groupByShape: boolean;
  readonly groupByStack: number;
  readonly json: boolean;
}

export async function tableOfProfile(path: string, options: ProfileTableOptions): Promise<number> {
  const [table] = await readProfiles([path], 'known');
  return printAverages(table as KinetoTable, options);
}

/** Prints torch's key averages. */
export function printAverages(table: KinetoTable, options: ProfileTableOptions): number {
  const { groupByShape: groupByInputShape, groupByStack: groupByStackN } = options;
  const averages = functionAverages(functionEvents(table), { groupByInputShape, groupByStackN });
  if (options.json) {
    process.stdout.write(`${JSON.stringify(sortAverages(averages, options.sort).slice(0, options.limit))}\n`);
    return 0;
  }
  const recorded = { profileMemory: table.isOn('profile_memory'), withFlops: table.isOn('with_flops') };
  process.stdout.write(averagesTable(averages, { sortBy: options.sort, rowLimit: options.limit ?? -1, ...recorded }));
  return 0;
}

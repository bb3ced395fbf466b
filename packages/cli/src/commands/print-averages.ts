// torch's own key averages, as its `key_averages().table()` prints them: of a torch.profiler file, or of one rank of a run.

import { averagesTable, functionAverages, functionEvents, type KinetoTable, sortAverages } from '@ranktrace/trace';

export interface AveragesOptions {
  /** torch's name of a sort key, or its camelCase. */
  readonly sort: string;
  /** Rows, undefined for all. */
  readonly limit: number | undefined;
  readonly groupByShape: boolean;
  readonly groupByStack: number;
  readonly json: boolean;
}

/** Prints torch's key averages. */
export function printAverages(table: KinetoTable, options: AveragesOptions): number {
  const { groupByShape: groupByInputShape, groupByStack: groupByStackN } = options;
  const averages = functionAverages(functionEvents(table), { groupByInputShape, groupByStackN });
  if (options.json) {
    process.stdout.write(`${JSON.stringify(sortAverages(averages, options.sort).slice(0, options.limit))}\n`);
    return 0;
  }
  const recorded = { profileMemory: table.isOn('profile_memory'), withFlops: table.isOn('with_flops') };
  process.stdout.write(
    averagesTable(averages, {
      sortBy: options.sort,
      rowLimit: options.limit === Number.POSITIVE_INFINITY ? -1 : (options.limit ?? -1),
      ...recorded,
    }),
  );
  return 0;
}

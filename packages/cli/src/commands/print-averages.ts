// torch's own key averages, as its `key_averages().table()` prints them: for a torch.profiler file, or for one rank of a run.

import { printable } from '@ranktrace/protocol';
import {
  averagesTable,
  functionAverages,
  functionEvents,
  isSortKey,
  type KinetoTable,
  sortAverages,
  sortKeyNames,
  tableHeader,
  totalAverage,
} from '@ranktrace/trace/torch';
import { CliError } from '../terminal/errors.ts';
import { print, printData } from '../terminal/output.ts';

export interface AveragesOptions {
  /** torch's name of a sort key, or its camelCase. */
  readonly sort: string;
  /** Rows, undefined for all. */
  readonly limit: number | undefined;
  readonly groupByShape: boolean;
  readonly groupByStack: number;
  /** Whether Python functions have rows; undefined: as the recording version of torch does. */
  readonly pythonFunctions: boolean | undefined;
  readonly json: boolean;
}

/** Prints torch's key averages; as data with one more row, `Total`, over all rows. */
export function printAverages(table: KinetoTable, options: AveragesOptions): number {
  const { groupByShape: groupByInputShape, groupByStack: groupByStackN, pythonFunctions: includePythonFunctions } = options;
  if (!isSortKey(options.sort)) throw new CliError('bad_usage', `--sort must be one of ${sortKeyNames.join(', ')}, got "${options.sort}"`);
  const events = functionEvents(table, { withPythonFunctions: includePythonFunctions === true ? true : undefined });
  const averages = functionAverages(events, { groupByInputShape, groupByStackN, includePythonFunctions });
  if (options.json) {
    const rows = sortAverages(averages, options.sort).slice(0, options.limit);
    printData([...rows, totalAverage(events, { includePythonFunctions })]);
    return 0;
  }
  // Files of 2021 do not record which options were on.
  const recorded = { profileMemory: table.isOn('profile_memory') || table.memory.length > 0, withFlops: table.isOn('with_flops') };
  const header = tableHeader(table.metadata);
  print(
    averagesTable(averages, {
      ...(header !== undefined && { header: printable(header) }),
      sortBy: options.sort,
      rowLimit: options.limit === Number.POSITIVE_INFINITY ? -1 : (options.limit ?? -1),
      ...recorded,
    }),
  );
  return 0;
}

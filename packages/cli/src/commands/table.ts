// `ranktrace table INPUT…`: calls, total, self and average time per name over all ranks; of a torch.profiler file, or of one rank of a run,
// torch's own table.

import { type KeyAverage, KeyAveragesSink, KinetoTableSink } from '@ranktrace/trace';
import { CliError } from '../errors.ts';
import { formatCount, formatNanos, formatTable } from '../format.ts';
import { isProfile } from '../kineto-inputs.ts';
import { mergeAndReport, openInputs } from '../merge-inputs.ts';
import { printAverages, tableOfProfile } from './table-of-profile.ts';

const keys = { self: 'self', total: 'total', avg: 'average', calls: 'count', name: 'key' } as const;

export const sortKeys = Object.keys(keys) as readonly (keyof typeof keys)[];

export interface TableOptions {
  readonly sort?: string;
  readonly limit?: number;
  readonly run?: string;
  readonly rank?: number;
  readonly json?: boolean;
  readonly groupByShape?: boolean;
  readonly groupByStack?: number;
}

/** Rows of a text table, as torch's; data is never cut without being asked. */
const textRows = 100;

export async function table(inputs: readonly string[], options: TableOptions): Promise<number> {
  const { json = false, groupByShape = false, groupByStack = 0, limit = json ? undefined : textRows } = options;
  const [path] = inputs;
  if (path !== undefined && isProfile(path)) {
    if (inputs.length > 1) throw new CliError('bad_usage', `table takes one profile at a time, got ${inputs.length}`);
    return tableOfProfile(path, { sort: options.sort ?? 'self_cpu_time_total', limit, groupByShape, groupByStack, json });
  }
  if (groupByShape || groupByStack > 0 || options.rank !== undefined) {
    using opened = openInputs(inputs, options.run);
    const ranks = [...new Set(opened.sources.map((source) => source.rank))];
    const rank = options.rank ?? (ranks.length === 1 ? ranks[0] : undefined);
    if (rank === undefined) throw new CliError('bad_usage', `--group-by-shape and --group-by-stack are of one rank: name it with --rank`);
    if (!ranks.includes(rank)) throw new CliError('bad_input', `Rank ${rank} is not in this run: it has ${ranks.join(', ')}`);
    const sink = new KinetoTableSink({ rank, steps: true });
    await mergeAndReport(
      opened.sources.filter((source) => source.rank === rank),
      undefined,
      [sink],
    );
    return printAverages(sink.table, { sort: options.sort ?? 'self_cpu_time_total', limit, groupByShape, groupByStack, json });
  }
  const sort = options.sort ?? 'self';
  const column = keys[sort as keyof typeof keys];
  if (column === undefined) throw new CliError('bad_usage', `--sort must be one of ${sortKeys.join(', ')}, got "${sort}"`);
  using opened = openInputs(inputs, options.run);
  const averages = new KeyAveragesSink();
  await mergeAndReport(opened.sources, undefined, [averages]);
  const rows = [...averages.averages].sort((a, b) => (column === 'key' ? (a.key < b.key ? -1 : 1) : b[column] - a[column]));
  const shown = rows.slice(0, limit);
  process.stdout.write(json ? `${JSON.stringify(shown.map(asData))}\n` : `${asText(shown)}\n`);
  if (!json && shown.length < rows.length) process.stdout.write(`(${rows.length - shown.length} more: --limit)\n`);
  return 0;
}

function asText(rows: readonly KeyAverage[]): string {
  const all = rows.reduce((sum, row) => (row.kind === 'step' ? sum : sum + row.self), 0);
  const lines = rows.map((row) => {
    const share = row.kind === 'step' || all === 0 ? '' : `${((100 * row.self) / all).toFixed(1)} %`;
    return [row.key, row.kind, formatCount(row.count), formatNanos(row.total), formatNanos(row.self), share, formatNanos(row.average)];
  });
  const head = ['name', 'kind', 'calls', 'total', 'self', 'self %', 'avg'];
  return formatTable([head, ...lines], [false, false, true, true, true, true, true]);
}

function asData({ key, kind, count, total, self, average }: KeyAverage): unknown {
  return { key, kind, count, totalNs: total, selfNs: self, averageNs: average };
}

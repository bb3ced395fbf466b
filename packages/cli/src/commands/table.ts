// `ranktrace table INPUT…`: calls, total, self and average time per name over all ranks; for one torch.profiler file, or one rank of a run, torch's
// own table.

import { isBeside, printable } from '@ranktrace/protocol';
import { type KeyAverage, KeyAveragesSink, type KinetoTable, KinetoTableSink, tableHeader } from '@ranktrace/trace/torch';
import { type InputOptions, openRun, openTorchTable, type RunInput } from '../inputs/open-inputs.ts';
import { filesOf } from '../inputs/piped-files.ts';
import type { TorchProfile } from '../inputs/torch-job.ts';
import { type TableSort, tableSorts } from '../options/option-choices.ts';
import { mergeAndReport } from '../print/merge-and-report.ts';
import { CliError } from '../terminal/errors.ts';
import { formatCount, formatNanos, formatTable } from '../terminal/format.ts';
import { print, printData, say } from '../terminal/output.ts';
import { printAverages } from './print-averages.ts';

const columns = { self: 'self', total: 'total', avg: 'average', calls: 'count', name: 'key' } as const satisfies Record<
  TableSort,
  keyof KeyAverage
>;

export interface TableOptions extends InputOptions {
  readonly sort?: string;
  readonly limit?: number;
  readonly rank?: number;
  readonly json?: boolean;
  readonly groupByShape?: boolean;
  readonly groupByStack?: number;
  readonly pythonFunctions?: boolean;
}

const rankOptions = '--group-by-shape, --group-by-stack and --python-functions';

/** Rows of a text table, as in torch's; data is never cut without an option for it. */
const textRows = 100;

export async function table(given: readonly string[], options: TableOptions): Promise<number> {
  // Inputs are opened twice.
  const inputs = await filesOf(given);
  const { json = false, groupByShape = false, groupByStack = 0, pythonFunctions, limit = json ? undefined : textRows } = options;
  const ofRank = { sort: options.sort ?? 'self_cpu_time_total', limit, groupByShape, groupByStack, pythonFunctions, json };
  const one = await openTorchTable(inputs, options);
  if (one !== undefined) {
    if (options.rank !== undefined)
      throw new CliError('bad_usage', `--rank chooses among the ranks of a run: "${given[0]}" is a torch.profiler file of one`);
    return printAverages(one, ofRank);
  }
  using opened = await openRun(inputs, options);
  const { input, kind, profiles } = opened;
  if (groupByShape || groupByStack > 0 || pythonFunctions !== undefined || options.rank !== undefined) {
    if (kind === 'zipkin') throw new CliError('bad_usage', `--rank, ${rankOptions} are of ranks: a Zipkin file has none`);
    const ranks = ranksOf(opened);
    const rank = options.rank ?? (ranks.length === 1 ? ranks[0] : undefined);
    if (rank === undefined) throw new CliError('bad_usage', `${rankOptions} are of one rank: name it with --rank`);
    if (!ranks.includes(rank)) throw new CliError('bad_input', `Rank ${rank} is not in this run: it has ${ranks.join(', ')}`);
    if (kind === 'torch') return printAverages(await tableOfRank(profiles, rank, options), ofRank);
    const sink = new KinetoTableSink({ rank, steps: true, budget: opened.budget });
    const { header } = await mergeAndReport(
      { input: 'events' in input ? input : input.filter((source) => source.rank === rank) },
      undefined,
      [sink],
    );
    const lives = header.processes.filter((process) => process.rank === rank && !isBeside(process.incarnation)).length;
    if (lives > 1) {
      const what = `torch's table is of one process, here of the last of the ${lives} lives of rank ${rank}`;
      say(`${what}; the table of all ranks has the earlier ones, too`);
    }
    return printAverages(sink.table, ofRank);
  }
  const sort = options.sort ?? 'self';
  const column = columns[sort as TableSort];
  if (column === undefined) throw new CliError('bad_usage', `--sort must be one of ${tableSorts.join(', ')}, got "${sort}"`);
  const averages = new KeyAveragesSink();
  await mergeAndReport({ input }, undefined, [averages]);
  const rows = [...averages.averages].sort((a, b) => (column === 'key' ? (a.key < b.key ? -1 : 1) : b[column] - a[column]));
  const shown = rows.slice(0, limit);
  const header = tableHeader(...averages.processes.map(({ metadata }) => metadata));
  if (json) {
    printData([...shown, totalOf(rows)].map(asData));
    return 0;
  }
  if (header !== undefined) print(printable(header));
  print(asText(shown, rows));
  if (shown.length < rows.length) print(`(${rows.length - shown.length} more: --limit)`);
  return 0;
}

function ranksOf({ input, profiles }: RunInput): readonly number[] {
  const of = profiles.length > 0 ? profiles : 'events' in input ? input.header.processes : input;
  return [...new Set(of.map(({ rank }) => rank))].sort((a, b) => a - b);
}

/** torch's table covers one file, of which it needs all rows in memory. */
async function tableOfRank(profiles: readonly TorchProfile[], rank: number, { memory }: InputOptions): Promise<KinetoTable> {
  const files = profiles.filter((profile) => profile.rank === rank);
  const [file] = files as [TorchProfile, ...TorchProfile[]];
  if (files.length > 1) throw new CliError('bad_usage', `Rank ${rank} has ${files.length} files, and torch's table is of one: name it`);
  return file.table.spilled === undefined ? file.table : ((await openTorchTable([file.path], { memory })) as KinetoTable);
}

/** The rows `shown`, each with its share of the self time of all `rows`, as in torch's table. */
function asText(shown: readonly KeyAverage[], rows: readonly KeyAverage[]): string {
  const all = totalOf(rows).self;
  const lines = shown.map((row) => {
    const share = row.kind === 'step' || all === 0 ? '' : `${((100 * row.self) / all).toFixed(1)} %`;
    return [row.key, row.kind, formatCount(row.count), formatNanos(row.total), formatNanos(row.self), share, formatNanos(row.average)];
  });
  const head = ['name', 'kind', 'calls', 'total', 'self', 'self %', 'avg'];
  return formatTable([head, ...lines], [false, false, true, true, true, true, true]);
}

/** All rows as one, except steps, which contain the others. */
function totalOf(rows: readonly KeyAverage[]): DataRow {
  const spans = rows.filter(({ kind }) => kind !== 'step');
  const sum = (of: (row: KeyAverage) => number): number => spans.reduce((sum, row) => sum + of(row), 0);
  const [count, total] = [sum((row) => row.count), sum((row) => row.total)];
  return { key: 'Total', kind: 'total', count, total, self: sum((row) => row.self), average: count === 0 ? 0 : total / count };
}

type DataRow = Omit<KeyAverage, 'kind' | 'total' | 'self' | 'average'> & {
  readonly kind: KeyAverage['kind'] | 'total';
  readonly total: number;
  readonly self: number;
  readonly average: number;
};

function asData({ key, kind, count, total, self, average }: DataRow): unknown {
  return { key, kind, count, totalNs: total, selfNs: self, averageNs: average };
}

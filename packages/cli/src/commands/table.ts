// `ranktrace table INPUT…`: calls, total, self and average time per name.

import { type KeyAverage, KeyAveragesSink } from '@ranktrace/trace';
import { CliError } from '../errors.ts';
import { formatCount, formatNanos, formatTable } from '../format.ts';
import { mergeAndReport, openInputs } from '../merge-inputs.ts';

const keys = { self: 'self', total: 'total', avg: 'average', calls: 'count', name: 'key' } as const;

export const sortKeys = Object.keys(keys) as readonly (keyof typeof keys)[];

export interface TableOptions {
  readonly sort: string;
  readonly limit: number;
  readonly run?: string;
  readonly json?: boolean;
}

export async function table(inputs: readonly string[], options: TableOptions): Promise<number> {
  const column = keys[options.sort as keyof typeof keys];
  if (column === undefined) throw new CliError('bad_usage', `--sort must be one of ${sortKeys.join(', ')}, got "${options.sort}"`);
  using opened = openInputs(inputs, options.run);
  const averages = new KeyAveragesSink();
  await mergeAndReport(opened.sources, undefined, [averages]);
  const rows = [...averages.averages].sort((a, b) => (column === 'key' ? (a.key < b.key ? -1 : 1) : b[column] - a[column]));
  const shown = rows.slice(0, options.limit);
  process.stdout.write(options.json === true ? `${JSON.stringify(shown.map(asData))}\n` : `${asText(shown)}\n`);
  if (options.json !== true && shown.length < rows.length) process.stdout.write(`(${rows.length - shown.length} more: --limit)\n`);
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

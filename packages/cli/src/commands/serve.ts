// `ranktrace serve`: the aggregator as a service, until Ctrl-C; then every run that is open gets its trace.

import { join } from 'node:path';
import { type Aggregator, type NatsConnectOptions, startAggregator } from '@ranktrace/aggregator';
import { CliError } from '../errors.ts';
import { formatBytes, formatCount } from '../format.ts';
import { abortOnInterrupt } from '../interrupt.ts';
import { mergeAndReport } from '../merge-inputs.ts';

export interface ServeOptions {
  readonly listen: string;
  readonly out: string;
  readonly nats?: NatsConnectOptions | undefined;
  readonly token?: string | undefined;
}

export async function serve(options: ServeOptions): Promise<number> {
  const say = (line: string): void => {
    process.stderr.write(`ranktrace: ${line}\n`);
  };
  using interrupt = abortOnInterrupt();
  await using aggregator = await startAggregator({
    out: options.out,
    listen: parseListen(options.listen),
    token: options.token,
    nats: options.nats,
    onNotice: say,
  });
  say(
    `listening on ${aggregator.address}, storing in "${options.out}"${options.nats === undefined ? '' : `, reading ${options.nats.servers.join(', ')}`}`,
  );
  const written = new Set<string>();
  const stopWatching = aggregator.subscribe(() => {
    for (const { run, worldSize, ranks } of aggregator.status().runs) {
      const complete = new Set(ranks.filter((rank) => rank.ended).map((rank) => rank.rank)).size === worldSize;
      if (!complete || written.has(run) || ranks.some((rank) => !rank.ended)) continue;
      written.add(run);
      void writeRun(aggregator, run, options.out, say);
    }
  });
  await interrupt.asked;
  say('finishing: asking the ranks for their last batches (Ctrl-C again to end at once)');
  stopWatching();
  await aggregator.flushRanks();
  for (const run of aggregator.runs()) if (!written.has(run)) await writeRun(aggregator, run, options.out, say);
  return 0;
}

async function writeRun(aggregator: Aggregator, run: string, out: string, say: (line: string) => void): Promise<void> {
  const path = join(out, run, 'trace.pftrace');
  try {
    const report = await mergeAndReport(aggregator.store(run).sources(), path);
    const events = report.totals.reduce((sum, { counts }) => sum + Object.values(counts).reduce((a, b) => a + b, 0), 0);
    say(`run ${run}: ${formatCount(events)} events of ${report.totals.length} ranks in ${path} (${formatBytes(report.bytes)})`);
    for (const finding of report.findings) say(`run ${run}: ${finding.kind}: ${finding.text}`);
  } catch (error) {
    say(`run ${run}: no trace written: ${(error as Error).message}`);
  }
}

/** `HOST:PORT`, `[v6]:PORT` or `PORT`. */
export function parseListen(text: string): { host: string; port: number } {
  const match = /^(?:(?:\[([^\]]+)\]|([^:]*)):)?(\d{1,5})$/.exec(text);
  const port = Number(match?.[3]);
  if (match === null || port > 65_535) throw new CliError('bad_usage', `--listen must be HOST:PORT, such as 127.0.0.1:7400, got "${text}"`);
  return { host: match[1] ?? (match[2] || '127.0.0.1'), port };
}

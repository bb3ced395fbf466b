// `ranktrace serve`: the aggregator as a service, until Ctrl-C, with the page of all its runs. A run gets its trace when its ranks have ended,
// the others at the end. With --check-config it starts nothing and says what is wrong with the configuration.

import { join } from 'node:path';
import {
  type AccessTokens,
  type Aggregator,
  checkConfig,
  defaultConfig,
  type ListenOptions,
  type NatsConnectOptions,
  type Retention,
  readConfig,
  type ServeConfig,
  startAggregator,
} from '@ranktrace/aggregator';
import { printable } from '@ranktrace/protocol';
import { CliError } from '../errors.ts';
import { formatBytes, formatCount } from '../format.ts';
import { abortOnInterrupt } from '../interrupt.ts';
import { mergeAndReport } from '../merge-and-report.ts';
import { complain, print, say } from '../output.ts';
import { findPageDirectory } from '../page-directory.ts';

export interface ServeOptions {
  readonly listen: string;
  readonly out: string;
  readonly nats?: NatsConnectOptions | undefined;
  readonly token?: AccessTokens | undefined;
  readonly tls?: ListenOptions['tls'];
  readonly retention?: Retention | undefined;
  /** The configuration file; without it, all rules as they are by default, told in the log. */
  readonly config?: string | undefined;
  readonly checkConfig?: boolean | undefined;
}

export async function serve(options: ServeOptions): Promise<number> {
  if (options.checkConfig === true) return checkOnly(options);
  const config = options.config === undefined ? defaultConfig() : await readConfig(options.config);
  using interrupt = abortOnInterrupt();
  const page = findPageDirectory();
  await using aggregator = await startAggregator({
    out: options.out,
    listen: { ...parseListen(options.listen), tls: options.tls },
    retention: options.retention,
    token: options.token,
    nats: options.nats,
    page,
    config,
    onNotice: say,
  });
  say(
    `listening on ${aggregator.address}, storing in "${options.out}"${options.nats === undefined ? '' : `, reading ${options.nats.servers.join(', ')}`}`,
  );
  // The token itself is the operator's to add: this line ends in logs.
  if (page !== undefined) say(`view: ${aggregator.address}/${options.token === undefined ? '' : '?token=…'}`);
  const traces = new RunTraces(aggregator, options.out);
  const stopWatching = aggregator.subscribe(() => traces.writeComplete());
  await interrupt.asked;
  say('finishing: asking the ranks for their last batches (Ctrl-C again to end at once)');
  stopWatching();
  await aggregator.flushRanks();
  if (!(await traces.writeAll())) return 1;
  return aggregator.delivery.exitCode;
}

/** Prints `ok`, or every error on a line of its own. */
async function checkOnly({ config, nats }: ServeOptions): Promise<number> {
  if (config === undefined) throw new CliError('bad_usage', '--check-config needs --config FILE');
  const check = await checkConfig(config);
  const errors = 'errors' in check ? check.errors : natsErrors(config, check.config, nats);
  for (const line of errors) complain(printable(line));
  if (errors.length > 0) return 2;
  print('ok');
  return 0;
}

function natsErrors(path: string, { outputs }: ServeConfig, nats: NatsConnectOptions | undefined): string[] {
  if (nats !== undefined) return [];
  return outputs
    .filter(({ type }) => type === 'nats')
    .map(({ name }) => `${path}: output "${name}" needs NATS: name its servers with --nats`);
}

/** The trace files of a service: one write at a time, and again when there is more than the last one had. */
class RunTraces {
  readonly #aggregator: Aggregator;
  readonly #out: string;
  /** Batches that the last write of a run found, also where it failed: it is tried again when there are more, and at the end. */
  readonly #tried = new Map<string, number>();
  readonly #failed = new Set<string>();
  /** Runs that got batches in this life of the service. */
  readonly #seen = new Set<string>();
  #writing: Promise<void> = Promise.resolve();

  constructor(aggregator: Aggregator, out: string) {
    this.#aggregator = aggregator;
    this.#out = out;
  }

  /** Writes the runs whose ranks have all said goodbye. A rank that comes back opens its run again. */
  writeComplete(): void {
    for (const { run, worldSize, ranks } of this.#aggregator.status().runs) {
      this.#seen.add(run);
      const isComplete = ranks.length >= worldSize && ranks.every((rank) => rank.ended);
      if (isComplete) this.#write(run);
    }
  }

  /** Writes every run that has more than its last trace; resolves with whether all could be written. */
  async writeAll(): Promise<boolean> {
    for (const { run } of this.#aggregator.status().runs) this.#seen.add(run);
    await this.#writing;
    for (const run of this.#failed) this.#tried.delete(run);
    for (const run of this.#seen) this.#write(run);
    await this.#writing;
    return this.#failed.size === 0;
  }

  #write(run: string): void {
    if (this.#tried.get(run) === batchesOf(this.#aggregator, run)) return;
    this.#tried.set(run, batchesOf(this.#aggregator, run));
    this.#writing = this.#writing.then(() => this.#writeNow(run));
  }

  async #writeNow(run: string): Promise<void> {
    const path = join(this.#out, run, 'trace.pftrace');
    try {
      this.#tried.set(run, batchesOf(this.#aggregator, run));
      const report = await mergeAndReport(this.#aggregator.store(run).sources(), path);
      this.#failed.delete(run);
      const events = report.totals.reduce((sum, { counts }) => sum + Object.values(counts).reduce((a, b) => a + b, 0), 0);
      say(`run ${run}: ${formatCount(events)} events of ${report.totals.length} ranks in ${path} (${formatBytes(report.bytes)})`);
      for (const finding of report.findings) say(`run ${run}: ${finding.kind}: ${finding.text}`);
    } catch (error) {
      this.#failed.add(run);
      say(`run ${run}: no trace written: ${(error as Error).message}`);
    }
  }
}

/** Batches stored of a run, as far as its live state knows; 0 for one that was closed to make room. */
function batchesOf(aggregator: Aggregator, run: string): number {
  const ranks = aggregator.status().runs.find((status) => status.run === run)?.ranks ?? [];
  return ranks.reduce((sum, rank) => sum + rank.batches, 0);
}

/** `HOST:PORT`, `[v6]:PORT` or `PORT`. */
export function parseListen(text: string): { host: string; port: number } {
  const match = /^(?:(?:\[([^\]]+)\]|([^:]*)):)?(\d{1,5})$/.exec(text);
  const port = Number(match?.[3]);
  if (match === null || port > 65_535) throw new CliError('bad_usage', `--listen must be HOST:PORT, such as 127.0.0.1:7400, got "${text}"`);
  return { host: match[1] ?? (match[2] || '127.0.0.1'), port };
}

// `ranktrace serve`: the aggregator as a service, until Ctrl-C, with the page of all its runs. It writes a run's trace when its ranks have ended, the
// others at the end. With --check-config it starts nothing and reports the errors of the configuration.

import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
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
import { ranksText } from '@ranktrace/trace';
import { hostPort } from '../options/host-port.ts';
import { mergeAndReport } from '../print/merge-and-report.ts';
import { ranksSeen } from '../print/print-summary.ts';
import { findPageDirectory } from '../ranks/page-directory.ts';
import { CliError } from '../terminal/errors.ts';
import { formatBytes, formatCount } from '../terminal/format.ts';
import { abortOnInterrupt } from '../terminal/interrupt.ts';
import { complain, print, say } from '../terminal/output.ts';
import { shellWord } from '../terminal/shell-word.ts';

export interface ServeOptions {
  readonly listen: string;
  readonly out: string;
  readonly nats?: NatsConnectOptions | undefined;
  readonly token?: AccessTokens | undefined;
  readonly tls?: ListenOptions['tls'];
  readonly retention?: Retention | undefined;
  /** The configuration file; without it, all rules with their defaults, reported in the log. */
  readonly config?: string | undefined;
  readonly checkConfig?: boolean | undefined;
}

export async function serve(options: ServeOptions): Promise<number> {
  if (options.checkConfig === true) return checkOnly(options);
  boundGarbage();
  const config = options.config === undefined ? defaultConfig() : await readConfig(options.config);
  using interrupt = abortOnInterrupt();
  const page = findPageDirectory();
  await using aggregator = await startAggregator({
    out: options.out,
    listen: { ...hostPort('--listen', options.listen), tls: options.tls },
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
  // The operator adds the token: this line ends up in logs.
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

/**
 * Lets V8 keep half as much garbage as it has live objects. By default it lets a heap that fills this fast grow to four times its live objects: 300 MiB
 * where 80 are in use. The collections that this adds take about 1 % of a core that reads 2,000 batches a second.
 */
function boundGarbage(): void {
  setFlagsFromString('--heap-growing-percent=50');
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

/** Time for writing traces once the service is asked to end; deploy/ waits two minutes, and the stores need to close in good order. */
const lastTracesMsMax = 10_000;

/** A recorder beside a rank goes on for some seconds after it: a trace is not written again before nothing has come for so long. */
const quietMs = 10_000;

/** The trace files of a service: one write at a time, and again when the run has more batches than the last write. */
class RunTraces {
  readonly #aggregator: Aggregator;
  readonly #out: string;
  /** Number of batches at the last write of a run, also a failed one: it is retried when there are more, and at the end. */
  readonly #tried = new Map<string, number | undefined>();
  /** Aborted when the time is up, and the runs that are left then. */
  readonly #late = new AbortController();
  readonly #left = new Set<string>();
  readonly #failed = new Set<string>();
  /** Runs that got batches in this life of the service. */
  readonly #seen = new Set<string>();
  #writing: Promise<void> = Promise.resolve();
  #again: NodeJS.Timeout | undefined;
  /** Batches of each run that is complete, and since when. */
  readonly #complete = new Map<string, { readonly batches: number | undefined; readonly since: number }>();

  constructor(aggregator: Aggregator, out: string) {
    this.#aggregator = aggregator;
    this.#out = out;
  }

  /** Writes the runs whose ranks have all said goodbye. A rank that comes back opens its run again. */
  writeComplete(): void {
    for (const { run, worldSize, ranks } of this.#aggregator.status().runs) {
      this.#seen.add(run);
      const isComplete = ranks.length >= worldSize && ranks.every((rank) => rank.ended);
      if (!isComplete) this.#complete.delete(run);
      else if (this.#isQuiet(run)) this.#write(run);
    }
  }

  /** Whether a complete run has no trace yet, or got nothing more for a while. */
  #isQuiet(run: string): boolean {
    const batches = this.#stored(run);
    const known = this.#complete.get(run);
    const now = performance.now();
    if (known?.batches !== batches) this.#complete.set(run, { batches, since: now });
    if (known === undefined || (known.batches === batches && now - known.since >= quietMs)) return true;
    this.#again ??= setTimeout(() => {
      this.#again = undefined;
      this.writeComplete();
    }, quietMs);
    return false;
  }

  /**
   * Writes every run that has more than its last trace, for `lastTracesMsMax`: a trace is made from its run, and can be made later. Resolves with
   * whether all attempted writes succeeded.
   */
  async writeAll(): Promise<boolean> {
    clearTimeout(this.#again);
    const giveUp = setTimeout(() => this.#late.abort(), lastTracesMsMax);
    try {
      await this.#writing;
      for (const run of this.#failed) this.#tried.delete(run);
      const open = this.#aggregator.status().runs.map(({ run }) => run);
      for (const run of new Set([...this.#seen, ...open])) this.#write(run, open.includes(run));
      await this.#writing;
    } finally {
      clearTimeout(giveUp);
    }
    const [first] = this.#left;
    if (first !== undefined) {
      const path = join(this.#out, first);
      say(
        `${formatCount(this.#left.size)} runs have no trace of all that they got; nothing is lost: ranktrace merge ${shellWord(path)} -o ${shellWord(join(path, 'trace.pftrace'))}`,
      );
    }
    return this.#failed.size === 0;
  }

  #write(run: string, isOpen = true): void {
    const batches = isOpen ? this.#stored(run) : undefined;
    // A run that was closed to make room got no batch since its trace was tried.
    if (this.#tried.has(run) && (batches === undefined || this.#tried.get(run) === batches)) return;
    this.#tried.set(run, batches);
    this.#writing = this.#writing.then(() => this.#writeNow(run));
  }

  /** Number of batches of all lives in the store of an open run, also of ranks that the job does without now; undefined: it cannot be read. */
  #stored(run: string): number | undefined {
    try {
      return batchesOf(this.#aggregator.store(run).sources());
    } catch {
      return undefined; // the attempt to write its trace says why
    }
  }

  /** Ranks that send: they have not said goodbye, and are not lost. */
  #going(run: string): number[] {
    const found = this.#aggregator.status().runs.find((one) => one.run === run);
    return (found?.ranks ?? []).flatMap(({ rank, state }) => (state === 'live' ? [rank] : []));
  }

  async #writeNow(run: string): Promise<void> {
    const path = join(this.#out, run, 'trace.pftrace');
    const { signal } = this.#late;
    try {
      signal.throwIfAborted();
      const sources = this.#aggregator.store(run).sources();
      const going = this.#going(run);
      this.#tried.set(run, batchesOf(sources));
      const report = await mergeAndReport({ input: sources }, path, [], signal);
      this.#failed.delete(run);
      const events = report.totals.reduce((sum, { counts }) => sum + Object.values(counts).reduce((a, b) => a + b, 0), 0);
      const seen = ranksSeen(report.totals.map(({ process }) => process));
      const ranks = `${seen.ranks} ${seen.ranks === 1 ? 'rank' : 'ranks'}${seen.lives}`;
      say(`run ${run}: ${formatCount(events)} events of ${ranks} in ${path} (${formatBytes(report.bytes)})`);
      if (going.length > 0)
        say(`run ${run}: ${ranksText(going)} ${going.length === 1 ? 'goes' : 'go'} on: the trace holds what came by now`);
      for (const { kind, ranks: about, text } of report.findings) {
        if (kind !== 'rank_lost' || about.some((rank) => !going.includes(rank))) say(`run ${run}: ${kind}: ${text}`);
      }
    } catch (error) {
      if (signal.aborted) {
        this.#left.add(run);
        return;
      }
      this.#failed.add(run);
      say(`run ${run}: no trace written: ${(error as Error).message}`);
    }
  }
}

const batchesOf = (lives: readonly { readonly count: number }[]): number => lives.reduce((sum, { count }) => sum + count, 0);

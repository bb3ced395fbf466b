// `ranktrace run -- CMD …`: N ranks on this host, the aggregator in this process, one trace at the end.
//
//   start the aggregator → start the ranks → show how they do → wait for the last batches → take in what a killed rank left in its
//   spool → merge → trace and summary
//
// Like torchrun: the first rank that fails ends the others, and its exit code is passed on. The trace of what ran is written in any case.
// With --view the page of the run is served from before the first rank starts until Ctrl-C, also when the ranks have long ended.

import { access, constants, rm } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { setImmediate, setTimeout } from 'node:timers/promises';
import {
  type Aggregator,
  AggregatorError,
  type NatsConnectOptions,
  openBatchLog,
  startAggregator,
  traceFormatOf,
} from '@ranktrace/aggregator';
import { StepBlameSink } from '@ranktrace/trace';
import { CliError } from '../errors.ts';
import { formatBytes } from '../format.ts';
import { abortOnInterrupt } from '../interrupt.ts';
import { mergeAndReport } from '../merge-inputs.ts';
import { openBrowser, pageAddress } from '../open-browser.ts';
import { pageDirectory } from '../page-directory.ts';
import { formatReport, reportData } from '../print-summary.ts';
import { RankProcesses } from '../rank-processes.ts';
import { showRunStatus } from '../run-status.ts';
import { say } from '../say.ts';

export interface RunOptions {
  readonly ranks: number;
  readonly out: string;
  readonly name?: string | undefined;
  readonly nats?: NatsConnectOptions | undefined;
  readonly trace?: string | undefined;
  readonly json?: boolean | undefined;
  readonly view?: boolean | undefined;
  /** Whether to open the browser, with `view`, on a terminal. */
  readonly open: boolean;
  /** What the children inherit. */
  readonly environment: NodeJS.ProcessEnv;
}

/** The ranks have ended: what has not arrived after so long without a batch lies in a spool, ms. */
const quietMs = 1000;
/** The same where a broker is between, which may just be coming back. */
const quietNatsMs = 5000;
const breatheEveryMs = 10;

export async function run(command: readonly string[], options: RunOptions): Promise<number> {
  const name = options.name ?? runName(new Date());
  const out = resolve(options.out);
  const spool = join(out, name, 'spool');
  const path = options.trace ?? join(out, name, 'trace.pftrace');
  // Before hours of training, not after them.
  await checkTracePath(options.trace);
  const page = options.view === true ? pageDirectory() : undefined;
  using interrupt = abortOnInterrupt();
  await using aggregator = await startAggregator({
    out,
    listen: { host: '127.0.0.1', port: 0 },
    nats: options.nats,
    run: name,
    page,
    onNotice: say,
  });
  const view = pageAddress(aggregator.address, undefined, `#/overview?run=${name}`);
  if (page !== undefined) {
    say(`view: ${view}`);
    if (options.open && process.stdout.isTTY === true) openBrowser(view, options.environment);
  }
  const url = options.nats?.servers[0] ?? aggregator.address.replace(/^http/, 'ws');
  const ranks = await RankProcesses.start(command, {
    ranks: options.ranks,
    environment: {
      ...options.environment,
      RANKTRACE_RUN: name,
      RANKTRACE_URL: url,
      RANKTRACE_SPOOL_DIRECTORY: spool,
      ...natsEnvironment(options.nats),
    },
    // With --json, stdout is the report's alone.
    output: options.json === true ? process.stderr : process.stdout,
  });
  const status = showRunStatus(aggregator, name, options.ranks);
  let ranksRun = true;
  void interrupt.asked.then(() => {
    if (!ranksRun) return;
    say('stopping the ranks; the trace follows (Ctrl-C again to end at once)');
    ranks.stop('SIGINT');
  });
  const exit = await ranks.ended;
  ranksRun = false;
  await lastBatches(aggregator, name, ranks.started, options.nats === undefined ? quietMs : quietNatsMs);
  status.stop();
  if (await takeSpool(aggregator, name, spool)) await rm(spool, { recursive: true, force: true });
  const sources = aggregator.store(name).sources();
  if (sources.length === 0) {
    if (exit.code !== 0) say(exit.reason);
    say(`no events arrived: does "${command.join(' ')}" use @ranktrace/sdk?`);
    return exit.code === 0 ? 1 : exit.code;
  }
  const steps = new StepBlameSink();
  const report = await mergeAndReport(sources, path, [steps]).catch((error: unknown) => {
    if (exit.code !== 0) say(exit.reason);
    say(`no trace written: ${(error as Error).message}; its batches are stored: ranktrace merge ${join(out, name)} -o FILE`);
    return undefined;
  });
  if (report !== undefined) {
    const written = { ...(reportData(report) as object), trace: path, exitCode: exit.code };
    const opens = `open it at ui.perfetto.dev, or: ranktrace view ${join(options.out, name)}`;
    const text = `\n${formatReport(report, steps.blame)}\n\ntrace: ${path} (${formatBytes(report.bytes)}; ${opens})`;
    process.stdout.write(`${options.json === true ? JSON.stringify(written) : text}\n`);
    if (exit.code !== 0) say(exit.reason);
  }
  if (page !== undefined && !interrupt.signal.aborted) {
    say(`view: still at ${view} (Ctrl-C ends it)`);
    await interrupt.asked;
  }
  return report === undefined && exit.code === 0 ? 2 : exit.code;
}

/** All servers of a cluster, not the first alone, and a user that stood in a URL. */
function natsEnvironment(nats: NatsConnectOptions | undefined): NodeJS.ProcessEnv {
  if (nats === undefined) return {};
  const { servers, user, pass } = nats;
  return {
    RANKTRACE_NATS_SERVERS: servers.join(','),
    ...(user !== undefined && { RANKTRACE_NATS_USER: user }),
    ...(pass !== undefined && { RANKTRACE_NATS_PASS: pass }),
  };
}

/** Waits until every started rank has said goodbye, or nothing has come for `quietMs`: a killed one never will. */
async function lastBatches(aggregator: Aggregator, name: string, started: number, quietMs: number): Promise<void> {
  let batches = -1;
  let quietSince = Date.now();
  while (Date.now() - quietSince < quietMs) {
    const ranks = aggregator.status().runs.find((run) => run.run === name)?.ranks ?? [];
    if (ranks.filter((rank) => rank.ended).length >= started && ranks.every((rank) => rank.missing === 0)) return;
    const now = ranks.reduce((sum, rank) => sum + rank.batches, 0);
    if (now !== batches) quietSince = Date.now();
    batches = now;
    await setTimeout(20);
  }
}

/**
 * Stores what the ranks left in their spools: a killed rank's last batches, or all of them when nothing could be sent. Resolves with whether
 * the spool has nothing left that the store has not.
 */
async function takeSpool(aggregator: Aggregator, name: string, spool: string): Promise<boolean> {
  let taken = 0;
  let left = '';
  try {
    using log = openBatchLog(spool);
    let breathed = performance.now();
    for (const source of log.runs.includes(name) ? log.run(name).sources() : []) {
      for (let index = 0; index < source.count; index++) {
        const bytes = source.read(index);
        if (bytes === undefined) continue;
        const { result, ...about } = aggregator.ingest(bytes);
        if (result === 'stored') taken++;
        if (result === 'unavailable' && 'reason' in about) left = about.reason;
        if (performance.now() - breathed < breatheEveryMs) continue;
        await setImmediate();
        breathed = performance.now();
      }
    }
  } catch (error) {
    // No spool, or an empty or torn one: every whole batch was acknowledged.
    const code = error instanceof AggregatorError ? error.code : '';
    const isEmpty = code === 'store_missing' || code === 'store_not_a_run' || code === 'store_truncated';
    if (!isEmpty) left = (error as Error).message;
  }
  if (taken > 0) say(`${taken} batches came from the ranks' spools`);
  if (left !== '') say(`the ranks' last batches stay in "${spool}": ${left}`);
  return left === '';
}

/** Throws where the trace could not be written later: AggregatorError `bad_option`, CliError `bad_input`. */
async function checkTracePath(path: string | undefined): Promise<void> {
  if (path === undefined) return;
  traceFormatOf(path);
  await access(dirname(resolve(path)), constants.W_OK).catch((cause: Error) => {
    throw new CliError('bad_input', `Cannot write "${path}": ${cause.message}`, { cause });
  });
}

/** `run-20260131-235959`, in UTC. */
function runName(now: Date): string {
  return `run-${now.toISOString().slice(0, 19).replace(/[-:]/g, '').replace('T', '-')}`;
}

/** Checks what follows `--`. */
export function checkCommand(command: readonly string[]): readonly string[] {
  if (command.length > 0) return command;
  throw new CliError('bad_usage', 'run needs a command after "--", such as: ranktrace run --ranks 4 -- node train.js');
}

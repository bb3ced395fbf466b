// `ranktrace run -- CMD …`: N ranks on this host, the aggregator in this process, one trace at the end.
//
//   start the aggregator → start the ranks → show how they do → wait for the last batches → take in what a killed rank left in its
//   spool → merge → trace and summary
//
// Like torchrun: the first rank that fails ends the others, and its exit code is passed on. The trace of what ran is written in any case.

import { rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { type Aggregator, type NatsConnectOptions, openBatchLog, startAggregator } from '@ranktrace/aggregator';
import { decodeBatchHeader } from '@ranktrace/protocol';
import { CliError } from '../errors.ts';
import { formatBytes } from '../format.ts';
import { abortOnInterrupt } from '../interrupt.ts';
import { mergeAndReport } from '../merge-inputs.ts';
import { formatReport, reportData } from '../print-summary.ts';
import { RankProcesses } from '../rank-processes.ts';
import { showRunStatus } from '../run-status.ts';

export interface RunOptions {
  readonly ranks: number;
  readonly out: string;
  readonly name?: string | undefined;
  readonly nats?: NatsConnectOptions | undefined;
  readonly trace?: string | undefined;
  readonly json?: boolean | undefined;
  /** What the children inherit. */
  readonly environment: NodeJS.ProcessEnv;
}

/** How long stored batches may lag behind the ranks' end, ms. */
const lastBatchesMs = 5000;

export async function run(command: readonly string[], options: RunOptions): Promise<number> {
  const name = options.name ?? runName(new Date());
  const out = resolve(options.out);
  const spool = join(out, name, 'spool');
  const say = (line: string): void => {
    process.stderr.write(`ranktrace: ${line}\n`);
  };
  using interrupt = abortOnInterrupt();
  await using aggregator = await startAggregator({
    out,
    listen: { host: '127.0.0.1', port: 0 },
    nats: options.nats,
    run: name,
    onNotice: say,
  });
  const url = options.nats?.servers[0] ?? aggregator.address.replace(/^http/, 'ws');
  const ranks = await RankProcesses.start(command, {
    ranks: options.ranks,
    environment: { ...options.environment, RANKTRACE_RUN: name, RANKTRACE_URL: url, RANKTRACE_SPOOL_DIRECTORY: spool },
    // With --json, stdout is the report's alone.
    output: options.json === true ? process.stderr : process.stdout,
  });
  const status = showRunStatus(aggregator, name, options.ranks);
  void interrupt.asked.then(() => {
    say('stopping the ranks; the trace follows (Ctrl-C again to end at once)');
    ranks.stop('SIGINT');
  });
  const exit = await ranks.ended;
  await lastBatches(aggregator, name, ranks.started);
  status.stop();
  takeSpool(aggregator, name, spool, say);
  await rm(spool, { recursive: true, force: true });
  const sources = aggregator.store(name).sources();
  if (sources.length === 0) {
    if (exit.code !== 0) say(exit.reason);
    say(`no events arrived: does "${command.join(' ')}" use @ranktrace/sdk?`);
    return exit.code === 0 ? 1 : exit.code;
  }
  const path = options.trace ?? join(out, name, 'trace.pftrace');
  const report = await mergeAndReport(sources, path);
  if (options.json === true)
    process.stdout.write(`${JSON.stringify({ ...(reportData(report) as object), trace: path, exitCode: exit.code })}\n`);
  else process.stdout.write(`\n${formatReport(report)}\n\ntrace: ${path} (${formatBytes(report.bytes)}; open it at ui.perfetto.dev)\n`);
  if (exit.code !== 0) say(exit.reason);
  return exit.code;
}

/** Waits until every started rank has said goodbye, or the deadline: a killed one never will. */
async function lastBatches(aggregator: Aggregator, name: string, started: number): Promise<void> {
  const deadline = Date.now() + lastBatchesMs;
  let batches = -1;
  let quietSince = Date.now();
  while (Date.now() < deadline) {
    const ranks = aggregator.status().runs.find((run) => run.run === name)?.ranks ?? [];
    if (ranks.filter((rank) => rank.ended).length >= started && ranks.every((rank) => rank.missing === 0)) return;
    const now = ranks.reduce((sum, rank) => sum + rank.batches, 0);
    if (now !== batches) quietSince = Date.now();
    // The processes are gone: what has not arrived after a quiet second lies in a spool.
    else if (Date.now() - quietSince > 1000) return;
    batches = now;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** Stores what the ranks left in their spools: a killed rank's last batches, or all of them when nothing could be sent. */
function takeSpool(aggregator: Aggregator, name: string, spool: string, say: (line: string) => void): void {
  let taken = 0;
  try {
    using log = openBatchLog(spool);
    if (!log.runs.includes(name)) return;
    for (const source of log.run(name).sources()) {
      for (let index = 0; index < source.count; index++) {
        const bytes = source.read(index);
        if (decodeBatchHeader(bytes).run === name && aggregator.ingest(bytes).result === 'stored') taken++;
      }
    }
  } catch {
    // No spool, or an empty one: every batch was acknowledged.
    return;
  }
  if (taken > 0) say(`${taken} batches came from the ranks' spools`);
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

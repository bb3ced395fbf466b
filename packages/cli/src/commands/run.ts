// `ranktrace run -- CMD …`: N ranks on this host, the aggregator in this process, one trace at the end.
//
//   start the aggregator → start the ranks → show their progress → wait for the last batches → store a killed rank's spool → store how ranks
//   ended → merge → trace and summary
//
// As with torchrun, the first rank that fails ends the others, and `run` returns its exit code. The trace is written in any case. With --view the
// page of the run is served from before the first rank starts until Ctrl-C, also long after the ranks have ended. With --config it raises alerts as
// the service does. If a program names its run itself, `run` follows it there (recorded-runs.ts).

import { existsSync, statSync } from 'node:fs';
import { access, constants, rm } from 'node:fs/promises';
import { dirname, join, resolve, sep } from 'node:path';
import { setImmediate, setTimeout } from 'node:timers/promises';
import {
  type Aggregator,
  AggregatorError,
  type NatsConnectOptions,
  openBatchLog,
  readConfig,
  type ServeConfig,
  startAggregator,
  traceFormatOf,
} from '@ranktrace/aggregator';
import { libraryPath, missingLibrary } from '@ranktrace/gpu';
import { type Alert, printable, type RankNote } from '@ranktrace/protocol';
import { ranksText } from '@ranktrace/trace';
import { mergeAndReport } from '../print/merge-and-report.ts';
import { HeadlineSinks } from '../print/print-headline.ts';
import { formatReport, reportData } from '../print/print-summary.ts';
import { matchAlerts, noAlerts, storedAlerts } from '../print/report-alerts.ts';
import { oneGpuEach } from '../ranks/host-gpus.ts';
import { pageDirectory } from '../ranks/page-directory.ts';
import { RankNotes } from '../ranks/rank-notes.ts';
import { RankProcesses } from '../ranks/rank-processes.ts';
import { RecordedRuns } from '../ranks/recorded-runs.ts';
import { type RunStatus, showRunStatus } from '../ranks/run-status.ts';
import { CliError } from '../terminal/errors.ts';
import { formatBytes } from '../terminal/format.ts';
import { abortOnInterrupt } from '../terminal/interrupt.ts';
import { openBrowser, pageAddress } from '../terminal/open-browser.ts';
import { print, printData, say } from '../terminal/output.ts';
import { shellWord } from '../terminal/shell-word.ts';

export interface RunOptions {
  /** Default: 1, and with `gpus` as many as there are GPUs. */
  readonly ranks?: number | undefined;
  /** One GPU per rank. */
  readonly gpus?: boolean | undefined;
  /** Whether kernels are recorded. */
  readonly gpu?: boolean | undefined;
  readonly out: string;
  readonly name?: string | undefined;
  readonly nats?: NatsConnectOptions | undefined;
  /** The configuration of alerts and outputs; without it there are no outputs. */
  readonly config?: string | undefined;
  readonly trace?: string | undefined;
  readonly json?: boolean | undefined;
  readonly view?: boolean | undefined;
  /** Whether to open the browser, with `view`, on a terminal. */
  readonly open: boolean;
  /** Environment that the children inherit. */
  readonly environment: NodeJS.ProcessEnv;
}

/** Makes CUDA's driver load the library before the program's first work on a GPU, and the SDK read what it records. */
function kernelEnvironment(environment: NodeJS.ProcessEnv): Record<string, string> {
  const path = libraryPath('ranktrace-gpu.node');
  if (path === undefined) throw new CliError('bad_usage', `--gpu cannot record kernels: ${missingLibrary}`);
  return { RANKTRACE_ACTIVITIES: environment.RANKTRACE_ACTIVITIES ?? 'cpu,cuda', CUDA_INJECTION64_PATH: path };
}

/** Once the ranks have ended: after this long without a batch, everything missing lies in a spool, ms. */
const quietMs = 1000;
/** The same with a broker in between, which may just be recovering. */
const quietNatsMs = 5000;
const breatheEveryMs = 10;

export async function run(command: readonly string[], options: RunOptions): Promise<number> {
  if (command.length === 0) {
    throw new CliError('bad_usage', 'run needs a command after "--", such as: ranktrace run --ranks 4 -- node train.js');
  }
  const name = options.name ?? runName(new Date());
  const out = resolve(options.out);
  const spool = join(out, name, 'spool');
  // Checked before hours of training, not after them.
  await checkTracePath(options.trace);
  const config = options.config === undefined ? undefined : await readConfig(options.config);
  const own = options.gpus === true ? await oneGpuEach(options.ranks, options.environment.CUDA_VISIBLE_DEVICES) : undefined;
  const count = options.ranks ?? own?.length ?? 1;
  const page = options.view === true ? pageDirectory() : undefined;
  const kernels = options.gpu === true ? kernelEnvironment(options.environment) : undefined;
  using interrupt = abortOnInterrupt();
  let status: RunStatus | undefined;
  const log = (line: string): void => (status ?? { say }).say(line);
  const isNew = !existsSync(join(out, name));
  // Creates the run at the start, for the page; removes it again if nothing of it arrived: the program cannot be started, or names its run otherwise.
  await using leftover = emptyRun(join(out, name));
  await using aggregator = await startAggregator({
    out,
    listen: { host: '127.0.0.1', port: 0 },
    nats: options.nats,
    run: name,
    // On NATS others publish, too; on a port that only the ranks know, every batch is theirs.
    takesOthers: options.nats === undefined,
    page,
    config,
    onNotice: log,
  });
  // Only now is it ours: another command may have begun a run of this name since it was looked for.
  leftover.isEmpty = isNew;
  const view = (run: string): string => pageAddress(aggregator.address, undefined, `#/overview?run=${run}`);
  if (page !== undefined) {
    say(`view: ${view(name)}`);
    if (options.open && process.stdout.isTTY === true) openBrowser(view(name), options.environment);
  }
  const isChosen = options.name !== undefined;
  using notes = new RankNotes();
  const runs = new RecordedRuns(aggregator, {
    name,
    isChosen,
    isNew,
    out: options.out,
    notes,
    overNats: options.nats !== undefined,
    report: log,
  });
  const url = options.nats?.servers[0] ?? aggregator.address.replace(/^http/, 'ws');
  const ranks = await RankProcesses.start(command, {
    ranks: count,
    own,
    environment: {
      ...options.environment,
      RANKTRACE_RUN: name,
      RANKTRACE_URL: url,
      RANKTRACE_SPOOL_DIRECTORY: spool,
      RANKTRACE_LAUNCH_DIRECTORY: notes.directory,
      ...(kernels && { ...kernels, RANKTRACE_GPU_DIR: notes.directory }),
      ...natsEnvironment(options.nats),
    },
    // With --json, stdout carries only the report.
    output: options.json === true ? process.stderr : process.stdout,
    onExit: (exit, all) => aggregator.alerts.exited(notes.recorded(exit), all.map(notes.recorded)),
  });
  leftover.isEmpty = false;
  status = showRunStatus(aggregator, count);
  if (config?.outputs.some(({ type }) => type === 'log') !== true) {
    aggregator.alerts.subscribe((alert) => {
      if (config !== undefined || endsJobs(alert)) log(`run ${alert.run}: ${alertText(alert)}`);
    });
  }
  let ranksRun = true;
  void interrupt.asked.then(() => {
    if (!ranksRun) return;
    log('stopping the ranks; the trace follows (Ctrl-C again to end at once)');
    aggregator.alerts.stopping();
    ranks.stop('SIGINT');
  });
  const exit = await ranks.ended;
  ranksRun = false;
  const exitCode = exit.code === 0 && exit.isCutShort ? interrupt.exitCode : exit.code;
  await runs.look();
  await lastBatches(aggregator, ranks.started, options.nats === undefined ? quietMs : quietNatsMs);
  status.stop();
  status = undefined;
  let isWhole = true;
  for (const directory of spoolsOf(notes.read(), spool)) {
    if (await takeSpool(aggregator, directory)) await rm(directory, { recursive: true, force: true });
    else isWhole = false;
  }
  await runs.look();
  runs.stop();
  const stored = aggregator.runs();
  // It comes after all that ranks sent: a batch that is left in a spool would have its number.
  if (isWhole)
    for (const run of runs.names)
      if (stored.includes(run)) aggregator.storeExits(run, ranks.exits.map(notes.recorded), ranks.all.map(notes.recorded));
  aggregator.alerts.tick();
  await aggregator.alerts.settled();
  const hasEvents = stored.includes(name) && aggregator.store(name).sources().length > 0;
  leftover.isEmpty = isNew && !hasEvents && !existsSync(spool);
  const names = runs.names.filter((run) => stored.includes(run));
  const { exitCode: alertsCode } = aggregator.delivery;
  const written = await writeRuns(aggregator, names, options, config, exitCode === 0 ? alertsCode : exitCode);
  if (exit.code !== 0) say(exit.reason);
  if (written === 'nothing') {
    for (const line of whyNothing(notes.read(), url, command)) say(line);
    return exitCode === 0 ? 1 : exitCode;
  }
  if (page !== undefined && !interrupt.signal.aborted) {
    for (const run of names) say(`view: still at ${view(run)} (Ctrl-C ends it)`);
    await interrupt.asked;
  }
  if (exitCode !== 0) return exitCode;
  return written === 'failed' ? 2 : alertsCode;
}

/** Writes the trace of each run and prints its contents. */
async function writeRuns(
  aggregator: Aggregator,
  runs: readonly string[],
  { out, trace, json }: RunOptions,
  config: ServeConfig | undefined,
  exitCode: number,
): Promise<'written' | 'failed' | 'nothing'> {
  let [written, failed] = [0, 0];
  if (runs.length > 1) {
    for (const run of runs) say(`run "${run}": ${rankText(aggregator.store(run).sources())}`);
    if (trace !== undefined) say(`--trace ${trace} is for one run, and here are ${runs.length}: each trace lies beside its run`);
  }
  for (const run of runs) {
    const sources = aggregator.store(run).sources();
    if (sources.length === 0) continue;
    const path = runs.length === 1 && trace !== undefined ? trace : join(resolve(out), run, 'trace.pftrace');
    const alerts = storedAlerts([join(resolve(out), run)]);
    try {
      const headline = new HeadlineSinks();
      const report = await mergeAndReport({ input: sources }, path, headline.all);
      const { blame } = headline;
      const data = { ...(reportData(report) as object), alerts, trace: path, exitCode };
      const opens = `open it at ui.perfetto.dev, or: ranktrace view ${shellWord(join(out, run))}`;
      // Those of a configuration are a list of their own.
      const among = config === undefined ? matchAlerts(alerts, blame.findings, report.findings) : noAlerts;
      const blocks = [
        formatReport(report, blame, headline.inShort(blame, report, alerts), among),
        ...(config === undefined ? [] : [alertLines(alerts)]),
      ];
      const text = `\n${blocks.join('\n\n')}\n\ntrace: ${printable(path)} (${formatBytes(report.bytes)}; ${printable(opens)})`;
      if (json === true) printData(data);
      else print(text);
      written++;
    } catch (error) {
      failed++;
      say(
        `no trace written: ${(error as Error).message}; its batches are stored: ranktrace merge ${shellWord(join(resolve(out), run))} -o FILE`,
      );
    }
  }
  return failed > 0 ? 'failed' : written > 0 ? 'written' : 'nothing';
}

const rankText = (sources: readonly { readonly rank: number }[]): string => {
  const ranks = [...new Set(sources.map(({ rank }) => rank))].sort((a, b) => a - b);
  return ranksText(ranks, ranks.length);
};

/** Without a configuration, only what keeps a job from going on is told while it runs. */
const endsJobs = ({ rule, state }: Alert): boolean => state === 'firing' && (rule === 'hang' || rule === 'rank_stopped');

const alertText = ({ state, severity, rule, summary, resolution }: Alert): string => {
  return `${severity} ${rule} ${state}: ${summary}${resolution === null ? '' : ` (${resolution})`}`;
};

/** The summary's part about alerts. */
function alertLines(alerts: readonly Alert[]): string {
  if (alerts.length === 0) return 'alerts: none fired';
  const firing = alerts.filter(({ state }) => state === 'firing').length;
  const head = `alerts: ${alerts.length} fired, ${firing} of them still ${firing === 1 ? 'fires' : 'fire'}`;
  const lines = alerts.flatMap((alert) => [
    `  ${printable(alertText(alert))}`,
    ...(alert.cause === null ? [] : [`    cause: ${printable(alert.cause.text)}`]),
  ]);
  return [head, ...lines].join('\n');
}

/** The directory of a run; removed at the end if `isEmpty`. */
function emptyRun(path: string): AsyncDisposable & { isEmpty: boolean } {
  const leftover = {
    isEmpty: false,
    [Symbol.asyncDispose]: async () => {
      if (leftover.isEmpty) await rm(path, { recursive: true, force: true });
    },
  };
  return leftover;
}

/** All servers of a cluster, not just the first, and the user from a URL. */
function natsEnvironment(nats: NatsConnectOptions | undefined): NodeJS.ProcessEnv {
  if (nats === undefined) return {};
  const { servers, user, pass } = nats;
  return {
    RANKTRACE_NATS_SERVERS: servers.join(','),
    ...(user !== undefined && { RANKTRACE_NATS_USER: user }),
    ...(pass !== undefined && { RANKTRACE_NATS_PASS: pass }),
  };
}

/**
 * Directories that may hold the ranks' batches: the given one, and those that ranks chose themselves, which may hold other programs' batches, too.
 */
function spoolsOf(notes: readonly RankNote[], given: string): readonly string[] {
  return [given, ...notes.map(({ spool }) => spool).filter((spool) => !spool.startsWith(given + sep) && existsSync(spool))];
}

/** Hints for a program that records nothing, or not to this process. */
function whyNothing(notes: readonly RankNote[], url: string, command: readonly string[]): readonly string[] {
  if (notes.length === 0) {
    const isPython = command.some((word) => /(?:^|\/)(?:python[\d.]*|torchrun)$|\.py$/.test(word));
    const what = isPython ? 'ranktrace.py of clients/python ("python -m ranktrace train.py" needs no change)' : '@ranktrace/sdk';
    return [`no events arrived: does "${command.join(' ')}" use ${what}?`];
  }
  const elsewhere = new Map(notes.filter((note) => note.url !== url).map(({ run, url }) => [`${url ?? 'files'} ${run}`, { run, url }]));
  return [
    `no events arrived, though ${rankText(notes)} recorded`,
    ...[...elsewhere.values()].map(({ run, url }) => {
      return `the program sends run "${run}" to ${url ?? 'files'} itself: without that url in it, its batches come to this command`;
    }),
  ];
}

/** Waits until every started rank has said goodbye, or no batch has come for `quietMs`: a killed rank never says goodbye. */
async function lastBatches(aggregator: Aggregator, started: number, quietMs: number): Promise<void> {
  let batches = -1;
  let quietSince = Date.now();
  while (Date.now() - quietSince < quietMs) {
    const ranks = aggregator.status().runs.flatMap((run) => run.ranks);
    // A process may have several ranks: each of its worker threads one.
    if (ranks.length >= started && ranks.every((rank) => rank.ended && rank.missing === 0)) return;
    const now = ranks.reduce((sum, rank) => sum + rank.batches, 0);
    if (now !== batches) quietSince = Date.now();
    batches = now;
    await setTimeout(20);
  }
}

/**
 * Stores the batches that ranks left in their spools: a killed rank's last ones, or all of them when nothing could be sent. Resolves with whether the
 * store now has everything in the spool.
 */
async function takeSpool(aggregator: Aggregator, spool: string): Promise<boolean> {
  let taken = 0;
  let left = '';
  try {
    using log = openBatchLog(spool);
    let breathed = performance.now();
    for (const source of log.runs.flatMap((run) => log.run(run).sources())) {
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

/** Throws if the trace could not be written later: AggregatorError `bad_option`, CliError `bad_input`. */
async function checkTracePath(path: string | undefined): Promise<void> {
  if (path === undefined) return;
  traceFormatOf(path);
  const folder = dirname(resolve(path));
  try {
    if (!statSync(folder).isDirectory()) throw new Error(`"${folder}" is not a directory`);
    await access(folder, constants.W_OK);
    if (statSync(path, { throwIfNoEntry: false })?.isDirectory() === true) throw new Error('it is a directory');
  } catch (cause) {
    throw new CliError('bad_input', `Cannot write "${path}": ${(cause as Error).message}`, { cause });
  }
}

/** `run-20260131-235959-4711`, in UTC, with the process: another command may begin in the same second. */
function runName(now: Date): string {
  return `run-${now.toISOString().slice(0, 19).replace(/[-:]/g, '').replace('T', '-')}-${process.pid}`;
}

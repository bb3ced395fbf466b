// `ranktrace report INPUT…`: shows where the time of a run went, between its ranks: steps, blame, GPUs, clocks, collectives, remote calls, open work.
// It covers the whole run, or with `--steps` a stretch of it.

import { basename, resolve } from 'node:path';
import { CollectiveSink, clockReport, RpcSink } from '@ranktrace/trace';
import type { StepRange } from '@ranktrace/trace/blame';
import { memoryOf, OpSumsSink, ReportDataSink } from '@ranktrace/trace/timeline';
import { type InputOptions, openRun } from '../inputs/open-inputs.ts';
import { mergeAndReport } from '../print/merge-and-report.ts';
import { blameData, formatBlame } from '../print/print-blame.ts';
import { clocksData, formatClocks } from '../print/print-clocks.ts';
import { collectivesData, formatCollectives } from '../print/print-collectives.ts';
import { formatGpu, gpuData } from '../print/print-gpu.ts';
import { HeadlineSinks } from '../print/print-headline.ts';
import { formatMemory, memoryData } from '../print/print-memory.ts';
import { formatOpenWork, openWorkData } from '../print/print-open-work.ts';
import { formatRpcs, rpcsData } from '../print/print-rpcs.ts';
import { formatReport, reportData } from '../print/print-summary.ts';
import { alertFinding, matchAlerts, storedAlerts } from '../print/report-alerts.ts';
import { reportPage, writeReportPage } from '../print/report-page.ts';
import { badEnds } from '../print/run-end.ts';
import { CliError } from '../terminal/errors.ts';
import { abortOnInterrupt } from '../terminal/interrupt.ts';
import { print, printData } from '../terminal/output.ts';

export interface ReportOptions extends InputOptions {
  /** Only these steps, both included. */
  readonly steps?: StepRange | undefined;
  readonly json?: boolean;
  /** Figures of GPUs by the conventions of Holistic Trace Analysis. */
  readonly htaCompatible?: boolean;
  /** As one file for a browser, in `output`, or on stdout, as for `-`. */
  readonly html?: boolean;
  readonly output?: string;
}

export async function report(inputs: readonly string[], options: ReportOptions): Promise<number> {
  checkOptions(options);
  using opened = await openRun(inputs, options);
  using interrupt = abortOnInterrupt();
  if (options.html === true) {
    const data = new ReportDataSink();
    const merged = await mergeAndReport(opened, undefined, [data], interrupt.signal, options.steps);
    const about = {
      run: opened.kind === 'store' ? opened.run : titleOf(inputs),
      input: inputs.map((path) => basename(path)).join(', '),
      steps: options.steps,
    };
    const alerts = storedAlerts(opened.directories, options.steps);
    writeReportPage(reportPage(about, data.data, merged.findings, alerts), options.output === '-' ? undefined : options.output);
    return 0;
  }
  const { htaCompatible, steps } = options;
  const headline = new HeadlineSinks({ htaCompatible: htaCompatible === true, isOfSteps: steps !== undefined });
  const [collectives, rpcs, ops] = [new CollectiveSink(headline.parts), new RpcSink(), new OpSumsSink()];
  const sinks = [...headline.all, collectives, rpcs, ops];
  const merged = await mergeAndReport(opened, undefined, sinks, interrupt.signal, steps, undefined, headline.ofRun);
  const { summary: gpu } = headline.gpus;
  if (options.htaCompatible === true && gpu.ranks.length === 0) {
    throw new CliError('bad_usage', '--hta-compatible is about the work of GPUs, and this input has none');
  }
  const { blame, openWork } = headline;
  const memory = ops.ranks.flatMap(memoryOf);
  const stored = storedAlerts(opened.directories, options.steps);
  const alerts = matchAlerts(stored, blame.findings, merged.findings);
  const withAlerts = <Announcement extends (typeof blame.findings)[number] | (typeof merged.findings)[number]>(finding: Announcement) => {
    const ids = alerts.of.get(finding)?.map(({ id }) => id);
    return ids === undefined ? finding : { ...finding, alerts: ids };
  };
  const clocks = clockReport(merged.totals);
  const { clockConflicts } = merged.header;
  const zero = merged.summary.firstStart ?? 0;
  if (options.json === true) {
    const data = {
      ...(reportData(merged) as object),
      ...(options.steps === undefined ? {} : { onlySteps: options.steps }),
      verdict: blame.verdict,
      verdictSteps: blame.verdictSteps,
      // Blame first, then further alerts, then known losses: each with `kind` and `ranks`.
      findings: [...blame.findings.map(withAlerts), ...alerts.alone.map(alertFinding), ...merged.findings.map(withAlerts)],
      blame: blameData(blame),
      ...(gpu.ranks.length === 0 ? {} : { gpu: gpuData(gpu) }),
      ...(memory.length === 0 ? {} : { memory: memoryData(memory) }),
      clocks: clocksData(clocks, clockConflicts),
      collectives: collectivesData(collectives.summary),
      remoteCalls: rpcsData(rpcs.summary),
      openWork: openWorkData(openWork.summary),
    };
    printData(data);
    return 0;
  }
  const blocks = [
    options.steps === undefined ? '' : `steps ${options.steps.first} to ${options.steps.last} alone; events are counted over the whole run`,
    formatReport(merged, blame, headline.inShort(blame, merged, stored), alerts),
    formatBlame(blame, alerts, badEnds(merged, openWork.summary).length > 0),
    formatGpu(gpu),
    formatMemory(memory),
    formatClocks(clocks, clockConflicts, zero),
    formatCollectives(collectives.summary, zero),
    formatRpcs(rpcs.summary),
    formatOpenWork(openWork.summary, { zero, isHanging: headline.hangs(merged).findings.length > 0 }),
  ];
  print(blocks.filter((block) => block !== '').join('\n\n'));
  return 0;
}

/** Files have no run's name: `nanogpt-8rank`, `rank0.json.gz and 7 more`. */
const titleOf = ([first = '', ...others]: readonly string[]): string =>
  `${basename(resolve(first))}${others.length === 0 ? '' : ` and ${others.length} more`}`;

/** Throws CliError `bad_usage` for options that have no effect together. */
function checkOptions({ html, json, htaCompatible, output }: ReportOptions): void {
  const refuse = (what: string): never => {
    throw new CliError('bad_usage', what);
  };
  if (html !== true && output !== undefined) refuse('--output is the file of --html: other reports go to stdout');
  if (html !== true) return;
  if (json === true) refuse('--html and --json are two reports: choose one');
  if (htaCompatible === true) refuse('--hta-compatible has no effect on --html');
  if (output === undefined && process.stdout.isTTY) refuse('--html needs a file: -o report.html');
}

// Merges a command's input once: into a trace file (if any), into the sinks of the command, and into the report that every command prints.

import { type MergeInput, type MergeOptions, mergeStored, writeTrace } from '@ranktrace/aggregator';
import { isBeside } from '@ranktrace/protocol';
import {
  CountedStepsSink,
  type Finding,
  findCompleteness,
  type ProcessTotals,
  StepRangeSink,
  StepTimesSink,
  type TraceHeader,
  type TraceSink,
  teeSink,
} from '@ranktrace/trace';
import type { StepRange } from '@ranktrace/trace/blame';
import { CliError } from '../terminal/errors.ts';
import { say } from '../terminal/output.ts';
import { showProgress } from '../terminal/progress.ts';
import { leftOutText } from './left-out.ts';
import type { RunReport } from './print-summary.ts';

/**
 * Merges `input` once (`isWritten`: while a service writes it): into the trace file at `path` (if any), into `sinks`, and into a report. With `steps`,
 * sinks and report get only these, and `input` is merged twice; how the run ended is told of all of it, as are `ofRun`, which get all steps. `drained`:
 * awaited now and then, until what the sinks wrote is out. Throws CliError `bad_input` where there is nothing readable, or none of these steps.
 */
export async function mergeAndReport(
  { input, isWritten = false }: { readonly input: MergeInput; readonly isWritten?: boolean },
  path: string | undefined,
  sinks: readonly TraceSink[] = [],
  signal?: AbortSignal,
  steps?: StepRange,
  drained?: () => Promise<void>,
  ofRun: readonly TraceSink[] = [],
): Promise<RunReport & { bytes: number }> {
  const summary = new CountedStepsSink();
  let header: TraceHeader | undefined;
  const keepHeader: TraceSink = {
    begin: (begun) => {
      header = begun;
    },
    lane: () => {},
    event: () => {},
    endStretch: () => {},
    end: () => {},
  };
  const progress = showProgress('merging');
  let unreadable = 0;
  const leftOut: Finding[] = [];
  const options: MergeOptions = {
    onProgress: ({ done, total }) => progress.update(done, total),
    onUnreadable: (error) => {
      // Each batch is read twice; only the first read reports.
      if (unreadable++ === 0) say(`skipped an unreadable batch: ${(error as Error).message}`);
    },
    onSkipped: (skipped) => {
      const text = leftOutText(skipped);
      if (text === undefined) return;
      say(text);
      leftOut.push({ kind: 'left_out', ranks: [], text, remedy: 'nothing, unless they matter: what is left is whole' });
    },
    ...(signal === undefined ? {} : { signal }),
  };
  try {
    const whole = new CountedStepsSink();
    const times = steps === undefined ? undefined : await timesOf(steps, input, [whole, ...ofRun], options);
    const reported = times === undefined ? [summary, ...sinks] : [new StepRangeSink(times.times, teeSink(summary, ...sinks))];
    const all = [keepHeader, ...reported];
    const written =
      path === undefined
        ? { totals: await mergeStored(input, all, options, drained), bytes: 0 }
        : await writeTrace(input, path, all, options);
    const begun = header as TraceHeader | undefined;
    if (begun === undefined || begun.processes.length === 0) throw new CliError('bad_input', 'There is no readable batch in the input');
    const totals = isWritten ? withRunning(written.totals, begun) : written.totals;
    const isLive = totals !== written.totals;
    const { bytes } = written;
    const reportedSteps = times === undefined ? summary.summary : { ...summary.summary, firstStart: times.firstStart };
    const findings = [...findCompleteness(begun, totals, times === undefined ? reportedSteps : whole.summary), ...leftOut];
    return { header: begun, totals, bytes, summary: reportedSteps, findings, isLive };
  } finally {
    progress.stop();
  }
}

/** A rank that was heard of so lately still runs, ns: it sends a batch each second. */
const heardNsMax = 30e9;

/** `totals` of a run that a service writes, with `goesOn` for the last lives of ranks that run, by this host's clock; the same if there are none. */
function withRunning(totals: readonly ProcessTotals[], { unixEpoch }: TraceHeader): readonly ProcessTotals[] {
  if (unixEpoch === undefined) return totals;
  const now = Number(BigInt(Date.now()) * 1_000_000n - unixEpoch);
  const last = new Map(totals.filter(({ process }) => !isBeside(process.incarnation)).map((total) => [total.process.rank, total] as const));
  const runs = (total: ProcessTotals): boolean =>
    !total.ended && last.get(total.process.rank) === total && now - (total.until ?? Number.NEGATIVE_INFINITY) < heardNsMax;
  return totals.some(runs) ? totals.map((total) => (runs(total) ? { ...total, goesOn: true } : total)) : totals;
}

/** The times of these steps, on each rank; `ofRun` get all steps. */
async function timesOf(
  { first, last }: StepRange,
  input: MergeInput,
  ofRun: readonly TraceSink[],
  options: MergeOptions,
): Promise<StepTimesSink> {
  const sink = new StepTimesSink(first, last);
  // The merge that follows reports unreadable batches.
  await mergeStored(input, [sink, ...ofRun], { ...options, onUnreadable: () => {}, onSkipped: () => {} });
  if (sink.times.size > 0) return sink;
  const there = sink.steps === undefined ? 'it has no steps' : `it has steps ${sink.steps.first} to ${sink.steps.last}`;
  throw new CliError('bad_input', `There is no step from ${first} to ${last} in this run: ${there}`);
}

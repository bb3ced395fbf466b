// Inputs of the offline commands: run directories, spools and segment files → stored sources, torch.profiler's and Zipkin's files → sources of
// their own, and one merge over them.

import { type MergeSource, mergeStored, openBatchLog, type StoredSource, writeTrace } from '@ranktrace/aggregator';
import { findCompleteness, StepSummarySink, type TraceHeader, type TraceSink } from '@ranktrace/trace';
import { CliError } from './errors.ts';
import { kinetoFilesOf, openKinetoFiles } from './kineto-inputs.ts';
import type { RunReport } from './print-summary.ts';
import { showProgress } from './progress.ts';
import { say } from './say.ts';
import { openZipkinFile } from './zipkin-inputs.ts';

export interface Inputs extends Disposable {
  readonly run: string;
  readonly sources: readonly StoredSource[];
}

/** Opens `paths`, read as one; of several runs in them, `run` names the one that is meant. */
export function openInputs(paths: readonly string[], run: string | undefined): Inputs {
  const log = openBatchLog(paths);
  try {
    for (const notice of log.notices) say(notice);
    if (run === undefined && log.runs.length > 1) {
      throw new CliError('bad_usage', `${quoted(paths)} holds ${log.runs.length} runs: name one with --run, of ${quoted(log.runs)}`);
    }
    const chosen = run ?? log.runs[0];
    if (chosen === undefined) throw new CliError('bad_input', `${quoted(paths)} holds no batches of any run`);
    return { run: chosen, sources: log.run(chosen).sources(), [Symbol.dispose]: () => log.close() };
  } catch (error) {
    log.close();
    throw error;
  }
}

/** The same, or torch.profiler's files or a Zipkin file where `paths` name such. */
export async function openMergeInputs(
  paths: readonly string[],
  run: string | undefined,
): Promise<Disposable & { readonly sources: readonly MergeSource[] }> {
  const zipkin = openZipkinFile(paths);
  if (zipkin !== undefined) return { sources: zipkin, [Symbol.dispose]: () => {} };
  const files = kinetoFilesOf(paths);
  if (files === undefined) return openInputs(paths, run);
  return { sources: await openKinetoFiles(files, run), [Symbol.dispose]: () => {} };
}

/** Merges `sources` once: into the trace file at `path` (if any), into `sinks`, and into a report. */
export async function mergeAndReport(
  sources: readonly MergeSource[],
  path: string | undefined,
  sinks: readonly TraceSink[] = [],
  signal?: AbortSignal,
): Promise<RunReport & { bytes: number }> {
  const summary = new StepSummarySink();
  let header: TraceHeader | undefined;
  const keepHeader: TraceSink = {
    begin: (begun) => {
      header = begun;
    },
    lane: () => {},
    event: () => {},
    end: () => {},
  };
  const progress = showProgress('merging');
  let unreadable = 0;
  const options = {
    onProgress: ({ done, total }: { done: number; total: number }) => progress.update(done, total),
    onUnreadable: (error: unknown) => {
      // Each batch is read twice; the first of the two tells.
      if (unreadable++ === 0) say(`skipped an unreadable batch: ${(error as Error).message}`);
    },
    ...(signal === undefined ? {} : { signal }),
  };
  const all = [keepHeader, summary, ...sinks];
  try {
    const written =
      path === undefined ? { totals: await mergeStored(sources, all, options), bytes: 0 } : await writeTrace(sources, path, all, options);
    const begun = header as TraceHeader | undefined;
    if (begun === undefined || begun.processes.length === 0) throw new CliError('bad_input', 'There is no readable batch in the input');
    return {
      header: begun,
      totals: written.totals,
      bytes: written.bytes,
      summary: summary.summary,
      findings: findCompleteness(begun, written.totals),
    };
  } finally {
    progress.stop();
  }
}

const quoted = (names: readonly string[]): string => names.map((name) => `"${name}"`).join(', ');

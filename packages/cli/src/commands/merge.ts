// `ranktrace merge INPUT… -o FILE`: makes one trace of the ranks' files on disk, or of each rank's torch.profiler files, or converts a trace to
// another format.

import { traceFormatOf } from '@ranktrace/aggregator';
import { printable } from '@ranktrace/protocol';
import { type InputOptions, openRun } from '../inputs/open-inputs.ts';
import { mergeAndReport } from '../print/merge-and-report.ts';
import { HeadlineSinks } from '../print/print-headline.ts';
import { formatReport, reportData } from '../print/print-summary.ts';
import { formatBytes } from '../terminal/format.ts';
import { abortOnInterrupt, Interrupted } from '../terminal/interrupt.ts';
import { print, printData } from '../terminal/output.ts';

export interface MergeCommandOptions extends InputOptions {
  readonly output: string;
  readonly json?: boolean;
}

export async function merge(inputs: readonly string[], options: MergeCommandOptions): Promise<number> {
  // Reported before any reading, which may take a while.
  traceFormatOf(options.output);
  using opened = await openRun(inputs, options);
  using interrupt = abortOnInterrupt();
  const headline = new HeadlineSinks();
  const report = await mergeAndReport(opened, options.output, headline.all, interrupt.signal).catch((error: unknown) => {
    if (interrupt.signal.aborted) throw new Interrupted(interrupt.exitCode, `Interrupted: "${options.output}" was not written`);
    throw error;
  });
  if (options.json === true) {
    printData({ ...(reportData(report) as object), trace: options.output });
    return 0;
  }
  const { blame } = headline;
  const text = formatReport(report, blame, headline.inShort(blame, report));
  print(`${text}\n\ntrace: ${printable(options.output)} (${formatBytes(report.bytes)})`);
  return 0;
}

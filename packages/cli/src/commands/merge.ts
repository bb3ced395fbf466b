// `ranktrace merge INPUT… -o FILE`: one trace out of what ranks left on disk, or of what torch.profiler wrote on each.

import { traceFormatOf } from '@ranktrace/aggregator';
import { StepBlameSink } from '@ranktrace/trace';
import { CliError } from '../errors.ts';
import { formatBytes } from '../format.ts';
import { abortOnInterrupt } from '../interrupt.ts';
import { mergeAndReport, openMergeInputs } from '../merge-inputs.ts';
import { formatReport, reportData } from '../print-summary.ts';

export async function merge(inputs: readonly string[], options: { output: string; run?: string; json?: boolean }): Promise<number> {
  // Said before anything is read, for that may take a while.
  traceFormatOf(options.output);
  using opened = await openMergeInputs(inputs, options.run);
  using interrupt = abortOnInterrupt();
  const steps = new StepBlameSink();
  const report = await mergeAndReport(opened.sources, options.output, [steps], interrupt.signal).catch((error: unknown) => {
    if (interrupt.signal.aborted) throw new CliError('failed', `Interrupted: "${options.output}" was not written`);
    throw error;
  });
  if (options.json === true) process.stdout.write(`${JSON.stringify({ ...(reportData(report) as object), trace: options.output })}\n`);
  else process.stdout.write(`${formatReport(report, steps.blame)}\n\ntrace: ${options.output} (${formatBytes(report.bytes)})\n`);
  return 0;
}

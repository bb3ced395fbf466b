// `ranktrace merge INPUT… -o FILE`: one trace out of what ranks left on disk.

import { CliError } from '../errors.ts';
import { formatBytes } from '../format.ts';
import { abortOnInterrupt } from '../interrupt.ts';
import { mergeAndReport, openInputs } from '../merge-inputs.ts';
import { formatReport, reportData } from '../print-summary.ts';

export async function merge(inputs: readonly string[], options: { output: string; run?: string; json?: boolean }): Promise<number> {
  using opened = openInputs(inputs, options.run);
  using interrupt = abortOnInterrupt();
  const report = await mergeAndReport(opened.sources, options.output, [], interrupt.signal).catch((error: unknown) => {
    if (interrupt.signal.aborted) throw new CliError('failed', `Interrupted: "${options.output}" was not written`);
    throw error;
  });
  if (options.json === true) process.stdout.write(`${JSON.stringify({ ...(reportData(report) as object), trace: options.output })}\n`);
  else process.stdout.write(`${formatReport(report)}\n\ntrace: ${options.output} (${formatBytes(report.bytes)})\n`);
  return 0;
}

// `ranktrace prune DIR`: retention by hand, or from a timer where no service runs.

import { describePruned, type PruneResult, pruneStore } from '@ranktrace/aggregator';
import { printable } from '@ranktrace/protocol';
import { type RetentionArguments, retentionOf } from '../options/retention-options.ts';
import { CliError } from '../terminal/errors.ts';
import { formatBytes } from '../terminal/format.ts';
import { abortOnInterrupt, Interrupted } from '../terminal/interrupt.ts';
import { print, printData, say } from '../terminal/output.ts';

export interface PruneCommandOptions extends RetentionArguments {
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

/** Exit code. 0: everything requested was done; 1: something was left alone, and reported. */
export async function prune(directory: string, options: PruneCommandOptions): Promise<number> {
  const retention = retentionOf(options);
  if (Object.values(retention).every((bound) => bound === undefined)) {
    throw new CliError('bad_usage', 'prune needs at least one of --keep-detail, --keep-steps, --keep-trace and --store-max');
  }
  const { dryRun = false, json = false } = options;
  using interrupt = abortOnInterrupt();
  const result = await pruneStore(directory, retention, { dryRun, signal: interrupt.signal }).catch((error: unknown) => {
    if (interrupt.signal.aborted)
      throw new Interrupted(interrupt.exitCode, 'Interrupted: what was pruned until then stays pruned, and the store is whole');
    throw error;
  });
  for (const line of result.skipped) say(line);
  if (json) printData({ dryRun, ...result });
  else print(asText(result, dryRun));
  return result.skipped.length === 0 ? 0 : 1;
}

function asText({ pruned, bytesBefore, bytesAfter }: PruneResult, dryRun: boolean): string {
  const sum = `${formatBytes(bytesBefore)} before, ${formatBytes(bytesAfter)} after`;
  const lines = pruned.length === 0 ? ['nothing to prune'] : describePruned(pruned);
  return [...lines, `${sum}${dryRun ? ' (dry run: nothing was changed)' : ''}`].map(printable).join('\n');
}

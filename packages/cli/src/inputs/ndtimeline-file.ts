// A timeline of NDTimeline as input: one file with all workers of a job.

import { type BatchSource, type ReadBudget, TraceError } from '@ranktrace/trace';
import { isNdtimeline, ndtimelineSources } from '@ranktrace/trace/ndtimeline';
import { CliError } from '../terminal/errors.ts';
import { say } from '../terminal/output.ts';
import type { Input } from './input-kinds.ts';
import { ofFile } from './read-memory.ts';
import { readTorchFiles, type TorchFile } from './torch-files.ts';

/**
 * The workers of the single file in `inputs`, as ranks of `run`. Throws TraceError, CliError `bad_input` for a file that only begins like a timeline.
 */
export async function openNdtimelineFile(inputs: readonly Input[], run: string, budget: ReadBudget): Promise<readonly BatchSource[]> {
  const [{ path, table }] = (await readTorchFiles(inputs, { keep: 'all', budget })) as readonly [TorchFile];
  if (!isNdtimeline(table)) {
    const wanted = 'its processes must be named "DP rank [N]" and its threads "PP rank N, TP rank N, …"';
    throw new CliError('bad_input', `Cannot read "${path}" as a timeline of NDTimeline: ${wanted}, and some are not`);
  }
  try {
    const sources = ndtimelineSources(table, run);
    say(
      `"${path}" is a timeline of NDTimeline: ranks are its ${sources.length} workers, by stage and DP rank, on the clock that it has put them on`,
    );
    return sources;
  } catch (error) {
    if (error instanceof TraceError) throw ofFile(path, error);
    throw error;
  }
}

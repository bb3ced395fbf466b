// A Zipkin file (version 2 JSON, also .gz) as input: calls between services, without any ranks.

import { type BatchSource, type ReadBudget, TraceError } from '@ranktrace/trace';
import { readZipkin } from '@ranktrace/trace/zipkin';
import { formatCount } from '../terminal/format.ts';
import { say } from '../terminal/output.ts';
import { ofFile } from './read-memory.ts';
import { wholeFile } from './whole-file.ts';

/** The sources of the Zipkin file at `path`. Throws TraceError, CliError `bad_input` for one that is too large. */
export function openZipkinFile(path: string, budget: ReadBudget): readonly BatchSource[] {
  try {
    const { sources, skipped } = readZipkin(wholeFile(path, 'a Zipkin file'), undefined, budget);
    if (skipped > 0) say(`"${path}": ${formatCount(skipped)} entries are no spans that can be placed`);
    return sources;
  } catch (error) {
    if (error instanceof TraceError) throw ofFile(path, error);
    throw error;
  }
}

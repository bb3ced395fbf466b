// A Zipkin file (version 2 JSON, also .gz) as input: calls between services, without any ranks.

import { readFileSync, statSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { type BatchSource, type ReadBudget, TraceError } from '@ranktrace/trace';
import { readZipkin } from '@ranktrace/trace/zipkin';
import { CliError } from '../terminal/errors.ts';
import { formatCount } from '../terminal/format.ts';
import { say } from '../terminal/output.ts';
import { isGzip } from './file-beginning.ts';
import { ofFile } from './read-memory.ts';

/** Largest file in bytes, zipped or not: it is held as a whole. The trace package has the same bound (`zipkinBytesMax`). */
const bytesMax = 128 * 1024 * 1024;

/** The sources of the Zipkin file at `path`. Throws TraceError, CliError `bad_input` for one that is too large. */
export function openZipkinFile(path: string, budget: ReadBudget): readonly BatchSource[] {
  try {
    const { sources, skipped } = readZipkin(contentOf(path), undefined, budget);
    if (skipped > 0) say(`"${path}": ${formatCount(skipped)} entries are no spans that can be placed`);
    return sources;
  } catch (error) {
    if (error instanceof TraceError) throw ofFile(path, error);
    throw error;
  }
}

/** The whole file, unzipped. Throws CliError `bad_input` for one that is too large, or whose gzip stream is broken. */
function contentOf(path: string): Uint8Array {
  const { size } = statSync(path);
  if (size > bytesMax) throw new CliError('bad_input', `Cannot read "${path}": a Zipkin file may have ${bytesMax} bytes, got ${size}`);
  const bytes = readFileSync(path);
  if (!isGzip(bytes)) return bytes;
  try {
    return gunzipSync(bytes, { maxOutputLength: bytesMax });
  } catch (cause) {
    const why = `its gzip stream is broken, ends too early or unfolds to over ${bytesMax} bytes`;
    throw new CliError('bad_input', `Cannot read "${path}": ${why}`, { cause });
  }
}

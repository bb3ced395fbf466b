// Reads torch.profiler's files in pieces. A bad file that was named is an error; a bad file in a directory is skipped, and named on stderr with the
// reason and its position.

import { statSync } from 'node:fs';
import { readKinetoFile } from '@ranktrace/agent';
import { leftOutText, type ReadBudget, TraceError } from '@ranktrace/trace';
import type { KinetoReaderOptions, KinetoTable } from '@ranktrace/trace/torch';
import { CliError } from '../terminal/errors.ts';
import { say } from '../terminal/output.ts';
import { type Progress, showProgress } from '../terminal/progress.ts';
import { startsAsGzip } from './file-beginning.ts';
import type { Input } from './input-kinds.ts';
import { ofFile } from './read-memory.ts';

export interface TorchFile {
  readonly path: string;
  readonly table: KinetoTable;
}

/** Errors of the system about one file, such as that of another user, or one that went meanwhile; a lack of descriptors is about all of them. */
const fileCodes: ReadonlySet<string> = new Set(['EACCES', 'EPERM', 'ENOENT', 'EIO', 'ESTALE']);

/** Reads the files of `inputs` one after the other; at least one is a trace. Throws TraceError, CliError `bad_input`. */
export async function readTorchFiles(
  inputs: readonly Input[],
  options: KinetoReaderOptions & { readonly budget: ReadBudget },
): Promise<readonly TorchFile[]> {
  const total = inputs.flatMap(({ files }) => files).reduce((sum, path) => sum + sizeOf(path), 0);
  const progress = showProgress('reading');
  const read: TorchFile[] = [];
  const { budget } = options;
  let before = 0;
  try {
    for (const { files, isDirectory } of inputs) {
      for (const path of files) {
        const { held } = budget;
        try {
          const table = await readTable(path, options, { ...progress, update: (done) => progress.update(before + done, total) });
          if (isDirectory && isEmpty(table)) say(`left out "${path}": it is no trace, for ${whyEmpty(table)}`);
          else read.push({ path, table });
        } catch (error) {
          if (!isDirectory || !(error instanceof TraceError || error instanceof CliError)) throw error;
          budget.give(budget.held - held);
          // The message names the file itself.
          say(`left out ${error.message.replace(/^Cannot read (?=")/, '').replace('Cannot read the trace: ', '')}`);
        }
        before += sizeOf(path);
      }
    }
  } finally {
    progress.stop();
  }
  if (read.length > 0) return read;
  throw new CliError('bad_input', `Cannot open ${inputs.map(({ path }) => `"${path}"`).join(', ')}: there is no trace in it`);
}

/** 0 for a file that went meanwhile: its reader reports that. */
const sizeOf = (path: string): number => statSync(path, { throwIfNoEntry: false })?.size ?? 0;

const isEmpty = ({ events, instants, counters, memory, spilled }: KinetoTable): boolean =>
  spilled === undefined && [events, instants, counters, memory].every(({ length }) => length === 0);

function whyEmpty({ skipped }: KinetoTable): string {
  const leftOut = leftOutText({ ...skipped, rest: 0 });
  if (leftOut !== '') return `it has only ${leftOut}`;
  return skipped.markers > 0 ? "it has only the profiler's own marks, whose pid is text" : 'it has no events';
}

/** Reads one file; every error begins with its name. */
async function readTable(path: string, options: KinetoReaderOptions, progress: Progress): Promise<KinetoTable> {
  try {
    const table = await readKinetoFile(path, { ...options, isGzip: startsAsGzip(path), onProgress: (bytes) => progress.update(bytes, 0) });
    if (table.stopped !== undefined) say(`"${path}": read only its beginning: ${table.stopped}`);
    return table;
  } catch (error) {
    if (error instanceof TraceError) throw ofFile(path, error);
    const { code = '', message } = error as NodeJS.ErrnoException;
    throw fileCodes.has(code) ? new CliError('bad_input', `Cannot read "${path}": ${message}`, { cause: error }) : error;
  }
}

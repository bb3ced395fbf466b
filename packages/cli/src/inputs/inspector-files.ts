// Logs of NCCL's Inspector as input: one file a process (`HOST-pid4711.log`, also .gz). In a directory, a file that cannot be read is left out and named.

import { createReadStream, statSync } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { type BatchSource, type ReadBudget, TraceError } from '@ranktrace/trace';
import { InspectorReader, inspectorJob, strangersAmong } from '@ranktrace/trace/nccl';
import { CliError } from '../terminal/errors.ts';
import { formatCount } from '../terminal/format.ts';
import { say } from '../terminal/output.ts';
import { showProgress } from '../terminal/progress.ts';
import { startsAsGzip } from './file-beginning.ts';
import type { Input } from './input-kinds.ts';
import { ofFile } from './read-memory.ts';

/** The ranks of the logs in `inputs`. Throws TraceError, CliError `bad_input` for a named file that is none or cannot be read. */
export async function openInspectorFiles(inputs: readonly Input[], run: string, budget: ReadBudget): Promise<readonly BatchSource[]> {
  const reader = new InspectorReader(budget);
  const total = inputs.flatMap(({ files }) => files).reduce((sum, path) => sum + statSync(path).size, 0);
  const progress = showProgress('reading');
  let before = 0;
  try {
    for (const { files, isDirectory } of inputs) {
      for (const path of files) {
        try {
          await readFileInto(reader, path);
        } catch (error) {
          if (!isDirectory || !isAboutFile(error)) throw error;
          say(`left out ${error.message.replace(/^Cannot read (?=")/, '').replace('Cannot read the log: ', '')}`);
        }
        before += statSync(path).size;
        progress.update(before, total);
      }
    }
  } finally {
    progress.stop();
  }
  const strangers = strangersAmong(reader.processes);
  if (strangers !== undefined) {
    const [one, other] = strangers.map(({ host, pid }) => `pid ${pid} on "${host}"`);
    const why = `no communicator connects ${one} and ${other}, and one had ended before the other began`;
    throw new CliError('bad_input', `Cannot read these logs as one job: ${why}: give the logs of one`);
  }
  const { sources, isNumbered, untimed, lost } = inspectorJob(reader.processes, run);
  const notes = [
    [isNumbered, 'no communicator of these logs numbers all processes: ranks are numbered by host and pid'],
    [untimed > 0, `${formatCount(untimed)} operations have no times, and are left out: NCCL_INSPECTOR_DUMP_VERBOSE=1 records them`],
    [lost > 0, `NCCL Inspector lost ${formatCount(lost)} operations: other ranks have them, or it counts them`],
  ] as const;
  for (const [isSo, text] of notes) if (isSo) say(text);
  return sources;
}

const isAboutFile = (error: unknown): error is Error =>
  (error instanceof TraceError && error.code !== 'memory') || error instanceof CliError;

async function readFileInto(reader: InspectorReader, path: string): Promise<void> {
  const push = async (chunks: AsyncIterable<Uint8Array>): Promise<void> => {
    for await (const chunk of chunks) reader.push(chunk);
  };
  let broken: unknown;
  try {
    const file = createReadStream(path);
    await (startsAsGzip(path) ? pipeline(file, createGunzip(), push) : pipeline(file, push));
  } catch (error) {
    if (error instanceof TraceError) throw ofFile(path, error);
    broken = error;
  }
  try {
    const { malformed, cut } = reader.endFile();
    if (malformed > 0) say(`"${path}": left out ${formatCount(malformed)} lines that are no records`);
    if (cut > 0) say(`"${path}": its dumps lack ${formatCount(cut)} records that they announce: it ends too early, or was changed`);
  } catch (error) {
    if (broken !== undefined) throw new CliError('bad_input', `Cannot read "${path}": ${(broken as Error).message}`, { cause: broken });
    throw error instanceof TraceError ? ofFile(path, error) : error;
  }
  // What came before the break is read.
  if (broken !== undefined) say(`"${path}": read only its beginning: ${(broken as Error).message}`);
}

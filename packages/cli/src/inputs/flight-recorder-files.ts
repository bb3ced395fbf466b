// Dumps of PyTorch's Flight Recorder as input: one file a rank, whose name says the rank (`nccl_trace_rank_3`). In a directory, a file that cannot be
// read is left out and named.

import { statSync } from 'node:fs';
import { basename } from 'node:path';
import { type BatchSource, TraceError } from '@ranktrace/trace';
import { flightRecorderSources, type RankDump, rankInName, readFlightRecorder } from '@ranktrace/trace/torch';
import { CliError } from '../terminal/errors.ts';
import { say } from '../terminal/output.ts';
import { type Input, kindNames } from './input-kinds.ts';
import { ofFile } from './read-memory.ts';
import { wholeFile } from './whole-file.ts';

/** The ranks of the dumps in `inputs`. Throws TraceError, CliError `bad_input` for a named file that is none, and for two of one rank. */
export function openFlightRecorderFiles(inputs: readonly Input[], run: string): readonly BatchSource[] {
  const dumps: RankDump[] = [];
  for (const { files, isDirectory } of inputs) {
    for (const path of files) {
      try {
        dumps.push(dumpAt(path));
      } catch (error) {
        if (!isDirectory || !(error instanceof TraceError || error instanceof CliError)) throw error;
        say(`left out ${error.message.replace(/^Cannot read (?=")/, '')}`);
      }
    }
  }
  if (dumps.length === 0) {
    throw new CliError('bad_input', `Cannot open ${inputs.map(({ path }) => `"${path}"`).join(', ')}: there is no dump in it`);
  }
  const byRank = new Map<number, string>();
  for (const { rank, name } of dumps) {
    const other = byRank.get(rank);
    if (other !== undefined)
      throw new CliError('bad_input', `Cannot read these dumps as one job: "${other}" and "${name}" are both of rank ${rank}`);
    byRank.set(rank, name);
  }
  return flightRecorderSources(dumps, run);
}

function dumpAt(path: string): RankDump {
  const name = basename(path);
  const rank = rankInName(name, true);
  if (rank === undefined) {
    throw new CliError(
      'bad_input',
      `Cannot read "${path}": its name must end with the rank (nccl_trace_rank_3), for a dump does not say it`,
    );
  }
  try {
    const dump = readFlightRecorder(wholeFile(path, kindNames.flightRecorder));
    return { rank, name, dump, writtenAt: statSync(path, { bigint: true }).mtimeNs };
  } catch (error) {
    throw error instanceof TraceError ? ofFile(path, error) : error;
  }
}

// Reads files that another process wrote, or is writing now: run directories, spool directories, single segments. Never writes or cuts anything.
//
//   <out>                       <out>/<run>/segments/*.seg
//   <out>/<run>                            segments/*.seg
//   <spool>                     <spool>/<run>/rank-<r>-<incarnation>/*.seg     and any of its folders
//   FILE.seg
//
// Every batch carries its run, rank and incarnation, so file names only serve to find files. Invariant: a log is a snapshot of its opening; a frame
// being written then is not part of it, and no error.

import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { AggregatorError, messageOf, systemCode } from '../model/errors.ts';
import { aggregatorLimits as limits } from '../model/limits.ts';
import { BatchIndex, indexSegment, type RunBatches } from './batch-index.ts';
import { quarantineName, readRunFile, segmentFilesOf } from './run-directory.ts';
import { SegmentFiles } from './segment-files.ts';

/** Batches of one or more runs, readable in order. Close it after use. */
export interface BatchLog extends Disposable {
  /** Names of the runs found, sorted. */
  readonly runs: readonly string[];
  /** One line per unreadable file or part, with the readable rest. */
  readonly notices: readonly string[];
  /** The batches of a run; throws AggregatorError `store_missing` for an unknown run. */
  run(name: string): RunBatches;
  close(): void;
}

/**
 * Opens run directories, spool directories or segment files for reading; several are read as one.
 * Throws AggregatorError `store_missing`, `store_not_a_run`, `store_unreadable`, `store_format` or `store_truncated`.
 *
 * @example
 * using log = openBatchLog('ranktrace-out/demo');
 * for (const source of log.run('demo').sources()) decodeBatch(source.read(0), inflate);
 */
export function openBatchLog(path: string | readonly string[]): BatchLog {
  const inputs = typeof path === 'string' ? [path] : path;
  for (let attempt = 1; ; attempt++) {
    try {
      return openOnce(inputs);
    } catch (error) {
      // A segment that was found and is gone has just been pruned: its summary exists now.
      const isGone = error instanceof AggregatorError && error.code === 'store_missing' && inputs.every((input) => existsSync(input));
      if (!isGone || attempt === limits.openAttemptsMax) throw error;
    }
  }
}

function openOnce(inputs: readonly string[]): BatchLog {
  const files = new SegmentFiles();
  const runs = new Map<string, BatchIndex>();
  const notices: string[] = [];
  const indexOf = (run: string): BatchIndex => {
    let index = runs.get(run);
    if (index === undefined) {
      index = new BatchIndex(run, files);
      runs.set(run, index);
    }
    return index;
  };
  for (const input of inputs) {
    const found = findSegments(input);
    for (const run of found.runs) indexOf(run);
    let frames = 0;
    for (const segment of found.segments) {
      const scan = indexSegment(segment, files.add(segment), indexOf);
      frames += scan.frames - scan.unreadable;
      if (scan.unreadable > 0) notices.push(`"${segment}": ${scan.unreadable} batches are of another protocol version or broken`);
      if (scan.damaged > 0) notices.push(`"${segment}": ${scan.damaged} batches have a wrong checksum`);
      const tail = scan.size - scan.readable;
      if (!scan.segment) notices.push(`"${segment}" is not a segment file`);
      else if (tail > 0) notices.push(`"${segment}" ends inside a batch: ${scan.frames} batches could be read, the last ${tail} bytes not`);
    }
    if (frames === 0 && notices.length > 0) {
      const truncated = notices.some((notice) => notice.includes('ends inside a batch'));
      throw new AggregatorError(
        truncated ? 'store_truncated' : 'store_not_a_run',
        `Cannot read any batch of "${input}": ${notices.join('; ')}`,
      );
    }
  }
  return {
    runs: [...runs.keys()].sort(),
    notices,
    run: (name) => {
      const index = runs.get(name);
      if (index !== undefined) return index;
      const there = runs.size === 0 ? 'no run is' : [...runs.keys()].sort().join(', ');
      throw new AggregatorError(
        'store_missing',
        `Cannot open run "${name}": in ${inputs.map((input) => `"${input}"`).join(', ')} there is ${there}`,
      );
    },
    close: () => files.close(),
    [Symbol.dispose]: () => files.close(),
  };
}

function findSegments(input: string): { segments: string[]; runs: string[] } {
  let isFile: boolean;
  try {
    isFile = statSync(input).isFile();
  } catch (cause) {
    if (systemCode(cause) === 'ENOENT') {
      throw new AggregatorError('store_missing', `Cannot open "${input}": there is no such file or directory`, { cause });
    }
    throw unreadable(input, cause);
  }
  if (isFile) return { segments: [input], runs: [] };
  const found = { segments: [] as string[], runs: [] as string[] };
  search(input, 0, found);
  if (found.segments.length > 0 || found.runs.length > 0) return found;
  const wanted = 'it must be a run directory (with run.json), a spool directory, or a .seg file';
  throw new AggregatorError('store_not_a_run', `Cannot open "${input}": ${wanted}, and holds no segment`);
}

function search(directory: string, depth: number, found: { segments: string[]; runs: string[] }): void {
  let entries: ReturnType<typeof list>;
  try {
    entries = list(directory);
  } catch (cause) {
    throw unreadable(directory, cause);
  }
  const run = readRunFile(directory);
  if (run !== undefined) found.runs.push(run);
  // A segment beside its summary is the leftover of a killed pruning.
  const numbered = new Map(
    segmentFilesOf(
      directory,
      entries.map(({ name }) => name),
    ).map(({ segment, path }) => [segment, path]),
  );
  for (const entry of entries) {
    const path = join(directory, entry.name);
    const segment = /^(\d{6,})\./.exec(entry.name);
    if (segment !== null && (numbered.get(Number(segment[1])) ?? path) !== path) continue;
    if (entry.isDirectory()) {
      if (depth < limits.searchDepthMax) search(path, depth + 1, found);
    } else if (entry.name.endsWith('.seg') && entry.name !== quarantineName) {
      if (found.segments.length >= limits.segmentsPerLogMax) {
        throw new AggregatorError('bad_option', `Cannot open "${directory}": more than ${limits.segmentsPerLogMax} segments`);
      }
      found.segments.push(path);
    }
  }
}

const list = (directory: string) =>
  readdirSync(directory, { withFileTypes: true }).sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));

function unreadable(path: string, cause: unknown): AggregatorError {
  return new AggregatorError('store_unreadable', `Cannot read "${path}": ${messageOf(cause)}`, { cause });
}

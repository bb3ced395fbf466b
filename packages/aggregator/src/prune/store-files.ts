// The files of the runs of an output directory, with the facts that retention needs of each.

import { readdirSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { AggregatorError, messageOf, systemCode } from '../model/errors.ts';
import { aggregatorLimits as limits } from '../model/limits.ts';
import { alertStateName, isRunName, listSegments, readRunFile, type SegmentFile } from '../store/run-directory.ts';

export interface StoredRun {
  /** Name of the run in its batches. */
  readonly name: string;
  readonly directory: string;
}

interface FileAbout {
  readonly run: StoredRun;
  readonly name: string;
  readonly path: string;
  readonly bytes: number;
  /** Unix time, ms. */
  readonly modifiedMs: number;
}

/**
 * `trace`: of the whole run, `capture`: of some of its steps, both derived from its segments; `state`: what its steps are compared with. `other` is
 * counted and never removed: alerts, spools, the segment in use.
 */
export type StoredFile =
  | (FileAbout & { readonly kind: 'segment'; readonly segment: SegmentFile })
  | (FileAbout & { readonly kind: 'trace' | 'capture' | 'state' | 'other' });

const tracePattern = /\.(?:pftrace|perfetto-trace|json|txt)(?:\.gz)?$/;

/** The runs in `out`, or `out` itself where it is one. Throws AggregatorError `store_missing`, `store_unreadable`, `store_not_a_run`. */
export function findRuns(out: string): StoredRun[] {
  const own = readRunFile(out);
  if (own !== undefined) return [{ name: own, directory: out }];
  let entries: ReturnType<typeof directoriesIn>;
  try {
    entries = directoriesIn(out);
  } catch (cause) {
    const code = systemCode(cause) === 'ENOENT' ? 'store_missing' : 'store_unreadable';
    throw new AggregatorError(code, `Cannot prune "${out}": ${messageOf(cause)}`, { cause });
  }
  const runs = entries.filter(isRunName).flatMap((name): StoredRun[] => {
    const directory = join(out, name);
    const run = runIn(directory, name);
    return run === undefined ? [] : [{ name: run, directory }];
  });
  if (runs.length > 0 || entries.length === 0) return runs;
  throw new AggregatorError('store_not_a_run', `Cannot prune "${out}": it must be a run directory (with run.json) or hold such`);
}

const directoriesIn = (path: string): string[] =>
  readdirSync(path, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name)
    .sort();

/** The run in a directory, which may be a copy under another name. A run of another format counts, too: its error is reported later. */
function runIn(directory: string, name: string): string | undefined {
  try {
    return readRunFile(directory);
  } catch {
    return name;
  }
}

/** All files of a run; `closed`: segments that are complete, by default all. Throws AggregatorError `store_…`. */
export function surveyRunFiles(run: StoredRun, closed: readonly SegmentFile[] | undefined): StoredFile[] {
  readRunFile(run.directory);
  const segments = new Map((closed ?? listSegments(run.directory)).map((segment) => [segment.path, segment]));
  const files: StoredFile[] = [];
  const visit = (directory: string, depth: number): void => {
    for (const entry of readdirSync(directory, { withFileTypes: true })) {
      const path = join(directory, entry.name);
      if (entry.isDirectory()) {
        if (depth < limits.searchDepthMax) visit(path, depth + 1);
        continue;
      }
      const stat = statSync(path, { throwIfNoEntry: false });
      if (stat === undefined) continue;
      const about = { run, name: entry.name, path, bytes: stat.size, modifiedMs: stat.mtimeMs };
      const segment = segments.get(path);
      files.push(segment === undefined ? { ...about, kind: kindOf(run, path) } : { ...about, kind: 'segment', segment });
    }
  };
  visit(run.directory, 0);
  return files;
}

function kindOf(run: StoredRun, path: string): 'trace' | 'capture' | 'state' | 'other' {
  if (path === join(run.directory, alertStateName)) return 'state';
  const folder = dirname(path);
  if (folder === join(run.directory, 'captures') && tracePattern.test(path)) return 'capture';
  return folder === join(run.directory) && /^trace\./.test(basename(path)) && tracePattern.test(path) ? 'trace' : 'other';
}

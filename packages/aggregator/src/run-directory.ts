// How a run lies on disk, and the small file that says so.
//
//   <out>/<run>/run.json           { "format": 1, "run": "<run>" }
//   <out>/<run>/segments/000001.seg …
//   <out>/<run>/quarantine.seg     bad batches that named this run
//   <out>/<run>/lock               who writes it now

import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { checkRunName } from '@ranktrace/protocol';
import { AggregatorError, messageOf } from './errors.ts';
import { guard, syncDirectory } from './segment-writer.ts';

export const storeFormat = 1;
export const quarantineName = 'quarantine.seg';

export const segmentsDirectory = (directory: string): string => join(directory, 'segments');

/** Makes the directories and `run.json` of a run where they are missing; throws AggregatorError `store_write_failed`, `store_format`, … */
export function createRunDirectory(directory: string, run: string): void {
  guard(directory, () => mkdirSync(segmentsDirectory(directory), { recursive: true }));
  if (readRunFile(directory) !== undefined) return;
  const path = join(directory, 'run.json');
  guard(path, () => {
    // Renamed into place: a kill leaves no half-written run.json.
    const draft = `${path}.${process.pid}-${randomBytes(4).toString('hex')}`;
    try {
      writeFileSync(draft, `${JSON.stringify({ format: storeFormat, run })}\n`, { flush: true });
      renameSync(draft, path);
    } finally {
      rmSync(draft, { force: true });
    }
    syncDirectory(directory);
  });
}

/** Name of the run in a directory, undefined when it is not one. Throws AggregatorError `store_format` or `store_unreadable`. */
export function readRunFile(directory: string): string | undefined {
  const path = join(directory, 'run.json');
  if (!existsSync(path)) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(readFileSync(path, 'utf8'));
  } catch (cause) {
    throw new AggregatorError('store_unreadable', `Cannot read "${path}": ${messageOf(cause)}`, { cause });
  }
  const { format, run } = (value ?? {}) as { format?: unknown; run?: unknown };
  if (format !== storeFormat) {
    const wanted = `its format must be ${storeFormat}, got ${JSON.stringify(format)}`;
    throw new AggregatorError('store_format', `Cannot read run "${directory}": ${wanted}; use the ranktrace version that wrote it`);
  }
  if (typeof run === 'string' && isRunName(run)) return run;
  throw new AggregatorError('store_unreadable', `Cannot read "${path}": it must name a run, got ${JSON.stringify(run)}`);
}

/** Segment numbers of a run, ascending. */
export function listSegments(directory: string): number[] {
  return readdirSync(segmentsDirectory(directory))
    .filter((name) => /^\d{6,}\.seg$/.test(name))
    .map((name) => Number.parseInt(name, 10))
    .sort((a, b) => a - b);
}

/** Whether a name can be a run's: everything else in an output directory is not ours. */
export function isRunName(name: string): boolean {
  try {
    checkRunName(name);
    return true;
  } catch {
    return false;
  }
}

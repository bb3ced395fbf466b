// Layout of a run on disk, and the small file that states its format.
//
//   <out>/<run>/run.json           { "format": 1, "run": "<run>" }; 2 once something was pruned
//   <out>/<run>/segments/000001.seg …                    as ranks sent it
//                        000001.summary.seg              its detail was pruned
//                        000001.empty.seg                its steps, too
//   <out>/<run>/pruned.json        record of prunings, for people
//   <out>/<run>/alert-state.json   the state behind its alerts
//   <out>/<run>/quarantine.seg     bad batches that named this run
//   <out>/<run>/lock               its current writer

import { randomBytes } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { checkRunName, type Pruned } from '@ranktrace/protocol';
import { AggregatorError, messageOf } from '../model/errors.ts';
import { guard, makeDirectory, segmentName, syncDirectory } from './segment-writer.ts';

/** 2: there may be summaries among the segments, and a version that does not know them would report their batches as lost. */
export type StoreFormat = 1 | 2;
export const quarantineName = 'quarantine.seg';
export const alertStateName = 'alert-state.json';

export const segmentsDirectory = (directory: string): string => join(directory, 'segments');

/** Makes the directories and `run.json` of a run where they are missing; throws AggregatorError `store_write_failed`, `store_format`, … */
export function createRunDirectory(directory: string, run: string): void {
  guard(directory, () => makeDirectory(segmentsDirectory(directory)));
  if (readRunFile(directory) !== undefined) return;
  writeRunFile(directory, run, 1);
}

/** Sets the format in `run.json` to allow pruned segments. Throws as `createRunDirectory`. */
export function allowSummaries(directory: string): void {
  const file = parseRunFile(directory);
  if (file !== undefined && file.format < 2) writeRunFile(directory, file.run, 2);
}

function writeRunFile(directory: string, run: string, format: StoreFormat): void {
  const path = join(directory, 'run.json');
  guard(path, () => {
    // Renamed into place: a kill leaves no half-written run.json.
    const draft = `${path}.${process.pid}-${randomBytes(4).toString('hex')}`;
    try {
      writeFileSync(draft, `${JSON.stringify({ format, run })}\n`, { flush: true });
      renameSync(draft, path);
    } finally {
      rmSync(draft, { force: true });
    }
    syncDirectory(directory);
  });
}

/** Name of the run in a directory, undefined when it is not one. Throws AggregatorError `store_format` or `store_unreadable`. */
export function readRunFile(directory: string): string | undefined {
  return parseRunFile(directory)?.run;
}

function parseRunFile(directory: string): { readonly run: string; readonly format: StoreFormat } | undefined {
  const path = join(directory, 'run.json');
  if (!existsSync(path)) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(readFileSync(path, 'utf8'));
  } catch (cause) {
    throw new AggregatorError('store_unreadable', `Cannot read "${path}": ${messageOf(cause)}`, { cause });
  }
  const { format, run } = (value ?? {}) as { format?: unknown; run?: unknown };
  if (format !== 1 && format !== 2) {
    const wanted = `its format must be 1 or 2, got ${JSON.stringify(format)}`;
    throw new AggregatorError('store_format', `Cannot read run "${directory}": ${wanted}; use the ranktrace version that wrote it`);
  }
  if (typeof run === 'string' && isRunName(run)) return { run, format };
  throw new AggregatorError('store_unreadable', `Cannot read "${path}": it must name a run, got ${JSON.stringify(run)}`);
}

/** A segment file on disk. */
export interface SegmentFile {
  /** Its number, from 1. */
  readonly segment: number;
  readonly path: string;
  /** Its pruned parts; undefined: none. */
  readonly pruned: Pruned['what'] | undefined;
}

/** The segments of a run, ascending by number. */
export function listSegments(directory: string): SegmentFile[] {
  const folder = segmentsDirectory(directory);
  return segmentFilesOf(folder, readdirSync(folder));
}

/** Segment files among the `names` in `folder`, ascending by number. If a killed pruning left a segment beside its summary, takes the summary. */
export function segmentFilesOf(folder: string, names: readonly string[]): SegmentFile[] {
  const newest = new Map<number, SegmentFile>();
  for (const name of names) {
    const match = segmentPattern.exec(name);
    if (match === null) continue;
    const [segment, level] = [Number(match[1]), match[2] ?? ''];
    const known = newest.get(segment);
    const pruned = level === 'summary' ? 'detail' : level === 'empty' ? 'steps' : undefined;
    if (known === undefined || rankOf(pruned) > rankOf(known.pruned)) newest.set(segment, { segment, path: join(folder, name), pruned });
  }
  return [...newest.values()].sort((a, b) => a.segment - b.segment);
}

/** File name of a segment after `pruned` was pruned. */
export function segmentFileName(segment: number, pruned: SegmentFile['pruned']): string {
  const level = pruned === undefined ? '' : pruned === 'detail' ? '.summary' : '.empty';
  return segmentName(segment).replace(/\.seg$/, `${level}.seg`);
}

const segmentPattern = /^(\d{6,})(?:\.(summary|empty))?\.seg$/;
const rankOf = (pruned: SegmentFile['pruned']): number => (pruned === undefined ? 0 : pruned === 'detail' ? 1 : 2);

/** Whether a name can be a run's: everything else in an output directory is not ours. */
export function isRunName(name: string): boolean {
  try {
    checkRunName(name);
    return true;
  } catch {
    return false;
  }
}

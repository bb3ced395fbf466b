// Files of torch.profiler that appear in folders, each once it is complete.
//
//   every second: files of the folders ──► new or changed? ──► size and time the same for a while? ──► ends like a trace? ──► read ──► take
//
// A file that its writer has not finished looks like any other until it is read: one that ends early is tried again when it changes, and named when it has not
// changed for a minute.
// Invariant: a look takes at most a two-hundredth of the time, however many files there are: the next one waits longer then.

import { closeSync, constants, fstatSync, openSync, readdirSync, type Stats, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { reasonOf } from '@ranktrace/sdk/shipping';
import { ReadBudget, TraceError } from '@ranktrace/trace';
import type { KinetoTable } from '@ranktrace/trace/torch';
import { agentLimits as limits } from '../model/limits.ts';
import { fileKey } from './file-journal.ts';
import { isGzipFile, mayBeComplete, readKinetoFile } from './read-kineto.ts';

export interface CompleteFile {
  readonly path: string;
  readonly key: string;
  /** Its owner. */
  readonly uid: number;
  readonly table: KinetoTable;
}

export interface FolderWatchParts {
  readonly folders: readonly string[];
  /** Whether a file in this state was taken before. */
  readonly isTaken: (key: string) => boolean;
  /** Whether a file may be of interest, by its name; default: each. */
  readonly isWanted?: ((name: string) => boolean) | undefined;
  readonly take: (file: CompleteFile) => Promise<void>;
  readonly notice: (line: string) => void;
  readonly signal: AbortSignal;
}

interface Awaited {
  key: string;
  /** When its state was first seen, monotonic ms. */
  since: number;
  /** The state that was read, and not complete. */
  tried: string | undefined;
  isNamed: boolean;
}

const tracesName = /\.json(?:\.gz)?$/;
/** A look waits this many times as long as it took. */
const restTimes = 200;

/** Watches until the signal is aborted. Never throws for a file: it names it. */
export async function watchFolders(parts: FolderWatchParts): Promise<void> {
  const awaited = new Map<string, Awaited>();
  const { signal, isWanted = () => true } = parts;
  let said = false;
  while (!signal.aborted) {
    const begin = performance.now();
    // A folder may lie in another one.
    const paths = new Set(parts.folders.flatMap((folder) => [...filesOf(folder, limits.watchedDepthMax)]));
    const found = [...paths].filter((path) => isWanted(basename(path)));
    if (found.length > limits.watchedFilesMax && !said) {
      said = true;
      parts.notice(`${found.length} files are too many to watch: only ${limits.watchedFilesMax} of them are`);
    }
    const present = new Set<string>();
    const ready: string[] = [];
    for (const path of found.slice(0, limits.watchedFilesMax)) {
      present.add(path);
      if (isReady(parts, awaited, path)) ready.push(path);
    }
    for (const path of awaited.keys()) if (!present.has(path)) awaited.delete(path);
    const looked = performance.now() - begin;
    for (const path of ready) if (!signal.aborted) await readOne(parts, awaited, path);
    await wait(Math.max(limits.watchIntervalMs, restTimes * looked), undefined, { signal }).catch(() => {});
  }
}

function* filesOf(folder: string, depth: number): Generator<string> {
  let entries: ReturnType<typeof readEntries>;
  try {
    entries = readEntries(folder);
  } catch {
    // Not there yet, or not readable: it may come.
    return;
  }
  for (const entry of entries) {
    const path = join(folder, entry.name);
    if (entry.isDirectory() && depth > 0) yield* filesOf(path, depth - 1);
    else if (entry.isFile() && tracesName.test(entry.name)) yield path;
  }
}

const readEntries = (folder: string) => readdirSync(folder, { withFileTypes: true });

/** Whether the file is new, and has been the same for a while. */
function isReady({ isTaken, notice }: FolderWatchParts, awaited: Map<string, Awaited>, path: string): boolean {
  let about: Stats;
  try {
    about = statSync(path);
  } catch {
    return false;
  }
  const key = fileKey(about);
  if (isTaken(key)) {
    awaited.delete(path);
    return false;
  }
  const now = performance.now();
  const known = awaited.get(path);
  if (known?.key !== key) {
    awaited.set(path, { key, since: now, tried: undefined, isNamed: known?.isNamed ?? false });
    return false;
  }
  if (known.tried === key && now - known.since > limits.unfinishedFileMs && !known.isNamed) {
    known.isNamed = true;
    notice(`"${path}" is left out: it ends early, and has not changed for ${limits.unfinishedFileMs / 1000} s`);
  }
  return known.tried !== key && now - known.since >= limits.fileQuietMs && about.size > 0;
}

async function readOne({ isTaken, take, notice }: FolderWatchParts, awaited: Map<string, Awaited>, path: string): Promise<void> {
  const known = awaited.get(path) as Awaited;
  // The same file may have been taken by another of its paths since the look.
  if (isTaken(known.key)) return;
  known.tried = known.key;
  try {
    const descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW);
    const about = fstatSync(descriptor);
    const why = !about.isFile()
      ? 'it is no file'
      : about.size > limits.fileBytesMax
        ? `it may have ${limits.fileBytesMax} bytes, got ${about.size}`
        : '';
    if (why !== '' || fileKey(about) !== known.key || !mayBeComplete(descriptor, about.size)) {
      closeSync(descriptor);
      if (why !== '') notice(`"${path}" is left out: ${why}`);
      known.isNamed ||= why !== '';
      return;
    }
    const budget = new ReadBudget(limits.readMemoryBytesMax);
    const table = await readKinetoFile(descriptor, { keep: 'all', isGzip: isGzipFile(descriptor), budget });
    if (table.stopped !== undefined) return;
    const { events, memory, instants, counters, spilled } = table;
    if (spilled === undefined && [events, memory, instants, counters].every(({ length }) => length === 0))
      throw new TraceError('no_events', 'it is no trace, or has no events');
    await take({ path, key: known.key, uid: about.uid, table });
    awaited.delete(path);
  } catch (error) {
    // Half of a trace is no JSON; whether it is one at all shows when it stays so. Other faults stay: no events, too much to read.
    if (error instanceof TraceError && (error.code === 'truncated' || error.code === 'not_json')) return;
    if (!known.isNamed) notice(`"${path}" is left out: ${reasonOf(error)}`);
    known.isNamed = true;
  }
}

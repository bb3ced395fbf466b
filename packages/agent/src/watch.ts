// Ships torch.profiler's files as they appear in folders: each as detail of its rank, in the steps that it marks.
//
//   complete file ──► rank: by the file, else its name, else 0 ──► that rank's session ──► journal: began ──► batches ──► journal: shipped
//
// Invariant: a file is shipped once, also across restarts (file-journal.ts).

import { hostname } from 'node:os';
import { basename, join } from 'node:path';
import { resolveOptions } from '@ranktrace/sdk/shipping';
import { type KinetoTable, kinetoExtent, rankInFile, rankInName, stepsInFile, worldSizeInFile } from '@ranktrace/trace/torch';
import { FileJournal } from './files/file-journal.ts';
import { type CompleteFile, watchFolders } from './files/folder-watch.ts';
import type { Environment } from './model/environment.ts';
import { agentLimits as limits } from './model/limits.ts';
import { FileSessions, type RankFile } from './ship/file-sessions.ts';
import type { FilePart, FilePlace, RankSession } from './ship/rank-session.ts';

export interface WatchOptions {
  readonly folders: readonly string[];
  readonly run: string;
  /** Its RANKTRACE_ variables say where batches go, as a rank's own do. */
  readonly environment: Environment;
  readonly notice: (line: string) => void;
  readonly signal: AbortSignal;
}

/** Watches until the signal is aborted; resolves once what was begun is sent. Throws AgentError `file_unwritable`, SdkError. */
export async function watchFiles({ folders, run, environment, notice, signal }: WatchOptions): Promise<void> {
  const sessions = new FileSessions(resolveOptions({ run, rank: 0, worldSize: 1 }, environment), notice);
  try {
    await shipFiles({
      folders,
      journal: `shipped-files-${run}.jsonl`,
      environment,
      notice,
      signal,
      sessionOf: (file) => sessions.of(file),
    });
  } finally {
    await sessions.close();
  }
}

/** A file, and the process that wrote it. */
export interface WatchedFile extends RankFile {
  /** Whether the file itself says its rank. */
  readonly saysRank: boolean;
  /** As the process counts itself; 0 if no event has one. */
  readonly pid: number;
  /** The file's owner. */
  readonly uid: number;
}

export interface ShipFilesParts extends Pick<WatchOptions, 'folders' | 'environment' | 'notice' | 'signal'> {
  /** Name of the journal, beside the spool. */
  readonly journal: string;
  /** The session that ships a file; undefined while there is none. */
  readonly sessionOf: (file: WatchedFile) => RankSession | undefined;
  /** Whether a file may be of interest, by its name; default: each. */
  readonly isWanted?: ((name: string) => boolean) | undefined;
}

/** Ships files of folders through given sessions until the signal is aborted. Throws AgentError `file_unwritable`. */
export async function shipFiles({ journal: journalName, environment, sessionOf, ...parts }: ShipFilesParts): Promise<void> {
  const base = resolveOptions({ run: 'none', rank: 0, worldSize: 1 }, environment);
  using journal = new FileJournal<FilePlace>(join(base.spoolDirectory, journalName));
  /** Files that no session ships so far, by key: to read one takes long, and each look would find it. */
  const unowned = new Map<string, WatchedFile>();
  let isWaitTold = false;
  const isUnowned = (key: string): boolean => {
    const file = unowned.get(key);
    return file !== undefined && sessionOf(file) === undefined;
  };
  const take = async ({ path, key, uid, table }: CompleteFile): Promise<void> => {
    const file = { ...aboutFile(basename(path), table), uid };
    const begun = journal.begun(key);
    const session = begun === undefined ? sessionOf(file) : FileSessions.resumed(begun, environment, parts.notice);
    unowned.delete(key);
    if (session === undefined) {
      unowned.set(key, file);
      // Once: those of processes that other agents look after are left to these.
      if (!isWaitTold) parts.notice(`"${path}": waits until it is known which rank wrote it; further files that wait are not named`);
      isWaitTold = true;
      if (unowned.size > limits.watchedFilesMax) unowned.delete(unowned.keys().next().value as string);
      return;
    }
    const begins = begun === undefined ? (place: FilePlace) => journal.begin(key, place) : undefined;
    await session.shipFile(basename(path), table, file.first, { ...partOf(table), begins });
    if (begun !== undefined) await session.close(false);
    journal.finish(key);
    const steps = stepsInFile(table);
    parts.notice(
      `"${path}": shipped as rank ${session.options.rank}${steps === undefined ? '' : `, steps ${steps.first} to ${steps.last}`}`,
    );
  };
  await watchFolders({ ...parts, isTaken: (key) => journal.isShipped(key) || isUnowned(key), take });
}

function aboutFile(name: string, table: KinetoTable): Omit<WatchedFile, 'uid'> {
  const said = rankInFile(table);
  const rank = said ?? rankInName(name) ?? 0;
  const host = table.metadata.get('host_name');
  const otherHost = typeof host === 'string' && host !== '' && host !== hostname() ? host : undefined;
  const { first, pid } = kinetoExtent(table);
  return { rank, worldSize: Math.max(worldSizeInFile(table) ?? 1, rank + 1), saysRank: said !== undefined, pid, otherHost, first };
}

/** Windows of steps have numbers by their last step, which all ranks share. */
const windowNumbers = 65_535;

/** Ranks of one schedule stop after the same step; of files without steps nothing is known, so that collectives without a number cannot be matched. */
function partOf(table: KinetoTable): FilePart {
  const steps = stepsInFile(table);
  return steps === undefined ? { filesAfter: 1, cutOf: () => undefined } : { filesAfter: windowNumbers - (steps.last % windowNumbers) };
}

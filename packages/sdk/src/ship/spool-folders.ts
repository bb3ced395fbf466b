// Makes the folders of a spool, `<root>/<run>/rank-<rank>-<incarnation>`, such that nobody else may write into them.
//
// A rank ships the files of its spool as its own, and deletes them. So each of its folders must belong to the user of this process and be
// writable by nobody else: in a shared temporary directory anyone may have made that name before. Output directories (`keep`) are the user's choice.

import { accessSync, constants, existsSync, lstatSync, mkdirSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { SdkError } from '../model/errors.ts';

/** `<root>/<run>/rank-<rank>-<incarnation>`. */
export function spoolPath(root: string, identity: { run: string; rank: number; incarnation: string }): string {
  return join(root, identity.run, `rank-${identity.rank}-${identity.incarnation}`);
}

/**
 * Makes the folder of a run below the root of spools, or of the output. Throws SdkError `spool_unusable` when no spool could open below it: at
 * the start, where somebody can still act on it. A disk that is full now may have room later.
 */
export function checkSpoolRoot(directory: string, keep: boolean): void {
  try {
    makeSpoolFolder(directory, keep, 1);
    accessSync(directory, constants.W_OK | constants.X_OK);
  } catch (cause) {
    if (keep || !isDiskFull(cause)) throw unusable(directory, cause);
  }
}

/** Makes `directory`, the folder of a rank, and missing folders above it. Throws the system's errors, or SdkError `spool_unusable`. */
export function makeSpoolFolder(directory: string, keep: boolean, foldersAbove = 2): void {
  if (keep) {
    makeFolder(directory);
    return;
  }
  const folders = [directory];
  while (folders.length <= foldersAbove) folders.unshift(dirname(folders[0] as string));
  // From the root down: nobody can plant the next folder in one that is ours alone.
  retried(() => {
    for (const [index, folder] of folders.entries()) {
      makeFolder(folder, 0o700);
      checkOwner(folder, index === 0);
    }
  });
}

/** Throws SdkError `spool_unusable` where others may write into `folder`. Follows only one kind of link: our own, to the root of all spools. */
export function checkOwner(folder: string, isRoot = false): void {
  const user = process.getuid?.();
  if (user === undefined) return;
  let about = lstatSync(folder);
  if (isRoot && about.isSymbolicLink() && about.uid === user) about = statSync(folder);
  const writers = about.mode & 0o022;
  if (about.isDirectory() && about.uid === user && writers === 0) return;
  const found = about.isSymbolicLink() ? 'a symbolic link' : `one of user ${about.uid} with mode ${(about.mode & 0o7777).toString(8)}`;
  throw new SdkError(
    'spool_unusable',
    `Cannot use spool "${folder}": it must be a directory of user ${user} that no other user can write (chmod go-w), got ${found}; or choose another with option spoolDirectory`,
  );
}

/** Whether the disk, or this user's quota of it, is full. */
export function isDiskFull(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === 'ENOSPC' || code === 'EDQUOT';
}

export function unusable(directory: string, cause: unknown): SdkError {
  if (cause instanceof SdkError) return cause;
  const code = (cause as NodeJS.ErrnoException).code ?? 'error';
  return new SdkError('spool_unusable', `Cannot use spool "${directory}": it must be a directory that can be written (${code})`, { cause });
}

/** Other ranks of this host make the same folders, and remove them when they end: a folder may appear or vanish at any moment. */
function retried(make: () => void, tries = 200): void {
  for (let left = tries; ; left--) {
    try {
      make();
      return;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || left === 0) throw error;
    }
  }
}

/**
 * Makes `directory` and missing folders above it. Records may be confidential, and the temporary directory is everybody's: hence `mode`.
 * Not `recursive`: where a folder rejects a new one with ENOENT (/proc) Node never returns.
 */
function makeFolder(directory: string, mode?: number): void {
  retried(() => {
    try {
      mkdirSync(directory, mode === undefined ? {} : { mode });
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === 'EEXIST' && statSync(directory).isDirectory()) return;
      const above = dirname(directory);
      if (code === 'ENOENT' && !existsSync(above)) makeFolder(above, mode);
      throw error;
    }
  }, 4);
}

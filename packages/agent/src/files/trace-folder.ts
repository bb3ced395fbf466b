// The folder into which ranks of one user write the traces that they are asked for, and reading them safely: the agent may run as another user (root),
// and reads only a regular file of that user, in that folder.
//
//   <temporary directory of the rank>/ranktrace-traces-<uid>/     mode 0700, of the rank's user
//
// Invariant: a file is opened through the folder's own descriptor, without following a link, and checked after it was opened: nobody can exchange it in
// between.

import { closeSync, constants, fchownSync, fstatSync, lstatSync, mkdirSync, openSync, type Stats, unlinkSync } from 'node:fs';
import { join } from 'node:path';
import { AgentError } from '../model/errors.ts';

/** Makes the folder for traces of user `uid` below `root`, or checks it. Throws AgentError `file_unwritable`, `file_refused`. */
export function makeTraceFolder(root: string, uid: number): string {
  const folder = join(root, `ranktrace-traces-${uid}`);
  try {
    mkdirSync(folder, { mode: 0o700 });
    if (process.getuid?.() !== uid) giveFolder(folder, uid);
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code ?? 'error';
    if (code !== 'EEXIST') throw new AgentError('file_unwritable', `Cannot make the folder of traces "${folder}": ${code}`, { cause });
  }
  closeSync(openFolder(folder, uid));
  return folder;
}

/** The folder that was just made, opened: its path may lead elsewhere by now, for `root` is its user's. */
function giveFolder(folder: string, uid: number): void {
  const descriptor = openSync(folder, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
  try {
    fchownSync(descriptor, uid, -1);
  } finally {
    closeSync(descriptor);
  }
}

/** Opens a file of the folder for reading. Throws AgentError `file_refused`; undefined while there is none. */
export function openTrace(folder: string, name: string, uid: number, bytesMax: number): { descriptor: number; about: Stats } | undefined {
  if (name === '' || name.includes('/') || name.includes('\0') || name.startsWith('.'))
    throw new AgentError('file_refused', `Cannot read "${name}": it must lie in "${folder}"`);
  const directory = openFolder(folder, uid);
  try {
    return openOwnFile(`/proc/self/fd/${directory}/${name}`, uid, bytesMax, join(folder, name));
  } finally {
    closeSync(directory);
  }
}

/**
 * Opens a regular file of user `uid` for reading. Throws AgentError `file_refused`, and the system's errors; undefined while there is none. `shown`: its
 * path in messages.
 */
export function openOwnFile(path: string, uid: number, bytesMax: number, shown = path): { descriptor: number; about: Stats } | undefined {
  try {
    const descriptor = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    const about = fstatSync(descriptor);
    const wrong = whyNotTrace(about, uid, bytesMax);
    if (wrong === undefined) return { descriptor, about };
    closeSync(descriptor);
    throw new AgentError('file_refused', `Cannot read "${shown}": ${wrong}`);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return undefined;
    if (code === 'ELOOP') throw new AgentError('file_refused', `Cannot read "${shown}": it is a link`, { cause: error });
    throw error;
  }
}

/** Removes a file that was read, if it is still there. Never throws. */
export function removeTrace(folder: string, name: string, uid: number): void {
  try {
    const directory = openFolder(folder, uid);
    try {
      unlinkSync(`/proc/self/fd/${directory}/${name}`);
    } finally {
      closeSync(directory);
    }
  } catch {
    // Another user's folder, read-only, or gone.
  }
}

function whyNotTrace(about: Stats, uid: number, bytesMax: number): string | undefined {
  if (!about.isFile()) return 'it must be a regular file';
  if (about.uid !== uid) return `it must be of user ${uid}, got one of user ${about.uid}`;
  // A hard link to somebody's file would be that file.
  if (about.nlink !== 1) return `it must have one name, got ${about.nlink}`;
  if (about.size > bytesMax) return `it may have ${bytesMax} bytes, got ${about.size}`;
  return undefined;
}

/** Throws AgentError `file_refused` where the folder is not the user's alone. */
function openFolder(folder: string, uid: number): number {
  try {
    const descriptor = openSync(folder, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
    const about = fstatSync(descriptor);
    if (about.uid === uid && (about.mode & 0o022) === 0) return descriptor;
    closeSync(descriptor);
    throw new AgentError(
      'file_refused',
      `Cannot use the folder of traces "${folder}": it must be of user ${uid}, and writable by nobody else, got one of user ${about.uid} with mode ${(about.mode & 0o7777).toString(8)}`,
    );
  } catch (error) {
    if (error instanceof AgentError) throw error;
    const isLink = lstatSync(folder, { throwIfNoEntry: false })?.isSymbolicLink() === true;
    const why = isLink ? 'it is a link' : ((error as NodeJS.ErrnoException).code ?? 'error');
    throw new AgentError('file_refused', `Cannot use the folder of traces "${folder}": ${why}`, { cause: error });
  }
}

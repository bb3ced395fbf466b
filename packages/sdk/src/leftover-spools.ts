// Spools that dead processes of this rank left behind: whose they are, and whether their writer is dead for sure.
//
// Taking a living rank's spool would ship its batches twice (harmless) and delete its files (not harmless), so doubt means no.

import { readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { limits } from './limits.ts';

/** Beside the segments of a spool: the `processSpace` of who writes it. */
export const ownerFile = 'owner';

/**
 * Directories of earlier incarnations of this rank whose processes are dead, oldest first. The process id is the incarnation's last
 * part, base 36; our own id under another incarnation is a dead process, too (in a container every life may be process 1). In a directory
 * of another host or container the id says nothing: there, dead is who has written nothing for `leftoverQuietMs`, heartbeats included.
 */
export function findLeftovers(root: string, identity: { run: string; rank: number; incarnation: string }, owner: string): string[] {
  const prefix = `rank-${identity.rank}-`;
  const parent = join(root, identity.run);
  return list(parent)
    .filter((name) => name.startsWith(prefix) && name !== `${prefix}${identity.incarnation}`)
    .filter((name) => {
      const directory = join(parent, name);
      return ownerOf(directory) === owner ? isDead(name.slice(name.lastIndexOf('-') + 1)) : isQuiet(directory);
    })
    .sort()
    .map((name) => join(parent, name));
}

/** Names the space in which process ids are unique: the host, and the PID namespace (a container has its own). */
export function processSpace(host: string): string {
  try {
    return `${host} ${readlinkSync('/proc/self/ns/pid')}`;
  } catch {
    return host;
  }
}

function ownerOf(directory: string): string | undefined {
  try {
    return readFileSync(join(directory, ownerFile), 'utf8');
  } catch {
    return undefined;
  }
}

function isQuiet(directory: string): boolean {
  const newest = list(directory).reduce((newest, name) => Math.max(newest, modified(join(directory, name))), modified(directory));
  return Date.now() - newest > limits.leftoverQuietMs;
}

/** When the file was last written, unix ms; a file that is gone was never written. */
const modified = (path: string): number => statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;

function list(directory: string): string[] {
  try {
    return readdirSync(directory);
  } catch {
    return [];
  }
}

function isDead(pidText: string): boolean {
  const pid = Number.parseInt(pidText, 36);
  if (!/^[0-9a-z]+$/.test(pidText) || !Number.isSafeInteger(pid) || pid <= 0 || pid > 0x7fffffff) return false;
  if (pid === process.pid) return true;
  try {
    process.kill(pid, 0);
    return false;
  } catch (error) {
    // EPERM: alive, but somebody else's.
    return (error as NodeJS.ErrnoException).code === 'ESRCH';
  }
}

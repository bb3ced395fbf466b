// The writer of a spool, and whether it is certainly dead: the file `owner` beside its segments.
//
//   <host> <pid namespace>\n<process> <thread> <start of the thread>\n       while it is written
//   <host> <pid namespace>\nclosed\n                                         after that
//
// A process may write several spools (a profile in a thread of its own, or one after another), and its id is reused, in a container at every life:
// thread and start distinguish all of these. Taking a living rank's spool would ship its batches twice (harmless) and delete its files (harmful),
// so doubt means no. Where process ids mean nothing, or the file is missing, a writer is dead if its spool was not written for `leftoverQuietMs`,
// heartbeats included.

import { readdirSync, readFileSync, readlinkSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { limits } from '../model/limits.ts';

const ownerFile = 'owner';

/** Identifies the space in which process ids are unique: the host, and the PID namespace (a container has its own). */
export function processSpace(host: string): string {
  try {
    return `${host} ${readlinkSync('/proc/self/ns/pid')}`;
  } catch {
    return host;
  }
}

/** Makes the calling thread the writer of the spool in `directory`. */
export function claimSpool(directory: string, space: string): void {
  writeFileSync(join(directory, ownerFile), `${space}\n${thisThread()}\n`);
}

/** Ends the writer's claim: the next start may take the spool. Never throws. */
export function releaseSpool(directory: string, space: string): void {
  try {
    writeFileSync(join(directory, ownerFile), `${space}\nclosed\n`);
  } catch {
    // Its writer counts as dead once this thread has ended.
  }
}

export function isWriterDead(directory: string, space: string): boolean {
  const [writerSpace, writer = ''] = ownerOf(directory).split('\n');
  if (writerSpace !== space || writer === '') return isQuiet(directory);
  if (writer === 'closed') return true;
  const [, pid, thread, start] = /^([1-9]\d{0,9})(?: (\d+) (\d+))?$/.exec(writer) ?? [];
  if (pid === undefined) return false;
  if (thread === undefined) return isProcessDead(Number(pid));
  try {
    return startOf(`/proc/${pid}/task/${thread}`) !== start;
  } catch (error) {
    // ESRCH: it ended during the read. Any other error proves nothing.
    return ['ENOENT', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '');
  }
}

/** `PROCESS THREAD START` where the system reports them, else only the process. */
function thisThread(): string {
  try {
    const [pid, , thread] = readlinkSync('/proc/thread-self').split('/');
    return `${pid} ${thread} ${startOf('/proc/thread-self')}`;
  } catch {
    return `${process.pid}`;
  }
}

/** proc(5): the 22nd field of stat, ticks after boot. The name before it may hold anything. Throws the system's errors. */
function startOf(thread: string): string | undefined {
  const stat = readFileSync(`${thread}/stat`, 'latin1');
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19];
}

function isProcessDead(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return false;
  } catch (error) {
    // EPERM: alive, but another user's.
    return (error as NodeJS.ErrnoException).code === 'ESRCH';
  }
}

function ownerOf(directory: string): string {
  try {
    return readFileSync(join(directory, ownerFile), 'utf8');
  } catch {
    return '';
  }
}

function isQuiet(directory: string): boolean {
  let newest = modified(directory);
  for (const name of readdirSync(directory)) newest = Math.max(newest, modified(join(directory, name)));
  return Date.now() - newest > limits.leftoverQuietMs;
}

/** Time of the file's last write, unix ms; never, for a missing file. */
const modified = (path: string): number => statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0;

// One writer per run, and one reader of NATS per output directory: a lock file names its owner, so that a dead process's lock is recognised and taken over.
//
// On the same machine and in the same pid namespace the lock checks its owner: does that pid live, and did that process start then (a container's
// service is always pid 1, so the pid alone proves nothing)? An owner out of reach (another host or container on a shared disk) counts as alive while
// the file is touched, which its owner does once a second.

import { randomBytes } from 'node:crypto';
import { linkSync, readFileSync, readlinkSync, renameSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { AggregatorError, systemCode } from '../model/errors.ts';
import { hostId } from '../model/host-id.ts';
import { aggregatorLimits as limits } from '../model/limits.ts';
import { guard } from './segment-writer.ts';

interface Owner {
  readonly pid: number;
  /** When the process started, in the system's ticks. */
  readonly started: string;
  /** The namespace in which the pid is valid. */
  readonly place: string;
}

/** A lock file, and what nobody else may do while it is held. */
interface LockKind {
  readonly name: string;
  readonly refusal: (directory: string, who: string) => string;
}

const runLock: LockKind = {
  name: 'lock',
  refusal: (directory, who) => `Cannot write run "${directory}": ${who} writes it; stop that one, or choose another --out`,
};
/** For a service that takes the batches of all runs from NATS: a second one would take the first one's consumer away. No run has a name with a dot. */
const natsLock: LockKind = {
  name: 'nats.lock',
  refusal: (directory, who) => `Cannot read NATS for "${directory}": ${who} does so already; stop that one, or choose another --out`,
};

export class RunLock {
  readonly #path: string;
  readonly #text: string;
  readonly #kind: LockKind;

  private constructor(path: string, text: string, kind: LockKind) {
    this.#path = path;
    this.#text = text;
    this.#kind = kind;
  }

  /** Takes the lock of an output directory whose service reads all runs from NATS; throws as `take`. */
  static takeNats(out: string): RunLock {
    return RunLock.take(out, natsLock);
  }

  /** Takes the lock of a run's directory; throws AggregatorError `store_locked` when its owner lives, `store_full`, `store_write_failed`. */
  static take(directory: string, kind = runLock): RunLock {
    const path = join(directory, kind.name);
    const self: Owner = { pid: process.pid, started: startOf(process.pid) ?? '', place: placeId() };
    const text = `${JSON.stringify(self)}\n`;
    // Written aside and linked: a lock file is never seen half written. Containers on one disk may all be process 1, hence the random part.
    const draft = `${path}.${process.pid}-${randomBytes(4).toString('hex')}`;
    try {
      guard(draft, () => writeFileSync(draft, text));
      for (let attempt = 0; attempt < 3; attempt++) {
        try {
          linkSync(draft, path);
          return new RunLock(path, text, kind);
        } catch (error) {
          if (systemCode(error) !== 'EEXIST') throw error;
        }
        setAsideStale(path, directory, kind);
      }
    } finally {
      rmSync(draft, { force: true });
    }
    throw locked(directory, undefined, kind);
  }

  /** Whether another process writes the run of a directory. */
  static isHeld(directory: string): boolean {
    const path = join(directory, 'lock');
    const text = readLock(path);
    return text !== undefined && isAlive(parseOwner(text), path);
  }

  /** Shows that the owner lives; throws AggregatorError `store_locked` if another process took the lock meanwhile. */
  touch(now: Date): void {
    if (readLock(this.#path) !== this.#text) throw locked(this.#path, undefined, this.#kind);
    utimesSync(this.#path, now, now);
  }

  /** Whether another owner's lock is in its place. */
  get isTaken(): boolean {
    const text = readLock(this.#path);
    return text !== undefined && text !== this.#text;
  }

  release(): void {
    if (readLock(this.#path) === this.#text) rmSync(this.#path, { force: true });
  }
}

function setAsideStale(path: string, directory: string, kind: LockKind): void {
  const text = readLock(path);
  if (text === undefined) return;
  const owner = parseOwner(text);
  if (isAlive(owner, path)) throw locked(directory, owner, kind);
  const aside = `${path}.${process.pid}.stale`;
  try {
    renameSync(path, aside);
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return;
    throw error;
  }
  // Between our look and the rename another process may have taken the lock: then this is theirs, and goes back.
  if (readLock(aside) !== text) renameSync(aside, path);
  else rmSync(aside, { force: true });
}

function isAlive(owner: Owner | undefined, path: string): boolean {
  if (owner?.place === placeId()) return startOf(owner.pid) === owner.started;
  try {
    return Date.now() - statSync(path).mtimeMs < limits.lockStaleMs;
  } catch {
    return false;
  }
}

function locked(directory: string, owner: Owner | undefined, kind: LockKind): AggregatorError {
  const who =
    owner === undefined ? 'another process' : `process ${owner.pid}${owner.place === placeId() ? '' : ' of another host or container'}`;
  return new AggregatorError('store_locked', kind.refusal(directory, who));
}

function readLock(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}

function parseOwner(text: string): Owner | undefined {
  try {
    const { pid, started, place } = JSON.parse(text) as Partial<Owner>;
    return typeof pid === 'number' && typeof started === 'string' && typeof place === 'string' ? { pid, started, place } : undefined;
  } catch {
    return undefined;
  }
}

/** When a process started, in the system's ticks; undefined when there is no such process. */
function startOf(pid: number): string | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The name, field 2, may hold spaces and brackets: count from the last bracket. Start time is field 22.
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19];
  } catch {
    return existsWithoutProc(pid) ? '' : undefined;
  }
}

function existsWithoutProc(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return systemCode(error) === 'EPERM';
  }
}

/** The namespace in which pids mean the same as here: the boot and the pid namespace. */
function placeId(): string {
  try {
    return `${hostId()} ${readlinkSync('/proc/self/ns/pid')}`;
  } catch {
    return hostId();
  }
}

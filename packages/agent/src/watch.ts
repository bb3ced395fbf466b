// Ships torch.profiler's files as they appear in folders: each as detail of its rank, in the steps that it marks.
//
//   complete file ──► rank: by the file, else its name, else 0 ──► that rank's session ──► journal: began ──► batches ──► journal: shipped
//
// A file of this host is on the host's clock, as what ranks and the agent record live. A file that another host wrote (its `host_name`), or one of before
// this host's start, is on a wall clock that no ping compares with another: the merge says so of its rank.
// Invariant: a file is shipped once, also across restarts (file-journal.ts).

import { hostname } from 'node:os';
import { basename, join } from 'node:path';
import { type HostClock, hostClock, type ResolvedOptions, resolveOptions } from '@ranktrace/sdk/shipping';
import { type KinetoTable, kinetoExtent, rankInFile, rankInName, stepsInFile, worldSizeInFile } from '@ranktrace/trace/torch';
import { FileJournal } from './files/file-journal.ts';
import { type CompleteFile, watchFolders } from './files/folder-watch.ts';
import type { Environment } from './ranks/rank-environment.ts';
import { RemoteClocks, WallClocks } from './ship/host-time.ts';
import { type FilePart, type FilePlace, RankSession, type SessionParts } from './ship/rank-session.ts';

export interface WatchOptions {
  readonly folders: readonly string[];
  readonly run: string;
  /** Its RANKTRACE_ variables say where batches go, as a rank's own do. */
  readonly environment: Environment;
  readonly notice: (line: string) => void;
  readonly signal: AbortSignal;
}

/** Windows of steps have numbers by their last step, which all ranks share. */
const windowNumbers = 65_535;

/** Watches until the signal is aborted; resolves once what was begun is sent. Throws AgentError `file_unwritable`, SdkError. */
export async function watchFiles({ folders, run, environment, notice, signal }: WatchOptions): Promise<void> {
  const base = resolveOptions({ run, rank: 0, worldSize: 1 }, environment);
  using journal = new FileJournal<FilePlace>(join(base.spoolDirectory, `shipped-files-${run}.jsonl`));
  const sessions = new FileSessions(base, notice);
  try {
    await watchFolders({
      folders,
      isTaken: (key) => journal.isShipped(key),
      take: async ({ path, key, table }: CompleteFile) => {
        const name = basename(path);
        const rank = rankInFile(table) ?? rankInName(name) ?? 0;
        const worldSize = Math.max(worldSizeInFile(table) ?? 1, rank + 1);
        const { first } = kinetoExtent(table);
        const begun = journal.begun(key);
        const session = begun === undefined ? sessions.of(rank, worldSize, hostOf(table), first) : sessions.resumed(begun);
        if (begun === undefined) journal.begin(key, session.placeOf(first));
        await session.shipFile(name, table, first, partOf(table));
        if (begun !== undefined) await session.close(false);
        journal.finish(key);
        const steps = stepsInFile(table);
        notice(`"${path}": shipped as rank ${rank}${steps === undefined ? '' : `, steps ${steps.first} to ${steps.last}`}`);
      },
      notice,
      signal,
    });
  } finally {
    await sessions.close();
  }
}

/** Ranks of one schedule stop after the same step; of files without steps nothing is known, so that collectives without a number cannot be matched. */
function partOf(table: KinetoTable): FilePart {
  const steps = stepsInFile(table);
  return steps === undefined ? { filesAfter: 1, cutOf: () => undefined } : { filesAfter: windowNumbers - (steps.last % windowNumbers) };
}

/** The host that wrote the file, if it says so and is not this one. */
function hostOf({ metadata }: KinetoTable): string | undefined {
  const name = metadata.get('host_name');
  return typeof name === 'string' && name !== '' && name !== hostname() ? name : undefined;
}

interface FileSession {
  readonly session: RankSession;
  /** Wall time at its RankTime 0, ns since 1970. */
  readonly unixNs: bigint;
}

/** Whether a time is exact as a double in a session that began at `unixNs`: within 26 days. */
const isNear = (time: bigint, unixNs: bigint): boolean => time - unixNs < 2n ** 51n && unixNs - time < 2n ** 51n;

/** A session for each rank whose files came, for as long as files are watched. */
class FileSessions {
  readonly #base: ResolvedOptions;
  readonly #notice: (line: string) => void;
  readonly #clock: HostClock;
  readonly #wallClocks: WallClocks;
  readonly #remoteClocks: RemoteClocks;
  readonly #closing: (Promise<void> | undefined)[] = [];
  /** By rank and host. */
  readonly #sessions = new Map<string, FileSession>();

  constructor(base: ResolvedOptions, notice: (line: string) => void) {
    this.#base = base;
    this.#notice = notice;
    this.#clock = hostClock(base.testClock);
    this.#wallClocks = new WallClocks(this.#clock.now);
    this.#remoteClocks = new RemoteClocks(this.#clock.host);
  }

  /** `otherHost`: the host that wrote the rank's files, if it is not this one. `first`: the file's first wall time, ns. */
  of(rank: number, worldSize: number, otherHost: string | undefined, first: bigint): RankSession {
    this.#wallClocks.read();
    const key = `${rank} ${otherHost ?? ''}`;
    const known = this.#sessions.get(key);
    if (known !== undefined && isNear(first, known.unixNs)) return known.session;
    this.#closing.push(known?.session.close(false));
    const opened = this.#openFor(rank, worldSize, otherHost, first);
    opened.session.pings = otherHost === undefined && this.#sessions.size === 0;
    this.#sessions.set(key, opened);
    return opened.session;
  }

  #openFor(rank: number, worldSize: number, otherHost: string | undefined, first: bigint): FileSession {
    const now = BigInt(Date.now()) * 1_000_000n;
    const isOfClock = otherHost === undefined && isNear(first, now) && first + this.#wallClocks.aheadAt(first) > 0n;
    const fileClock = isOfClock ? undefined : { hostName: otherHost ?? hostname(), epochNs: first };
    return { session: this.#open(rank, worldSize, { fileClock }), unixNs: isOfClock ? now : first };
  }

  /** The life of an earlier process, to finish a file in it. */
  resumed(place: FilePlace): RankSession {
    return this.#open(place.rank, place.worldSize, { resume: place });
  }

  async close(): Promise<void> {
    await Promise.allSettled([...this.#closing, ...[...this.#sessions.values()].map(({ session }) => session.close(true))]);
  }

  #open(rank: number, worldSize: number, how: Pick<SessionParts, 'fileClock' | 'resume'>): RankSession {
    const options = { ...this.#base, rank, worldSize, isRunNamed: true, notices: [] };
    const clocks = { wallClocks: this.#wallClocks, remoteClocks: this.#remoteClocks };
    return new RankSession({ options, pid: process.pid, facts: {}, ...how, ...clocks, notice: this.#notice });
  }
}

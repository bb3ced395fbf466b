// Sessions of ranks that are known by their files alone, in `ranktrace watch`.
//
// A file of this host is on the host's clock, as what ranks and the agent record live. A file that another host wrote (its `host_name`), or one of before
// this host's start, is on a wall clock that no ping compares with another: the merge says so of its rank.

import { hostname } from 'node:os';
import { guarded, type HostClock, hostClock, type ResolvedOptions, resolveOptions } from '@ranktrace/sdk/shipping';
import type { Environment } from '../model/environment.ts';
import { agentLimits as limits } from '../model/limits.ts';
import { RemoteClocks, WallClocks } from './host-time.ts';
import { type FilePlace, RankSession } from './rank-session.ts';

/** A file's rank, the host that wrote it, if it is not this one, and its first wall time, ns since 1970. */
export interface RankFile {
  readonly rank: number;
  readonly worldSize: number;
  readonly otherHost: string | undefined;
  readonly first: bigint;
}

interface FileSession {
  readonly session: RankSession;
  /** Whether its times are on this host's clock. */
  readonly isOfClock: boolean;
  /** Wall time at its RankTime 0, ns since 1970. */
  readonly unixNs: bigint;
}

/** Whether a time is exact as a double in a session that began at `unixNs`: within 26 days. */
const isNear = (time: bigint, unixNs: bigint): boolean => time - unixNs < 2n ** 51n && unixNs - time < 2n ** 51n;

/** A session for each rank whose files came, for as long as files are watched. */
export class FileSessions {
  /** The life of an earlier process, to finish a file in it. Throws SdkError. */
  static resumed(place: FilePlace, environment: Environment, notice: (line: string) => void): RankSession {
    const { run, rank, worldSize } = place;
    const options = { ...resolveOptions({ run, rank, worldSize }, environment), notices: [] };
    const { host, now } = hostClock(options.testClock);
    const clocks = { wallClocks: new WallClocks(now), remoteClocks: new RemoteClocks(host) };
    return new RankSession({ options, pid: process.pid, facts: {}, resume: place, ...clocks, notice });
  }

  readonly #base: ResolvedOptions;
  readonly #notice: (line: string) => void;
  readonly #clock: HostClock;
  readonly #wallClocks: WallClocks;
  readonly #remoteClocks: RemoteClocks;
  readonly #closing: (Promise<void> | undefined)[] = [];
  /** By rank and host. */
  readonly #sessions = new Map<string, FileSession>();
  readonly #heartbeats: NodeJS.Timeout;

  constructor(base: ResolvedOptions, notice: (line: string) => void) {
    this.#base = base;
    this.#notice = notice;
    this.#clock = hostClock(base.testClock);
    this.#wallClocks = new WallClocks(this.#clock.now);
    this.#remoteClocks = new RemoteClocks(this.#clock.host);
    const beat = (): void => {
      for (const { session } of this.#sessions.values()) session.flush();
    };
    this.#heartbeats = setInterval(guarded('sending heartbeats', beat), limits.heartbeatMs);
  }

  of(file: RankFile): RankSession {
    this.#wallClocks.read();
    const { rank, otherHost, first } = file;
    const key = `${rank} ${otherHost ?? ''}`;
    const known = this.#sessions.get(key);
    if (known !== undefined && isNear(first, known.unixNs)) return known.session;
    this.#closing.push(known?.session.close(false));
    const opened = this.#openFor(file);
    this.#sessions.set(key, opened);
    // One on this host's clock asks for the service's, for all of them.
    const pinging = [...this.#sessions.values()].find(({ isOfClock }) => isOfClock);
    for (const one of this.#sessions.values()) one.session.pings = one === pinging;
    return opened.session;
  }

  #openFor({ rank, worldSize, otherHost, first }: RankFile): FileSession {
    const now = BigInt(Date.now()) * 1_000_000n;
    const isOfClock = otherHost === undefined && isNear(first, now) && first + this.#wallClocks.aheadAt(first) > 0n;
    const fileClock = isOfClock ? undefined : { hostName: otherHost ?? hostname(), epochNs: first };
    const options = { ...this.#base, rank, worldSize, isRunNamed: true, notices: [] };
    const clocks = { wallClocks: this.#wallClocks, remoteClocks: this.#remoteClocks };
    const session = new RankSession({ options, pid: process.pid, facts: {}, fileClock, ...clocks, notice: this.#notice });
    return { session, isOfClock, unixNs: isOfClock ? now : first };
  }

  async close(): Promise<void> {
    clearInterval(this.#heartbeats);
    await Promise.allSettled([...this.#closing, ...[...this.#sessions.values()].map(({ session }) => session.close(true))]);
  }
}

// The agent: ranks of this host, each with a session; Kineto's requests; samples. What it opens, its disposal closes in reverse.
//
//   rank-finder ──found──► session + windows ◄──control── service
//   Kineto's requests ───► work of that rank's windows

import { hostname, totalmem } from 'node:os';
import { recorderKey } from '@ranktrace/protocol';
import { guarded, type HostClock, hostClock, reasonOf, resolveOptions } from '@ranktrace/sdk/shipping';
import { ReadBudget } from '@ranktrace/trace';
import { RankWindows } from './capture/rank-windows.ts';
import { CollectiveReports } from './hang/collective-reports.ts';
import type { RasAddress } from './hang/nccl-ras.ts';
import { KinetoDaemon } from './kineto/kineto-daemon.ts';
import { daemonAddress } from './kineto/socket-address.ts';
import type { Environment } from './model/environment.ts';
import { AgentError } from './model/errors.ts';
import { agentLimits as limits } from './model/limits.ts';
import { nearestAmong, numbersOf, processLife } from './ranks/process-table.ts';
import { RankFinder, type SeenRank } from './ranks/rank-finder.ts';
import { ProcessRings } from './rings/process-rings.ts';
import { HostSamples } from './ship/host-samples.ts';
import { RemoteClocks, WallClocks } from './ship/host-time.ts';
import { RankSession } from './ship/rank-session.ts';
import { shipFiles, type WatchedFile } from './watch.ts';

export interface AgentOptions {
  /** Its RANKTRACE_ variables say where batches go, as a rank's own do. */
  readonly environment: Environment;
  /** Name of the run of all ranks here; default: the job's. */
  readonly run?: string | undefined;
  /** Whether to record a rank; default: all. */
  readonly isWanted?: ((rank: number) => boolean) | undefined;
  /** Folder of Kineto's socket (`KINETO_IPC_SOCKET_DIR`); default: the abstract name. */
  readonly socketFolder?: string | undefined;
  /** Folders into which ranks of this host write files of torch.profiler. */
  readonly folders?: readonly string[] | undefined;
  /** Where NCCL's RAS listens; null: it is not asked. Default: NCCL's own default, localhost:28028. */
  readonly ras?: RasAddress | null | undefined;
  readonly notice: (line: string) => void;
}

/** A rank with its session. */
interface RecordedRank {
  readonly seen: SeenRank;
  readonly session: RankSession;
  readonly windows: RankWindows;
  readonly rings: ProcessRings;
  /** When its process was gone, ms; undefined while it goes on. */
  goneAt: number | undefined;
}

/** What torch.profiler's tensorboard_trace_handler calls a file: `HOST_PID.TIME.pt.trace.json`. */
const handlerName = /^(.+)_\d+\.\d+\.pt\.trace\.json/;

/** NCCL_RAS_ADDR's default. */
const defaultRas: RasAddress = { host: 'localhost', port: 28028 };

export interface Agent extends AsyncDisposable {
  /** Whether Kineto can be asked. */
  readonly capturesOnDemand: boolean;
  /** The ranks that run, by run. */
  ranks(): readonly { readonly run: string; readonly rank: number; readonly pid: number; readonly asked: boolean }[];
}

/** Starts the agent. Without Kineto's interface it goes on: one notice says why. Throws AgentError `bad_option`. */
export async function startAgent(options: AgentOptions): Promise<Agent> {
  const agent = new HostAgent(options);
  await agent.open();
  return agent;
}

class HostAgent implements Agent {
  readonly #options: AgentOptions;
  readonly #finder: RankFinder;
  readonly #wallClocks: WallClocks;
  readonly #clock: HostClock;
  /** By run. */
  readonly #remoteClocks = new Map<string, RemoteClocks>();
  readonly #ranks = new Map<SeenRank, RecordedRank>();
  readonly #closing = new Set<Promise<void>>();
  readonly #memory = new ReadBudget(Math.min(limits.readMemoryAllBytesMax, totalmem() / 4));
  readonly #reports: CollectiveReports;
  #daemon: KinetoDaemon | undefined;
  #samples: HostSamples | undefined;
  #timers: NodeJS.Timeout[] = [];
  readonly #ended = new AbortController();
  #watching: Promise<void> | undefined;

  constructor(options: AgentOptions) {
    this.#options = options;
    const { environment, run, socketFolder, notice } = options;
    this.#clock = hostClock(resolveOptions({}, environment).testClock);
    this.#wallClocks = new WallClocks(this.#clock.now);
    this.#finder = new RankFinder({
      environment,
      run,
      isWanted: options.isWanted ?? (() => true),
      socketFolder,
      found: (rank) => this.#found(rank),
      gone: (rank) => this.#gone(rank),
      notice,
    });
    this.#reports = new CollectiveReports({
      ranksOf: (run) => [...this.#ranks.values()].filter(({ session, goneAt }) => session.options.run === run && goneAt === undefined),
      ras: options.ras === null ? undefined : (options.ras ?? defaultRas),
      notice,
      signal: this.#ended.signal,
    });
  }

  get capturesOnDemand(): boolean {
    return this.#daemon !== undefined;
  }

  ranks(): ReturnType<Agent['ranks']> {
    return this.#finder.ranks.map(({ place: { options }, life, askedAt }) => {
      return { run: options.run, rank: options.rank, pid: life.pid, asked: askedAt !== undefined };
    });
  }

  async open(): Promise<void> {
    const { socketFolder, notice } = this.#options;
    try {
      this.#daemon = await KinetoDaemon.open({
        address: daemonAddress(socketFolder),
        work: (asking) => {
          const seen = this.#finder.asked(asking);
          return (seen && this.#ranks.get(seen)?.windows.work(asking.takesActivities)) ?? '';
        },
        notice,
      });
    } catch (error) {
      if (!(error instanceof AgentError) || error.code === 'bad_option') throw error;
      notice(error.message);
    }
    this.#samples = new HostSamples(() => this.#sessions(), notice);
    this.#finder.scan();
    this.#watch();
    const every = (ms: number, what: string, work: () => void): void => {
      this.#timers.push(setInterval(guarded(what, work), ms));
    };
    every(limits.scanIntervalMs, 'looking for ranks', () => this.#finder.scan());
    every(limits.rasIntervalMs, 'asking NCCL', () => {
      for (const { session } of this.#ranks.values()) if (session.options.rank === 0) this.#reports.look(session.options.run);
    });
    // One that fails leaves the others' alone.
    const beat = guarded('the heartbeat of a rank', ({ session, rings }: RecordedRank): void => {
      rings.drain();
      session.flush();
    });
    // In one turn: each wakening of a process costs more than what it does here.
    every(limits.heartbeatMs, 'sending heartbeats', () => {
      this.#wallClocks.read();
      this.#finder.checkLives();
      this.#endGone();
      this.#samples?.sampleHost();
      for (const recorded of this.#ranks.values()) beat(recorded);
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer);
    this.#samples?.stop();
    this.#ended.abort();
    await Promise.all([this.#daemon?.close(), this.#watching]);
    for (const recorded of this.#ranks.values()) this.#close(recorded, 'the agent ended', true);
    await Promise.allSettled(this.#closing);
  }

  /** Ships files of this host's ranks; a folder may be shared with other hosts, whose agents ship theirs. */
  #watch(): void {
    const { folders = [], environment, notice } = this.#options;
    if (folders.length === 0) return;
    const sessionOf = ({ pid, uid, rank, saysRank, otherHost }: WatchedFile): RankSession | undefined => {
      if (otherHost !== undefined) return undefined;
      const processes = new Set([...this.#ranks.values()].map(({ seen }) => seen.life.pid));
      // A process has a number of its own in a container, and one that a shell started has another than the shell, which is the rank.
      const [writer, ...others] = [...this.#ranks.values()].filter(
        ({ seen: { ownPid, life, uid: owner }, session: { options } }) =>
          owner === uid &&
          (!saysRank || options.rank === rank) &&
          (ownPid === pid || numbersOf(life.pid).includes(pid) || nearestAmong(processes, pid) === life.pid),
      );
      return others.length === 0 ? writer?.session : undefined;
    };
    const host = hostname();
    const isWanted = (name: string): boolean => (handlerName.exec(name)?.[1] ?? host) === host;
    this.#watching = shipFiles({
      folders,
      journal: 'agent-files.jsonl',
      environment,
      notice,
      signal: this.#ended.signal,
      sessionOf,
      isWanted,
    }).catch((error: unknown) => notice(`files of torch.profiler are no longer watched: ${reasonOf(error)}`));
  }

  *#sessions(): Generator<RankSession> {
    for (const { session, goneAt } of this.#ranks.values()) if (goneAt === undefined) yield session;
  }

  #found(seen: SeenRank): void {
    const { notice } = this.#options;
    const { options } = seen.place;
    const { run, rank, worldSize, localRank } = options;
    // Another life of it may still be waiting for the others' end.
    for (const other of this.#ranks.values()) {
      const { options: known } = other.seen.place;
      if (known.run === run && known.rank === rank) this.#close(other, 'its process is gone', false);
    }
    try {
      const session = new RankSession({
        options,
        pid: seen.life.pid,
        wallClocks: this.#wallClocks,
        remoteClocks: this.#remoteClocksOf(run),
        facts: { [recorderKey]: 'kineto' },
        isBeside: seen.place.sendsItself,
        control: (message) => {
          if (message.type === 'record_window') windows.request(message);
          else if (message.type === 'report_collectives' && message.run === run) this.#reports.request(run);
        },
        notice,
      });
      const windows = new RankWindows({
        rank: seen,
        session,
        memory: this.#memory,
        whySilent: () => this.#finder.whySilent(seen),
        isAlive: () => processLife(seen.life.pid)?.start === seen.life.start,
        notice,
      });
      const rings = new ProcessRings(seen, session, notice);
      this.#ranks.set(seen, { seen, session, windows, rings, goneAt: undefined });
      this.#choosePinger(run);
      if (rank === 0) this.#reports.look(run);
      notice(`rank ${rank} of ${worldSize} of run "${run}": process ${seen.life.pid}, local rank ${localRank}`);
    } catch (error) {
      notice(`rank ${rank} of run "${run}" cannot be recorded: ${reasonOf(error)}`);
    }
  }

  #remoteClocksOf(run: string): RemoteClocks {
    const clocks = this.#remoteClocks.get(run) ?? new RemoteClocks(this.#clock.host);
    this.#remoteClocks.set(run, clocks);
    return clocks;
  }

  /** All ranks of a host have one clock: the first of a run asks for the service's. */
  #choosePinger(run: string): void {
    const ofRun = [...this.#ranks.values()].filter(({ session }) => session.options.run === run);
    for (const [index, { session }] of ofRun.entries()) session.pings = index === 0;
    if (ofRun.length === 0) this.#remoteClocks.delete(run);
  }

  #gone(seen: SeenRank): void {
    const recorded = this.#ranks.get(seen);
    if (recorded !== undefined) recorded.goneAt = performance.now();
  }

  /** Where all ranks of a run are gone, it has ended; a rank that went alone has stopped, and its silence shows it. */
  #endGone(): void {
    const now = performance.now();
    for (const recorded of this.#ranks.values()) {
      if (recorded.goneAt === undefined || now - recorded.goneAt < limits.endTogetherMs) continue;
      const { run } = recorded.seen.place.options;
      const others = [...this.#ranks.values()].filter(({ seen }) => seen.place.options.run === run);
      this.#close(
        recorded,
        'its process is gone',
        others.every(({ goneAt }) => goneAt !== undefined),
      );
    }
  }

  #close(recorded: RecordedRank, why: string, ended: boolean): void {
    this.#ranks.delete(recorded.seen);
    const { run, rank } = recorded.session.options;
    if (recorded.goneAt !== undefined)
      this.#options.notice(`rank ${rank} of run "${run}" ${ended ? 'ended with its run' : 'is gone, and others of its run go on'}`);
    recorded.rings.drain(recorded.goneAt !== undefined, true);
    const closing = recorded.windows
      .close(why)
      // Whether a rank goes on that sends its steps itself, it says itself.
      .then(() => recorded.session.close(ended || recorded.seen.place.sendsItself))
      .finally(() => this.#closing.delete(closing));
    this.#closing.add(closing);
    this.#choosePinger(run);
  }
}

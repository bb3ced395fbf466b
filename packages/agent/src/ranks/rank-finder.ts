// The ranks of this host: which processes they are, since when, and why one cannot be recorded.
//
//   /proc, every 5 s ──► processes with a launcher's variables ──► by (run, rank): the oldest one; its children inherit the variables
//   Kineto's requests ─► the process that asks is the rank itself: a shell around it never asks
//
// Under a scheduler, or in a pod, the launcher of ranks looks like a rank: it is known by its program, or by the ranks that come from it.
// Invariant: a rank is one process at a time. One that asks in the place of another is a new life if the other is gone, its worker if it descends from it,
// and a stranger otherwise, which is named and gets nothing.

import { readlinkSync } from 'node:fs';
import { resolve } from 'node:path';
import type { AskingProcess } from '../kineto/kineto-daemon.ts';
import type { Environment } from '../model/environment.ts';
import { agentLimits as limits } from '../model/limits.ts';
import { commandOf, descends, type ProcessLife, processes, processLife, userOf } from './process-table.ts';
import { environmentOf, placeOf, type RankPlace } from './rank-environment.ts';

/** A rank that runs on this host. */
export interface SeenRank {
  readonly place: RankPlace;
  /** Its process; another one once that asks from within it, as a program does that a shell started. */
  life: ProcessLife;
  readonly uid: number;
  /** The process's own number for itself, which differs in a container; known once it asked. */
  ownPid: number;
  /** When it was seen, and when it last asked: monotonic, ms. */
  readonly seenAt: number;
  askedAt: number | undefined;
}

export interface RankFinderParts {
  /** The agent's own variables. */
  readonly environment: Environment;
  /** Name of the run, if all ranks here are of one. */
  readonly run: string | undefined;
  readonly isWanted: (rank: number) => boolean;
  /** Folder of the socket that we answer at; undefined for the abstract name. */
  readonly socketFolder: string | undefined;
  readonly found: (rank: SeenRank) => void;
  readonly gone: (rank: SeenRank) => void;
  readonly notice: (line: string) => void;
  readonly nowMs?: () => number;
}

/** Programs that start ranks (torchrun, python -m torch.distributed.run, accelerate launch, deepspeed, horovodrun, mpirun). */
const launcher = /(?:^|\/)(?:torchrun|accelerate|deepspeed|horovodrun|mpirun|mpiexec|srun)$|^torch\.distributed\.(?:run|launch)$/;

/** Whether the command is a launcher's. After a script, or an option, words are its own: `python train.py --strategy deepspeed` is none. */
function isLauncher(command: readonly string[]): boolean {
  for (const [at, word] of command.slice(0, 4).entries()) {
    if (launcher.test(word)) return true;
    if (word.startsWith('--') || word.endsWith('.py') || command[at - 1] === '-m') return false;
  }
  return false;
}

export class RankFinder {
  readonly #parts: RankFinderParts;
  readonly #nowMs: () => number;
  readonly #ranks = new Map<string, SeenRank>();
  /** Looks at each process that is no rank so far. */
  readonly #looks = new Map<number, number>();
  readonly #said = new Set<string>();

  constructor(parts: RankFinderParts) {
    this.#parts = parts;
    this.#nowMs = parts.nowMs ?? (() => performance.now());
  }

  /** The ranks that run, by run and rank. */
  get ranks(): readonly SeenRank[] {
    return [...this.#ranks.values()];
  }

  /** Looks at all processes of this host that this user may see. */
  scan(): void {
    this.checkLives();
    const present = new Set(processes());
    for (const pid of this.#looks.keys()) if (!present.has(pid)) this.#looks.delete(pid);
    const lives = [...present].flatMap((pid) => {
      const looks = this.#looks.get(pid) ?? 0;
      if (looks >= limits.processLooksMax || this.#isKnown(pid)) return [];
      this.#looks.set(pid, looks + 1);
      return processLife(pid) ?? [];
    });
    // Not by number: once numbers start again from the lowest, a process that a shell runs for a moment has a lower one than the shell, which is the rank.
    lives.sort((a, b) => a.start - b.start);
    for (const life of lives) {
      const place = this.#placeOf(life.pid);
      if (place === undefined) continue;
      const known = this.#ranks.get(keyOf(place));
      if (known === undefined) this.#add(place, life, life.pid);
      // The shell around a rank may be found after it.
      else if (known.askedAt === undefined && descends(known.life.pid, life.pid)) known.life = life;
    }
    this.#sayWhoIsSilent();
  }

  /** Reports ranks whose process is gone. */
  checkLives(): void {
    for (const [key, rank] of this.#ranks) {
      if (processLife(rank.life.pid)?.start === rank.life.start) continue;
      this.#ranks.delete(key);
      this.#parts.gone(rank);
    }
  }

  /** The rank that a process which asks is; undefined for none of ours. */
  asked({ pid, ownPid }: AskingProcess): SeenRank | undefined {
    const known = this.ranks.find(({ life }) => life.pid === pid);
    if (known !== undefined) return this.#note(known, ownPid);
    const place = this.#placeOf(pid);
    const life = place && processLife(pid);
    if (place === undefined || life === undefined) return undefined;
    let rank = this.#ranks.get(keyOf(place));
    if (rank !== undefined && processLife(rank.life.pid)?.start !== rank.life.start) {
      this.checkLives();
      rank = undefined;
    }
    if (rank === undefined) return this.#note(this.#add(place, life, pid), ownPid);
    const isWithin = descends(pid, rank.life.pid);
    if (rank.askedAt === undefined && isWithin) {
      rank.life = life;
      return this.#note(rank, ownPid);
    }
    if (!isWithin) {
      const { run, rank: number } = place.options;
      this.#say(
        `${pid}`,
        `process ${pid} says that it is rank ${number} of run "${run}", as process ${rank.life.pid} does, which goes on: it is left alone`,
      );
    }
    return undefined;
  }

  /** The likely reason why a rank has not asked. */
  whySilent({ place, life }: SeenRank): string {
    if (!place.asksDaemon) return 'its environment has no KINETO_USE_DAEMON=1';
    const { socketFolder } = this.#parts;
    if (!isSameFolder(place.socketFolder, socketFolder)) {
      const there =
        place.socketFolder === undefined ? 'by abstract name (no KINETO_IPC_SOCKET_DIR)' : `in the folder "${place.socketFolder}"`;
      return `it asks ${there}, and this agent answers ${socketFolder === undefined ? 'by abstract name' : `in "${socketFolder}"`}: --socket-dir`;
    }
    if (socketFolder === undefined && namespaceOf(life.pid) !== namespaceOf(process.pid))
      return 'it is in a network namespace of its own, where no abstract name reaches: share a folder (KINETO_IPC_SOCKET_DIR, --socket-dir)';
    return 'its program has not loaded torch yet, or has a torch without Kineto';
  }

  #add(place: RankPlace, life: ProcessLife, pid: number): SeenRank {
    this.#dropLaunchersOf(place, pid);
    const rank: SeenRank = { place, life, uid: userOf(pid) ?? -1, ownPid: pid, seenAt: this.#nowMs(), askedAt: undefined };
    this.#ranks.set(keyOf(place), rank);
    this.#looks.delete(pid);
    this.#parts.found(rank);
    return rank;
  }

  /** A rank's ancestor that only the scheduler placed has started it. */
  #dropLaunchersOf(place: RankPlace, pid: number): void {
    if (place.mayLaunch) return;
    for (const [key, known] of this.#ranks) {
      if (!known.place.mayLaunch || !descends(pid, known.life.pid)) continue;
      this.#ranks.delete(key);
      this.#looks.set(known.life.pid, limits.processLooksMax);
      this.#parts.gone(known);
    }
  }

  #note(rank: SeenRank, ownPid: number): SeenRank {
    rank.askedAt = this.#nowMs();
    rank.ownPid = ownPid;
    return rank;
  }

  #isKnown(pid: number): boolean {
    for (const { life } of this.#ranks.values()) if (life.pid === pid) return true;
    return false;
  }

  /** The place of a process that is a rank, wanted, and ours to record. */
  #placeOf(pid: number): RankPlace | undefined {
    const user = process.getuid?.();
    if (pid === process.pid || (user !== 0 && userOf(pid) !== user)) return undefined;
    const { environment, run, isWanted } = this.#parts;
    const variables = environmentOf(pid);
    const place = variables && placeOf(variables, environment, run, () => commandOf(pid));
    if (place === undefined) return undefined;
    if ('wrong' in place) {
      this.#say(place.wrong, `process ${pid} is left alone, for its variables make no sense: ${place.wrong}`);
      return undefined;
    }
    const { run: name, rank } = place.options;
    // An agent that a job started is for that job; another job's ranks may be on the same host.
    if (environment.SLURM_JOB_ID && place.job !== environment.SLURM_JOB_ID) return undefined;
    // A pod of Kubernetes may have the variables of a rank, and its launcher with it.
    if (!isWanted(rank) || isOwn(pid) || isLauncher(commandOf(pid))) return undefined;
    const hasMore = place.asksDaemon || place.ringFolder !== undefined || place.dumps !== undefined;
    if (place.sendsItself && !(hasMore && place.options.isRunNamed)) {
      const more = hasMore
        ? 'under a name of its own (no RANKTRACE_RUN)'
        : 'and has nothing for an agent (KINETO_USE_DAEMON=1, RANKTRACE_GPU_DIR, TORCH_NCCL_DEBUG_INFO_PIPE_FILE)';
      this.#say(
        `own ${keyOf(place)}`,
        `rank ${rank} of run "${name}" (process ${pid}) is left alone: it sends its steps itself (RANKTRACE_URL, --url), ${more}`,
      );
      return undefined;
    }
    if (this.#ranks.size >= limits.ranksMax && !this.#ranks.has(keyOf(place))) {
      this.#say('many', `rank ${rank} of run "${name}" is left alone: an agent records ${limits.ranksMax} ranks`);
      return undefined;
    }
    return place;
  }

  #sayWhoIsSilent(): void {
    const now = this.#nowMs();
    for (const rank of this.#ranks.values()) {
      if (rank.askedAt !== undefined || now - rank.seenAt < limits.silentRankMs) continue;
      const { run, rank: number } = rank.place.options;
      this.#say(
        `silent ${rank.life.pid}`,
        `rank ${number} of run "${run}" (process ${rank.life.pid}) cannot be captured so far: ${this.whySilent(rank)}`,
      );
    }
  }

  /** Once for each `key`. */
  #say(key: string, line: string): void {
    if (this.#said.has(key)) return;
    if (this.#said.size >= limits.processesMax) this.#said.clear();
    this.#said.add(key);
    this.#parts.notice(line);
  }
}

/** Whether it is the task of the scheduler that the agent runs in, or a program of the agent's. */
const isOwn = (pid: number): boolean => descends(process.pid, pid) || descends(pid, process.pid);

/** Whether two options name one folder, as with and without a slash at the end. */
const isSameFolder = (a: string | undefined, b: string | undefined): boolean =>
  a === undefined || b === undefined ? a === b : resolve(a) === resolve(b);

const keyOf = ({ options: { run, rank } }: RankPlace): string => `${run} ${rank}`;

function namespaceOf(pid: number): string {
  try {
    return readlinkSync(`/proc/${pid}/ns/net`);
  } catch {
    return '';
  }
}

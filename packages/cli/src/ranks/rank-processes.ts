// The ranks of a run on this host: N child processes of one command, with torchrun's environment.
//
// Each is the head of a process group of its own. So Ctrl-C in a terminal reaches only us, and each rank exactly once, through us: a training loop
// that ends after its step on the first SIGINT and at once on the second would otherwise always end at once.

import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { constants } from 'node:os';
import type { Readable, Writable } from 'node:stream';
import { setTimeout as wait } from 'node:timers/promises';
import type { WriteStream } from 'node:tty';
import type { ProcessExit, RankProcess } from '@ranktrace/aggregator';
import { CliError } from '../terminal/errors.ts';
import { LineOutput } from './line-relay.ts';
import { clearStatus } from './run-status.ts';

export interface RankProcessOptions {
  readonly ranks: number;
  readonly environment: NodeJS.ProcessEnv;
  /** Further variables of each rank, by rank. */
  readonly own?: readonly NodeJS.ProcessEnv[] | undefined;
  /** Stream for the ranks' standard output, a line at a time; standard error goes to ours. */
  readonly output: Writable;
  /** Called at the end of each. */
  readonly onExit?: ((exit: ProcessExit, all: readonly RankProcess[]) => void) | undefined;
}

/** Result of all ranks: the first failure's exit code (128 + n for signal n), 0 when there was none. */
export interface RanksExit {
  readonly code: number;
  readonly reason: string;
  /** Whether a rank that we asked to end did not end well: it died of the signal, as a program without a handler does. */
  readonly isCutShort: boolean;
}

/** Time for ranks to end after a request, ms. */
const graceMs = 10_000;
/** Time for a rank's children to continue writing after the rank has ended, ms. */
const leftBehindMs = 2000;
/** Time between two looks whether a process is left of a rank, ms. */
const groupLookMs = 50;
const portAttempts = 100;

export class RankProcesses {
  /** Resolves when every rank has ended. */
  readonly ended: Promise<RanksExit>;
  readonly started: number;
  /** Ends so far, in their order. */
  readonly exits: ProcessExit[] = [];
  readonly #onExit: RankProcessOptions['onExit'];
  readonly #children: readonly ChildProcess[];
  /** Ranks of which nothing is left that we wait for. */
  readonly #over = new Set<ChildProcess>();
  #stopping = false;

  private constructor(children: readonly ChildProcess[], output: Writable, onExit: RankProcessOptions['onExit']) {
    this.#children = children;
    this.#onExit = onExit;
    this.started = children.length;
    this.ended = this.#watch(output);
    // A rank in a group of its own outlives the terminal; it must not outlive us.
    const killAll = (): void => this.#signal('SIGKILL');
    process.once('exit', killAll);
    void this.ended.finally(() => process.off('exit', killAll));
  }

  /** Throws CliError `bad_input` when the command cannot be started. */
  static async start(command: readonly string[], { ranks, environment, own, output, onExit }: RankProcessOptions): Promise<RankProcesses> {
    const [file, ...args] = command as [string, ...string[]];
    const port = await freePort();
    const children = Array.from({ length: ranks }, (_, rank) => {
      const env = {
        ...environment,
        ...own?.[rank],
        // A person's shell may have those of another rank, which would count more.
        RANKTRACE_RANK: undefined,
        RANKTRACE_WORLD_SIZE: undefined,
        RANK: `${rank}`,
        LOCAL_RANK: `${rank}`,
        WORLD_SIZE: `${ranks}`,
        LOCAL_WORLD_SIZE: `${ranks}`,
        GROUP_RANK: '0',
        MASTER_ADDR: '127.0.0.1',
        MASTER_PORT: `${port}`,
      };
      try {
        return spawn(file, args, { env, stdio: ['ignore', 'pipe', 'pipe'], detached: true });
      } catch (cause) {
        // Not every failure comes as an event: a command without a name, a path through a file.
        throw new CliError('bad_input', `Cannot start "${file}": ${(cause as Error).message}`, { cause });
      }
    });
    const processes = new RankProcesses(children, output, onExit);
    try {
      await Promise.all(children.map((child) => once(child, 'spawn')));
    } catch (cause) {
      processes.stop('SIGTERM');
      throw new CliError('bad_input', `Cannot start "${file}": ${(cause as Error).message}`, { cause });
    }
    return processes;
  }

  /** Those that were started. */
  get all(): readonly RankProcess[] {
    return this.#children.flatMap(({ pid }, rank) => (pid === undefined ? [] : [{ rank, pid }]));
  }

  /** Asks every rank to end; kills the remaining ones after a grace of 10 s. */
  stop(signal: 'SIGINT' | 'SIGTERM'): void {
    if (this.#stopping) return;
    this.#stopping = true;
    this.#signal(signal);
    const timer = setTimeout(() => {
      this.#signal('SIGKILL');
    }, graceMs);
    timer.unref();
  }

  /** Signals each rank and its children: `npm start` must not swallow a signal, and a shell may be gone before its program. */
  #signal(signal: NodeJS.Signals): void {
    for (const child of this.#children) if (!this.#over.has(child)) signalGroup(child, signal);
  }

  async #watch(output: Writable): Promise<RanksExit> {
    const stderr = new LineOutput(process.stderr, clearStatus());
    const isOnTerminal = (output as Partial<WriteStream>).isTTY === true;
    const stdout = output === process.stderr ? stderr : new LineOutput(output, isOnTerminal ? clearStatus() : '');
    let first = { code: 0, reason: 'all ranks ended well' };
    let isCutShort = false;
    const watch = async (child: ChildProcess, rank: number): Promise<void> => {
      const prefix = this.started === 1 ? '' : `[rank ${rank}] `;
      const [out, err] = [child.stdout as Readable, child.stderr as Readable];
      const relayed = Promise.all([stdout.relay(out, prefix), stderr.relay(err, prefix)]);
      const [code, signal] = await new Promise<[number | null, NodeJS.Signals | null]>((resolve) => {
        child.once('exit', (...result) => resolve(result));
        child.once('error', () => resolve([127, null]));
      });
      const how = signal === null ? `ended with exit code ${code}` : `was ended by ${signal}`;
      const exit = { rank, pid: child.pid ?? 0, how, isWell: code === 0, isStopped: this.#stopping };
      this.exits.push(exit);
      this.#onExit?.(exit, this.all);
      if (code !== 0 && this.#stopping) isCutShort = true;
      if (code !== 0 && first.code === 0 && !this.#stopping) {
        first = {
          code: code ?? 128 + constants.signals[signal as NodeJS.Signals],
          reason: `rank ${rank} ${how}${this.started === 1 ? '' : '; the others were stopped'}`,
        };
        this.stop('SIGTERM');
      }
      // A shell that was asked to end is gone before its program, which may still write a checkpoint.
      if (this.#stopping) await groupEnd(child, graceMs);
      // A process that the rank left behind holds its output open, maybe forever: with the rank's end, its output ends, too.
      const ended = await Promise.race([relayed.then(() => true), wait(leftBehindMs, false, { ref: false })]);
      if (this.#stopping || !ended) signalGroup(child, 'SIGKILL');
      this.#over.add(child);
      if (ended) return;
      await Promise.race([relayed, wait(leftBehindMs)]);
      out.destroy();
      err.destroy();
    };
    await Promise.all(this.#children.map(watch));
    return { ...first, isCutShort };
  }
}

/** Resolves when no process of the rank is left, or after `most` ms. */
async function groupEnd({ pid }: ChildProcess, most: number): Promise<void> {
  const until = performance.now() + most;
  while (pid !== undefined && performance.now() < until && isGroupAlive(pid)) await wait(groupLookMs);
}

function isGroupAlive(group: number): boolean {
  try {
    process.kill(-group, 0);
  } catch {
    return false;
  }
  try {
    // The dead count, too, as long as nobody collects them: in a container without an init process, for ever.
    const ids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
    return ids.some((id) => isAliveIn(group, id));
  } catch {
    return true;
  }
}

function isAliveIn(group: number, id: string): boolean {
  try {
    // After the name, which may hold anything: state, parent, group.
    const [state, , own] = readFileSync(`/proc/${id}/stat`, 'latin1').split(') ').at(-1)?.split(' ') ?? [];
    return Number(own) === group && state !== 'Z' && state !== 'X';
  } catch {
    return false;
  }
}

/** Signals a rank and all its children. */
function signalGroup({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, signal);
  } catch {
    // It ended a moment ago.
  }
}

/**
 * A port without a listener, below those that systems give to outgoing connections and to listeners without a port of their own (from 32768 on Linux): a rank
 * listens on it only seconds later, when it has loaded its libraries.
 */
async function freePort(): Promise<number> {
  for (let attempt = 0; attempt < portAttempts; attempt++) {
    const port = 20_000 + Math.floor(Math.random() * 10_000);
    const server = createServer().listen(port, '127.0.0.1');
    const isFree = await once(server, 'listening').then(
      () => true,
      () => false,
    );
    if (!isFree) continue;
    server.close();
    await once(server, 'close');
    return port;
  }
  throw new CliError('failed', 'Cannot find a free port between 20000 and 30000 on 127.0.0.1');
}

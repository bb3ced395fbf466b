// The parts of one round, all real: nats-server, `ranktrace serve`, rank processes, the network between them, disks that can be full.
//
//   rank ──► relay `ranks` ──► nats-server ◄── relay `aggregator` ◄── ranktrace serve        way nats
//   rank ──► relay `ranks` ──────────────────────────────────────► ranktrace serve          way websocket
//
// Invariant: disposing ends every process, closes the relays and unmounts the disks; nothing outlives the round but its folder.

import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { type NatsServer, startNatsServer } from '../setup/nats-server.ts';
import { countable } from '../setup/rank-programs.ts';
import { type CommandResult, repository, type StartedCommand, startCommand, startProgram } from '../setup/ranktrace-command.ts';
import { freePort } from '../setup/server-process.ts';
import { type Fault, type Machine, type Plan, shortExitMs } from './matrix.ts';
import { Relay } from './relay.ts';

export const runName = 'chaos';
/** Time for a process to start, and to end in good order: a hang is a fault, slowness is none. */
export const patienceMs = 120_000;

const diskBytes = { spool: 4 * 2 ** 20, store: 32 * 2 ** 20, broker: 32 * 2 ** 20 } as const;
type Disk = keyof typeof diskBytes;

/** One incarnation of a rank. */
export interface Life {
  readonly rank: number;
  readonly pid: number;
  readonly program: StartedCommand;
  /** Whether the round killed it. */
  killed: boolean;
  /** Its end, once it is over. */
  result: CommandResult | undefined;
}

/**
 * Whether its recording ended before its last batch, as it says on stderr, and may: on a machine that leaves the shipper's thread without a CPU for
 * `exitDeadlineMs` and 250 ms (docs/data-loss.md). With a long deadline that is a fault.
 */
export const wasCutOff = ({ program }: Life, { exitDeadlineMs }: Plan): boolean =>
  exitDeadlineMs <= shortExitMs && program.output().includes('the recording was cut off');

export interface Journal {
  readonly spans: number;
  readonly steps: number;
  /** After each step: the number of spans so far, and the time (`monotonicMs`). */
  readonly lines: readonly { readonly spans: number; readonly ms: number }[];
}

export interface Dropped {
  readonly events: number;
  readonly arguments: number;
  readonly names: number;
  readonly batches: number;
}

/** One rank in `/status`. */
export interface StatusRank {
  readonly rank: number;
  readonly incarnation: string;
  readonly batches: number;
  readonly missing: number;
  readonly dropped: Dropped;
  readonly ended: boolean;
}

/** The time of a fault, `monotonicMs`. */
export interface Window {
  readonly fault: Fault;
  readonly from: number;
  until: number | undefined;
}

/** CLOCK_MONOTONIC, which all processes of the host have in common, ms. */
export const monotonicMs = (): number => Number(process.hrtime.bigint() / 1000n) / 1000;

/** The faults that this machine lets a stage use, found by trying them. */
export function thisMachine(): Machine {
  const works = (command: string, ...args: readonly string[]): boolean => {
    const { status } = spawnSync(command, args, { stdio: 'ignore' });
    return status === 0;
  };
  const folder = mkdtempSync(join(tmpdir(), 'ranktrace-chaos-'));
  const mounts = works('mount', '-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', folder) && works('umount', folder);
  rmSync(folder, { recursive: true });
  return { mounts, limits: works('prlimit', '--pid', `${process.pid}`, '--nofile') };
}

export class Stage implements AsyncDisposable {
  readonly plan: Plan;
  readonly folder: string;
  readonly lives: Life[] = [];
  readonly services: StartedCommand[] = [];
  /** The times of each fault; a lasting one has `until` undefined. */
  readonly windows: Window[] = [];
  /** Functions that heal the faults that last until the ranks have ended. */
  readonly healers: (() => void)[] = [];
  readonly #mounted: string[] = [];
  #broker: NatsServer | undefined;
  #relays: { readonly ranks: Relay; readonly aggregator: Relay | undefined } | undefined;
  #servicePort = 0;

  private constructor(plan: Plan, folder: string) {
    this.plan = plan;
    this.folder = folder;
  }

  /** Starts everything; resolves when all ranks are at work. */
  static async open(plan: Plan, folder: string): Promise<Stage> {
    const stage = new Stage(plan, folder);
    try {
      await stage.#open();
      return stage;
    } catch (error) {
      await stage[Symbol.asyncDispose]();
      throw error;
    }
  }

  get store(): string {
    return join(this.folder, 'store');
  }

  get spool(): string {
    return join(this.folder, 'spool');
  }

  get clockFile(): string {
    return join(this.folder, 'clock.json');
  }

  get serviceAddress(): string {
    return `http://127.0.0.1:${this.#servicePort}`;
  }

  get broker(): NatsServer {
    if (this.#broker === undefined) throw new Error('This round has no broker');
    return this.#broker;
  }

  get relays(): { readonly ranks: Relay; readonly aggregator: Relay | undefined } {
    if (this.#relays === undefined) throw new Error('The stage is not open yet');
    return this.#relays;
  }

  /** The running service, or the last one. */
  get service(): StartedCommand {
    return this.services.at(-1) as StartedCommand;
  }

  /** The running incarnation of a rank, or the last one. */
  life(rank: number): Life {
    return this.lives.findLast((life) => life.rank === rank) as Life;
  }

  journal({ rank, pid }: Pick<Life, 'rank' | 'pid'>): Journal {
    const path = join(this.folder, `${rank}-${pid}.journal`);
    const text = existsSync(path) ? readFileSync(path, 'utf8') : '';
    // A kill may have cut the last line.
    const rows = text
      .slice(0, text.lastIndexOf('\n') + 1)
      .trimEnd()
      .split('\n')
      .filter((row) => row !== '')
      .map((row) => row.split(' ').map(Number) as [number, number, number]);
    const [spans = 0, steps = 0] = rows.at(-1) ?? [];
    return { spans, steps, lines: rows.map(([spans, , ms]) => ({ spans, ms })) };
  }

  /** Restarts the service until it listens, as a supervisor would. */
  async startService(): Promise<void> {
    const nats = this.#relays?.aggregator;
    const args = ['serve', '--listen', `127.0.0.1:${this.#servicePort}`, '--out', this.store];
    if (nats !== undefined) args.push('--nats', `nats://127.0.0.1:${nats.port}`);
    const deadline = performance.now() + patienceMs;
    for (;;) {
      const service = startCommand(args, this.#clockOf('aggregator'));
      this.services.push(service);
      try {
        await service.said('listening on');
        return;
      } catch (error) {
        if (performance.now() > deadline) throw error;
        await setTimeout(200);
      }
    }
  }

  startRank(rank: number): Life {
    const { plan } = this;
    const { ranks: relay } = this.relays;
    const program = startProgram(
      process.execPath,
      ['test/programs/numbered-rank.mjs', this.folder, `${plan.stepMs}`, `${plan.spansPerStepMax}`],
      {
        cwd: repository,
        env: {
          ...process.env,
          ...countable,
          ...{ RANK: `${rank}`, WORLD_SIZE: `${plan.ranks}`, LOCAL_RANK: `${rank}` },
          RANKTRACE_RUN: runName,
          RANKTRACE_URL: `${plan.way === 'nats' ? 'nats' : 'ws'}://127.0.0.1:${relay.port}`,
          RANKTRACE_SPOOL_DIRECTORY: this.spool,
          RANKTRACE_EXIT_DEADLINE_MS: `${plan.exitDeadlineMs}`,
          // A ring of this size is full within a burst.
          ...(plan.faults.some(({ how, part }) => how === 'full' && part === 'ring') && { RANKTRACE_RING_BYTES: `${2 ** 18}` }),
          ...this.#clockOf('ranks'),
        },
        ownGroup: false,
      },
    );
    const life: Life = { rank, pid: program.child.pid as number, program, killed: false, result: undefined };
    void program.ended.then((result) => {
      life.result = result;
    });
    this.lives.push(life);
    return life;
  }

  /** Resolves when `life` has made so many more steps, or is over. */
  async stepsOf(life: Life, more: number): Promise<void> {
    const until = this.journal(life).steps + more;
    const deadline = performance.now() + patienceMs;
    while (this.journal(life).steps < until && life.result === undefined) {
      if (performance.now() > deadline) throw new Error(`rank ${life.rank} made no ${more} steps within ${patienceMs} ms`);
      await setTimeout(25);
    }
  }

  /** The run's ranks in `/status`. */
  async status(): Promise<readonly StatusRank[]> {
    const answer = await fetch(`${this.serviceAddress}/status`);
    const { runs } = (await answer.json()) as { runs: { run: string; ranks: StatusRank[] }[] };
    return runs.find(({ run }) => run === runName)?.ranks ?? [];
  }

  /** Fills the rest of a disk; returns a function that makes room again. */
  fill(disk: Disk): () => void {
    const file = join(this.#diskFolder(disk), 'filler');
    const { bavail, bsize } = statfsSync(this.#diskFolder(disk));
    try {
      // More than there is room for: the free space may have changed meanwhile.
      writeFileSync(file, Buffer.alloc(bavail * bsize + 2 ** 20));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
    }
    return () => rmSync(file);
  }

  /** Keeps the output of the processes beside their files. */
  saveLogs(): void {
    const save = (name: string, text: string): void => writeFileSync(join(this.folder, `${name}.log`), text);
    for (const { rank, pid, program } of this.lives) save(`rank-${rank}-${pid}`, program.output());
    for (const [index, service] of this.services.entries()) save(`service-${index}`, service.output());
    if (this.#broker !== undefined) save('broker', this.#broker.output());
  }

  /** Copies the files on disks that end with the stage. */
  keepDisks(): void {
    for (const folder of this.#mounted) cpSync(folder, `${folder}-kept`, { recursive: true, filter: (path) => !path.endsWith('filler') });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const running = [...this.services, ...this.lives.map(({ program }) => program)];
    for (const { child } of running) if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL');
    await Promise.all(running.map(({ ended }) => ended));
    this.#relays?.ranks[Symbol.dispose]();
    this.#relays?.aggregator?.[Symbol.dispose]();
    await this.#broker?.[Symbol.asyncDispose]();
    this.saveLogs();
    for (const folder of this.#mounted) execFileSync('umount', ['-l', folder]);
  }

  async #open(): Promise<void> {
    const { plan } = this;
    const isFull = (target: Fault['target'], part?: Fault['part']): boolean =>
      plan.faults.some((fault) => fault.target === target && fault.how === 'full' && (part === undefined || fault.part === part));
    const disks: [Disk, boolean][] = [
      ['spool', isFull('disk', 'spool')],
      ['store', isFull('disk', 'store')],
      ['broker', isFull('broker')],
    ];
    for (const [disk, isSmall] of disks) {
      mkdirSync(this.#diskFolder(disk), { mode: 0o700 });
      if (isSmall) this.#mount(disk);
    }
    this.#servicePort = await freePort();
    if (plan.way === 'nats') {
      // The last value in a configuration counts.
      const config = `jetstream { store_dir: "${this.#diskFolder('broker')}", max_mem: 64MB, max_file: 16GB }`;
      this.#broker = await startNatsServer({ config });
      this.#relays = { ranks: await Relay.open(this.#broker.port), aggregator: await Relay.open(this.#broker.port) };
    } else this.#relays = { ranks: await Relay.open(this.#servicePort), aggregator: undefined };
    await this.startService();
    for (let rank = 0; rank < plan.ranks; rank++) this.startRank(rank);
    await Promise.all(this.lives.map((life) => this.stepsOf(life, 30)));
    // While its shipper loads, a killed rank loses all its events: no round covers that.
    const deadline = performance.now() + patienceMs;
    while ((await this.status()).length < plan.ranks) {
      if (performance.now() > deadline) throw new Error(`the service heard not all ranks within ${patienceMs} ms`);
      await setTimeout(50);
    }
  }

  #diskFolder(disk: Disk): string {
    return join(this.folder, disk);
  }

  #mount(disk: Disk): void {
    const folder = this.#diskFolder(disk);
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${diskBytes[disk]},mode=700`, 'tmpfs', folder]);
    this.#mounted.push(folder);
  }

  /** Variables of a process that reads a clock that this round sets. */
  #clockOf(part: Fault['part']): Record<string, string> {
    const isSet = this.plan.faults.some((fault) => fault.target === 'clock' && fault.part === part);
    if (!isSet) return {};
    return { CLOCK_FILE: this.clockFile, NODE_OPTIONS: `--import=${pathToFileURL(join(repository, 'test/programs/stepped-clock.mjs'))}` };
  }
}

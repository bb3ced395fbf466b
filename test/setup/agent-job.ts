// A service, agents and ranks of one job in a temporary directory, for tests of `ranktrace agent`. Disposing ends all of them.

import { randomUUID } from 'node:crypto';
import { chownSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import type { CaptureResult, LiveMessage } from '@ranktrace/protocol';
import { type CommandResult, repository, runCommand, type StartedCommand, startCommand, startProgram } from './ranktrace-command.ts';
import { freePort } from './server-process.ts';
import { runLine } from './warm-command.ts';

/** The collectives of one group and operation in a report. */
export interface ReportedCollectives {
  readonly ranks: number;
  readonly count: number;
  readonly incomplete: number;
  /** Left before the last rank had entered. */
  readonly violations: number;
}

export class AgentJob implements AsyncDisposable {
  readonly run = 'torch-job';
  /** Its agents see its ranks alone: other tests have ranks on this host, too. */
  readonly job = { SLURM_JOB_ID: randomUUID() };
  readonly port: number;
  /** Where PyTorch's ranks meet. */
  readonly #masterPort: number;
  readonly #directory = mkdtempSync(join(tmpdir(), 'ranktrace-agent-'));
  readonly #started: StartedCommand[] = [];

  private constructor(port: number, masterPort: number) {
    this.port = port;
    this.#masterPort = masterPort;
    mkdirSync(this.at('tmp'));
  }

  /** With a service that takes these options, too. */
  static async start(...options: readonly string[]): Promise<AgentJob> {
    const job = new AgentJob(await freePort(), await freePort());
    const serving = startCommand(['serve', '--listen', `127.0.0.1:${job.port}`, '--out', job.at('out'), ...options]);
    job.#started.push(serving);
    await serving.said('listening on http');
    return job;
  }

  at(...parts: string[]): string {
    return join(this.#directory, ...parts);
  }

  get address(): string {
    return `ws://127.0.0.1:${this.port}`;
  }

  /** An agent for these ranks, with a socket folder of its own; `uid`: as this user. */
  async agent(
    url: string,
    folder: string,
    ranks: string,
    environment: Record<string, string> = {},
    uid?: number,
    more: readonly string[] = [],
  ): Promise<StartedCommand> {
    mkdirSync(this.at(folder), { recursive: true });
    if (uid !== undefined) for (const path of [this.at(), this.at(folder)]) chownSync(path, uid, -1);
    const options = ['--url', url, '--run', this.run, '--ranks', ranks, '--socket-dir', this.at(folder), ...more];
    const agent = startCommand(
      ['agent', ...options],
      { RANKTRACE_SPOOL_DIRECTORY: this.at('spool', folder), ...this.job, ...environment },
      { uid },
    );
    this.#started.push(agent);
    await agent.said('answers PyTorch processes');
    return agent;
  }

  /** A rank's process; without `daemon` it does not ask. */
  rank(
    rank: number,
    worldSize: number,
    [python, ...program]: readonly [string, ...string[]],
    {
      folder = 'socket',
      daemon = true,
      environment = {},
      uid,
    }: { folder?: string; daemon?: boolean; environment?: Record<string, string>; uid?: number } = {},
  ): StartedCommand {
    const env = {
      ...process.env,
      ...this.job,
      ...{
        RANK: `${rank}`,
        LOCAL_RANK: `${rank}`,
        WORLD_SIZE: `${worldSize}`,
        MASTER_ADDR: '127.0.0.1',
        MASTER_PORT: `${this.#masterPort}`,
      },
      ...{ KINETO_IPC_SOCKET_DIR: this.at(folder), TMPDIR: this.at('tmp'), ...environment },
      ...(daemon && { KINETO_USE_DAEMON: '1' }),
    };
    const started = startProgram(python, program, { cwd: repository, env, ownGroup: false, uid });
    this.#started.push(started);
    return started;
  }

  capture(...options: readonly string[]): Promise<CommandResult> {
    return runCommand(['capture', '--url', `http://127.0.0.1:${this.port}`, '--run', this.run, '--json', ...options]);
  }

  /** A capture in which every rank has a part: on a machine that is starved, PyTorch may miss the begin of a window, and says so. */
  async wholeCapture(...options: readonly string[]): Promise<CaptureResult> {
    for (let tries = 1; ; tries++) {
      const { stdout, stderr } = await this.capture(...options);
      const result = stdout === '' ? undefined : (JSON.parse(stdout) as CaptureResult);
      if (result?.notes.length === 0) return result;
      if (tries === 4) throw new Error(`No capture of all ranks: ${stdout}${stderr}`);
      console.warn(`Captured again, for not all ranks had a part: ${result?.notes.join('; ') ?? stderr}`);
    }
  }

  /** The ranks that the service knows. */
  async ranks(): Promise<LiveMessage['runs'][number]['ranks']> {
    const { runs } = (await (await fetch(`http://127.0.0.1:${this.port}/status`)).json()) as LiveMessage;
    return runs.find(({ run }) => run === this.run)?.ranks ?? [];
  }

  async untilRanks(isSo: (ranks: LiveMessage['runs'][number]['ranks']) => boolean): Promise<void> {
    while (!isSo(await this.ranks())) await wait(50);
  }

  /** The collectives of a trace, by the report about it. */
  async collectivesOf(path: string): Promise<ReportedCollectives | undefined> {
    const { stdout } = await runLine(['report', path, '--json']);
    return (JSON.parse(stdout) as { collectives: { collectives: ReportedCollectives[] } }).collectives.collectives[0];
  }

  report(): Promise<CommandResult> {
    return runLine(['report', this.at('out'), '--run', this.run]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { child } of this.#started) child.kill('SIGKILL');
    await Promise.all(this.#started.map(({ ended }) => ended));
    rmSync(this.#directory, { recursive: true, force: true });
  }
}

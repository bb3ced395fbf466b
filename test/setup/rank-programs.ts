// Rank processes started by hand, as a launcher on a cluster would: one command, N environments.

import { type ChildProcess, spawn } from 'node:child_process';
import { repository } from './ranktrace-command.ts';
import { freePort } from './server-process.ts';

export interface RankProgram {
  readonly child: ChildProcess;
  /** Exit code, or the signal that ended it, and its output. */
  readonly ended: Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null; readonly output: string }>;
}

/** Nothing that depends on the machine: no garbage collections, no counters of the host, no shed detail. */
export const countable = { RANKTRACE_SAMPLE_INTERVAL_MS: '0', RANKTRACE_OVERHEAD_BUDGET: '1' };

/** Starts `node ARGS…` once per rank, recording what is `countable`. */
export async function startRanks(ranks: number, args: readonly string[], environment: Record<string, string>): Promise<RankProgram[]> {
  const port = await freePort();
  return Array.from({ length: ranks }, (_, rank) => {
    const place = { RANK: `${rank}`, WORLD_SIZE: `${ranks}`, LOCAL_RANK: `${rank}`, MASTER_ADDR: '127.0.0.1', MASTER_PORT: `${port}` };
    const child = spawn(process.execPath, args, {
      cwd: repository,
      env: { ...process.env, ...place, ...countable, ...environment },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream?.setEncoding('utf8').on('data', (text: string) => {
        output += text;
      });
    }
    const ended = new Promise<Awaited<RankProgram['ended']>>((resolve) => {
      child.once('close', (code, signal) => resolve({ code, signal, output }));
    });
    return { child, ended };
  });
}

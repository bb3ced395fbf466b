// The agent: what it takes of a host while nobody captures, beside eight ranks that ask for work every five seconds, as PyTorch's do.
//
//   ranks (test/programs/kineto_rank.py, idle) ──► ranktrace agent ──► ranktrace serve        a minute's CPU time and memory by /proc

import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { type Figure, figure, type NotMeasured } from './figure.ts';
import { freePort } from './free-port.ts';
import { progress } from './turns.ts';

const commandLine = fileURLToPath(new URL('../../packages/cli/dist/main.js', import.meta.url));
const rankProgram = fileURLToPath(new URL('../../test/programs/kineto_rank.py', import.meta.url));
const ranks = 8;
const seconds = 60;
/** Linux counts CPU time in these, whatever its own clock is. */
const ticksPerSecond = 100;

export async function agent(): Promise<(Figure | NotMeasured)[]> {
  if (!existsSync('/proc/self/stat')) return [{ notMeasured: 'the agent', why: 'it finds ranks by /proc, which is Linux' }];
  const directory = mkdtempSync(join(tmpdir(), 'ranktrace-bench-agent-'));
  const children: ChildProcess[] = [];
  const start = (program: string, args: readonly string[], more: NodeJS.ProcessEnv = {}): ChildProcess => {
    const child = spawn(program, args, { env: { ...process.env, ...more }, stdio: ['ignore', 'ignore', 'pipe'] });
    children.push(child);
    return child;
  };
  try {
    const address = `127.0.0.1:${await freePort()}`;
    await said(start(process.execPath, [commandLine, 'serve', '--listen', address, '--out', join(directory, 'out')]), 'listening on');
    const idle = start(process.execPath, ['-e', 'setInterval(() => {}, 1000)']);
    const options = ['--url', `ws://${address}`, '--run', 'idle', '--socket-dir', directory];
    const watched = start(process.execPath, [commandLine, 'agent', ...options], { RANKTRACE_SPOOL_DIRECTORY: join(directory, 'spool') });
    const found = said(watched, `rank ${ranks - 1} of ${ranks}`);
    for (let rank = 0; rank < ranks; rank++) {
      const place = { RANK: `${rank}`, LOCAL_RANK: `${rank}`, WORLD_SIZE: `${ranks}`, MASTER_ADDR: '127.0.0.1' };
      const asking = { KINETO_USE_DAEMON: '1', KINETO_IPC_SOCKET_DIR: directory, ASK_S: '5' };
      start(process.env.PYTHON_BIN ?? 'python3', ['-I', rankProgram], { ...place, ...asking });
    }
    await found;
    // What starts with it is over.
    await wait(15_000);
    progress(`agent: ${seconds} s beside ${ranks} idle ranks`);
    const before = [cpuSeconds(watched), cpuSeconds(idle)] as const;
    await wait(1000 * seconds);
    const share = (child: ChildProcess, since: number): number => (100 * (cpuSeconds(child) - since)) / seconds;
    return [
      figure({
        ...{ name: `CPU of an idle agent beside ${ranks} ranks, of one core`, unit: '%', value: share(watched, before[0]) },
        target: { at: 'most', value: 0.5, of: 'value' },
      }),
      figure({
        ...{ name: 'memory of the agent', unit: 'MiB', value: residentMiB(watched) },
        baseline: { name: 'an idle node process', value: residentMiB(idle) },
        target: { at: 'most', value: 100, of: 'value' },
      }),
    ];
  } finally {
    for (const child of children) child.kill('SIGKILL');
    rmSync(directory, { recursive: true, force: true });
  }
}

function said(child: ChildProcess, text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    let all = '';
    child.stderr?.setEncoding('utf8').on('data', (part: string) => {
      all += part;
      if (all.includes(text)) resolve();
    });
    child.once('exit', (code) => reject(new Error(`It ended with ${code} and never said "${text}":\n${all}`)));
  });
}

/** User and system time of a process, s (proc(5), stat: the 14th and 15th field). */
function cpuSeconds({ pid }: ChildProcess): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) / ticksPerSecond;
}

const residentMiB = ({ pid }: ChildProcess): number =>
  Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;

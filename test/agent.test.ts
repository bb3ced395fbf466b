// `ranktrace agent` beside ranks of PyTorch: a real agent and service, over both transports. The ranks speak Kineto's messages as torch does
// (test/programs/kineto_rank.py); test/agent-torch.test.ts has real torch.

import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import type { CaptureResult, LiveMessage } from '@ranktrace/protocol';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { startNatsServer } from './setup/nats-server.ts';
import { repository, runCommand, type StartedCommand, startCommand, startProgram } from './setup/ranktrace-command.ts';
import { freePort } from './setup/server-process.ts';

const run = 'torch-job';
let directory: string;
let started: StartedCommand[] = [];

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'ranktrace-agent-'));
});
afterEach(async () => {
  for (const { child } of started) child.kill('SIGKILL');
  await Promise.all(started.map(({ ended }) => ended));
  started = [];
  rmSync(directory, { recursive: true, force: true });
});

const at = (...parts: string[]): string => join(directory, ...parts);

async function service(port: number, ...options: readonly string[]): Promise<void> {
  const serving = startCommand(['serve', '--listen', `127.0.0.1:${port}`, '--out', at('out'), ...options]);
  started.push(serving);
  await serving.said('listening on http');
}

/** An agent for these ranks, with a socket folder of its own. */
async function startAgent(url: string, name: string, ranks: string, environment: Record<string, string> = {}): Promise<StartedCommand> {
  mkdirSync(at(name), { recursive: true });
  mkdirSync(at('tmp'), { recursive: true });
  const options = ['--url', url, '--run', run, '--ranks', ranks, '--socket-dir', at(name)];
  const agent = startCommand(['agent', ...options], { RANKTRACE_SPOOL_DIRECTORY: at('spool', name), ...environment });
  started.push(agent);
  await agent.said('answers PyTorch processes');
  return agent;
}

interface RankOptions {
  readonly worldSize: number;
  readonly folder: string;
  readonly mode?: string;
  readonly daemon?: boolean;
}

function startRank(rank: number, { worldSize, folder, mode = 'normal', daemon = true }: RankOptions): StartedCommand {
  const env = {
    ...process.env,
    ...{ RANK: `${rank}`, LOCAL_RANK: `${rank}`, WORLD_SIZE: `${worldSize}`, MASTER_ADDR: '127.0.0.1', MASTER_PORT: '29500' },
    ...{ KINETO_IPC_SOCKET_DIR: at(folder), TMPDIR: at('tmp'), MODE: mode },
    ...(daemon && { KINETO_USE_DAEMON: '1' }),
  };
  const child = startProgram(process.env.PYTHON_BIN ?? 'python3', ['-I', 'test/programs/kineto_rank.py'], {
    cwd: repository,
    env,
    ownGroup: false,
  });
  started.push(child);
  return child;
}

async function until(isSo: () => Promise<boolean>): Promise<void> {
  while (!(await isSo())) await wait(50);
}

const ranksSeen = async (port: number): Promise<number> => {
  const { runs } = (await (await fetch(`http://127.0.0.1:${port}/status`)).json()) as LiveMessage;
  return runs.find((one) => one.run === run)?.ranks.length ?? 0;
};

const capture = (port: number, ...options: readonly string[]) =>
  runCommand(['capture', '--url', `http://127.0.0.1:${port}`, '--run', run, '--json', ...options]);

interface Collectives {
  readonly ranks: number;
  readonly count: number;
  readonly incomplete: number;
  /** Left before the last rank had entered. */
  readonly violations: number;
}

/** The collectives of a trace, by the report about it. */
async function collectivesOf(path: string): Promise<Collectives> {
  const { stdout } = await runCommand(['report', path, '--json']);
  const [line] = (JSON.parse(stdout) as { collectives: { collectives: Collectives[] } }).collectives.collectives;
  return line as Collectives;
}

test('records a window of all ranks at one moment, and matches collectives that files of unequal length count differently', async () => {
  const port = await freePort();
  await service(port);
  const agent = await startAgent(`ws://127.0.0.1:${port}`, 'socket', '0-3');
  const ranks = [0, 1, 2, 3].map((rank) => startRank(rank, { worldSize: 4, folder: 'socket' }));
  await until(async () => (await ranksSeen(port)) === 4);
  const first = await capture(port, '--seconds', '1');
  const result = JSON.parse(first.stdout) as CaptureResult;
  expect(result).toMatchObject({ run, ranks: [0, 1, 2, 3], late: [], dead: [], notes: [] });
  expect(result.window).toMatchObject({ seconds: 1 });
  // 50 in a second; the files end up to 7 of them early.
  const collectives = await collectivesOf(result.path);
  expect(collectives).toMatchObject({ ranks: 4, violations: 0, incomplete: 6 });
  expect(collectives.count).toBeGreaterThan(35);
  // The agent removes what it has read.
  for (const folder of readdirSync(at('tmp'))) expect(readdirSync(at('tmp', folder))).toEqual([]);

  // Steps: none is known, so it is a window of two seconds.
  const second = await capture(port, '--steps', '3');
  expect(JSON.parse(second.stdout)).toMatchObject({ ranks: [0, 1, 2, 3], window: { seconds: 2 } });

  for (const { child } of ranks) child.kill('SIGTERM');
  await agent.said('rank 3 of run "torch-job" ended with its run');
  agent.child.kill('SIGTERM');
  expect(await agent.ended).toMatchObject({ code: 0 });
  const report = await runCommand(['report', at('out'), '--run', run]);
  expect(report).toMatchObject({ code: 0, stdout: expect.stringContaining('nothing was lost') });
});

test('names each rank that has no part, with the reason, and waits for none of them', async () => {
  const port = await freePort();
  await service(port);
  const agent = await startAgent(`ws://127.0.0.1:${port}`, 'socket', '0-5');
  const modes = ['normal', 'killed', 'late', 'silent', 'link', 'cut', 'huge'];
  for (const [rank, mode] of modes.entries()) startRank(rank, { worldSize: 7, folder: 'socket', mode, daemon: mode !== 'silent' });
  // The last one is another agent's, which is not there.
  await until(async () => (await ranksSeen(port)) === 6);
  const before = performance.now();
  const captured = await capture(port, '--seconds', '1');
  expect(performance.now() - before).toBeLessThan(60_000);
  expect(captured.code).toBe(1);
  const { ranks, late, dead, notes } = JSON.parse(captured.stdout) as CaptureResult;
  expect(ranks).toEqual([0]);
  expect([...late, ...dead].sort()).toEqual([1, 2, 3, 4, 5, 6]);
  expect(notes).toEqual([
    expect.stringMatching(/^rank 1 .*it ended before its file was complete/),
    expect.stringMatching(/^rank 2 .*it did not ask in time|^rank 2 .*has not loaded torch yet/),
    expect.stringMatching(/^rank 3 .*its environment has no KINETO_USE_DAEMON=1/),
    expect.stringMatching(/^rank 4 .*Cannot read trace ".*": it is a link/),
    expect.stringMatching(/^rank 5 .*it ended before its file was complete/),
    expect.stringMatching(/^rank 6: nothing came from it yet/),
  ]);
  expect(agent.output()).toContain('rank 4 of run "torch-job" has no part in the window');
});

test('two hosts with clocks of their own, over NATS whose broker is killed and restarted in the midst: nothing is lost, nothing is there twice', async () => {
  await using server = await startNatsServer();
  const port = await freePort();
  await service(port, '--nats', server.url);
  const clock = (offset: number, host: string) => ({ RANKTRACE_TEST_CLOCK: `offset_ns=${offset},drift_ppm=0,host=${host}` });
  const agents = await Promise.all([
    startAgent(server.url, 'a', '0-1', clock(7_000_000_000_000, 'host-a')),
    startAgent(server.url, 'b', '2-3', clock(90_000_000_000, 'host-b')),
  ]);
  const ranks = [0, 1, 2, 3].map((rank) => startRank(rank, { worldSize: 4, folder: rank < 2 ? 'a' : 'b' }));
  await until(async () => (await ranksSeen(port)) === 4);
  const capturing = capture(port, '--seconds', '1');
  await Promise.all(ranks.map((rank) => rank.said('asked')));
  await server.kill9();
  await Promise.all(ranks.map((rank) => rank.said('written')));
  await server.restart();
  const captured = await capturing;
  const result = JSON.parse(captured.stdout) as CaptureResult;
  expect(result).toMatchObject({ ranks: [0, 1, 2, 3], late: [], dead: [], notes: [] });
  // Their own moments lie within half of a round trip, and within their readings of the wall clock.
  expect(result.window?.overlap).toBeGreaterThan(0.7);
  const collectives = await collectivesOf(result.path);
  expect(collectives).toMatchObject({ ranks: 4, violations: 0 });
  expect(collectives.count).toBeGreaterThan(35);

  for (const { child } of ranks) child.kill('SIGTERM');
  for (const [index, agent] of agents.entries()) {
    await agent.said(`rank ${2 * index + 1} of run "${run}" ended with its run`);
    agent.child.kill('SIGTERM');
    expect(await agent.ended).toMatchObject({ code: 0 });
  }
  await until(async () => {
    const { runs } = (await (await fetch(`http://127.0.0.1:${port}/status`)).json()) as LiveMessage;
    return runs.find((one) => one.run === run)?.ranks.every(({ ended }) => ended) === true;
  });
  // Each rank's last batch says what it recorded: the report compares.
  const report = await runCommand(['report', at('out'), '--run', run]);
  expect(report).toMatchObject({ code: 0, stdout: expect.stringContaining('nothing was lost') });
});

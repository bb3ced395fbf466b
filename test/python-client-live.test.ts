// Ranks in Python, live: over WebSocket and NATS, through killed receivers, and killed themselves. What they counted is what is stored, once.

import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { LiveMessage } from '@ranktrace/protocol';
import { nkeys } from 'nats';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { startNatsServer } from './setup/nats-server.ts';
import { type CommandResult, repository, type StartedCommand, startCommand, startProgram } from './setup/ranktrace-command.ts';
import { freePort } from './setup/server-process.ts';
import { runLine } from './setup/warm-command.ts';

const run = 'snake';
const steps = 400;
/** A step has the step itself, three spans, a collective and a counter. */
const eventsPerStep = 6;
let directory: string;
let service: StartedCommand | undefined;
const started: StartedCommand[] = [];

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'ranktrace-python-'));
});
afterEach(async () => {
  service?.child.kill('SIGKILL');
  await service?.ended;
  service = undefined;
  // Ranks of a test that failed may wait for ever.
  for (const { child } of started.splice(0)) child.kill('SIGKILL');
  rmSync(directory, { recursive: true, force: true });
});

const out = (): string => join(directory, 'out');
const spool = (): string => join(directory, 'spool');
/** Ranks wait half way for this file. */
const restarted = (): string => join(directory, 'restarted');

function startRank(
  rank: number,
  worldSize: number,
  environment: Record<string, string>,
  line: readonly string[] = ['-I', 'test/programs/python_rank.py'],
): StartedCommand {
  const env = {
    ...process.env,
    RANK: `${rank}`,
    WORLD_SIZE: `${worldSize}`,
    RANKTRACE_RUN: run,
    RANKTRACE_SPOOL_DIRECTORY: spool(),
    // Events are counted: how often the host is sampled depends on how long the rank runs.
    RANKTRACE_SAMPLE_INTERVAL_MS: '0',
    STEPS: `${steps}`,
    ...environment,
  };
  const command = startProgram(process.env.PYTHON_BIN ?? 'python3', line, { cwd: repository, env, ownGroup: false });
  started.push(command);
  return command;
}

async function serve(port: number, ...options: readonly string[]): Promise<void> {
  service = startCommand(['serve', '--listen', `127.0.0.1:${port}`, '--out', out(), ...options]);
  await service.said('listening on http');
}

async function ranksAt(port: number): Promise<LiveMessage['runs'][number]['ranks']> {
  const { runs } = (await (await fetch(`http://127.0.0.1:${port}/status`)).json()) as LiveMessage;
  return runs.find((one) => one.run === run)?.ranks ?? [];
}

async function until(isSo: () => Promise<boolean>): Promise<void> {
  while (!(await isSo())) await new Promise((resolve) => setTimeout(resolve, 50));
}

/** Every event of `ranks` ranks is stored once, and no rank counted a loss. */
async function expectWhole(ranks: number, stderr: readonly CommandResult[]): Promise<void> {
  for (const one of stderr) expect(one).toMatchObject({ code: 0, stderr: expect.not.stringMatching(/(?<!connection )lost/) });
  const { code, stdout } = await runLine(['report', out(), '--run', run]);
  expect({ code, stdout }).toMatchObject({ code: 0, stdout: expect.stringContaining('nothing was lost') });
  expect(stdout.replaceAll(' ', ' ')).toContain(
    `${ranks} of ${ranks} ranks on 1 host, ${(ranks * steps * eventsPerStep).toLocaleString('en').replaceAll(',', ' ')} events`,
  );
  // Acknowledged batches left the spool.
  if (existsSync(spool())) expect(readdirSync(spool())).toEqual([]);
}

test('over WebSocket, with a service that is killed and started again', async () => {
  const port = await freePort();
  await serve(port);
  const ranks = [0, 1].map((rank) => startRank(rank, 2, { RANKTRACE_URL: `ws://127.0.0.1:${port}`, UNTIL: restarted() }));
  await until(async () => (await ranksAt(port)).filter(({ step }) => step > 50).length === 2);
  service?.child.kill('SIGKILL');
  await service?.ended;
  await serve(port);
  // A rank that ends does not wait for a receiver that is away.
  await Promise.all(ranks.map((rank) => rank.said('back at')));
  writeFileSync(restarted(), '');
  const ended = await Promise.all(ranks.map((rank) => rank.ended));
  await until(async () => (await ranksAt(port)).filter((rank) => rank.ended).length === 2);
  await expectWhole(2, ended);
});

test.each(['ws', 'nats', 'files'])('with over 1,024 open files at the start: %s', async (transport) => {
  await using broker = transport === 'nats' ? await startNatsServer() : undefined;
  const port = await freePort();
  if (transport !== 'files') await serve(port, ...(broker === undefined ? [] : ['--nats', broker.url]));
  const url = transport === 'files' ? { RANKTRACE_DIRECTORY: out() } : { RANKTRACE_URL: broker?.url ?? `ws://127.0.0.1:${port}` };
  const program = `import os, resource, runpy, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
runpy.run_path("test/programs/python_rank.py", run_name="__main__")
`;
  const ended = await startRank(0, 1, { ...url, RANKTRACE_EXIT_DEADLINE_MS: '30000' }, ['-I', '-c', program]).ended;
  expect(ended.stderr).not.toContain('sending failed');
  if (transport !== 'files') await until(async () => (await ranksAt(port)).some((rank) => rank.ended));
  await expectWhole(1, [ended]);
});

test('over NATS with an NKey, with a broker that is killed and started again', async () => {
  const user = nkeys.createUser();
  const seed = new TextDecoder().decode(user.getSeed());
  const config = `authorization { users: [ { nkey: ${user.getPublicKey()} } ] }`;
  await using broker = await startNatsServer({ config });
  const port = await freePort();
  process.env.RANKTRACE_NATS_NKEY = seed;
  await serve(port, '--nats', broker.url);
  delete process.env.RANKTRACE_NATS_NKEY;
  const ranks = [0, 1].map((rank) => startRank(rank, 2, { RANKTRACE_URL: broker.url, RANKTRACE_NATS_NKEY: seed, UNTIL: restarted() }));
  await until(async () => (await ranksAt(port)).filter(({ step }) => step > 50).length === 2);
  await broker.kill9();
  await broker.restart();
  await Promise.all(ranks.map((rank) => rank.said('back at')));
  writeFileSync(restarted(), '');
  const ended = await Promise.all(ranks.map((rank) => rank.ended));
  await until(async () => (await ranksAt(port)).filter((rank) => rank.ended).length === 2);
  await expectWhole(2, ended);
});

test('a killed rank shows its open span, and its next life ships what it left', async () => {
  const nowhere = `ws://127.0.0.1:${await freePort()}`;
  const { signal } = await startRank(0, 1, { RANKTRACE_URL: nowhere, KILL_AT: '40' }).ended;
  expect(signal).toBe('SIGKILL');
  const port = await freePort();
  await serve(port);
  const { code } = await startRank(0, 1, { RANKTRACE_URL: `ws://127.0.0.1:${port}`, STEPS: '10' }).ended;
  expect(code).toBe(0);
  const { stdout } = await runLine(['report', out(), '--run', run]);
  // 40 and 10 steps; then data and layer, which ended, and forward, which did not.
  expect(stdout).toContain(`1 of 1 ranks in 2 lives on 1 host, ${50 * eventsPerStep + 3} events`);
  expect(stdout).toContain('stopped without saying goodbye');
});

test.each([
  ['a placed rank', {}],
  ['a program that no launcher placed', { RANK: '', WORLD_SIZE: '' }],
])('a program with a profile of its own is the same under python -m ranktrace: %s', async (_, environment) => {
  const port = await freePort();
  await serve(port);
  const env = { RANKTRACE_URL: `ws://127.0.0.1:${port}`, PYTHONPATH: join(repository, 'clients/python'), ...environment };
  const { code, stderr } = await startRank(0, 1, env, ['-m', 'ranktrace', 'test/programs/python_rank.py']).ended;
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  await expectWhole(1, []);
  const { stdout } = await runLine(['report', out(), '--run', run]);
  expect(stdout).toMatch(/^steps: 400, /m);
  const odd = await startRank(0, 1, { ...env, STEPS: '3', PROFILE: '{"run": "another", "batch": 1}' }, [
    '-m',
    'ranktrace',
    'test/programs/python_rank.py',
  ]).ended;
  expect(odd.code).toBe(1);
  const named = await startRank(0, 1, { ...env, STEPS: '3', PROFILE: '{"run": "another"}' }, [
    '-m',
    'ranktrace',
    'test/programs/python_rank.py',
  ]).ended;
  expect(named).toMatchObject({ code: 0, stderr: expect.stringContaining('of its profile() this is ignored: run ') });
});

test('wrong options are one line before the program runs; nothing later raises', async () => {
  const { code, stderr } = await startRank(3, 2, {}).ended;
  expect(code).toBe(1);
  expect(stderr).toContain('Bad variable RANK 3: it must be below the world size, 2');
  const unwritable = await startRank(0, 1, {
    RANKTRACE_SPOOL_DIRECTORY: '/proc/none',
    RANKTRACE_URL: 'ws://127.0.0.1:1',
    STEPS: '5',
    RANKTRACE_EXIT_DEADLINE_MS: '0',
  }).ended;
  expect(unwritable).toMatchObject({ code: 0, stderr: expect.stringContaining('batches are held in memory') });
});

test('of ranks that hang, the one that did not come as far in its step is named, with the place of each', async () => {
  const port = await freePort();
  const config = join(directory, 'alerts.yml');
  writeFileSync(config, 'rules:\n  hang: { after: 1s }\n');
  await serve(port, '--config', config);
  const environment = { RANKTRACE_URL: `ws://127.0.0.1:${port}`, UNTIL: restarted() };
  const ranks = ['in forward', 'in forward', 'after data'].map((place, rank) => startRank(rank, 3, { ...environment, WAITS: place }));
  // It may fire before all of them have told where they are.
  const alerts = async (): Promise<string> => (await runLine(['alerts', '--url', `http://127.0.0.1:${port}`])).stdout;
  const cause = ' {2}cause: hang: rank 2 is in step 200, after data; ranks 0, 1 are in forward of step 200';
  await expect.poll(alerts).toMatch(new RegExp(`after step 199; .*; rank 2 did not come as far as the others\n(.*\n)*?${cause}$`, 'm'));
  // They are ended in it, and say goodbye: it stays what is said of the run.
  for (const { child } of ranks) child.kill('SIGTERM');
  await Promise.all(ranks.map(({ ended }) => ended));
  await service?.said('hang resolved');
  const { stdout: report } = await runLine(['report', out()]);
  expect(report).toMatch(/^in short: hang: no rank has ended a step for .*; rank 2 did not come as far as the others$/m);
});

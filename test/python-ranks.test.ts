// Ranks that no launcher started, under `python -m ranktrace`: processes of the program itself, and programs that are told their rank by an argument.

import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, type TestContext, test } from 'vitest';
import { type CommandResult, repository, runCommand, startProgram } from './setup/ranktrace-command.ts';
import { freePort } from './setup/server-process.ts';
import { findTorch } from './setup/torch-python.ts';
import { readRun } from './setup/trace-events.ts';

const torch = findTorch();
const root = mkdtempSync(join(tmpdir(), 'ranktrace-ranks-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

/** Steps of test/programs/torch_spawned.py. */
const steps = 12;

function run(python: string, directory: string, program: string, args: readonly string[] = [], about = {}): Promise<CommandResult> {
  const env = { ...process.env, ...about, PYTHONPATH: join(repository, 'clients/python'), RANKTRACE_DIRECTORY: directory };
  const line = ['-m', 'ranktrace', join(repository, 'test/programs', program), ...args];
  return startProgram(python, line, { cwd: root, env, ownGroup: false }).ended;
}

function pythonOf(context: TestContext): string {
  if (torch !== undefined) return torch.python;
  context.task.meta.impossibleHere = 'no Python here has torch; RANKTRACE_TORCH_PYTHON names one that has';
  return context.skip();
}

/** All that they did is recorded. */
async function expectBothRanks(directory: string, run: string): Promise<void> {
  const { events, processes, findings } = await readRun(directory, run);
  expect(processes.map(({ rank }) => rank)).toEqual([0, 1]);
  expect(findings).toEqual([]);
  for (const rank of [0, 1]) {
    const of = events.filter((event) => event.rank === rank);
    expect(of.filter(({ kind }) => kind === 'step').map(({ step }) => step)).toEqual(Array.from({ length: steps }, (_, step) => step));
    for (const name of ['data', 'backward', 'optimizer'])
      expect(of.filter((event) => event.name === name).length).toBeGreaterThanOrEqual(steps);
    const collectives = of.filter(({ kind }) => kind === 'collective');
    expect(collectives.filter(({ group }) => group === 'DDP')).toHaveLength(steps);
    // Its name was bound by then, too.
    expect(collectives.filter(({ group, name }) => group !== 'DDP' && name.startsWith('all_reduce'))).toHaveLength(1);
  }
}

test.for(['mp.spawn', 'after-batch', 'spawn', 'fork', 'alone', 'placed'])(
  'ranks that are made by %s are one run, and have all their steps',
  async (how, context) => {
    const python = pythonOf(context);
    const directory = join(root, how);
    const port = `${await freePort()}`;
    const program = (rank: number, about = {}) => run(python, directory, 'torch_spawned.py', [how, port, `${rank}`], about);
    // A launcher that names no run, or none: each rank is a program of its own.
    const programs = {
      placed: () => [0, 1].map((rank) => program(rank, { RANK: `${rank}`, WORLD_SIZE: '2' })),
      alone: () => [0, 1].map((rank) => program(rank)),
    };
    const started = how === 'placed' || how === 'alone' ? programs[how]() : [program(0)];
    for (const { code, stderr } of await Promise.all(started))
      expect([code, stderr], stderr).toEqual([0, expect.not.stringContaining('ranktrace:')]);
    const runs = readdirSync(directory);
    expect(runs).toHaveLength(1);
    await expectBothRanks(directory, runs[0] as string);
  },
);

test.for(['mp.spawn', 'spawn', 'fork', 'placed'])('the error that ends a rank that is made by %s is told', async (how, context) => {
  const python = pythonOf(context);
  const directory = join(root, `failed-${how}`);
  const port = `${await freePort()}`;
  const fails = { FAILS: '1', RANKTRACE_RUN: 'failed' };
  const program = (rank: number, about = {}) => run(python, directory, 'torch_spawned.py', [how, port, `${rank}`], { ...fails, ...about });
  const ended = how === 'placed' ? [0, 1].map((rank) => program(rank, { RANK: `${rank}`, WORLD_SIZE: '2' })) : [program(0)];
  expect(Math.max(...(await Promise.all(ended)).map(({ code }) => code ?? 0))).toBe(1);
  expect((await readRun(join(directory, 'failed'), 'failed')).findings).toContain('rank 1 failed: ValueError: bad batch');
});

test('ranks of a program that trained before are a run of their own, and so is the program', async (context) => {
  const directory = join(root, 'apart');
  const { code, stderr } = await run(pythonOf(context), directory, 'torch_spawned.py', ['after-training', `${await freePort()}`, '0'], {
    RANKTRACE_RUN: 'night',
  });
  expect(code, stderr).toBe(0);
  expect(stderr).toContain('this program trained before it started its ranks: they are the run "night-ranks"');
  expect(readdirSync(directory).sort()).toEqual(['night', 'night-ranks']);
  await expectBothRanks(directory, 'night-ranks');
  const { events, processes, findings } = await readRun(directory, 'night');
  expect(processes.map(({ rank }) => rank)).toEqual([0]);
  expect(findings).toEqual([]);
  const stepsOf = events.filter(({ kind }) => kind === 'step');
  expect(stepsOf).toHaveLength(steps);
  // Recording begins with training, and the first step with the batch that came before.
  const data = events.filter(({ name }) => name === 'data');
  expect(data.length).toBeGreaterThanOrEqual(steps);
  expect(data[0]?.start).toBe(stepsOf[0]?.start);
});

test('ranks that a program makes under `ranktrace run` are those of its run', async (context) => {
  const line = [
    pythonOf(context),
    '-m',
    'ranktrace',
    join(repository, 'test/programs/torch_spawned.py'),
    'mp.spawn',
    `${await freePort()}`,
  ];
  const { code, stdout, stderr } = await runCommand(['run', '--name', 'made', '--out', join(root, 'made'), '--json', '--', ...line, '0'], {
    PYTHONPATH: join(repository, 'clients/python'),
  });
  expect(code, stderr).toBe(0);
  expect(stdout).toMatch(/"run":"made","worldSize":2,/);
});

test('processes that are no ranks run as without the client, and nothing is recorded of them', async () => {
  const python = process.env.PYTHON_BIN ?? 'python3';
  const directory = join(root, 'none');
  const { code, stdout, stderr } = await run(python, directory, 'processes.py');
  const each = '(9, 7), [16], [25]';
  expect([code, stdout.trim(), stderr]).toEqual([0, `[${each}, ${each}, ${each}, [6]]`, '']);
  expect(() => readdirSync(directory)).toThrow('ENOENT');
});

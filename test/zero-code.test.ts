// `node --import @ranktrace/sdk/register`: programs without any ranktrace code are recorded, and behave the same.

import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { repository, runCommand } from './setup/ranktrace-command.ts';
import { type ReadEvent, readRun } from './setup/trace-events.ts';

const register = ['--import', '@ranktrace/sdk/register'];
let directory: string;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'ranktrace-zero-code-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

interface Ending {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs `node ARGS…` in the repository's root, to its end. */
function node(args: readonly string[], environment: Record<string, string> = {}): Promise<Ending> {
  const child = spawn(process.execPath, args, {
    cwd: repository,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, RANKTRACE_DIRECTORY: directory, RANKTRACE_RUN: 'test', ...environment },
  });
  const said = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8').on('data', (text: string) => {
      said[name] += text;
    });
  }
  return new Promise((resolve) => child.on('close', (code) => resolve({ code, ...said })));
}

const train = (...counts: number[]): string[] => ['test/programs/train.mjs', ...counts.map(String)];
const read = (run = 'test') => readRun(join(directory, run), run);
const steps = (events: readonly ReadEvent[]): string[] => events.filter(({ kind }) => kind === 'step').map(({ name }) => name);
const stepNames = (count: number): string[] => Array.from({ length: count }, (_, step) => `ProfilerStep#${step}`);
const count = (events: readonly ReadEvent[], name: string): number =>
  events.filter((event) => event.category === 'cpu_op' && event.name === name).length;
/** tfjs' own output on stderr in node, with or without us. */
const greeting = /={10,}\n[^=]*={10,}\n/;

test('each update of weights is a step, and every op is recorded', async () => {
  const { code, stdout, stderr } = await node([...register, ...train(7, 5, 4)]);
  expect({ code, stdout, stderr: stderr.replace(greeting, '').trim() }).toEqual({ code: 0, stdout: 'trained 7 5 4\n', stderr: '' });
  const { events, findings } = await read();
  expect(steps(events)).toEqual(stepNames(16));
  // Forward once in each of the loops' steps, and once for the gradient of the weights; two and one or two in fit's.
  const before = events.filter(({ name, start }) => name === 'BatchMatMul' && start < stepEnd(events, 11));
  expect(before).toHaveLength(24);
  expect(findings).toEqual([]);
});

test('a loop that never lets go of the thread is recorded from its first step', async () => {
  await node([...register, ...train(1, 0, 0)]);
  const { events } = await read();
  expect(steps(events)).toEqual(stepNames(1));
  expect(count(events, 'BatchMatMul')).toBe(2);
});

test('without tfjs there are no steps, and a program ends as it wants', async () => {
  const { code, stderr } = await node([...register, '--input-type=module', '-e', 'process.exitCode = 3; setTimeout(() => {}, 50)']);
  expect({ code, stderr }).toEqual({ code: 3, stderr: '' });
  const { events, findings } = await read();
  expect(steps(events)).toEqual([]);
  expect(findings).toEqual(['rank 0 failed: exit code 3']);
});

test('an exception ends the program as without', async () => {
  const { code, stderr } = await node([...register, '--input-type=module', '-e', 'setTimeout(() => { throw new Error("mine"); }, 20)']);
  expect(code).toBe(1);
  expect(stderr).toContain('Error: mine');
  expect((await read()).findings).toEqual(['rank 0 failed: Error: mine']);
});

const withLayers = { RANKTRACE_WITH_STACK: 'true', RANKTRACE_WITH_MODULES: 'true' };
const forwardOps = (events: readonly ReadEvent[]): readonly ReadEvent[] =>
  events.filter(({ category, arguments: args }) => category === 'cpu_op' && args['Fwd thread id'] === undefined);

test('stacks and layers of a model.fit are those of its first batch on', async () => {
  await node([...register, ...train(0, 0, 10)], withLayers);
  const { events } = await read();
  expect(steps(events)).toEqual(stepNames(10));
  const begin = events.find(({ name }) => name === 'ProfilerStep#0')?.start ?? 0;
  const layers = new Set(
    events.filter(({ name }) => name === '_FusedMatMul' || name === 'BatchMatMul').map(({ arguments: args }) => args['Module Hierarchy']),
  );
  expect([...layers].filter((layer) => layer !== undefined)).toEqual(['sequential_1.dense_Dense1']);
  const inSteps = forwardOps(events).filter(({ start }) => start > begin);
  expect(inSteps.length).toBeGreaterThan(50);
  const lost = inSteps.filter(({ arguments: args }) => args['Call stack'] === undefined);
  expect(lost.map(({ name }) => name)).toEqual([]);
});

test('also in a worker thread', async () => {
  await node([...register, 'test/programs/fit-in-thread.mjs'], withLayers);
  const { events } = await read();
  const layers = new Set(events.map(({ arguments: args }) => args['Module Hierarchy']));
  expect([...layers].filter((layer) => layer !== undefined)).toEqual(['net.out']);
});

test('the environment has the options: schedule, shapes, and a trace for each cycle', async () => {
  const traces = join(directory, 'traces');
  const { code } = await node([...register, ...train(6, 0, 0)], {
    RANKTRACE_SCHEDULE: 'wait=1,warmup=1,active=2,repeat=1',
    RANKTRACE_RECORD_SHAPES: 'true',
    RANKTRACE_TENSORBOARD_DIRECTORY: traces,
  });
  expect(code).toBe(0);
  const { events } = await read();
  expect(steps(events)).toEqual(stepNames(6));
  expect(count(events, 'BatchMatMul')).toBe(4);
  expect(events.find(({ name }) => name === 'BatchMatMul')?.arguments['Input Dims']).toBe('[[8,4],[4,1]]');
  expect(readdirSync(traces)).toHaveLength(1);
});

test('without a schedule the one cycle ends with the program', async () => {
  const traces = join(directory, 'traces');
  await node([...register, ...train(2, 0, 0)], { RANKTRACE_TENSORBOARD_DIRECTORY: traces });
  expect(readdirSync(traces)).toHaveLength(1);
  expect((await read()).findings).toEqual([]);
});

test('gives way to a profile of the program’s own', async () => {
  const { code, stdout, stderr } = await node([...register, 'test/programs/train-with-profile.mjs']);
  expect({ code, stdout, stderr: stderr.replace(greeting, '').trim() }).toEqual({ code: 0, stdout: 'steps: 2\n', stderr: '' });
  const own = await read('own');
  expect(steps(own.events)).toEqual(stepNames(2));
  expect(count(own.events, 'Square')).toBe(6);
  expect(own.findings).toEqual([]);
  // Earlier events stay in their place; later ones belong to no profile.
  const before = await read();
  expect(count(before.events, 'Square')).toBe(1);
  expect(before.findings).toEqual([]);
});

test('also where both write the same run', async () => {
  const { code, stderr } = await node([
    ...register,
    '--input-type=module',
    '-e',
    `
    import { profile } from '@ranktrace/sdk';
    import '@tensorflow/tfjs';
    const prof = profile().start();
    prof.step();
    await prof.stop();`,
  ]);
  expect({ code, stderr: stderr.replace(greeting, '').trim() }).toEqual({ code: 0, stderr: '' });
  const { events, findings, processes } = await read();
  expect(processes).toHaveLength(2);
  expect(steps(events)).toEqual(stepNames(1));
  expect(findings).toEqual([]);
});

test('a program’s own profile that cannot start leaves the other one running', async () => {
  const { stdout } = await node([
    ...register,
    '--input-type=module',
    '-e',
    `
    import { profile } from '@ranktrace/sdk';
    import * as tf from '@tensorflow/tfjs';
    try { profile({ rank: -1 }).start(); } catch (error) { console.log(error.code); }
    await tf.setBackend('cpu');
    const weights = tf.variable(tf.zeros([4, 1]));
    tf.train.sgd(0.01).minimize(() => weights.square().sum());`,
  ]);
  expect(stdout).toBe('bad_option\n');
  expect(steps((await read()).events)).toEqual(stepNames(1));
});

test('a worker thread with a model of its own is recorded on its own line; steps are the main thread’s', async () => {
  const { code, stdout } = await node([...register, 'test/programs/train-in-thread.mjs']);
  expect({ code, stdout }).toEqual({ code: 0, stdout: 'worker ended with 0\n' });
  const { events, findings } = await read();
  expect(steps(events)).toEqual(stepNames(5));
  const ops = (lane: RegExp, name: string) => events.filter((event) => lane.test(event.lane) && event.name === name).length;
  expect(ops(/^main/, 'Square')).toBe(5);
  expect(ops(/^worker \d+/, 'Square')).toBe(0);
  // Forward, two sides of its gradient, its scaling, the update.
  expect(ops(/^worker \d+/, 'Multiply')).toBe(25);
  expect(findings).toEqual([]);
});

test('a wrong variable is one line on stderr; the program runs on', async () => {
  const { code, stdout, stderr } = await node([...register, ...train(2, 0, 0)], { RANKTRACE_RANK: 'first' });
  expect({ code, stdout }).toEqual({ code: 0, stdout: 'trained 2 0 0\n' });
  const [line = '', ...more] = stderr.replace(greeting, '').trim().split('\n');
  expect(line).toBe(
    'ranktrace: this program is not recorded: Bad variable RANKTRACE_RANK: it must be an integer from 0 to 65535, got "first"',
  );
  expect(more).toEqual([]);
  expect(existsSync(join(directory, 'test'))).toBe(false);
});

test('in NODE_OPTIONS it works alike', async () => {
  const { code, stderr } = await node(train(3, 0, 0), { NODE_OPTIONS: register.join(' ') });
  expect({ code, stderr: stderr.replace(greeting, '').trim() }).toEqual({ code: 0, stderr: '' });
  const { events, findings } = await read();
  expect(steps(events)).toEqual(stepNames(3));
  expect(new Set(events.map(({ lane }) => lane).filter((lane) => lane.startsWith('worker')))).toEqual(new Set());
  expect(findings).toEqual([]);
});

test('under ranktrace run every rank is recorded', async () => {
  const command = ['--', process.execPath, ...register, ...train(6, 0, 3)];
  const { code, stdout, stderr } = await runCommand(['run', '--ranks', '2', '--name', 'zero', '--out', directory, '--json', ...command]);
  expect(code, stderr).toBe(0);
  const report = JSON.parse(stdout);
  expect(report.findings).toEqual([]);
  expect(report.ranks.map((rank: { counts: { step: number } }) => rank.counts.step)).toEqual([9, 9]);
});

/** The end of step `number`, ns. */
function stepEnd(events: readonly ReadEvent[], number: number): number {
  const step = events.find(({ name }) => name === `ProfilerStep#${number}`);
  if (step === undefined) throw new Error(`There is no step ${number}`);
  return step.start + step.length;
}

// The Python client with real trainers, where a Python has them (RANKTRACE_TORCH_PYTHON): unchanged results, and the callbacks for Lightning and Hugging
// Face.

import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isBeside } from '@ranktrace/protocol';
import { afterAll, expect, type TestContext, test } from 'vitest';
import { repository } from './setup/ranktrace-command.ts';
import { findTorch } from './setup/torch-python.ts';
import { readRun } from './setup/trace-events.ts';
import { runLine } from './setup/warm-command.ts';

const torch = findTorch();
const directory = mkdtempSync(join(tmpdir(), 'ranktrace-trainers-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

/** The Python that has torch and this module; skips where there is none. */
function pythonWith(context: TestContext, module: string): string {
  const has = torch !== undefined && spawnSync(torch.python, ['-c', `import ${module}`]).status === 0;
  if (has) return torch.python;
  context.task.meta.impossibleHere = `no Python here has ${module}; RANKTRACE_TORCH_PYTHON names one that has`;
  return context.skip();
}

function run(python: string, args: readonly string[], name: string, environment: Record<string, string>): string {
  const own = { RANKTRACE_DIRECTORY: join(directory, name), RANKTRACE_RUN: name, PYTHONPATH: join(repository, 'clients/python') };
  const env = { ...process.env, ...own, ...environment };
  const { status, stdout, stderr } = spawnSync(python, args, { cwd: directory, env, encoding: 'utf8' });
  expect(status, stderr).toBe(0);
  return stdout;
}

/** Number of steps in the report of a recording of which nothing is missing. */
async function stepsOf(name: string): Promise<number> {
  const { stdout } = await runLine(['report', join(directory, name)]);
  expect(stdout).toContain('nothing was lost');
  return Number(/^steps: (\d+),/m.exec(stdout)?.[1]);
}

const program = (name: string): string => join(repository, 'test/programs', name);

test('weights are the same with and without the client, bit by bit', async (context) => {
  const python = pythonWith(context, 'torch');
  const environment = { STEPS: '40' };
  const digestOf = (args: readonly string[]): string => (JSON.parse(run(python, args, 'digest', environment)) as { digest: string }).digest;
  expect(digestOf(['-m', 'ranktrace', program('digest_rank.py')])).toBe(digestOf([program('digest_rank.py')]));
  expect(await stepsOf('digest')).toBe(40);
});

test("windows of torch.profiler are part of the rank, on its clock: their ops lie in the rank's own steps", async (context) => {
  const python = pythonWith(context, 'torch');
  const folder = join(directory, 'windows');
  mkdirSync(folder);
  run(python, ['-I', program('profiled_rank.py')], 'profiled', { TMPDIR: folder });
  expect(readdirSync(folder).filter((name) => name.startsWith('ranktrace-window'))).toEqual([]);
  expect(await stepsOf('profiled')).toBe(10);
  const { events, processes } = await readRun(join(directory, 'profiled', 'profiled'), 'profiled');
  expect(processes.filter(({ incarnation }) => !isBeside(incarnation))).toHaveLength(1);
  const steps = events.filter(({ kind }) => kind === 'step');
  const ops = events.filter(({ name, category }) => name === 'aten::linear' && category === 'cpu_op');
  expect(ops).toHaveLength(4);
  const inStep = ops.map(
    ({ start, length }) => steps.find((step) => step.start <= start && start + length <= step.start + step.length)?.step,
  );
  expect(inStep).toEqual([2, 3, 6, 7]);
  const { stdout } = await runLine(['report', join(directory, 'profiled')]);
  expect(stdout).toContain('1 of 1 ranks on 1 host');
  // Four of the ten are in a window, too.
  const { stdout: table } = await runLine(['table', join(directory, 'profiled')]);
  expect(table).toMatch(/^forward +span +10 /m);
  expect(table).toMatch(/^aten::linear +span +4 /m);
});

test('windows that no profile takes are said to be discarded, once', (context) => {
  const python = pythonWith(context, 'torch');
  const line = [
    '-c',
    'import sys; sys.path.insert(0, sys.argv[1]); import ranktrace; ready = ranktrace.trace_handler(); ready(None); ready(None)',
  ];
  const { status, stderr } = spawnSync(python, [...line, join(repository, 'clients/python')], { encoding: 'utf8' });
  expect(status).toBe(0);
  expect(stderr).toMatch(/^ranktrace: windows of PyTorch's profiler are discarded: no profile records here; [^\n]*\n$/);
});

test.each([
  ['a quote in a name', (text: string) => text.replace('aten::max', 'a"max'), 1],
  ['a quote in a fact', (text: string) => text.replace('"fact"', '"fa"ct"'), 0],
  ['a control character, and bytes that are no UTF-8', (text: string) => text.replace('aten::mm', 'a\u0001\u00e9'), 0],
  ['events without a time', (text: string) => text.replace('"ts": 1,', '"ts": -9e15,'), 1],
])('a window of PyTorch with %s is shipped, and what is left out of it is counted', async (what, broken, leftOut) => {
  const name = `window-${what.replaceAll(/\W/g, '').slice(0, 20)}`;
  const folder = join(directory, name);
  mkdirSync(folder);
  const event = (text: string, ts: number) =>
    `  {\n    "ph": "X", "cat": "cpu_op", "name": "${text}", "pid": 7, "tid": 7,\n    "ts": ${ts}, "dur": 2.5,\n    "args": {\n      "id": 1\n    }\n  }`;
  const events = ['aten::add', 'aten::mm', 'aten::max', 'aten::sum'].map((op, index) => event(op, 1 + 3.25 * index));
  const text = `{\n  "about": "fact",\n  "baseTimeNanoseconds": ${Date.now()}000000,\n  "traceEvents": [\n${events.join(',\n')}\n  ],"traceName": "w.json" }`;
  const file = join(folder, 'window.json');
  writeFileSync(file, broken(text), 'latin1');
  const given = { run: name, rank: 0, world_size: 1, directory: join(directory, `${name}-out`), beside: process.pid };
  const line = ['-I', join(repository, 'clients/python/ranktrace.py'), '--ship-window', file];
  const { status, stderr } = spawnSync(process.env.PYTHON_BIN ?? 'python3', line, { input: JSON.stringify(given), encoding: 'utf8' });
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
  const { events: read, findings } = await readRun(given.directory, name);
  expect(read).toHaveLength(4 - leftOut);
  expect(findings.filter((text) => text.includes('left out'))).toEqual(
    leftOut === 0 ? [] : [expect.stringMatching(/^rank 0: left out of its files: 1 events without a usable name, process, time or length/)],
  );
  expect(readdirSync(directory)).not.toContain(name);
});

test('a window that is no trace stays where it is, and one line names it', () => {
  const file = join(directory, 'none.json');
  writeFileSync(file, 'none');
  const given = { run: 'none', rank: 0, world_size: 1, directory: join(directory, 'none-out'), beside: process.pid };
  const line = ['-I', join(repository, 'clients/python/ranktrace.py'), '--ship-window', file];
  const { status, stderr } = spawnSync(process.env.PYTHON_BIN ?? 'python3', line, { input: JSON.stringify(given), encoding: 'utf8' });
  expect({ status, stderr }).toEqual({
    status: 1,
    stderr: `ranktrace: a window of PyTorch's profiler cannot be read, and stays in "${file}": JSONDecodeError: Expecting value: line 1 column 1 (char 0)\n`,
  });
});

test("a span of the program's own around a call of PyTorch's is its phase, once", async (context) => {
  const python = pythonWith(context, 'torch');
  run(python, ['-m', 'ranktrace', program('named_phases_rank.py')], 'named', {});
  expect(await stepsOf('named')).toBe(6);
  const { stdout } = await runLine(['table', join(directory, 'named')]);
  for (const phase of ['data', 'backward', 'optimizer']) expect(stdout).toMatch(new RegExp(`^${phase} +span +6 `, 'm'));
});

test('an optimizer whose step raises does not hold the phases behind it', async (context) => {
  const python = pythonWith(context, 'torch');
  const file = join(directory, 'raises.py');
  writeFileSync(
    file,
    `import torch
class Raises(torch.optim.SGD):
    steps = 0
    def step(self, closure=None):
        Raises.steps += 1
        if Raises.steps in (3, 9):
            raise MemoryError()
        return super().step(closure)
layer = torch.nn.Linear(16, 1)
optimizer = Raises(layer.parameters(), lr=0.01)
batches = torch.randn(6, 8, 16)
for loop in (torch.utils.data.DataLoader(batches, batch_size=None), batches):
    for batch in loop:
        optimizer.zero_grad()
        layer(batch).square().mean().backward()
        try:
            optimizer.step()
        except MemoryError:
            pass
`,
  );
  run(python, ['-m', 'ranktrace', file], 'raises', {});
  expect(await stepsOf('raises')).toBe(10);
  const { events } = await readRun(join(directory, 'raises', 'raises'), 'raises');
  const spans = events.filter(({ kind }) => kind === 'span');
  const optimizers = spans.filter(({ name }) => name === 'optimizer');
  expect(optimizers).toHaveLength(12);
  expect(spans.filter(({ name }) => name === 'forward')).toHaveLength(12);
  const within = optimizers.flatMap(({ start, length }) => spans.filter((span) => span.start > start && span.start < start + length));
  expect(within).toEqual([]);
});

test.for([
  // An optimizer whose step calls that of its base class, which another optimizer has hooked, too.
  ['derived', ['forward', 'backward', 'optimizer']],
  // One that calls another, and works before and after it, as ZeroRedundancyOptimizer does.
  ['around', ['forward', 'backward', 'optimizer']],
  // One of each parameter, once its gradient is there.
  ['within-backward', ['forward', 'backward']],
] as const)(
  'steps of optimizers within others, or within backward, are one each, with their phases: %s',
  async ([shape, phases], context) => {
    const python = pythonWith(context, 'torch');
    const file = join(directory, 'optimizers_within.py');
    writeFileSync(
      file,
      `import sys, time, torch
shape, layer = sys.argv[1], torch.nn.Linear(16, 1)
class Derived(torch.optim.SGD):
    def step(self, closure=None):
        time.sleep(0.002)
        return super().step(closure)
class Around(torch.optim.Optimizer):
    def __init__(self, inner):
        super().__init__(inner.param_groups, {})
        self.inner = inner
    def step(self, closure=None):
        time.sleep(0.002)
        self.inner.step()
        time.sleep(0.002)
if shape == "derived":
    torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.01)
    optimizer = Derived(layer.parameters(), lr=0.01)
elif shape == "around":
    optimizer = Around(torch.optim.SGD(layer.parameters(), lr=0.01))
else:
    optimizer = None
    for parameter in layer.parameters():
        own = torch.optim.SGD([parameter], lr=0.01)
        parameter.register_post_accumulate_grad_hook(lambda _, own=own: own.step())
for _ in range(20):
    layer(torch.randn(8, 16)).square().mean().backward()
    if optimizer is not None:
        optimizer.step()
        optimizer.zero_grad()
`,
    );
    run(python, ['-m', 'ranktrace', file, shape], shape, {});
    expect(await stepsOf(shape)).toBe(20);
    const { events } = await readRun(join(directory, shape, shape), shape);
    const steps = events.filter(({ kind }) => kind === 'step');
    // The first one begins with its first backward.
    for (const { phases: of } of steps.slice(1)) expect([...(of?.keys() ?? [])]).toEqual(phases);
    const optimizers = steps.map(({ phases: of }) => of?.get('optimizer') ?? 0).sort((a, b) => a - b);
    if (shape !== 'within-backward') expect(optimizers[0]).toBeGreaterThan(shape === 'around' ? 4e6 : 2e6);
  },
);

test('of two threads that train, neither loses what it does while the other one begins the recording', async (context) => {
  const python = pythonWith(context, 'torch');
  const file = join(directory, 'threads.py');
  writeFileSync(
    file,
    `import threading, torch
torch.set_num_threads(1)
layers = [torch.nn.Linear(16, 1) for _ in range(2)]
optimizers = [torch.optim.SGD(layer.parameters(), lr=0.01) for layer in layers]
both = threading.Barrier(2)
def train(layer, optimizer):
    both.wait()
    for _ in range(20):
        layer(torch.randn(8, 16)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
threads = [threading.Thread(target=train, args=of) for of in zip(layers, optimizers)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
`,
  );
  run(python, ['-m', 'ranktrace', file], 'threads', {});
  const { events } = await readRun(join(directory, 'threads', 'threads'), 'threads');
  for (const phase of ['backward', 'optimizer']) {
    expect(events.filter(({ kind, name }) => kind === 'span' && name === phase)).toHaveLength(40);
  }
});

test('a step whose gradients overflow is a step with its phases, though its optimizer takes none', async (context) => {
  const python = pythonWith(context, 'torch');
  expect(run(python, ['-m', 'ranktrace', program('scaled_rank.py')], 'scaled', { STEPS: '20' })).toBe('16\n');
  expect(await stepsOf('scaled')).toBe(20);
  const { events } = await readRun(join(directory, 'scaled', 'scaled'), 'scaled');
  const steps = events.filter(({ kind }) => kind === 'step').slice(1);
  for (const { phases } of steps) expect([...(phases?.keys() ?? [])]).toEqual(['forward', 'backward', 'optimizer']);
});

test.for([
  // The second one has to go on for a while before it counts: 16 of its steps are one.
  ['next', 30 + 60 - 16],
  ['turns', 20],
] as const)(
  'of two optimizers the first one counts the steps, until it stops and the other goes on: %s',
  async ([shape, steps], context) => {
    const python = pythonWith(context, 'torch');
    run(python, ['-m', 'ranktrace', program('optimizers_rank.py')], shape, { SHAPE: shape });
    expect(await stepsOf(shape)).toBe(steps);
  },
);

test('waits for a device are a phase of their own, in the midst of the forward pass, too', async (context) => {
  const python = pythonWith(context, 'torch');
  run(python, ['-I', program('waiting_rank.py')], 'waiting', {});
  const { events } = await readRun(join(directory, 'waiting', 'waiting'), 'waiting');
  const steps = events.filter(({ kind }) => kind === 'step').slice(1);
  expect(steps).toHaveLength(5);
  for (const { length, phases } of steps) {
    const of = (name: string): number => (phases?.get(name) ?? 0) / 1e6;
    expect([...(phases?.keys() ?? [])]).toEqual(['synchronize', 'forward', 'backward', 'optimizer']);
    expect(of('synchronize')).toBeGreaterThan(39);
    expect(of('forward')).toBeGreaterThan(14.5);
    const named = [...(phases?.values() ?? [])].reduce((sum, time) => sum + time, 0);
    expect(named).toBeLessThanOrEqual(length);
    expect(named).toBeGreaterThan(0.95 * length);
  }
});

test.for(['lightning', 'transformers'])('the callback of %s: a step a step, its phases, and what it logs', async (trainer, context) => {
  const python = pythonWith(context, trainer);
  run(python, ['-I', program('trainer_rank.py')], trainer, { STEPS: '20', TRAINER: trainer });
  expect(await stepsOf(trainer)).toBe(20);
  const { stdout } = await runLine(['dump', join(directory, trainer)]);
  for (const phase of ['data', 'forward', 'backward', 'optimizer']) expect(stdout).toMatch(new RegExp(`SPAN ${phase}\\b`));
  // Lightning's logger is the program's; its passes are no part of the optimizer's span, whose closure they are.
  if (trainer === 'transformers') expect(stdout).toMatch(/COUNTER loss /);
});

/** Numbers of the steps that a rank recorded, in time. */
async function numbersOf(name: string): Promise<number[]> {
  const { events } = await readRun(join(directory, name, name), name);
  const steps = events.filter(({ kind }) => kind === 'step').sort((a, b) => a.start - b.start);
  return steps.map(({ step }) => step as number);
}

const from = (first: number, count: number): number[] => Array.from({ length: count }, (_, index) => first + index);

test.for([
  ['AdamW', undefined, 20, {}],
  // It counts no steps.
  ['SGD', undefined, 0, {}],
  ['SGD', '20', 20, {}],
  ['SGD', '20', 20, { LOADER: '1' }],
] as const)(
  'a program that goes on from a checkpoint goes on with its steps: %s, RANKTRACE_FIRST_STEP %s, from step %i, %j',
  async ([optimizer, first, wanted, loader], context) => {
    const python = pythonWith(context, 'torch');
    const name = `resumed-${optimizer}-${first ?? 'none'}-${Object.keys(loader).length}`;
    const environment = { ...loader, STEPS: '20', OPTIMIZER: optimizer, CHECKPOINT: join(directory, `${name}.pt`) };
    run(python, ['-m', 'ranktrace', program('resumed_rank.py')], `${name}-0`, environment);
    expect(await numbersOf(`${name}-0`)).toEqual(from(0, 20));
    const given: Record<string, string> = first === undefined ? {} : { RANKTRACE_FIRST_STEP: first };
    run(python, ['-m', 'ranktrace', program('resumed_rank.py')], `${name}-1`, { ...environment, ...given });
    expect(await numbersOf(`${name}-1`)).toEqual(from(wanted, 20));
  },
);

test.for(['lightning', 'transformers'])('so do those of %s', async (trainer, context) => {
  const python = pythonWith(context, trainer);
  const folder = mkdtempSync(join(directory, 'checkpoints-'));
  for (const [index, first] of [0, 20].entries()) {
    const name = `${trainer}-resumed-${index}`;
    run(python, ['-I', program('trainer_rank.py')], name, { STEPS: '20', TRAINER: trainer, CHECKPOINTS: folder });
    expect(await numbersOf(name)).toEqual(from(first, 20));
  }
});

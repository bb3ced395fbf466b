// Kernels beside TensorFlow's own library, as on a GPU: its ops launch on one that a fake libcupti plays, and each kernel belongs to the op that launched it.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, type TestContext, test } from 'vitest';
import { compile, hasCompiler, needsCompiler } from '../setup/c-compiler.ts';
import { runCommand } from '../setup/ranktrace-command.ts';
import { type ReadEvent, readRun } from '../setup/trace-events.ts';
import { nativeMain } from './native-tfjs.ts';

const folder = mkdtempSync(join(tmpdir(), 'ranktrace-native-gpu-'));
const steps = 20;
let events: readonly ReadEvent[] = [];
let findings: readonly string[] = [];
/** Kernels that a rank launched, by op of the library; each rank launches the same. */
let launched: Readonly<Record<string, number>> = {};

beforeAll(async () => {
  if (!hasCompiler) return;
  const fake = join(folder, 'libcupti-fake.so');
  compile(fake, ['testing/fake-cupti.c'], '-fPIC', '-shared');
  const program = ['test/native/gpu-training.mjs', fake, nativeMain, `${steps}`];
  const trained = await runCommand(
    ['run', '--ranks', '2', '--gpu', '--name', 'native', '--out', folder, '--', process.execPath, ...program],
    { RANKTRACE_CUPTI_LIBRARY: fake, RANKTRACE_EXIT_DEADLINE_MS: '60000' },
  );
  expect(trained, trained.stderr).toMatchObject({ code: 0 });
  launched = JSON.parse(/\{.*\}/.exec(trained.stdout)?.[0] ?? '');
  ({ events, findings } = await readRun(join(folder, 'native'), 'native'));
});
beforeEach((context) => needsCompiler(context as TestContext));
afterAll(() => rmSync(folder, { recursive: true }));

/** Kernels of the engine in which an op of the library may run, where their names differ. */
const engineNames: Readonly<Record<string, readonly string[]>> = {
  BatchMatMulV2: ['BatchMatMul'],
  Mul: ['Multiply'],
  Conv2D: ['Conv2D', 'FusedConv2D'],
  Select: ['Select', 'Step'],
};

const opOf = (kernel: ReadEvent): string => /^void (\w+)<float>$/.exec(kernel.name)?.[1] ?? kernel.name;
const countsOf = (names: readonly string[]): Record<string, number> => {
  const counts: Record<string, number> = {};
  for (const name of names) counts[name] = (counts[name] ?? 0) + 1;
  return counts;
};

test('every kernel is there, inside of the op that launched it', () => {
  expect(findings).toEqual([]);
  for (const rank of [0, 1]) {
    const own = events.filter((event) => event.rank === rank);
    const kernels = own.filter(({ category }) => category === 'kernel');
    expect(countsOf(kernels.map(opOf))).toEqual(launched);
    const calls = new Map(own.flatMap((event) => (event.category === 'cuda_driver' ? [[event.arguments.correlation, event]] : [])));
    const ops = own.filter(({ category }) => category === 'cpu_op');
    const strangers = kernels.flatMap((kernel) => {
      const call = calls.get(kernel.arguments.correlation) as ReadEvent;
      const around = ops.findLast(({ lane, start, length }) => lane === call.lane && start <= call.start && start + length > call.start);
      const isOwn = (engineNames[opOf(kernel)] ?? [opOf(kernel)]).includes(around?.name ?? '');
      return isOwn && kernel.start >= call.start ? [] : [`${opOf(kernel)} in ${around?.name}`];
    });
    expect(strangers).toEqual([]);
  }
});

test('an op of the library that no kernel of the engine runs has its shapes and FLOPs', () => {
  const parts = events.filter(({ rank, name }) => rank === 0 && name === 'without the engine');
  const inside = ({ start }: ReadEvent): boolean => parts.some((part) => start >= part.start && start < part.start + part.length);
  const ops = events.filter((event) => event.rank === 0 && event.category === 'cpu_op' && inside(event));
  const facts = ops.map(({ name, arguments: { 'Input Dims': dims, flops } }) => [name, dims, flops]);
  expect(facts.filter(([name]) => name !== 'Fill')).toEqual([
    ['Conv2D', '[[8,12,12,3],[3,3,3,8]]', 2 * (8 * 12 * 12 * 8) * 27],
    // Of [288, 4] transposed with itself.
    ['MatMul', '[[288,4],[288,4]]', 2 * 4 * 4 * 288],
    ['BiasAdd', '[[8,12,12,3],[3]]', 8 * 12 * 12 * 3],
  ]);
});

test('the table gives ops of the engine the time of their kernels, beside their FLOPs', async () => {
  const { stdout } = await runCommand(['table', folder, '--run', 'native', '--rank', '1', '--sort', 'cuda_time_total']);
  const line = (name: string): string => stdout.split('\n').find((text) => text.trim().startsWith(`${name} `)) ?? '';
  const flops = 2 * (8 * 12 * 12 * 8) * 27 * steps;
  expect(line('Conv2DBackpropFilter')).toMatch(new RegExp(` 6\\.000ms +\\d+\\.\\d+% +6\\.000ms +300\\.000us +20 +${flops}\\.000`));
  // A fused kernel is a convolution of its own, and two ops inside.
  expect(line('FusedConv2D')).toMatch(new RegExp(` 60\\.000us +\\d+\\.\\d+% +180\\.000us +9\\.000us +20 +${flops}\\.000`));
  expect(line('void Conv2D<float>')).toMatch(/ 123\.000us +3\.000us +41 +-- *$/);
});

test('the report knows the phases behind the idle time, and the ops that could use tensor cores', async () => {
  const { stdout } = await runCommand(['report', folder, '--run', 'native']);
  expect(stdout).toContain('nothing was lost');
  expect(stdout).toMatch(/while the GPU had nothing to do the host was in .*forward and backward \(\d+\.\d % of it, most in \w/);
  expect(stdout).toMatch(/ops that could use tensor cores take \d+\.\d % of the time of kernels, and no kernel uses them/);
});

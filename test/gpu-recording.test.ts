// Kernels of the own process under the SDK: a real training process whose ops launch on a GPU that a fake libcupti plays. What is recorded is on the
// timeline and in every analysis as the kernels of a torch.profiler file are.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, beforeEach, expect, onTestFinished, type TestContext, test } from 'vitest';
import { compile, hasCompiler, needsCompiler } from './setup/c-compiler.ts';
import { runCommand } from './setup/ranktrace-command.ts';

const tools = mkdtempSync(join(tmpdir(), 'ranktrace-gpu-tools-'));
const fake = join(tools, 'libcupti-fake.so');
const steps = 40;
let folder: string;

beforeAll(() => {
  if (hasCompiler) compile(fake, ['testing/fake-cupti.c'], '-fPIC', '-shared');
  return () => rmSync(tools, { recursive: true });
});

beforeEach((context) => {
  needsCompiler(context as TestContext);
  folder = mkdtempSync(join(tmpdir(), 'ranktrace-gpu-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
});

const train = (ranks: number, environment: Record<string, string> = {}) =>
  runCommand(
    [
      'run',
      '--ranks',
      `${ranks}`,
      '--name',
      'gpu',
      '--out',
      folder,
      '--',
      process.execPath,
      'test/programs/gpu-training.mjs',
      fake,
      `${steps}`,
    ],
    { RANKTRACE_CUPTI_LIBRARY: fake, ...environment },
  );

interface GpuReport {
  readonly gpu: { readonly ranks: readonly { readonly rank: number; readonly kernels: unknown }[] };
}

test('kernels, their calls and their ops are one timeline, and the report says what the GPUs did', async () => {
  const trained = await train(2);
  expect(trained, trained.stderr).toMatchObject({ code: 0 });
  const { stdout: dump } = await runCommand(['dump', folder, '--run', 'gpu']);
  for (const rank of [0, 1]) {
    for (const kernel of ['gemm', 'relu'])
      expect(dump.match(new RegExp(`rank ${rank}  GPU 0 · stream 7  SPAN void ${kernel}<float>`, 'g'))).toHaveLength(steps);
    expect(dump.match(new RegExp(`rank ${rank}  main  SPAN cuLaunchKernel`, 'g'))).toHaveLength(2 * steps);
  }
  const { stdout } = await runCommand(['report', folder, '--run', 'gpu']);
  console.log(stdout);
  expect(stdout).toContain('nothing was lost');
  const { stdout: json } = await runCommand(['report', folder, '--run', 'gpu', '--json']);
  console.log(JSON.stringify((JSON.parse(json) as GpuReport).gpu).slice(0, 3000));
});

// Kernels of the own process under the SDK: a real training process whose ops launch on a GPU that a fake libcupti plays. What is recorded is on the
// timeline and in every analysis as the kernels of a torch.profiler file are.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { startAggregator } from '@ranktrace/aggregator';
import { beforeAll, beforeEach, expect, onTestFinished, type TestContext, test } from 'vitest';
import { compile, hasCompiler, needsCompiler } from './setup/c-compiler.ts';
import { startRanks } from './setup/rank-programs.ts';
import { runCommand } from './setup/ranktrace-command.ts';
import { runLine } from './setup/warm-command.ts';

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

const train = (ranks: number, environment: Record<string, string> = {}, ofSteps = steps) =>
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
      `${ofSteps}`,
    ],
    { RANKTRACE_CUPTI_LIBRARY: fake, ...environment },
  );

test('kernels, their calls and their ops are one timeline, and the report says what the GPUs did and who is to blame', async () => {
  const trained = await train(2);
  expect(trained, trained.stderr).toMatchObject({ code: 0 });
  const { stdout: dump } = await runLine(['dump', folder, '--run', 'gpu']);
  for (const rank of [0, 1]) {
    for (const [kernel, stream] of [
      ['gemm', 7],
      ['relu', 14],
    ])
      expect(dump.match(new RegExp(`rank ${rank}  GPU 0 · stream ${stream}  SPAN void ${kernel}<float>`, 'g'))).toHaveLength(steps);
    expect(dump.match(new RegExp(`rank ${rank}  main  SPAN cuLaunchKernel`, 'g'))).toHaveLength(2 * steps);
  }
  const { stdout } = await runLine(['report', folder, '--run', 'gpu']);
  expect(stdout).toContain('nothing was lost');
  // The slow kernel of rank 1: 6 ms against 2 ms.
  expect(stdout).toMatch(/slowest rank by phase: .*GPU compute 6\.\d\d ms \(rank 1\)/);
  expect(stdout).toMatch(/gemm<float> +80 +320 ms +88\.9 %/);
  expect(stdout).toMatch(/relu<float> +80 +40\.0 ms +11\.1 %/);
  expect(stdout).toMatch(/from launch to start 18\.0 µs \(median\)/);
  // Spans of the program are the phases of its host.
  expect(stdout).toMatch(/^host, forward /m);
});

test('keyAverages() gives each op the time of what it launched, and each kernel its own, in the columns of torch', async () => {
  const trained = await train(1, { TABLE: '1', CUDA_INJECTION64_PATH: '' });
  expect(trained.stdout).toMatch(/CUDA's driver would load .*ranktrace-gpu\.node/);
  const line = (name: string): string => trained.stdout.split('\n').find((text) => text.trim().startsWith(`${name} `)) ?? '';
  expect(trained.stdout).toMatch(/Self CUDA +Self CUDA % +CUDA total +CUDA time avg/);
  expect(line('BatchMatMul')).toMatch(/ 80\.000ms +80\.00% +80\.000ms +2\.000ms +40 /);
  expect(line('void gemm<float>')).toMatch(/ 0\.000us +80\.000ms +80\.00% +80\.000ms +2\.000ms +40 /);
  expect(line('forward')).toMatch(/ 0\.000us +0\.00% +100\.000ms +2\.500ms +40 /);
  expect(trained.stdout).toContain('Self CUDA time total: 100.000ms');
  // Sorted by it.
  expect(trained.stdout.indexOf('forward')).toBeLessThan(trained.stdout.indexOf('BatchMatMul'));
});

test('as files of torch.profiler it has the same kernels, linked to the same ops, for the readers of such files', async () => {
  await train(1);
  const out = join(folder, 'kineto');
  expect(await runLine(['export', folder, '--run', 'gpu', '--to', 'kineto', '-o', out])).toMatchObject({ code: 0 });
  const { stdout } = await runLine(['table', out, '--sort', 'cuda_time_total']);
  expect(stdout).toMatch(/BatchMatMul .* 80\.000ms +80\.00% +80\.000ms +2\.000ms +40 /);
  expect(stdout).toMatch(/void gemm<float> .* 80\.000ms +80\.00% +80\.000ms +2\.000ms +40 /);
  const report = await runLine(['report', out]);
  expect(report.stdout).toMatch(/gemm<float> +40 +80\.0 ms/);
});

test.each([
  ['at once', '0.02'],
  // Its kernels run three steps after the one that launched them.
  ['late', '30'],
])('of a schedule, exactly the kernels of the steps of its window are sent, where the device works %s', async (_, queueMs) => {
  await train(1, { RANKTRACE_SCHEDULE: 'wait=30,warmup=1,active=5,repeat=1', QUEUE_MS: queueMs });
  const { stdout } = await runLine(['dump', folder, '--run', 'gpu']);
  const times = (event: string) => [...stdout.matchAll(new RegExp(`([\\d.]+) ms {2}rank 0 {2}${event}`, 'g'))].map(([, at]) => Number(at));
  // Spans of the host are those of the five active steps.
  const spans = times('main {2}SPAN forward');
  expect(spans).toHaveLength(5);
  for (const kernel of ['stream 7 {2}SPAN void gemm', 'stream 14 {2}SPAN void relu']) {
    const kernels = times(`GPU 0 · ${kernel}`);
    expect(kernels).toHaveLength(5);
    for (const [at, start] of kernels.entries()) expect(start - (spans[at] as number)).toBeGreaterThan(Number(queueMs));
  }
  // The GPU is not idle in steps whose kernels nobody sent.
  const { stdout: report } = await runLine(['report', folder, '--run', 'gpu', '--json']);
  const { gpu } = JSON.parse(report) as { gpu: { ranks: { steps: { step: number }[] }[] } };
  expect(gpu.ranks.map((rank) => rank.steps.map(({ step }) => step))).toEqual([[31, 32, 33, 34, 35]]);
});

test('the step of a launch whose records were dropped counts in no figure of GPUs', async () => {
  const [dropped, last] = [80, 255];
  // Two launches a step. Steps around it count in none either: how many depends on when CUPTI tells, and on the flight recorder.
  const environment = { FAKE_CUPTI_DROP: `${2 * dropped + 1}`, RANKTRACE_FLIGHT_RECORDER_STEPS: '32' };
  const trained = await train(1, environment, last + 1);
  expect(trained, trained.stderr).toMatchObject({ code: 0 });
  const { stdout } = await runLine(['report', folder, '--run', 'gpu', '--json']);
  const report = JSON.parse(stdout) as { findings: { kind: string; text: string }[]; gpu: { ranks: { steps: { step: number }[] }[] } };
  const [whole = []] = report.gpu.ranks.map((rank) => rank.steps.map(({ step }) => step));
  for (const step of [40, 41, last - 2, last - 1]) expect(whole).toContain(step);
  expect(whole).not.toContain(dropped);
  expect(report.findings.map(({ kind }) => kind)).toContain('data_loss');
});

test('kernels whose calls CUPTI never hands over are there all the same, and one line says so', async () => {
  const trained = await train(1, { FAKE_CUPTI_NO_CALLS: '1' }, 300);
  expect(trained, trained.stderr).toMatchObject({ code: 0 });
  expect(trained.stderr.match(/kernels come without the calls that launched them: start the profile before/g)).toHaveLength(1);
  const { stdout } = await runLine(['report', folder, '--run', 'gpu']);
  expect(stdout).toContain('nothing was lost');
  expect(stdout).toMatch(/gemm<float> +300 /);
});

test.each([
  ['at once', '0.02'],
  // Some thirty steps after the one that launched them.
  ['late', '300'],
])(
  'kernels that no schedule asks for come with an alert: those of the steps before it and of those after, where the device works %s',
  async (_, queueMs) => {
    await using aggregator = await startAggregator({ out: folder });
    const ranks = await startRanks(2, ['test/programs/gpu-training.mjs', fake, '100000'], {
      RANKTRACE_CUPTI_LIBRARY: fake,
      RANKTRACE_URL: aggregator.address.replace('http', 'ws'),
      RANKTRACE_RUN: 'gpu',
      RANKTRACE_SPOOL_DIRECTORY: join(folder, 'spool'),
      RANKTRACE_SCHEDULE: 'wait=100000000,warmup=1,active=1',
      QUEUE_MS: queueMs,
      // One rank may be far ahead of the other.
      RANKTRACE_FLIGHT_RECORDER_STEPS: '1000',
    });
    onTestFinished(async () => {
      for (const { child } of ranks) child.kill('SIGKILL');
      await Promise.all(ranks.map(({ ended }) => ended));
    });
    const newest = (): number => Math.min(...[0, 1].map((rank) => aggregator.steps('gpu', rank).at(-1)?.step ?? -1));
    while (newest() < 200) await wait(50);
    // As an alert asks.
    const [fromStep, toStep] = [newest() - 20, newest() - 11];
    const captured = await aggregator.captureSteps('gpu', { pull: { fromStep, toStep }, steps: 10 });
    expect(captured).toMatchObject({ ranks: [0, 1], notes: [] });
    const { stdout } = await runLine(['table', captured.path, '--json']);
    const rows = JSON.parse(stdout) as { key: string; count: number }[];
    // Two ranks, ten steps before and ten after.
    for (const key of ['forward', 'BatchMatMul', 'void gemm<float>', 'void relu<float>']) {
      expect(rows.find((row) => row.key === key)).toMatchObject({ key, count: 2 * (10 + 10) });
    }
  },
);

test.each([
  ['switched off', { RANKTRACE_GPU: '0' }, /no kernels are recorded: RANKTRACE_GPU=0/],
  ['refused', { FAKE_CUPTI_REFUSE: 'enable:35', RANKTRACE_GPU: 'x' }, /no kernels are recorded: this user may not profile/],
])('without kernels training goes on, one line says why, and nothing else is missing: %s', async (_, environment, why) => {
  const trained = await train(1, { ...environment, NO_WAIT: '1' });
  expect(trained, trained.stderr).toMatchObject({ code: 0 });
  expect(trained.stderr.match(/no kernels are recorded/g)).toHaveLength(1);
  expect(trained.stderr).toMatch(why);
  const { stdout } = await runLine(['report', folder, '--run', 'gpu']);
  expect(stdout).toContain('nothing was lost');
  expect(stdout).not.toContain('gemm');
});

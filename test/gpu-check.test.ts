// `npm run check:gpu` on a driver that plays a GPU: what it says is right is right there, and each kind of fault is seen. What a GPU gives is not known here.

import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, expect, type TestContext, test } from 'vitest';
import { compile, hasCompiler, needsCompiler } from './setup/c-compiler.ts';
import { repository } from './setup/ranktrace-command.ts';

const tools = mkdtempSync(join(tmpdir(), 'ranktrace-gpu-check-'));
const [driver, cupti] = [join(tools, 'libcuda-fake.so'), join(tools, 'libcupti-fake.so')];

beforeAll(() => {
  if (hasCompiler) {
    compile(driver, ['testing/fake-cuda.c'], '-fPIC', '-shared');
    compile(cupti, ['testing/fake-cupti.c'], '-fPIC', '-shared');
  }
  return () => rmSync(tools, { recursive: true });
});

const check = (
  parts: readonly string[],
  environment: Record<string, string>,
): Promise<{ readonly code: number; readonly output: string }> =>
  new Promise((resolve) => {
    const env = { ...process.env, WAIT_MS: '6000', ...environment };
    execFile(process.execPath, ['test/gpu/run.mjs', ...parts], { cwd: repository, env }, (error, stdout, stderr) => {
      resolve({ code: Number(error?.code ?? 0), output: stdout + stderr });
    });
  });

const played = { RANKTRACE_CUDA_LIBRARY: driver, RANKTRACE_CUPTI_LIBRARY: cupti };

test.for([
  ['', []],
  ['lost', ['kernels: 1890 recorded of 2100 launched', ' before their work runs: 0 of 10 have their kernels, ']],
  ['long', ["times of kernels against CUDA's events: "]],
  ['late', ["clock of kernels against the host's: "]],
] as const)('sees what is right, and what is not: fault "%s"', async ([fault, wrong], context) => {
  needsCompiler(context as TestContext);
  const { code, output } = await check(['records', 'steps'], { ...played, FAKE_CUDA_FAULT: fault });
  const lines = output.trim().split('\n');
  const missed = lines.filter((line) => line.startsWith('MISSED '));
  expect(lines[0]).toBe('on no GPU (a driver that plays one), driver 13.0');
  for (const text of wrong) expect(missed.join('\n')).toContain(text);
  if (fault === '') {
    expect(output).toContain('ok          kernels: 2100 recorded of 2100 launched');
    expect(output).toContain('ok          copies to the device, on it and back, and a set: 4 of 4 with their bytes');
    expect(output).toMatch(/^ok +times of kernels against CUDA's events: /m);
    expect(output).toMatch(/clock of kernels against the host's: \d+\.\d\d µs apart/);
    expect(output).toMatch(
      /^ok +steps of a schedule's windows, \d+\.\d ms before their work runs: 10 of 10 have their kernels, 250 for 250 launches$/m,
    );
  } else expect(code).toBe(1);
});

test('without a driver, or without recording, it says so', async (context) => {
  needsCompiler(context);
  const without = await check(['records', 'cost'], { RANKTRACE_CUDA_LIBRARY: join(tools, 'none.so') });
  expect(without).toEqual({ code: 0, output: "NOT CHECKED kernels: CUDA's driver (libcuda.so.1) is not on this machine\n" });
  const refused = await check(['records'], { ...played, FAKE_CUPTI_REFUSE: 'enable:35' });
  expect(refused.code).toBe(1);
  expect(refused.output).toMatch(/MISSED +no kernels are recorded: this user may not profile/);
});

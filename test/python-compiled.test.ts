// A program of torch.compile under `python -m ranktrace`: what is compiled has its spans, phases and steps, and PyTorch has nothing to complain about.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { repository, startProgram } from './setup/ranktrace-command.ts';
import { findTorch } from './setup/torch-python.ts';
import { readRun } from './setup/trace-events.ts';

const torch = findTorch();
const directory = mkdtempSync(join(tmpdir(), 'ranktrace-compiled-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

/** Steps of test/programs/torch_compiled.py. */
const steps = 8;

test('calls within what torch.compile compiles are recorded, and change nothing', async (context) => {
  if (torch === undefined) {
    context.task.meta.impossibleHere = 'no Python here has torch; RANKTRACE_TORCH_PYTHON names one that has';
    return context.skip();
  }
  const env = {
    ...process.env,
    PYTHONPATH: join(repository, 'clients/python'),
    RANKTRACE_DIRECTORY: directory,
    RANKTRACE_RUN: 'compiled',
    PYTHONWARNINGS: 'always',
  };
  const program = join(repository, 'test/programs/torch_compiled.py');
  const run = (...line: readonly string[]) =>
    startProgram(torch.python, [...line, program], { cwd: directory, env, ownGroup: false }).ended;
  const [plain, recorded] = await Promise.all([run(), run('-m', 'ranktrace')]);
  expect(recorded.stdout).toBe(plain.stdout);
  expect(recorded.code, recorded.stderr).toBe(0);
  expect(recorded.stderr).not.toMatch(/Dynamo does not know|ranktrace/);
  const { events, findings } = await readRun(directory, 'compiled');
  expect(findings).toEqual([]);
  const count = (name: string) => events.filter((event) => event.name === name).length;
  expect(events.filter(({ kind }) => kind === 'step').map(({ step }) => step)).toEqual(Array.from({ length: steps }, (_, step) => step));
  expect(['attention', 'backward', 'optimizer'].map(count)).toEqual([steps, steps, steps]);
});

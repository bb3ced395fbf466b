// The Python client with real trainers, where a Python has them (RANKTRACE_TORCH_PYTHON): unchanged results, and the callbacks for Lightning and Hugging
// Face.

import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, type TestContext, test } from 'vitest';
import { repository, runCommand } from './setup/ranktrace-command.ts';
import { findTorch } from './setup/torch-python.ts';

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
  const { stdout } = await runCommand(['report', join(directory, name)]);
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

test.for(['lightning', 'transformers'])('the callback of %s: a step a step, its phases, and what it logs', async (trainer, context) => {
  const python = pythonWith(context, trainer);
  run(python, ['-I', program('trainer_rank.py')], trainer, { STEPS: '20', TRAINER: trainer });
  expect(await stepsOf(trainer)).toBe(20);
  const { stdout } = await runCommand(['dump', join(directory, trainer)]);
  for (const phase of ['data', 'forward', 'backward', 'optimizer']) expect(stdout).toMatch(new RegExp(`SPAN ${phase}\\b`));
  // Lightning's logger is the program's; its passes are no part of the optimizer's span, whose closure they are.
  if (trainer === 'transformers') expect(stdout).toMatch(/COUNTER loss /);
});

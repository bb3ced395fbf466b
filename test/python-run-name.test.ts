// Ranks that one torchrun starts are one run, whenever each of them begins.

import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { repository } from './setup/ranktrace-command.ts';

const python = process.env.PYTHON_BIN ?? 'python3';
const client = join(repository, 'clients/python');
const program = `import sys; sys.path.insert(0, ${JSON.stringify(client)}); import ranktrace; print(ranktrace.profile()._options.run)`;

/** The names that two ranks choose which one process starts, the second one more than a second later. */
function namesOf(environment: Record<string, string>): string[] {
  const rank = `'${python}' -I -c '${program}'`;
  const { PATH = '' } = process.env;
  const about = { PATH, WORLD_SIZE: '2', LOCAL_WORLD_SIZE: '2', TORCHELASTIC_RUN_ID: 'none', ...environment };
  const said = execFileSync('sh', ['-c', `RANK=0 ${rank}; sleep 1.2; RANK=1 ${rank}`], { encoding: 'utf8', env: about });
  return said.trim().split('\n');
}

test('of one torchrun on one host they agree', () => {
  const [first, second] = namesOf({});
  expect(first).toMatch(/^run-\d{8}-\d{6}$/);
  expect(second).toBe(first);
});

test('of a torchrun on several hosts, or with a name, it is as it was', () => {
  expect(new Set(namesOf({ WORLD_SIZE: '4' })).size).toBe(2);
  expect(namesOf({ TORCHELASTIC_RUN_ID: 'night' })).toEqual(['night', 'night']);
  expect(namesOf({ RANKTRACE_RUN: 'mine' })).toEqual(['mine', 'mine']);
});

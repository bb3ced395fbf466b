// Ranks that one torchrun starts are one run, whenever each of them begins; a rank's number is its launcher's.

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

test('a rank that mpirun starts within a job of Slurm has its number of Open MPI, and one that srun starts that of Slurm', () => {
  const place = `${program.slice(0, program.indexOf('print'))}options = ranktrace.profile()._options; print(options.rank, options.world_size)`;
  const { PATH = '' } = process.env;
  const slurm = { SLURM_JOB_ID: '4711', SLURM_PROCID: '0', SLURM_NTASKS: '2' };
  const placeOf = (more: Record<string, string>) =>
    execFileSync(python, ['-I', '-c', place], { encoding: 'utf8', env: { PATH, ...slurm, ...more } }).trim();
  expect(placeOf({ OMPI_COMM_WORLD_RANK: '3', OMPI_COMM_WORLD_SIZE: '8' })).toBe('3 8');
  expect(placeOf({ SLURM_PROCID: '1' })).toBe('1 2');
});

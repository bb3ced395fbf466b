// Python programs may pass anything: nothing is raised, and no value takes other events with it.

import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { repository } from './setup/ranktrace-command.ts';
import { readRun } from './setup/trace-events.ts';

const directory = mkdtempSync(join(tmpdir(), 'ranktrace-python-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

/** The program's values: all, those that are numbers, and those that are ranks or none. */
const values = { all: 23, numbers: 7, peers: 2 };

test('a rank that passes odd values raises nothing and loses nothing but these', async () => {
  const program = join(repository, 'test/programs/odd_values_rank.py');
  const raised = execFileSync(process.env.PYTHON_BIN ?? 'python3', ['-I', program, join(repository, 'clients/python'), directory], {
    encoding: 'utf8',
    stdio: 'pipe',
  });
  expect(raised).toBe('');
  const { events, findings } = await readRun(directory, 'odd');
  const steps = events.filter(({ kind }) => kind === 'step').map(({ step }) => step);
  // A number that is none is counted on from the one before.
  expect(steps).toHaveLength(values.all + 3);
  expect(steps.slice(-3)).toEqual([1000, 1001, 1002]);
  // Counters without a value, and sends to what is no rank.
  const dropped = values.all - values.numbers + values.all - values.peers;
  expect(findings).toEqual([
    `rank 0: ${dropped} events dropped because the ring or another bound was full, or a value was of the wrong type`,
    // The dictionary that raises, of a span and of an instant.
    'rank 0: 2 arguments cut by a limit, or left out for an invalid value',
  ]);
  expect(events.filter(({ name }) => name === 'forward')).toHaveLength(3);
  expect(events.filter(({ name }) => name === '(Raises)').length).toBeGreaterThan(3);
});

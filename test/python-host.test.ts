// The Python client samples its process and host: what threads and loaders wait for a CPU is known of PyTorch's ranks, too.

import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { cpuWaitCounter } from '@ranktrace/protocol';
import { expect, onTestFinished, test } from 'vitest';
import { repository } from './setup/ranktrace-command.ts';
import { readRun } from './setup/trace-events.ts';

test('counters of the host are there, and what workers wait for a CPU is part of them', async (context) => {
  if (!existsSync('/proc/self/schedstat')) {
    context.task.meta.impossibleHere = 'this kernel does not count what threads wait for a CPU (/proc/self/schedstat)';
    return context.skip();
  }
  const folder = mkdtempSync(join(tmpdir(), 'ranktrace-python-host-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  await promisify(execFile)(process.env.PYTHON_BIN ?? 'python3', [join(repository, 'test/programs/sampled_rank.py'), folder]);
  const { events, findings } = await readRun(join(folder, 'sampled'), 'sampled');
  expect(findings).toEqual([]);
  const valuesOf = (counter: string) => events.filter(({ kind, name }) => kind === 'counter' && name === counter).map(({ value }) => value);
  for (const name of ['process cpu', 'system cpu', 'shipper cpu']) {
    expect(valuesOf(name).length, name).toBeGreaterThan(5);
    for (const value of valuesOf(name)) expect(value, name).toBeGreaterThanOrEqual(0);
  }
  for (const value of valuesOf('rss')) expect(value).toBeGreaterThan(5e6);
  // One CPU of four that want it: three quarters of the time, once the worker runs.
  const waits = valuesOf(cpuWaitCounter).sort((a, b) => a - b);
  expect(waits[Math.floor(0.6 * waits.length)]).toBeGreaterThan(40);
  for (const value of waits) expect(value).toBeLessThanOrEqual(100);
});

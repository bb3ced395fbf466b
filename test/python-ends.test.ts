// A Python rank ends by a signal or an error as it would without a recording, wherever its main thread is, and its last batches go out first.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { endedByKey } from '@ranktrace/protocol';
import { expect, onTestFinished, test } from 'vitest';
import { repository } from './setup/ranktrace-command.ts';
import { readRun } from './setup/trace-events.ts';

interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly said: readonly string[];
}

/** A rank that gets SIGTERM, or another signal, when it is ready. */
async function ended(folder: string, where: string, signal: NodeJS.Signals | undefined): Promise<Ended> {
  const rank = spawn(process.env.PYTHON_BIN ?? 'python3', [join(repository, 'test/programs/ended_rank.py'), folder, where], {
    stdio: ['ignore', 'pipe', /^raises|^exits/.test(where) ? 'ignore' : 'inherit'],
  });
  onTestFinished(() => void rank.kill('SIGKILL'));
  const said: string[] = [];
  createInterface(rank.stdout).on('line', (line) => {
    said.push(line);
    if (line === 'ready' && signal !== undefined) rank.kill(signal);
  });
  const [code, by] = (await once(rank, 'close')) as [number | null, NodeJS.Signals | null];
  return { code, signal: by, said };
}

test.each([
  // Without a recording these end by the signal, too.
  ['c', 'SIGTERM', { code: null, signal: 'SIGTERM', said: ['ready'] }, 20, 'SIGTERM'],
  ['c', 'SIGHUP', { code: null, signal: 'SIGHUP', said: ['ready'] }, 20, 'SIGHUP'],
  ['python', 'SIGTERM', { code: null, signal: 'SIGTERM', said: ['ready'] }, 20, 'SIGTERM'],
  ['python', 'SIGINT', { code: null, signal: 'SIGINT', said: ['ready'] }, 20, 'SIGINT'],
  // It goes on after a first Ctrl-C.
  ['survived', 'SIGTERM', { code: null, signal: 'SIGTERM', said: ['ready'] }, 21, 'SIGTERM'],
  ['handler-restored-c', 'SIGTERM', { code: null, signal: 'SIGTERM', said: ['ready'] }, 20, 'SIGTERM'],
  ['stopped-c', 'SIGTERM', { code: null, signal: 'SIGTERM', said: ['ready'] }, 20, undefined],
  // And these as the program says.
  ['handler', 'SIGTERM', { code: 3, signal: null, said: ['ready', 'had <Handlers.SIG_DFL: 0>', 'has <function ha'] }, 20, 'SIGTERM'],
  ['loop', 'SIGTERM', { code: 0, signal: null, said: ['ready', 'asked'] }, 20, undefined],
  ['ignored', 'SIGTERM', { code: 0, signal: null, said: ['ready', 'alive'] }, 20, undefined],
  // A signal of a forked child is not its parent's.
  ['child', undefined, { code: 0, signal: null, said: ['ready', 'child 15'] }, 21, undefined],
] as const)('%s, %s', async (where, signal, end, steps, endedBy) => {
  const folder = mkdtempSync(join(tmpdir(), 'ranktrace-python-ends-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  expect(await ended(folder, where, signal)).toEqual(end);
  const { events, findings, processes } = await readRun(join(folder, 'ended'), 'ended');
  expect(findings).toEqual([]);
  expect(events.filter(({ kind }) => kind === 'step')).toHaveLength(steps);
  expect(processes[0]?.metadata.get(endedByKey)).toBe(endedBy);
});

test.each(['raises', 'raises-within'])('an error that nobody handles: %s', async (where) => {
  const folder = mkdtempSync(join(tmpdir(), 'ranktrace-python-ends-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  expect(await ended(folder, where, undefined)).toEqual({ code: 1, signal: null, said: [] });
  const { events, findings } = await readRun(join(folder, 'ended'), 'ended');
  expect(findings).toEqual(['rank 0 failed: ValueError: bad batch']);
  expect(events.filter(({ kind, name }) => kind === 'instant' && name === 'failed')).toHaveLength(1);
});

test.each([
  ['3', 3, ['rank 0 failed: exit code 3']],
  ['bad data', 1, ['rank 0 failed: bad data']],
  // A shell's code for SIGTERM: the program was asked to end.
  ['143', 143, []],
  ['255', 255, ['rank 0 failed: exit code 255']],
  ['0', 0, []],
])('sys.exit(%j)', async (exit, code, found) => {
  const folder = mkdtempSync(join(tmpdir(), 'ranktrace-python-ends-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  expect(await ended(folder, `exits-within-${exit}`, undefined)).toEqual({ code, signal: null, said: [] });
  const { findings } = await readRun(join(folder, 'ended'), 'ended');
  expect(findings).toEqual(found);
});

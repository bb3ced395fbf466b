// A rank without its receiver: the command that it prints makes a trace of its events.

import { execFile, execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { startRanks } from './setup/rank-programs.ts';
import { commandPath } from './setup/ranktrace-command.ts';
import { freePort } from './setup/server-process.ts';

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "ranktrace it's away-"));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

/** Trains two steps with a url where no service listens; gives the rank's output. `before`: code before the profile stops. */
async function train(environment: Record<string, string>, { before = '', after = '' } = {}): Promise<string> {
  const program = `
    import { profile, recordFunction } from '@ranktrace/sdk';
    const prof = profile().start();
    for (let step = 0; step < 2; step++) { recordFunction('forward', () => {}); prof.step(); }
    ${before}
    await prof.stop();
    ${after}`;
  const [rank] = await startRanks(1, ['--input-type=module', '-e', program], {
    RANKTRACE_URL: `ws://127.0.0.1:${await freePort()}`,
    RANKTRACE_SPOOL_DIRECTORY: join(directory, 'spool'),
    // It waits so long for the receiver, and a starved machine needs as long to say that it is away.
    RANKTRACE_EXIT_DEADLINE_MS: '4000',
    ...environment,
  });
  const ended = await rank?.ended;
  expect(ended?.code).toBe(0);
  return ended?.output ?? '';
}

test('a run that named itself prints the command that makes a trace of what waits, and it does', async () => {
  const output = await train({});
  const [, run = ''] = /-o (run-[\w-]+)\.pftrace$/m.exec(output) ?? [];
  const lines = output.trim().split('\n');
  expect(lines.at(-1)).toMatch(/^ranktrace rank 0: not everything was acknowledged: the rest stays in ".*"; to make a trace of it: /);
  const commands = [...output.matchAll(/: (ranktrace merge .*)$/gm)].map((match) => match[1] as string);
  // Once when the receiver was found to be away, if that was before the end, and once at the end.
  expect(new Set(commands).size).toBe(1);
  const [command = ''] = commands;
  // As a shell runs it, with the command of this repository.
  const shell = `ranktrace() { "${process.execPath}" "${commandPath}" "$@"; }; ${command}`;
  const { stdout } = await promisify(execFile)('sh', ['-c', shell], { cwd: directory });
  expect(stdout).toContain(`run ${run}: 1 of 1 ranks`);
  expect(stdout).toMatch(/^steps: 2, /m);
  expect(stdout).toMatch(/^mean per step +step +forward/m);
  expect(existsSync(join(directory, `${run}.pftrace`))).toBe(true);
});

test('a run with a name says that the next start of the rank brings it, and the command as well', async () => {
  const output = await train({ RANKTRACE_RUN: 'night-42' });
  expect(output).toMatch(
    /stays in ".*night-42\/rank-0-.*" for the next start of this rank in run "night-42"; to make a trace of it: ranktrace merge '/,
  );
  expect(output).toMatch(/-o night-42\.pftrace$/m);
});

test('a thread that does not end in time is reported, and the program goes on', async () => {
  // Reading a pipe into which nothing is written holds the thread, as a disk that does not answer, or a host without a free CPU.
  const left = join(directory, 'spool', 'stuck', 'rank-0-before');
  mkdirSync(left, { recursive: true, mode: 0o700 });
  const pipe = join(left, 'owner');
  execFileSync('mkfifo', [pipe]);
  const before = `
    const { closeSync, constants, openSync, rmSync } = await import('node:fs');
    const pipe = ${JSON.stringify(pipe)};
    // A pipe that nobody reads yet cannot be opened so: once it is, the thread is held.
    let writer;
    while (writer === undefined) {
      try { writer = openSync(pipe, constants.O_WRONLY | constants.O_NONBLOCK); }
      catch (error) { if (error.code !== 'ENXIO') throw error; await new Promise((resolve) => setTimeout(resolve, 5)); }
    }`;
  const after = `console.log('goes on'); rmSync(pipe); closeSync(writer);`;
  const output = await train({ RANKTRACE_RUN: 'stuck', RANKTRACE_EXIT_DEADLINE_MS: '100' }, { before, after });
  expect(output).toMatch(
    /^ranktrace rank 0: the recording was cut off: its thread did not end within 100 ms; what is not in ".*" by now is lost/m,
  );
  expect(output).toContain('goes on');
});

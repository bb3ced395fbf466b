// docs/pytorch.md as a reader types it, with real PyTorch where a Python has it (RANKTRACE_TORCH_PYTHON): its five minutes end with the alert that the
// page promises, and its capture has the ranks of an unchanged program. test/clone.test.ts runs the commands of all other pages.

import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import type { Alert, LiveMessage } from '@ranktrace/protocol';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { read } from './repository/source-files.ts';
import { commandsOf, pageBlocks } from './setup/page-blocks.ts';
import { commandPath, repository, type StartedCommand } from './setup/ranktrace-command.ts';
import { freePort } from './setup/server-process.ts';
import { findTorch } from './setup/torch-python.ts';
import { interrupt, runTyped, startTyped } from './setup/typed-commands.ts';

const torch = findTorch();
const folder = mkdtempSync(join(tmpdir(), 'ranktrace-pytorch-'));
const blocks = pageBlocks(read('docs/pytorch.md'));
const commands = blocks.filter(({ language }) => language === 'sh').flatMap(commandsOf);
const started: StartedCommand[] = [];
let port = 0;

/** The page's command that begins with these words, on a free port, with processes of this run alone. */
function typed(words: string): string {
  const command = commands.find((line) => line.includes(words));
  if (command === undefined) throw new Error(`docs/pytorch.md has no command with "${words}"`);
  return command.replaceAll('127.0.0.1:7400', `127.0.0.1:${port}`);
}

const environment = (): Record<string, string> => ({
  PATH: `${join(folder, 'bin')}:${dirname(process.execPath)}:${process.env.PATH}`,
  PYTHONPATH: join(repository, 'clients/python'),
  RANKTRACE_SPOOL_DIRECTORY: join(folder, 'spool'),
  KINETO_IPC_SOCKET_DIR: join(folder, 'socket'),
  TMPDIR: join(folder, 'tmp'),
  // The agent of this job sees its ranks alone: other tests have ranks on this host, too.
  SLURM_JOB_ID: folder.slice(-6),
});

function start(line: string): StartedCommand {
  const one = startTyped(line, { cwd: folder, environment: environment() });
  started.push(one);
  return one;
}

const run = (line: string) => runTyped(line, { cwd: folder, environment: environment() });

beforeAll(async () => {
  port = await freePort();
  for (const name of ['bin', 'socket', 'tmp']) mkdirSync(join(folder, name));
  for (const { kind, name, code } of blocks) if (kind === 'file') writeFileSync(join(folder, name), code);
  // `npx ranktrace` is this repository's command, and `venv` the Python that was found.
  writeFileSync(join(folder, 'bin/npx'), `#!/bin/sh\nshift\nexec '${process.execPath}' '${commandPath}' "$@"\n`, { mode: 0o755 });
  if (torch !== undefined) symlinkSync(dirname(dirname(torch.python)), join(folder, 'venv'));
});
afterAll(async () => {
  for (const one of started) interrupt(one);
  await Promise.all(started.map(({ ended }) => ended));
  rmSync(folder, { recursive: true, force: true });
});

async function statusUntil(isSo: (runs: LiveMessage['runs']) => boolean): Promise<void> {
  for (;;) {
    const { runs } = (await (await fetch(`http://127.0.0.1:${port}/status`)).json()) as LiveMessage;
    if (isSo(runs)) return;
    await wait(100);
  }
}

if (torch === undefined) {
  test('the five minutes of docs/pytorch.md', (context) => {
    context.task.meta.impossibleHere = 'no Python here has torch; RANKTRACE_TORCH_PYTHON names one that has';
    context.skip();
  });
} else {
  test('five minutes: from torchrun to an alert that names rank and phase, with its trace', async () => {
    const serving = start(`${typed('ranktrace serve')} --listen 127.0.0.1:${port}`);
    await serving.said('listening on');
    const job = await run(typed('-m ranktrace train.py'));
    expect(job).toMatchObject({ code: 0 });
    await statusUntil((runs) => runs.some(({ run, ranks }) => run === 'first' && ranks.length === 4 && ranks.every(({ ended }) => ended)));
    const alerts = await run(typed('ranktrace alerts'));
    // Where a busy machine hides the jump, the rule about drifts finds it, and takes its begin from longer means.
    expect(alerts.stdout).toMatch(/ step_time(_drift)? .*rank 2\b.*forward/);
    const { alerts: found } = JSON.parse((await run(`${typed('ranktrace alerts')} --json`)).stdout) as { alerts: Alert[] };
    const ours = found.find(({ onsetStep, ranks }) => ranks.join() === '2' && Math.abs((onsetStep ?? 0) - 1001) <= 64);
    expect(ours, alerts.stdout).toMatchObject({
      rule: expect.stringMatching(/^step_time/),
      capture: { state: 'written', ranks: [0, 1, 2, 3] },
    });
    expect(ours?.cause?.text).toMatch(/^rank 2 works .* in forward/);
    const report = await run(typed('ranktrace report runs/first'));
    expect(report.stdout).toMatch(/rank 2/);
  });

  test('the agent: captures an unchanged program', async () => {
    const agent = start(typed('ranktrace agent'));
    await agent.said('answers PyTorch processes');
    // Long enough to be captured: the page's program ends by itself.
    const program = readFileSync(join(folder, 'train.py'), 'utf8');
    writeFileSync(join(folder, 'train.py'), program.replace('64 * 1500', '64 * 20_000').replace('rank == 2 and step > 1000', 'True'));
    const job = start(`RANKTRACE_RUN=second ${typed('torchrun --nproc-per-node 4 train.py')}`);
    await statusUntil((runs) => runs.some(({ run, ranks }) => run === 'second' && ranks.length === 4));
    // On a machine that is starved, PyTorch may miss the begin of a window, and the answer says so.
    const capture = () => run(`${typed('ranktrace capture')} --url http://127.0.0.1:${port} --run second --json`);
    let captured = await capture();
    for (let tries = 1; captured.code !== 0 && tries < 4; tries++) captured = await capture();
    expect(captured.code, captured.stderr).toBe(0);
    expect(JSON.parse(captured.stdout)).toMatchObject({ run: 'second', ranks: [0, 1, 2, 3], notes: [] });
    interrupt(job);
    await job.ended;
  });
}

// `ranktrace top` as a person uses it: on a real terminal that is resized, with keys; into a log; with a service that is killed and comes back.
// And what Prometheus reads of the same service.

import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import type { LiveMessage } from '@ranktrace/protocol';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type RankProgram, startRanks } from './setup/rank-programs.ts';
import { commandPath, repository, runCommand, type StartedCommand, startCommand } from './setup/ranktrace-command.ts';
import { freePort } from './setup/server-process.ts';

const directory = mkdtempSync(join(tmpdir(), 'ranktrace-top-'));
let port: number;
let url: string;
let service: StartedCommand;
let ranks: readonly RankProgram[];

async function startService(): Promise<StartedCommand> {
  const started = startCommand(['serve', '--listen', `127.0.0.1:${port}`, '--out', directory]);
  await started.said('listening on');
  return started;
}

beforeAll(async () => {
  port = await freePort();
  url = `http://127.0.0.1:${port}`;
  service = await startService();
  ranks = await startRanks(3, ['test/programs/steps.mjs', '100000', '5'], {
    RANKTRACE_RUN: 'night',
    RANKTRACE_URL: url.replace('http', 'ws'),
    RANKTRACE_SPOOL_DIRECTORY: join(directory, 'spool'),
    RANKTRACE_SAMPLE_INTERVAL_MS: '200',
  });
  const stepping = async (): Promise<number> => {
    const { runs } = (await (await fetch(`${url}/status`)).json()) as LiveMessage;
    return runs[0]?.ranks.filter(({ step }) => step >= 20).length ?? 0;
  };
  while ((await stepping()) < 3) await setTimeout(50);
});

afterAll(async () => {
  for (const { child } of ranks) child.kill('SIGKILL');
  service.child.kill('SIGKILL');
  await Promise.all([service.ended, ...ranks.map(({ ended }) => ended)]);
  rmSync(directory, { recursive: true });
});

/** `ranktrace top` on a terminal. */
class Terminal {
  readonly #child: ChildProcess;
  readonly ended: Promise<number | null>;
  #written = '';

  constructor(columns: number, rows: number, environment: Record<string, string> = {}) {
    const command = [process.execPath, commandPath, 'top', '--url', url];
    const args = ['test/setup/terminal.py', String(columns), String(rows), ...command];
    const env = { ...process.env, TERM: 'xterm', LC_ALL: 'C.UTF-8', ...environment };
    this.#child = spawn(process.env.PYTHON_BIN ?? 'python3', args, { cwd: repository, env, stdio: ['pipe', 'pipe', 'inherit'] });
    this.#child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      this.#written += text;
    });
    this.ended = new Promise((resolve) => this.#child.once('close', resolve));
  }

  get written(): string {
    return this.#written;
  }

  /** The last screen that was drawn whole, without what paints it. */
  get screen(): readonly string[] {
    const frame = this.#written.split('\u001b[H').findLast((text) => text.includes('\u001b[J')) ?? '';
    const [text = ''] = frame.split('\u001b[J');
    // The terminal's driver may make more of a line's end.
    return text.split('\n').map((line) => line.replaceAll('\u001b[K', '').replaceAll('\r', ''));
  }

  async until(what: RegExp): Promise<void> {
    await expect.poll(() => this.screen.join('\n'), { timeout: 60_000, interval: 50 }).toMatch(what);
  }

  keys(text: string): void {
    this.#child.stdin?.write(`keys ${Buffer.from(text).toString('hex')}\n`);
  }

  size(columns: number, rows: number): void {
    this.#child.stdin?.write(`size ${columns} ${rows}\n`);
  }
}

it('shows ranks, steps and phases on a terminal, follows its size, and gives it back', async () => {
  const terminal = new Terminal(110, 24, { NO_COLOR: '1' });
  await terminal.until(/^ranktrace top - run night - live +\d\d:\d\d:\d\d\nranks 3 of 3 .*step time p50 \d/);
  await terminal.until(/^rank +host +step +mean +p95 +excess .*wait/m);
  expect(terminal.screen[2]).toMatch(/^[▁▂▃▄▅▆▇█ ]{10,}$/);
  expect(terminal.screen.filter((line) => /^ {3}[012] {2}/.test(line)).length).toBe(3);
  terminal.size(40, 6);
  await expect.poll(() => Math.max(...terminal.screen.map((line) => line.length)), { timeout: 20_000 }).toBeLessThanOrEqual(40);
  expect(terminal.screen.length).toBeLessThanOrEqual(6);
  expect(terminal.written).not.toMatch(/\[3\dm/);
  terminal.keys('q');
  expect(await terminal.ended).toBe(0);
  expect(terminal.written.startsWith('\u001b[?1049h\u001b[?25l')).toBe(true);
  expect(terminal.written.endsWith('\u001b[?25h\u001b[?1049l')).toBe(true);
});

it('has letters instead of blocks where the terminal knows no others; Ctrl-C ends it', async () => {
  const terminal = new Terminal(80, 24, { LC_ALL: 'C' });
  await terminal.until(/ranks 3 of 3/);
  await terminal.until(/steps \d.* each as long as its slowest rank/);
  expect(terminal.written).not.toMatch(/[▁▂▃▄▅▆▇█]/);
  expect(terminal.written).toContain('\u001b[1m');
  terminal.keys('\u0003');
  expect(await terminal.ended).toBe(0);
});

it('writes lines where stdout is no terminal, until it is interrupted', async () => {
  const command = startCommand(['top', '--url', url, '--run', 'night']);
  await command.said('run night: ranks 3/3, step ');
  await expect.poll(() => command.output().trim().split('\n').length, { timeout: 20_000 }).toBeGreaterThan(2);
  command.child.kill('SIGINT');
  const { code, stdout, stderr } = await command.ended;
  expect([code, stderr]).toEqual([0, '']);
  for (const line of stdout.trim().split('\n')) expect(line).toMatch(/^\d\d:\d\d:\d\d {2}run night: ranks 3\/3/);
});

it('looks once where it is asked to, and says what is wrong in one line', async () => {
  const once = await runCommand(['top', '--url', url, '--once']);
  expect([once.code, once.stderr]).toEqual([0, '']);
  expect(once.stdout).toMatch(/^run night: ranks 3\/3, step [\d ]+, [\d.]+ ms a step/);
  for (const [args, what] of [
    [['--url', url, '--run', 'other'], `There is no run "other" at ${url}: there is night`],
    [['--url', 'http://127.0.0.1:1'], 'No service answers at http://127.0.0.1:1'],
    [['--url', 'nonsense'], '--url must be where a service listens'],
  ] as const) {
    const { code, stdout, stderr } = await runCommand(['top', ...args]);
    expect(stderr).toContain(what);
    expect([code, stdout, stderr.trim().split('\n').length]).toEqual([2, '', 1]);
  }
});

it('is read by Prometheus', async () => {
  const text = await (await fetch(`${url}/metrics`)).text();
  // promtool has opinions on names and help, too.
  execFileSync(process.env.PROMTOOL_BIN ?? 'promtool', ['check', 'metrics'], { input: text });
  expect(text).toMatch(/^ranktrace_ranks\{run="night",state="live"\} 3$/m);
  for (const rank of [0, 1, 2]) {
    expect(text).toMatch(new RegExp(`^ranktrace_ring_fill_ratio\\{run="night",rank="${rank}"\\} [\\d.e-]+$`, 'm'));
    expect(text).toMatch(new RegExp(`^ranktrace_clock_bound_seconds\\{run="night",rank="${rank}"\\} 0$`, 'm'));
  }
});

it('waits for a service that is killed and comes back', async () => {
  const terminal = new Terminal(100, 24);
  await terminal.until(/ranks 3 of 3/);
  service.child.kill('SIGKILL');
  await service.ended;
  await terminal.until(/No service answers at/);
  service = await startService();
  await terminal.until(/^(?!.*No service answers)[\s\S]*ranks 3 of 3[\s\S]*each as long as/);
  terminal.keys('q');
  expect(await terminal.ended).toBe(0);
});

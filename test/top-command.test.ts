// `ranktrace top` in a person's hands: on a real terminal that is resized, with keys; into a log; with a service that is killed and comes back.
// Prometheus reads the same service.

import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { ViewClient } from '@ranktrace/aggregator';
import type { LiveMessage, Overview } from '@ranktrace/protocol';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type RankProgram, startRanks } from './setup/rank-programs.ts';
import { commandPath, repository, runCommand, type StartedCommand, startCommand } from './setup/ranktrace-command.ts';
import { freePort } from './setup/server-process.ts';

const minute = 60_000;
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

/** How many ranks of a run have made some steps. */
async function stepping(name: string): Promise<number> {
  const { runs } = (await (await fetch(`${url}/status`)).json()) as LiveMessage;
  return runs.find(({ run }) => run === name)?.ranks.filter(({ step }) => step >= 20).length ?? 0;
}

beforeAll(async () => {
  port = await freePort();
  url = `http://127.0.0.1:${port}`;
  service = await startService();
  ranks = await startRanks(3, ['test/programs/steps.mjs', '100000', '20'], {
    RANKTRACE_RUN: 'night',
    RANKTRACE_URL: url.replace('http', 'ws'),
    RANKTRACE_SPOOL_DIRECTORY: join(directory, 'spool'),
    RANKTRACE_SAMPLE_INTERVAL_MS: '200',
  });
  while ((await stepping('night')) < 3) await setTimeout(50);
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

  constructor(columns: number, rows: number, environment: Record<string, string> = {}, run = 'night') {
    const command = [process.execPath, commandPath, 'top', '--url', url, '--run', run];
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

  /** The last screen that was drawn whole, without its control sequences. */
  get screen(): readonly string[] {
    const frame = this.#written.split('\u001b[H').findLast((text) => text.includes('\u001b[J')) ?? '';
    const [text = ''] = frame.split('\u001b[J');
    // The terminal's driver may expand the end of a line.
    return text.split('\n').map((line) => line.replaceAll('\u001b[K', '').replaceAll('\r', ''));
  }

  async until(what: RegExp): Promise<void> {
    await expect.poll(() => this.screen.join('\n'), { timeout: 4 * minute, interval: 50 }).toMatch(what);
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
  await terminal.until(/^ranktrace top - run night - live .*\d\d:\d\d:\d\d\nranks 3 of 3 .*step time p50 \d/);
  await terminal.until(/^rank +host +step +mean +p50 +p95 +excess /m);
  await terminal.until(/^[▁▂▃▄▅▆▇█ ]{10,}$/m);
  expect(terminal.screen.filter((line) => /^ {3}[012] {2}/.test(line)).length).toBe(3);
  terminal.size(40, 6);
  await expect.poll(() => Math.max(...terminal.screen.map((line) => line.length))).toBeLessThanOrEqual(40);
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
  await terminal.until(/steps \d.* to \d/);
  expect(terminal.written).not.toMatch(/[▁▂▃▄▅▆▇█]/);
  expect(terminal.written).toContain('\u001b[1m');
  terminal.keys('\u0003');
  expect(await terminal.ended).toBe(0);
});

it('writes lines where stdout is no terminal, until it is interrupted', async () => {
  const command = startCommand(['top', '--url', url, '--run', 'night']);
  await command.said('run night: ranks 3/3, step ');
  await expect.poll(() => command.output().trim().split('\n').length).toBeGreaterThan(2);
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

it('distinguishes ranks that are stopped, killed and ended from those that go on, and has the same figures at any size', {
  timeout: 10 * minute,
}, async () => {
  const environment = {
    RANKTRACE_RUN: 'states',
    RANKTRACE_URL: url.replace('http', 'ws'),
    RANKTRACE_SPOOL_DIRECTORY: join(directory, 'spool-states'),
    WORLD_SIZE: '4',
  };
  const program = (steps: number): string[] => ['test/programs/steps.mjs', `${steps}`, '20'];
  const started = await Promise.all(
    [100_000, 100_000, 100_000, 50].map(
      async (steps, rank) => (await startRanks(1, program(steps), { ...environment, RANK: `${rank}` }))[0],
    ),
  );
  const [first, stopped, killed, ending] = started as [RankProgram, RankProgram, RankProgram, RankProgram];
  while ((await stepping('states')) < 4) await setTimeout(50);
  const terminal = new Terminal(100, 30, { NO_COLOR: '1' }, 'states');
  const rowOf = (rank: number): string => terminal.screen.find((line) => new RegExp(`^ *${rank} {2}`).test(line)) ?? '';
  try {
    expect((await ending.ended).code).toBe(0);
    await terminal.until(/ranks 4 of 4 {3}1 ended/);
    // The others are heard, so the next two are the test's doing.
    await terminal.until(/^ *0 {2}(?!.*(stopped|lost)).*\n *1 {2}(?!.*(stopped|lost)).*\n *2 {2}(?!.*(stopped|lost)).*\n *3 .*ended$/m);
    stopped.child.kill('SIGSTOP');
    killed.child.kill('SIGKILL');
    await terminal.until(/^ *1 .*stopped since \d\d:\d\d:\d\d \([\d.]+ m?s\)/m);
    await terminal.until(/^ *2 .*lost since \d\d:\d\d:\d\d \([\d.]+ m?s\)/m);
    expect(rowOf(3)).toMatch(/ended$/);
    expect(rowOf(0)).not.toMatch(/lost|ended/);
    stopped.child.kill('SIGCONT');
    await terminal.until(/^ *1 {2}(?!.*stopped)/m);
    // The run gains no more: all readers get the same.
    stopped.child.kill('SIGSTOP');
    first.child.kill('SIGSTOP');
    await terminal.until(/^ *0 .*stopped since[\s\S]*^ *1 .*stopped since/m);
    const figures = async (columns: number, rows: number): Promise<string | undefined> => {
      terminal.size(columns, rows);
      await terminal.until(new RegExp(`^.{${columns - 8}}\\d\\d:\\d\\d:\\d\\d\\n`));
      await terminal.until(/p50 \d/);
      expect(terminal.screen.length).toBeLessThanOrEqual(rows);
      expect(Math.max(...terminal.screen.map((line) => line.length))).toBeLessThanOrEqual(columns);
      return /p50 (\S+ \S+)/.exec(terminal.screen.join(' '))?.[1];
    };
    const sizes = [
      [40, 10],
      [60, 14],
      [80, 24],
      [200, 50],
      [300, 50],
    ] as const;
    const seen: (string | undefined)[] = [];
    for (const [columns, rows] of sizes) seen.push(await figures(columns, rows));
    expect(seen[0]).toMatch(/^[\d.]+ m?s$/);
    expect(seen).toEqual(sizes.map(() => seen[0]));
    // A wide screen shows more: each rank's last steps, and a higher chart.
    expect(terminal.screen.join('\n')).toMatch(/^rank .* mean +p50 +p95 +excess .* last steps$/m);
    expect(terminal.screen.filter((line) => /^[▁▂▃▄▅▆▇█ ]{40,}$/.test(line)).length).toBeGreaterThan(2);
  } finally {
    for (const { child } of started as RankProgram[]) {
      child.kill('SIGCONT');
      child.kill('SIGKILL');
    }
  }
  terminal.keys('\u0003');
  expect(await terminal.ended).toBe(0);
});

it('flags no rank among ranks that do the same', { timeout: 10 * minute }, async () => {
  // The analysis decides which rank is slow, once it has a result for the run.
  using client = await ViewClient.connect(url, { token: undefined });
  await client.ask({ type: 'open', run: 'night' });
  const isAnalysed = async (): Promise<boolean> => {
    const { waiting, findings, analysedSince } = await client.ask<Overview>({ type: 'overview', run: 'night', bins: 10 });
    return waiting.length > 0 || findings.length > 0 || analysedSince !== null;
  };
  await expect.poll(isAnalysed, { timeout: 4 * minute, interval: 200 }).toBe(true);
  const terminal = new Terminal(200, 50, { NO_COLOR: '1' });
  await terminal.until(/^ *2 {2}.* ms /m);
  // On a machine that is starved one is slow, and said to be, for a while.
  const flagged = () => terminal.screen.filter((line) => /^ *[012] {2}.*(slow|stopped|lost)/.test(line));
  await expect.poll(flagged, { timeout: 4 * minute }).toEqual([]);
  terminal.keys('q');
  expect(await terminal.ended).toBe(0);
});

it('is read by Prometheus', async () => {
  const read = async (): Promise<string> => (await fetch(`${url}/metrics`)).text();
  await expect.poll(read).toMatch(/^ranktrace_ranks\{run="night",state="live"\} 3$/m);
  const text = await read();
  // promtool checks names and help, too.
  execFileSync(process.env.PROMTOOL_BIN ?? 'promtool', ['check', 'metrics'], { input: text });
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
  await terminal.until(/^(?!.*No service answers)[\s\S]*ranks 3 of 3[\s\S]*steps \d.* to \d/);
  terminal.keys('q');
  expect(await terminal.ended).toBe(0);
});

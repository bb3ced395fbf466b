// The commands in a person's hands: Ctrl-C, a failing rank, pipes, data instead of text, progress of a live run.

import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { gunzipSync } from 'node:zlib';
import { liveMessageSchema, streamConfig } from '@ranktrace/protocol';
import { connect } from 'nats';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startNatsServer } from './setup/nats-server.ts';
import { startRanks } from './setup/rank-programs.ts';
import { commandPath, repository, runCommand, type StartedCommand, startCommand, startProgram } from './setup/ranktrace-command.ts';
import { runLine } from './setup/warm-command.ts';

const directory = mkdtempSync(join(tmpdir(), 'ranktrace-commands-'));
const steps = (count: number, ms: number): string[] => ['--', process.execPath, 'test/programs/steps.mjs', `${count}`, `${ms}`];

beforeAll(async () => {
  const { code, stderr } = await runCommand(['run', '--ranks', '2', '--name', 'short', '--out', directory, ...steps(20, 2)]);
  if (code !== 0) throw new Error(stderr);
});
afterAll(() => rmSync(directory, { recursive: true }));

describe('ranktrace run', () => {
  it('prints steps, phases per rank, clocks, findings and the path of the trace', async () => {
    const { stdout, code } = await runCommand(['run', '--ranks', '2', '--name', 'text', '--out', directory, ...steps(30, 2)]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^run text: 2 of 2 ranks on 1 host, /m);
    expect(stdout).toMatch(/^steps: 30, median [\d.]+ ms, p95 [\d.]+ ms/m);
    expect(stdout).toMatch(/^mean per step +step +wait +/m);
    expect(stdout).toMatch(/^rank 1 +[\d.]+ ms/m);
    expect(stdout).toContain('clocks: all ranks read one clock (exact)');
    expect(stdout).toMatch(/^findings:/m);
    expect(stdout).toContain('nothing was lost');
    expect(stdout).toMatch(/trace: .*text\/trace\.pftrace/);
    // Everything was acknowledged, so nothing is left beside the store.
    expect(existsSync(join(directory, 'text', 'spool'))).toBe(false);
  });

  it('names a straggler among its findings', async () => {
    const program = ['--', process.execPath, 'test/programs/slow-rank.mjs', '150', '2', '0', '150', '60'];
    const { stdout, code, stderr } = await runCommand(['run', '--ranks', '4', '--name', 'straggler', '--out', directory, ...program]);
    expect(code, stderr).toBe(0);
    expect(stdout).toMatch(/^findings:\n {2}straggler: rank 2 in forward: [\d.]+ ms /m);
    // The same statement as the report's.
    const inShort = /^in short: straggler: rank 2 in forward: .*$/m.exec(stdout)?.[0];
    expect(inShort).toBeDefined();
    expect((await runLine(['report', join(directory, 'straggler')])).stdout).toContain(`\n${inShort}\n`);
  });

  it('finishes the trace on Ctrl-C', async () => {
    // Long enough for shippers to have started on a busy machine: a signal before that ships nothing (docs/data-loss.md).
    const command = recording(`if (step === 500) console.log('500 steps of rank', process.env.RANK);`);
    const run = startCommand(['run', '--ranks', '2', '--name', 'interrupted', '--out', directory, '--json', ...command], {
      RANKTRACE_OVERHEAD_BUDGET: '1',
    });
    await Promise.all([run.said('500 steps of rank 0'), run.said('500 steps of rank 1')]);
    run.child.kill('SIGINT');
    const { stdout, code, stderr } = await run.ended;
    expect(stderr).toContain('stopping the ranks; the trace follows');
    // The ranks have no handler: they flush, and die of the signal.
    expect(code, stderr).toBe(130);
    const report = JSON.parse(stdout);
    expect(report.findings).toEqual([]);
    expect(report.ranks[0].counts.step).toBeGreaterThan(20);
    expect(statSync(report.trace).size).toBeGreaterThan(1000);
  });

  it('hands Ctrl-C of a terminal to each rank exactly once', async () => {
    const program = `
      import { profile } from '@ranktrace/sdk';
      import { existsSync } from 'node:fs';
      const prof = profile().start();
      const turn = () => new Promise((resolve) => setTimeout(resolve, 5));
      let interrupts = 0;
      process.on('SIGINT', () => interrupts++);
      for (let step = 0; interrupts === 0; step++) { prof.step(); await turn(); if (step === 20) console.log('listening'); }
      // Until the command has done with the interrupt what it does with it.
      while (!existsSync(process.env.COMMAND_IS_INTERRUPTED)) await turn();
      for (let turns = 0; turns < 50; turns++) await turn();
      console.log('interrupts:', interrupts);
      await prof.stop();`;
    const command = ['--', process.execPath, '--input-type=module', '-e', program];
    const mark = join(directory, 'command-is-interrupted');
    const environment = { COMMAND_IS_INTERRUPTED: mark };
    const run = startCommand(['run', '--name', 'once', '--out', directory, ...command], environment, { ownGroup: true });
    await run.said('listening');
    // Like a terminal: the signal goes to the whole foreground group.
    process.kill(-(run.child.pid as number), 'SIGINT');
    await run.said('stopping the ranks');
    writeFileSync(mark, '');
    const { stdout, code, stderr } = await run.ended;
    expect(stdout, stderr).toContain('interrupts: 1');
    expect(stdout).toContain('nothing was lost');
    expect(code).toBe(0);
  });

  it('says why it cannot tell whom ranks wait for, where nothing shows it', async () => {
    const program = `
      import { profile, recordFunction } from '@ranktrace/sdk';
      const prof = profile().start();
      for (let step = 0; step < 30; step++) {
        await recordFunction('forward', () => new Promise((resolve) => setTimeout(resolve, 5)));
        prof.step();
      }
      await prof.stop();`;
    const command = ['--', process.execPath, '--input-type=module', '-e', program];
    const of = (ranks: number) => runCommand(['run', '--ranks', `${ranks}`, '--name', `apart-${ranks}`, '--out', directory, ...command]);
    const several = await of(2);
    // On a busy machine, a finding of long steps may come before it, or waits for a CPU explain the steps.
    expect(several.stdout, several.stderr).toMatch(
      /^ {2}(inconclusive: no collectives were recorded in these steps: waiting inside of a phase looks like work in it|cpu_contention: .+)$/m,
    );
    expect(several.stdout).toContain('nothing was lost');
    // A rank alone waits for nobody.
    const alone = await of(1);
    expect(alone.stdout).toContain('nothing was lost');
    expect(alone.stdout).not.toContain('inconclusive');
  });

  it('passes on the code of a rank that fails, stops the others, and writes the trace of what ran', async () => {
    const program = `
      import { profile } from '@ranktrace/sdk';
      const prof = profile().start();
      for (let step = 0; ; step++) {
        prof.step();
        await new Promise((resolve) => setTimeout(resolve, 50));
        if (process.env.RANK === '1' && step === 50) process.exit(9);
      }`;
    const command = ['--', process.execPath, '--input-type=module', '-e', program];
    const { code, stdout, stderr } = await runCommand([
      'run',
      '--ranks',
      '2',
      '--name',
      'failing',
      '--out',
      directory,
      '--json',
      ...command,
    ]);
    expect(code).toBe(9);
    expect(stderr).toContain('rank 1 ended with exit code 9; the others were stopped');
    const report = JSON.parse(stdout);
    expect(report.exitCode).toBe(9);
    expect(report.ranks[1].counts.step).toBe(51);
    expect(report.ranks[0].counts.step).toBeGreaterThan(10);
    // Where the other one is stopped late, it has done more steps.
    const findings: { kind: string; text: string }[] = report.findings;
    expect(findings.filter(({ kind }) => kind !== 'rank_ended_early').map(({ text }) => text)).toEqual(['rank 1 failed: exit code 9']);
  });

  const recording = (body: string): string[] => {
    const program = `
      import { profile } from '@ranktrace/sdk';
      const prof = profile().start();
      for (let step = 0; ; step++) { prof.step(); await new Promise((resolve) => setTimeout(resolve, 5)); ${body} }`;
    return ['--', process.execPath, '--input-type=module', '-e', program];
  };

  it('writes the trace of a run of which a rank was killed by kill -9, names that rank alone, and kills those that do not listen', async () => {
    const body = `
      process.on('SIGTERM', () => {});
      // Ten flush intervals, in which the shipper's thread of a starved machine gets its turn.
      if (process.env.RANK === '1' && step === 100) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2000);
      if (process.env.RANK === '1' && step === 100) process.kill(process.pid, 'SIGKILL');`;
    const args = ['run', '--ranks', '2', '--name', 'killed', '--out', directory, '--json', ...recording(body)];
    const { code, stdout, stderr } = await runCommand(args);
    expect(code, stderr).toBe(137);
    expect(stderr).toContain('rank 1 was ended by SIGKILL; the others were stopped');
    const report = JSON.parse(stdout);
    expect(report.exitCode).toBe(137);
    expect(report.findings.map((finding: { kind: string; ranks: number[] }) => [finding.kind, finding.ranks])).toEqual([
      // The other one, which had to be killed, is none that was lost.
      ['rank_lost', [1]],
    ]);
    expect(report.findings[0].text).toMatch(/^rank 1 \(pid \d+\) was ended by SIGKILL without saying goodbye$/);
    const alerts = report.alerts.map(({ rule, summary }: { rule: string; summary: string }) => `${rule}: ${summary}`);
    expect(alerts).toContainEqual(expect.stringMatching(/^rank_stopped: rank 1 was ended by SIGKILL after step \d+/));
    // A killed rank loses what it recorded since its last flush alone: nothing from before the wait.
    expect(report.ranks[1].counts.step).toBeGreaterThanOrEqual(100);
    expect(statSync(report.trace).size).toBeGreaterThan(1000);
    expect(existsSync(join(directory, 'killed', 'spool'))).toBe(false);
  });

  it('runs 64 ranks that write much, one of them a line without an end', async () => {
    const program = `
      const rank = process.env.RANK;
      for (let line = 0; line < 200; line++) console.log('rank', rank, 'line', line, 'x'.repeat(200));
      if (rank === '7') for (let piece = 0; piece < 600; piece++) process.stdout.write('y'.repeat(100_000));`;
    const args = ['run', '--ranks', '64', '--name', 'loud', '--out', directory, '--', process.execPath, '-e', program];
    const { code, stdout, stderr } = await runCommand(args);
    expect(code).toBe(1);
    expect(stderr).toContain('no events arrived');
    expect(stderr).not.toMatch(/MaxListeners|Warning/);
    const lines = stdout.split('\n');
    expect(lines.filter((line) => /^\[rank \d+\] rank \d+ line \d+ x{200}$/.test(line))).toHaveLength(64 * 200);
    expect(lines.reduce((sum, line) => sum + (line.match(/y/g)?.length ?? 0), 0)).toBe(600 * 100_000);
  });

  it('goes on and writes the trace when nobody reads its output any more', () => {
    const program = `
      import { profile } from '@ranktrace/sdk';
      const prof = profile().start();
      for (let step = 0; step < 100; step++) { prof.step(); console.log('step', step); await new Promise((resolve) => setTimeout(resolve, 5)); }
      await prof.stop();`;
    const line = `"${process.execPath}" "${commandPath}" run --ranks 2 --name unread --out "${directory}" -- "${process.execPath}" --input-type=module -e "$PROGRAM" | head -n 2`;
    const options = { cwd: repository, encoding: 'utf8', env: { ...process.env, PROGRAM: program } } as const;
    const { stdout, stderr, status } = spawnSync('bash', ['-c', `set -o pipefail; ${line}`], options);
    expect(stdout.trim().split('\n')).toHaveLength(2);
    expect(stderr).not.toMatch(/EPIPE|\n {4}at /);
    expect(status).toBe(0);
    expect(statSync(join(directory, 'unread', 'trace.pftrace')).size).toBeGreaterThan(1000);
  });

  it('does not wait for what a rank leaves behind', async () => {
    const command = ['--', 'bash', '-c', 'sleep 600 & echo left; exit 3'];
    const { code, stdout } = await runCommand(['run', '--name', 'left', '--out', directory, ...command]);
    expect(code).toBe(3);
    expect(stdout).toContain('left');
  });

  it('refuses a trace that it could not write before it starts the ranks', async () => {
    for (const [trace, line] of [
      ['x.xyz', /must end in \.pftrace/],
      ['no/such/folder/x.json', /Cannot write "no\/such\/folder\/x\.json"/],
    ] as const) {
      const { code, stdout, stderr } = await runCommand(['run', '--out', directory, '--trace', trace, '--', 'echo', 'started']);
      expect(code).toBe(2);
      expect(stderr).toMatch(line);
      expect(stdout).not.toContain('started');
    }
  });

  it('takes user and password of NATS from the URL, for itself and for the ranks', async () => {
    await using server = await startNatsServer({ config: 'authorization { user: ranktrace, password: "r/ght" }' });
    const url = server.url.replace('//', '//ranktrace:r%2Fght@');
    const { code, stderr, stdout } = await runCommand(['run', '--name', 'nats', '--nats', url, '--out', directory, ...steps(20, 2)]);
    expect(code, stderr).toBe(0);
    expect(stdout).toMatch(/^steps: 20,/m);
    expect(stdout).toContain('nothing was lost');
  });

  it('says so when the command records nothing, and leaves no run', async () => {
    const start = (...command: string[]) => runCommand(['run', '--name', 'nothing', '--out', directory, '--', ...command]);
    const { code, stderr } = await start(process.execPath, '-e', '');
    expect(code).toBe(1);
    expect(stderr).toMatch(/^ranktrace: no events arrived: does ".*node -e " use @ranktrace\/sdk\?$/m);
    for (const word of ['/usr/bin/python3', 'torchrun', './train.py'])
      expect((await start('bash', '-c', 'exit 0', word)).stderr).toMatch(/ use ranktrace\.py of clients\/python .*\?$/m);
    expect(existsSync(join(directory, 'nothing'))).toBe(false);
  });
});

describe('ranktrace serve', () => {
  it('answers GET /status while ranks run, takes a token, and writes the trace when they have ended', async () => {
    const environment = { RANKTRACE_TOKEN: 'secret' };
    const service = startCommand(['serve', '--listen', '127.0.0.1:0', '--out', directory], environment);
    await service.said('storing in');
    const address = addressOf(service);
    const ranks = await startRanks(2, ['test/programs/steps.mjs', '400', '5'], {
      RANKTRACE_URL: address.replace('http', 'ws'),
      RANKTRACE_RUN: 'served',
      RANKTRACE_TOKEN: 'secret',
      RANKTRACE_SPOOL_DIRECTORY: join(directory, 'spool'),
    });
    const headers = { authorization: 'Bearer secret' };
    const served = async () => {
      const status = liveMessageSchema.parse(await (await fetch(`${address}/status`, { headers })).json());
      return status.runs.find((run) => run.run === 'served');
    };
    let run = await served();
    for (; run?.ranks.filter(({ step }) => step > 0).length !== 2; run = await served()) await setTimeout(50);
    expect(run?.ranks.map((rank) => rank.rank)).toEqual([0, 1]);
    expect(run?.ranks[0]?.step).toBeGreaterThan(0);
    expect(run?.ranks[0]?.missing).toBe(0);
    for (const { code, output } of await Promise.all(ranks.map((rank) => rank.ended))) expect(code, output).toBe(0);
    // Alerts of a busy machine begin with the run's name, too.
    await service.said('of 2 ranks in');
    expect(statSync(join(directory, 'served', 'trace.pftrace')).size).toBeGreaterThan(1000);
    service.child.kill('SIGTERM');
    expect((await service.ended).code).toBe(0);
  });

  it('writes the trace again when a rank comes back, once each, and leaves runs of earlier lives alone', async () => {
    const out = join(directory, 'again');
    const traceOf = (run: string): string => join(out, run, 'trace.pftrace');
    const rank = async (service: StartedCommand, run: string): Promise<void> => {
      const environment = {
        RANKTRACE_URL: addressOf(service).replace('http', 'ws'),
        RANKTRACE_RUN: run,
        RANKTRACE_SPOOL_DIRECTORY: join(out, 'spool'),
      };
      const [started] = await startRanks(1, ['test/programs/steps.mjs', '40', '5'], environment);
      expect((await started?.ended)?.code).toBe(0);
    };
    const written = (service: StartedCommand): string[] =>
      [...service.output().matchAll(/run (\S+): [\d ]+ events of 1 rank(?: in (\d) lives)? in/g)].map(
        ([, run, lives = '1']) => `${run} ${lives}`,
      );
    const first = startCommand(['serve', '--listen', '127.0.0.1:0', '--out', out]);
    await first.said('storing in');
    await rank(first, 'one');
    await first.said('run one:');
    await rank(first, 'one');
    await first.said('in 2 lives');
    await rank(first, 'two');
    await first.said('run two:');
    first.child.kill('SIGTERM');
    expect((await first.ended).code).toBe(0);
    expect(written(first)).toEqual(['one 1', 'one 2', 'two 1']);
    const before = statSync(traceOf('two')).mtimeMs;
    const second = startCommand(['serve', '--listen', '127.0.0.1:0', '--out', out]);
    await second.said('storing in');
    await rank(second, 'one');
    await second.said('in 3 lives');
    second.child.kill('SIGTERM');
    expect((await second.ended).code).toBe(0);
    expect(written(second)).toEqual(['one 3']);
    expect(statSync(traceOf('two')).mtimeMs).toBe(before);
  });

  it('reports when a trace cannot be written, tries again at the end, and ends with 1', async () => {
    const out = join(directory, 'unwritable');
    mkdirSync(join(out, 'blocked', 'trace.pftrace'), { recursive: true });
    const service = startCommand(['serve', '--listen', '127.0.0.1:0', '--out', out]);
    await service.said('storing in');
    const environment = {
      RANKTRACE_URL: addressOf(service).replace('http', 'ws'),
      RANKTRACE_RUN: 'blocked',
      RANKTRACE_SPOOL_DIRECTORY: join(out, 'spool'),
    };
    const [rank] = await startRanks(1, ['test/programs/steps.mjs', '20', '5'], environment);
    await rank?.ended;
    await service.said('run blocked: no trace written:');
    service.child.kill('SIGTERM');
    const { code, stderr } = await service.ended;
    expect(code).toBe(1);
    expect(stderr.match(/no trace written/g)).toHaveLength(2);
    expect(existsSync(join(out, 'blocked', 'trace.pftrace.partial'))).toBe(false);
  });

  it('makes the same stream as a rank does, whoever comes first', async () => {
    const configs: unknown[] = [];
    for (const first of ['service', 'rank']) {
      await using server = await startNatsServer();
      const started =
        first === 'service'
          ? startCommand(['serve', '--listen', '127.0.0.1:0', '--nats', server.url, '--out', join(directory, 'stream')])
          : startRanks(1, ['test/programs/steps.mjs', '20', '5'], {
              RANKTRACE_URL: server.url,
              RANKTRACE_SPOOL_DIRECTORY: join(directory, 'spool'),
            });
      if ('child' in started) await started.said('storing in');
      else for (const rank of await started) await rank.ended;
      const connection = await connect({ servers: server.url });
      configs.push((await (await connection.jetstreamManager()).streams.info(streamConfig.name)).config);
      await connection.close();
      if ('child' in started) {
        started.child.kill('SIGTERM');
        await started.ended;
      }
    }
    expect(configs[0]).toMatchObject({ ...streamConfig, storage: 'file', retention: 'limits' });
    expect(configs[1]).toEqual(configs[0]);
  });

  it('refuses ranks without the token, and the rank says why', async () => {
    const service = startCommand(['serve', '--listen', '127.0.0.1:0', '--out', directory], { RANKTRACE_TOKEN: 'secret' });
    await service.said('storing in');
    const enough = join(directory, 'enough');
    const environment = {
      RANKTRACE_URL: addressOf(service).replace('http', 'ws'),
      RANKTRACE_RUN: 'refused',
      RANKTRACE_TOKEN: 'wrong',
      RANKTRACE_EXIT_DEADLINE_MS: '500',
      RANKTRACE_SPOOL_DIRECTORY: join(directory, 'spool'),
    };
    const rank = startProgram(process.execPath, ['test/programs/steps-until.mjs', enough, '5'], {
      ...{ cwd: repository, ownGroup: false },
      env: { ...process.env, RANK: '0', WORLD_SIZE: '1', ...environment },
    });
    await rank.said('token');
    writeFileSync(enough, '');
    expect((await rank.ended).code).toBe(0);
    service.child.kill('SIGTERM');
    await service.ended;
  });
});

describe('ranktrace merge, table and dump', () => {
  const short = join(directory, 'short');

  it('merge writes every format, by extension', async () => {
    for (const name of ['a.pftrace', 'a.pftrace.gz', 'a.json', 'a.json.gz', 'a.txt', 'a.txt.gz']) {
      const path = join(directory, name);
      const { code, stdout, stderr } = await runLine(['merge', short, '-o', path]);
      expect(code, stderr).toBe(0);
      expect(stdout).toContain(path);
    }
    for (const name of ['a.pftrace', 'a.json', 'a.txt']) {
      expect(gunzipSync(readFileSync(join(directory, `${name}.gz`))).equals(readFileSync(join(directory, name)))).toBe(true);
    }
  });

  it('table sorts and limits', async () => {
    const { stdout } = await runLine(['table', short, '--sort', 'calls', '--limit', '2', '--json']);
    const rows = JSON.parse(stdout) as { key: string; kind: string; count: number; selfNs: number }[];
    expect(rows).toHaveLength(3);
    expect(rows[0]?.count).toBeGreaterThanOrEqual(rows[1]?.count as number);
    const all = JSON.parse((await runLine(['table', short, '--json'])).stdout) as typeof rows;
    const [total] = all.splice(-1);
    expect(total).toEqual(rows[2]);
    expect(total).toMatchObject({ key: 'Total', kind: 'total' });
    const spans = all.filter(({ kind }) => kind !== 'step');
    expect(total?.count).toBe(spans.reduce((sum, { count }) => sum + count, 0));
    expect(total?.selfNs).toBe(spans.reduce((sum, { selfNs }) => sum + selfNs, 0));
    const text = await runLine(['table', short, '--limit', '2']);
    expect(text.stdout).toMatch(/^name +kind +calls +total +self +self % +avg$/m);
    expect(text.stdout).toMatch(/more: --limit/);
  });

  it('table has shares of all rows, however few it prints', async () => {
    const shares = async (limit: string) => {
      const { stdout } = await runLine(['table', short, '--limit', limit]);
      return stdout.split('\n').flatMap((line) => / ([\d.]+) % /.exec(line)?.[1] ?? []);
    };
    const all = await shares('-1');
    expect(all.length).toBeGreaterThan(3);
    const few = await shares('3');
    expect(few).toEqual(all.slice(0, Math.max(1, few.length)));
  });

  it('dump ends quietly when its reader has seen enough', () => {
    const { stdout, stderr, status } = spawnSync(
      'bash',
      ['-c', `set -o pipefail; "${process.execPath}" "${commandPath}" dump "${short}" | head -n 3`],
      {
        cwd: repository,
        encoding: 'utf8',
      },
    );
    expect(stdout.trim().split('\n')).toHaveLength(3);
    expect(stderr).toBe('');
    expect(status).toBe(0);
  });

  it('dump --batches lists what is stored', async () => {
    const { stdout } = await runLine(['dump', '--batches', short]);
    expect(stdout).toMatch(/^run short {2}rank 0 {2}incarnation \S+ {2}batch \d {2}\d+ B {2}watermark \d+ ns .*spans \d+/m);
    expect(stdout.match(/ last /g)).toHaveLength(2);
  });

  it('merge leaves nothing behind when it cannot finish', async () => {
    const path = join(directory, 'no-such-directory', 'x.pftrace');
    expect((await runLine(['merge', short, '-o', path])).code).toBe(2);
    expect(existsSync(join(directory, 'no-such-directory'))).toBe(false);
  });

  it('report --html takes - for stdout, as export does', async () => {
    const { code, stdout } = await runLine(['report', short, '--html', '-o', '-']);
    expect([code, stdout.slice(0, 15)]).toEqual([0, expect.stringMatching(/^<!doctype html>/i)]);
    expect(existsSync(join(repository, '-'))).toBe(false);
  });

  it('names the runs of a directory that holds several', async () => {
    const { code, stderr } = await runLine(['table', directory]);
    expect(code).toBe(2);
    expect(stderr).toMatch(/holds \d+ runs: name one with --run, of .*"short"/);
    expect((await runLine(['table', directory, '--run', 'short'])).code).toBe(0);
  });
});

describe('a bar on a terminal', () => {
  it('leaves the notices said meanwhile, and changes nothing that Ctrl-C would leave changed', async () => {
    const files = join(directory, 'with-a-stray');
    await runLine(['export', join(directory, 'short'), '--to', 'kineto', '-o', `${files}/`]);
    writeFileSync(join(files, 'rank0-notes.json'), '{}');
    const python = process.env.PYTHON_BIN ?? 'python3';
    const args = ['test/setup/terminal.py', '100', '30', process.execPath, commandPath, 'report', files];
    // An end of its input would hang up.
    const terminal = spawn(python, args, { cwd: repository, stdio: ['pipe', 'pipe', 'inherit'] });
    let stdout = '';
    terminal.stdout.setEncoding('utf8').on('data', (text: string) => {
      stdout += text;
    });
    const [code] = await once(terminal, 'close');
    expect(code, stdout).toBe(0);
    const [before = '', after = ''] = stdout.split('ranktrace: left out ');
    expect(before).toContain('reading ');
    // The bar's line is cleared for the notice, and no place above the notice is returned to.
    expect(before.endsWith('\u001b[2K')).toBe(true);
    expect(after.indexOf('\u001b8')).toBeGreaterThan(after.indexOf('\u001b7'));
    expect(after).toContain('\u001b7');
    // Neither is the cursor hidden, nor the wrapping of lines turned off.
    expect(stdout).not.toContain('\u001b[?');
  });
});

describe('ranktrace doctor', () => {
  it('checks this machine and a real NATS server', async () => {
    await using server = await startNatsServer();
    const { stdout, code } = await runLine(['doctor', '--out', join(directory, 'not-yet'), '--nats', server.url, '--json']);
    const checks = JSON.parse(stdout) as { name: string; state: string; text: string }[];
    expect(checks.map((check) => check.name)).toEqual(['node', 'clock', 'output', 'gpu', 'tfjs', 'nats']);
    expect(checks.find((check) => check.name === 'nats')).toMatchObject({ state: 'ok' });
    expect(checks.find((check) => check.name === 'nats')?.text).toMatch(/with JetStream, round trip/);
    expect(code).toBe(0);
    expect(existsSync(join(directory, 'not-yet'))).toBe(false);
  });

  it('fails when the output directory is a file', async () => {
    const { stdout, code } = await runLine(['doctor', '--out', join(repository, 'package.json')]);
    expect(code).toBe(1);
    expect(stdout).toMatch(/^output +failed +.*package\.json" is not a directory/m);
  });

  it('fails when NATS is not there', async () => {
    const { stdout, code } = await runLine(['doctor', '--nats', 'nats://127.0.0.1:9', '--out', directory]);
    expect(code).toBe(1);
    expect(stdout).toMatch(/^nats +failed +.*nats:\/\/127\.0\.0\.1:9/m);
  });
});

function addressOf(service: StartedCommand): string {
  const address = /listening on (http:\/\/\S+?),/.exec(service.output())?.[1];
  if (address === undefined) throw new Error(`No address in: ${service.output()}`);
  return address;
}

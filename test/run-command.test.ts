// `ranktrace run` as typed: options of the program behind it, programs that name their run themselves, alerts without a service.

import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Alert, alertSchema } from '@ranktrace/protocol';
import { afterAll, describe, expect, it } from 'vitest';
import { startNatsServer } from './setup/nats-server.ts';
import { type CommandResult, commandPath, repository, runCommand, startCommand, startProgram } from './setup/ranktrace-command.ts';
import { runLine } from './setup/warm-command.ts';

const directory = mkdtempSync(join(tmpdir(), 'ranktrace-run-'));
afterAll(() => rmSync(directory, { recursive: true }));
const { version } = process;
const node = process.execPath;

describe('what is whose option', () => {
  it('hands the options behind the program to the program: run node --version', async () => {
    const { stdout, code } = await runCommand(['run', '--out', join(directory, 'version'), node, '--version']);
    expect(stdout).toContain(version);
    expect(stdout).not.toContain('0.1.0');
    // Node prints its version and records nothing.
    expect(code).toBe(1);
  });

  it('takes run node -e …, with -- and without, and its own options before it', async () => {
    for (const [name, dashes] of [
      ['plain', []],
      ['dashed', ['--']],
    ] as const) {
      const script = 'console.log(process.argv.slice(1).join(" "), process.env.WORLD_SIZE)';
      const args = ['run', '--ranks', '2', '--out', join(directory, name), ...dashes, node, '-e', script, 'train', '--ranks=7', '--json'];
      const { stdout, stderr } = await runCommand(args);
      expect(stderr).not.toContain('unknown option');
      expect(stdout.match(/train --ranks=7 --json 2/g)).toHaveLength(2);
    }
  });

  it('still says its own version, and refuses an option that it does not know', async () => {
    expect((await runCommand(['--version'])).stdout).toBe('0.1.0\n');
    const { stderr, code } = await runCommand(['run', '--frobnicate', node, 'x.js']);
    expect([code, stderr.split('\n')[0]]).toEqual([2, "ranktrace: unknown option '--frobnicate'"]);
  });
});

it('gives a run a name of its own: two commands may begin in one second', async () => {
  const out = join(directory, 'own-name');
  const command = startCommand(['run', '--out', out, node, 'test/programs/steps.mjs', '3', '1'], { RANKTRACE_RUN: '' });
  const { code, stderr } = await command.ended;
  expect(code, stderr).toBe(0);
  expect(readdirSync(out)).toEqual([expect.stringMatching(new RegExp(`^run-\\d{8}-\\d{6}-${command.child.pid}$`))]);
});

it('numbers its ranks, whatever variables of another rank the shell has', async () => {
  const out = join(directory, 'shell-rank');
  const args = ['run', '--ranks', '2', '--json', '--out', out, node, 'test/programs/steps.mjs', '3', '1'];
  const { code, stdout, stderr } = await runCommand(args, { RANKTRACE_RANK: '5', RANKTRACE_WORLD_SIZE: '9' });
  expect(code, stderr).toBe(0);
  const { worldSize, ranks } = JSON.parse(stdout);
  expect([worldSize, ranks.map(({ rank }: { rank: number }) => rank)]).toEqual([2, [0, 1]]);
});

it('says before any rank starts that the trace cannot be written', async () => {
  const file = join(directory, 'a-file');
  const folder = join(directory, 'a-folder.pftrace');
  writeFileSync(file, '');
  mkdirSync(folder);
  for (const [trace, why] of [
    [join(file, 'x.pftrace'), `"${file}" is not a directory`],
    [folder, 'it is a directory'],
    [join(directory, 'none', 'x.pftrace'), 'ENOENT'],
  ] as const) {
    const { code, stdout, stderr } = await runCommand(['run', '--out', join(directory, 'untraced'), '--trace', trace, node, '-p', '7']);
    expect([code, stdout, stderr]).toEqual([2, '', expect.stringContaining(`Cannot write "${trace}": ${why}`)]);
  }
});

/** A program that names its run itself. */
const named = (expression: string, more = ''): string[] => {
  const script = `
    import { profile } from '@ranktrace/sdk';
    const prof = profile({ run: ${expression} ${more} }).start();
    for (let step = 0; step < 20; step++) { prof.step(); await new Promise((resolve) => setTimeout(resolve, 2)); }
    await prof.stop();`;
  return [node, '--input-type=module', '-e', script];
};
const linesOf = (text: string, what: string): string[] => text.split('\n').filter((line) => line.includes(what));

describe('a program that names its run itself', () => {
  it('is shown, merged and summarised under that name', async () => {
    const out = join(directory, 'fixed');
    const { stdout, stderr, code } = await runCommand(['run', '--ranks', '2', '--out', out, ...named("'night-42'")]);
    expect(code, stderr).toBe(0);
    expect(stdout).toMatch(/^run night-42: 2 of 2 ranks on 1 host, /m);
    expect(stdout).toMatch(/^steps: 20, /m);
    expect(stdout).toContain('nothing was lost');
    expect(linesOf(stderr, 'names its run')).toEqual([
      `ranktrace: the program names its run "night-42" itself: it is stored in "${join(out, 'night-42')}"`,
    ]);
    expect(existsSync(join(out, 'night-42', 'trace.pftrace'))).toBe(true);
    // Nothing is left under the unused name.
    expect(readdirSync(out).filter((name) => name.startsWith('run-'))).toEqual([]);
  });

  it('--name against a fixed name is one line, and the trace goes where it was asked for', async () => {
    const out = join(directory, 'against');
    const trace = join(directory, 'against.pftrace');
    const args = ['run', '--name', 'mine', '--trace', trace, '--json', '--out', out, ...named("'theirs'")];
    const { stdout, stderr, code } = await runCommand(args);
    expect(code, stderr).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ run: 'theirs', trace });
    expect(linesOf(stderr, 'names its run')).toEqual([
      `ranktrace: the program names its run "theirs" itself: --name mine has no effect on it, and it is stored in "${join(out, 'theirs')}"`,
    ]);
    expect(existsSync(trace)).toBe(true);
    expect(readdirSync(out)).not.toContain('mine');
  });

  it('several names are several runs: each has a line and a summary', async () => {
    const out = join(directory, 'several');
    const program = named("'half-' + process.env.RANK");
    const { stdout, stderr, code } = await runCommand(['run', '--ranks', '2', '--json', '--out', out, ...program]);
    expect(code, stderr).toBe(0);
    const reports = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    expect(reports.map(({ run }) => run).sort()).toEqual(['half-0', 'half-1']);
    for (const { run, trace, steps } of reports) {
      expect(trace).toBe(join(out, run, 'trace.pftrace'));
      expect(steps).toHaveLength(20);
    }
    expect(linesOf(stderr, 'run "half-0": rank')).toEqual(['ranktrace: run "half-0": rank 0']);
    expect(linesOf(stderr, 'run "half-1": rank')).toEqual(['ranktrace: run "half-1": rank 1']);
  });

  it('says that a run was there before, for it is added to', async () => {
    const out = join(directory, 'again');
    const args = ['run', '--json', '--out', out, ...named("'same'")];
    const first = await runCommand(args);
    expect(linesOf(first.stderr, 'before')).toEqual([]);
    const second = await runCommand(args);
    expect(second.code, second.stderr).toBe(0);
    expect(linesOf(second.stderr, 'was in')).toEqual([`ranktrace: run "same" was in "${out}" before: what follows is added to it`]);
  });

  it('with a spool of its own, too, over NATS and straight, also of ranks that are killed', async () => {
    await using server = await startNatsServer();
    const spool = join(directory, 'own-spool');
    for (const [name, nats] of [
      ['straight-own', []],
      ['nats-own', ['--nats', server.url]],
    ] as const) {
      const out = join(directory, name);
      const program = named(`'${name}'`, `, spoolDirectory: ${JSON.stringify(spool)}`);
      const { stdout, stderr, code } = await runCommand(['run', ...nats, '--ranks', '2', '--json', '--out', out, ...program]);
      expect(code, stderr).toBe(0);
      expect(JSON.parse(stdout)).toMatchObject({ run: name, findings: [] });
      expect(linesOf(stderr, 'names its run')).toHaveLength(1);
    }
    // No service answers at its url: batches in its spool are taken, and those of others stay.
    const other = join(spool, 'others-run', 'rank-0-lz1-1');
    mkdirSync(other, { recursive: true });
    const away = named("'away-own'", `, spoolDirectory: ${JSON.stringify(spool)}, url: 'ws://127.0.0.1:1', exitDeadlineMs: 5000`);
    const { stdout, stderr, code } = await runCommand(['run', '--json', '--out', join(directory, 'away-own'), ...away]);
    expect(code, stderr).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ run: 'away-own', steps: expect.objectContaining({ length: 20 }) });
    expect(readdirSync(join(spool, 'away-own'))).toEqual([]);
    expect(existsSync(other)).toBe(true);
  });

  it('and sends it elsewhere gets a warning, and not asked whether it records', async () => {
    const service = startCommand(['serve', '--listen', '127.0.0.1:0', '--out', join(directory, 'elsewhere')]);
    await service.said('listening on');
    const address = /http:\/\/[^ ,]*/.exec(service.output())?.[0]?.replace('http', 'ws') ?? '';
    const program = named("'theirs'", `, url: ${JSON.stringify(address)}`);
    const { stderr, code } = await runCommand(['run', '--out', join(directory, 'nothing-here'), ...program]);
    expect(code).toBe(1);
    expect(stderr).not.toContain('use @ranktrace/sdk?');
    expect(stderr).toContain(`the program sends run "theirs" to ${address} itself`);
    service.child.kill('SIGTERM');
    await service.ended;
  });

  it('works over NATS, too, and takes no run of anybody else', async () => {
    await using server = await startNatsServer();
    const out = join(directory, 'nats');
    const other = runCommand([
      'run',
      '--nats',
      server.url,
      '--name',
      'other',
      '--json',
      '--out',
      join(directory, 'other'),
      ...named('undefined'),
    ]);
    const { stdout, stderr, code } = await runCommand([
      'run',
      '--nats',
      server.url,
      '--ranks',
      '2',
      '--json',
      '--out',
      out,
      ...named("'over-nats'"),
    ]);
    expect(code, stderr).toBe(0);
    const report = JSON.parse(stdout);
    expect(report).toMatchObject({ run: 'over-nats', findings: [] });
    expect(report.steps).toHaveLength(20);
    expect(readdirSync(out).filter((name) => existsSync(join(out, name, 'run.json')))).toEqual(['over-nats']);
    const { code: otherCode, stdout: otherReport } = await other;
    expect([otherCode, JSON.parse(otherReport).run]).toEqual([0, 'other']);
  });
});

describe('a rank that is started through a shell', () => {
  const launch = join(directory, 'launch.sh');
  const checkpoint = join(directory, 'checkpoint');
  // Rank 0 fails; what a rank does between the request and its end takes longer than its shell does.
  const program = `
    import { writeFileSync } from 'node:fs';
    import { profile } from '@ranktrace/sdk';
    const prof = profile().start();
    const save = async () => { await prof.stop(); writeFileSync(process.env.CHECKPOINT, 'saved'); process.exit(0); };
    process.on('SIGTERM', () => setTimeout(save, 3000));
    setInterval(() => { prof.step(); if (process.env.RANK === '0' && process.uptime() > 2) process.exit(5); }, 20);`;
  writeFileSync(launch, `${node} --input-type=module -e "$PROGRAM"\ncode=$?\necho over\nexit $code\n`);

  it('has its time to end, and its end is that of the process that records', async () => {
    const out = join(directory, 'shell');
    const args = ['run', '--ranks', '2', '--out', out, '--name', 'shell', '--', 'sh', launch];
    const { stdout, stderr, code } = await runCommand(args, { CHECKPOINT: checkpoint, PROGRAM: program });
    expect(code, stderr).toBe(5);
    expect(readFileSync(checkpoint, 'utf8')).toBe('saved');
    expect(stdout).toMatch(/rank_failed: rank 0 failed: exit code 5/);
    expect(stdout).not.toMatch(/rank_lost|rank 1 .*stopped without saying goodbye/);
    const alerts = await runLine(['alerts', join(out, 'shell')]);
    expect([alerts.code, alerts.stdout]).toEqual([0, expect.stringContaining('0 firing')]);
  });

  it('that cannot be started leaves no run', async () => {
    const out = join(directory, 'typo');
    for (const command of ['nodee-is-not-there', '', `${launch}/below`]) {
      const { code, stderr } = await runCommand(['run', '--out', out, '--', command]);
      expect([code, stderr]).toEqual([2, expect.stringMatching(/^ranktrace: Cannot start ".*": .*\n$/)]);
    }
    expect(existsSync(out) ? readdirSync(out).filter((name) => !name.startsWith('.')) : []).toEqual([]);
  });
});

describe('a full disk under what is printed', () => {
  const program = `import { profile } from '@ranktrace/sdk';
    const prof = profile().start();
    for (let step = 0; step < 50; step++) { console.log(step); prof.step(); await new Promise((go) => setTimeout(go, 5)); }
    await prof.stop();`;
  const runOnFullDisk = (args: readonly string[]): Promise<CommandResult> =>
    startProgram('sh', ['-c', 'exec "$0" "$@" > /dev/full', node, commandPath, ...args], {
      cwd: repository,
      env: process.env,
      ownGroup: false,
    }).ended;

  it('does not end the ranks: their run is whole, and its trace is written', async () => {
    const out = join(directory, 'full');
    const { code, stderr } = await runOnFullDisk(['run', '--out', out, '--name', 'f', '--', node, '--input-type=module', '-e', program]);
    expect(code, stderr).toBe(0);
    expect(stderr).not.toMatch(/ENOSPC|at .*\.js:/);
    expect((await runLine(['report', join(out, 'f')])).stdout).toMatch(/^steps: 50, [\s\S]*nothing was lost/m);
    const report = await runOnFullDisk(['report', join(out, 'f')]);
    expect([report.code, report.stderr]).toEqual([2, expect.stringMatching(/^ranktrace: The output could not be written: ENOSPC.*\n$/)]);
  });
});

describe('alerts without a service', () => {
  const config = (name: string, text: string): string => {
    const path = join(directory, name);
    writeFileSync(path, text);
    return path;
  };
  const slow = [node, 'test/programs/steps.mjs', '60', '20'];

  it('--config alerts as serve does: in the progress, in the summary, at the receivers, by the exit code', async () => {
    const received: Alert[] = [];
    const receiver = createServer((request, response) => {
      let body = '';
      request.on('data', (data) => {
        body += data;
      });
      request.on('end', () => {
        received.push(alertSchema.parse(JSON.parse(body)));
        response.end();
      });
    }).listen(0, '127.0.0.1');
    await new Promise((resolve) => receiver.once('listening', resolve));
    try {
      const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`;
      const text = `rules: { step_time_limit: { limit: 2ms } }
capture: false
outputs: [{ type: webhook, url: "${url}" }, { type: exit_code, rules: [step_time_limit] }]
`;
      const args = ['run', '--ranks', '2', '--name', 'alerting', '--out', directory, '--config', config('limit.yml', text), ...slow];
      const { stdout, stderr, code } = await runCommand(args);
      expect(code, stderr).toBe(1);
      expect(stdout).toMatch(/^alerts: [1-9]\d* fired, /m);
      expect(stdout).toMatch(/^ {2}\w+ step_time_limit /m);
      expect(stderr).toMatch(/run alerting: \w+ step_time_limit firing: /);
      expect(received.filter(({ rule }) => rule === 'step_time_limit').map(({ state }) => state)).toContain('firing');
      const json = await runLine(['alerts', join(directory, 'alerting'), '--json']);
      expect(JSON.parse(json.stdout).alerts.map(({ rule }: Alert) => rule)).toContain('step_time_limit');
    } finally {
      receiver.close();
      receiver.closeAllConnections();
    }
  });

  it('says that none fired, and as data which ones did', async () => {
    const rules = ['step_time', 'step_time_drift', 'rank_stopped', 'hang', 'memory_growth', 'data_loss', 'clock_unaligned', 'overhead'];
    const none = config('none.yml', `rules: { ${rules.map((rule) => `${rule}: false`).join(', ')} }\noutputs: []\n`);
    const quiet = await runCommand([
      'run',
      '--name',
      'quiet',
      '--out',
      directory,
      '--config',
      none,
      node,
      'test/programs/steps.mjs',
      '20',
      '2',
    ]);
    expect(quiet.code, quiet.stderr).toBe(0);
    expect(quiet.stdout).toMatch(/^alerts: none fired$/m);
    const limit = config(
      'data.yml',
      'rules: { step_time_limit: { limit: 2ms } }\ncapture: false\noutputs: [{ type: log }, { type: exit_code }]\n',
    );
    const { stdout, stderr, code } = await runCommand(['run', '--name', 'data', '--json', '--out', directory, '--config', limit, ...slow]);
    expect({ code, ...JSON.parse(stdout) }).toMatchObject({ code: 1, exitCode: 1 });
    expect(JSON.parse(stdout).alerts.map(({ rule }: Alert) => rule)).toContain('step_time_limit');
    expect(stderr).toMatch(/run data: \w+ step_time_limit firing: /);
  });

  it('without --config they are among the findings, as in the report', async () => {
    // Rank 0 goes on until the alert about rank 1 is stored: a shell keeps its exit code to itself.
    const script = `
      import { existsSync } from 'node:fs';
      import { profile } from '@ranktrace/sdk';
      const prof = profile().start();
      for (let step = 0; step < 20 || !existsSync(process.argv[1]); step++) {
        prof.step();
        await new Promise((resolve) => setTimeout(resolve, 5));
        if (step === 15 && process.env.RANK === '1') throw new Error('bad batch');
      }
      await prof.stop();`;
    const stored = join(directory, 'failing', 'alerts.jsonl');
    const program = ['sh', '-c', '"$0" --input-type=module -e "$1" "$2"; true', node, script, stored];
    const { stdout } = await runCommand(['run', '--ranks', '2', '--name', 'failing', '--out', directory, '--', ...program]);
    const alertedIn = (text: string) => linesOf(text, 'alerted at step').map((line) => line.replace(/ \(.*\)$/, ''));
    expect(alertedIn(stdout)).toEqual(['    alerted at step 15: rank 1 failed after step 15: Error: bad batch']);
    const reported = await runLine(['report', join(directory, 'failing')]);
    expect(alertedIn(reported.stdout)).toEqual(alertedIn(stdout));
  });

  it('ends before any rank starts when the configuration is wrong', async () => {
    const wrong = config('wrong.yml', 'outputs: 5\n');
    const marker = join(directory, 'started');
    const program = [node, '-e', `require('node:fs').writeFileSync(${JSON.stringify(marker)}, '')`];
    const { code, stderr } = await runCommand(['run', '--out', directory, '--config', wrong, ...program]);
    expect(code).toBe(2);
    expect(stderr).toMatch(/^ranktrace: .*wrong\.yml:1: outputs must be a list of outputs, at most 32, got 5\n$/);
    expect(existsSync(marker)).toBe(false);
  });
});

it('is what the pages of this repository type', () => {
  expect(readFileSync(join(repository, 'docs/command-line.md'), 'utf8')).toContain('Usage: ranktrace run [options] [--] CMD ...');
});

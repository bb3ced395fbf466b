// A service that other hosts can reach: a token per purpose, TLS on the one port; real ranks, a real browser, and every client.

import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { makeIssuer } from '../packages/aggregator/src/testing/certificates.ts';
import { startBrowser } from './setup/browser.ts';
import { type RankProgram, startRanks } from './setup/rank-programs.ts';
import { runCommand, type StartedCommand, startCommand } from './setup/ranktrace-command.ts';

const directory = mkdtempSync(join(tmpdir(), 'ranktrace-access-'));
afterAll(() => rmSync(directory, { recursive: true }));

const at = (name: string): string => join(directory, name);
const { ca, certificate } = makeIssuer(directory);
const { cert, key } = certificate('service');
const trusting = { NODE_EXTRA_CA_CERTS: ca };

const clear = { RANKTRACE_TOKEN: '', RANKTRACE_RANK_TOKEN: '', RANKTRACE_READ_TOKEN: '', RANKTRACE_CAPTURE_TOKEN: '' };
const serveAt = (out: string, ...more: string[]): string[] => ['serve', '--listen', '127.0.0.1:0', '--out', at(out), ...more];

/** The address in its first line, before it stores anything. */
const addressOf = (service: StartedCommand): string => /listening on (\S+),/.exec(service.output())?.[1] ?? '';

/** Resolves when a rank, which would go on, has printed this, and ends it then. */
async function saidBy({ child, ended }: RankProgram, pattern: RegExp): Promise<void> {
  let output = '';
  await new Promise<void>((resolve, reject) => {
    child.stderr?.on('data', (text: string) => {
      output += text;
      if (pattern.test(output)) resolve();
    });
    void ended.then(({ output }) => (pattern.test(output) ? resolve() : reject(new Error(`It never said ${pattern}:\n${output}`))));
  });
  child.kill('SIGTERM');
  await ended;
}

async function stop(service: StartedCommand): Promise<void> {
  service.child.kill('SIGTERM');
  expect((await service.ended).code).toBe(0);
}

describe('tokens', { timeout: 300_000 }, () => {
  it('one for all is taken by --token, --token-file and RANKTRACE_TOKEN alike', async () => {
    writeFileSync(at('one'), '# for all\nsesame\n');
    for (const [args, environment] of [
      [['--token', 'sesame'], clear],
      [['--token-file', at('one')], clear],
      [[], { ...clear, RANKTRACE_TOKEN: 'sesame' }],
    ] as const) {
      const service = startCommand(serveAt('one-for-all', ...args), environment);
      await service.said('storing in');
      const url = addressOf(service);
      expect((await fetch(`${url}/status`)).status).toBe(401);
      expect((await fetch(`${url}/status`, { headers: { authorization: 'Bearer sesame' } })).status).toBe(200);
      const listed = await runCommand(['alerts', '--url', url, '--json'], { ...clear, RANKTRACE_TOKEN: 'sesame' });
      expect(listed, listed.stderr).toMatchObject({ code: 0, stdout: '{"alerts":[]}\n' });
      await stop(service);
    }
  });

  it('of ranks, readers and captures each do what they are for, through real clients', async () => {
    writeFileSync(at('tokens'), 'rank=write-me\nread=read-me\ncapture=take-me\n');
    const service = startCommand(serveAt('roles', '--token-file', at('tokens')), clear);
    await service.said('storing in');
    const url = addressOf(service);
    const rank = async (run: string, environment: Record<string, string>) => {
      const started = await startRanks(1, ['test/programs/steps.mjs', '1000000', '20'], {
        ...clear,
        RANKTRACE_URL: url.replace('http', 'ws'),
        RANKTRACE_RUN: run,
        RANKTRACE_SPOOL_DIRECTORY: at(`spool-${run}`),
        ...environment,
      });
      return started[0] as (typeof started)[number];
    };
    const writing = await rank('right', { RANKTRACE_RANK_TOKEN: 'write-me' });
    const reading = await rank('wrong', { RANKTRACE_RANK_TOKEN: 'read-me' });
    const refusedRank = saidBy(reading, /refused the token \(HTTP 403\); set option token, or variable RANKTRACE_TOKEN/);
    const readers = { ...clear, RANKTRACE_READ_TOKEN: 'read-me' };
    await expect
      .poll(async () => (await runCommand(['top', '--once', '--url', url, '--run', 'right'], readers)).stdout, { timeout: 240_000 })
      .toContain('right');
    const captured = await runCommand(['capture', '--url', url, '--run', 'right', '--steps', '2'], {
      ...clear,
      RANKTRACE_CAPTURE_TOKEN: 'take-me',
    });
    expect(captured, captured.stderr).toMatchObject({ code: 0 });
    const refused = await runCommand(['capture', '--url', url, '--run', 'right', '--steps', '2'], {
      ...clear,
      RANKTRACE_CAPTURE_TOKEN: 'read-me',
    });
    expect(refused.code).toBe(2);
    expect(refused.stderr).toContain('capturing needs that of RANKTRACE_CAPTURE_TOKEN or RANKTRACE_TOKEN');
    const closed = await runCommand(['top', '--once', '--url', url], { ...clear, RANKTRACE_READ_TOKEN: 'write-me' });
    expect(closed.code).toBe(2);
    expect(closed.stderr).toContain('reading needs that of RANKTRACE_READ_TOKEN or RANKTRACE_TOKEN');
    await refusedRank;
    writing.child.kill('SIGTERM');
    await writing.ended;
    const status = (await (await fetch(`${url}/status`, { headers: { authorization: 'Bearer read-me' } })).json()) as {
      runs: { run: string }[];
    };
    expect(status.runs.map(({ run }) => run)).toEqual(['right']);
    await stop(service);
  });

  it.for([
    [
      '--token and --token-file',
      ['--token', 'a', '--token-file', 'x'],
      /'--token <token>' cannot be used with option '--token-file <file>'/,
    ],
    ['an empty token', ['--token', ''], /'--token <token>' argument '' is invalid\. It must be up to 4096 visible ASCII characters/],
    [
      'a token file that is not there',
      ['--token-file', '/nowhere/tokens'],
      /^ranktrace: Cannot read --token-file "\/nowhere\/tokens": ENOENT/,
    ],
    ['a certificate without its key', ['--tls-cert', cert], /^ranktrace: --tls-cert needs --tls-key, too$/],
    ['a key without its certificate', ['--tls-key', key], /^ranktrace: --tls-key needs --tls-cert, too$/],
    ['a certificate that is none', ['--tls-cert', key, '--tls-key', key], /^ranktrace: Cannot use ".*": it must be a certificate in PEM$/],
  ] as const)('%s is refused in one line', async ([, args, expected]) => {
    const { code, stderr } = await runCommand(serveAt('refused', ...args), clear);
    expect(code).toBe(2);
    expect(stderr.trim()).toMatch(expected);
    expect(stderr.trim().split('\n')).toHaveLength(1);
  });

  it('a token file that says something else is refused by its name, and shows nothing of it', async () => {
    writeFileSync(at('bad'), 'rank=write-me\nwriter=geheim\n');
    const { code, stderr } = await runCommand(serveAt('refused', '--token-file', at('bad')), clear);
    expect([code, stderr]).toEqual([
      2,
      `ranktrace: Bad --token-file "${at('bad')}": it must hold one token, or lines of rank=…, read=…, capture=… and all=…\n`,
    ]);
  });
});

describe('TLS', { timeout: 300_000 }, () => {
  it('is spoken by ranks, a browser and every client on the one port', async () => {
    const secret = { ...clear, RANKTRACE_TOKEN: 'sesame' };
    const service = startCommand(serveAt('tls', '--tls-cert', cert, '--tls-key', key), secret);
    await service.said('storing in');
    const url = addressOf(service);
    expect(url).toMatch(/^https:/);
    const ranks = (environment: Record<string, string>, run: string, steps: string) =>
      startRanks(2, ['test/programs/steps.mjs', steps, '5'], {
        ...secret,
        RANKTRACE_URL: url.replace('https', 'wss'),
        RANKTRACE_RUN: run,
        RANKTRACE_SPOOL_DIRECTORY: at(`spool-${run}`),
        ...environment,
      });
    const untrusted = /certificate is not trusted \(\w+\): set NODE_EXTRA_CA_CERTS to the file of its issuer/;
    const strangers = await ranks({ RANKTRACE_EXIT_DEADLINE_MS: '500' }, 'untrusting', '1000000');
    await Promise.all(strangers.map((stranger) => saidBy(stranger, untrusted)));

    for (const rank of await ranks(trusting, 'secure', '200')) {
      const { code, output } = await rank.ended;
      expect(code, output).toBe(0);
    }
    await service.said('run secure:');
    const top = await runCommand(['top', '--once', '--url', url, '--run', 'secure'], { ...secret, ...trusting });
    expect(top, top.stderr).toMatchObject({ code: 0, stdout: expect.stringContaining('secure') });
    const untrusting = await runCommand(['alerts', '--url', url], secret);
    expect(untrusting.code).toBe(2);
    expect(untrusting.stderr).toMatch(/^ranktrace: The certificate of https:.* is not trusted: .*; set NODE_EXTRA_CA_CERTS/);
    const plain = await runCommand(['alerts', '--url', url.replace('https', 'http')], secret);
    expect(plain.code).toBe(2);
    expect(plain.stderr).toMatch(/does it speak https\?/);

    await using browser = await startBrowser(['--ignore-certificate-errors']);
    await using tab = await browser.open(`${url}/?token=sesame#/overview?run=secure`);
    await tab.page.waitForSelector('option[value="secure"]', { state: 'attached' });
    await tab.page.waitForSelector('text=/rank 1/i');
    expect(new URL(tab.page.url()).search).toBe('');
    expect(tab.problems).toEqual([]);
    await stop(service);
  });

  it('is there for view, too', async () => {
    execFileSync(process.execPath, ['packages/cli/dist/main.js', 'simulate', '--ranks', '2', '--steps', '3', '--out', at('viewed')], {
      cwd: join(import.meta.dirname, '..'),
    });
    const view = startCommand(['view', at('viewed'), '--tls-cert', cert, '--tls-key', key, '--token', 'sesame'], clear);
    await view.said('Ctrl-C ends it');
    const address = /view: (https:\S+)/.exec(view.output())?.[1] ?? '';
    expect(new URL(address).searchParams.get('token')).toBe('sesame');
    await using browser = await startBrowser(['--ignore-certificate-errors']);
    await using tab = await browser.open(address);
    await tab.page.waitForSelector('option[value="simulated-0"]', { state: 'attached' });
    expect(tab.problems).toEqual([]);
    await stop(view);
  });
});

// `ranktrace view` and the pages of `run --view` and `serve`: how they start and end, and whom they admit.

import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { skewedCalls } from '../packages/trace/src/testing/skewed-calls.ts';
import { repository, runCommand, startCommand } from './setup/ranktrace-command.ts';
import { namesAt, runsAt, servedBy, startView } from './setup/viewed-runs.ts';
import { runLine } from './setup/warm-command.ts';

const directory = mkdtempSync(join(tmpdir(), 'ranktrace-view-'));
const data = join(repository, 'test/data');
// Beside the runs, whose directory holds nothing else.
const zipkin = mkdtempSync(join(tmpdir(), 'ranktrace-view-zipkin-'));
afterAll(() => {
  for (const path of [directory, zipkin]) rmSync(path, { recursive: true });
});

beforeAll(async () => {
  for (const [run, seed] of [
    ['night-1', '1'],
    ['night-2', '2'],
  ]) {
    const options = ['--ranks', '2', '--seconds', '2', '--out', directory, '--run', run as string, '--seed', seed as string];
    const { code, stderr } = await runLine(['simulate', ...options]);
    if (code !== 0) throw new Error(stderr);
  }
  writeFileSync(join(zipkin, 'calls.json'), skewedCalls(1).bytes);
  const trace = join(directory, 'night.pftrace');
  const { code, stderr } = await runLine(['merge', join(directory, 'night-1'), '-o', trace]);
  if (code !== 0) throw new Error(stderr);
  writeFileSync(`${trace}.gz`, gzipSync(readFileSync(trace)));
});

describe('ranktrace view', () => {
  it('prints the address alone on stdout, serves the page until Ctrl-C, and ends with 0', async () => {
    const view = await startView([join(directory, 'night-1')]);
    const page = await fetch(view.address);
    expect(page.status).toBe(200);
    expect(await page.text()).toContain('<div id="page">');
    await view.command.said('indexed');
    const { code, stdout, stderr } = await view.end();
    expect(code, stderr).toBe(0);
    expect(stdout).toBe(`${view.address}\n`);
    expect(stderr).toContain(`ranktrace: view: ${view.address} (Ctrl-C ends it)\n`);
    await expect(fetch(view.address)).rejects.toThrow();
  });

  it.each([
    ['all runs of a directory', () => [directory], ['night-1', 'night-2']],
    ['one of them by name', () => [directory, '--run', 'night-2'], ['night-2']],
    ['two of one name', () => [join(directory, 'night-1'), directory, '--run', 'night-1'], ['night-1', 'night-1-2']],
    ['a trace and a zipped trace', () => [join(directory, 'night.pftrace'), join(directory, 'night.pftrace.gz')], ['night', 'night-2']],
    [
      'the files of a job as one run, a directory of such files as another, a store beside them',
      () => [
        ...[0, 1, 2, 3].map((rank) => join(data, `kineto/ddp-4rank/balanced/rank${rank}.pt.trace.json.gz`)),
        join(data, 'kineto/ddp-4rank/rank1_forward'),
        join(directory, 'night-1'),
      ],
      ['balanced', 'night-1', 'rank1_forward'],
    ],
    ['a Zipkin file', () => [join(zipkin, 'calls.json')], ['calls']],
  ] as const)('shows %s', async (_what, inputs, names) => {
    await using view = await startView(inputs());
    expect((await namesAt(view.address)).sort()).toEqual(names);
    await view.command.said('indexed');
    expect(view.command.output()).not.toMatch(/cannot/i);
  });

  it('compares two', async () => {
    await using view = await startView([join(directory, 'night-1'), join(directory, 'night-2')]);
    expect(new URL(view.address).hash).toBe('#/compare?run=night-1&other=night-2');
  });

  it('knows a trace by how it begins, whatever its name', async () => {
    const path = join(directory, 'renamed.bin');
    copyFileSync(join(directory, 'night.pftrace'), path);
    await using view = await startView([path]);
    expect(await namesAt(view.address)).toEqual(['renamed-bin']);
  });

  const bad: readonly [string, () => string[], RegExp][] = [
    ['nothing', () => [], /missing required argument 'input'/],
    ['what is not there', () => [join(directory, 'none')], /Cannot open ".*none": there is no such file or directory/],
    [
      'a directory without a run',
      () => [join(repository, 'docs')],
      /it holds neither a run that ranktrace recorded, nor traces that it reads/,
    ],
    ['a run that the store has not', () => [directory, '--run', 'night-9'], /Cannot open run "night-9": .*night-1, night-2/],
    ['a trace of noise', () => [written('noise.pftrace', Buffer.alloc(4096, 0xa7))], /"[^"]*noise\.pftrace": /],
    [
      'a cut gzip stream',
      () => [written('cut.pftrace.gz', readFileSync(join(directory, 'night.pftrace.gz')).subarray(0, 14))],
      /cut\.pftrace\.gz": Cannot read the Perfetto trace: at byte \d+ /,
    ],
    ['an address that is none', () => [join(directory, 'night-1'), '--listen', 'here'], /--listen must be HOST:PORT/],
    ['an open address without a token', () => [join(directory, 'night-1'), '--listen', '0.0.0.0:0'], /token/],
  ];
  it.each(bad)('%s: one clear line, and 2', async (_what, args, line) => {
    const { code, stdout, stderr } = await runCommand(['view', '--no-open', ...args()]);
    expect(stderr.trim()).toMatch(line);
    expect(stderr.trim().split('\n')).toHaveLength(1);
    expect(stdout).toBe('');
    expect(code).toBe(2);
  });

  it('with a token lets in who shows it, and prints an address that has it', async () => {
    await using view = await startView([join(directory, 'night-1')], { RANKTRACE_TOKEN: 'four&twenty' });
    const address = new URL(view.address);
    expect(address.searchParams.get('token')).toBe('four&twenty');
    expect((await fetch(address.origin)).status).toBe(401);
    await expect(runsAt(address.origin)).rejects.toThrow(/401/);
    expect(await runsAt(address.origin, { authorization: 'Bearer four&twenty' })).toHaveLength(1);
    const entered = await fetch(address, { redirect: 'manual' });
    expect([entered.status, entered.headers.get('location')]).toEqual([303, '/']);
    const cookie = (entered.headers.get('set-cookie') ?? '').split(';')[0] as string;
    expect(cookie).not.toContain('twenty');
    expect((await fetch(address.origin, { headers: { cookie } })).status).toBe(200);
    expect(await runsAt(address.origin, { cookie })).toHaveLength(1);
  });

  it('refuses pages of other sites', async () => {
    await using view = await startView([join(directory, 'night-1')]);
    await expect(runsAt(view.address, { origin: 'https://example.org' })).rejects.toThrow(/403/);
    await expect(runsAt(view.address, { host: 'example.org' })).rejects.toThrow(/403|421/);
    expect(await runsAt(view.address, { origin: new URL(view.address).origin })).toHaveLength(1);
  });
});

describe('ranktrace run --view', () => {
  const train = ['--', process.execPath, 'test/programs/steps.mjs', '40', '5'];

  it('serves the page before the ranks start and after they have ended, until Ctrl-C', async () => {
    const command = startCommand(['run', '--ranks', '2', '--view', '--name', 'watched', '--out', join(directory, 'watched'), ...train]);
    await using view = await servedBy(command);
    expect(await namesAt(view.address)).toEqual(['watched']);
    await command.said('view: still at');
    expect((await fetch(view.address)).status).toBe(200);
    const { code, stdout, stderr } = await view.end();
    expect(code, stderr).toBe(0);
    expect(stdout).toMatch(/^trace: .*watched\/trace\.pftrace/m);
  });

  it('keeps the exit code of the ranks', async () => {
    const fail = ['--', process.execPath, '--input-type=module', '-e', failing];
    const command = startCommand(['run', '--view', '--name', 'failed', '--out', join(directory, 'failed'), ...fail]);
    await command.said('view: still at');
    command.child.kill('SIGINT');
    expect((await command.ended).code).toBe(7);
  });

  it('ends after the trace when Ctrl-C ended the ranks', async () => {
    const long = ['--', process.execPath, 'test/programs/steps.mjs', '100000', '20'];
    const command = startCommand(['run', '--view', '--name', 'cut', '--out', join(directory, 'cut'), ...long]);
    await using view = await servedBy(command);
    while ((await runsAt(view.address))[0]?.ranks !== 1) await new Promise((resolve) => setTimeout(resolve, 100));
    const { code, stdout } = await view.end();
    expect(stdout).toMatch(/^trace: /m);
    expect(code).toBe(130);
  });
});

describe('ranktrace serve', () => {
  it('serves the page of what its output directory has', async () => {
    const out = join(directory, 'served');
    mkdirSync(out);
    await runLine(['simulate', '--ranks', '2', '--seconds', '1', '--out', out, '--run', 'old']);
    await using service = await servedBy(startCommand(['serve', '--listen', '127.0.0.1:0', '--out', out]));
    expect(await namesAt(service.address)).toEqual(['old']);
    expect((await fetch(service.address)).headers.get('content-security-policy')).toContain("default-src 'none'");
  });
});

const failing = `
  import { profile } from '@ranktrace/sdk';
  const prof = profile().start();
  for (let step = 0; step < 10; step++) prof.step();
  await prof.stop();
  process.exitCode = 7;`;

function written(name: string, bytes: Uint8Array): string {
  writeFileSync(join(directory, name), bytes);
  return join(directory, name);
}

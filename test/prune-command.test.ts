// Retention in an operator's hands: `ranktrace prune`, and a service that keeps its store within bounds; on runs of real ranks, and on the page.

import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, utimesSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { LiveMessage } from '@ranktrace/protocol';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startBrowser } from './setup/browser.ts';
import { startRanks } from './setup/rank-programs.ts';
import { runCommand, startCommand } from './setup/ranktrace-command.ts';
import { runLine } from './setup/warm-command.ts';

const directory = mkdtempSync(join(tmpdir(), 'ranktrace-prune-'));
afterAll(() => rmSync(directory, { recursive: true }));

const at = (...names: string[]): string => join(directory, ...names);
const steps = 60;

/** Makes all files look as if they were written so many days ago. */
function age(run: string, days: number): void {
  const then = new Date(Date.now() - days * 24 * 3600 * 1000);
  for (const name of readdirSync(run, { recursive: true, encoding: 'utf8' })) {
    if (statSync(join(run, name)).isFile()) utimesSync(join(run, name), then, then);
  }
}

/** A copy of the recorded run of that age. */
function copyOf(name: string, days: number): string {
  cpSync(at('recorded', 'night'), at(name, 'night'), { recursive: true });
  age(at(name, 'night'), days);
  return at(name);
}

interface Reported {
  readonly steps: unknown;
  readonly medianNs: number;
  readonly phases: unknown;
  readonly ranks: readonly { readonly missing: number }[];
  readonly findings: readonly { readonly kind: string; readonly text: string }[];
}
const report = async (out: string): Promise<Reported> => {
  const { code, stdout, stderr } = await runLine(['report', join(out, 'night'), '--json']);
  expect(code, stderr).toBe(0);
  return JSON.parse(stdout) as Reported;
};

/** The day in the run's own record: today or, at midnight, yesterday. */
function prunedOn(out: string): string {
  const { on } = (JSON.parse(readFileSync(join(out, 'night', 'pruned.json'), 'utf8')) as { detail: { on: string } }).detail;
  expect(Math.abs(Date.now() - Date.parse(on))).toBeLessThan(2 * 24 * 3600 * 1000);
  return on;
}

beforeAll(async () => {
  const recorded = await runCommand([
    ...['run', '--ranks', '2', '--name', 'night', '--out', at('recorded'), '--json'],
    ...['--', process.execPath, 'test/programs/steps.mjs', `${steps}`, '5'],
  ]);
  expect(recorded.code, recorded.stderr).toBe(0);
});

describe('ranktrace prune', () => {
  it('takes the detail, leaves the times of all steps, and every reader says what is gone', async () => {
    const out = copyOf('aged', 8);
    const before = await report(out);
    const options = ['--keep-detail', '7d', '--keep-steps', '1y'];
    const dry = await runLine(['prune', out, ...options, '--dry-run']);
    expect(dry, dry.stderr).toMatchObject({ code: 0 });
    expect(dry.stdout).toMatch(
      /^run night: detail of steps 0–59 pruned \(1 file\)\nrun night: trace files pruned \(1 file\)\n.* before, .* after \(dry run: nothing was changed\)\n$/,
    );
    expect(await report(out)).toEqual(before);

    const { code, stdout } = await runLine(['prune', out, ...options, '--json']);
    expect(code).toBe(0);
    const result = JSON.parse(stdout) as { dryRun: boolean; bytesBefore: number; bytesAfter: number; pruned: { what: string }[] };
    expect(result).toMatchObject({ dryRun: false, pruned: [{ what: 'detail', steps: [0, steps - 1] }, { what: 'trace' }] });
    expect(result.bytesAfter).toBeLessThan(result.bytesBefore / 2);
    expect(existsSync(join(out, 'night', 'trace.pftrace'))).toBe(false);
    expect(JSON.parse(readFileSync(join(out, 'night', 'pruned.json'), 'utf8'))).toEqual({
      detail: { steps: [0, steps - 1], on: prunedOn(out) },
      traces: [{ name: 'trace.pftrace', on: prunedOn(out) }],
    });

    const after = await report(out);
    for (const part of ['steps', 'medianNs', 'phases'] as const) expect(after[part]).toEqual(before[part]);
    expect(after.ranks.map(({ missing }) => missing)).toEqual([0, 0]);
    const text = `detail of steps 0–59 was pruned on ${prunedOn(out)}: the times of its steps and phases are left`;
    expect(after.findings.filter(({ kind }) => ['pruned', 'data_loss', 'rank_lost'].includes(kind))).toEqual([
      { kind: 'pruned', ranks: [0, 1], text, remedy: expect.stringContaining('--keep-detail') },
    ]);
    const merged = await runLine(['merge', join(out, 'night'), '-o', at('aged.pftrace')]);
    expect(merged.stdout).toContain(`pruned: ${text}`);
    const check = await runLine(['check', join(out, 'night'), '--baseline', at('recorded', 'night'), '--json']);
    expect((JSON.parse(check.stdout) as { verdict: string }).verdict).toBe('unchanged');

    const again = await runLine(['prune', out, ...options]);
    expect(again).toMatchObject({ code: 0, stdout: expect.stringMatching(/^nothing to prune\n/) });
  });

  it('the page of a pruned run says so', async () => {
    const out = copyOf('shown', 8);
    expect((await runLine(['prune', out, '--keep-detail', '7d'])).code).toBe(0);
    const view = startCommand(['view', join(out, 'night')]);
    await view.said('Ctrl-C ends it');
    await using browser = await startBrowser();
    await using tab = await browser.open(/view: (http\S+)/.exec(view.output())?.[1] ?? '');
    await tab.page
      .getByText(`detail of steps 0–59 was pruned on ${prunedOn(out)}`)
      .first()
      .waitFor();
    expect(tab.problems).toEqual([]);
    view.child.kill('SIGTERM');
    await view.ended;
  });

  it.for([
    ['nothing to keep by', [], /^prune needs at least one of --keep-detail, --keep-steps, --keep-trace and --store-max$/],
    [
      'an age without a unit',
      ['--keep-detail', '7'],
      /'--keep-detail <age>' argument '7' is invalid\. It must be a number with m, h, d, w or y/,
    ],
    ['no age', ['--keep-steps', '0d'], /argument '0d' is invalid/],
    ['a size in letters', ['--store-max', 'much'], /argument 'much' is invalid\. It must be a number with M, G or T, such as 500M or 200G/],
  ] as const)('%s is refused in one line', async ([, options, expected]) => {
    const { code, stdout, stderr } = await runLine(['prune', at('recorded'), ...options]);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr.replace(/^ranktrace: /, '').trim()).toMatch(expected);
    expect(stderr.trim().split('\n')).toHaveLength(1);
  });
});

describe('ranktrace serve', () => {
  it('prunes what is stored, counts it, and leaves the run alone that ranks are writing', async () => {
    const out = copyOf('served', 8);
    const service = startCommand(['serve', '--listen', '127.0.0.1:0', '--out', out, '--keep-detail', '7d']);
    await service.said('run night: detail of steps 0–59 pruned (1 file)');
    await service.said('run night: trace files pruned (1 file)');
    await service.said('listening on');
    const url = /listening on (\S+),/.exec(service.output())?.[1] ?? '';
    // They write until they are ended.
    const ranks = await startRanks(2, ['test/programs/steps.mjs', '1000000', '20'], {
      RANKTRACE_URL: url.replace('http', 'ws'),
      RANKTRACE_RUN: 'today',
      RANKTRACE_SPOOL_DIRECTORY: at('spool'),
    });
    // A rank that is ended before it has sent anything leaves the service waiting for it.
    const stepping = async (): Promise<number> => {
      const { runs } = (await (await fetch(`${url}/status`)).json()) as LiveMessage;
      return runs.find(({ run }) => run === 'today')?.ranks.filter(({ step }) => step > 0).length ?? 0;
    };
    await expect.poll(stepping).toBe(2);
    // A prune by hand meanwhile: it leaves the ranks' runs to the service.
    expect(existsSync(join(out, 'today', 'lock'))).toBe(true);
    const byHand = await runLine(['prune', out, '--store-max', '0.001M', '--dry-run']);
    expect(byHand.stderr).toContain(`run "${join(out, 'today')}" is left alone: another process writes it`);
    expect(byHand.code).toBe(1);
    for (const { child } of ranks) child.kill('SIGTERM');
    for (const { ended } of ranks) await ended;
    await service.said('run today:');
    const metrics = await (await fetch(`${url}/metrics`)).text();
    expect(metrics).toMatch(/^ranktrace_pruned_bytes_total\{what="detail"\} [1-9]\d*$/m);
    expect(metrics).toMatch(/^ranktrace_store_bytes [1-9]\d*$/m);
    service.child.kill('SIGTERM');
    expect((await service.ended).code).toBe(0);
    expect(readdirSync(join(out, 'night', 'segments'))).toEqual(['000001.summary.seg']);
    const reported = await runLine(['report', join(out, 'today'), '--json']);
    expect((JSON.parse(reported.stdout) as Reported).findings.filter(({ kind }) => kind === 'pruned' || kind === 'data_loss')).toEqual([]);
  });
});

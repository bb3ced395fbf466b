// Stores that earlier versions wrote, and one of a later version: committed files, never made anew (data/README.md).

import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { repository } from './setup/ranktrace-command.ts';
import { runLine } from './setup/warm-command.ts';

const directory = mkdtempSync(join(tmpdir(), 'ranktrace-versions-'));
afterAll(() => rmSync(directory, { recursive: true }));

const stored = (name: string): string => `${repository}test/data/${name}`;

describe('a store of format 1, as the first version wrote it', () => {
  it('holds what that version said it holds', async () => {
    const { code, stdout, stderr } = await runLine(['dump', stored('store-v1')]);
    expect([code, stderr]).toEqual([0, '']);
    // Later versions also print the phases of steps.
    expect(stdout.replaceAll(/, phaseNs\.[^,}]+/g, '')).toBe(readFileSync(join(stored('store-v1'), 'dump.txt'), 'utf8'));
  });

  it('is reported, goes on and is pruned by this version', async () => {
    const out = join(directory, 'upgraded');
    const run = join(out, 'first-version');
    cpSync(stored('store-v1'), run, { recursive: true });
    const report = async (): Promise<string> => (await runLine(['report', run])).stdout;
    const before = await report();
    expect(before).toContain('run first-version: 2 of 2 ranks on 1 host, 84 events\n\nsteps: 6, median 36.1 ms, p95 180 ms');
    expect(before).toContain('nothing was lost');
    const prune = await runLine(['prune', out, '--store-max', '1M']);
    expect(prune).toMatchObject({ code: 0, stdout: expect.stringMatching(/^nothing to prune\n/) });
    expect(await report()).toBe(before);
  });
});

describe('a store of format 2, with summaries', () => {
  it('holds the times of the steps, and says what was pruned and when', async () => {
    const dump = await runLine(['dump', stored('store-v2')]);
    expect(dump).toMatchObject({ code: 0, stderr: '', stdout: readFileSync(join(stored('store-v2'), 'dump.txt'), 'utf8') });
    const { on } = (JSON.parse(readFileSync(join(stored('store-v2'), 'pruned.json'), 'utf8')) as { detail: { on: string } }).detail;
    const { stdout } = await runLine(['report', stored('store-v2')]);
    expect(stdout).toContain('run first-version: 2 of 2 ranks on 1 host, 12 events\n\nsteps: 6, median 36.1 ms, p95 180 ms');
    expect(stdout).toContain(`pruned: detail of steps 0–5 was pruned on ${on}: the times of its steps and phases are left`);
  });
});

it('a store of a later version is refused in one line', async () => {
  const later = join(directory, 'later');
  cpSync(stored('store-v1'), later, { recursive: true });
  writeFileSync(join(later, 'run.json'), '{"format":3,"run":"first-version"}\n');
  const line = `Cannot read run "${later}": its format must be 1 or 2, got 3; use the ranktrace version that wrote it\n`;
  for (const args of [
    ['report', later],
    ['merge', later, '-o', join(directory, 'x.pftrace')],
    ['dump', later],
    ['view', later],
  ]) {
    expect(await runLine(args)).toMatchObject({ code: 2, stdout: '', stderr: `ranktrace: ${line}` });
  }
  const prune = await runLine(['prune', later, '--keep-detail', '7d']);
  expect([prune.code, prune.stderr]).toEqual([2, `ranktrace: ${line}`]);
});

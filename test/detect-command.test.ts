// `ranktrace detect FILE.csv` as a person uses it: recorded runs of others, as text and as data, in a pipeline that must fail, and files that are none.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { afterAll, describe, expect, it } from 'vitest';
import { repository, runCommand } from './setup/ranktrace-command.ts';

const directory = mkdtempSync(join(tmpdir(), 'ranktrace-detect-'));
const data = join(repository, '..', 'shared', 'data', 'steptime');
afterAll(() => rmSync(directory, { recursive: true }));

/** The rows of one run, as a file of its own. */
function runOf(file: string, run: string, change: (row: string[], index: number) => string[] = (row) => row): string {
  const [head, ...lines] = gunzipSync(readFileSync(join(data, `${file}.csv.gz`)))
    .toString()
    .trim()
    .split(/\r?\n/);
  const rows = lines.map((line) => line.split(',')).filter((row) => row[0] === run);
  const path = join(directory, `${file}-${run}-${change.name || 'as-is'}.csv.gz`);
  writeFileSync(path, gzipSync([head, ...rows.map((row, index) => change(row, index).join(','))].join('\n')));
  return path;
}

const slower = (row: string[], index: number): string[] =>
  index < 3000 ? row : ([row[0], row[1], String(1.05 * Number(row[2]))] as string[]);

describe('ranktrace detect', () => {
  it('says nothing of a stationary run', async () => {
    const { code, stdout, stderr } = await runCommand(['detect', runOf('nanogpt_steps', '1'), '--fail']);
    expect(stderr).toMatch(/1 rows without a step number and a time were skipped, the first in line \d+/);
    expect(stdout).toBe('6 198 steps; nothing is open\n');
    expect(code).toBe(0);
  });

  it('says what became slower since when, and fails where it shall', async () => {
    const path = runOf('nanogpt_steps', '1', slower);
    const text = await runCommand(['detect', path, '--fail']);
    expect(text.stdout).toMatch(/^step \d+: regression \+\d\.\d % \(\d+ ms → \d+ ms\) since step \d+, 95 %: \+\d\.\d % to \+\d\.\d %\n/);
    expect(text.stdout).toMatch(/; a regression is open since step \d+, \d+ ms → \d+ ms at worst\n$/);
    expect(text.code).toBe(1);
    const json = await runCommand(['detect', path, '--json']);
    expect(json.code).toBe(0);
    const { findings, open, steps } = JSON.parse(json.stdout);
    expect(steps).toBe(6198);
    expect(findings).toMatchObject([{ kind: 'regression', change: expect.closeTo(0.05, 1) }]);
    expect(Math.abs(findings[0].onsetStep - 3002)).toBeLessThanOrEqual(8);
    expect(findings[0].step - 3002).toBeLessThan(40);
    expect(open).toMatchObject({ kind: 'regression', onsetStep: findings[0].onsetStep });
  });

  it('reads other columns, and leaves tagged steps out', async () => {
    const path = runOf('mlperf_steps', '40');
    const { code, stdout, stderr } = await runCommand([
      'detect',
      path,
      '--column',
      'time=step_s',
      '--column',
      'tag=in_eval',
      '--short',
      '--json',
    ]);
    expect(stderr).toContain('has no column of step numbers: rows are counted from 0');
    expect(JSON.parse(stdout)).toMatchObject({ findings: [], isReady: true });
    expect(JSON.parse(stdout).tagged).toBeGreaterThan(0);
    expect(code).toBe(0);
  });

  it('says where a series is too short', async () => {
    const path = join(directory, 'short.csv');
    writeFileSync(path, `step,time_ms\n${Array.from({ length: 50 }, (_, step) => `${step},200`).join('\n')}\n`);
    const { code, stderr } = await runCommand(['detect', path]);
    expect(stderr).toContain('is too short to tell anything');
    expect(code).toBe(0);
  });

  it.each([
    ['absent.csv', undefined, 'no such file'],
    ['empty.csv', '', 'it is empty'],
    ['names.csv', 'a,b\n1,2\n', 'it has no column time_ms'],
    ['zeros.csv', Buffer.alloc(100_000), 'line 1 is longer than 65536 characters'],
    ['torn.csv.gz', gzipSync('step,time_ms\n1,2\n').subarray(0, 20), 'unexpected end of file'],
    ['binary.csv', Buffer.from([0x1f, 0x8b, 1, 2, 3, 4]), 'unknown compression method'],
  ] as const)('refuses %s with one line', async (name, content, what) => {
    const path = join(directory, name);
    if (content !== undefined) writeFileSync(path, content);
    const { code, stdout, stderr } = await runCommand(['detect', path]);
    expect(stderr.trim().split('\n').length).toBe(1);
    expect(stderr).toContain(path);
    expect(stderr).toContain(what);
    expect([code, stdout]).toEqual([2, '']);
  });

  it('refuses columns that are none', async () => {
    const { code, stderr } = await runCommand(['detect', 'x.csv', '--column', 'when=step']);
    expect(stderr).toContain('--column must be step=NAME, time=NAME, context=NAME, tag=NAME, got "when=step"');
    expect(code).toBe(2);
  });
});

// `ranktrace detect FILE.csv` in a person's hands: simulated runs, as text and as data, in a pipeline that must fail, and files that are no series.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, describe, expect, it } from 'vitest';
import { evaluatedRuns, stepTimes } from '../packages/trace/src/testing/step-times.ts';
import { runLine } from './setup/warm-command.ts';

const directory = mkdtempSync(join(tmpdir(), 'ranktrace-detect-'));
afterAll(() => rmSync(directory, { recursive: true }));

/** A series as a file: its rows under a line of column names. */
function fileOf(name: string, columns: string, rows: readonly (readonly (string | number)[])[]): string {
  const path = join(directory, name);
  writeFileSync(path, gzipSync([columns, ...rows.map((row) => row.join(','))].join('\n')));
  return path;
}

/** 6,198 steps at one level, whole ms, that take `factor` times as long from step 3000 on; the log has no time for its first step. */
function seriesFile(name: string, factor: number): string {
  const rows = stepTimes({ seed: 1, steps: 6198, ms: 180, factorAt: (step) => (step < 3000 ? 1 : factor) });
  return fileOf(name, 'run,step,time_ms', [['1', '', ''], ...rows.map(({ step, ms }) => ['1', step, ms])]);
}

describe('ranktrace detect', () => {
  it('says nothing of a stationary run (seed 1)', async () => {
    const { code, stdout, stderr } = await runLine(['detect', seriesFile('stationary.csv.gz', 1), '--fail']);
    expect(stderr).toMatch(/1 rows without a step number and a time were skipped, the first in line \d+/);
    expect(stdout).toBe('6 198 steps; nothing is open\n');
    expect(code).toBe(0);
  });

  it('says what became slower since when, and fails where that is asked for (seed 1)', async () => {
    const path = seriesFile('slower.csv.gz', 1.05);
    const text = await runLine(['detect', path, '--fail']);
    expect(text.stdout).toMatch(/^step \d+: regression \+\d\.\d % \(\d+ ms → \d+ ms\) since step \d+, 95 %: \+\d\.\d % to \+\d\.\d %\n/);
    expect(text.stdout).toMatch(/; a regression is open since step \d+, \d+ ms → \d+ ms at worst\n$/);
    expect(text.code).toBe(1);
    const json = await runLine(['detect', path, '--json']);
    expect(json.code).toBe(0);
    const { findings, open, steps } = JSON.parse(json.stdout);
    expect(steps).toBe(6198);
    expect(findings).toMatchObject([{ kind: 'regression', change: expect.closeTo(0.05, 1) }]);
    expect(Math.abs(findings[0].onsetStep - 3000)).toBeLessThanOrEqual(8);
    expect(findings[0].step - 3000).toBeLessThan(40);
    expect(open).toMatchObject({ kind: 'regression', onsetStep: findings[0].onsetStep });
  });

  it('says since when long steps take more of the time, though usual steps do not, and when that is over (seed 1)', async () => {
    const stalled = (until: number): string => {
      const rows = stepTimes({
        seed: 1,
        steps: 4000,
        ms: 180,
        factorAt: (step) => (step >= 2000 && step < until && step % 10 === 0 ? 6 : 1),
      });
      return fileOf(
        `stalled-${until}.csv.gz`,
        'step,time_ms',
        rows.map(({ step, ms }) => [step, ms]),
      );
    };
    const on = await runLine(['detect', stalled(4000), '--fail']);
    expect(on.stdout).toMatch(
      /^step 2\d\d\d: long steps, about one in (8|9|10): mean of all steps \+[45]\d\.\d % \(1\d\d ms → 2\d\d ms\) since step 20\d\d, 95 %: \+.* to \+.* %\n/m,
    );
    expect(on.stdout).toMatch(/; long steps take more of the time since step 20\d\d\n$/);
    expect(on.code).toBe(1);
    const over = await runLine(['detect', stalled(3000), '--fail']);
    expect(over.stdout).toMatch(/^step 3\d\d\d: long steps went away \(open since step 20\d\d\), they add \+\d\.\d %$/m);
    expect([over.code, over.stdout.endsWith('; nothing is open\n')]).toEqual([0, true]);
    expect((await runLine(['detect', stalled(4000), '--min-change', '60%'])).stdout).toMatch(/nothing is open\n$/);
  });

  it('reports no change smaller than asked for, and waits longer where it shall be cautious (seed 1)', async () => {
    const path = seriesFile('wanted.csv.gz', 1.04);
    const reported = async (...options: string[]): Promise<{ kind: string; step: number }[]> => {
      const { stdout } = await runLine(['detect', path, '--json', ...options]);
      return JSON.parse(stdout).findings;
    };
    const [usual] = await reported();
    expect(usual).toMatchObject({ kind: 'regression' });
    expect(await reported('--min-change', '6%')).toEqual([]);
    expect(await reported('--min-change', '3')).toMatchObject([{ kind: 'regression' }]);
    const [cautious] = await reported('--sensitivity', 'low');
    expect(cautious?.step).toBeGreaterThan(usual?.step ?? Number.NaN);
    const [hasty] = await reported('--sensitivity', 'high');
    expect(hasty?.step).toBeLessThanOrEqual(usual?.step ?? Number.NaN);
  });

  it.each([
    ['--min-change', '0.01%', 'It must be 0.1% to 900% of the step.'],
    ['--min-change', '0.03', 'It is per cent: write 3 for a share of 0.03, or 0.03% if that is meant.'],
    ['--sensitivity', 'much', 'Allowed choices are low, normal, high.'],
  ])('refuses %s %s', async (option, value, what) => {
    const { code, stdout, stderr } = await runLine(['detect', 'x.csv', option, value]);
    expect(stderr).toContain(what);
    expect([code, stdout]).toEqual([2, '']);
  });

  it('reads other columns, and leaves tagged steps out (seed 0)', async () => {
    const [{ rows } = { rows: [] }] = evaluatedRuns();
    const lines = rows.map(({ ms, tag }) => ['40', ms / 1000, tag === undefined ? 0 : 1]);
    const path = fileOf('evaluated.csv.gz', 'run,step_s,in_eval', lines);
    const { code, stdout, stderr } = await runLine([
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
    const { code, stderr } = await runLine(['detect', path]);
    expect(stderr).toContain('is too short to judge its end');
    expect(code).toBe(0);
    // A context that comes back begins anew.
    const changing = join(directory, 'changing.csv');
    const contextAt = (step: number): string => (step >= 1000 && step < 1480 ? 'small' : 'large');
    writeFileSync(
      changing,
      `step,time_ms,context\n${Array.from({ length: 1500 }, (_, step) => `${step},200,${contextAt(step)}`).join('\n')}\n`,
    );
    const changed = await runLine(['detect', changing]);
    expect(changed.stderr).toContain('changing.csv: its context changed at step 1480, and the steps since are too few to judge its end');
  });

  it.each([
    ['absent.csv', undefined, 'absent.csv": there is no such file or directory'],
    ['empty.csv', '', 'it is empty'],
    ['names.csv', 'a,b\n1,2\n', 'it has no column time_ms'],
    ['zeros.csv', Buffer.alloc(100_000), 'line 1 is longer than 65536 characters'],
    ['torn.csv.gz', gzipSync('step,time_ms\n1,2\n').subarray(0, 20), 'unexpected end of file'],
    ['binary.csv', Buffer.from([0x1f, 0x8b, 1, 2, 3, 4]), 'unknown compression method'],
  ] as const)('refuses %s with one line', async (name, content, what) => {
    const path = join(directory, name);
    if (content !== undefined) writeFileSync(path, content);
    const { code, stdout, stderr } = await runLine(['detect', path]);
    expect(stderr.trim().split('\n').length).toBe(1);
    expect(stderr).toContain(path);
    expect(stderr).toContain(what);
    expect([code, stdout]).toEqual([2, '']);
  });

  it('refuses columns that are none', async () => {
    const { code, stderr } = await runLine(['detect', 'x.csv', '--column', 'when=step']);
    expect(stderr).toContain('--column must be step=NAME, time=NAME, context=NAME, tag=NAME, got "when=step"');
    expect(code).toBe(2);
  });
});

// `ranktrace check RUN --baseline B` as a pipeline uses it: a run that is slower, one that is not, one too short, and bad usage.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { runCommand } from './setup/ranktrace-command.ts';

const directory = mkdtempSync(join(tmpdir(), 'ranktrace-check-'));
afterAll(() => rmSync(directory, { recursive: true }));

async function simulate(name: string, ...options: readonly string[]): Promise<string> {
  const args = ['simulate', '--out', directory, '--run', name, '--ranks', '4', '--hosts', '1', ...options];
  const { code, stderr } = await runCommand(args);
  if (code !== 0) throw new Error(stderr);
  return join(directory, name);
}

let main: string;
let again: string;
let slow: string;
beforeAll(async () => {
  main = await simulate('main', '--steps', '120', '--seed', '1');
  again = await simulate('again', '--steps', '120', '--seed', '2');
  slow = await simulate('slow', '--steps', '120', '--seed', '3', '--straggler', '2:backward:+20');
});

describe('ranktrace check', () => {
  it('fails for a run that is slower, and says who and where', async () => {
    const { code, stdout } = await runCommand(['check', slow, '--baseline', main]);
    expect(code).toBe(1);
    expect(stdout).toMatch(/^slower: \+\d+\.\d % \(95 %: \+\d+\.\d % to \+\d+\.\d %, T \d+\.\d\), 3 % or more fail the check$/m);
    expect(stdout).toMatch(/^cause: straggler\n {2}rank 2 works \d+\.\d\d ms more per step, \d+\.\d\d ms of it in backward$/m);
    expect(stdout).toMatch(/^phase, mean per step +baseline +checked +difference$/m);
    const json = await runCommand(['check', slow, '--baseline', main, '--json']);
    expect(json.code).toBe(1);
    const data = JSON.parse(json.stdout);
    expect(data).toMatchObject({
      ...{ verdict: 'slower', failOn: 0.03, isCertain: true },
      baseline: { run: 'main', ranks: 4, steps: 120 },
      checked: { run: 'slow', ranks: 4, steps: 120 },
      cause: { kind: 'straggler', ranks: [2], phase: 'backward' },
    });
    expect(data.change).toBeCloseTo(data.checked.stepNs / data.baseline.stepNs - 1, 6);
    // The planted 20 ms, which all ranks wait for.
    expect((data.checked.stepNs - data.baseline.stepNs) / 1e6).toBeGreaterThan(15);
    expect((data.checked.stepNs - data.baseline.stepNs) / 1e6).toBeLessThan(25);
  });

  it('passes a run that is as fast, or slower by less than is asked', async () => {
    const same = await runCommand(['check', again, '--baseline', main, '--json']);
    expect(same.code).toBe(0);
    expect(JSON.parse(same.stdout).verdict).toBe('unchanged');
    const allowed = await runCommand(['check', slow, '--baseline', main, '--fail-on', '50%']);
    expect([allowed.code, allowed.stdout.includes('unchanged: +')]).toEqual([0, true]);
    const faster = await runCommand(['check', main, '--baseline', slow, '--fail-on', '2.5 %']);
    expect(faster.code).toBe(0);
    expect(faster.stdout).toMatch(/^faster: −/m);
  });

  it('refuses what it cannot compare with one line', async () => {
    const short = await simulate('short', '--steps', '9');
    for (const [args, what] of [
      [[short, '--baseline', main], 'has 9 steps that all ranks told, at least 16 are needed'],
      [[main, '--baseline', join(directory, 'absent')], 'absent'],
      [[main, '--baseline', slow, '--fail-on', '0.03'], 'It must be a share of the step, such as 3% or 2.5%.'],
      [[main], "required option '--baseline <input>' not specified"],
    ] as const) {
      const { code, stdout, stderr } = await runCommand(['check', ...args]);
      expect(stderr).toContain(what);
      expect([code, stdout]).toEqual([2, '']);
    }
  });
});

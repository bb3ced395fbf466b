// `ranktrace simulate` in a person's hands: a store that every other command reads, the truth beside it, and nothing half done.

import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { afterAll, describe, expect, it } from 'vitest';
import { startCommand } from './setup/ranktrace-command.ts';
import { runLine } from './setup/warm-command.ts';

const directory = mkdtempSync(join(tmpdir(), 'ranktrace-simulate-'));
afterAll(() => rmSync(directory, { recursive: true }));

const simulate = (...args: string[]) => runLine(['simulate', '--out', directory, ...args]);
const segmentOf = (run: string): Buffer => {
  const [name] = readdirSync(join(directory, run, 'segments'));
  return readFileSync(join(directory, run, 'segments', name as string));
};

describe('ranktrace simulate', () => {
  it('writes a run that merge and table read without loss, and the truth of its clocks', async () => {
    const options = ['--ranks', '4', '--hosts', '2', '--seconds', '12', '--clock-step', '1@6:-300', '--straggler', '3:forward:+50@20'];
    const { code, stdout, stderr } = await simulate('--run', 'small', ...options, '--pipeline', '2', '--json');
    expect(code, stderr).toBe(0);
    const said = JSON.parse(stdout);
    expect(said).toMatchObject({ run: 'small', ranks: 4, hosts: 2, seed: 0, lost: { batches: 0 } });

    const merged = await runLine(['merge', said.store, '-o', join(directory, 'small.txt'), '--json']);
    const report = JSON.parse(merged.stdout);
    expect(merged.code, merged.stderr).toBe(0);
    expect(report.findings.filter(({ kind }: { kind: string }) => kind === 'data_loss')).toEqual([]);
    expect(report.ranks.reduce((sum: number, { counts }: { counts: Record<string, number> }) => sum + (counts.step as number), 0)).toBe(
      4 * said.steps,
    );
    const { stdout: table } = await runLine(['table', said.store]);
    for (const name of ['data', 'forward', 'backward', 'all_reduce', 'optimizer', 'send', 'recv', 'GetBatch'])
      expect(table).toContain(name);

    const truth = JSON.parse(readFileSync(said.truth, 'utf8'));
    expect(truth).toMatchObject({
      format: 1,
      steps: said.steps,
      stragglers: [{ rank: 3, phase: 'forward', ms: 50, step: 20 }],
      losses: [],
    });
    expect(truth.hosts.map(({ ranks }: { ranks: number[] }) => ranks)).toEqual([
      [0, 1],
      [2, 3],
    ]);
    expect(truth.hosts[1].clockSteps).toMatchObject([{ trueNs: 6e9, jumpNs: -300_000 }]);
    expect(truth.hosts[0].knots.at.length).toBeGreaterThan(12);
    expect(readdirSync(directory).sort()).toEqual(['small', 'small.txt']);
  });

  it('writes the same bytes for the same seed', async () => {
    const options = ['--ranks', '2', '--seconds', '3', '--lost', '0.1'];
    await simulate('--run', 'same', '--seed', '7', ...options);
    const first = segmentOf('same');
    rmSync(join(directory, 'same'), { recursive: true });
    await simulate('--run', 'same', '--seed', '7', ...options);
    expect(segmentOf('same').equals(first)).toBe(true);
    const { stdout } = await simulate('--run', 'other', '--seed', '8', ...options);
    expect(stdout).toMatch(/^run other: 2 ranks on 1 host, \d+ steps in [\d.]+ s, seed 8\nevents: /);
    expect(stdout).toMatch(/^lost on purpose: \d+ collective parts?, \d+ rpc hal(f|ves), \d+ batch(es)?$/m);
    expect(segmentOf('other').equals(first)).toBe(false);
  });

  it.for([
    [['--ranks', '2000'], 'Cannot simulate: --ranks must be a whole number from 1 to 1024, got 2000'],
    [['--ranks', 'many'], "option '-n, --ranks <n>' argument 'many' is invalid. It must be a number."],
    [['--hosts', '2', '--ranks-per-host', '4'], 'Cannot simulate: give --hosts or --ranks-per-host, not both'],
    [['--seconds', '5', '--steps', '5'], 'Cannot simulate: give --seconds or --steps, not both'],
    [['--clock-step', '1:5'], 'It must be HOST@SECONDS:MICROS, such as 1@30:-300.'],
    [['--clock-step', '9@1:5'], 'Cannot simulate: --clock-step must be of a host from 0 to 1, got 9'],
    [['--straggler', '1:backward'], 'It must be RANK:PHASE:+MS, such as 5:backward:+80, or with @STEP or @FROM-TO.'],
    [['--straggler', '1:sleep:+5'], 'Cannot simulate: --straggler must be in data, forward, backward, optimizer, got "sleep"'],
    [['--no-pings', '2'], 'Cannot simulate: --no-pings must be a host from 0 to 1, got 2'],
    [['--tensor-parallel', '3'], 'Cannot simulate: --ranks must be a multiple of --tensor-parallel 3 times --pipeline 1, got 16'],
    [['--run', 'small'], 'small": it is there already; remove it, or choose another --run or --out'],
  ] as const)('refuses %j in one line', async ([args, message]) => {
    const { code, stdout, stderr } = await simulate(...args);
    expect(stdout).toBe('');
    expect(stderr).toContain(message);
    expect(stderr.trim().split('\n')).toHaveLength(1);
    expect(code).toBe(2);
  });

  it('says in one line that it cannot write', async () => {
    const file = join(directory, 'small.txt');
    const { code, stderr } = await runLine(['simulate', '--out', file, '--seconds', '1']);
    expect(stderr).toMatch(/^ranktrace: Cannot write .*not a directory.*\n$/);
    expect(code).toBe(2);
  });

  it('leaves nothing behind on Ctrl-C, the first or the second', async () => {
    const out = join(directory, 'interrupted');
    for (const signals of [['SIGINT'], ['SIGINT', 'SIGTERM']] as const) {
      const command = startCommand(['simulate', '--out', out, '--ranks', '256', '--seconds', '3600']);
      while (!existsSync(out) || readdirSync(out).length === 0) await setTimeout(10);
      await setTimeout(300);
      for (const signal of signals) command.child.kill(signal);
      const { code, stderr } = await command.ended;
      if (signals.length === 1) {
        expect(stderr).toBe(`ranktrace: Interrupted: "${join(out, 'simulated-0')}" was not written\n`);
        expect(code).toBe(130);
      } else {
        // The second signal ends it at once, unless the first has just done so.
        expect([130, 143]).toContain(code);
      }
      expect(readdirSync(out)).toEqual([]);
    }
  });
});

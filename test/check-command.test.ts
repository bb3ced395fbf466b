// `ranktrace check RUN --baseline B` in a pipeline: a slower run, an equal one, one that is too short, and bad usage.

import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type GpuJobOptions, gpuJob } from '../packages/trace/src/testing/gpu-job.ts';
import { runLine } from './setup/warm-command.ts';

const directory = mkdtempSync(join(tmpdir(), 'ranktrace-check-'));
afterAll(() => rmSync(directory, { recursive: true }));

async function simulate(name: string, ...options: readonly string[]): Promise<string> {
  const args = ['simulate', '--out', directory, '--run', name, '--ranks', '4', '--hosts', '1', ...options];
  const { code, stderr } = await runLine(args);
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

describe('ranktrace check of GPU jobs whose hosts run ahead', () => {
  /** The files of a job whose kernels take so many times as long. */
  function job(name: string, seed: number, times: number, options: Partial<GpuJobOptions> = {}): string {
    const path = join(directory, name);
    mkdirSync(path, { recursive: true });
    const faults = [...(options.faults ?? []), { kind: 'slow_kernels', amount: times } as const];
    const { files } = gpuJob({ seed, ranks: 3, steps: 12, spread: 0.01, synchronizes: 'last', ...options, faults });
    for (const file of files) writeFileSync(join(path, file.name), file.text);
    return path;
  }

  it('compares steps as the GPUs take them, and says so', async () => {
    const before = job('gpu-before', 1, 20);
    const same = await runLine(['check', job('gpu-same', 2, 20), '--baseline', before]);
    expect(same.stdout).toMatch(/^unchanged: .*; steps as the GPUs take them$/m);
    const slower = await runLine(['check', job('gpu-slower', 2, 26), '--baseline', before, '--json']);
    expect([slower.code, JSON.parse(slower.stdout)]).toMatchObject([1, { verdict: 'slower', stepsTakenBy: 'devices' }]);
    const { change } = JSON.parse(slower.stdout) as { change: number };
    expect(change).toBeGreaterThan(0.15);
    expect(change).toBeLessThan(0.35);
    const shorter = await runLine(['check', job('gpu-short', 3, 20, { steps: 6 }), '--baseline', before]);
    expect(shorter.stdout).toMatch(/^unchanged: /m);
    // The GPUs do not wait for 300 µs more of the host.
    const hidden = job('gpu-hidden', 4, 20, { faults: [{ kind: 'late_data', amount: 300_000 }] });
    expect((await runLine(['check', hidden, '--baseline', before])).stdout).toMatch(/^unchanged: /m);
    expect((await runLine(['check', job('gpu-sync', 5, 20, { synchronizes: 'each' }), '--baseline', before])).code).toBe(0);
    const diff = await runLine(['diff', before, hidden, '--json']);
    expect([diff.code, JSON.parse(diff.stdout)]).toMatchObject([0, { verdict: 'unchanged', stepsTakenBy: 'devices' }]);
  });

  it.each([
    ['kernels of all ranks', [{ kind: 'slow_kernels', amount: 26 }], { kind: 'cluster_wide', ranks: [], phase: 'GPU compute' }],
    ['kernels of one rank', [{ kind: 'slow_kernels', rank: 1, amount: 26 }], { kind: 'straggler', ranks: [1], phase: 'GPU compute' }],
    [
      'hosts, for which GPUs now wait',
      [{ kind: 'late_data', amount: 30e6 }],
      { kind: 'host_bound', ranks: [], phase: 'GPU idle, host late' },
    ],
    [
      'the host of one rank',
      [{ kind: 'late_data', rank: 2, amount: 30e6 }],
      { kind: 'straggler', ranks: [2], phase: 'GPU idle, host late' },
    ],
    ['communication', [{ kind: 'slow_transfers', amount: 100 }], { kind: 'communication_bound', ranks: [] }],
  ] as const)('names the cause of slower %s, also from a saved baseline', async (name, faults, cause) => {
    const [before, after] = [job(`cause-${name}`, 1, 20), job(`caused-${name}`, 2, 20, { faults })];
    const file = join(directory, 'cause.json');
    await runLine(['check', before, '--save', file]);
    const checked = await Promise.all([before, file].map((baseline) => runLine(['check', after, '--baseline', baseline, '--json'])));
    const [data, saved] = checked.map(({ stdout }) => JSON.parse(stdout));
    expect(saved).toEqual(data);
    expect(data).toMatchObject({ verdict: 'slower', stepsTakenBy: 'devices', cause });
    const own = data.checked.stepNs - data.baseline.stepNs;
    expect(data.cause.changeNs / own).toBeGreaterThan(0.8);
    expect(data.cause.changeNs / own).toBeLessThan(1.2);
    const kernels: readonly { readonly kernel: string; readonly beforeNs: number; readonly afterNs: number }[] = data.kernels;
    const gemm = kernels.find(({ kernel }) => kernel.includes('gemm_bf16bf16_nt'));
    const times = (gemm?.afterNs ?? 0) / (gemm?.beforeNs ?? 1);
    const planted = name === 'kernels of all ranks' ? 1.3 : name === 'kernels of one rank' ? 1.1 : 1;
    expect(times / planted).toBeCloseTo(1, 1);
  });

  it('keeps both lengths in a saved baseline, and compares hosts with one that has not both', async () => {
    const [before, slower] = [job('gpu-saved', 1, 20), job('gpu-after', 2, 26)];
    const file = join(directory, 'gpu.json');
    await runLine(['check', before, '--save', file]);
    const known = await runLine(['check', slower, '--baseline', file]);
    expect([known.code, known.stdout]).toEqual([1, expect.stringMatching(/^slower: .*; steps as the GPUs take them$/m)]);
    const { takenBy, hostLevel, ...saved } = JSON.parse(readFileSync(file, 'utf8'));
    expect([takenBy, hostLevel.level < saved.level.level / 5]).toEqual(['devices', true]);
    // An earlier version saved the steps of hosts.
    writeFileSync(file, JSON.stringify({ ...saved, level: hostLevel }));
    const unknown = await runLine(['check', slower, '--baseline', file]);
    expect(unknown.code).toBe(0);
    expect(unknown.stdout).toMatch(
      /; steps as the hosts take them: those of the GPUs are not known of all ranks and steps of the baseline$/m,
    );
  });
});

describe('ranktrace check', () => {
  it('fails for a run that is slower, and says who and where', async () => {
    const { code, stdout } = await runLine(['check', slow, '--baseline', main]);
    expect(code).toBe(1);
    expect(stdout).toMatch(/^slower: \+\d+\.\d % \(95 %: \+\d+\.\d % to \+\d+\.\d %, T \d+\.\d\), 3 % or more fail the check$/m);
    expect(stdout).toMatch(
      /^cause: straggler\n {2}rank 2 works \d+\.\d\d ms more per step(, \d+\.\d\d ms of it|: \d+\.\d\d ms more) in backward.*\n {2}steps are \d+\.\d\d ms longer: \d+\.\d\d ms by that/m,
    );
    expect(stdout).toMatch(/^phase, mean per step +baseline +checked +difference$/m);
    const json = await runLine(['check', slow, '--baseline', main, '--json']);
    expect(json.code).toBe(1);
    const data = JSON.parse(json.stdout);
    expect(data).toMatchObject({
      ...{ verdict: 'slower', failOn: 0.03, isCertain: true },
      baseline: { run: 'main', ranks: 4, steps: 120 },
      checked: { run: 'slow', ranks: 4, steps: 120 },
      cause: { kind: 'straggler', ranks: [2], phase: 'backward' },
    });
    expect(data.change).toBeCloseTo(data.checked.stepNs / data.baseline.stepNs - 1, 6);
    // All ranks wait for the planted 20 ms.
    expect((data.checked.stepNs - data.baseline.stepNs) / 1e6).toBeGreaterThan(15);
    expect((data.checked.stepNs - data.baseline.stepNs) / 1e6).toBeLessThan(25);
  });

  it('fails for a run whose checkpoints became longer, though its usual steps are as they were', async () => {
    const checkpoints = (ms: number): string[] =>
      Array.from({ length: 16 }, (_, index) => ['--straggler', `0:optimizer:+${ms}@${25 * index + 24}`]).flat();
    const steps = ['--steps', '400', '--step-ms', '60'];
    const [short, long] = [
      await simulate('short-checkpoints', ...steps, '--seed', '11', ...checkpoints(200)),
      await simulate('long-checkpoints', ...steps, '--seed', '12', ...checkpoints(1200)),
    ];
    const { code, stdout } = await runLine(['check', long, '--baseline', short]);
    expect(code).toBe(1);
    expect(stdout).toMatch(
      /^slower: \+\d+\.\d % over all steps, the long ones too \(95 %: \+.*\), 3 % or more fail the check\nlong steps, over 1\.5 times as long as the others, add \d+\.\d % \(1[3-6] times\) and \d+\.\d % \(1[3-6] times\); the others: [+−]0\.\d % \(/m,
    );
    const json = JSON.parse((await runLine(['check', long, '--baseline', short, '--json'])).stdout);
    expect(json).toMatchObject({ verdict: 'slower', basis: 'all', isCertain: false, allSteps: { isCertain: true } });
    // 1000 ms more in each 25th step of 60 ms, and of the first runs a quarter may hide in usual steps.
    expect(json.allSteps.change).toBeGreaterThan(0.45);
    expect(json.allSteps.change).toBeLessThan(0.65);
    const difference = await runLine(['diff', short, long]);
    expect(difference.code).toBe(1);
    expect(difference.stdout).toMatch(/; means of phases: all_reduce \+\d\d\.\d ms, optimizer \+(9\.\d\d|10\.\d\d?) ms$/m);
    const shorter = await runLine(['check', short, '--baseline', long]);
    expect(shorter.code).toBe(0);
    expect(shorter.stdout).toMatch(/^faster: −\d+\.\d % over all steps/m);
    const saved = join(directory, 'short-checkpoints.json');
    await runLine(['check', short, '--save', saved]);
    const again = await runLine(['check', long, '--baseline', saved]);
    expect([again.code, again.stdout]).toEqual([1, stdout]);
    const written = JSON.parse(readFileSync(saved, 'utf8'));
    writeFileSync(saved, JSON.stringify(written, undefined, 2));
    expect((await runLine(['check', long, '--baseline', saved])).stdout).toBe(stdout);
    written.level.long.count = 1000;
    writeFileSync(saved, JSON.stringify(written));
    const wrong = await runLine(['check', long, '--baseline', saved]);
    expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringMatching(/: level\.long: must not count more than steps\n$/)]);
  });

  it('passes a run that is as fast, or slower by less than is asked', async () => {
    const same = await runLine(['check', again, '--baseline', main, '--json']);
    expect(same.code).toBe(0);
    expect(JSON.parse(same.stdout).verdict).toBe('unchanged');
    const allowed = await runLine(['check', slow, '--baseline', main, '--fail-on', '50%']);
    expect([allowed.code, allowed.stdout.includes('unchanged: +')]).toEqual([0, true]);
    const faster = await runLine(['check', main, '--baseline', slow, '--fail-on', '2.5 %']);
    expect(faster.code).toBe(0);
    expect(faster.stdout).toMatch(/^faster: −/m);
  });

  it('takes per cent with and without the sign, and asks about what looks like a share', async () => {
    for (const failOn of ['3', '3%', '3 %', '2.5']) {
      expect((await runLine(['check', slow, '--baseline', main, '--fail-on', failOn])).code, failOn).toBe(1);
    }
    expect((await runLine(['check', slow, '--baseline', main, '--fail-on', '50'])).code).toBe(0);
    const share = await runLine(['check', main, '--baseline', slow, '--fail-on', '0.03']);
    expect([share.code, share.stdout]).toEqual([2, '']);
    expect(share.stderr).toContain('It is per cent: write 3 for a share of 0.03, or 0.03% if that is meant.');
    expect((await runLine(['check', again, '--baseline', main, '--fail-on', '0.03%'])).code).not.toBe(2);
  });

  it('refuses what it cannot compare with one line', async () => {
    const short = await simulate('short', '--steps', '2');
    for (const [args, what] of [
      [[short, '--baseline', main], 'has 2 steps that all ranks reported, at least 3 are needed'],
      [[main, '--baseline', join(directory, 'absent')], 'absent'],
      [[main, '--baseline', slow, '--fail-on', 'three'], 'It must be per cent of the step, such as 3, 3% or 2.5%.'],
      [[main], 'check needs --baseline INPUT to compare with, or --save FILE to make a baseline'],
      [[main, '--baseline', slow, '--json', '--format', 'junit'], '--json is --format json: leave one of them out, got junit'],
      [[main, '--save', join(directory, 'x.json'), '--junit', 'x.xml'], 'are about a comparison: check needs --baseline INPUT'],
    ] as const) {
      const { code, stdout, stderr } = await runLine(['check', ...args]);
      expect(stderr).toContain(what);
      expect([code, stdout]).toEqual([2, '']);
    }
  });

  it('writes no baseline where it refuses, and prints its verdict where a file beside it cannot be written', async () => {
    const saved = join(directory, 'refused.json');
    expect((await runLine(['check', main, '--save', saved, '--format', 'markdown'])).code).toBe(2);
    expect(existsSync(saved)).toBe(false);
    for (const option of ['--save', '--junit', '--markdown']) {
      const { code, stdout, stderr } = await runLine(['check', again, '--baseline', main, option, join(directory, 'none', 'x')]);
      expect([code, stdout]).toEqual([2, expect.stringMatching(/^unchanged: /m)]);
      expect(stderr).toMatch(/^ranktrace: Cannot write ".*none\/x": ENOENT: no such file or directory, open '.*'\n$/);
    }
  });

  it('says that steps have no length', async () => {
    const path = join(directory, 'empty-steps.json');
    const traceEvents = [0, 1, 2, 3].map((step) => {
      return { ph: 'X', cat: 'user_annotation', name: `ProfilerStep#${step}`, pid: 1, tid: 1, ts: 1000 * step, dur: step === 0 ? 5 : 0 };
    });
    writeFileSync(path, JSON.stringify({ schemaVersion: 1, distributedInfo: { rank: 0, world_size: 1 }, traceEvents }));
    const { code, stderr } = await runLine(['check', path, '--baseline', main]);
    expect([code, stderr]).toEqual([
      2,
      expect.stringContaining('it has 4 steps that all ranks reported, 3 of them without a length, at least 3'),
    ]);
  });
});

describe('the few steps that a schedule records', () => {
  it('are compared, with what they can prove: computed, not looked up', async () => {
    const few = await simulate('few', '--steps', '5', '--seed', '11');
    const fewSlower = await simulate('few-slower', '--steps', '5', '--seed', '12', '--straggler', '1:backward:+200');
    const { code, stdout } = await runLine(['check', fewSlower, '--baseline', few]);
    expect(code, stdout).toBe(1);
    const [, percent] =
      /^\d+(?: steps each| and \d+ steps): a difference under (\d+\.\d) % cannot be distinguished from scatter/m.exec(stdout) ?? [];
    const data = JSON.parse((await runLine(['check', fewSlower, '--baseline', few, '--json'])).stdout);
    expect(Number(percent)).toBeCloseTo(100 * data.provable, 1);
    expect(data.provable).toBeGreaterThan(0.001);
    expect(data.change).toBeGreaterThan(data.provable);
    // Steps that scatter more prove less.
    const scattered = await simulate('scattered', '--steps', '5', '--seed', '13', '--straggler', '1:backward:+60@2');
    const wide = JSON.parse((await runLine(['check', scattered, '--baseline', few, '--json'])).stdout);
    expect(wide.provable).toBeGreaterThan(2 * data.provable);
  });

  it('never say that a difference beyond --fail-on is none: probably slower, probably faster, not certain', async () => {
    const even = await simulate('even', '--steps', '4', '--seed', '21');
    const uneven = await simulate('uneven', '--steps', '4', '--seed', '22', '--straggler', '1:backward:+120@2');
    const slower = await runLine(['check', uneven, '--baseline', even]);
    expect(slower.stdout).toMatch(/^probably slower, not certain: \+\d+\.\d % \(95 %: .*\), over 3 %, but steps scatter/m);
    expect([slower.code, JSON.parse((await runLine(['check', uneven, '--baseline', even, '--json'])).stdout).verdict]).toEqual([
      0,
      'probably_slower',
    ]);
    const faster = await runLine(['check', even, '--baseline', uneven]);
    expect(faster.stdout).toMatch(/^probably faster, not certain: −\d+\.\d % /m);
    expect(faster.stdout).not.toContain('unchanged');
    expect(faster.code).toBe(0);
    // The limit that these three steps would need has eleven digits, which --fail-on refuses.
    expect(faster.stdout).toMatch(/cannot be distinguished from scatter, so 3 % more would not fail this check: record more steps$/m);
  });
});

describe('a saved baseline', () => {
  const file = join(directory, 'baseline.json');

  it('needs no store, and gives the same as the run that it was saved from', async () => {
    const saved = await runLine(['check', main, '--save', file]);
    expect([saved.code, saved.stderr]).toEqual([0, '']);
    expect(saved.stdout).toMatch(/^saved: .*baseline\.json \(\d+ bytes\): run main, 1\d\d steps of \d+ ms\n$/);
    expect(statSync(file).size).toBeLessThan(5000);
    for (const checked of [slow, again]) {
      const [ofFile, ofRun] = await Promise.all(
        [file, main].map((baseline) => runLine(['check', checked, '--baseline', baseline, '--json'])),
      );
      expect(JSON.parse(ofFile?.stdout ?? '')).toEqual(JSON.parse(ofRun?.stdout ?? ''));
      expect(ofFile?.code).toBe(ofRun?.code);
    }
    // Beside a comparison, the checked run is saved.
    const next = join(directory, 'next.json');
    const both = await runLine(['check', slow, '--baseline', file, '--save', next, '--json']);
    expect([both.code, JSON.parse(both.stdout).baseline.run]).toEqual([1, 'main']);
    expect(both.stderr).toMatch(/^ranktrace: saved: .*next\.json/);
    expect((await runLine(['check', slow, '--baseline', next])).stdout).toMatch(/^unchanged: \+0\.0 %/m);
  });

  it('is read with the names that a run may have, however long', async () => {
    const name = `void gemm<${'cutlass::layout, '.repeat(400)}>`;
    const job = (ms: number): string => {
      const path = join(directory, `long-name-${ms}.json`);
      const step = (at: number): unknown[] => [
        { name: `ProfilerStep#${at}`, cat: 'user_annotation', ph: 'X', ts: 20_000 * at, dur: 19_000, pid: 1, tid: 1 },
        { name, cat: 'user_annotation', ph: 'X', ts: 20_000 * at + 100, dur: 1000 * ms + at, pid: 1, tid: 1 },
      ];
      writeFileSync(
        path,
        JSON.stringify({ schemaVersion: 1, distributedInfo: { rank: 0, world_size: 1 }, traceEvents: [0, 1, 2, 3].flatMap(step) }),
      );
      return path;
    };
    const saved = join(directory, 'long-name-baseline.json');
    expect((await runLine(['check', job(8), '--save', saved])).code).toBe(0);
    const { code, stdout, stderr } = await runLine(['check', job(12), '--baseline', saved, '--json']);
    expect([code, stderr]).toEqual([0, '']);
    expect(JSON.parse(stdout).phases).toContainEqual({ phase: name, beforeNs: 8_001_500, afterNs: 12_001_500 });
  });

  it('is checked when it is read', async () => {
    const whole = JSON.parse(readFileSync(file, 'utf8'));
    const cases: readonly [what: string, text: string, line: RegExp][] = [
      ['version', JSON.stringify({ ...whole, version: 2 }), /is of version 2, this ranktrace reads version 1/],
      ['level', JSON.stringify({ ...whole, level: { ...whole.level, level: -1 } }), /level\.level: /],
      ['phases', JSON.stringify({ ...whole, blame: { ...whole.blame, frontier: [1] } }), /blame: must have a number for each phase/],
      ['torn', JSON.stringify(whole).slice(0, 200), /Cannot read the baseline ".*": .*JSON/],
    ];
    for (const [what, text, line] of cases) {
      const path = join(directory, `bad-${what}.json`);
      writeFileSync(path, text);
      const { code, stderr } = await runLine(['check', slow, '--baseline', path]);
      expect(stderr, what).toMatch(line);
      expect([code, stderr.trim().split('\n').length]).toEqual([2, 1]);
    }
    const several = await runLine(['check', slow, '--baseline', file, '--baseline', main]);
    expect([several.code, several.stderr]).toEqual([2, expect.stringContaining('is a saved baseline: give it alone, got 2 inputs')]);
    const named = await runLine(['check', slow, '--baseline', file, '--baseline-run', 'main']);
    expect([named.code, named.stderr]).toEqual([2, expect.stringContaining('is a saved baseline of one')]);
  });
});

describe('reports for pipelines', () => {
  it('Markdown: a table that a pull request shows, in a pipe or in a file', async () => {
    const path = join(directory, 'check.md');
    const { code, stdout } = await runLine(['check', slow, '--baseline', main, '--format', 'markdown']);
    expect(code).toBe(1);
    expect(stdout).toMatch(/^### Step time slower: \+\d+\.\d %\n\n/);
    expect(stdout).toMatch(/^\|---\|---\|---:\|---:\|---:\|---:\|---:\|$/m);
    expect(stdout).toMatch(/^\| checked \| slow \| 4 \| 120 \| /m);
    expect(stdout).toMatch(/^- rank 2 works /m);
    const beside = await runLine(['check', slow, '--baseline', main, '--markdown', path]);
    expect(beside.stdout).toMatch(/^slower: /m);
    expect(readFileSync(path, 'utf8')).toBe(stdout);
  });

  it('JUnit: one case, failed or not, that an XML parser reads', async () => {
    const path = join(directory, 'check.xml');
    const failed = await runLine(['check', slow, '--baseline', main, '--junit', path]);
    expect([failed.code, failed.stdout.includes('slower: +')]).toEqual([1, true]);
    const read = await junit(path);
    expect(read).toMatchObject({ tests: '1', failures: '1', name: 'step time of slow against main' });
    expect(read.failure).toMatch(/^slower: \+\d+\.\d % /);
    const passed = await runLine(['check', again, '--baseline', main, '--format', 'junit']);
    expect(passed.code).toBe(0);
    writeFileSync(path, passed.stdout);
    expect(await junit(path)).toMatchObject({ tests: '1', failures: '0', failure: null });
    expect(Number((await junit(path)).time)).toBeCloseTo(
      JSON.parse((await runLine(['check', again, '--baseline', main, '--json'])).stdout).checked.stepNs / 1e9,
      6,
    );
  });
});

/** The content of a JUnit report, by Python's XML parser. */
async function junit(path: string): Promise<Record<string, string | null>> {
  const program = `
import json, sys, xml.etree.ElementTree as tree
suite = tree.parse(sys.argv[1]).getroot().find('testsuite')
case = suite.find('testcase')
failure = case.find('failure')
print(json.dumps({'tests': suite.get('tests'), 'failures': suite.get('failures'), 'name': case.get('name'), 'time': case.get('time'),
  'failure': None if failure is None else failure.get('message')}))`;
  const { stdout } = await promisify(execFile)('python3', ['-c', program, path]);
  return JSON.parse(stdout);
}

describe('ranktrace diff', () => {
  it('names what is slower, on which rank and by how much, and exits with 1', async () => {
    const { code, stdout, stderr } = await runLine(['diff', main, slow]);
    expect([code, stderr]).toEqual([1, '']);
    expect(stdout).toMatch(/^A: main, 4 ranks, 120 steps\nB: slow, 4 ranks, 120 steps\n\nslower: \+\d/);
    expect(stdout).toMatch(/^backward .*slower\n {2}rank 2: \d+ ms → \d+ ms$/m);
    const json = await runLine(['diff', main, slow, '--json', '--on', 'host', '--limit', '3']);
    const data = JSON.parse(json.stdout);
    const ofKind = (...kinds: string[]) => data.names.filter(({ kind }: { kind: string }) => kinds.includes(kind)).length;
    // As many of each kind, as in the tables.
    expect([json.code, data.verdict, ofKind('phase'), ofKind('op', 'call')]).toEqual([1, 'slower', 3, 3]);
    const all = JSON.parse((await runLine(['diff', main, slow, '--json', '--on', 'host'])).stdout);
    expect(data.names.length + data.namesLeftOut).toBe(all.names.length + all.namesLeftOut);
    const planted = data.names.find(({ kind, name }: { kind: string; name: string }) => kind === 'op' && name === 'backward');
    // 20 ms on one of four ranks.
    expect(planted).toMatchObject({ status: 'slower', on: 'host', a: { count: 1 }, ranks: [{ rank: 2 }, {}, {}, {}] });
    expect(Math.abs(planted.more / 1e6 - 5)).toBeLessThan(0.5);
    const rest = await runLine(['diff', main, slow, '--ranks', '0-1,3', '--steps', '20-99', '--json']);
    const others = JSON.parse(rest.stdout);
    expect(others.b).toMatchObject({ ranks: 3, steps: 80 });
    expect(others.names.find(({ kind, name }: { kind: string; name: string }) => kind === 'op' && name === 'backward').status).toBe(
      'noise',
    );
  });

  it('says that the same job again differs by noise alone, and that the verdict is that of check', async () => {
    const { code, stdout } = await runLine(['diff', main, again]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^unchanged: /m);
    expect(stdout).not.toMatch(/ (?:slower|faster|added|gone)$/m);
    const check = await runLine(['check', again, '--baseline', main]);
    const lineOf = (text: string): string | undefined => /^unchanged: .*$/m.exec(text)?.[0];
    expect(lineOf(stdout)).toBe(lineOf(check.stdout));
  });

  it('takes inputs of different kinds, and refuses the rest with one line', async () => {
    const trace = join(directory, 'slow.pftrace');
    expect((await runLine(['merge', slow, '-o', trace])).code).toBe(0);
    expect((await runLine(['diff', main, trace])).stdout).toMatch(/^backward .*slower$/m);
    for (const [args, what] of [
      [[main, join(directory, 'absent')], 'there is no such file or directory'],
      [[main, directory], 'runs: name one with --run-b, of'],
      [[main, trace, '--run-b', 'slow'], '--run-b chooses among the runs of a store'],
      [[main, slow, '--ranks', '9'], 'has none of the ranks of --ranks: it has 0, 1, 2, 3'],
      [[main, slow, '--steps', '500-600'], 'has no step from 500 to 600: it has steps 0 to 119'],
      [[main, slow, '--ranks', 'two'], 'It must be ranks and ranges of ranks, such as 0-3,8.'],
    ] as const) {
      const { code, stdout, stderr } = await runLine(['diff', ...args]);
      expect(stderr).toContain(what);
      expect([code, stdout]).toEqual([2, '']);
    }
  });
});

// `ranktrace report` and `ranktrace doctor RUN` in a person's hands: a job that hangs, and is killed; a simulated cluster with a straggler, and
// with a clock that cannot be aligned; a PyTorch job's files; a Zipkin file.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { afterAll, describe, expect, it, test } from 'vitest';
import { makeAlert, resolved } from '../packages/aggregator/src/testing/make-alert.ts';
import { skewedCalls } from '../packages/trace/src/testing/skewed-calls.ts';
import { writeGpuJob } from './setup/gpu-job-files.ts';
import { startRanks } from './setup/rank-programs.ts';
import { repository, startCommand } from './setup/ranktrace-command.ts';
import { expectPyTorchReport, expectZipkinReport, report } from './setup/reports.ts';
import { runLine } from './setup/warm-command.ts';

const directory = mkdtempSync(join(tmpdir(), 'ranktrace-report-'));
afterAll(() => rmSync(directory, { recursive: true }));

async function simulated(name: string, ...options: readonly string[]): Promise<string> {
  const { code, stderr } = await runLine(['simulate', '--out', directory, '--run', name, ...options]);
  if (code !== 0) throw new Error(stderr);
  return join(directory, name);
}

describe('a job that hangs', () => {
  it('shows who is inside of what since when, and who never entered', async () => {
    const spool = join(directory, 'hang');
    const environment = { RANKTRACE_DIRECTORY: spool, RANKTRACE_RUN: 'hang', RANKTRACE_FLUSH_INTERVAL_MS: '100' };
    const ranks = await startRanks(3, ['test/programs/hang.mjs'], environment);
    await Promise.all(
      ranks.map(
        ({ child }) => new Promise<void>((resolve) => child.stdout?.on('data', (text: string) => text.includes('hanging') && resolve())),
      ),
    );
    // Until the spool tells it: on a busy machine that takes a while.
    const told = async (): Promise<unknown> => {
      const { openWork } = await report(spool).catch(() => ({ openWork: undefined }));
      const loading = openWork?.ranks.find(({ rank }: { rank: number }) => rank === 2);
      return [openWork?.collectives[0]?.inside.length, loading?.open.some(({ name }: { name: string }) => name === 'load data')];
    };
    await expect.poll(told).toEqual([2, true]);
    for (const { child } of ranks) child.kill('SIGKILL');
    await Promise.all(ranks.map(({ ended }) => ended));

    const { openWork } = await report(spool);
    expect(openWork.collectives.length).toBe(1);
    const [collective] = openWork.collectives;
    expect(collective).toMatchObject({ op: 'all_reduce', group: 'world', sequence: 5, missing: [2] });
    expect(collective.inside.map(({ rank }: { rank: number }) => rank).sort()).toEqual([0, 1]);
    const loading = openWork.ranks.find(({ rank }: { rank: number }) => rank === 2);
    expect(loading.open.map(({ name }: { name: string }) => name)).toContain('load data');

    const { stdout } = await runLine(['report', spool]);
    expect(stdout).toMatch(/all_reduce.*never entered.*rank 2/is);
    // A rank that is dead comes before everything else, but where all hung for ten seconds, as on a starved machine: they may have been killed for that.
    const hungFor = openWork.until - collective.inside[0].since;
    expect(stdout.split('\n')[1]).toMatch(hungFor < 10e9 ? /^in short: rank_lost: / : /^in short: (?:rank_lost|hang): /);
  });
});

describe("a PyTorch job's files", () => {
  it('says of collectives without a number of their own which they are, counted from the end', async () => {
    const folder = join(directory, 'from the end');
    writeGpuJob(folder, { seed: 6, ranks: 4 });
    const { stdout } = await runLine(['report', folder]);
    expect(stdout).toMatch(/waited in longest:\n {2}\w+ \S+(?: \[[\d, ]+\])?, (?:the last|\d+(?:st|nd|rd|th) from the end) at /);
    expect(stdout).not.toMatch(/#\d{6,}/);
  });

  it('says how each GPU was used, and why it idled', async () => {
    const folder = join(directory, 'host-bound');
    writeGpuJob(folder, { seed: 8, ranks: 2, faults: [{ kind: 'slow_host', rank: 1, amount: 400_000 }] });
    const { stdout } = await runLine(['report', folder]);
    expect(stdout).toMatch(/^GPUs +time +compute +hidden comm\. +exposed comm\. +copies +idle +idle because$/m);
    expect(stdout).toMatch(/^rank 1 .* host late [\d.]+ %, most in forward, aten::linear/m);
    expect(stdout).toMatch(/^critical path of step \d+ across ranks \(rank 1 [\d.]+ %.*\): host [\d.]+ %/m);
    // `merge` says the same first: GPUs are blamed for what they did, not hosts for launching it.
    const [, inShort] = stdout.split('\n');
    expect(inShort).toMatch(/^in short: (?:straggler|host_bound): /);
    const merged = await runLine(['merge', folder, '-o', join(directory, 'host-bound.json')]);
    expect(merged.stdout.split('\n')[1]).toBe(inShort);
    const { gpu } = await report(folder);
    expect(gpu.htaCompatible).toBe(false);
    expect(gpu.ranks.map(({ rank }: { rank: number }) => rank)).toEqual([0, 1]);
    for (const { totals } of gpu.ranks) {
      const { length, compute, overlapped, exposed, copies, idle } = totals;
      expect(compute + overlapped + exposed + copies + idle).toBe(length);
    }
    // Whatever file it comes from: the analyses read merged events.
    const trace = join(directory, 'host-bound.pftrace');
    await runLine(['merge', folder, '-o', trace]);
    const { gpu: again } = await report(trace);
    for (const [at, { totals, idle, kernels, launches, overlap }] of gpu.ranks.entries()) {
      expect(again.ranks[at]).toMatchObject({ totals, idle, kernels, launches, overlap });
    }
    const compatible = await runLine(['report', folder, '--hta-compatible']);
    expect(compatible.stdout).toContain('(by the conventions of Holistic Trace Analysis: docs/gpu.md)');
  });

  it('has no part about GPUs without work of any, and refuses an option about them', async () => {
    const job = join(repository, 'test/data/kineto/ddp-4rank/balanced');
    expect((await report(job)).gpu).toBeUndefined();
    const { code, stderr } = await runLine(['report', job, '--hta-compatible']);
    expect(code).toBe(2);
    expect(stderr).toContain('--hta-compatible is about the work of GPUs, and this input has none');
  });

  it('is not said to be whole where events were left out of them', async () => {
    const folder = join(directory, 'left out');
    const [first] = writeGpuJob(folder, { seed: 7, ranks: 2 }).paths as [string];
    const file = JSON.parse(gunzipSync(readFileSync(first)).toString()) as { traceEvents: object[] };
    for (let id = 0; id < 12; id++)
      file.traceEvents.push({ ph: id % 2 === 0 ? 'b' : 'e', cat: 'async', name: 'x', id, pid: 4000, tid: 1, ts: 5 });
    writeFileSync(first, gzipSync(JSON.stringify(file)));
    const { stdout, stderr } = await runLine(['report', folder]);
    expect(stderr).toContain('left out 12 events of a kind that torch does not write');
    expect(stdout).toContain('left_out: rank 0: left out of its files: 12 events of a kind that torch does not write');
    expect(stdout).not.toContain('nothing was lost');
    const { findings } = await report(folder);
    expect(findings.filter(({ kind }: { kind: string }) => kind === 'left_out')).toMatchObject([{ ranks: [0] }]);
  });
});

test('a Perfetto trace is not said to be whole either, and dump says the same', async () => {
  const path = join(directory, 'bundle.pftrace');
  // A track event (field 11): an instant named "a" at 5 ns; and a packet of a bundle (field 50) that is no zlib.
  const instant = [0x0a, 9, 0x40, 5, 0x5a, 5, 0x48, 3, 0xba, 0x01, 1].concat(0x61);
  instant[1] = instant.length - 2;
  instant[5] = instant.length - 6;
  writeFileSync(path, Uint8Array.from([...instant, 0x0a, 5, 0x92, 0x03, 2, 1, 2]));
  const line = 'left out of the trace: 1 bundles of compressed packets that are damaged, too large or nested';
  const { stdout, stderr } = await runLine(['report', path]);
  expect(stderr).toContain(line);
  expect(stdout).toContain(`left_out: ${line}`);
  expect(stdout).not.toContain('nothing was lost');
  const dumped = await runLine(['dump', path]);
  expect(dumped.stderr).toContain(line);
});

describe('a simulated cluster', () => {
  it('shows its straggler, its clocks and its calls', async () => {
    const run = await simulated('straggler', '--ranks', '16', '--hosts', '4', '--seconds', '12', '--straggler', '5:backward:+60');
    const { collectives, clocks, remoteCalls, findings } = await report(run);
    expect(findings).toMatchObject([{ kind: 'straggler', ranks: [5], phase: 'backward' }]);
    // The findings that report and merge print before the verdict agree with it.
    const trace = join(directory, 'straggler.pftrace');
    for (const command of [
      ['report', run],
      ['merge', run, '-o', trace],
    ]) {
      const { stdout } = await runLine(command);
      expect(stdout.split('\n')[1]).toMatch(/^in short: straggler: rank 5 in backward: [\d.]+ ms per step/);
      expect(stdout).toMatch(
        /^findings:\n {2}straggler: rank 5 in backward: [\d.]+ ms per step, [\d.]+ % of the mean step\n {2}nothing was lost$/m,
      );
      expect(stdout).not.toContain('findings: none');
    }
    const [allReduce] = collectives.collectives;
    const last = [...allReduce.perRank].sort((a: { lastIn: number }, b: { lastIn: number }) => b.lastIn - a.lastIn)[0];
    expect(last).toMatchObject({ rank: 5 });
    expect(last.lastIn).toBeGreaterThan(0.9 * allReduce.count);
    expect(clocks.ranks.map(({ method }: { method: string }) => method)).toEqual(Array(16).fill('sampled'));
    for (const { boundNs, medianBoundNs } of clocks.ranks) {
      expect(boundNs).toBeLessThan(400_000);
      expect(medianBoundNs).toBeLessThanOrEqual(boundNs);
    }
    expect(remoteCalls.routes.length).toBeGreaterThan(10);
    const { stdout } = await runLine(['report', run]);
    expect(stdout).toMatch(/^rank 5 +node-1 +clock pings +[\d.]+ µs +[\d.]+ µs +-$/m);
    expect(stdout).toMatch(/^all_reduce +world +16 /m);
    expect(stdout).toMatch(/^remote calls +from → to/m);
  });

  it('passes the doctor when all clocks are aligned, and fails with one that cannot be', async () => {
    const good = await simulated('good', '--ranks', '4', '--hosts', '2', '--seconds', '5');
    expect((await runLine(['doctor', good])).code).toBe(0);
    // Two services that never call each other.
    const path = join(directory, 'strangers.json');
    const span = (id: number, serviceName: string): object => {
      const [traceId, timestamp] = [`${id}`.padStart(16, '0'), 1_790_000_000_000_000 + id];
      return { traceId, id: traceId, name: 'work', timestamp, duration: 1000, localEndpoint: { serviceName } };
    };
    writeFileSync(path, JSON.stringify([span(1, 'search'), span(2, 'basket')]));
    const { code, stdout } = await runLine(['doctor', path]);
    expect(code).toBe(1);
    expect(stdout).toMatch(/^rank \d+ .*NOT ALIGNED: by its wall clock +\? +\?/m);
  });

  it('says which host’s clock stepped, and passes: each side is aligned', async () => {
    const run = await simulated('stepped', '--ranks', '4', '--hosts', '2', '--seconds', '40', '--clock-step', '1@20:400');
    const { verdict, findings } = await report(run);
    expect(verdict).toBe('balanced');
    expect(findings.map(({ kind }: { kind: string }) => kind)).toEqual(['clock_step']);
    const { code, stdout } = await runLine(['doctor', run]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^rank 3 +node-1 .* at (19|20)\.\d s$/m);
    // The trace itself records it.
    const text = join(directory, 'stepped.txt');
    await runLine(['merge', run, '-o', text]);
    const trace = readFileSync(text, 'utf8');
    expect(trace).toMatch(/rank 3 .*clock ±\d\.\d{3} ms, stepped at (19|20)\.\d{3} s/);
    // Each side fits the collectives and calls: nothing is shifted behind its cause.
    expect(trace).not.toContain('ms late');
    expect(findings[0].text).toMatch(
      /^the clock of host node-1 stepped at (19|20)\.\d s \(\+0\.(3[5-9]|4[0-4])\d ms\): each side is aligned by itself/,
    );
  });
});

describe('who is to blame', () => {
  interface Breakdown {
    readonly stepNs: number;
    readonly ownNs: Readonly<Record<string, number>>;
    readonly waits: readonly { readonly rank: number; readonly lengthNs: number }[];
    readonly transferNs: number;
    readonly unmatchedNs: number;
    readonly otherNs: number;
  }

  const job = (name: string): string => join(repository, 'test/data/kineto/ddp-4rank', name);

  it.each([
    ['rank1_forward', 1, 'forward', 9],
    ['rank2_data_load', 2, 'data_load', 12],
  ])('%s: the rank, the phase and the cost that were planted', async (name, rank, phase, ms) => {
    const { verdict, findings, blame } = await report(job(name));
    expect(verdict).toBe('straggler');
    expect(findings[0]).toMatchObject({ kind: 'straggler', ranks: [rank], phase });
    expect(Math.abs(findings[0].costMsPerStep / ms - 1)).toBeLessThan(0.25);
    expect(findings[0].shareOfStep).toBeCloseTo((findings[0].costMsPerStep * 1e6) / blame.stepNs, 6);
    expect(blame.whatIf[0].ranks).toEqual([rank]);
    for (const { stepNs, ownNs, waits, transferNs, unmatchedNs, otherNs } of blame.breakdown as readonly Breakdown[]) {
      const parts = [...Object.values(ownNs), ...waits.map(({ lengthNs }) => lengthNs), transferNs, unmatchedNs, otherNs];
      expect(parts.reduce((sum, part) => sum + part, 0)).toBe(stepNs);
    }
    const { stdout } = await runLine(['report', job(name)]);
    expect(stdout).toMatch(new RegExp(`^  straggler: rank ${rank} in ${phase}: [\\d.]+ ms per step, [\\d.]+ % of the mean step$`, 'm'));
    expect(stdout).toMatch(new RegExp(`^  what if rank ${rank} at the median of its peers: step −[\\d.]+ %`, 'm'));
  });

  it('balanced: nobody', async () => {
    const { verdict, findings } = await report(job('balanced'));
    expect(verdict).toBe('balanced');
    expect(findings.map(({ kind }: { kind: string }) => kind)).not.toContain('straggler');
    expect((await runLine(['report', job('balanced')])).stdout).toMatch(/^verdict: balanced: no rank is to blame/m);
  });

  it('a network that is slow, which no rank is to blame for', async () => {
    const run = await simulated('network', '--ranks', '8', '--hosts', '2', '--seconds', '10', '--transfer-scale', '300');
    const { verdict, findings } = await report(run);
    expect(verdict).toBe('network');
    expect(findings).toMatchObject([{ kind: 'network', ranks: [] }]);
  });
});

describe('a run of 900 steps with a fault in its middle', () => {
  it('is not balanced: who was slow, and in which steps', async () => {
    const run = await simulated(
      'middle',
      '--ranks',
      '4',
      '--hosts',
      '1',
      '--steps',
      '900',
      '--step-ms',
      '50',
      '--straggler',
      '2:backward:+8@400-527',
    );
    const { verdict, verdictSteps, findings, blame } = await report(run);
    expect(verdict).toBe('straggler');
    expect(findings).toMatchObject([{ kind: 'straggler', ranks: [2], phase: 'backward', steps: verdictSteps }]);
    expect(Math.abs(verdictSteps.first - 400)).toBeLessThanOrEqual(8);
    expect(Math.abs(verdictSteps.last - 527)).toBeLessThanOrEqual(8);
    const [{ affectedSteps, comparedSteps, costMsPerAffectedStep, costMsPerStep }] = findings;
    expect(costMsPerStep).toBeCloseTo((costMsPerAffectedStep * affectedSteps) / comparedSteps, 6);
    expect(blame.judgedSteps).toMatchObject({ first: 0, last: 899, count: 900 });
    const { stdout } = await runLine(['report', run]);
    expect(stdout).toMatch(
      /^verdict: straggler: .*\(steps \d+ to \d+; balanced at the end, 256 of steps 644 to 899, .*; all 900 steps were judged/m,
    );
    expect(stdout).toMatch(/^ {2}straggler: rank 2 in backward: .*\n {4}in steps \d+ to \d+, \d+\.\d % of the run$/m);

    // The stretch alone, and one without it.
    const within = await report(run, '--steps', '420-500');
    expect(within.onlySteps).toEqual({ first: 420, last: 500 });
    expect(within.steps.map(({ step }: { step: number }) => step)).toEqual(Array.from({ length: 81 }, (_, index) => 420 + index));
    expect(within).toMatchObject({ verdict: 'straggler', verdictSteps: { first: 420, last: 500 } });
    expect(within.collectives.collectives[0].count).toBe(81);
    expect((await report(run, '--steps', '0-300')).verdict).toBe('balanced');
    const text = await runLine(['report', run, '--steps', '420-500']);
    expect(text.stdout).toMatch(/^steps 420 to 500 alone;/);
    expect(text.stdout).toMatch(/^steps: 81, /m);

    for (const [steps, line] of [
      ['500-420', /It must be FROM-TO with the lower step first, such as 300-400, or one step\./],
      ['-5', /It must be FROM-TO with the lower step first/],
      ['all', /It must be FROM-TO with the lower step first/],
      ['2000-2100', /There is no step from 2000 to 2100 in this run: it has steps 0 to 899/],
    ] as const) {
      const { code, stdout, stderr } = await runLine(['report', run, `--steps=${steps}`]);
      expect(stderr).toMatch(line);
      expect([code, stdout]).toEqual([2, '']);
    }
  });

  it('is reported once with the alert about it, and alerts about anything else are findings, too', async () => {
    const run = await simulated(
      'alerted',
      ...['--ranks', '4', '--hosts', '1', '--steps', '600', '--step-ms', '50', '--seed', '7'].concat(
        '--straggler',
        '2:forward:+20@300-599',
      ),
    );
    const reported = { run: 'alerted', link: null, before: 50e6, after: 70e6, change: 0.4 };
    const cause = {
      kind: 'straggler',
      ranks: [2],
      hosts: ['node-0'],
      phase: 'forward',
      share: 1,
      text: 'rank 2 works 20 ms more per step',
    };
    const same = makeAlert({
      ...reported,
      id: 'same',
      step: 331,
      onsetStep: 300,
      ranks: [2],
      cause,
      summary: 'steps are slower since step 300',
    });
    const earlier = makeAlert({
      ...reported,
      id: 'earlier',
      step: 131,
      onsetStep: 100,
      ranks: [1],
      summary: 'steps are slower\u001b[2J since step 100',
    });
    const growing = makeAlert({
      ...reported,
      id: 'growing',
      rule: 'memory_growth',
      ranks: [3],
      cause: null,
      onsetStep: null,
      step: null,
      summary: 'it grows',
    });
    const lines = [earlier, same, growing, resolved(earlier)].map((alert) => JSON.stringify(alert));
    writeFileSync(join(run, 'alerts.jsonl'), `${lines.join('\n')}\n{"torn`);

    const { findings, verdict } = await report(run);
    expect(verdict).toBe('straggler');
    const known = findings.map(({ kind, ranks, alerts }: { kind: string; ranks: number[]; alerts?: string[] }) => [kind, ranks, alerts]);
    expect(known).toEqual([
      ['straggler', [2], ['same']],
      ['step_time', [1], ['earlier']],
      ['memory_growth', [3], ['growing']],
    ]);
    const { stdout, stderr } = await runLine(['report', directory, '--run', 'alerted']);
    expect(stderr).toContain('1 lines of its alerts cannot be read and are left out');
    expect(stdout).toMatch(
      /^ {2}straggler: rank 2 in forward: .*\n( {4}.*\n)* {4}alerted at step 331: steps are slower since step 300 \(open when the run was stored\)$/m,
    );
    expect(stdout).toMatch(
      /^ {2}alert step_time at step 131: steps are slower\\u001b\[2J since step 100 \(over: steps are as fast as before\) \(rank 3 on node-b, phase forward\)$/m,
    );
    expect(stdout).toMatch(/^ {2}alert memory_growth: it grows \(open when the run was stored\)$/m);
    expect(stdout.match(/steps are slower since step 300/g)).toHaveLength(1);
    // For a stretch, the incidents that began in it.
    const { findings: within } = await report(run, '--steps', '0-200');
    expect(within.map(({ kind }: { kind: string }) => kind)).toEqual(['step_time']);
  });
});

test('some steps of a run that was started again: how it went on and ended is told of the whole run', async () => {
  const environment = { RANKTRACE_DIRECTORY: join(directory, 'lives'), RANKTRACE_RUN: 'lives' };
  for (const [first, steps] of [
    [0, 20],
    [20, 10],
  ]) {
    const ranks = await startRanks(2, ['test/programs/steps.mjs', `${steps}`, '5'], { ...environment, RANKTRACE_FIRST_STEP: `${first}` });
    for (const { ended } of ranks) expect(await ended).toMatchObject({ code: 0 });
  }
  const run = join(directory, 'lives', 'lives');
  const toldOf = async (...steps: readonly string[]): Promise<string[]> => {
    const { findings } = await report(run, ...steps);
    return findings.filter(({ kind }: { kind: string }) => kind === 'restarted').map(({ text }: { text: string }) => text);
  };
  // Lives so short need not have met: then each rank's restart is a finding of its own.
  const whole = await toldOf();
  expect(whole.length).toBeGreaterThan(0);
  for (const text of whole) expect(text).toMatch(/ began again: step 20 begins .* after the end of step 19$/);
  for (const steps of ['0-9', '20-29', '15-25']) expect(await toldOf('--steps', steps)).toEqual(whole);

  // A rank's own table is of one of its lives, and says so.
  const stepsOf = async (...rank: readonly string[]): Promise<{ calls: number; notices: string }> => {
    const { stdout, stderr } = await runLine(['table', run, '--json', ...rank]);
    const row = JSON.parse(stdout).find(({ key }: { key: string }) => key.startsWith('ProfilerStep'));
    return { calls: row.count, notices: stderr };
  };
  const notices = expect.stringContaining("torch's table is of one process, here of the last of the 2 lives of rank 1;");
  expect(await stepsOf('--rank', '1')).toEqual({ calls: 10, notices });
  expect(await stepsOf()).toEqual({ calls: 60, notices: '' });
});

describe('files of others', () => {
  it('a PyTorch job: the collectives of 8 ranks, their clocks as recorded (seed 5)', async () => {
    const folder = join(directory, 'gpu-job');
    const { collectives } = writeGpuJob(folder, { seed: 5 });
    // Collectives that every rank of their group has in its file; group 1 is each half of the ranks.
    const partsOf = new Map<string, (typeof collectives)[number][]>();
    for (const part of collectives) {
      const name = `${part.group === '1' ? Math.floor(part.rank / 4) : 'all'} ${part.fromEnd}`;
      partsOf.set(name, [...(partsOf.get(name) ?? []), part]);
    }
    const whole = [...partsOf].filter(([name, parts]) => parts.length === (name.startsWith('all') ? 8 : 4)).map(([, parts]) => parts);
    const spreads = whole.map((parts) => {
      const after = parts.map(({ end }) => Number(end - (parts[0] as (typeof parts)[number]).end));
      return Math.max(...after) - Math.min(...after);
    });
    await expectPyTorchReport(folder, { count: whole.length, exitSpreadNs: Math.max(...spreads) });
  });

  it('a Zipkin file: its calls, none before its cause (seed 5)', async () => {
    const path = join(directory, 'calls.json');
    const { bytes, pairs } = skewedCalls(5);
    writeFileSync(path, bytes);
    expect(await expectZipkinReport(path)).toBe(pairs);
  });

  it('says in one line what it cannot read', async () => {
    const files = ['one.json', 'other.json'].map((name) => join(directory, name));
    for (const [seed, path] of files.entries()) writeFileSync(path, skewedCalls(seed).bytes);
    const several = await runLine(['report', ...files]);
    expect([several.code, several.stderr.trim().split('\n').length]).toEqual([2, 1]);
    // A copy that broke off, and a bomb: 200 MB of blanks in 200 KB.
    const zipped = gzipSync(skewedCalls(5).bytes);
    const bomb = gzipSync(Buffer.concat([Buffer.from('[{"traceId":"1","id":"2"},'), Buffer.alloc(200_000_000, ' '), Buffer.from('{}]')]));
    for (const [name, bytes] of [
      ['torn.json.gz', zipped.subarray(0, zipped.length / 2)],
      ['bomb.json.gz', bomb],
    ] as const) {
      writeFileSync(join(directory, name), bytes);
      const { code, stderr } = await runLine(['report', join(directory, name)]);
      expect([code, stderr.trim().split('\n').length], stderr).toEqual([2, 1]);
      expect(stderr).toContain(`${name}": its gzip stream is broken, ends too early or unfolds to over 134217728 bytes`);
    }
    const nothing = await runLine(['report', join(directory, 'nothing')]);
    expect(nothing.code).toBe(2);
    expect(nothing.stderr.trim().split('\n').length).toBe(1);
  });
});

test('a run that goes on: its ranks are not said to have stopped', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'ranktrace-report-live-'));
  try {
    const program = [process.execPath, 'test/programs/steps.mjs', '1000000', '5'];
    const command = startCommand(['run', '--ranks', '2', '--name', 'night', '--out', directory, ...program]);
    const run = join(directory, 'night');
    await expect.poll(async () => (await runLine(['report', run])).stdout, { timeout: 120_000 }).toMatch(/2 of 2 ranks[\s\S]*steps: \d+/);
    const live = (await runLine(['report', run])).stdout;
    expect(live).toMatch(/^run night: 2 of 2 ranks on 1 host, [\d ]+ events so far: ranks still run\n/);
    expect(live).not.toMatch(/rank_lost|saying goodbye/);
    expect(JSON.parse((await runLine(['report', '--json', run])).stdout)).toMatchObject({ isLive: true });
    command.child.kill('SIGTERM');
    await command.ended;
    expect((await runLine(['report', run])).stdout).not.toContain('still run');
  } finally {
    rmSync(directory, { recursive: true });
  }
});

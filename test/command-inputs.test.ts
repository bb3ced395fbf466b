// Inputs of commands: the same kinds everywhere, options without effect refused, mixed jobs, stray files in a folder.

import { execFileSync } from 'node:child_process';
import { copyFileSync, cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { gpuJob } from '../packages/trace/src/testing/gpu-job.ts';
import { timelineOf } from '../packages/trace/src/testing/ndtimeline-timeline.ts';
import { pipelineJob } from '../packages/trace/src/testing/pipeline-job.ts';
import { commandPath, repository, startCommand } from './setup/ranktrace-command.ts';
import { interrupt, runTyped, startTyped } from './setup/typed-commands.ts';
import { runLine } from './setup/warm-command.ts';

const directory = mkdtempSync(join(tmpdir(), 'ranktrace-inputs-'));
const at = (...names: string[]): string => join(directory, ...names);
afterAll(() => rmSync(directory, { recursive: true }));

const base = 1_700_000_000_000_000_000n;

interface RankFile {
  readonly rank: number;
  readonly worldSize?: number;
  readonly steps?: number;
  readonly afterMinutes?: number;
  readonly groups?: readonly object[];
  readonly stepMs?: number;
}

/** A file as torch.profiler would write it on a training rank. */
function torchFile({ rank, worldSize = 2, steps = 5, afterMinutes = 0, groups, stepMs = 100 }: RankFile): Buffer {
  const traceEvents = Array.from({ length: steps }, (_, step) => {
    const ts = (step * stepMs + rank) * 1000;
    const about = { ph: 'X', cat: 'user_annotation', pid: 100 + rank, tid: 100 + rank };
    return [
      { ...about, name: `ProfilerStep#${step}`, ts, dur: stepMs * 1000 - 10 + (step % 3) * 100 },
      { ...about, name: 'forward', ts: ts + 10, dur: stepMs * 400 },
      { ...about, cat: 'cpu_op', name: 'aten::mm', ts: ts + 20, dur: stepMs * 100 },
    ];
  }).flat();
  const distributedInfo = { backend: 'gloo', rank, world_size: worldSize, ...(groups === undefined ? {} : { pg_config: groups }) };
  const baseTimeNanoseconds = 'BASE';
  const text = JSON.stringify({ schemaVersion: 1, distributedInfo, baseTimeNanoseconds, traceEvents });
  return gzipSync(text.replace('"BASE"', `${base + BigInt(afterMinutes) * 60_000_000_000n}`));
}

function folder(name: string, files: Readonly<Record<string, RankFile>>): string {
  mkdirSync(at(name));
  for (const [file, about] of Object.entries(files)) writeFileSync(at(name, file), torchFile(about));
  return at(name);
}

let store: string;
let torch: string;
let pftrace: string;
let timeline: string;

beforeAll(async () => {
  const { code, stderr } = await runLine([
    'simulate',
    '--out',
    at('runs'),
    '--run',
    'one',
    '--ranks',
    '2',
    '--hosts',
    '1',
    '--steps',
    '40',
  ]);
  if (code !== 0) throw new Error(stderr);
  store = at('runs', 'one');
  torch = folder('torch', { 'rank0.json.gz': { rank: 0 }, 'rank1.json.gz': { rank: 1 } });
  mkdirSync(at('timelines'));
  timeline = at('timelines', 'timeline-job.json.gz');
  writeFileSync(timeline, gzipSync(timelineOf(pipelineJob({ seed: 11, stages: 2, replicas: 2 }).csv)));
  pftrace = at('one.pftrace');
  for (const path of [pftrace, `${pftrace}.gz`]) {
    const merged = await runLine(['merge', store, '-o', path]);
    if (merged.code !== 0) throw new Error(merged.stderr);
  }
});

describe('every command takes every kind', () => {
  const spool = async (): Promise<string> => join(store, 'segments');
  const inputs: readonly [what: string, path: () => string | Promise<string>][] = [
    ['a run directory', () => store],
    ['a directory of runs', () => at('runs')],
    ['segments', spool],
    ['one segment', () => join(store, 'segments', readdirSync(join(store, 'segments'))[0] as string)],
    ['a directory of torch.profiler files', () => torch],
    ['one torch.profiler file', () => join(torch, 'rank0.json.gz')],
    ['a .pftrace', () => pftrace],
    ['a zipped .pftrace', () => `${pftrace}.gz`],
    ['a timeline of NDTimeline', () => timeline],
    ['a directory with one', () => at('timelines')],
  ];
  const commands: readonly [name: string, args: (input: string) => string[], stdout: RegExp][] = [
    ['report', (input) => ['report', input], /^run [\w-]+: \d of \d ranks.*\n(?:in short: .*\n)?\nsteps: \d+, [\s\S]*^verdict: /m],
    ['table', (input) => ['table', input], /forward/],
    ['merge', (input) => ['merge', input, '-o', at('out.json')], /^trace: .*out\.json/m],
    ['check', (input) => ['check', input, '--baseline', input], /^unchanged: \+0\.0 %/m],
    ['dump', (input) => ['dump', input], /forward/],
    ['diff', (input) => ['diff', input, input], /^unchanged: \+0\.0 %[\s\S]*^phases: no difference beyond the noise/m],
    ['export', (input) => ['export', input, '--to', 'csv', '-o', '-'], /^kind,rank,[\s\S]*forward/m],
    ['doctor', (input) => ['doctor', input], /^clocks /m],
  ];
  it.each(inputs)('%s', async (_what, path) => {
    const input = await path();
    for (const [name, args, stdout] of commands) {
      const result = await runLine(args(input));
      expect(result.stdout, `${name}: ${result.stderr}`).toMatch(stdout);
      expect([0, name === 'doctor' ? 1 : 0], name).toContain(result.code);
    }
  });

  it.each(inputs)('view: %s', async (_what, path) => {
    const view = startCommand(['view', await path(), '--no-open']);
    await view.said('indexed in');
    view.child.kill('SIGINT');
    expect((await view.ended).code).toBe(0);
  });

  it('a run whose segments are gone, but not its trace', async () => {
    const pruned = at('pruned');
    mkdirSync(pruned);
    copyFileSync(join(store, 'run.json'), join(pruned, 'run.json'));
    copyFileSync(pftrace, join(pruned, 'trace.pftrace'));
    const { stdout, stderr } = await runLine(['report', pruned]);
    expect(stdout, stderr).toMatch(/^run one: 2 of 2 ranks/m);
  });

  it('says the same of a run and of its .pftrace', async () => {
    const [ofStore, ofTrace] = await Promise.all(
      [store, pftrace].map(async (input) => JSON.parse((await runLine(['report', input, '--json'])).stdout)),
    );
    for (const key of ['run', 'worldSize', 'steps', 'medianNs', 'p95Ns', 'verdict']) expect(ofTrace[key], key).toEqual(ofStore[key]);
    expect(ofTrace.collectives.collectives.map(({ count }: { count: number }) => count)).toEqual(
      ofStore.collectives.collectives.map(({ count }: { count: number }) => count),
    );
  });

  it('a timeline of NDTimeline is all workers of a job, each a rank', async () => {
    const { stdout, stderr } = await runLine(['report', timeline]);
    expect(stdout).toMatch(/^run ndtimeline: 4 of 4 ranks/);
    expect(stderr).toContain('is a timeline of NDTimeline: ranks are its 4 workers, by stage and DP rank');
    const rows = JSON.parse((await runLine(['table', timeline, '--rank', '3', '--json'])).stdout) as { key: string; count: number }[];
    // 8 steps of 12 microbatches.
    expect(rows.find(({ key }) => key === 'forward-compute')?.count).toBe(96);
  });

  it("table of a directory of torch files is of all ranks, with --rank torch's own of one", async () => {
    const all = JSON.parse((await runLine(['table', torch, '--json'])).stdout);
    expect(all.find(({ key }: { key: string }) => key === 'aten::mm')).toMatchObject({ count: 10 });
    const one = JSON.parse((await runLine(['table', torch, '--rank', '1', '--json'])).stdout);
    expect(one.find(({ key }: { key: string }) => key === 'aten::mm')).toMatchObject({ count: 5 });
  });
});

describe('a directory of Chrome traces that others wrote, zipped and not', () => {
  /** VizTracer's: functions, an instant, a counter. */
  const vizTracer = (pid: number): string => {
    const steps = Array.from({ length: 5 }, (_, step) => [
      { ph: 'X', cat: 'FEE', name: 'train_step (train.py:10)', pid, tid: pid, ts: 1e6 + step * 1000.5, dur: 900.25 },
      { ph: 'X', cat: 'FEE', name: 'forward (model.py:3)', pid, tid: pid, ts: 1e6 + step * 1000.5 + 10, dur: 400, caller_lineno: 12 },
      { ph: 'i', cat: 'INSTANT', name: 'mark', pid, tid: pid, ts: 1e6 + step * 1000.5 + 420, s: 't' },
      { ph: 'C', name: 'memory', pid, ts: 1e6 + step * 1000.5 + 421, args: { rss: step } },
    ]).flat();
    const name = { ph: 'M', pid, tid: pid, name: 'process_name', args: { name: 'MainProcess' } };
    return JSON.stringify({ traceEvents: [name, ...steps], viztracer_metadata: { version: '0.16.3', overflow: false } });
  };
  /** Horovod's: begins and ends, in a list that is not closed. */
  const horovod = (first: number): string => {
    const lines = Array.from({ length: 5 }, (_, step) => [
      { ph: 'B', name: 'ALLREDUCE', ts: first + 1000 * step, pid: 1 },
      { ph: 'B', name: 'NCCL_ALLREDUCE', ts: first + 1000 * step + 1, pid: 1 },
      { ph: 'E', ts: first + 1000 * step + 40, pid: 1 },
      { ph: 'E', ts: first + 1000 * step + 41, pid: 1, args: { dtype: 'float32' } },
    ]).flat();
    return `[\n${lines.map((line) => `${JSON.stringify(line)},\n`).join('')}`;
  };
  const of: Readonly<Record<string, Readonly<Record<string, () => string>>>> = {
    VizTracer: { 'result0.json': () => vizTracer(7), 'result1.json.gz': () => vizTracer(8) },
    Horovod: { 'timeline0.json': () => horovod(0), 'timeline1.json.gz': () => horovod(3) },
    both: { 'result0.json': () => vizTracer(7), 'timeline1.json.gz': () => horovod(3) },
  };
  const calls: Readonly<Record<string, Readonly<Record<string, number>>>> = {
    VizTracer: { 'train_step (train.py:10)': 10, 'forward (model.py:3)': 10 },
    Horovod: { ALLREDUCE: 10, NCCL_ALLREDUCE: 10 },
    both: { 'forward (model.py:3)': 5, NCCL_ALLREDUCE: 5 },
  };

  it.each(Object.keys(of))('%s', async (name) => {
    const input = at(`chrome-${name}`);
    mkdirSync(input);
    for (const [file, text] of Object.entries(of[name] ?? {}))
      writeFileSync(join(input, file), file.endsWith('.gz') ? gzipSync(text()) : text());
    const rows = JSON.parse((await runLine(['table', input, '--json'])).stdout) as { key: string; count: number }[];
    for (const [key, count] of Object.entries(calls[name] ?? {})) expect(rows.find((row) => row.key === key)?.count, key).toBe(count);
    for (const command of [['report'], ['merge', '-o', at('chrome.pftrace')], ['export', '--to', 'csv', '-o', at('chrome-csv')]]) {
      const { code, stdout, stderr } = await runLine([...command, input]);
      expect(code, stderr).toBe(0);
      expect(`${stdout}${stderr}`).toMatch(name === 'both' ? /\b30 events/ : name === 'Horovod' ? /\b20 events/ : /\b40 events/);
    }
    // None of them has steps.
    const { code, stderr } = await runLine(['check', input, '--save', at('chrome-saved.json')]);
    expect([code, stderr.trim().split('\n').at(-1)]).toEqual([2, expect.stringMatching(/it has 0 steps that all ranks reported/)]);
    const view = startCommand(['view', input, '--no-open']);
    await view.said('indexed in');
    view.child.kill('SIGINT');
    expect((await view.ended).code).toBe(0);
  });

  it('beside a timeline of NDTimeline is left out, and named', async () => {
    mkdirSync(at('beside'));
    copyFileSync(timeline, at('beside', 'timeline.json.gz'));
    writeFileSync(at('beside', 'horovod.json'), horovod(0));
    const { code, stdout, stderr } = await runLine(['report', at('beside')]);
    expect(stderr).toMatch(/left out ".*horovod\.json": it is not a timeline of NDTimeline, as others beside it are\n/);
    expect([code, stdout.split(':')[0]]).toEqual([0, 'run ndtimeline']);
  });
});

it('names dumps of Flight Recorder beside files of torch.profiler, which it leaves out, and of many the first ones', async () => {
  mkdirSync(at('trace-and-dumps'));
  writeFileSync(at('trace-and-dumps', 'rank0.json'), torchFile({ rank: 0, worldSize: 1 }));
  const dump = join(repository, 'test/data/flight-recorder/nccl_trace_rank_0');
  for (let rank = 0; rank < 20; rank++) copyFileSync(dump, at('trace-and-dumps', `nccl_trace_rank_${rank}`));
  writeFileSync(at('trace-and-dumps', 'notes_1'), 'no trace');
  const { code, stdout, stderr } = await runLine(['report', at('trace-and-dumps')]);
  expect([code, stdout.split('\n')[0]]).toEqual([0, expect.stringContaining('1 of 1 ranks')]);
  const named = stderr.split('\n').filter((line) => line.includes('left out'));
  expect(named).toHaveLength(17);
  expect(named[0]).toMatch(/left out ".*nccl_trace_rank_0": it is not a torch\.profiler file, as others beside it are$/);
  expect(named[16]).toMatch(/left out 4 more of ".*trace-and-dumps" for that reason$/);
});

describe('an option that has no effect on an input is refused with one line', () => {
  const file = (): string => join(torch, 'rank0.json.gz');
  const cases: readonly [what: string, args: () => string[], line: RegExp][] = [
    [
      'report --run, torch',
      () => ['report', torch, '--run', 'x'],
      /--run chooses among the runs of a store: ".*torch" is a torch\.profiler file/,
    ],
    ['merge --run, torch', () => ['merge', file(), '--run', 'x', '-o', at('x.json')], /--run chooses among the runs of a store/],
    ['view --run, torch', () => ['view', file(), '--run', 'x', '--no-open'], /--run chooses among the runs of a store/],
    ['report --run, NDTimeline', () => ['report', timeline, '--run', 'x'], /".*timeline-job\.json\.gz" is a timeline of NDTimeline/],
    ['report --allow-mixed, NDTimeline', () => ['report', timeline, '--allow-mixed'], /--allow-mixed is about torch\.profiler files/],
    ['report --run, .pftrace', () => ['report', pftrace, '--run', 'one'], /".*one\.pftrace" is a \.pftrace file/],
    ['table --run, torch', () => ['table', file(), '--run', 'x'], /--run chooses among the runs of a store/],
    [
      'table --rank, torch',
      () => ['table', file(), '--rank', '0'],
      /--rank chooses among the ranks of a run: ".*rank0\.json\.gz" is a torch\.profiler file of one/,
    ],
    ['table --group-by-shape, store', () => ['table', store, '--group-by-shape'], /are of one rank: name it with --rank/],
    ['table --group-by-stack, .pftrace', () => ['table', pftrace, '--group-by-stack', '2'], /are of one rank: name it with --rank/],
    [
      'report --allow-mixed, store',
      () => ['report', store, '--allow-mixed'],
      /--allow-mixed is about torch\.profiler files: ".*one" is what ranktrace recorded/,
    ],
    ['dump --batches, torch', () => ['dump', torch, '--batches'], /--batches lists what is stored: ".*torch" is a torch\.profiler file/],
    [
      'check --baseline-run, torch',
      () => ['check', store, '--baseline', torch, '--baseline-run', 'x'],
      /--baseline-run chooses among the runs of a store/,
    ],
    [
      'doctor --out with a run',
      () => ['doctor', store, '--out', at('x')],
      /--out is about this machine: with a recorded run its clocks alone are checked/,
    ],
    ['doctor --run without', () => ['doctor', '--run', 'x'], /--run is about a recorded run: name one/],
    [
      'two kinds',
      () => ['report', torch, store],
      /Inputs must be of one kind: ".*torch" is a torch\.profiler file, ".*one" is what ranktrace recorded/,
    ],
    [
      'a timeline and a torch.profiler file',
      () => ['report', timeline, file()],
      /"[^"]*timeline-job\.json\.gz" is a timeline of NDTimeline, "[^"]*" is a torch\.profiler file/,
    ],
    [
      'a timeline in which a thread is no worker’s',
      () => {
        const odd = JSON.parse(gunzipSync(readFileSync(timeline)).toString()) as object[];
        odd.push({ ph: 'M', name: 'thread_name', pid: 0, tid: 999, args: { name: 'MainThread' } });
        writeFileSync(at('odd.json'), JSON.stringify(odd));
        return ['report', at('odd.json')];
      },
      /Cannot read "[^"]*odd\.json" as a timeline of NDTimeline: its processes must be named "DP rank \[N\]"/,
    ],
    ['two traces', () => ['report', pftrace, `${pftrace}.gz`], /which is a whole run: give one of them alone, got 2/],
  ];
  it.each(cases)('%s', async (_what, args, line) => {
    const { code, stdout, stderr } = await runLine(args());
    expect(stderr).toMatch(line);
    expect([code, stdout, stderr.trim().split('\n').length]).toEqual([2, '', 1]);
  });
});

describe('jobs that were mixed by mistake', () => {
  const group = (ranks: readonly number[]): object => ({ pg_name: '0', pg_desc: 'default_pg', pg_size: ranks.length, ranks });
  const mixed: Record<string, [files: Readonly<Record<string, RankFile>>, line: RegExp, ranks: readonly number[]]> = {
    size: [
      { 'a0.json.gz': { rank: 0 }, 'b1.json.gz': { rank: 1, worldSize: 4 } },
      /"[^"]*a0\.json\.gz" is of a job of 2 ranks, "[^"]*b1\.json\.gz" of one of 4/,
      [0, 1],
    ],
    rank: [
      { 'a0.json.gz': { rank: 0 }, 'b0.json.gz': { rank: 0 } },
      /"[^"]*a0\.json\.gz" and "[^"]*b0\.json\.gz" both hold rank 0 at the same time/,
      [0, 1],
    ],
    time: [
      { 'a0.json.gz': { rank: 0 }, 'b1.json.gz': { rank: 1, afterMinutes: 90 } },
      /"[^"]*a0\.json\.gz" ends \d+ minutes before "[^"]*b1\.json\.gz" begins/,
      [0, 1],
    ],
    groups: [
      { 'a0.json.gz': { rank: 0, groups: [group([0, 1])] }, 'b1.json.gz': { rank: 1, groups: [group([1, 2])] } },
      /process group "0" is of ranks 0, 1 in "[^"]*a0\.json\.gz", of ranks 1, 2 in "[^"]*b1\.json\.gz"/,
      [0, 1],
    ],
  };
  it.each(Object.entries(mixed))('by their %s: an error, unless it is asked for', async (what, [files, line, ranks]) => {
    const input = folder(`mixed-${what}`, files);
    for (const command of [['report'], ['merge', '-o', at('mixed.json')], ['table'], ['check', '--save', at('mixed-save.json')]]) {
      const { code, stderr } = await runLine([...command, input]);
      expect(stderr, command[0]).toMatch(line);
      expect(stderr).toContain('--allow-mixed takes them all the same');
      expect([code, stderr.trim().split('\n').length]).toEqual([2, 1]);
    }
    const { code, stdout, stderr } = await runLine(['report', input, '--allow-mixed', '--json']);
    expect(code, stderr).toBe(0);
    expect(JSON.parse(stdout).ranks.map(({ rank }: { rank: number }) => rank)).toEqual(ranks);
  });

  it('groups of one name that share no rank, and windows of one rank hours apart, are one job', async () => {
    const pair = (ranks: readonly number[]): object[] => [group([0, 1, 2, 3]), { ...group(ranks), pg_name: '1' }];
    const input = folder('one-job', {
      'r0.json.gz': { rank: 0, worldSize: 4, groups: pair([0, 1]) },
      'r1.json.gz': { rank: 1, worldSize: 4, groups: pair([0, 1]) },
      'r2.json.gz': { rank: 2, worldSize: 4, groups: pair([2, 3]) },
      'r3.json.gz': { rank: 3, worldSize: 4, groups: pair([2, 3]) },
      'r0-later.json.gz': { rank: 0, worldSize: 4, groups: pair([0, 1]), afterMinutes: 180 },
    });
    const { code, stderr } = await runLine(['report', input]);
    expect(code, stderr).toBe(0);
  });
});

describe('two attempts of a job in one folder', () => {
  const slowIn = (attempt: number, slow: number) => {
    const faults = [0, 1].map((rank) => ({ kind: 'slow_kernels', rank, amount: rank === slow ? 12 : 8 }) as const);
    return gpuJob({ seed: 5, ranks: 2, steps: 6, spread: 0.02, faults, laterNs: BigInt(attempt) * 3_600_000_000_000n });
  };

  // In containers each attempt's processes have the same ids, and drivers count launches from the start.
  it.each(['the same process ids', 'other process ids'])('are told apart, each with its own straggler (%s)', async (which) => {
    const input = at(`attempts-${which}`);
    mkdirSync(input);
    for (const attempt of [0, 1]) {
      for (const [rank, { text }] of slowIn(attempt, attempt).files.entries()) {
        const other = attempt === 1 && which.startsWith('other');
        const shown = other ? text.replaceAll(/"pid": ?(\d+)/g, (_, pid) => `"pid": ${Number(pid) + 50_000}`) : text;
        writeFileSync(join(input, `host-${rank}.${attempt}.pt.trace.json.gz`), gzipSync(shown));
      }
    }
    const { code, stdout, stderr } = await runLine(['report', input]);
    expect(code, stderr).toBe(0);
    expect(stderr).toContain('the files are of 2 attempts of the job; for the last one alone, give its files, such as ');
    for (const rank of [0, 1])
      expect(stdout).toMatch(new RegExp(`straggler: rank ${rank} in GPU compute: .* in each of \\d affected steps`));
    expect(stdout).toContain('clocks: as recorded');
    expect(stdout).toContain('rank 1, life 2');
    expect(stdout).toMatch(
      /restarted: all 2 ranks began again: step 2 begins 3600 s after the end of step 7; steps 2 to 7 are there twice/,
    );
  });
});

describe("a trace that ranktrace merged in Chrome's form", () => {
  it.each(['.json', '.json.gz'])('of several ranks is refused, and left out beside files of torch.profiler (%s)', async (ending) => {
    const merged = at(`merged${ending}`);
    expect((await runLine(['merge', store, '-o', merged])).code).toBe(0);
    const wanted =
      "it is of several ranks, in Chrome's form for other programs; give the run that it was made of, or merge that into a .pftrace";
    for (const command of [['report'], ['table'], ['view', '--no-open'], ['diff', store]]) {
      const { code, stdout, stderr } = await runLine([...command, merged]);
      expect([code, stdout, stderr]).toEqual([2, '', `ranktrace: Cannot read "${merged}": ${wanted}\n`]);
    }
    const beside = folder(`beside${ending}`, { 'rank0.json.gz': { rank: 0 }, 'rank1.json.gz': { rank: 1 } });
    copyFileSync(merged, join(beside, `all${ending}`));
    const { code, stdout, stderr } = await runLine(['report', beside, '--json']);
    expect([code, JSON.parse(stdout).ranks.length]).toEqual([0, 2]);
    expect(stderr).toContain(`left out "${join(beside, `all${ending}`)}": it is not a torch.profiler file, as others beside it are`);
  });

  it('of one rank is read', async () => {
    const merged = at('of-one.json');
    expect((await runLine(['merge', join(torch, 'rank0.json.gz'), '-o', merged])).code).toBe(0);
    expect((await runLine(['report', merged])).code).toBe(0);
  });
});

describe('what is no trace in a folder of traces', () => {
  it('is named on stderr, with the reason, and left out', async () => {
    const input = at('strays');
    cpSync(torch, input, { recursive: true });
    const whole = torchFile({ rank: 1 });
    writeFileSync(join(input, 'package.json'), '{"name": "job", "private": true}');
    writeFileSync(join(input, 'list.json'), '[]');
    writeFileSync(join(input, 'marks.json'), '[{"ph": "X", "name": "a", "pid": "Spans", "ts": 1, "dur": 1}]');
    writeFileSync(join(input, 'negative.json'), '[{"ph": "X", "name": "a", "pid": 1, "ts": 1, "dur": -1}]');
    writeFileSync(join(input, 'torn.json.gz'), whole.subarray(0, whole.length / 2));
    writeFileSync(join(input, 'cut.json'), '{"schemaVersion": 1, "traceEvents": [{"ph": "X", "na');
    writeFileSync(join(input, 'broken.json'), '{"traceEvents": [{"ph":"X",}]}');
    writeFileSync(join(input, 'notes.txt'), 'not looked at');
    mkdirSync(join(input, 'older.json'));
    symlinkSync(join(input, 'nowhere'), join(input, 'gone.json'));
    symlinkSync(join(input, 'circle.json'), join(input, 'circle.json'));
    execFileSync('mkfifo', [join(input, 'pipe.json')]);
    for (const command of [
      ['report', '--json'],
      ['merge', '-o', at('strays.json'), '--json'],
    ]) {
      const { code, stdout, stderr } = await runLine([...command, input]);
      expect(code, stderr).toBe(0);
      expect(JSON.parse(stdout).ranks).toHaveLength(2);
      const reported = (name: string): string => stderr.split('\n').find((line) => line.includes(name)) ?? '';
      expect(reported('package.json')).toMatch(/^ranktrace: left out ".*package\.json": it must have `traceEvents`, got none$/);
      expect(reported('list.json')).toMatch(/^ranktrace: left out ".*list\.json": it is no trace, for it has no events$/);
      expect(reported('marks.json')).toMatch(/: it is no trace, for it has only the profiler's own marks, whose pid is text$/);
      expect(reported('negative.json')).toMatch(
        /: it is no trace, for it has only 1 events without a usable name, process, time or length /,
      );
      expect(reported('torn.json.gz')).toMatch(
        /^ranktrace: left out ".*torn\.json\.gz": at byte \d+ the file ends in the middle of its data/,
      );
      expect(reported('cut.json')).toMatch(/^ranktrace: left out ".*cut\.json": at byte \d+ .*ends/);
      expect(reported('broken.json')).toMatch(/^ranktrace: left out ".*broken\.json": at byte \d+ /);
      for (const name of ['gone.json', 'circle.json', 'pipe.json'])
        expect(reported(name)).toMatch(/^ranktrace: left out ".*": it is not a torch\.profiler file, as others beside it are$/);
      expect(stderr).not.toContain('notes.txt');
      expect(stderr).not.toContain('older.json');
    }
  });

  it('alone is an error that names it', async () => {
    mkdirSync(at('alone'));
    writeFileSync(at('alone', 'package.json'), '{"name": "job"}');
    const { code, stderr } = await runLine(['report', at('alone')]);
    expect(code).toBe(2);
    expect(stderr).toMatch(/left out ".*package\.json"[^\n]*\n.*Cannot open ".*alone": there is no trace in it\n$/);
  });

  it('that was named is an error', async () => {
    const { code, stderr } = await runLine(['report', join(torch, 'rank0.json.gz'), at('alone', 'package.json')]);
    expect([code, stderr.trim().split('\n').length]).toEqual([2, 1]);
    expect(stderr).toMatch(/"[^"]*package\.json": .*traceEvents/);
  });

  it('beside run directories is not looked at', async () => {
    writeFileSync(at('runs', 'package.json'), '{"name": "job"}');
    const { code, stderr } = await runLine(['report', at('runs')]);
    expect([code, stderr]).toEqual([0, '']);
    expect(readFileSync(at('runs', 'package.json'), 'utf8')).toContain('job');
  });
});

describe('a pipe', () => {
  const ranktrace = `'${process.execPath}' '${commandPath}'`;
  const typed = (line: string) => runTyped(line, { cwd: directory, environment: { TMPDIR: at('temporary') } });
  beforeAll(() => mkdirSync(at('temporary')));

  it.each([
    ['a torch.profiler file', () => `cat '${join(torch, 'rank0.json.gz')}'`, () => join(torch, 'rank0.json.gz')],
    ['the text of one', () => `zcat '${join(torch, 'rank0.json.gz')}'`, () => join(torch, 'rank0.json.gz')],
    ['a .pftrace', () => `cat '${pftrace}'`, () => pftrace],
    ['a zipped .pftrace', () => `cat '${pftrace}.gz'`, () => pftrace],
    ['a timeline of NDTimeline', () => `cat '${timeline}'`, () => timeline],
    ['a segment', () => `cat '${store}'/segments/*.seg`, () => store],
  ])('is read as %s of the same bytes, and leaves nothing behind', async (_, bytes, path) => {
    const { code, stdout } = await runLine(['report', path()]);
    expect(code).toBe(0);
    for (const line of [`${bytes()} | ${ranktrace} report -`, `${ranktrace} report <(${bytes()})`]) {
      expect(await typed(line)).toMatchObject({ code: 0, stdout });
      expect(readdirSync(at('temporary'))).toEqual([]);
    }
  });

  it('gives torch its table', async () => {
    const file = join(torch, 'rank0.json.gz');
    const { stdout } = await runLine(['table', file]);
    expect(await typed(`${ranktrace} table - < '${file}'`)).toMatchObject({ code: 0, stdout });
  });

  it('is a baseline, saved or not, and what is compared with it', async () => {
    const saved = at('piped-baseline.json');
    expect(await typed(`${ranktrace} check - --save '${saved}' < '${pftrace}'`)).toMatchObject({ code: 0 });
    for (const baseline of [saved, pftrace]) {
      const { stdout } = await runLine(['check', pftrace, '--baseline', baseline]);
      expect(stdout).toContain('unchanged');
      const line = `${ranktrace} check - --baseline <(cat '${baseline}') < '${pftrace}'`;
      expect(await typed(line)).toMatchObject({ code: 0, stdout });
    }
  });

  it('is one side of a comparison, and a series of steps', async () => {
    const { code, stdout } = await typed(`${ranktrace} diff '${pftrace}' - < '${pftrace}'`);
    expect([code, stdout]).toEqual([0, expect.stringMatching(/^A: .*\nB: -/)]);
    const series = await typed(`(echo step,time_ms; for step in $(seq 100); do echo $step,10; done) | ${ranktrace} detect -`);
    expect([series.code, series.stdout]).toEqual([0, expect.stringContaining('100 steps')]);
  });

  it.each([
    ['without a byte', `true | RANKTRACE report -`, 'Cannot read "-": it ended without a byte'],
    ['given twice', `true | RANKTRACE report - -`, 'Cannot read "-": it ended without a byte'],
    ['given twice, with bytes', `echo '[]' | RANKTRACE report - -`, '"-" is given twice: a pipe is read once'],
    ['on both sides', `cat one.pftrace | RANKTRACE diff - -`, '"-" is given twice: a pipe is read once'],
    [
      'cut off',
      `printf '[{"ph":"X"' | RANKTRACE table -`,
      '"-": Cannot read the trace: at byte 10 the file ends in the middle of its data: it was cut off or is still being written',
    ],
    ['without a trace', `echo '{}' | RANKTRACE table -`, '"-": Cannot read the trace: it must have `traceEvents`, got none'],
  ])('%s is one clear line', async (_, line, text) => {
    expect(await typed(line.replace('RANKTRACE', ranktrace))).toMatchObject({ code: 2, stdout: '', stderr: `ranktrace: ${text}\n` });
    expect(readdirSync(at('temporary'))).toEqual([]);
  });

  // Nobody writes into `idle`. `diff` listens to signals itself.
  it.each(['report - <> idle', 'report idle', 'diff one.pftrace idle'])(
    'that gives nothing is left at Ctrl-C, with nothing left behind: %s',
    async (command) => {
      const line = `test -p idle || mkfifo idle; ${ranktrace} ${command}`;
      const started = startTyped(line, { cwd: directory, environment: { TMPDIR: at('temporary') } });
      await expect.poll(() => readdirSync(at('temporary'), { recursive: true }).length).toBe(2);
      interrupt(started);
      expect((await started.ended).code).toBe(130);
      expect(readdirSync(at('temporary'))).toEqual([]);
    },
  );
});

// `ranktrace merge` on torch.profiler's own files (../shared/data): one trace of a job, every event of every file in it.

import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { afterAll, describe, expect, it } from 'vitest';
import { openTrace } from './oracle/trace-processor.ts';
import { repository, runCommand } from './setup/ranktrace-command.ts';

const data = join(repository, '../shared/data/kineto');
const directory = mkdtempSync(join(tmpdir(), 'ranktrace-kineto-'));
afterAll(() => rmSync(directory, { recursive: true }));

interface FileEvent {
  readonly ph: string;
  readonly cat?: string;
  readonly name: string;
  readonly pid: number | string;
  readonly ts: number;
  readonly args?: Readonly<Record<string, unknown>>;
}

const eventsOf = (path: string): FileEvent[] => JSON.parse(gunzipSync(readFileSync(path)).toString()).traceEvents;
const isOfProgram = ({ ph, pid }: FileEvent): boolean => ph === 'X' && typeof pid === 'number';

describe('8 ranks on GPUs', () => {
  const files = Array.from({ length: 8 }, (_, rank) => join(data, `nanogpt-8rank/rank${rank}.chrome-trace.json.gz`));
  const inputs = files.map(eventsOf);
  const isStep = (event: FileEvent): boolean => event.cat === 'user_annotation' && event.name.startsWith('ProfilerStep#');
  const isKernel = ({ cat, name }: FileEvent): boolean => cat === 'kernel' && name.startsWith('ncclDevKernel');

  it('become one trace with all that each file has, as Chrome JSON', async () => {
    const trace = join(directory, 'cluster.json');
    const { stdout, stderr, code } = await runCommand(['merge', ...files, '-o', trace, '--json']);
    expect(code, stderr).toBe(0);
    expect(stderr).toBe('');
    const report = JSON.parse(stdout);
    expect(report.findings).toEqual([]);
    const merged = JSON.parse(readFileSync(trace, 'utf8')).traceEvents as FileEvent[];
    for (const [rank, input] of inputs.entries()) {
      const program = input.filter(isOfProgram);
      const steps = program.filter(isStep).length;
      const collective = program.filter(isKernel).length;
      const span = program.length - steps - collective;
      expect(report.ranks[rank].counts).toEqual({ span, instant: 0, counter: 0, step: steps, collective, rpc: 0 });
      expect(merged.filter(({ ph, pid }) => ph === 'X' && pid === rank + 1)).toHaveLength(program.length);
    }
  });

  it("and as a Perfetto trace that Perfetto's own processor reads: rows per rank, kernels with their arguments", async () => {
    const trace = join(directory, 'cluster.pftrace');
    const { code, stderr } = await runCommand(['merge', join(data, 'nanogpt-8rank'), '-o', trace]);
    expect(code, stderr).toBe(0);
    using opened = await openTrace(readFileSync(trace));
    const count = async (where: string): Promise<unknown> => (await opened.query(`select count(*) as n from slice where ${where}`))[0]?.n;
    expect(await opened.query("select name, value from stats where severity in ('error', 'data_loss') and value > 0")).toEqual([]);
    for (const category of ['cpu_op', 'cuda_runtime', 'gpu_memcpy', 'gpu_memset', 'gpu_user_annotation']) {
      expect(await count(`category = '${category}'`)).toBe(inputs.flat().filter(({ cat }) => cat === category).length);
    }
    expect(await count("category = 'kernel'")).toBe(inputs.flat().filter((event) => event.cat === 'kernel' && !isKernel(event)).length);
    expect(await count("category = 'collective'")).toBe(inputs.flat().filter(isKernel).length);
    // One arrow from rank to rank for each of the 76 that all of them have.
    const links = await opened.query('select count(distinct slice_out) as n from flow');
    expect(Number(links[0]?.n)).toBeGreaterThanOrEqual(76);
  });
});

describe('ranks and windows', () => {
  const event = (ts: number): object => ({ ph: 'X', cat: 'cpu_op', name: 'op', pid: 9, tid: 9, ts, dur: 5 });
  const write = (name: string, rest: object, times: readonly number[] = [1, 20], pid = 9): string => {
    const path = join(directory, name);
    const events = times.map((ts) => ({ ...event(ts), pid }));
    writeFileSync(path, gzipSync(JSON.stringify({ ...rest, baseTimeNanoseconds: 1_700_000_000_000_000_000, traceEvents: events })));
    return path;
  };
  const merge = async (...inputs: string[]) => {
    const result = await runCommand(['merge', ...inputs, '-o', join(directory, 'out.json'), '--json']);
    return { ...result, ranks: result.code === 0 ? (JSON.parse(result.stdout).ranks as { rank: number; counts: { span: number } }[]) : [] };
  };
  const rank = (number: number): object => ({ distributedInfo: { rank: number, world_size: 4 } });

  it('a rank that the file does not say comes from its name, then from its place, and both are told', async () => {
    const { ranks, stderr, code } = await merge(
      write('first.json.gz', {}),
      write('rank7.pt.trace.json.gz', {}),
      write('x.json.gz', rank(3)),
    );
    expect(code, stderr).toBe(0);
    expect(ranks.map((of) => of.rank)).toEqual([0, 3, 7]);
    expect(stderr).toContain(`rank taken from the file's name, for the file does not say it: "rank7.pt.trace.json.gz" is rank 7`);
    expect(stderr).toContain(`rank taken from the order of the files, for neither file nor name says it: "first.json.gz" is rank 0`);
  });

  it('files of one rank at different times are one process, of another pid another life, at the same time an error', async () => {
    const files = [write('w2.json.gz', rank(1), [101, 120]), write('w1.json.gz', rank(1))];
    const windows = await merge(...files);
    expect(windows.stderr).toBe('');
    expect(windows.ranks).toMatchObject([{ rank: 1, counts: { span: 4 } }]);
    const lives = await merge(...files, write('w3.json.gz', rank(1), [300], 10));
    expect(lives.ranks.map((of) => [of.rank, of.counts.span])).toEqual([
      [1, 4],
      [1, 1],
    ]);
    const twice = await merge(...files, write('w4.json.gz', rank(1), [110]));
    expect(twice.code).toBe(2);
    expect(twice.stderr).toMatch(
      /^ranktrace: Cannot read these files as one job: ".*w2\.json\.gz" and ".*w4\.json\.gz" both hold rank 1 at the same time; --allow-mixed .*\n$/,
    );
  });

  it('a directory of traces is its files; other JSON beside them is not', async () => {
    const folder = join(directory, 'folder');
    mkdirSync(folder);
    const cases = join(data, 'ddp-4rank/balanced');
    for (const name of readdirSync(cases)) copyFileSync(join(cases, name), join(folder, name));
    expect(readdirSync(folder)).toContain('truth.json');
    const { ranks, code } = await merge(folder);
    expect(code).toBe(0);
    expect(ranks.map((of) => of.rank)).toEqual([0, 1, 2, 3]);
  });

  const good = (): string => write('good.json.gz', rank(0));
  const bad: readonly [string, () => string[], RegExp][] = [
    [
      'torch.profiler files and a run',
      () => [good(), join(repository, 'docs')],
      /Inputs must be of one kind: ".*good\.json\.gz" is a torch\.profiler file, ".*docs" is what ranktrace recorded$/,
    ],
    [
      'a file that is not there',
      () => [good(), join(directory, 'not-there.json')],
      /Cannot open ".*not-there\.json": there is no such file/,
    ],
    ['one file twice', () => [good(), good()], /good\.json\.gz" is given twice/],
    ['an empty file', () => [writeText('empty.json', '')], /"[^"]*empty\.json": .*ends/],
    ['other JSON', () => [good(), writeText('other.json', '{"hello": 1}')], /"[^"]*other\.json": .*traceEvents/],
    [
      'a cut gzip stream',
      () => [writeBytes('cut.json.gz', readFileSync(good()).subarray(0, 60))],
      /cut\.json\.gz".* gzip stream is broken/,
    ],
    ['broken JSON', () => [writeText('broken.json', '{"traceEvents":[{"ph":"X",}]}')], /"[^"]*broken\.json": .*at byte/],
  ];
  it.each(bad)('%s: one clear line', async (_what, inputs, line) => {
    const { code, stderr } = await merge(...inputs());
    expect(stderr.trim()).toMatch(line);
    expect(stderr.trim().split('\n')).toHaveLength(1);
    expect(code).toBe(2);
  });
});

function writeBytes(name: string, bytes: Uint8Array): string {
  writeFileSync(join(directory, name), bytes);
  return join(directory, name);
}

const writeText = (name: string, text: string): string => writeBytes(name, Buffer.from(text));

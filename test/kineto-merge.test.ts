// `ranktrace merge` on torch.profiler's files, its own and simulated ones: one trace of a job, every event of every file in it.

import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, describe, expect, it } from 'vitest';
import { writeGpuJob } from './setup/gpu-job-files.ts';
import { expectChromeTrace, expectPerfettoTrace } from './setup/merged-gpu-files.ts';
import { repository } from './setup/ranktrace-command.ts';
import { runLine } from './setup/warm-command.ts';

const data = join(repository, 'test/data/kineto');
const directory = mkdtempSync(join(tmpdir(), 'ranktrace-kineto-'));
afterAll(() => rmSync(directory, { recursive: true }));

describe('8 ranks on GPUs (simulated, seed 1)', () => {
  const folder = join(directory, 'gpu-job');
  const { paths, collectives } = writeGpuJob(folder, { seed: 1 });

  it('become one trace with all that each file has, as Chrome JSON', () => expectChromeTrace(paths, join(directory, 'cluster.json')));

  it("and as a Perfetto trace that Perfetto's own processor reads: rows per rank, kernels with their arguments", async () => {
    const arrows = await expectPerfettoTrace(folder, paths, join(directory, 'cluster.pftrace'));
    // One arrow from rank to rank for each collective that all ranks have.
    const world = collectives.filter(({ group }) => group === '0');
    expect(arrows).toBeGreaterThanOrEqual(Math.min(...paths.map((_, rank) => world.filter((one) => one.rank === rank).length)));
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
    const result = await runLine(['merge', ...inputs, '-o', join(directory, 'out.json'), '--json']);
    return { ...result, ranks: result.code === 0 ? (JSON.parse(result.stdout).ranks as { rank: number; counts: { span: number } }[]) : [] };
  };
  const rank = (number: number): object => ({ distributedInfo: { rank: number, world_size: 4 } });

  it('a rank that the file does not say comes from its name, then from its place, and both are reported', async () => {
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

  it('files of one process at different times are windows of one rank where nothing says which, those of others are ranks of their own', async () => {
    const { ranks, stderr, code } = await merge(
      write('vm_9.1000.pt.trace.json.gz', {}),
      write('vm_9.2000.pt.trace.json.gz', {}, [101, 120]),
      write('vm_9.3000.pt.trace.json.gz', { host_name: 'vm_9' }, [201, 220]),
      write('vm_10.1000.pt.trace.json.gz', {}, [1, 20], 10),
      write('other_9.2000.pt.trace.json.gz', {}, [101, 120]),
      write('vm_9.1001.pt.trace.json.gz', {}, [5]),
    );
    expect(code, stderr).toBe(0);
    expect(ranks.map((of) => [of.rank, of.counts.span])).toEqual([
      [0, 6],
      [1, 2],
      [2, 2],
      [3, 1],
    ]);
    expect(stderr).toContain(
      '"vm_9.1000.pt.trace.json.gz" and 2 other files of its process are rank 0, "vm_10.1000.pt.trace.json.gz" is rank 1',
    );
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

  it('a file that names no rank is no further rank of a job whose ranks are all there', async () => {
    const whole = [0, 1, 2, 3].map((of) => write(`of4-${of}.json.gz`, rank(of)));
    const other = write('other.json.gz', {}, [1, 20], 77);
    const { code, stderr } = await merge(...whole, other);
    expect(code).toBe(2);
    expect(stderr).toMatch(
      /Cannot read these files as one job: ".*of4-0\.json\.gz" is of a job of 4 ranks, all of which have files beside ".*other\.json\.gz", which names no rank; --allow-mixed .*\n$/,
    );
    expect((await merge(...whole, other, '--allow-mixed')).ranks.map((of) => of.rank)).toEqual([0, 1, 2, 3, 4]);
    expect((await merge(...whole.slice(0, 3), other)).ranks.map((of) => of.rank)).toEqual([0, 1, 2, 3]);
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
      () => [good(), join(repository, 'test/data/store-v2')],
      /Inputs must be of one kind: ".*good\.json\.gz" is a torch\.profiler file, ".*store-v2" is what ranktrace recorded$/,
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
      /cut\.json\.gz": .*at byte \d+ the file ends/,
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

// Files that ranks of the SDK export, merged again: their report equals the report of the run itself.

import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { isSpan, type KinetoFileEvent, kinetoFileEvents, writeGpuJob } from './setup/gpu-job-files.ts';
import { runCommand, startCommand } from './setup/ranktrace-command.ts';
import { report } from './setup/reports.ts';
import { runLine } from './setup/warm-command.ts';

const directory = mkdtempSync(join(tmpdir(), 'ranktrace-exported-'));
afterAll(() => rmSync(directory, { recursive: true }));

/** Ranks that meet in an all-reduce over TCP in each step; rank 1 works longest, and all collect garbage. */
const program = `
import { connect, createServer } from 'node:net';
import { profile, recordFunction } from '@ranktrace/sdk';
const [rank, size, port, steps] = ['RANK', 'WORLD_SIZE', 'MASTER_PORT', 'STEPS'].map((name) => Number(process.env[name]));
if (process.env.HOSTS === 'apart')
  process.env.RANKTRACE_TEST_CLOCK = \`offset_ns=\${1e9 * (1 + rank)},drift_ppm=\${7 * rank - 5},host=host-\${rank}\`;
let waiting = [];
const arrive = (release) => {
  waiting.push(release);
  if (waiting.length < size) return;
  for (const go of waiting.splice(0)) go();
};
const answers = [];
let socket, server;
if (rank === 0) {
  server = createServer((peer) => peer.on('data', (data) => data.forEach(() => arrive(() => peer.write('x')))));
  await new Promise((done) => server.listen(port, '127.0.0.1', done));
}
while (rank !== 0 && socket === undefined) {
  socket = await new Promise((done) => {
    const one = connect(port, '127.0.0.1', () => done(one));
    one.once('error', () => setTimeout(done, 20));
  });
}
socket?.on('data', (data) => data.forEach(() => answers.shift()()));
const meet = () => new Promise((go) => rank === 0 ? arrive(go) : (answers.push(go), socket.write('x')));
const spin = (ms) => { for (const end = performance.now() + ms; performance.now() < end; ); };
const { EXPORT: path, HOSTS: hosts } = process.env;
// Where no ping came through, only a collective of a known kind aligns hosts.
const op = hosts === 'apart' ? 'all_reduce' : 'ring sum';
const prof = profile(path === undefined ? {} : { onTraceReady: (prof) => prof.exportChromeTrace(path.replace('RANK', rank)) }).start();
for (let step = 0; step < steps; step++) {
  recordFunction('data', () => spin(1));
  recordFunction('forward', () => { spin(rank === 1 ? 8 : 2); globalThis.gc?.(); });
  await prof.collective({ op, group: 'world', bytes: 4096 }, meet);
  recordFunction('update', () => spin(1));
  prof.step();
}
await prof.stop();
socket?.end();
server?.close();
`;

/** Records a run; gives its store and the folder of its files. */
async function recorded(name: string, environment: (files: string) => Record<string, string>): Promise<{ store: string; files: string }> {
  const files = join(directory, `${name}-files`);
  mkdirSync(files);
  const args = [
    'run',
    '--ranks',
    '3',
    '--out',
    directory,
    '--name',
    name,
    '--',
    process.execPath,
    '--expose-gc',
    '--input-type=module',
    '-e',
    program,
  ];
  // Nothing is shed, however busy the machine is: the run would report it.
  const { code, stderr } = await runCommand(args, { RANKTRACE_OVERHEAD_BUDGET: '1', ...environment(files) });
  expect(code, stderr).toBe(0);
  return { store: join(directory, name), files };
}

const withSteps = async (input: string, first: number, last: number) =>
  JSON.parse((await runLine(['report', input, '--json', '--steps', `${first}-${last}`])).stdout);

/** The parts of a report about these steps, without the rest of the run and without the times of its first step and its end. */
// biome-ignore lint/suspicious/noExplicitAny: the report as JSON has it.
const ofSteps = ({ ranks, openWork, firstStepNs, ...rest }: any): unknown => ({
  ...rest,
  ranks: ranks.map(({ rank, incarnation, host, hostName, pid, alignment }: Record<string, unknown>) => ({
    ...{ rank, incarnation, host, hostName, pid, alignment },
  })),
});

/**
 * A report in which a busy host is not told from uneven work: the run knows how long threads waited for a CPU before and after a window, too, so that its
 * figures differ from those of the window's files, which may have none.
 */
const withoutLoad = (given: unknown): unknown =>
  JSON.parse(JSON.stringify(given), (key, value) => {
    if (key === 'verdict' && uneven.has(value)) return 'uneven';
    if (!uneven.has(value?.kind)) return value;
    const { phase, evidence, ...rest } = value;
    return { ...rest, kind: 'uneven', evidence: evidence.filter((line: string) => !line.includes('CPU')) };
  });
const uneven: ReadonlySet<unknown> = new Set(['cpu_contention', 'rotating_imbalance']);

describe('of one host', () => {
  it('exportChromeTrace: the same collectives, clocks, steps and blame, to the ns', async () => {
    const { store, files } = await recorded('chrome', (files) => ({ STEPS: '14', EXPORT: join(files, 'rankRANK.json.gz') }));
    expect(readdirSync(files)).toEqual(['rank0.json.gz', 'rank1.json.gz', 'rank2.json.gz']);
    const [ofRun, ofFiles] = [await report(store), await report(files)];
    expect(ofSteps(ofFiles)).toEqual(ofSteps(ofRun));
    expect(ofFiles.clocks.ranks.every(({ method }: { method: string }) => method === 'exact')).toBe(true);
    expect(ofFiles.collectives.collectives).toMatchObject([{ op: 'ring sum', group: 'world', count: 14, incomplete: 0 }]);
    expect(ofFiles.run).toBe('chrome');
  });

  it('tensorboardTraceHandler: so do the files of two cycles', async () => {
    const schedule = { RANKTRACE_SCHEDULE: 'wait=1,warmup=1,active=4,repeat=2' };
    const { store, files } = await recorded('handler', (files) => ({ STEPS: '14', RANKTRACE_TENSORBOARD_DIRECTORY: files, ...schedule }));
    expect(readdirSync(files)).toHaveLength(6);
    for (const [first, last] of [
      [2, 5],
      [8, 11],
    ] as const) {
      const [ofRun, ofFiles] = await Promise.all([store, files].map((input) => withSteps(input, first, last)));
      expect(withoutLoad(ofSteps(ofFiles))).toEqual(withoutLoad(ofSteps(ofRun)));
    }
  });

  it('in a table of a file collections are inside of the steps: self times add up to them', async () => {
    const [name] = readdirSync(join(directory, 'handler-files'));
    const { stdout } = await runLine(['table', join(directory, 'handler-files', name as string), '--json']);
    const rows = JSON.parse(stdout) as { key: string; cpuTimeTotal: number; selfCpuTimeTotal: number; count: number }[];
    const of = (key: string) => rows.find((row) => row.key === key);
    expect(of('gc major')?.count).toBeGreaterThanOrEqual(4);
    expect(of('Total')?.selfCpuTimeTotal).toBeCloseTo(of('ProfilerStep*')?.cpuTimeTotal ?? 0, 3);
  });
});

it('of hosts whose clocks differ: aligned, and every collective whole', async () => {
  const { store, files } = await recorded('apart', (files) => ({
    ...{ STEPS: '60', HOSTS: 'apart', EXPORT: join(files, 'rankRANK.json') },
  }));
  const [ofRun, ofFiles] = [await report(store), await report(files)];
  // biome-ignore lint/suspicious/noExplicitAny: the report as JSON has it.
  const known = ({ collectives, steps, ranks }: any) => ({
    collectives: collectives.collectives.map(({ op, group, count, incomplete }: Record<string, unknown>) => ({
      op,
      group,
      count,
      incomplete,
    })),
    steps: steps.map(({ step }: { step: number }) => step),
    hosts: ranks.map(({ rank, host }: { rank: number; host: string }) => [rank, host]),
  });
  expect(known(ofFiles)).toEqual(known(ofRun));
  expect(known(ofFiles).hosts).toEqual([0, 1, 2].map((rank) => [rank, `host-${rank}`]));
  expect(ofFiles.clocks.ranks.map(({ method }: { method: string }) => method)).not.toContain('unaligned');
});

describe('ranktrace export', () => {
  const folder = join(directory, 'gpu-job');
  let paths: readonly string[];
  beforeAll(() => {
    ({ paths } = writeGpuJob(folder, { seed: 4, ranks: 4, steps: 4 }));
  });

  it('--to kineto: files of a GPU job, read again, give the same report', async () => {
    const to = `${join(directory, 'gpu-again')}/`;
    const { code, stderr } = await runLine(['export', folder, '--to', 'kineto', '-o', to]);
    expect([code, stderr]).toEqual([0, expect.stringContaining('exported ')]);
    expect(readdirSync(to)).toEqual(paths.map((_, rank) => `rank${rank}.pt.trace.json.gz`));
    const [before, after] = [await report(folder), await report(to)];
    // Times count from another moment, and the process has the name of another file; all lengths are the same.
    const parts = ({ gpu, blame, steps, phases, verdict, findings }: Record<string, unknown>) => ({
      gpu,
      blame,
      steps,
      phases,
      verdict,
      findings,
    });
    expect(withoutTimes(parts(after))).toEqual(withoutTimes(parts(before)));
    const lines = ({ collectives }: { collectives: { collectives: Record<string, unknown>[] } }) =>
      collectives.collectives.map(({ op, group, count, incomplete, bytes, ranks }) => ({ op, group, count, incomplete, bytes, ranks }));
    expect(withoutTimes(lines(after))).toEqual(withoutTimes(lines(before)));
    // Spans, and the arrows from calls of the driver to what they launched (of work launched before the file began, there is no call).
    const events = (path: string): string[] => {
      const all = kinetoFileEvents(path) as (KinetoFileEvent & { readonly id?: number })[];
      const isArrow = ({ name, ph }: KinetoFileEvent, end: 's' | 'f'): boolean => name === 'ac2g' && ph === end;
      const begun = new Set(all.filter((event) => isArrow(event, 's')).map(({ id }) => id));
      const kept = all.filter((event) => isSpan(event) || (isArrow(event, 'f') && begun.has(event.id)));
      expect(begun.size).toBeGreaterThan(50);
      return kept.map(({ ph, cat, name, pid }) => `${ph} ${cat} ${name} ${pid}`).sort();
    };
    expect(events(join(to, 'rank1.pt.trace.json.gz'))).toEqual(events(paths[1] as string));
  });

  it('--to kineto: metadata comes back as it was: text stays text, whatever it looks like', async () => {
    const given = {
      ...{
        record_shapes: 1,
        cupti_version: 130001,
        job_id: '1234567890123456789',
        git: '7e12345',
        version: '1.10',
        flag: 'true',
        nothing: 'null',
      },
      ...{ with_stack: '', list: [1, '2'], object: { a: null }, open: '[a', empty: '' },
    };
    const path = join(directory, 'metadata.json');
    const traceEvents = [{ ph: 'X', name: 'a', cat: 'cpu_op', pid: 1, tid: 1, ts: 1, dur: 1 }];
    writeFileSync(path, JSON.stringify({ schemaVersion: 1, distributedInfo: { rank: 0, world_size: 1 }, ...given, traceEvents }));
    const to = `${join(directory, 'metadata-again')}/`;
    expect((await runLine(['export', path, '--to', 'kineto', '-o', to])).code).toBe(0);
    const [name] = readdirSync(to) as [string];
    expect(JSON.parse(gunzipSync(readFileSync(join(to, name))).toString())).toMatchObject(given);
  });

  it('--to folded: the lines add up to the self times of all spans', async () => {
    const path = join(directory, 'job.folded');
    expect((await runLine(['export', folder, '--to', 'folded', '-o', path])).code).toBe(0);
    const sums = readFileSync(path, 'utf8')
      .trimEnd()
      .split('\n')
      .map((line) => Number(/ (\d+)$/.exec(line)?.[1]));
    const rows: { key: string; selfNs: number }[] = JSON.parse((await runLine(['table', folder, '--json'])).stdout);
    expect(sums.reduce((sum, ns) => sum + ns, 0)).toBe(rows.at(-1)?.selfNs);
  });

  it('--to csv: every event in a row, as DuckDB, pandas and a spreadsheet read it', async () => {
    const path = join(directory, 'job.csv.gz');
    expect((await runLine(['export', folder, '--to', 'csv', '--ranks', '1', '-o', path])).code).toBe(0);
    const lines = gunzipSync(readFileSync(path)).toString().split('\r\n');
    expect(lines[0]).toBe(
      'kind,rank,incarnation,host,track,device,name,category,start_ns,duration_ns,step,group,sequence,bytes,peer_rank,value,unit,arguments',
    );
    const spans = kinetoFileEvents(paths[1] as string).filter(({ ph }) => ph === 'X');
    expect(lines.filter((line) => /^(?:span|collective|step),1,/.test(line))).toHaveLength(spans.length);
    expect(lines.at(-1)).toBe('');
  });

  it('Ctrl-C leaves no file', async () => {
    const { code, stderr } = await runLine([
      'simulate',
      '--out',
      directory,
      '--run',
      'long',
      '--ranks',
      '16',
      '--steps',
      '2000',
      '--seed',
      '1',
    ]);
    expect(code, stderr).toBe(0);
    const path = join(directory, 'long.csv');
    const command = startCommand(['export', join(directory, 'long'), '--to', 'csv', '-o', path]);
    let isOver = false;
    void command.ended.then(() => {
      isOver = true;
    });
    while (!existsSync(`${path}.partial`) && !isOver) await new Promise((resolve) => setTimeout(resolve, 5));
    command.child.kill('SIGINT');
    const ended = await command.ended;
    expect([ended.code, ended.stdout, ended.stderr]).toEqual([130, '', 'ranktrace: Interrupted: nothing was written\n']);
    expect(readdirSync(directory).filter((name) => name.startsWith('long.csv'))).toEqual([]);
  });

  it('takes times as the report shows them, from the first step, and the data of both say where that is', async () => {
    const early = join(directory, 'early');
    mkdirSync(early);
    for (const [rank, path] of paths.entries()) {
      const text = gunzipSync(readFileSync(path)).toString();
      const { pid, tid, ts } = JSON.parse(text).traceEvents.find(({ ph, cat }: KinetoFileEvent) => ph === 'X' && cat === 'user_annotation');
      const setup = JSON.stringify({ ph: 'X', cat: 'cpu_op', name: 'setup', pid, tid, ts: Math.floor(ts) - 40_000, dur: 5 });
      writeFileSync(
        join(early, `rank${rank}.json`),
        text.replace(/"traceEvents": ?\[/, (begin) => `${begin}${setup},`),
      );
    }
    const { firstStepNs, collectives } = await report(early);
    expect(firstStepNs).toBeGreaterThan(39e6);
    const { stdout } = await runLine(['report', early]);
    const [, at] = /^waited in longest:\n.* at ([\d.]+) ms:/m.exec(stdout) ?? [];
    const { timeNs } = collectives.longest[0];
    expect(Number(at)).toBeCloseTo((timeNs - firstStepNs) / 1e6, 1);
    const csv = join(directory, 'early.csv');
    expect((await runLine(['export', early, '--to', 'csv', '--from', `${at}ms`, '--until', `${Number(at) + 0.1}ms`, '-o', csv])).code).toBe(
      0,
    );
    expect(readFileSync(csv, 'utf8')).toMatch(new RegExp(`^collective,.*,${timeNs},`, 'm'));
  });

  it('takes a part of the run, and leaves no file where there is nothing or the name is wrong', async () => {
    const path = join(directory, 'part.pftrace');
    const steps = (await report(folder)).steps as { step: number }[];
    expect((await runLine(['export', folder, '--to', 'perfetto', '--steps', '3', '--ranks', '0,2', '-o', path])).code).toBe(0);
    const part = await report(path);
    expect(steps.length).toBeGreaterThan(2);
    expect([part.steps.map(({ step }: { step: number }) => step), part.ranks.map(({ rank }: { rank: number }) => rank)]).toEqual([
      [3],
      [0, 2],
    ]);
    // Times count from the first step, as on the page: the steps of a GPU job are about 2 ms long.
    const window = join(directory, 'window.pftrace');
    expect((await runLine(['export', folder, '--to', 'perfetto', '--from', '1us', '--until', '1500us', '-o', window])).code).toBe(0);
    expect((await report(window)).steps.map(({ step }: { step: number }) => step)).toEqual([steps[0]?.step]);
    for (const [args, what] of [
      [['--to', 'csv', '--ranks', '9', '-o', join(directory, 'none.csv')], 'None of the ranks of --ranks is in this run'],
      [['--to', 'csv', '--from', '900s', '-o', join(directory, 'none.csv')], 'There is no event in this part of the run'],
      [['--to', 'csv', '--from', 'soon', '-o', join(directory, 'none.csv')], 'It must be a time such as 1.5s, 300ms or 40us.'],
      [['--to', 'kineto', '-o', join(directory, 'none.json')], 'put {rank} into it'],
      [['--to', 'kineto', '-o', '-'], 'A file for each rank needs a directory'],
      [['--to', 'parquet', '-o', join(directory, 'none.parquet')], "'parquet' is invalid"],
    ] as const) {
      const { code, stdout, stderr } = await runLine(['export', folder, ...args]);
      expect(stderr).toContain(what);
      expect([code, stdout]).toEqual([2, '']);
    }
    expect(readdirSync(directory).filter((name) => name.startsWith('none'))).toEqual([]);
  });
});

/** Data without the fields that are points in time, and numbers to a tenth of a µs: a double of the trace's start rounds them. */
function withoutTimes(value: unknown): unknown {
  if (typeof value === 'number') return Number.isInteger(value) ? value : Math.round(value * 1e3) / 1e3;
  if (Array.isArray(value)) return value.map(withoutTimes);
  if (typeof value !== 'object' || value === null) return value;
  const left = Object.entries(value).filter(
    ([key]) => !['from', 'until', 'start', 'end', 'at', 'since', 'alignment', 'incarnation'].includes(key),
  );
  return Object.fromEntries(left.map(([key, inner]) => [key, withoutTimes(inner)]));
}

// The main job: real training on real digits by real rank processes, one trace; and every way to count its events agrees.
//
//   recorder's own counts = stored run = Perfetto's trace processor (SQL) = an independent protobuf decode = Chrome JSON

import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { decodePerfetto } from './oracle/perfetto-decode.ts';
import { type OpenTrace, openTrace } from './oracle/trace-processor.ts';
import { startNatsServer } from './setup/nats-server.ts';
import { countable } from './setup/rank-programs.ts';
import { type CommandResult, runCommand } from './setup/ranktrace-command.ts';
import { runLine } from './setup/warm-command.ts';

const ranks = 4;
const steps = 40;
const train = ['--', process.execPath, 'examples/mnist-data-parallel/dist/train.js', '--max-steps', String(steps)];
const phases = ['data', 'forward', 'backward', 'allreduce', 'optimizer'];
const directory = mkdtempSync(join(tmpdir(), 'ranktrace-job-'));

interface Report {
  readonly trace: string;
  readonly exitCode: number;
  readonly findings: readonly unknown[];
  readonly ranks: readonly {
    readonly rank: number;
    readonly missing: number;
    readonly batches: number;
    readonly ended: boolean;
    readonly counts: Record<string, number>;
    readonly recorded: Record<string, number>;
    readonly dropped: Record<string, number>;
  }[];
}

const reportOf = (result: CommandResult): Report => JSON.parse(result.stdout) as Report;

afterAll(() => rmSync(directory, { recursive: true }));

let embedded: Report | undefined;

describe('the main job over the embedded transport', () => {
  let result: CommandResult;
  let report: Report;
  let trace: OpenTrace;
  let bytes: Uint8Array;

  beforeAll(async () => {
    result = await runCommand(['run', '--ranks', String(ranks), '--name', 'job', '--out', directory, '--json', ...train], countable);
    if (result.code !== 0) throw new Error(`ended with ${result.code}: ${result.stderr}`);
    report = reportOf(result);
    embedded = report;
    bytes = readFileSync(report.trace);
    trace = await openTrace(bytes);
  });
  afterAll(() => trace?.close());

  const count = async (sql: string): Promise<number> => Number((await trace.query(sql))[0]?.n);

  it('trains, and the trace misses nothing', () => {
    expect(result.stderr).toMatch(/test accuracy \d/);
    expect(report.findings).toEqual([]);
    expect(report.ranks.map((rank) => rank.rank)).toEqual([0, 1, 2, 3]);
    for (const rank of report.ranks) {
      expect(rank).toMatchObject({ missing: 0, ended: true, dropped: { events: 0, batches: 0, arguments: 0, names: 0 } });
      expect(rank.counts).toEqual(rank.recorded);
    }
  });

  it('holds every rank, step, phase, collective and rpc, by SQL in the trace processor', async () => {
    const processes = await trace.query('select name from process where name like "rank %" order by pid');
    expect(processes.map((row) => String(row.name).slice(0, 6))).toEqual(['rank 0', 'rank 1', 'rank 2', 'rank 3']);
    expect(await count('select count(*) n from slice where name like "ProfilerStep#%"')).toBe(ranks * steps);
    for (const phase of phases) expect(await count(`select count(*) n from slice where name = '${phase}'`)).toBe(ranks * steps);
    expect(await count('select count(*) n from slice where name = "all_reduce"')).toBe(ranks * steps);
    // One evaluation at the end: ranks 1 to 3 ask, rank 0 answers each.
    expect(await count('select count(*) n from slice where category = "rpc"')).toBe(2 * (ranks - 1));
    const recorded = report.ranks.reduce(
      (sum, { recorded: { span = 0, step = 0, collective = 0, rpc = 0 } }) => sum + span + step + collective + rpc,
      0,
    );
    expect(await count("select count(*) n from slice where category is null or category != 'ranktrace'")).toBe(recorded);
  });

  it('gives the same counts to an independent protobuf decode', async () => {
    const decoded = decodePerfetto(bytes);
    const begun = decoded.events.filter((event) => event.type === 'begin');
    for (const phase of phases) expect(begun.filter((event) => event.name === phase)).toHaveLength(ranks * steps);
    expect(begun.filter((event) => event.name === 'all_reduce')).toHaveLength(ranks * steps);
    // One flow a collective, on all its ranks; one flow a call, on both sides.
    const flows = new Map<bigint, number>();
    for (const event of begun) for (const id of event.flows) flows.set(id, (flows.get(id) ?? 0) + 1);
    const sizes = [...flows.values()].sort((a, b) => a - b);
    expect(sizes).toEqual([...Array(ranks - 1).fill(2), ...Array(steps).fill(ranks)]);
  });

  it('gives the same counts as Chrome JSON', async () => {
    const path = join(directory, 'job.json.gz');
    const merged = await runLine(['merge', join(directory, 'job'), '-o', path]);
    expect(merged.code).toBe(0);
    const text = gunzipSync(readFileSync(path)).toString();
    expect(text.startsWith('{"traceEvents":')).toBe(true);
    const { traceEvents } = JSON.parse(text) as { traceEvents: { ph: string; name: string; cat?: string }[] };
    const whole = (name: string): number =>
      traceEvents.filter((event) => (event.ph === 'X' || event.ph === 'B') && event.name === name).length;
    for (const phase of phases) expect(whole(phase)).toBe(ranks * steps);
    expect(whole('all_reduce')).toBe(ranks * steps);
    const json = await openTrace(Buffer.from(text));
    const [row] = await json.query('select count(*) n from slice where name like "ProfilerStep#%"');
    json.close();
    expect(Number(row?.n)).toBe(ranks * steps);
  });

  it('writes the same bytes again from the store', async () => {
    const path = join(directory, 'again.pftrace');
    expect((await runLine(['merge', join(directory, 'job'), '-o', path])).code).toBe(0);
    expect(readFileSync(path).equals(bytes)).toBe(true);
  });

  it('tables it', async () => {
    const { stdout } = await runLine(['table', join(directory, 'job'), '--json']);
    const rows = JSON.parse(stdout) as { key: string; count: number; totalNs: number; selfNs: number }[];
    const allReduce = rows.find((row) => row.key === 'allreduce');
    expect(allReduce?.count).toBe(ranks * steps);
    // The phase holds its collective and little else.
    expect(allReduce?.selfNs).toBeLessThan((allReduce?.totalNs ?? 0) / 2);
  });

  it('dumps it as text', async () => {
    const { stdout } = await runLine(['dump', join(directory, 'job')]);
    expect(stdout.split('\n').filter((line) => / (SPAN|BEGIN) optimizer /.test(line))).toHaveLength(ranks * steps);
  });
});

describe('the main job over NATS', () => {
  it('gives the same events as over the embedded transport', async () => {
    await using server = await startNatsServer();
    const result = await runCommand(
      ['run', '--ranks', String(ranks), '--name', 'over-nats', '--out', directory, '--nats', server.url, '--json', ...train],
      countable,
    );
    expect(result.code, result.stderr).toBe(0);
    const report = reportOf(result);
    expect(report.findings).toEqual([]);
    for (const rank of report.ranks) {
      const rpc = rank.rank === 0 ? ranks - 1 : 1;
      expect(rank.counts).toMatchObject({ step: steps, collective: steps, rpc });
      expect(rank.counts).toEqual(rank.recorded);
    }
    expect(report.ranks.map(({ counts }) => counts)).toEqual(embedded?.ranks.map(({ counts }) => counts));
  });
});

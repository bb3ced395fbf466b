import { readdirSync, readFileSync } from 'node:fs';
import { gunzipSync } from 'node:zlib';
import { nanos, runStateOf, traceTime, type ViewFinding } from '@ranktrace/protocol';
import { describe, expect, it } from 'vitest';
import { type AlignedRun, lastPartOf, RunAlignment } from '../merge/align-run.ts';
import type { BatchSource } from '../model/batch-source.ts';
import { finish } from '../model/finish.ts';
import type { ProcessTotals, TraceEvent, TraceHeader } from '../model/trace-sink.ts';
import { simulatedCluster } from '../simulate/simulated-cluster.ts';
import type { ClusterOptions } from '../simulate/simulation-options.ts';
import {
  droppedCounts,
  exact,
  processTotals,
  traceEvent,
  traceHeader,
  traceLane,
  traceProcess,
  unaligned,
} from '../testing/trace-events.ts';
import { readKineto } from '../torch/kineto-reader.ts';
import { kinetoSources } from '../torch/kineto-source.ts';
import { analyseRun, analysisSink, type RunAnalysis, type RunAnalysisOptions } from './run-analysis.ts';

const ms = 1e6;
const data = new URL('../../../../test/data/kineto/ddp-4rank/', import.meta.url);

/** A job of four real ranks (test/data). */
function recorded(folder: string): readonly BatchSource[] {
  const names = readdirSync(new URL(`${folder}/`, data)).filter((name) => name.endsWith('.json.gz'));
  return kinetoSources(
    names.map((name, rank) => {
      const table = readKineto(gunzipSync(readFileSync(new URL(`${folder}/${name}`, data))), { keep: 'all' });
      return { run: 'job', rank, worldSize: names.length, files: [{ name, table }] };
    }),
  );
}

const aligned = (sources: readonly BatchSource[]): AlignedRun => finish(new RunAlignment().finish(sources, { done: 0, total: 0 }));

function analysisOf(sources: readonly BatchSource[]): RunAnalysis {
  return finish(analyseRun(aligned(sources)));
}

const simulated = (options: ClusterOptions): RunAnalysis =>
  analysisOf(simulatedCluster({ seconds: 12, rpcsPerSecond: 0, seed: 5, ...options }).sources);

const stragglers = ({ findings }: RunAnalysis): ViewFinding[] => findings.filter(({ kind }) => kind === 'straggler');

interface Truth {
  readonly fault: readonly { readonly rank: number; readonly phase: string; readonly ms: number }[];
}

describe('who keeps others waiting', () => {
  it.each(['rank1_forward', 'rank2_data_load'])('names the rank that was made slow, and its phase: %s', (folder) => {
    const truth = JSON.parse(readFileSync(new URL(`${folder}/truth.json`, data), 'utf8')) as Truth;
    const [fault] = truth.fault as [Truth['fault'][number]];
    const analysis = analysisOf(recorded(folder));
    expect(analysis.waiting[0]?.rank).toBe(fault.rank);
    const [finding, ...others] = stragglers(analysis);
    expect(others).toEqual([]);
    expect(finding).toMatchObject({ severity: 'warning', ranks: [fault.rank] });
    const [, phase, cost] = /^rank \d slow in (\w+), and the others wait: ([\d.]+) ms per step/.exec(finding?.text ?? '') ?? [];
    expect(phase).toBe(fault.phase);
    expect(Math.abs(Number(cost) - fault.ms)).toBeLessThan(1);
    // The time to jump to is one of its waits.
    const length = (finding?.until ?? 0) - (finding?.from ?? 0);
    expect(length).toBeGreaterThan(fault.ms * ms);
    expect(length).toBeLessThan(1.3 * fault.ms * ms);
  });

  it('gives all reasons why nothing is known of one rank in one finding', () => {
    const { sources } = simulatedCluster({ ranks: 2, steps: 1, rpcsPerSecond: 0, seed: 5 });
    const unknown = analysisOf(sources.slice(0, 1)).findings.filter(({ kind }) => kind === 'inconclusive');
    expect(unknown.map(({ text }) => text)).toEqual([
      expect.stringMatching(/^which rank waits for which is unknown\. only 1 step was reported .*; there are no two ranks to compare/),
    ]);
  });

  it('blames no rank in a balanced job, though it says what its steps wait for', () => {
    const { findings } = analysisOf(recorded('balanced'));
    expect(findings.map(({ severity, kind, ranks }) => [severity, kind, ranks])).toEqual([
      ['note', 'network', []],
      ['note', 'data_loading', []],
    ]);
  });

  it('names a straggler among ranks on many hosts, whose clocks are off', () => {
    const options = { ranks: 16, hosts: 4, stepMs: 50 };
    const slow = simulated({ ...options, stragglers: [{ rank: 6, phase: 'backward', ms: 8 }] });
    expect(stragglers(slow).map(({ ranks }) => ranks)).toEqual([[6]]);
    expect(stragglers(slow)[0]?.text).toMatch(/^rank 6 slow in backward, and the others wait: /);
    expect(stragglers(simulated(options))).toEqual([]);
  });

  it('names both of two', () => {
    const two = [
      { rank: 1, phase: 'data', ms: 15 },
      { rank: 2, phase: 'optimizer', ms: 15 },
    ] as const;
    const analysis = simulated({ ranks: 4, hosts: 1, stepMs: 50, stragglers: two });
    const found = stragglers(analysis).sort((a, b) => (a.ranks[0] ?? 0) - (b.ranks[0] ?? 0));
    expect(found.map(({ ranks, text }) => [ranks, /slow in (\w+)/.exec(text)?.[1]])).toEqual([
      [[1], 'data'],
      [[2], 'optimizer'],
    ]);
  });

  it('names one that is late once a step, among many collectives in which others are as often last', () => {
    const options = { ranks: 16, hosts: 4, stepMs: 50, tensorParallel: 4 };
    const slow = simulated({ ...options, stragglers: [{ rank: 6, phase: 'backward', ms: 3 }] });
    expect(stragglers(slow).map(({ ranks }) => ranks)).toEqual([[6]]);
    expect(stragglers(simulated(options))).toEqual([]);
  });

  it('calls one late step no straggling', () => {
    const once = { rank: 1, phase: 'data', ms: 3000, step: 20 } as const;
    expect(stragglers(simulated({ ranks: 8, hosts: 1, stepMs: 200, stragglers: [once] }))).toEqual([]);
  });

  it('blames no rank for a pipeline', () => {
    expect(stragglers(simulated({ ranks: 8, hosts: 1, pipeline: 4, stepMs: 50 }))).toEqual([]);
  });
});

describe('the last part of a run', () => {
  const job = { ranks: 4, hosts: 2, seconds: 40, rpcsPerSecond: 0, seed: 5, stepMs: 50 } as const;
  const alignedJob = (options: Partial<ClusterOptions> = {}): AlignedRun => aligned(simulatedCluster({ ...job, ...options }).sources);

  it('is the whole of a run that has no more, and about as many batches of a longer one', () => {
    const run = alignedJob();
    const count = (of: AlignedRun): number => of.surveys.reduce((sum, { order }) => sum + order.length, 0);
    expect(lastPartOf(run, count(run))).toMatchObject({ surveys: run.surveys, since: undefined });
    const part = lastPartOf(run, 100);
    expect(Math.abs(count(part) - 100)).toBeLessThanOrEqual(2 * job.ranks);
    const seconds = (part.since ?? 0) / 1e9;
    expect(seconds).toBeGreaterThan(job.seconds - (1.2 * job.seconds * 100) / count(run));
    expect(seconds).toBeLessThan(job.seconds);
  });

  it('has the findings of the whole, where nothing changed, and misses nothing', () => {
    const run = alignedJob({ stragglers: [{ rank: 2, phase: 'backward', ms: 8 }] });
    const part = lastPartOf(run, 200);
    const { findings, since } = finish(analyseRun(part, { since: part.since }));
    expect(since).toBe(part.since);
    expect(findings.map(({ kind, ranks }) => [kind, ranks])).toEqual([['straggler', [2]]]);
    for (const { from = 0 } of findings) expect(from).toBeGreaterThanOrEqual((since ?? 0) - 1e9);
  });

  it('is compared with what the run began with', () => {
    const { beginning } = finish(analyseRun(alignedJob()));
    const slower = alignedJob({ stepMs: 60 });
    const part = lastPartOf(slower, 200);
    const kinds = (options: RunAnalysisOptions): string[] =>
      finish(analyseRun(part, { since: part.since, ...options })).findings.map(({ kind }) => kind);
    expect(kinds({})).toEqual([]);
    expect(kinds({ beginning })).toEqual(['cluster_wide']);
  });
});

const processes = [0, 1, 2].map((rank) => traceProcess({ index: rank + 1, rank, pid: 40 + rank }));

function analysed(
  events: readonly Partial<TraceEvent>[],
  totals: readonly Partial<ProcessTotals>[] = [],
  { header = {}, ...options }: RunAnalysisOptions & { header?: Partial<TraceHeader> } = {},
): RunAnalysis {
  const sink = analysisSink(options);
  sink.begin(traceHeader(processes, header));
  for (const event of events) sink.event(traceEvent(event));
  sink.end(processes.map((process, at) => processTotals({ process, ...totals[at] })));
  return sink.analysis;
}

const main = processes.map((process) => traceLane({ index: process.index, process }));

/** Rank `rank` enters collective 7 at `at` seconds, and leaves it after `length`, or never. */
const enters = (rank: number, at: number, length?: number): Partial<TraceEvent> => ({
  ...{ kind: 'collective', name: 'all_reduce', group: 'world', sequence: 7, lane: main[rank] as TraceEvent['lane'] },
  ...{ state: length === undefined ? 'open' : 'whole', start: traceTime(at * 1e9), length: nanos((length ?? 0) * 1e9) },
});

const heard = (seconds: number): Partial<ProcessTotals> => ({ ended: false, until: traceTime(seconds * 1e9) });

describe('a run that hangs', () => {
  it('says who is inside of what, and who never came', () => {
    const { findings } = analysed([enters(0, 1), enters(1, 2)], [heard(31), heard(31), heard(30)]);
    expect(findings[0]).toEqual({
      ...{ severity: 'alert', kind: 'hang', ranks: [2], from: 1e9, until: 31e9 },
      text: 'ranks 0, 1 are inside of all_reduce 7 of group world for 30.0 s; rank 2 never entered it',
    });
    // The first that fell silent comes first.
    expect(findings[1]?.text).toBe('rank 2 (pid 42) stopped without saying goodbye');
    expect(findings[2]?.text).toBe('rank 0 (pid 40) stopped without saying goodbye, inside of all_reduce for 30.0 s');
    expect(findings[2]).toMatchObject({ kind: 'rank_lost', from: 31e9, until: 31e9 });
  });

  it('comes before its ranks, which were killed at its end, but after one that died in its midst', () => {
    const decidingOf = (totals: Partial<ProcessTotals>[]) => runStateOf(analysed([enters(0, 1), enters(1, 2)], totals).findings);
    expect(decidingOf([heard(31), heard(31), heard(30)])).toMatchObject({ state: 'hung', findings: [{ kind: 'hang', ranks: [2] }] });
    expect(decidingOf([heard(31), heard(31), heard(20)])).toMatchObject({ state: 'dead' });
    // Ranks are killed as soon as one has died.
    expect(decidingOf([heard(9), heard(9), heard(8)])).toMatchObject({ state: 'dead' });
  });

  it('says who called something else', () => {
    const { findings } = analysed([enters(0, 1), { ...enters(1, 2), name: 'broadcast' }, enters(2, 2)], [heard(31), heard(31), heard(30)]);
    expect(findings[0]).toMatchObject({
      ...{ kind: 'hang', ranks: [1] },
      text: 'ranks 0, 2 are inside of all_reduce 7 of group world for 30.0 s; rank 1 called broadcast instead',
    });
  });

  it('waits before it calls anything of a live run a hang, or a rank lost', () => {
    const totals = [heard(4), heard(4), heard(4)];
    expect(analysed([enters(0, 1), enters(1, 2)], totals, { isLive: true }).findings).toEqual([]);
    expect(analysed([enters(0, 1), enters(1, 2)], totals.fill(heard(20)), { isLive: true }).findings).toMatchObject([
      { kind: 'hang', ranks: [2] },
    ]);
  });

  it('calls nothing a hang that is no longer than steps are', () => {
    const step = { kind: 'step', name: 'ProfilerStep#1', step: 1, lane: main[0] as TraceEvent['lane'], length: nanos(20e9) } as const;
    const { findings } = analysed([step, enters(0, 21), enters(1, 22)], [heard(31), heard(31), heard(31)]);
    expect(findings.map(({ kind }) => kind)).not.toContain('hang');
  });
});

describe('what is missing or uncertain', () => {
  it('has a severity, and the worst comes first', () => {
    const conflict = { time: 50e9, hosts: ['boot'], slack: 2000, isAtStep: false };
    const { findings } = analysed([], [{ dropped: droppedCounts({ events: 3 }) }], {
      header: { worldSize: 4, clockConflicts: [conflict] },
    });
    expect(findings.map(({ severity, kind }) => [severity, kind])).toEqual([
      ['alert', 'rank_missing'],
      ['warning', 'data_loss'],
      ['warning', 'clock_conflict'],
    ]);
    expect(findings[2]).toMatchObject({ ranks: [0, 1, 2], from: 40e9, until: 60e9 });
  });

  it('says the same of many ranks once', () => {
    const sink = analysisSink();
    const many = Array.from({ length: 100 }, (_, rank) => traceProcess({ index: rank + 1, rank, alignment: rank > 0 ? unaligned : exact }));
    sink.begin(traceHeader(many));
    sink.end(many.map((process) => processTotals({ process })));
    const { findings } = sink.analysis;
    expect(findings).toHaveLength(8);
    expect(findings.at(-1)?.text).toBe('92 more like these, of ranks 8, 9, 10, 11, 12, 13, 14, 15 and 84 more');
    expect(findings.at(-1)?.ranks).toHaveLength(92);
  });

  it('is nothing before anything was reported', () => {
    expect(analysisSink().analysis).toMatchObject({ findings: [], waiting: [] });
  });

  it('reports calls that failed', () => {
    const call = {
      kind: 'rpc',
      name: 'fetch',
      side: 'client',
      peer: 'store',
      status: 'error',
      traceId: 'a',
      spanId: 'b',
      length: nanos(5),
    } as const;
    expect(analysed([call, { ...call, status: 'ok', spanId: 'c' }]).findings).toMatchObject([
      { severity: 'note', kind: 'failed_calls', text: '1 of 2 calls of fetch failed', ranks: [0] },
    ]);
  });
});

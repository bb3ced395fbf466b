import { type Batch, type BatchHeader, createEventTables, type LiveMessage, rankTime } from '@ranktrace/protocol';
import { describe, expect, test } from 'vitest';
import { aggregatorLimits as limits } from '../model/limits.ts';
import { startAggregator } from '../service.ts';
import { makeBatch, makeHeader } from '../testing/make-batch.ts';
import { temporaryDirectory } from '../testing/temporary-directory.ts';
import { countAlerts, Metrics } from './metrics.ts';

const ms = 1e6;
const second = 1_000_000_000n;

interface Step {
  readonly step: number;
  readonly lengthMs: number;
  readonly overheadMs?: number;
  readonly phasesMs?: Readonly<Record<string, number>>;
}

/** A batch with these steps; `edit` adds other rows. */
function batchOf(
  header: Partial<BatchHeader>,
  steps: readonly Step[],
  edit: (batch: Batch, text: (of: string) => number) => void = () => {},
) {
  const strings = [''];
  const text = (of: string): number => (strings.includes(of) ? strings.indexOf(of) : strings.push(of) - 1);
  const tables = createEventTables();
  for (const { step, lengthMs, overheadMs = 0, phasesMs = {} } of steps) {
    tables.steps.append({ start: step * ms, length: lengthMs * ms, track: 1, step, overhead: overheadMs * ms });
    for (const [name, length] of Object.entries(phasesMs)) tables.phases.append({ step, name: text(name), length: length * ms, calls: 1 });
  }
  const batch: Batch = { header: makeHeader(header), strings, tables };
  edit(batch, text);
  return batch;
}

/** Metrics of a service whose monotonic clock stands where the test puts it. */
function metricsAt(nowNs: () => bigint, { runs = ['demo'], ranks = 4 } = {}) {
  const rankOf = (rank: number): LiveMessage['runs'][number]['ranks'][number] => ({
    ...{ rank, incarnation: '0001', host: 'host-a', hostName: 'a', batches: 3, missing: rank === 1 ? 2 : 0, events: 10, step: 7 + rank },
    ...{
      dropped: { events: rank, arguments: 0, names: 0, batches: 0 },
      ended: rank === 3,
      state: rank === 3 ? 'ended' : 'live',
      silentMs: 0,
      inside: null,
      insideMs: 0,
    },
  });
  const status = (): LiveMessage => ({
    type: 'status',
    runs: runs.map((run) => ({ run, worldSize: ranks, ranks: Array.from({ length: ranks }, (_, rank) => rankOf(rank)) })),
    quarantined: 5,
    expired: 0,
  });
  return new Metrics({ status, clock: { host: 'service', monotonicNs: nowNs } });
}

/** Lines of `text` about `name`, without help. */
const linesOf = (text: string, name: string): string[] => text.split('\n').filter((line) => line.startsWith(name));

/** The value of one series; undefined where there is none. */
function seriesOf(text: string, series: string): number | undefined {
  const line = text.split('\n').find((line) => line.startsWith(`${series} `));
  return line === undefined ? undefined : Number(line.slice(series.length + 1));
}

describe('metrics', () => {
  test('of a job that was started again with fewer ranks are those of the ranks it has, and count what all stored', async () => {
    using directory = temporaryDirectory();
    await using aggregator = await startAggregator({ out: directory.path });
    for (const rank of [0, 1, 2, 3]) aggregator.ingest(makeBatch({ rank, worldSize: 4, sequence: rank, spans: 10 }));
    const eventsOf = async (): Promise<(number | undefined)[]> => {
      const text = await (await fetch(`${aggregator.address}/metrics`)).text();
      return ['world_size', 'last_step', 'events_total'].map((name) => seriesOf(text, `ranktrace_${name}{run="demo"}`));
    };
    expect(await eventsOf()).toEqual([4, 0, 44]);
    for (const rank of [0, 1]) aggregator.ingest(makeBatch({ rank, worldSize: 2, incarnation: '0002', sequence: 9, spans: 10 }));
    expect(await eventsOf()).toEqual([2, 9, 66]);
  });

  test('count steps and phases by run', async () => {
    const metrics = metricsAt(() => second);
    metrics.stored(batchOf({}, [{ step: 0, lengthMs: 210, phasesMs: { forward: 90, all_reduce: 60 } }]), 1000);
    metrics.stored(batchOf({ rank: 1 }, [{ step: 0, lengthMs: 190, phasesMs: { forward: 100 } }]), 500);
    metrics.answered({ result: 'stored' });
    metrics.answered({ result: 'refused' });
    const text = await metrics.text();
    expect(seriesOf(text, 'ranktrace_step_duration_seconds_count{run="demo"}')).toBe(2);
    expect(seriesOf(text, 'ranktrace_step_duration_seconds_sum{run="demo"}')).toBeCloseTo(0.4);
    expect(seriesOf(text, 'ranktrace_step_duration_seconds_bucket{le="0.256",run="demo"}')).toBe(2);
    expect(seriesOf(text, 'ranktrace_phase_duration_seconds_sum{run="demo",phase="forward"}')).toBeCloseTo(0.19);
    expect(seriesOf(text, 'ranktrace_batch_bytes_total')).toBe(1500);
    expect(seriesOf(text, 'ranktrace_batches_total{result="stored"}')).toBe(1);
    expect(seriesOf(text, 'ranktrace_batches_total{result="refused"}')).toBe(1);
    expect(seriesOf(text, 'ranktrace_quarantined_batches_total')).toBe(5);
  });

  test('count batches of every result from the start: rules see the first one that is refused', async () => {
    const text = await metricsAt(() => second).text();
    const counts = ['stored', 'duplicate', 'refused', 'unavailable'].map((result) =>
      seriesOf(text, `ranktrace_batches_total{result="${result}"}`),
    );
    expect(counts).toEqual([0, 0, 0, 0]);
  });

  test('report losses, ranks and the last step as the status has them, however often they are asked', async () => {
    const metrics = metricsAt(() => second);
    metrics.stored(batchOf({}, []), 10);
    await metrics.text();
    const text = await metrics.text();
    expect(seriesOf(text, 'ranktrace_lost_total{run="demo",what="events"}')).toBe(6);
    expect(seriesOf(text, 'ranktrace_missing_batches{run="demo"}')).toBe(2);
    expect(seriesOf(text, 'ranktrace_events_total{run="demo"}')).toBe(40);
    expect(seriesOf(text, 'ranktrace_ranks{run="demo",state="live"}')).toBe(3);
    expect(seriesOf(text, 'ranktrace_ranks{run="demo",state="ended"}')).toBe(1);
    // Rank 3 has ended: rank 0 is the last of the active ones.
    expect(seriesOf(text, 'ranktrace_last_step{run="demo"}')).toBe(7);
  });

  test('find who works longer, though all steps are equally long', async () => {
    const metrics = metricsAt(() => second);
    for (const [rank, work] of [100, 101, 140, 99].entries()) {
      const steps = Array.from({ length: 40 }, (_, step) => ({
        ...{ step, lengthMs: 150, overheadMs: rank === 1 ? 3 : 0 },
        phasesMs: { backward: work, all_reduce: 150 - work },
      }));
      metrics.stored(batchOf({ rank }, steps), 10);
    }
    const text = await metrics.text();
    expect(seriesOf(text, 'ranktrace_rank_excess_seconds{run="demo",rank="2"}')).toBeCloseTo(0.04);
    expect(seriesOf(text, 'ranktrace_rank_excess_seconds{run="demo",rank="0"}')).toBeCloseTo(0);
    expect(seriesOf(text, 'ranktrace_cluster_step_seconds{run="demo"}')).toBeCloseTo(0.15);
    expect(seriesOf(text, 'ranktrace_recording_overhead_ratio{run="demo"}')).toBeCloseTo(0.02);
  });

  test('bound the clock of another host by its best ping, and the wait of a batch by that', async () => {
    let now = 100n * second;
    const metrics = metricsAt(() => now);
    // This rank's clock is at 0 where ours is at 90 s: 10 s are 100 s.
    const header = { host: 'elsewhere', epoch: '0', watermark: rankTime(9_500 * ms) };
    const batch = batchOf(header, [], ({ tables }, text) => {
      const [host, hostEpoch] = [text('service'), text(String(90n * second))];
      const ping = (sentMs: number, wayMs: number, backMs: number): void => {
        const remote = (sentMs + wayMs) * ms;
        const received = (sentMs + wayMs + backMs) * ms;
        tables.clockSamples.append({ sent: sentMs * ms, received, remoteReceived: remote, remoteSent: remote, host, hostEpoch });
      };
      ping(9_000, 8, 4);
      ping(9_200, 2, 2);
    });
    metrics.stored(batch, 10);
    metrics.stored(batchOf({ rank: 1, host: 'service', epoch: '0', watermark: rankTime(99_000 * ms) }, []), 10);
    metrics.stored(batchOf({ rank: 2, host: 'unknown' }, []), 10);
    now += 10n * second;
    const text = await metrics.text();
    // Half of 4 ms, and 50 ppm of the 10.798 s since.
    expect(seriesOf(text, 'ranktrace_clock_bound_seconds{run="demo",rank="0"}')).toBeCloseTo(0.002 + 50e-6 * 10.798, 6);
    expect(seriesOf(text, 'ranktrace_clock_bound_seconds{run="demo",rank="1"}')).toBe(0);
    expect(seriesOf(text, 'ranktrace_clock_bound_seconds{run="demo",rank="2"}')).toBeUndefined();
    expect(seriesOf(text, 'ranktrace_clocks_unknown{run="demo"}')).toBe(1);
    expect(seriesOf(text, 'ranktrace_ingest_lag_seconds_count{run="demo"}')).toBe(2);
    expect(seriesOf(text, 'ranktrace_ingest_lag_seconds_sum{run="demo"}')).toBeCloseTo(0.5 + 1, 3);
    expect(seriesOf(text, 'ranktrace_rank_silence_seconds{run="demo"}')).toBeCloseTo(10);
  });

  test('report what ranks sample of their GPUs, of live ranks and at most so many', async () => {
    const metrics = metricsAt(() => second);
    const sampled = (rank: number, gpus: number) =>
      batchOf({ rank }, [], ({ tables }, text) => {
        const add = (name: string, value: number) => tables.counters.append({ time: 0, track: 1, name: text(name), unit: 0, value });
        for (let gpu = 0; gpu < gpus; gpu++) add(`GPU ${gpu} gpu utilization`, 80 + gpu);
        add('GPU 0 memory used', 42e9);
        add('GPU 0 sm clock', 1980);
        add('GPU 0 pcie width', 16);
        add('GPU x gpu utilization', 7);
        add('GPU 0 power', Number.NaN);
      });
    metrics.stored(sampled(0, 2), 10);
    metrics.stored(sampled(1, 100), 10);
    // Rank 3 has ended.
    metrics.stored(sampled(3, 1), 10);
    const text = await metrics.text();
    expect(seriesOf(text, 'ranktrace_gpu_utilization_ratio{run="demo",rank="0",gpu="1"}')).toBeCloseTo(0.81);
    expect(linesOf(text, 'ranktrace_gpu_utilization_ratio{run="demo",rank="0"')).toHaveLength(2);
    expect(linesOf(text, 'ranktrace_gpu_utilization_ratio{run="demo",rank="1"')).toHaveLength(limits.metricsGpusMax);
    expect(linesOf(text, 'ranktrace_gpu_utilization_ratio{run="demo",rank="3"')).toEqual([]);
    expect(seriesOf(text, 'ranktrace_gpu_memory_used_bytes{run="demo",rank="0",gpu="0"}')).toBe(42e9);
    expect(seriesOf(text, 'ranktrace_gpu_sm_clock_hertz{run="demo",rank="0",gpu="0"}')).toBe(1.98e9);
    expect(linesOf(text, 'ranktrace_gpu_power_watts{')).toEqual([]);
  });

  test('report how full rings are where ranks say it', async () => {
    const metrics = metricsAt(() => second);
    const batch = batchOf({}, [], ({ tables }, text) => {
      const [unit, rss] = [text('%'), text('rss')];
      tables.counters.append({ time: 0, track: 1, name: rss, unit, value: 1e9 });
      tables.counters.append({ time: 0, track: 1, name: text('ring fill'), unit, value: 12.5 });
    });
    metrics.stored(batch, 10);
    metrics.stored(batchOf({ rank: 1 }, []), 10);
    const text = await metrics.text();
    expect(linesOf(text, 'ranktrace_ring_fill_ratio{')).toEqual(['ranktrace_ring_fill_ratio{run="demo",rank="0"} 0.125']);
  });

  test('have a bounded number of series, whatever runs, ranks and phases are called', async () => {
    const runs = Array.from({ length: limits.metricsRunsMax + 3 }, (_, run) => `run-${run}`);
    const metrics = metricsAt(() => second, { runs, ranks: 2 });
    for (const run of runs) {
      for (let phase = 0; phase < 2 * limits.metricsPhasesMax; phase++) {
        const name = phase === 0 ? `"}\n\u202e${'x'.repeat(500)}` : `phase ${phase}`;
        metrics.stored(batchOf({ run }, [{ step: phase, lengthMs: 10, phasesMs: { [name]: 5 } }]), 10);
      }
    }
    for (let rank = 1; rank < limits.metricsRanksMax + 10; rank++) {
      metrics.stored(batchOf({ run: 'run-0', rank }, [{ step: 60, lengthMs: 10, phasesMs: { work: rank / 100 } }]), 10);
    }
    const text = await metrics.text();
    expect(linesOf(text, 'ranktrace_step_duration_seconds_count{').length).toBe(limits.metricsRunsMax + 1);
    expect(linesOf(text, 'ranktrace_phase_duration_seconds_count{run="run-1"').length).toBe(limits.metricsPhasesMax + 1);
    expect(linesOf(text, 'ranktrace_phase_duration_seconds_count{run="other"').length).toBe(1);
    expect(linesOf(text, 'ranktrace_rank_excess_seconds{run="run-0"').length).toBe(limits.metricsRanksMax + 1);
    expect(seriesOf(text, 'ranktrace_events_total{run="other"}')).toBe(3 * 20);
    expect(text).not.toContain('\u202e');
    expect(Math.max(...text.split('\n').map((line) => line.length))).toBeLessThan(400);
  });

  test('begin anew with a new life of a rank', async () => {
    const metrics = metricsAt(() => second);
    const slow = { step: 1, lengthMs: 100 };
    for (const rank of [0, 1]) metrics.stored(batchOf({ rank }, [slow]), 10);
    for (const rank of [0, 1]) metrics.stored(batchOf({ rank, incarnation: '0002' }, [{ step: 1, lengthMs: 50 }]), 10);
    // A late batch of the earlier life.
    metrics.stored(batchOf({ rank: 0 }, [{ step: 2, lengthMs: 400 }]), 10);
    expect(seriesOf(await metrics.text(), 'ranktrace_cluster_step_seconds{run="demo"}')).toBeCloseTo(0.05);
  });

  test('say what became of sending alerts, by output', async () => {
    const about = { name: 'chat', state: 'failing', waiting: 2, sent: 5, failures: 3, lost: 1, repeated: 9 } as const;
    const never = { lastSentAt: null, lastFailure: null, lastFailureAt: null };
    const status = (): LiveMessage => ({ type: 'status', runs: [], quarantined: 0, expired: 0 });
    const metrics = new Metrics({ status, outputs: () => [{ ...about, ...never }] });
    await metrics.text();
    const text = await metrics.text();
    const counts = ['sent', 'failed', 'lost'].map((result) =>
      seriesOf(text, `ranktrace_alert_deliveries_total{output="chat",result="${result}"}`),
    );
    expect(counts).toEqual([5, 3, 1]);
    expect(seriesOf(text, 'ranktrace_alert_output_waiting{output="chat"}')).toBe(2);
    expect(seriesOf(text, 'ranktrace_alert_output_failing{output="chat"}')).toBe(1);
  });

  test('leave out a run that is over, but for a while not one that fell silent', async () => {
    let now = second;
    const metrics = metricsAt(() => now, { runs: ['demo'] });
    metrics.stored(batchOf({}, [{ step: 1, lengthMs: 100, phasesMs: { forward: 50 } }]), 10);
    metrics.stored(batchOf({ run: 'closed' }, [{ step: 1, lengthMs: 100, phasesMs: { forward: 50 } }]), 10);
    const reported = async (run: string): Promise<number> =>
      linesOf(await metrics.text(), 'ranktrace_').filter((line) => line.includes(run)).length;
    expect(await reported('closed')).toBeGreaterThan(20);
    now += BigInt(limits.metricsIdleMs) * 1_000_000n + 1n;
    expect(await reported('closed')).toBe(0);
    expect(seriesOf(await metrics.text(), 'ranktrace_rank_silence_seconds{run="demo"}')).toBeCloseTo(600);
    now += BigInt(limits.metricsSilentMs) * 1_000_000n;
    expect(await reported('demo')).toBe(0);
  });

  test('count alerts by run, rule and state', () => {
    expect(
      countAlerts([
        { run: 'demo', rule: 'hang', state: 'firing' },
        { run: 'demo', rule: 'hang', state: 'firing' },
        { run: 'other', rule: 'hang', state: 'firing' },
        { run: 'demo', rule: 'step_time', state: 'resolved' },
      ]),
    ).toEqual([
      { run: 'demo', rule: 'hang', state: 'firing', count: 2 },
      { run: 'other', rule: 'hang', state: 'firing', count: 1 },
      { run: 'demo', rule: 'step_time', state: 'resolved', count: 1 },
    ]);
  });
});

test('GET /metrics answers who may ask, in the format of Prometheus', async () => {
  using directory = temporaryDirectory();
  await using aggregator = await startAggregator({ out: directory.path, token: 'secret' });
  expect(aggregator.ingest(makeBatch()).result).toBe('stored');
  expect(aggregator.ingest(makeBatch()).result).toBe('duplicate');
  expect(aggregator.ingest(new Uint8Array(7)).result).toBe('refused');
  expect((await fetch(`${aggregator.address}/metrics`)).status).toBe(401);
  const answer = await fetch(`${aggregator.address}/metrics`, { headers: { authorization: 'Bearer secret' } });
  expect(answer.status).toBe(200);
  expect(answer.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
  const text = await answer.text();
  for (const result of ['stored', 'duplicate', 'refused']) expect(seriesOf(text, `ranktrace_batches_total{result="${result}"}`)).toBe(1);
  expect(seriesOf(text, 'ranktrace_step_duration_seconds_count{run="demo"}')).toBe(1);
  expect(seriesOf(text, 'ranktrace_quarantined_batches_total')).toBe(1);
  expect(seriesOf(text, 'ranktrace_process_resident_bytes')).toBeGreaterThan(1e6);
});

test('a restarted service goes on counting events from the store', async () => {
  using directory = temporaryDirectory();
  {
    await using aggregator = await startAggregator({ out: directory.path });
    aggregator.ingest(makeBatch());
  }
  await using aggregator = await startAggregator({ out: directory.path });
  aggregator.ingest(makeBatch({ sequence: 1 }));
  const text = await (await fetch(`${aggregator.address}/metrics`)).text();
  expect(seriesOf(text, 'ranktrace_events_total{run="demo"}')).toBe(18);
  expect(seriesOf(text, 'ranktrace_step_duration_seconds_count{run="demo"}')).toBe(1);
});

// The service's metrics for Prometheus: `GET /metrics`. docs/metrics.md explains each; a test compares it to this file.
//
//   stored batch ──► histograms, windows of the last steps          while it is taken in: a few numbers per step
//   scrape       ──► gauges and totals from the windows and the live state
//
// Invariant: series are bounded by runs × (ranks × GPUs + phases), each at most its limit; `other` takes the overflow: the sum of counts, the worst
// of everything else. Finished runs, and runs silent for very long, are no longer reported and leave their room to others.
// Invariant: nothing here throws into ingest: values are numbers, labels are text.

import type { Alert, Batch, LiveMessage, RankStatus } from '@ranktrace/protocol';
import { Counter, Gauge, Registry } from 'prom-client';
import type { OutputStatus } from '../alert/output-queue.ts';
import { hostId } from '../model/host-id.ts';
import { aggregatorLimits as limits } from '../model/limits.ts';
import type { PrunedFile, PruneResult } from '../prune/prune-store.ts';
import { gpuCounters } from './gpu-metrics.ts';
import { SeriesHistogram } from './histogram.ts';
import { RankMetrics, type ServiceClock } from './rank-metrics.ts';
import { otherLabel, RunSeries } from './run-series.ts';
import { stepWindow } from './step-window.ts';

/** Number of alerts of a run and a rule in one state. */
export interface AlertCount {
  readonly run: string;
  readonly rule: string;
  readonly state: string;
  readonly count: number;
}

/** Alerts by run, rule and state. */
export function countAlerts(alerts: Iterable<Pick<Alert, 'run' | 'rule' | 'state'>>): readonly AlertCount[] {
  const counts = new Map<string, AlertCount>();
  for (const { run, rule, state } of alerts) {
    const key = `${run} ${rule} ${state}`;
    counts.set(key, { run, rule, state, count: (counts.get(key)?.count ?? 0) + 1 });
  }
  return [...counts.values()];
}

/** A metric, without its values. */
export interface MetricAbout {
  readonly name: string;
  readonly type: 'counter' | 'gauge' | 'histogram';
  readonly labels: readonly string[];
}

export interface MetricsOptions {
  readonly status: () => LiveMessage;
  /** Ranks of a run that its job no longer has: they count in what was stored and lost. */
  readonly former?: ((run: string) => readonly RankStatus[]) | undefined;
  /** Alerts that are kept. */
  readonly alerts?: (() => readonly AlertCount[]) | undefined;
  /** Results of their delivery. */
  readonly outputs?: (() => readonly OutputStatus[]) | undefined;
  /** Default: this host's. */
  readonly clock?: ServiceClock | undefined;
}

/** 1 ms to 524 s, each twice the one before. */
const stepBuckets = Array.from({ length: 20 }, (_, at) => 0.001 * 2 ** at);
const lagBuckets = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 300, 3600];

interface RunMetrics {
  readonly series: RunSeries;
  readonly ranks: Map<number, RankMetrics>;
  /** ms of our monotonic clock. */
  lastBatchAt: number;
}

export class Metrics {
  readonly #options: MetricsOptions;
  readonly #clock: ServiceClock;
  readonly #registry = new Registry();
  readonly #all: MetricAbout[] = [];
  readonly #runs = new Map<string, RunMetrics>();

  readonly #batches = this.#counter('ranktrace_batches_total', 'Batches that came, by what became of them', ['result']);
  readonly #bytes = this.#counter('ranktrace_batch_bytes_total', 'Bytes of stored batches, as they came', []);
  readonly #quarantined = this.#counter('ranktrace_quarantined_batches_total', 'Batches that could not be read and were kept aside', []);
  readonly #expired = this.#counter('ranktrace_expired_batches_total', 'Batches that NATS deleted before they were read', []);
  readonly #events = this.#counter('ranktrace_events_total', 'Events stored', ['run']);
  readonly #lost = this.#counter('ranktrace_lost_total', 'What ranks recorded and the store does not have', ['run', 'what']);
  // No counter: a batch that comes late ends its gap.
  readonly #missing = this.#gauge('ranktrace_missing_batches', 'Gaps in the batches that came', ['run']);
  readonly #cpu = this.#counter('ranktrace_process_cpu_seconds_total', 'CPU time of the service', []);
  readonly #memory = this.#gauge('ranktrace_process_resident_bytes', 'Resident memory of the service', []);
  readonly #steps = this.#histogram('ranktrace_step_duration_seconds', 'Steps of all ranks', ['run'], stepBuckets);
  readonly #phases = this.#histogram('ranktrace_phase_duration_seconds', 'Phases of the steps of all ranks', ['run', 'phase'], stepBuckets);
  readonly #lag = this.#histogram('ranktrace_ingest_lag_seconds', 'From recording to storing, by batch', ['run'], lagBuckets);
  readonly #worldSize = this.#gauge('ranktrace_world_size', 'Ranks that a run is to have', ['run']);
  readonly #ranks = this.#gauge('ranktrace_ranks', 'Ranks seen, by state', ['run', 'state']);
  readonly #lastStep = this.#gauge('ranktrace_last_step', 'The last step that all ranks finished', ['run']);
  readonly #clusterStep = this.#gauge('ranktrace_cluster_step_seconds', 'Median of the last steps, each as long as its slowest rank', [
    'run',
  ]);
  readonly #excess = this.#gauge(
    'ranktrace_rank_excess_seconds',
    'Own work per step above that of the median rank, in all or in one phase',
    ['run', 'rank'],
  );
  readonly #clockBound = this.#gauge('ranktrace_clock_bound_seconds', 'Bound of a rank clock against the service', ['run', 'rank']);
  readonly #unaligned = this.#gauge('ranktrace_clocks_unknown', 'Live ranks whose clock nothing relates to that of the service', ['run']);
  readonly #ringFill = this.#gauge('ranktrace_ring_fill_ratio', 'Fullest state of the ring of a rank when last sampled', ['run', 'rank']);
  readonly #silence = this.#gauge('ranktrace_rank_silence_seconds', 'Since the last batch of the live rank silent longest', ['run']);
  readonly #overhead = this.#gauge('ranktrace_recording_overhead_ratio', 'What recording takes of the steps, on the worst rank', ['run']);
  readonly #gpus = gpuCounters.map(({ metric, help }) => this.#gauge(metric, help, ['run', 'rank', 'gpu']));
  readonly #storeBytes = this.#gauge('ranktrace_store_bytes', 'What all runs hold on disk, when last looked at', []);
  readonly #pruned = this.#counter('ranktrace_pruned_bytes_total', 'Bytes that retention removed, by what they were', ['what']);
  readonly #alerts = this.#gauge('ranktrace_alerts', 'Alerts kept, by run, rule and state', ['run', 'rule', 'state']);
  readonly #deliveries = this.#counter('ranktrace_alert_deliveries_total', 'Alerts for an output, by what became of them', [
    'output',
    'result',
  ]);
  readonly #undelivered = this.#gauge('ranktrace_alert_output_waiting', 'Alerts that wait for an output', ['output']);
  readonly #failing = this.#gauge('ranktrace_alert_output_failing', 'Whether the last try of an output failed', ['output']);

  constructor(options: MetricsOptions) {
    this.#options = options;
    // A counter that exists from the start shows its first increment, too.
    for (const what of ['detail', 'steps', 'trace', 'capture'] as const satisfies readonly PrunedFile['what'][])
      this.#pruned.inc({ what }, 0);
    for (const result of ['stored', 'duplicate', 'refused', 'unavailable'] as const) this.#batches.inc({ result }, 0);
    this.#clock = options.clock ?? { host: hostId(), monotonicNs: () => process.hrtime.bigint() };
  }

  /** The content type of the answer to `GET /metrics`. */
  get contentType(): string {
    return this.#registry.contentType;
  }

  /** Every metric, in the order of this file. */
  get all(): readonly MetricAbout[] {
    return this.#all;
  }

  /** Counts a batch by the result of ingest. */
  answered({ result }: { readonly result: 'stored' | 'duplicate' | 'refused' | 'unavailable' }): void {
    this.#batches.inc({ result });
  }

  /** Takes a batch that was stored with this many bytes. */
  stored(batch: Batch, bytes: number, isLatest = true): void {
    const { run: name, rank: number } = batch.header;
    this.#bytes.inc(bytes);
    const run = this.#run(name);
    run.lastBatchAt = this.#nowMs();
    let rank = run.ranks.get(number);
    if (rank === undefined) {
      if (run.ranks.size >= limits.metricsRanksKeptMax) return;
      rank = new RankMetrics(this.#clock);
      run.ranks.set(number, rank);
    }
    const lag = rank.add(batch, run.series, isLatest);
    if (lag !== undefined) run.series.lag.observe(lag / 1e9);
  }

  /** Takes the result of a look by retention. */
  pruned({ pruned, bytesAfter }: Pick<PruneResult, 'pruned' | 'bytesAfter'>): void {
    this.#storeBytes.set(bytesAfter);
    for (const { what, bytesBefore, bytesAfter } of pruned) this.#pruned.inc({ what }, Math.max(0, bytesBefore - bytesAfter));
  }

  /** The text that answers a scrape. */
  text(): Promise<string> {
    const status = this.#options.status();
    this.#forgetIdle(status);
    this.#collect(status);
    return this.#registry.metrics();
  }

  #collect({ runs, quarantined, expired }: LiveMessage): void {
    const { alerts, outputs } = this.#options;
    for (const metric of [this.#quarantined, this.#expired, this.#events, this.#lost, this.#cpu]) metric.reset();
    for (const metric of this.#perRun) metric.reset();
    this.#quarantined.inc(quarantined);
    this.#expired.inc(expired);
    const { user, system } = process.cpuUsage();
    this.#cpu.inc((user + system) / 1e6);
    this.#memory.set(process.memoryUsage.rss());
    const worst = new Worst();
    for (const { run: name, worldSize, ranks } of runs) {
      const run = this.#runs.get(name);
      if (run !== undefined) this.#collectRun(run, worldSize, ranks, this.#options.former?.(name) ?? [], worst);
    }
    worst.set();
    this.#alerts.reset();
    for (const { run, rule, state, count } of alerts?.() ?? []) {
      this.#alerts.inc({ run: this.#runs.get(run)?.series.label ?? otherLabel, rule, state }, count);
    }
    this.#deliveries.reset();
    for (const { name: output, state, waiting, sent, failures, lost } of outputs?.() ?? []) {
      for (const [result, count] of Object.entries({ sent, failed: failures, lost })) this.#deliveries.inc({ output, result }, count);
      this.#undelivered.set({ output }, waiting);
      this.#failing.set({ output }, state === 'failing' ? 1 : 0);
    }
  }

  get #perRun(): readonly Gauge[] {
    return [
      ...[this.#missing, this.#worldSize, this.#ranks, this.#lastStep, this.#clusterStep, this.#excess, this.#clockBound],
      ...[this.#unaligned, this.#ringFill, this.#silence, this.#overhead, ...this.#gpus],
    ];
  }

  #collectRun(
    { series: { label: run }, ranks: known }: RunMetrics,
    worldSize: number,
    statuses: readonly RankStatus[],
    former: readonly RankStatus[],
    worst: Worst,
  ): void {
    const isFormer = new Set(former.map(({ rank }) => rank));
    const ranks = new Map([...known].filter(([rank]) => !isFormer.has(rank)));
    const live = statuses.filter(({ ended }) => !ended);
    this.#worldSize.inc({ run }, worldSize);
    this.#ranks.inc({ run, state: 'live' }, live.length);
    this.#ranks.inc({ run, state: 'ended' }, statuses.length - live.length);
    const reported = (live.length > 0 ? live : statuses).map(({ step }) => step);
    if (run !== otherLabel && reported.length > 0) this.#lastStep.set({ run }, Math.min(...reported));
    const lost = { events: 0, arguments: 0, names: 0, batches: 0 };
    let events = 0;
    let gaps = 0;
    for (const { dropped, missing, events: stored } of [...statuses, ...former]) {
      events += stored;
      lost.events += dropped.events;
      lost.arguments += dropped.arguments;
      lost.names += dropped.names;
      lost.batches += dropped.batches;
      gaps += missing;
    }
    this.#events.inc({ run }, events);
    for (const [what, count] of Object.entries(lost)) this.#lost.inc({ run, what }, count);
    this.#missing.inc({ run }, gaps);

    const { step, excess } = stepWindow(
      new Map([...ranks].map(([rank, about]) => [rank, { steps: about.steps(), phases: about.ownPhases }])),
    );
    if (step !== undefined) worst.of(this.#clusterStep, { run }, step / 1e9);
    const isLive = new Set(live.map(({ rank }) => rank));
    const labelled = [...ranks.keys()].sort((a, b) => a - b);
    let unknown = 0;
    for (const [place, number] of labelled.entries()) {
      const about = ranks.get(number) as RankMetrics;
      const rank = place < limits.metricsRanksMax ? String(number) : otherLabel;
      const more = excess.get(number);
      if (more !== undefined) worst.of(this.#excess, { run, rank }, more / 1e9);
      if (about.ringFill !== undefined) worst.of(this.#ringFill, { run, rank }, about.ringFill);
      if (about.overhead !== undefined) worst.of(this.#overhead, { run }, about.overhead);
      if (about.clockBound !== undefined) worst.of(this.#clockBound, { run, rank }, about.clockBound / 1e9);
      if (!isLive.has(number)) continue;
      worst.of(this.#silence, { run }, about.silenceSeconds);
      if (about.clockBound === undefined) unknown++;
      for (const [at, { metric }] of gpuCounters.entries()) {
        for (const [gpu, value] of about.gpus.of(metric)) worst.of(this.#gpus[at] as Gauge, { run, rank, gpu }, value);
      }
    }
    this.#unaligned.inc({ run }, unknown);
  }

  /** A run of an earlier life of the service may go on: it has series before its next batch. */
  resumed(run: string): void {
    this.#run(run);
  }

  #run(name: string): RunMetrics {
    const known = this.#runs.get(name);
    if (known !== undefined) return known;
    if (this.#runs.size >= limits.metricsRunsKeptMax) this.#forgetOldest();
    const labelled = [...this.#runs.values()].filter(({ series }) => series.label !== otherLabel).length;
    const histograms = { steps: this.#steps, phases: this.#phases, lag: this.#lag };
    const series = new RunSeries(labelled < limits.metricsRunsMax ? name : otherLabel, histograms);
    const run = { series, ranks: new Map<number, RankMetrics>(), lastBatchAt: this.#nowMs() };
    this.#runs.set(name, run);
    return run;
  }

  /** A run that fell silent without a goodbye needs attention: it stays far longer than a finished one. */
  #forgetIdle({ runs }: LiveMessage): void {
    const unfinished = new Set(runs.filter(({ ranks }) => ranks.some(({ ended }) => !ended)).map(({ run }) => run));
    for (const [name, { lastBatchAt }] of this.#runs) {
      const idleMs = unfinished.has(name) ? limits.metricsSilentMs : limits.metricsIdleMs;
      if (this.#nowMs() - lastBatchAt > idleMs) this.#forget(name);
    }
  }

  #nowMs(): number {
    return Number(this.#clock.monotonicNs()) / 1e6;
  }

  #forgetOldest(): void {
    const [oldest] = [...this.#runs].sort(([, a], [, b]) => a.lastBatchAt - b.lastBatchAt);
    if (oldest !== undefined) this.#forget(oldest[0]);
  }

  #forget(name: string): void {
    this.#runs.get(name)?.series.remove();
    this.#runs.delete(name);
  }

  #counter(name: string, help: string, labelNames: readonly string[]): Counter {
    this.#all.push({ name, type: 'counter', labels: labelNames });
    return new Counter({ name, help, labelNames, registers: [this.#registry] });
  }

  #gauge(name: string, help: string, labelNames: readonly string[]): Gauge {
    this.#all.push({ name, type: 'gauge', labels: labelNames });
    return new Gauge({ name, help, labelNames, registers: [this.#registry] });
  }

  #histogram(name: string, help: string, labels: readonly string[], bounds: readonly number[]): SeriesHistogram {
    this.#all.push({ name, type: 'histogram', labels });
    const histogram = new SeriesHistogram(name, help, bounds);
    histogram.registerIn(this.#registry);
    return histogram;
  }
}

/** The greatest value of each series, where several runs or ranks share one. */
class Worst {
  readonly #series = new Map<Gauge, Map<string, { readonly labels: Record<string, string>; readonly value: number }>>();

  of(gauge: Gauge, labels: Record<string, string>, value: number): void {
    let series = this.#series.get(gauge);
    if (series === undefined) {
      series = new Map();
      this.#series.set(gauge, series);
    }
    const key = `${labels.gpu ?? ''}/${labels.rank ?? ''}/${labels.run ?? ''}`;
    const known = series.get(key);
    if (known === undefined || known.value < value) series.set(key, { labels, value });
  }

  set(): void {
    for (const [gauge, series] of this.#series) for (const { labels, value } of series.values()) gauge.set(labels, value);
  }
}

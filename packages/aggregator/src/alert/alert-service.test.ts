// Alerts of runs that come in through ingest, batch by batch, as ranks send them; the batches set the time. Long, for all of them play into one
// service, whose clock and outputs are set up here.

import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { deflateRawSync } from 'node:zlib';
import {
  type Alert,
  type Batch,
  type BatchHeader,
  batchSubject,
  createEventTables,
  encodeBatch,
  rankTime,
  spanState,
} from '@ranktrace/protocol';
import { type AlertRules, resolveAlertRules } from '@ranktrace/trace/alert';
import { type ClusterOptions, ClusterSimulation, inLaterLife, Random } from '@ranktrace/trace/simulate';
import { describe, expect, test } from 'vitest';
import { createPipeline, type Pipeline } from '../pipeline.ts';
import { fullDisk } from '../testing/full-disk.ts';
import { makeHeader } from '../testing/make-batch.ts';
import { temporaryDirectory } from '../testing/temporary-directory.ts';
import { readAlertLog } from './alert-log.ts';
import { type AlertCapture, AlertService } from './alert-service.ts';

const deflate = (body: Uint8Array): Uint8Array => deflateRawSync(body, { level: 1 });
const began = Date.UTC(2026, 0, 5, 12);

interface ServiceShape {
  readonly rules?: Partial<AlertRules>;
  readonly capture?: AlertCapture;
  readonly page?: string;
  readonly isCutOff?: () => boolean;
}

/** A service over an output directory, with its own clock. */
class Service implements AsyncDisposable {
  readonly pipeline: Pipeline;
  readonly alerts: AlertService;
  readonly reported: Alert[] = [];
  readonly notices: string[] = [];
  readonly resumed: string[] = [];
  nowMs = began;

  constructor(out: string, { rules = {}, capture, page = 'http://127.0.0.1:7400', isCutOff }: ServiceShape = {}) {
    const onNotice = (notice: string): void => {
      this.notices.push(notice);
    };
    this.alerts = new AlertService({
      rules: resolveAlertRules(rules),
      store: (run) => this.pipeline.stores.peek(run),
      page: () => page,
      capture,
      isCutOff,
      onResumed: ({ id }) => this.resumed.push(id),
      onNotice,
      nowMs: () => this.nowMs,
    });
    this.pipeline = createPipeline({ out, alerts: this.alerts, onNotice });
    this.alerts.subscribe((alert) => this.reported.push(alert));
  }

  take(batch: Batch): void {
    expect(this.pipeline.ingest(encodeBatch(batch, deflate)).result).toBe('stored');
  }

  get states(): string[] {
    return this.reported.map(({ rule, state, capture }) => `${rule} ${state}${capture === null ? '' : ` ${capture.state}`}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.alerts[Symbol.asyncDispose]();
    await this.pipeline.stores.close();
    this.pipeline.quarantine.close();
  }
}

/** Sends a simulated cluster's batches, from `from` to `until` ms of its time. */
async function play(service: Service, batches: readonly Batch[], from = 0, until = Number.POSITIVE_INFINITY): Promise<void> {
  let ticked = 0;
  for (const batch of batches) {
    const ms = Math.max(0, batch.header.watermark / 1e6);
    if (ms < from || ms >= until) continue;
    service.nowMs = Math.max(service.nowMs, began + ms);
    service.take(batch);
    if (service.nowMs - ticked < 1000) continue;
    ticked = service.nowMs;
    service.alerts.tick();
    await service.alerts.settled();
  }
  await service.alerts.settled();
}

const stepMs = 40;
/** Backward passes of the simulation are noisy: a baseline takes some 400 steps. */
const [slowFrom, slowUntil] = [500, 900];
function simulated(options: ClusterOptions): Batch[] {
  const batches: Batch[] = [];
  const simulation = new ClusterSimulation({
    ranks: 4,
    hosts: 2,
    steps: 1300,
    stepMs,
    rpcsPerSecond: 0,
    seed: 3,
    run: 'night',
    ...options,
  });
  for (const batch of simulation.batches()) {
    // The simulation reuses its tables.
    if (batch !== undefined) batches.push(structuredCloneOf(batch));
  }
  return batches;
}

function structuredCloneOf({ header, strings, tables }: Batch): Batch {
  const copy = createEventTables() as unknown as Record<string, { columns: unknown; length: number }>;
  for (const [name, { columns, length }] of Object.entries(tables)) {
    copy[name] = Object.assign(copy[name] as object, { columns: structuredClone(columns), length }) as { columns: unknown; length: number };
  }
  return { header: { ...header }, strings: [...strings], tables: copy as unknown as Batch['tables'] };
}

describe('a cluster of which one rank becomes slower, and recovers', () => {
  const stragglers = Array.from({ length: slowUntil - slowFrom }, (_, at) => {
    return { rank: 2, phase: 'forward' as const, ms: 5, step: slowFrom + at };
  });
  const batches = simulated({ stragglers });

  test('is one alert that says who, where and since when, and is resolved', async () => {
    using directory = temporaryDirectory();
    await using service = new Service(directory.path);
    await play(service, batches);
    expect(service.notices).toEqual([]);
    const steps = service.reported.filter(({ rule }) => rule === 'step_time');
    expect(new Set(steps.map(({ id }) => id)).size).toBe(1);
    const [fired, resolved] = [steps[0] as Alert, steps.at(-1) as Alert];
    expect([fired.state, resolved.state]).toEqual(['firing', 'resolved']);
    expect(fired.cause).toMatchObject({ kind: 'straggler', ranks: [2], phase: 'forward', hosts: [expect.any(String)] });
    expect(fired.cause?.share).toBeGreaterThan(0.5);
    expect(fired.ranks).toEqual([2]);
    expect(Math.abs((fired.onsetStep ?? 0) - slowFrom)).toBeLessThanOrEqual(32);
    expect((fired.step ?? 0) - slowFrom).toBeLessThan(128);
    expect(fired.summary).toMatch(/^steps are \d+\.\d % slower since step \d+: .* → .* ms; rank 2 \(.*\), in forward$/);
    const [, from, until] = /^http:\/\/127\.0\.0\.1:7400\/#\/timeline\?run=night&from=(\d+)&until=(\d+)$/.exec(fired.link ?? '') ?? [];
    // Where it was on the run's axis: 500 steps of some 40 ms in.
    expect(Number(from) / 1e6 / slowFrom).toBeGreaterThan(stepMs * 0.8);
    expect(Number(from) / 1e6 / slowFrom).toBeLessThan(stepMs * 1.5);
    expect(Number(until)).toBeGreaterThan(Number(from));
    expect(resolved).toMatchObject({ link: fired.link, cause: fired.cause, firedAt: fired.firedAt });
    expect(Date.parse(fired.firedAt)).toBeLessThan(Date.parse(resolved.resolvedAt ?? ''));
    expect(service.alerts.alerts('night')).toEqual([resolved]);
    // The file holds the reports in the same order.
    expect(readAlertLog(join(directory.path, 'night'))).toEqual({ alerts: [resolved], unreadable: 0 });
    const lines = readFileSync(join(directory.path, 'night', 'alerts.jsonl'), 'utf8')
      .trim()
      .split('\n');
    expect(lines.map((line) => JSON.parse(line))).toEqual(service.reported);
  });

  test('is reported once, also when the service is started again in between', async () => {
    using directory = temporaryDirectory();
    const reported: Alert[] = [];
    const resumed: string[] = [];
    let ms = 0;
    for (const until of [12_000, 31_000, Number.POSITIVE_INFINITY]) {
      await using service = new Service(directory.path);
      service.nowMs = began + ms;
      await play(service, batches, ms, until);
      ms = until;
      reported.push(...service.reported);
      resumed.push(...service.resumed);
      expect(service.notices).toEqual([]);
    }
    const steps = reported.filter(
      ({ state }, at) => state === 'resolved' || reported.findIndex(({ id }) => id === reported[at]?.id) === at,
    );
    expect(steps.map(({ rule, state }) => `${rule} ${state}`)).toEqual(['step_time firing', 'step_time resolved']);
    expect(steps[1]?.resolution).toMatch(/^it went away/);
    expect(resumed).toEqual([steps[0]?.id]);
  });
});

test('a slow-down of all ranks alike names none of them at any time', async () => {
  using directory = temporaryDirectory();
  await using service = new Service(directory.path);
  const random = new Random(5, 'all alike');
  let start = 0;
  for (let step = 0; step < 700; step++) {
    const forward = [0, 1, 2, 3].map(() => Math.round((step < 400 ? 40 : 42.5) * (1 + 0.02 * (random.uniform() - 0.5)) * 1e6));
    const length = Math.max(...forward) + 2e6;
    service.nowMs += length / 1e6;
    for (const [rank, own] of forward.entries()) {
      const tables = createEventTables();
      tables.steps.append({ start, length, track: 1, step, overhead: 0 });
      tables.phases.append({ step, name: 1, length: own, calls: 1 });
      tables.phases.append({ step, name: 2, length: length - own, calls: 1 });
      const header = makeHeader({ run: 'alike', rank, worldSize: 4, sequence: step, watermark: rankTime(start + length) });
      service.take({ header, strings: ['', 'forward', 'all_reduce'], tables });
    }
    start += length;
    await service.alerts.settled();
  }
  expect(service.states).toContain('step_time firing');
  for (const { cause, ranks, summary } of service.reported) {
    expect({ kind: cause?.kind, ranks }).toEqual({ kind: 'cluster_wide', ranks: [] });
    expect(summary).toMatch(/; cluster wide, in forward$/);
  }
});

test.each([
  ['the steps go on', slowFrom],
  ['the steps count from 0 again', 0],
])('ranks that are started again, of which one is slower then: it is named (%s)', async (_, first) => {
  using directory = temporaryDirectory();
  await using service = new Service(directory.path);
  const stragglers = Array.from({ length: 400 }, (_, step) => ({ rank: 2, phase: 'forward' as const, ms: 8, step }));
  await play(service, simulated({ steps: slowFrom }));
  const lifeMs = 60_000;
  const again = simulated({ steps: 400, stragglers }).map((batch) =>
    inLaterLife(batch, { incarnation: `z${batch.header.incarnation.slice(1)}`, seconds: lifeMs / 1000, firstStep: first }),
  );
  service.nowMs = began + lifeMs;
  await play(service, again);
  const alert = service.reported.find(({ rule }) => rule === 'step_time');
  expect(alert?.cause).toMatchObject({ kind: 'straggler', ranks: [2], phase: 'forward' });
  expect((alert?.onsetStep ?? Number.NaN) - first).toBeLessThanOrEqual(32);
});

test('a cluster that does not change is silent', async () => {
  using directory = temporaryDirectory();
  await using service = new Service(directory.path);
  await play(service, simulated({ steps: 700 }));
  expect(service.reported).toEqual([]);
  expect(service.notices).toEqual([]);
});

interface BatchOptions {
  readonly header?: Partial<BatchHeader>;
  readonly facts?: Readonly<Record<string, string>>;
  readonly counters?: Readonly<Record<string, number>>;
  readonly phase?: string;
  /** Recording's part of a step, ns. */
  readonly overhead?: number;
  readonly open?: { readonly sequence: number; readonly state: number };
}

/** Two ranks of one host that send batches of ten steps. */
class Job {
  service: Service;
  readonly #random = new Random(1, 'job');
  #step = 0;
  readonly #sequence = [0, 0];

  constructor(service: Service) {
    this.service = service;
  }

  get step(): number {
    return this.#step;
  }

  /** Ten steps of both ranks, of `ms` each. */
  steps(ms: number, options: BatchOptions = {}, ranks: readonly number[] = [0, 1]): void {
    const lengths = Array.from({ length: 10 }, () => Math.round(ms * 1e6 * this.#random.lognormal(1, 0.004)));
    this.service.nowMs += 10 * ms;
    for (const rank of ranks) this.send(rank, lengths, options);
    this.#step += 10;
    this.service.alerts.tick();
  }

  /** Seconds in which only heartbeats come. */
  pause(seconds: number, options: BatchOptions = {}, ranks: readonly number[] = [0, 1]): void {
    for (let at = 0; at < seconds; at++) {
      this.service.nowMs += 1000;
      for (const rank of ranks) this.send(rank, [], options);
      this.service.alerts.tick();
    }
  }

  send(
    rank: number,
    lengths: readonly number[],
    { header, facts = {}, counters = {}, phase = 'forward', overhead = 0, open }: BatchOptions,
  ): void {
    const strings = ['', phase, 'world', 'all_reduce'];
    const string = (text: string): number => strings.push(text) - 1;
    const tables = createEventTables();
    for (const [key, value] of Object.entries(facts)) tables.metadata.append({ key: string(key), value: string(value) });
    let start = this.#step * 1e8;
    for (const [at, length] of lengths.entries()) {
      const step = this.#step + at;
      tables.steps.append({ start, length, track: 1, step, overhead });
      tables.phases.append({ step, name: 1, length: Math.round(length * 0.7), calls: 1 });
      start += length;
    }
    for (const [name, value] of Object.entries(counters))
      tables.counters.append({ time: start, track: 1, name: string(name), unit: 0, value });
    if (open !== undefined) {
      tables.collectives.append({
        start,
        length: 0,
        track: 1,
        op: 3,
        group: 2,
        sequence: open.sequence,
        bytes: 8,
        id: 0,
        parent: 0,
        state: open.state,
        peer: 0,
      });
    }
    const sequence = this.#sequence[rank] ?? 0;
    const about = makeHeader({ run: 'day', rank, worldSize: 2, watermark: rankTime(start), ...header });
    this.#sequence[rank] = Math.max(sequence, about.sequence) + 1;
    this.service.take({ header: { ...about, sequence: Math.max(sequence, about.sequence) }, strings, tables });
  }
}

async function withJob(use: (job: Job, service: Service) => void | Promise<void>, shape: ServiceShape = {}): Promise<void> {
  using directory = temporaryDirectory();
  await using service = new Service(directory.path, shape);
  await use(new Job(service), service);
  await service.alerts.settled();
}

const many = (times: number, call: (at: number) => void): void => {
  for (let at = 0; at < times; at++) call(at);
};

describe('through ingest', () => {
  test('a planned change of the batch size does not alert; the same without a word does', async () => {
    await withJob(async (job, service) => {
      many(40, (at) => job.steps(100, at === 0 ? { facts: { batch_size: '256', 'some fact': '1' } } : {}));
      many(60, (at) => job.steps(180, at === 0 ? { facts: { batch_size: '512' } } : {}));
      await service.alerts.settled();
      expect(service.reported).toEqual([]);
      many(20, () => job.steps(220));
      await service.alerts.settled();
      expect(service.states).toEqual(['step_time firing']);
      expect(service.reported[0]).toMatchObject({ series: { kind: 'cluster' }, severity: 'critical' });
    });
  });

  test('a stated batch size is known to a service that is started again: what is open stays so, and ends when the steps are well', async () => {
    using directory = temporaryDirectory();
    await using first = new Service(directory.path);
    const job = new Job(first);
    many(40, (at) => job.steps(100, at === 0 ? { facts: { batch_size: '256' } } : {}));
    many(10, () => job.steps(130));
    await first.alerts.settled();
    expect(first.states).toEqual(['step_time firing']);
    await first[Symbol.asyncDispose]();
    await using second = new Service(directory.path);
    second.nowMs = first.nowMs;
    job.service = second;
    many(20, () => job.steps(130));
    await second.alerts.settled();
    expect([second.notices, second.states]).toEqual([[], []]);
    many(40, () => job.steps(100));
    await second.alerts.settled();
    expect(second.reported.at(-1)).toMatchObject({ state: 'resolved', resolution: expect.stringMatching(/^it went away/) });
  });

  test.each([
    ['a collective that a rank does not enter', 41, 'rank 1 never entered it'],
    ['a job that ends no step', undefined, 'after step 199'],
  ])('%s is reported, though the service is started again before it is known', async (_, sequence, text) => {
    const at = (state: number): BatchOptions => (sequence === undefined ? {} : { open: { sequence, state } });
    using directory = temporaryDirectory();
    await using first = new Service(directory.path);
    const job = new Job(first);
    many(20, () => job.steps(100));
    job.send(0, [], at(spanState.open));
    job.pause(20);
    await first.alerts.settled();
    expect(first.states).toEqual([]);
    await first[Symbol.asyncDispose]();
    await using second = new Service(directory.path);
    second.nowMs = first.nowMs + 3600_000;
    job.service = second;
    // They have as long from then on: what they sent meanwhile may be on its way.
    job.pause(55);
    await second.alerts.settled();
    expect([second.notices, second.states]).toEqual([[], []]);
    job.pause(20);
    await second.alerts.settled();
    expect(second.states).toEqual(['hang firing']);
    expect(second.reported[0]?.summary).toContain(text);
    job.steps(100, at(spanState.close));
    await second.alerts.settled();
    expect(second.states).toEqual(['hang firing', 'hang resolved']);
  });

  test('a service that was killed knows no place of ranks that its saved state is too old for', async () => {
    using directory = temporaryDirectory();
    const path = join(directory.path, 'day', 'alert-state.json');
    await using first = new Service(directory.path);
    const job = new Job(first);
    many(20, () => job.steps(100));
    job.send(0, [], { open: { sequence: 41, state: spanState.open } });
    job.pause(35);
    const saved = readFileSync(path);
    job.send(0, [], { open: { sequence: 41, state: spanState.close } });
    await first[Symbol.asyncDispose]();
    writeFileSync(path, saved);
    await using second = new Service(directory.path);
    second.nowMs = first.nowMs;
    job.service = second;
    job.pause(200);
    await second.alerts.settled();
    expect([second.notices, second.states]).toEqual([[], []]);
  });

  test('what a life of a rank lost before the service was started again hides no loss after that', async () => {
    using directory = temporaryDirectory();
    const rules = { off: ['hang', 'rank_stopped'] } as const;
    await using first = new Service(directory.path, { rules });
    const job = new Job(first);
    job.steps(100, { header: { dropped: { events: 1000, arguments: 0, names: 0, batches: 0 } } }, [0]);
    job.send(0, [], { header: { incarnation: '0002' } });
    job.pause(70, { header: { incarnation: '0002' } }, [0]);
    await first.alerts.settled();
    expect(first.states).toEqual(['data_loss firing', 'data_loss resolved']);
    await first[Symbol.asyncDispose]();
    await using second = new Service(directory.path, { rules });
    second.nowMs = first.nowMs;
    job.service = second;
    job.pause(2, { header: { incarnation: '0002' } }, [0]);
    await second.alerts.settled();
    expect(second.states).toEqual([]);
    job.pause(2, { header: { incarnation: '0002', dropped: { events: 7, arguments: 0, names: 0, batches: 0 } } }, [0]);
    await second.alerts.settled();
    expect([second.notices, second.states]).toEqual([[], ['data_loss firing']]);
    expect(second.reported[0]).toMatchObject({ ranks: [0], after: 1007 });
  });

  test('steps with an evaluation in them are none of the others', () =>
    withJob(async (job, service) => {
      many(100, (at) => job.steps(at % 8 === 7 ? 300 : 100, at % 8 === 7 ? { phase: 'evaluate' } : {}));
      await service.alerts.settled();
      expect(service.reported).toEqual([]);
    }));

  test('a rank that stops is reported, and when it is back', () =>
    withJob(async (job, service) => {
      many(20, () => job.steps(100));
      job.pause(40, {}, [0]);
      await service.alerts.settled();
      expect(service.states).toEqual(['rank_stopped firing']);
      expect(service.reported[0]).toMatchObject({ ranks: [1], step: 199, severity: 'critical', onsetAt: null });
      expect(service.reported[0]?.link).toMatch(/timeline\?run=day&from=\d+&until=\d+$/);
      job.steps(100);
      await service.alerts.settled();
      expect(service.states).toEqual(['rank_stopped firing', 'rank_stopped resolved']);
    }));

  test('what a rank dropped, and batches that never came, are data loss', () =>
    withJob(
      async (job, service) => {
        many(5, () => job.steps(100));
        job.steps(100, { header: { dropped: { events: 7, arguments: 0, names: 0, batches: 1 } } }, [0]);
        const same: BatchOptions = { header: { dropped: { events: 7, arguments: 0, names: 0, batches: 1 } } };
        job.pause(2, same, [0]);
        await service.alerts.settled();
        expect(service.states).toEqual(['data_loss firing']);
        expect(service.reported[0]).toMatchObject({ ranks: [0], after: 8, unit: 'count' });
        job.pause(70, same, [0]);
        job.send(1, [], { header: { sequence: 5000 } });
        job.pause(160, {}, [1]);
        await service.alerts.settled();
        expect(service.states).toEqual(['data_loss firing', 'data_loss resolved', 'data_loss firing']);
        expect(service.reported[2]).toMatchObject({ ranks: [1] });
      },
      { rules: { off: ['hang', 'rank_stopped'] } },
    ));

  test('memory that grows step by step is reported, and that it stopped', () =>
    withJob(async (job, service) => {
      const rss = (bytes: number): BatchOptions => ({ counters: { rss: bytes, 'event loop': 3 } });
      many(60, (at) => job.steps(100, rss(1e9 + 3e7 * at)));
      await service.alerts.settled();
      expect(service.states).toEqual(['memory_growth firing']);
      expect(service.reported[0]).toMatchObject({ ranks: [0, 1], unit: 'bytes' });
      expect(service.reported[0]?.after).toBeCloseTo(3e6, -5);
      many(40, () => job.steps(100, rss(3e9)));
      await service.alerts.settled();
      expect(service.states).toEqual(['memory_growth firing', 'memory_growth resolved']);
    }));

  test('recording that takes too much of the steps is reported, and that it does not any more', () =>
    withJob(async (job, service) => {
      many(20, () => job.steps(100, { overhead: 2e6 }));
      many(20, () => job.steps(100, { overhead: 1e5 }));
      await service.alerts.settled();
      expect(service.states).toEqual(['overhead firing', 'overhead resolved']);
      expect(service.reported[0]).toMatchObject({ ranks: [0, 1], before: 0.005, after: expect.closeTo(0.02, 3) });
    }));

  test('steps over an absolute limit are reported, and that they are below it again', () =>
    withJob(
      async (job, service) => {
        many(3, () => job.steps(100));
        many(3, () => job.steps(160));
        many(3, () => job.steps(100));
        await service.alerts.settled();
        expect(service.states).toEqual(['step_time_limit firing', 'step_time_limit resolved']);
        expect(service.reported[0]).toMatchObject({ onsetStep: 30, before: 150e6 });
      },
      { rules: { stepTimeLimitMs: 150 } },
    ));

  test('a collective that a rank never enters is a hang, until it does', () =>
    withJob(async (job, service) => {
      many(5, () => job.steps(100));
      job.send(0, [], { open: { sequence: 41, state: spanState.open } });
      job.pause(70);
      await service.alerts.settled();
      expect(service.states).toEqual(['hang firing']);
      expect(service.reported[0]).toMatchObject({ ranks: [1], severity: 'critical' });
      expect(service.reported[0]?.summary).toMatch(
        /^rank 0 is inside of all_reduce 41 of group world for \d+\.\d s; rank 1 never entered it$/,
      );
      job.send(0, [], { open: { sequence: 41, state: spanState.close } });
      job.steps(100);
      await service.alerts.settled();
      expect(service.states).toEqual(['hang firing', 'hang resolved']);
    }));

  test.each([
    ['a full disk', 'disk'],
    ['a broker out of reach', 'broker'],
  ])('%s is no silence of the ranks; a rank that died by then is reported when it is over', async (_, what) => {
    using directory = temporaryDirectory();
    let isCutOff = false;
    await using service = new Service(directory.path, { isCutOff: () => isCutOff });
    let sequence = 0;
    const second = (ranks: readonly number[], result: string | undefined): void => {
      service.nowMs += 1000;
      for (const rank of ranks) {
        const header = makeHeader({ run: 'day', rank, worldSize: 3, sequence: sequence++, watermark: rankTime(sequence * 1e9) });
        const bytes = encodeBatch({ header, strings: [''], tables: createEventTables() }, deflate);
        if (result !== undefined) expect(service.pipeline.ingest(bytes, batchSubject('day', rank)).result).toBe(result);
      }
      service.alerts.tick();
    };
    many(50, () => second([0, 1, 2], 'stored'));
    {
      using _disk = what === 'disk' ? fullDisk() : undefined;
      isCutOff = what === 'broker';
      many(300, () => second([0, 1], what === 'disk' ? 'unavailable' : undefined));
    }
    isCutOff = false;
    many(40, () => second([0, 1], 'stored'));
    await service.alerts.settled();
    expect(service.states).toEqual([]);
    many(10, () => second([0, 1], 'stored'));
    await service.alerts.settled();
    expect(service.states).toEqual(['rank_stopped firing']);
    expect(service.reported[0]?.ranks).toEqual([2]);
  });

  test('a run that ended leaves nothing open', () =>
    withJob(async (job, service) => {
      many(40, () => job.steps(100));
      many(10, () => job.steps(130));
      await service.alerts.settled();
      expect(service.states).toEqual(['step_time firing']);
      job.pause(1, { header: { last: true } });
      service.nowMs += 600_000;
      service.alerts.tick();
      await service.alerts.settled();
      expect(service.states).toEqual(['step_time firing', 'step_time resolved']);
      expect(service.reported[1]?.resolution).toBe('the run ended');
    }));
});

describe('the trace of the slow steps', () => {
  const slow = (job: Job): void => {
    many(40, () => job.steps(100));
    many(10, () => job.steps(130));
  };

  test('is asked for around the onset; the alert is reported again when it is written', async () => {
    const asked: unknown[] = [];
    const written = {
      path: 'captures/steps.pftrace',
      fromStep: 950,
      toStep: 953,
      ranks: [0],
      late: [1],
      dead: [],
      notes: ['rank 1 is late'],
    };
    const captureSteps: AlertCapture['captureSteps'] = (run, request) => {
      asked.push([run, request]);
      return Promise.resolve({ run, ...written });
    };
    await withJob(
      async (job, service) => {
        slow(job);
        await service.alerts.settled();
        await new Promise((resolve) => setImmediate(resolve));
        expect(service.states).toEqual(['step_time firing pending', 'step_time firing written']);
        const [fired, reported] = service.reported as [Alert, Alert];
        const fromStep = (fired.onsetStep ?? 0) - 3;
        expect(asked).toEqual([['day', { pull: { fromStep, toStep: fired.step }, steps: 4 }]]);
        const { path } = written;
        expect(reported.capture).toEqual({
          state: 'written',
          path,
          fromStep,
          toStep: 953,
          ranks: [0],
          ranksMissing: [1],
          text: 'rank 1 is late',
        });
      },
      { capture: { captureSteps, stepsBefore: 3, stepsAfter: 4 } },
    );
  });

  test('that cannot be recorded is reported, and stops nothing', async () => {
    const captureSteps = (): Promise<never> => Promise.reject(new Error('none of its ranks goes on'));
    await withJob(
      async (job, service) => {
        slow(job);
        many(30, () => job.steps(100));
        await service.alerts.settled();
        await new Promise((resolve) => setImmediate(resolve));
        expect(service.reported.find(({ capture }) => capture?.state === 'failed')?.capture?.text).toBe('none of its ranks goes on');
        expect(service.reported.some(({ state }) => state === 'resolved')).toBe(true);
      },
      { capture: { captureSteps, stepsBefore: 3, stepsAfter: 4 } },
    );
  });
});

describe('what is on disk', () => {
  test('what is open in the log and not known any more is resolved, with what was said of it', async () => {
    using directory = temporaryDirectory();
    const slow = async (service: Service): Promise<void> => {
      const job = new Job(service);
      many(40, () => job.steps(100));
      many(10, () => job.steps(130));
      await service.alerts.settled();
    };
    {
      await using service = new Service(directory.path);
      await slow(service);
      expect(service.states).toEqual(['step_time firing']);
    }
    const run = join(directory.path, 'day');
    writeFileSync(join(run, 'alert-state.json'), '{"version":1,"run":"day"');
    appendFileSync(join(run, 'alerts.jsonl'), '{"torn');
    await using service = new Service(directory.path);
    const job = new Job(service);
    job.send(0, [], { header: { incarnation: '0002' } });
    await service.alerts.settled();
    expect(service.states).toEqual(['step_time resolved']);
    expect(service.reported[0]).toMatchObject({
      resolution: 'the service was started again without alert-state.json, and cannot tell whether it goes on',
      before: expect.any(Number),
    });
    expect(service.notices).toEqual([
      'run day: 1 lines of its alerts cannot be read and are left out',
      expect.stringMatching(/^".*alert-state\.json" is left out: /),
    ]);
    expect(readAlertLog(run).alerts.map(({ state }) => state)).toEqual(['resolved']);
  });

  test('is what was reported, also where steps come and go', () =>
    withJob(
      async (job, service) => {
        many(60, (at) => job.steps(at % 2 === 0 ? 100 : 400));
        await service.alerts.settled();
        expect(service.reported.length).toBeGreaterThan(50);
        const directory = service.pipeline.stores.peek('day')?.directory ?? '';
        expect(readAlertLog(directory).alerts.at(-1)).toEqual(service.reported.at(-1));
      },
      { rules: { stepTimeLimitMs: 200, off: ['step_time', 'step_time_drift'] } },
    ));
});

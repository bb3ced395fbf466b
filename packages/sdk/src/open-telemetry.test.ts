// OpenTelemetry's own SDK, a real profile, real files: the spans of its instrumentation are in the merged trace.

import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Context, propagation, ROOT_CONTEXT, type Span, SpanKind, type SpanOptions, SpanStatusCode, trace } from '@opentelemetry/api';
import { hrTime, W3CTraceContextPropagator } from '@opentelemetry/core';
import { BasicTracerProvider, type SpanProcessor } from '@opentelemetry/sdk-trace-base';
import { inflate, openBatchLog } from '@ranktrace/aggregator';
import { decodeBatch } from '@ranktrace/protocol';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type ReadEvent, readRun } from '../../../test/setup/trace-events.ts';
import type { ProfileOptions } from './model/options.ts';
import { type OpenTelemetrySpan, RanktraceSpanProcessor } from './open-telemetry.ts';
import { type Profile, profile } from './profile/profile.ts';
import { recordFunction } from './profile/record-function.ts';
import { threadRecorder } from './profile/thread-recorder.ts';

propagation.setGlobalPropagator(new W3CTraceContextPropagator());

let directory: string;
let running: Profile | undefined;
let processor: RanktraceSpanProcessor;
let provider: BasicTracerProvider;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'ranktrace-open-telemetry-'));
  processor = new RanktraceSpanProcessor();
  const fits: SpanProcessor = processor;
  provider = new BasicTracerProvider({ spanProcessors: [fits] });
});
afterEach(async () => {
  await running?.stop();
  running = undefined;
  await provider.shutdown();
  rmSync(directory, { recursive: true, force: true });
});

const start = (options: ProfileOptions = {}): Profile => {
  running = profile({ run: 'test', rank: 0, worldSize: 2, directory, sampleIntervalMs: 0, ...options }).start();
  return running;
};
const startSpan = (name: string, options: SpanOptions = {}, context: Context = ROOT_CONTEXT): Span =>
  provider.getTracer('test').startSpan(name, options, context);
const inside = (span: Span): Context => trace.setSpan(ROOT_CONTEXT, span);

async function stopAndRead(): Promise<{ events: readonly ReadEvent[]; findings: readonly string[]; named(name: string): ReadEvent }> {
  await running?.stop();
  const { events, findings } = await readRun(join(directory, 'test'), 'test');
  const named = (name: string): ReadEvent => {
    const found = events.filter((event) => event.name === name);
    expect(found, `events called "${name}" of ${events.map((event) => event.name)}`).toHaveLength(1);
    return found[0] as ReadEvent;
  };
  return { events, findings: findings.filter((text) => !text.startsWith('nothing was heard of')), named };
}

test('each kind becomes its side of a call, or a span, with their ids', async () => {
  start();
  const spans = [SpanKind.CLIENT, SpanKind.SERVER, SpanKind.PRODUCER, SpanKind.CONSUMER, SpanKind.INTERNAL].map((kind) =>
    startSpan(SpanKind[kind], { kind }),
  );
  for (const span of spans) span.end();
  const { named, findings } = await stopAndRead();
  const rows = spans.map((span) => {
    const { kind, side, status, category, traceId, spanId, parentSpanId, arguments: args } = named((span as never as ReadEvent).name);
    expect({ traceId: traceId || args.traceId, spanId: spanId || args.spanId, parentSpanId: parentSpanId || '' }).toEqual({
      traceId: span.spanContext().traceId,
      spanId: span.spanContext().spanId,
      parentSpanId: '',
    });
    return [kind, side, status, category];
  });
  expect(rows).toEqual([
    ['rpc', 'client', 'ok', 'rpc'],
    ['rpc', 'server', 'ok', 'rpc'],
    ['rpc', 'client', 'ok', 'rpc'],
    ['rpc', 'server', 'ok', 'rpc'],
    ['span', '', '', 'open_telemetry'],
  ]);
  expect(findings).toEqual([]);
});

test.for<[what: string, kind: number, attributes: Record<string, string | number>, method: string, peer: string]>([
  [
    'rpc',
    SpanKind.CLIENT,
    { 'rpc.service': 'Ps', 'rpc.method': 'Push', 'server.address': 'head', 'server.port': 50051 },
    'Ps/Push',
    'head:50051',
  ],
  ['rpc, as of 2025', SpanKind.CLIENT, { 'rpc.method': 'pkg.Ps/Push', 'net.peer.name': 'head' }, 'pkg.Ps/Push', 'head'],
  [
    'http with a route',
    SpanKind.SERVER,
    { 'http.request.method': 'GET', 'http.route': '/runs/:id', 'url.path': '/runs/7', 'client.address': '::1', 'client.port': 4711 },
    'GET /runs/:id',
    '::1',
  ],
  ['http with a path', SpanKind.SERVER, { 'http.request.method': 'PUT', 'url.path': '/weights' }, 'PUT /weights', ''],
  [
    'http with a url',
    SpanKind.CLIENT,
    { 'http.request.method': 'GET', 'url.full': 'http://head:80/a/b?token=x', 'server.address': 'head', 'server.port': 80 },
    'GET /a/b',
    'head:80',
  ],
  ['http, before 2023', SpanKind.CLIENT, { 'http.method': 'GET', 'http.target': '/a?b=c', 'peer.service': 'store' }, 'GET /a', 'store'],
  ['messages', SpanKind.PRODUCER, { 'messaging.operation': 'publish', 'messaging.destination.name': 'grads' }, 'publish grads', ''],
  ['anything else', SpanKind.CLIENT, { 'db.system': 'redis', 'rpc.service': 7 }, 'name', ''],
])('method and peer of %s', async ([, kind, attributes, method, peer]) => {
  start();
  startSpan('name', { kind, attributes }).end();
  const { named } = await stopAndRead();
  expect(named(method)).toMatchObject({ kind: 'rpc', peer, arguments: attributes });
});

test('a span has the name that it has at its end', async () => {
  start();
  const spans = [SpanKind.SERVER, SpanKind.INTERNAL].map((kind) => startSpan('GET', { kind }));
  const late = startSpan('late');
  await sleep(600);
  for (const [at, span] of spans.entries()) span.updateName(`renamed ${at}`).end();
  late.updateName('renamed late').end();
  const { named, events } = await stopAndRead();
  for (const name of ['renamed 0', 'renamed 1', 'renamed late']) named(name);
  expect(events.map(({ name }) => name)).not.toContain('GET');
});

test('attributes of the start and the end are arguments: text, numbers, truth values, lists as JSON', async () => {
  start();
  const span = startSpan('work', { attributes: { early: 'a', changed: 1, list: ['x', 'y'] } });
  await sleep(500); // The shipper sends a batch meanwhile.
  span.setAttributes({ late: 2.5, changed: 2, yes: true });
  span.end();
  const { named, findings } = await stopAndRead();
  expect(named('work').arguments).toEqual({
    ...{ traceId: span.spanContext().traceId, spanId: span.spanContext().spanId },
    ...{ early: 'a', changed: 2, list: '["x","y"]', late: 2.5, yes: 'true' },
  });
  expect(findings).toEqual([]);
});

test('attributes beyond 64 are dropped and counted', async () => {
  start();
  const many = (prefix: string, count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, index) => [`${prefix}${index}`, index]));
  const span = startSpan('work', { kind: SpanKind.CLIENT, attributes: many('a', 60) });
  span.setAttributes(many('b', 10));
  span.end();
  const { named, findings } = await stopAndRead();
  expect(Object.keys(named('work').arguments)).toHaveLength(64);
  expect(findings).toEqual(['rank 0: 6 arguments cut by a limit, or left out for an invalid value']);
});

test('an error is the status of a call, and an argument of both', async () => {
  start();
  for (const [name, kind] of [
    ['call', SpanKind.CLIENT],
    ['span', SpanKind.INTERNAL],
  ] as const) {
    const span = startSpan(name, { kind });
    span.setStatus({ code: SpanStatusCode.ERROR, message: 'reset by peer' });
    span.end();
  }
  const { named } = await stopAndRead();
  expect(named('call')).toMatchObject({
    status: 'error',
    arguments: { 'otel.status_code': 'ERROR', 'otel.status_description': 'reset by peer' },
  });
  expect(named('span')).toMatchObject({ status: '', arguments: { 'otel.status_code': 'ERROR' } });
});

describe('times', () => {
  const ns = (ms: number) => ms * 1e6;

  test('are finer than the clock of a span that starts and ends now', async () => {
    const prof = start();
    const turns = Array.from({ length: 10 }, (_, turn) => turn);
    for (const turn of turns) {
      prof.instant(`before ${turn}`);
      const span = startSpan(`now ${turn}`);
      prof.instant(`after ${turn}`);
      await sleep(10);
      span.end();
      prof.instant(`ended ${turn}`);
    }
    const { named } = await stopAndRead();
    const at = (name: string, turn: number) => named(`${name} ${turn}`).start;
    // The system may interrupt this thread between any two lines above, so the best turn decides.
    const least = (error: (turn: number) => number) => Math.min(...turns.map(error));
    expect(least((turn) => Math.max(at('before', turn) - at('now', turn), at('now', turn) - at('after', turn)))).toBeLessThanOrEqual(0);
    // OpenTelemetry reads its clock a little before it calls us.
    expect(least((turn) => Math.abs(at('now', turn) + named(`now ${turn}`).length - at('ended', turn)))).toBeLessThan(ns(1));
    for (const turn of turns) expect(named(`now ${turn}`).length).toBeGreaterThan(ns(9));
  });

  test.for([
    ['as a Date', () => Date.now(), (ms: number) => new Date(ms)],
    ['as numbers since the epoch', () => Date.now(), (ms: number) => ms],
    ['as performance.now()', () => performance.now(), (ms: number) => ms],
    ['as [seconds, ns]', () => performance.now(), hrTime],
  ] as const)('given by the program are kept, %s', async ([, clock, time]) => {
    const prof = start();
    await sleep(500); // Long enough that a batch with a later watermark is gone.
    prof.instant('before');
    const now = clock();
    prof.instant('after');
    startSpan('past', { startTime: time(now - 400) }).end(time(now - 100));
    const { named, findings } = await stopAndRead();
    const { start: begin, length } = named('past');
    expect(begin + ns(400)).toBeGreaterThan(named('before').start - ns(20));
    expect(begin + ns(400)).toBeLessThan(named('after').start + ns(20));
    expect(Math.abs(length - ns(300))).toBeLessThan(ns(20));
    expect(findings).toEqual([]);
  });

  test('an end long ago of a span that was shown as open', async () => {
    const prof = start();
    const began = Date.now();
    const span = startSpan('left', { startTime: new Date(began) });
    await sleep(700);
    span.end(new Date(began + 100));
    prof.instant('now');
    const { named, findings } = await stopAndRead();
    expect(named('left').state).toBe('whole');
    expect(Math.abs(named('left').length - ns(100))).toBeLessThan(ns(20));
    expect(findings).toEqual([]);
  });

  test('in the future, or no times at all, are now', async () => {
    const prof = start();
    startSpan('later', { startTime: new Date(Date.now() + 60_000) }).end(new Date(Date.now() + 120_000));
    const odd = startSpan('odd') as Span & { startTime: unknown };
    odd.startTime = [Number.NaN, 0];
    odd.end();
    prof.instant('now');
    const { named, findings } = await stopAndRead();
    expect(named('later').start).toBeLessThanOrEqual(named('now').start);
    expect(named('later').start + named('later').length).toBeLessThanOrEqual(named('now').start);
    expect(named('odd').length).toBeLessThan(ns(1000));
    expect(findings).toEqual([]);
  });
});

describe('the profile', () => {
  test('a span from before it is not its business, and one that never ends stays open', async () => {
    const early = startSpan('early');
    start();
    early.end();
    startSpan('given an early start', { startTime: new Date(Date.now() - 60_000) }).end();
    startSpan('open', { kind: SpanKind.CLIENT });
    const { events, findings } = await stopAndRead();
    expect(events.filter(({ kind }) => kind === 'span' || kind === 'rpc').map(({ name, state }) => `${name} ${state}`)).toEqual([
      'open open',
    ]);
    expect(findings).toEqual([]);
  });

  test('without one, and after shutdown, nothing is kept', async () => {
    const span = startSpan('nobody');
    span.end();
    start();
    await processor.forceFlush();
    await processor.shutdown();
    startSpan('too late').end();
    expect((await stopAndRead()).events.map(({ name }) => name)).not.toContain('too late');
  });

  test('one after the other has its own spans', async () => {
    const first = start({ run: 'first' });
    const span = startSpan('in both');
    await first.stop();
    start();
    span.end();
    startSpan('second').end();
    const { events } = await stopAndRead();
    expect(events.filter(({ kind }) => kind === 'span').map(({ name }) => name)).toEqual(['second']);
  });

  test('more open spans than the limit are dropped and counted', async () => {
    start();
    const spans = Array.from({ length: 1030 }, (_, index) => startSpan(`span ${index % 3}`));
    for (const span of spans) span.end();
    const { findings, events } = await stopAndRead();
    expect(findings).toEqual(['rank 0: 6 events dropped because the ring or another bound was full, or a value was of the wrong type']);
    expect(events.filter(({ kind, state }) => kind === 'span' && state === 'whole')).toHaveLength(1024);
  });

  test('spans without a name or a shape throw nothing into the program', () => {
    start();
    for (const wrong of [
      {},
      { spanContext: () => ({}) },
      { name: 7, kind: 'x', attributes: null, spanContext: () => ({ traceId: 1, spanId: 2 }) },
    ]) {
      processor.onStart(wrong as never as OpenTelemetrySpan);
      processor.onEnd(wrong as never as OpenTelemetrySpan);
    }
  });
});

test('parts lie inside of their parents, which overlap as they please', async () => {
  start();
  const outer = ['a', 'b'].map((name) => startSpan(name, { kind: SpanKind.SERVER }));
  const inner = outer.map((span, index) => startSpan(`part of ${'ab'[index]}`, {}, inside(span)));
  await sleep(5);
  for (const span of [...inner.reverse(), ...outer]) span.end();
  const { findings } = await stopAndRead();
  const rows = idsByName();
  for (const name of ['a', 'b']) expect(rows.get(`part of ${name}`)?.parent).toBe(rows.get(name)?.id);
  expect(new Set([...rows.values()].map(({ id }) => id)).size).toBe(4);
  expect(findings).toEqual([]);
});

test('a span that begins inside of a function of the program is part of it', async () => {
  start();
  let span: Span | undefined;
  await recordFunction('evaluate', async () => {
    span = startSpan('call', { kind: SpanKind.CLIENT });
    await sleep(1);
    startSpan('later').end();
    span.end();
  });
  await running?.stop();
  const rows = idsByName();
  expect(rows.get('call')?.parent).toBe(rows.get('evaluate')?.id);
  expect(rows.get('later')?.parent).toBe(rows.get('evaluate')?.id);
});

/** Ids of spans and calls in the stored batches. */
function idsByName(): Map<string, { id: number; parent: number }> {
  using log = openBatchLog(join(directory, 'test'));
  const rows = new Map<string, { id: number; parent: number }>();
  for (const source of log.run('test').sources()) {
    for (let index = 0; index < source.count; index++) {
      const { strings, tables } = decodeBatch(source.read(index) as Uint8Array, inflate);
      for (const [columns, names, length] of [
        [tables.spans.columns, tables.spans.columns.name, tables.spans.length],
        [tables.rpcs.columns, tables.rpcs.columns.method, tables.rpcs.length],
      ] as const) {
        for (let row = 0; row < length; row++) {
          rows.set(strings[names[row] ?? 0] ?? '', { id: columns.id[row] ?? 0, parent: columns.parent[row] ?? 0 });
        }
      }
    }
  }
  return rows;
}

test('spans of OpenTelemetry are no phases of the step', async () => {
  const prof = start();
  const span = startSpan('request');
  recordFunction('forward', () => {});
  span.end();
  prof.step();
  const { named } = await stopAndRead();
  expect([...(named('ProfilerStep#0').phases?.keys() ?? [])]).toEqual(['forward']);
});

test('a child ends within its parent, also where our reading of its start comes late', async () => {
  const slow: SpanProcessor = {
    onStart: ({ name }) => {
      const until = performance.now() + (name === 'child' ? 20 : 0);
      while (performance.now() < until);
    },
    onEnd: () => undefined,
    forceFlush: () => Promise.resolve(),
    shutdown: () => Promise.resolve(),
  };
  provider = new BasicTracerProvider({ spanProcessors: [slow, processor] });
  start();
  const parent = startSpan('parent');
  startSpan('child', {}, inside(parent)).end();
  parent.end();
  const { named } = await stopAndRead();
  const [outer, inner] = [named('parent'), named('child')];
  expect(inner.lane).toBe(outer.lane);
  expect(inner.start + inner.length).toBeLessThanOrEqual(outer.start + outer.length);
});

test("a span that starts in the profile's first millisecond is there, also where our reading of its start comes late", async () => {
  start();
  const opened = performance.timeOrigin + (threadRecorder()?.opened ?? 0);
  // OpenTelemetry's clock shows the begin of the millisecond; the second span is one that began before.
  const shown = Math.floor(opened);
  await sleep(5);
  const spans = [shown, shown - 3].map((time, index) =>
    startSpan(`span ${index}`, { startTime: [Math.floor(time / 1000), (time % 1000) * 1e6] }),
  );
  for (const span of spans) span.end();
  const { events, named } = await stopAndRead();
  expect(named('span 0').length).toBeGreaterThan(4e6);
  expect(events.filter(({ name }) => name === 'span 1')).toEqual([]);
});

test('both sides of a call between two processes are one flow', async () => {
  const server = fork(new URL('../../../test/programs/open-telemetry-server.mjs', import.meta.url), {
    env: { ...process.env, RANKTRACE_RUN: 'test', RANKTRACE_DIRECTORY: directory, RANK: '1', WORLD_SIZE: '2' },
    execArgv: [],
  });
  await once(server, 'message');
  start();
  const outer = startSpan('train step');
  const call = startSpan(
    'call',
    { kind: SpanKind.CLIENT, attributes: { 'rpc.service': 'Parameters', 'rpc.method': 'Push' } },
    inside(outer),
  );
  const headers: Record<string, string> = {};
  propagation.inject(inside(call), headers);
  server.send({ headers });
  await once(server, 'message');
  call.end();
  outer.end();
  await running?.stop();
  const { events, findings } = await readRun(join(directory, 'test'), 'test');
  const [client, served] = [0, 1].map((rank) => events.find((event) => event.rank === rank && event.name === 'Parameters/Push'));
  const { traceId, spanId } = call.spanContext();
  expect(client).toMatchObject({ side: 'client', traceId, spanId, parentSpanId: outer.spanContext().spanId });
  expect(served).toMatchObject({ side: 'server', traceId, parentSpanId: spanId, peer: '10.0.0.1' });
  expect(served?.flow).toBe(client?.flow);
  expect(client?.flow).toBe(BigInt(`0x${spanId}`));
  // Within a millisecond, as far as OpenTelemetry's own times go.
  expect(served?.start).toBeGreaterThan((client?.start ?? Number.POSITIVE_INFINITY) - 1e6);
  const part = events.find(({ name }) => name === 'apply');
  expect(part?.lane).toBe(served?.lane);
  expect(events.find(({ name }) => name === 'never ended')).toMatchObject({ rank: 1, state: 'open' });
  expect(findings).toEqual([]);
});

test('a span of version 1 of the SDK names its parent by id alone', async () => {
  start();
  const parent = startSpan('parent', { kind: SpanKind.CLIENT });
  const child = startSpan('child', { kind: SpanKind.CLIENT }, inside(parent)) as never as OpenTelemetrySpan & Span;
  const { traceId, spanId } = parent.spanContext();
  const old: OpenTelemetrySpan = {
    ...{ name: 'old', kind: child.kind, attributes: {}, startTime: child.startTime, endTime: child.startTime, status: { code: 0 } },
    ...{ parentSpanId: spanId, spanContext: () => ({ traceId, spanId: '00f067aa0ba902b7' }), isRecording: () => true },
  };
  processor.onStart(old);
  processor.onEnd(old);
  processor.onStart({ ...old, name: 'not recorded', isRecording: () => false });
  const { named, events } = await stopAndRead();
  expect(named('old')).toMatchObject({ parentSpanId: spanId, spanId: '00f067aa0ba902b7', traceId });
  expect(events.map(({ name }) => name)).not.toContain('not recorded');
});

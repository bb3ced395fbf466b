import { readFileSync } from 'node:fs';
import { deflateRawSync } from 'node:zlib';
import { type Batch, encodeBatch } from '@ranktrace/protocol';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { adjustSpanSkew } from '../align/span-skew.ts';
import { RpcSink, type RpcSummary } from '../analyse/rpcs.ts';
import { TraceError } from '../errors.ts';
import { mergeRun } from '../merge/merge-run.ts';
import { teeSink } from '../merge/tee-sink.ts';
import type { TraceEvent, TraceHeader, TraceSink } from '../trace-sink.ts';
import { readZipkin } from './zipkin-source.ts';
import { looksLikeZipkin, readZipkinSpans, type ZipkinSpan } from './zipkin-spans.ts';

const file = (name: string): Uint8Array => readFileSync(new URL(`../../../../../shared/data/clock/zipkin/${name}.json`, import.meta.url));
const bytesOf = (value: unknown): Uint8Array => new TextEncoder().encode(JSON.stringify(value));

const short = (id: string): string => id.replace(/^0+/, '').slice(0, 4);

/** `client 7428 < bf39 post servicea`, in the order of the file. */
const lines = (spans: readonly ZipkinSpan[]): string[] =>
  spans.map(({ side, id, parentId, name, service }) => `${side || 'work'} ${short(id)} < ${short(parentId)} ${name} ${service}`);

interface Seen {
  readonly host: string;
  readonly name: string;
  readonly kind: TraceEvent['kind'];
  readonly side: string;
  readonly start: number;
  readonly end: number;
  readonly spanId: string;
  readonly parentSpanId: string;
  readonly flow: bigint | undefined;
  readonly arguments: number;
}

function merged(bytes: Uint8Array): { header: TraceHeader; events: readonly Seen[]; rpcs: RpcSummary } {
  const events: Seen[] = [];
  const rpcs = new RpcSink();
  let header: TraceHeader | undefined;
  const keep: TraceSink = {
    begin: (begun) => {
      header = begun;
    },
    lane: () => {},
    event: ({ lane, name, kind, side, start, length, spanId, parentSpanId, flow, arguments: args }) => {
      const host = lane.process.hostName;
      events.push({ host, name, kind, side, start, end: start + length, spanId, parentSpanId, flow, arguments: args?.size ?? 0 });
    },
    end: () => {},
  };
  const run = mergeRun(readZipkin(bytes).sources, teeSink(keep, rpcs));
  while (run.next().done !== true);
  return { header: header as TraceHeader, events, rpcs: rpcs.summary };
}

describe('zipkin spans', () => {
  it('gives a shared server an id of its own, below its client, and its children to it', () => {
    expect(lines(readZipkinSpans(file('skew')).spans)).toEqual([
      'work 4321 < ea1f async serviceb',
      'server ea1f < 7428 post serviceb',
      'server bf39 <  get servicea',
      'client 7428 < bf39 post servicea',
    ]);
  });

  it('reads the other recordings without an error', () => {
    for (const [name, count, sides] of [
      ['ascend', 8, { client: 3, server: 3, work: 2 }],
      ['yelp', 16, { client: 11, server: 4, work: 1 }],
    ] as const) {
      const { spans, skipped, cut } = readZipkinSpans(file(name));
      expect([spans.length, skipped, cut]).toEqual([count, 0, 0]);
      const found = { client: 0, server: 0, work: 0 };
      for (const { side } of spans) found[side || 'work']++;
      expect(found).toEqual(sides);
      expect(new Set(spans.map(({ id }) => id)).size).toBe(count);
    }
  });

  it('leaves what the client does beside its call to the client', () => {
    const [client, server, beside, below] = readZipkinSpans(
      bytesOf([
        { traceId: 'a', id: 'b', kind: 'CLIENT', timestamp: 1, localEndpoint: { serviceName: 'x' } },
        { traceId: 'a', id: 'b', kind: 'SERVER', timestamp: 2, localEndpoint: { serviceName: 'y' } },
        { traceId: 'a', id: 'c', parentId: 'b', timestamp: 3, localEndpoint: { serviceName: 'x' } },
        { traceId: 'a', id: 'd', parentId: 'b', timestamp: 4, localEndpoint: { serviceName: 'y' } },
      ]),
    ).spans as [ZipkinSpan, ZipkinSpan, ZipkinSpan, ZipkinSpan];
    expect([server.parentId, beside.parentId, below.parentId]).toEqual([client.id, client.id, server.id]);
    expect(server.id).not.toBe(client.id);
  });

  it('takes a list of traces, as Zipkin’s API answers', () => {
    const spans = JSON.parse(new TextDecoder().decode(file('skew'))) as unknown[];
    expect(readZipkinSpans(bytesOf([spans.slice(0, 2), spans.slice(2)]))).toEqual(readZipkinSpans(file('skew')));
  });

  it('skips what is no span, and counts it', () => {
    const good = { traceId: 'a', id: 'b', timestamp: 1 };
    const bad = [
      null,
      7,
      'x',
      {},
      { ...good, id: '0' },
      { ...good, traceId: 'xyz' },
      { ...good, timestamp: -1 },
      { ...good, timestamp: '1' },
    ];
    const { spans, skipped } = readZipkinSpans(bytesOf([good, ...bad]));
    expect([spans.length, skipped]).toEqual([1, bad.length]);
  });

  it('cuts long texts and surplus tags, and counts that', () => {
    const tags = Object.fromEntries(Array.from({ length: 70 }, (_, index) => [`tag ${index}`, index]));
    const annotations = [{ timestamp: 1, value: 'in' }, { timestamp: 1e15, value: 'another day' }, 7];
    const { spans, cut } = readZipkinSpans(
      bytesOf([{ traceId: 'a', id: 'b', timestamp: 1, duration: 5, name: 'x'.repeat(5000), tags, annotations }]),
    );
    expect([spans[0]?.tags.length, spans[0]?.annotations.length, spans[0]?.name.length, cut]).toEqual([64, 1, 1365, 6 + 2 + 1]);
  });

  it('refuses what is no Zipkin file', () => {
    const code = (bytes: Uint8Array): string => {
      try {
        readZipkinSpans(bytes);
        return 'none';
      } catch (error) {
        return error instanceof TraceError ? error.code : String(error);
      }
    };
    const text = (value: string): Uint8Array => new TextEncoder().encode(value);
    expect(['[{', '{}', '7', '[]', '[[]]', '[7]'].map((value) => code(text(value)))).toEqual([
      'not_json',
      'no_events',
      'no_events',
      'no_events',
      'no_events',
      'no_events',
    ]);
  });

  it('is told by its beginning', () => {
    expect(['skew', 'ascend', 'yelp'].map((name) => looksLikeZipkin(file(name)))).toEqual([true, true, true]);
    const chrome = bytesOf([{ ph: 'X', name: 'a', ts: 1, args: { traceId: 'a' } }]);
    expect([chrome, bytesOf({ traceEvents: [] }), new Uint8Array([1, 2])].map(looksLikeZipkin)).toEqual([false, false, false]);
  });
});

describe('zipkin source', () => {
  it('comes out causal from Jaeger’s adjustment, raw times beside', () => {
    const { spans } = readZipkinSpans(file('skew'));
    const adjusted = adjustSpanSkew(
      spans.map(({ id, parentId, startMicros, lengthMicros = 0, address, annotations }) => ({
        id,
        parentId,
        start: startMicros * 1000 - 1470150004000000_000,
        length: lengthMicros * 1000,
        host: address,
        events: annotations.map(({ micros }) => micros * 1000),
      })),
      3600e9,
    );
    const byId = new Map(adjusted.map((span) => [span.raw.id, span]));
    for (const { raw, start } of adjusted) {
      const parent = byId.get(raw.parentId);
      if (parent === undefined) continue;
      expect(start).toBeGreaterThanOrEqual(parent.start);
      expect(start + raw.length).toBeLessThanOrEqual(parent.start + parent.raw.length);
    }
    expect(adjusted.filter(({ raw, start }) => raw.start !== start)).toHaveLength(2);
  });

  it.each(['skew', 'ascend', 'yelp'])('merges %s: no server before its client, none after it for calls that wait', (name) => {
    const { events, rpcs, header } = merged(file(name));
    expect(events.filter(({ kind }) => kind !== 'instant')).toHaveLength(readZipkinSpans(file(name)).spans.length);
    expect(header.processes.every(({ metadata, hostName }) => metadata.get('ranktrace.service') === hostName)).toBe(true);
    const clients = new Map(events.filter(({ side }) => side === 'client').map((event) => [event.spanId, event]));
    const pairs = events.flatMap((server) => {
      const client = server.side === 'server' ? clients.get(server.parentSpanId) : undefined;
      return client === undefined ? [] : [{ client, server }];
    });
    expect(pairs).toHaveLength({ skew: 1, ascend: 2, yelp: 3 }[name] ?? 0);
    for (const { client, server } of pairs) {
      expect(server.flow).toBe(client.flow);
      expect(server.start).toBeGreaterThanOrEqual(client.start);
      if (server.end - server.start <= client.end - client.start) expect(server.end).toBeLessThanOrEqual(client.end);
    }
    expect(rpcs.routes.reduce((sum, { withoutServer, withoutClient, calls }) => sum + calls - withoutServer - withoutClient, 0)).toBe(
      pairs.length,
    );
    expect(rpcs.routes.reduce((sum, { reversed, async }) => sum + reversed + async, 0)).toBe(0);
  });

  it('cuts many spans into batches in order, each within what a batch may hold', () => {
    const spans = Array.from({ length: 20_000 }, (_, index) => ({
      traceId: 'a',
      id: (index + 1).toString(16),
      parentId: index === 0 ? undefined : index.toString(16),
      kind: index % 2 === 0 ? 'CLIENT' : undefined,
      name: `n${index}`,
      timestamp: 1.6e15 + ((index * 7919) % 20_000),
      duration: 3,
      localEndpoint: { serviceName: 'x', ipv4: '10.0.0.1' },
      tags: { a: `${index}`, b: 'same' },
      annotations: index % 5 === 0 ? [{ timestamp: 1.6e15 + ((index * 7919) % 20_000) + 1, value: 'note' }] : [],
    }));
    const [source] = readZipkin(bytesOf(spans)).sources;
    const batches = Array.from({ length: source?.count ?? 0 }, (_, index) => source?.batch(index) as Batch);
    expect(batches.map(({ header, tables }) => [tables.spans.length + tables.rpcs.length + tables.instants.length, header.last])).toEqual([
      [8192, false],
      [8192, false],
      [7616, true],
    ]);
    let promised = Number.NEGATIVE_INFINITY;
    for (const batch of batches) {
      const { spans: work, rpcs, instants } = batch.tables;
      const starts = [
        work.columns.start.slice(0, work.length),
        rpcs.columns.start.slice(0, rpcs.length),
        instants.columns.time.slice(0, instants.length),
      ];
      for (const times of starts) expect([...times]).toEqual([...times].sort((a, b) => a - b));
      expect(Math.min(...starts.map((times) => times[0] ?? Number.POSITIVE_INFINITY))).toBeGreaterThanOrEqual(promised);
      promised = batch.header.watermark;
      expect(encodeBatch(batch, deflateRawSync).length).toBeGreaterThan(0);
    }
    const { events } = merged(bytesOf(spans));
    expect(events).toHaveLength(24_000);
    expect(events.filter(({ kind }) => kind === 'rpc').every(({ arguments: count }) => count === 2)).toBe(true);
  });

  it('skips a span whose time is out of this world, not the others', () => {
    const span = { traceId: 'a', name: 'x', duration: 1, localEndpoint: { serviceName: 'x' } };
    const { sources, skipped } = readZipkin(
      bytesOf([
        { ...span, id: '1', timestamp: 0 },
        { ...span, id: '2', timestamp: 1.6e15 },
        { ...span, id: '3', timestamp: 1.6e15 + 5 },
        { ...span, id: '4', timestamp: 1.6e15 + 5, duration: Number.MAX_SAFE_INTEGER },
      ]),
    );
    expect(skipped).toBe(2);
    expect(sources[0]?.batch(0)?.header.epoch).toBe('1600000000000000000');
  });

  it('gives spans or a TraceError for any file (seed 45)', () => {
    const scalar = fc.oneof(
      fc.string({ maxLength: 4 }),
      fc.double(),
      fc.boolean(),
      fc.constant(null),
      fc.nat(9).map(String),
      fc.nat(2 ** 40),
    );
    const member = fc.oneof(
      scalar,
      fc.dictionary(fc.constantFrom('serviceName', 'ipv4', 'port', 'error', '__proto__'), scalar),
      fc.array(scalar, { maxLength: 3 }),
    );
    const fields = [
      'traceId',
      'id',
      'parentId',
      'kind',
      'timestamp',
      'duration',
      'shared',
      'localEndpoint',
      'remoteEndpoint',
      'tags',
      'annotations',
      'name',
    ];
    const likely = fc.record({
      traceId: fc.constantFrom('1', '2'),
      id: fc.constantFrom('1', '2', '3'),
      timestamp: fc.nat(100),
      shared: fc.boolean(),
      kind: fc.constantFrom('CLIENT', 'SERVER'),
    });
    const span = fc.tuple(likely, fc.dictionary(fc.constantFrom(...fields), member)).map(([sure, more]) => ({ ...sure, ...more }));
    fc.assert(
      fc.property(fc.array(fc.oneof({ weight: 5, arbitrary: span }, { weight: 1, arbitrary: member }), { maxLength: 12 }), (given) => {
        try {
          const { events, rpcs } = merged(bytesOf(given));
          const { added, told, givenUp } = rpcs.halves;
          expect(events.length).toBeGreaterThanOrEqual(added);
          expect(told + givenUp).toBe(added);
        } catch (error) {
          expect(error).toBeInstanceOf(TraceError);
        }
      }),
      { seed: 45, numRuns: 300 },
    );
  });
});

import { deflateRawSync } from 'node:zlib';
import { type Batch, encodeBatch } from '@ranktrace/protocol';
import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { runCount } from '../../../../test/setup/seeds.ts';
import { TraceError } from '../model/errors.ts';
import { expectSkewRemoved } from '../testing/skew-case.ts';
import { skewedCalls } from '../testing/skewed-calls.ts';
import { causalPairs, mergedZipkin as merged, sidesOf, zipkinLines } from '../testing/zipkin-calls.ts';
import { readZipkin } from './zipkin-source.ts';
import { looksLikeZipkin, readZipkinSpans, type ZipkinSpan } from './zipkin-spans.ts';

const bytesOf = (value: unknown): Uint8Array => new TextEncoder().encode(JSON.stringify(value));

/** A call that a server answers under the client's id, 80 ms early by the server's clock; the server's work goes on for a while. */
const skewed = ((): readonly object[] => {
  const [shop, store] = [
    { serviceName: 'shop', ipv4: '10.0.0.1' },
    { serviceName: 'store', ipv4: '10.0.0.2' },
  ];
  const second = 1_790_000_000_000_000;
  const of = { traceId: '5af7183fb1d4cf5f' };
  return [
    {
      ...of,
      id: '6b221d5bc9e6496c',
      parentId: '352bff9a74ca9ad2',
      name: 'reindex',
      timestamp: second - 70_001,
      duration: 12_000,
      localEndpoint: store,
    },
    {
      ...{ ...of, id: '352bff9a74ca9ad2', parentId: '5af7183fb1d4cf5f', kind: 'SERVER', name: 'put', shared: true },
      ...{ timestamp: second - 70_002, duration: 21_000, localEndpoint: store },
    },
    { ...of, id: '5af7183fb1d4cf5f', kind: 'SERVER', name: 'buy', timestamp: second, duration: 40_000, localEndpoint: shop },
    {
      ...{ ...of, id: '352bff9a74ca9ad2', parentId: '5af7183fb1d4cf5f', kind: 'CLIENT', name: 'put' },
      ...{ timestamp: second + 10_000, duration: 25_000, localEndpoint: shop },
    },
  ];
})();
const seeds = [1, 2, 3, 4];

describe('zipkin spans', () => {
  it('gives a shared server an id of its own, below its client, and its children to it', () => {
    const { spans } = readZipkinSpans(bytesOf(skewed));
    const server = (spans[1] as ZipkinSpan).id.replace(/^0+/, '').slice(0, 4);
    expect(zipkinLines(spans)).toEqual([
      `work 6b22 < ${server} reindex store`,
      `server ${server} < 352b put store`,
      'server 5af7 <  buy shop',
      'client 352b < 5af7 put shop',
    ]);
    expect(server).not.toBe('352b');
  });

  it.each(seeds)('reads simulated calls whole, each span under an id of its own (seed %i)', (seed) => {
    const { bytes, sides } = skewedCalls(seed);
    const { spans, skipped, cut } = readZipkinSpans(bytes);
    expect([skipped, cut]).toEqual([0, 0]);
    expect(sidesOf(spans)).toEqual(sides);
    expect(new Set(spans.map(({ traceId, id }) => `${traceId} ${id}`)).size).toBe(spans.length);
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
    expect(readZipkinSpans(bytesOf([skewed.slice(0, 2), skewed.slice(2)]))).toEqual(readZipkinSpans(bytesOf(skewed)));
  });

  it('takes a file with a byte order mark', () => {
    const marked = Buffer.concat([Buffer.of(0xef, 0xbb, 0xbf), bytesOf(skewed)]);
    expect(looksLikeZipkin(marked)).toBe(true);
    expect(readZipkinSpans(marked)).toEqual(readZipkinSpans(bytesOf(skewed)));
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
      { ...good, duration: -5 },
      { ...good, duration: 'long' },
    ];
    const { spans, skipped } = readZipkinSpans(bytesOf([good, ...bad]));
    expect([spans.length, skipped]).toEqual([1, bad.length]);
  });

  it('takes a span that comes twice, or once more whole, for one: else a server that was reported again would be a retry', () => {
    const at = { traceId: 'a', timestamp: 1_790_000_000_000_000, localEndpoint: { serviceName: 'shop' } };
    const note = (value: string) => ({ timestamp: at.timestamp, value });
    const client = { ...at, id: 'b', kind: 'CLIENT', name: 'put', duration: 90, tags: { code: '200' }, annotations: [note('sent')] };
    const server = { ...at, id: 'b', kind: 'SERVER', shared: true, duration: 50, localEndpoint: { serviceName: 'store' } };
    const begun = { ...client, name: '', duration: undefined, tags: { path: '/' }, annotations: [note('begun'), note('sent')] };
    const { spans, skipped, cut } = readZipkinSpans(bytesOf([begun, server, client, server, client, { ...server, duration: 70 }]));
    expect([skipped, cut]).toEqual([0, 0]);
    expect(spans.map(({ side, lengthMicros }) => [side, lengthMicros])).toEqual([
      ['client', 90],
      ['server', 50],
      // The same service, again in the same µs: another try.
      ['server', 70],
    ]);
    expect(spans[0]).toMatchObject({ name: 'put', tags: Object.entries({ path: '/', code: '200' }) });
    expect(spans[0]?.annotations.map(({ value }) => value)).toEqual(['begun', 'sent']);
  });

  it('bears a span that comes a hundred thousand times, each time with another annotation', () => {
    const span = { traceId: 'a', id: 'b', timestamp: 1_790_000_000_000_000 };
    const times = 100_000;
    const again = Array.from({ length: times }, (_, at) => ({ ...span, annotations: [{ timestamp: span.timestamp, value: `${at}` }] }));
    const { spans, cut } = readZipkinSpans(bytesOf(again));
    expect([spans.length, (spans[0]?.annotations.length ?? 0) + cut]).toEqual([1, times]);
  });

  it('finds ids for shared spans in few tries, though others have the ids that it would give', () => {
    const [many, taken] = [1000, 1n << 40n];
    const hex = (value: bigint) => value.toString(16).padStart(16, '0');
    const others = Array.from({ length: many }, (_, at) => ({ traceId: 'a', id: hex(taken + BigInt(at)), timestamp: 1 }));
    const shared = { traceId: 'a', id: hex(taken ^ 0x9e3779b97f4a7c15n), kind: 'SERVER', shared: true, timestamp: 1 };
    const tries = vi.spyOn(BigInt, 'asUintN');
    const { spans } = readZipkinSpans(bytesOf([...others, ...Array.from({ length: many }, (_, at) => ({ ...shared, timestamp: 1 + at }))]));
    expect(tries.mock.calls.length).toBeLessThan(4 * many);
    tries.mockRestore();
    expect(new Set(spans.map(({ id }) => id)).size).toBe(2 * many);
  });

  it('takes times with fractions as the nearest whole µs, and a span without a duration as not finished', () => {
    const span = { traceId: 'a', id: 'b', annotations: [{ timestamp: 1_790_000_000_000_003.5, value: 'x' }] };
    const { spans, skipped, cut } = readZipkinSpans(
      bytesOf([
        { ...span, timestamp: 1_790_000_000_000_000.5, duration: 1000.25 },
        { ...span, id: 'c', timestamp: 1_790_000_000_000_002, duration: null },
      ]),
    );
    expect([skipped, cut]).toEqual([0, 0]);
    expect(spans.map(({ startMicros, lengthMicros }) => [startMicros, lengthMicros])).toEqual([
      [1_790_000_000_000_001, 1000],
      [1_790_000_000_000_002, undefined],
    ]);
    expect(spans[0]?.annotations).toEqual([{ micros: 1_790_000_000_000_004, value: 'x' }]);
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

  it('is reported by its beginning', () => {
    expect([bytesOf(skewed), bytesOf([skewed]), skewedCalls(1).bytes].map(looksLikeZipkin)).toEqual([true, true, true]);
    const chrome = bytesOf([{ ph: 'X', name: 'a', ts: 1, args: { traceId: 'a' } }]);
    expect([chrome, bytesOf({ traceEvents: [] }), new Uint8Array([1, 2])].map(looksLikeZipkin)).toEqual([false, false, false]);
  });
});

describe('zipkin source', () => {
  it('comes out causal from Jaeger’s adjustment, raw times beside', () => expectSkewRemoved(readZipkinSpans(bytesOf(skewed)).spans, 2));

  it('merges one call: no server before its client, none after it', () => expect(causalPairs(merged(bytesOf(skewed)))).toHaveLength(1));

  it.each(seeds)('merges simulated calls: in order, and where they really were within the bound (seed %i)', (seed) => {
    const { bytes, pairs, sides, starts } = skewedCalls(seed);
    const reported = merged(bytes);
    expect(reported.events.filter(({ kind }) => kind !== 'instant')).toHaveLength(sides.client + sides.server + sides.work);
    expect(causalPairs(reported)).toHaveLength(pairs);
    const errorsOf = (host: string): number[] =>
      reported.events.flatMap((event) => {
        const start = starts.get(`${event.side} ${event.name}`);
        return event.host === host && start !== undefined ? [event.start - start * 1000] : [];
      });
    // The merge chooses the clock of the axis.
    const reference = reported.header.processes.find(({ alignment }) => alignment.method === 'exact')?.hostName ?? '';
    const [axis = 0] = errorsOf(reference);
    expect(reported.header.processes).toHaveLength(5);
    for (const { hostName, alignment } of reported.header.processes) {
      const errors = errorsOf(hostName).map((error) => Math.abs(error - axis));
      expect(errors.length).toBeGreaterThan(3);
      expect(Math.max(...errors), hostName).toBeLessThanOrEqual(alignment.bound ?? 0);
    }
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
          const { added, reported, givenUp } = rpcs.halves;
          expect(events.length).toBeGreaterThanOrEqual(added);
          expect(reported + givenUp).toBe(added);
        } catch (error) {
          expect(error).toBeInstanceOf(TraceError);
        }
      }),
      { seed: 45, numRuns: runCount(300) },
    );
  });
});

describe('version 1', () => {
  const endpoint = { serviceName: 'front', ipv4: '10.0.0.1' };
  const call = { traceId: '1', id: 'a', name: 'get', timestamp: 1_760_000_000_000_000, duration: 8000 };
  const old = { ...call, annotations: [{ timestamp: call.timestamp, value: 'cs', endpoint }], binaryAnnotations: [] };

  it('is refused, for its services would all be one without a name', () => {
    const bytes = new TextEncoder().encode(JSON.stringify([old, { ...call, id: 'b', annotations: old.annotations }]));
    expect(() => readZipkin(bytes)).toThrow('Cannot read the Zipkin file: it must hold spans of version 2, got those of version 1');
  });

  it('is left out and counted among spans of version 2', () => {
    const bytes = new TextEncoder().encode(JSON.stringify([old, { ...call, localEndpoint: endpoint }]));
    const { sources, skipped } = readZipkin(bytes);
    expect([sources.length, skipped]).toEqual([1, 1]);
  });
});

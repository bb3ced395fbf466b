import { nanos } from '@ranktrace/protocol';
import type { LengthQuantiles, RpcRoute, RpcSummary } from '@ranktrace/trace';
import { describe, expect, it } from 'vitest';
import { formatRpcs, rpcsData } from './print-rpcs.ts';

const halves = { added: 0, reported: 0, pending: 0, givenUp: 0, evicted: 0, duplicates: 0, excess: 0, invalid: 0, strayCloses: 0 };
const of = (p50: number, p95: number, p99: number): LengthQuantiles => ({ count: 9, p50: nanos(p50), p95: nanos(p95), p99: nanos(p99) });

const route = (about: Partial<RpcRoute>): RpcRoute => ({
  method: 'Push',
  source: { name: 'rank 0', rank: 0 },
  destination: { name: 'rank 1', rank: 1 },
  calls: 1000,
  errors: 0,
  retries: 0,
  fanOut: 0,
  withoutServer: 0,
  withoutClient: 0,
  unfinished: 0,
  async: 0,
  reversed: 0,
  total: of(4.2e6, 9.1e6, 12.34e6),
  server: of(3.1e6, 8e6, 11e6),
  network: of(900_000, 950_000, 1_200_000),
  out: of(400_000, 0, 0),
  back: of(500_000, 0, 0),
  epsilon: nanos(50_000),
  ...about,
});

const summary = (routes: readonly RpcRoute[], about: Partial<RpcSummary> = {}): RpcSummary => ({
  routes,
  routesLeftOut: 0,
  halves: { ...halves, added: 9 },
  ...about,
});

const nothing = { total: undefined, server: undefined, network: undefined, out: undefined, back: undefined, epsilon: undefined };

describe('rpc part of the report', () => {
  it('is a table, with what was odd below it', () => {
    const text = formatRpcs(
      summary([
        route({}),
        route({ method: 'Pull', epsilon: nanos(700_000), errors: 2, retries: 3 }),
        route({ method: 'Ack', out: undefined, back: undefined, epsilon: undefined, async: 12 }),
        route({
          ...nothing,
          method: 'Lost\u001b[2J',
          destination: { name: '', rank: undefined },
          calls: 1,
          withoutServer: 1,
          total: of(50, 60, 700),
        }),
      ]),
    );
    expect(text.split('\n')).toEqual([
      'remote calls   from → to        calls  errors  total p50/p95/p99             server            network           out · back (p50)',
      'Push           rank 0 → rank 1  1 000       0  4.20/9.10/12.3 ms  3.10/8.00/11.0 ms  0.90/0.95/1.20 ms  400 µs · 500 µs ± 50.0 µs',
      'Pull           rank 0 → rank 1  1 000       2  4.20/9.10/12.3 ms  3.10/8.00/11.0 ms  0.90/0.95/1.20 ms            within ± 700 µs',
      'Ack            rank 0 → rank 1  1 000       0  4.20/9.10/12.3 ms  3.10/8.00/11.0 ms  0.90/0.95/1.20 ms                          -',
      'Lost\\u001b[2J  rank 0 → ?           1       0       50/60/700 ns                  -                  -                          -',
      'network = total − server, which no clock error touches; how it divides into out and back is known to ± what is shown',
      '  Pull rank 0 → rank 1: 3 retries',
      '  Ack rank 0 → rank 1: 12 whose server outlived the client: no network time',
      '  Lost\\u001b[2J rank 0 → ?: 1 without a server span',
    ]);
  });

  it('says nothing where there were no calls, and says what could not be matched', () => {
    expect(formatRpcs(summary([], { halves }))).toBe('');
    const text = formatRpcs(
      summary([route({})], { halves: { ...halves, added: 5000, givenUp: 1203, evicted: 1200, invalid: 3 }, routesLeftOut: 7 }),
    );
    expect(text).toContain('(7 or more routes share one line: there were too many)');
    expect(text).toContain(
      '  1 203 of 5 000 client and server spans could not be matched: 1 200 too many waited at once, 3 without a valid time',
    );
  });

  it('shows the routes that took most time, and how many more there are', () => {
    const text = formatRpcs(summary(Array.from({ length: 25 }, (_, index) => route({ method: `m${index}` }))));
    expect(text).toContain('m19 ');
    expect(text).not.toContain('m20');
    expect(text).toContain('(the 20 of 25 routes that took most time; all of them with --json)');
  });

  it('has all of it as data', () => {
    const data = JSON.parse(JSON.stringify(rpcsData(summary([route({ ...nothing }), route({})])))) as { routes: Record<string, unknown>[] };
    expect(data.routes[0]).not.toHaveProperty('networkNs');
    expect(data.routes[1]).toMatchObject({
      method: 'Push',
      calls: 1000,
      networkNs: { p50: 900_000 },
      epsilonNs: 50_000,
      source: { rank: 0 },
    });
  });
});

import { type Nanos, nanos, traceTime } from '@ranktrace/protocol';
import { describe, expect, it } from 'vitest';
import type { Alignment, TraceEvent, TraceHeader, TraceProcess } from '../model/trace-sink.ts';
import { exact, sampled, traceEvent, traceHeader, traceLane, traceProcess, unaligned } from '../testing/trace-events.ts';
import { type LengthQuantiles, otherRoutes, type RpcRoute, RpcSink, type RpcSummary } from './rpcs.ts';

const ms = 1e6;

/** Ranks 0, 1, … each on a host of its own, unless `oneHost`. */
function headerOf(alignments: readonly Alignment[], oneHost = false): TraceHeader {
  const processes = alignments.map((alignment, rank) => {
    const host = `boot-${oneHost ? 0 : rank}`;
    return traceProcess({ index: rank + 1, rank, host, hostName: host, alignment });
  });
  return traceHeader(processes);
}

type Rpc = Pick<TraceEvent, 'side' | 'spanId'> & Partial<TraceEvent>;

/** A rank's event, from and to in ms. */
const rpc = (rank: number, from: number, to: number, about: Rpc): [number, TraceEvent] => [
  rank,
  traceEvent({
    ...{ kind: 'rpc', name: 'Push', category: 'rpc', status: 'ok', traceId: 't' },
    ...{ start: traceTime(from * ms), length: nanos((to - from) * ms) },
    ...about,
  }),
];

const client = (rank: number, from: number, to: number, spanId: string, about: Partial<TraceEvent> = {}): [number, TraceEvent] =>
  rpc(rank, from, to, { side: 'client', spanId, peer: 'ps', ...about });
const server = (rank: number, from: number, to: number, caller: string, about: Partial<TraceEvent> = {}): [number, TraceEvent] =>
  rpc(rank, from, to, { side: 'server', spanId: `${caller}-${rank}-${from}`, parentSpanId: caller, ...about });

function summaryOf(header: TraceHeader, events: readonly [number, TraceEvent][]): RpcSummary {
  const sink = new RpcSink();
  sink.begin(header);
  for (const [rank, event] of events) sink.event({ ...event, lane: traceLane({ process: header.processes[rank] as TraceProcess }) });
  sink.end();
  return sink.summary;
}

const shown = (lengths: LengthQuantiles | undefined): string =>
  lengths === undefined
    ? '-'
    : [lengths.p50, lengths.p95, lengths.p99].map((length: Nanos) => Number((length / ms).toPrecision(6))).join('/');

const line = (route: RpcRoute): string => {
  const { method, source, destination, total, server: onServer, network, out, back, epsilon, ...counts } = route;
  const reported = Object.entries(counts).flatMap(([name, count]) => (count === 0 ? [] : [`${name} ${count}`]));
  const lengths = `${shown(total)} · ${shown(onServer)} · ${shown(network)} · out ${shown(out)} back ${shown(back)}`;
  return `${method} ${source.name} > ${destination.name}: ${reported.join(', ')}; ${lengths}${epsilon === undefined ? '' : ` ± ${epsilon / ms}`}`;
};

function check(
  alignments: readonly Alignment[],
  events: readonly [number, TraceEvent][],
  expected: readonly string[],
  oneHost = false,
): void {
  const summary = summaryOf(headerOf(alignments, oneHost), events);
  expect(summary.routes.map(line)).toEqual(expected);
  const { added, reported, givenUp, pending } = summary.halves;
  expect([reported + givenUp, pending]).toEqual([added, 0]);
}

describe('rpc report', () => {
  it('divides a call into server, network, and the legs of the network with the bounds of both clocks', () => {
    check(
      [exact, sampled(0.5 * ms)],
      [client(0, 0, 10, 'a'), server(1, 2, 7, 'a')],
      ['Push rank 0 > rank 1: calls 1; 10/10/10 · 5/5/5 · 5/5/5 · out 2/2/2 back 3/3/3 ± 0.5'],
    );
    check(
      [sampled(0.25 * ms), sampled(0.5 * ms)],
      [client(0, 0, 10, 'a'), server(1, 2, 7, 'a')],
      ['Push rank 0 > rank 1: calls 1; 10/10/10 · 5/5/5 · 5/5/5 · out 2/2/2 back 3/3/3 ± 0.75'],
    );
  });

  it('has legs without an error on one host', () => {
    const events = [client(0, 0, 10, 'a'), server(1, 2, 7, 'a')];
    check([unaligned, unaligned], events, ['Push rank 0 > rank 1: calls 1; 10/10/10 · 5/5/5 · 5/5/5 · out 2/2/2 back 3/3/3 ± 0'], true);
  });

  it('reports the network without any alignment, and no legs', () => {
    check(
      [exact, unaligned],
      [client(0, 0, 10, 'a'), server(1, 3002, 3007, 'a')],
      ['Push rank 0 > rank 1: calls 1; 10/10/10 · 5/5/5 · 5/5/5 · out - back -'],
    );
  });

  it('counts apart what outlives its client, by length without alignment, by time within the bounds', () => {
    const longer = [client(0, 0, 10, 'a'), server(1, 2, 20, 'a')];
    check([exact, unaligned], longer, ['Push rank 0 > rank 1: calls 1, async 1; 10/10/10 · 18/18/18 · - · out - back -']);
    const later = [client(0, 0, 10, 'a'), server(1, 7, 12, 'a')];
    check([exact, sampled(ms)], later, ['Push rank 0 > rank 1: calls 1, async 1; 10/10/10 · 5/5/5 · - · out - back -']);
    // Two ms late proves nothing if the clocks may be two ms apart.
    check([exact, sampled(2 * ms)], later, [
      'Push rank 0 > rank 1: calls 1, reversed 1; 10/10/10 · 5/5/5 · 5/5/5 · out 7/7/7 back -2/-2/-2 ± 2',
    ]);
  });

  it('keeps missing halves under the name the other half gives them', () => {
    check(
      [exact, exact],
      [client(0, 0, 10, 'a'), server(1, 20, 25, 'lost', { peer: '10.0.0.7' }), server(1, 30, 31, '')],
      [
        'Push rank 0 > ps: calls 1, withoutServer 1; 10/10/10 · - · - · out - back -',
        'Push 10.0.0.7 > rank 1: calls 1, withoutClient 1; - · 5/5/5 · - · out - back -',
        'Push  > rank 1: calls 1, withoutClient 1; - · 1/1/1 · - · out - back -',
      ],
    );
  });

  it('counts errors, retries and fan-out, and reports no network of a client with several servers', () => {
    check(
      [exact, exact, exact],
      [
        client(0, 0, 10, 'a', { status: 'error', parentSpanId: 'p' }),
        server(1, 2, 7, 'a', { status: 'error' }),
        client(0, 20, 40, 'b', { parentSpanId: 'p' }),
        server(1, 22, 27, 'b', { status: 'error' }),
        server(1, 30, 38, 'b'),
        client(0, 50, 60, 'c'),
        server(1, 51, 52, 'c'),
        server(2, 51, 53, 'c'),
      ],
      [
        'Push rank 0 > rank 1: calls 3, errors 1, retries 2; 10/19/19.8 · 5/7.55/7.91 · 5/5/5 · out 2/2/2 back 3/3/3 ± 0',
        'Push rank 0 > rank 2: fanOut 1; - · 2/2/2 · - · out - back -',
      ],
    );
  });

  it('takes open calls by their end, and counts those that never ended', () => {
    check(
      [exact, exact],
      [
        client(0, 0, 0, 'a', { state: 'open', status: '' }),
        client(0, 1, 1, 'b', { state: 'open', status: '' }),
        server(1, 2, 7, 'a'),
        server(1, 3, 3, 'b', { state: 'open', status: '' }),
        client(0, 0, 10, 'a', { state: 'close', status: 'error' }),
      ],
      ['Push rank 0 > rank 1: calls 2, errors 1, unfinished 1; 10/10/10 · 5/5/5 · 5/5/5 · out 2/2/2 back 3/3/3 ± 0'],
    );
  });

  it('is exact to 1 % over many calls, in order of time spent', () => {
    const events: [number, TraceEvent][] = [];
    for (let index = 0; index < 10_000; index++) {
      events.push(client(0, index, index + 1 + index / 100, `${index}`), server(1, index + 0.25, index + 0.5, `${index}`));
      if (index % 10 === 0) events.push(client(1, index, index + 1, `x${index}`, { name: 'Pull' }));
    }
    const { routes } = summaryOf(headerOf([exact, exact]), events);
    expect(routes.map(({ method, calls }) => [method, calls])).toEqual([
      ['Push', 10_000],
      ['Pull', 1000],
    ]);
    const { total, network } = routes[0] as RpcRoute;
    for (const [found, wanted] of [
      [total?.p50, 51],
      [total?.p95, 96],
      [total?.p99, 100],
      [network?.p50, 50.75],
    ] as const) {
      expect(Math.abs((found as number) / ms / wanted - 1)).toBeLessThan(0.011);
    }
  });

  it('puts what comes after the last route that has a place under one name', () => {
    const events = Array.from({ length: 1500 }, (_, index) => client(0, index, index + 1, `${index}`, { name: `method ${index}` }));
    const { routes, routesLeftOut } = summaryOf(headerOf([exact]), events);
    expect([routes.length, routesLeftOut]).toEqual([1024, 477]);
    expect(routes.find(({ method }) => method === otherRoutes)?.calls).toBe(477);
  });
});

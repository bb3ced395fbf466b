import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { type MatchedRpc, type RpcHalf, RpcMatcher, type RpcMatcherOptions } from './rpc-matcher.ts';

const ms = 1e6;

/** `client 1 c<p 10-20`: side, member, span id, parent id, start and end in ms; `10-` is open; a word after that is its status. */
function half(text: string): RpcHalf {
  const [, side, member, span, parent, start, end, status] =
    /^(client|server) (\d+) (\w*)<(\w*) (-?[\d.]+)-([\d.]*) ?(\w*)$/.exec(text) ?? [];
  if (side === undefined) throw new Error(`Cannot read the half "${text}"`);
  return {
    member: Number(member),
    side: side as RpcHalf['side'],
    traceId: 't',
    spanId: span as string,
    parentSpanId: parent as string,
    method: 'Push',
    peer: 'ps',
    status: status || (end === '' ? '' : 'ok'),
    start: Number(start) * ms,
    end: end === '' ? undefined : Number(end) * ms,
  };
}

const shown = (about: RpcHalf | undefined): string =>
  about === undefined ? '?' : `${about.spanId}@${about.member} ${about.start / ms}-${about.end === undefined ? '' : about.end / ms}`;

const line = ({ client, server, attempt, servers, isRepeat }: MatchedRpc): string =>
  `${shown(client)} > ${shown(server)}${attempt === 1 ? '' : ` attempt ${attempt}`}${servers > 1 ? ` of ${servers}` : ''}${isRepeat ? ' again' : ''}`;

function matching(options?: RpcMatcherOptions): { matcher: RpcMatcher; lines: string[]; rpcs: MatchedRpc[] } {
  const rpcs: MatchedRpc[] = [];
  const lines: string[] = [];
  const matcher = new RpcMatcher((rpc) => {
    rpcs.push(rpc);
    lines.push(line(rpc));
  }, options);
  return { matcher, lines, rpcs };
}

/** Streams halves in the given order, each advancing the stream to its start. */
function check(halves: readonly string[], expected: readonly string[]): void {
  const { matcher, lines } = matching();
  for (const text of halves) {
    const about = half(text);
    matcher.advance(about.start);
    matcher.add(about);
  }
  matcher.end();
  expect(lines).toEqual(expected);
  const { added, reported, givenUp, pending } = matcher.counts;
  expect([reported + givenUp, pending]).toEqual([added, 0]);
}

describe('rpc matcher', () => {
  it('puts a server to the client whose span is its parent', () => {
    check(['client 1 c<p 0-10', 'server 2 s<c 2-8'], ['c@1 0-10 > s@2 2-8']);
  });

  it('puts a server to the client that has its very id, as Zipkin shares it, before the one that has its parent id', () => {
    // a calls b, and b's server is recorded under b, too: a is its parent, but not its caller.
    check(['client 1 a< 0-20', 'server 2 a< 1-19', 'client 2 b<a 2-10', 'server 3 b<a 4-8'], ['b@2 2-10 > b@3 4-8', 'a@1 0-20 > a@2 1-19']);
    // The same with clocks so far apart that the servers come first.
    check(
      ['server 3 b<a -50-8', 'server 2 a< -20-19', 'client 1 a< 0-20', 'client 2 b<a 2-10'],
      ['b@2 2-10 > b@3 -50-8', 'a@1 0-20 > a@2 -20-19'],
    );
  });

  it('keeps a client without a server and a server without a client', () => {
    check(['client 1 c<p 0-10', 'server 2 s<x 2-8', 'server 3 root< 4-5'], ['? > root@3 4-5', '? > s@2 2-8', 'c@1 0-10 > ?']);
  });

  it('keeps halves without ids apart', () => {
    check(['client 1 < 0-1', 'client 1 < 0-1', 'server 2 < 0-1'], ['< 0-1', '< 0-1'].map(() => '@1 0-1 > ?').concat('? > @2 0-1'));
  });

  it('waits for a server that starts after its client returned, and for one that outlives it', () => {
    check(['client 1 c<p 0-1', 'server 2 s<c 4000-9000'], ['c@1 0-1 > s@2 4000-9000']);
    check(['client 1 c<p 0-1', 'server 2 s<c 0.5-60000'], ['c@1 0-1 > s@2 0.5-60000']);
  });

  it('reports both halves alone once the stream has gone on for longer than the wait', () => {
    check(['client 1 c<p 0-1', 'server 2 s<c 5002-5003'], ['c@1 0-1 > ?', '? > s@2 5002-5003']);
  });

  it('reports a call as soon as the stream has passed the wait after its last end', () => {
    const { matcher, lines } = matching({ waitNs: 100 * ms });
    matcher.add(half('client 1 c<p 0-10'));
    matcher.add(half('server 2 s<c 2-8'));
    matcher.advance(109 * ms);
    expect(lines).toEqual([]);
    matcher.advance(110 * ms);
    expect(lines).toEqual(['c@1 0-10 > s@2 2-8']);
  });

  it('numbers the servers of one client: the same rank again, or after a failure, is a retry', () => {
    check(
      ['client 1 c<p 0-100', 'server 2 s1<c 1-10 error', 'server 2 s2<c 20-30 error', 'server 3 s3<c 40-50'],
      ['c@1 0-100 > s1@2 1-10 of 3', 'c@1 0-100 > s2@2 20-30 attempt 2 of 3 again', 'c@1 0-100 > s3@3 40-50 attempt 3 of 3 again'],
    );
  });

  it('takes servers of several ranks for a fan-out', () => {
    check(
      ['client 1 c<p 0-100', 'server 2 s1<c 1-10', 'server 3 s2<c 1-12', 'server 4 s3<c 2-9'],
      ['c@1 0-100 > s1@2 1-10 of 3', 'c@1 0-100 > s2@3 1-12 of 3 again', 'c@1 0-100 > s3@4 2-9 of 3 again'],
    );
  });

  it('numbers the clients of one parent that repeat one that failed, and no others', () => {
    check(
      ['client 1 a<p 0-10 error', 'client 1 b<p 11-20 error', 'server 2 s<b 12-19', 'client 1 c<p 21-30', 'client 1 d<p 31-40'],
      ['a@1 0-10 > ?', 'b@1 11-20 > s@2 12-19 attempt 2', 'c@1 21-30 > ? attempt 3', 'd@1 31-40 > ?'],
    );
    check(['client 1 a<p 0-10 error', 'client 1 b<p 5-20'], ['a@1 0-10 > ?', 'b@1 5-20 > ?']);
    check(['client 1 a<p 0-10 error', 'client 1 b<q 11-20'], ['a@1 0-10 > ?', 'b@1 11-20 > ?']);
    check(['client 1 a<p 0-10 error', 'client 1 b<p 5011-5020'], ['a@1 0-10 > ?', 'b@1 5011-5020 > ?']);
    check(['client 1 a< 0-10 error', 'client 1 b< 11-20'], ['a@1 0-10 > ?', 'b@1 11-20 > ? attempt 2']);
  });

  it('waits for the end of what is open, and takes its status from there', () => {
    const { matcher, lines, rpcs } = matching();
    matcher.add(half('client 1 c<p 0-'));
    matcher.add(half('server 2 s<c 2-8'));
    matcher.advance(60_000 * ms);
    expect(lines).toEqual([]);
    matcher.close(half('client 1 c<p 0-60001 error'));
    matcher.advance(66_000 * ms);
    expect(lines).toEqual(['c@1 0-60001 > s@2 2-8']);
    expect(rpcs[0]?.client?.status).toBe('error');
  });

  it('reports what is still open at the end, without an end', () => {
    check(['client 1 c<p 0-', 'server 2 s<c 2-'], ['c@1 0- > s@2 2-']);
    check(['client 1 c<p 0-10', 'server 2 s<c 2-'], ['c@1 0-10 > s@2 2-']);
  });

  it('counts ends of what is not open', () => {
    const { matcher, lines } = matching();
    matcher.close(half('client 1 c<p 0-10'));
    matcher.add(half('client 1 c<p 0-'));
    matcher.close(half('client 1 c<p 0-'));
    matcher.close(half('client 1 c<p 0-10'));
    matcher.close(half('client 1 c<p 0-11'));
    matcher.end();
    expect(lines).toEqual(['c@1 0-10 > ?']);
    expect(matcher.counts).toMatchObject({ added: 1, reported: 1, strayCloses: 3 });
  });

  it('gives up duplicates and times that are none, and counts them', () => {
    const { matcher, lines } = matching();
    for (const text of [
      'client 1 c<p 0-10',
      'client 3 c<p 0-10',
      'server 2 s<c 2-8',
      'server 2 s<c 2-8',
      'client 1 o<p 3-',
      'client 1 o<p 3-',
    ]) {
      matcher.add(half(text));
    }
    const client = half('client 1 x< 0-10');
    for (const bad of [
      { start: Number.NaN },
      { end: Number.NaN },
      { end: -1 },
      { start: Number.NEGATIVE_INFINITY },
      { end: Number.POSITIVE_INFINITY },
    ]) {
      matcher.add({ ...client, ...bad });
    }
    matcher.advance(Number.NaN);
    expect(lines).toEqual([]);
    matcher.end();
    expect(lines).toEqual(['c@1 0-10 > s@2 2-8', 'o@1 3- > ?']);
    expect(matcher.counts).toMatchObject({ added: 11, reported: 3, duplicates: 3, invalid: 5, givenUp: 8, pending: 0 });
  });

  it('holds no more than its limit: whole calls are reported early, halves alone are given up, open ones stay longest', () => {
    const { matcher, lines } = matching({ pendingHalvesMax: 4 });
    for (const text of [
      'client 1 open<p 0-',
      'client 1 a<p 1-2',
      'server 2 b<a 1-2',
      'client 1 c<p 3-4',
      'client 1 d<p 5-6',
      'client 1 e<p 7-8',
    ]) {
      matcher.add(half(text));
    }
    expect(lines).toEqual(['a@1 1-2 > b@2 1-2']);
    matcher.add(half('client 1 f<p 9-10'));
    expect(matcher.counts).toMatchObject({ evicted: 1, pending: 4 });
    matcher.end();
    expect(lines).toEqual(['a@1 1-2 > b@2 1-2', 'd@1 5-6 > ?', 'e@1 7-8 > ?', 'f@1 9-10 > ?', 'open@1 0- > ?']);
    expect(matcher.counts).toMatchObject({ added: 7, reported: 6, givenUp: 1, pending: 0 });
  });

  it('bears floods of one id in reasonable time', () => {
    const { matcher } = matching();
    for (let index = 0; index < 20_000; index++) {
      matcher.add({ ...half('server 1 s<c 0-1'), start: index, end: index + 1 });
      matcher.add({ ...half('server 1 s<c 0-1'), parentSpanId: `${index}` });
      matcher.add({ ...half('client 1 c<p 0-1'), start: index, end: undefined });
    }
    matcher.end();
    const { added, reported, givenUp, pending, excess, duplicates } = matcher.counts;
    expect({ sum: reported + givenUp + pending, excess, duplicates }).toEqual({ sum: added, excess: 20_000 - 1024, duplicates: 19_999 });
  });

  it('finds the oldest of those beyond its bounds without a search, also in a storm of failed or unended calls', () => {
    const { matcher } = matching({ pendingHalvesMax: 1000 });
    const searches = [vi.spyOn(Map.prototype, 'keys'), vi.spyOn(Map.prototype, 'values')];
    for (let index = 0; index < 40_000; index++) {
      const call = { ...half('client 1 c<p 0-1'), spanId: `${index}`, traceId: `${index}`, start: index };
      matcher.add(index % 2 === 0 ? { ...call, end: undefined } : { ...call, end: index + 1, status: 'error' });
    }
    expect(searches.reduce((sum, { mock }) => sum + mock.calls.length, 0)).toBeLessThan(10);
    for (const search of searches) search.mockRestore();
    matcher.end();
    expect(matcher.counts).toMatchObject({ added: 40_000, reported: 1000, evicted: 39_000, pending: 0 });
  });

  it('evicts open halves again after all of them had gone', () => {
    const { matcher } = matching({ pendingHalvesMax: 1 });
    for (const text of ['client 1 a<p 0-', 'client 1 b<p 1-', 'client 1 c<p 2-']) matcher.add(half(text));
    matcher.close(half('client 1 c<p 2-3'));
    for (const text of ['client 1 d<p 4-', 'client 1 e<p 5-', 'client 1 f<p 6-']) matcher.add(half(text));
    expect(matcher.counts).toMatchObject({ added: 6, evicted: 5, pending: 1 });
  });

  // Ids from a small pool, so that every case of ids occurs: shared ones, chains, floods, duplicates, none.
  const id = fc.constantFrom('', 'a', 'b', 'c', 'd');
  const anyHalf = fc.record({
    member: fc.integer({ min: 1, max: 3 }),
    side: fc.constantFrom('client' as const, 'server' as const),
    traceId: fc.constantFrom('', 't'),
    spanId: id,
    parentSpanId: id,
    method: fc.constantFrom('Push', 'Pull'),
    peer: fc.constant('ps'),
    status: fc.constantFrom('ok', 'error'),
    start: fc.integer({ min: 0, max: 20_000 }).map((time) => time * ms),
    end: fc.integer({ min: 0, max: 9000 }).map((time): number | undefined => time * ms),
  });
  const options = fc.record({
    waitNs: fc.constantFrom(0, 100 * ms, 5000 * ms, Number.POSITIVE_INFINITY),
    pendingHalvesMax: fc.constantFrom(1, 3, 1000),
    serversPerCallMax: fc.constantFrom(1, 2, 1000),
  });

  it('reports no half twice and loses none uncounted, whatever comes in whatever order (seed 41)', () => {
    fc.assert(
      fc.property(
        fc.array(anyHalf, { maxLength: 40 }),
        options,
        fc.boolean(),
        fc.array(fc.nat(3), { maxLength: 40 }),
        (given, limits, isInOrder, opens) => {
          const halves = given.map((about) => ({ ...about, end: about.start + (about.end as number) }));
          if (isInOrder) halves.sort((a, b) => a.start - b.start);
          const { matcher, rpcs } = matching(limits);
          const toClose: RpcHalf[] = [];
          for (const [index, about] of halves.entries()) {
            if (isInOrder) matcher.advance(about.start);
            const isOpen = (opens[index] ?? 0) > 1;
            matcher.add(isOpen ? { ...about, end: undefined, status: '' } : { ...about });
            if (opens[index] === 2) toClose.push(about);
            if (index % 3 === 0) for (const closing of toClose.splice(0)) matcher.close(closing);
            expect(matcher.counts.pending).toBeLessThanOrEqual(limits.pendingHalvesMax);
          }
          matcher.end();
          const { added, reported, givenUp, pending } = matcher.counts;
          expect([added, pending]).toEqual([halves.length, 0]);
          expect(reported + givenUp).toBe(added);
          const clients = rpcs.filter(({ client, isRepeat }) => client !== undefined && !isRepeat);
          const servers = rpcs.filter(({ server }) => server !== undefined).map(({ server }) => server);
          expect(clients.length + servers.length).toBe(reported);
          expect(new Set(servers).size).toBe(servers.length);
          expect(new Set(clients.map(({ client }) => client)).size).toBe(clients.length);
          for (const { client, server } of rpcs) {
            if (client === undefined || server === undefined) continue;
            expect([server.parentSpanId, server.spanId]).toContain(client.spanId);
            expect(server.traceId).toBe(client.traceId);
          }
        },
      ),
      { seed: 41, numRuns: 1000 },
    );
  });

  it('finds the same calls in any order of arrival (seed 42)', () => {
    // Clients have unique ids, as in reality; servers match by parent or share their client's id.
    const call = fc.record({ servers: fc.array(fc.boolean(), { maxLength: 3 }), hasClient: fc.boolean(), parent: fc.nat(20) });
    const cluster = fc
      .array(call, { maxLength: 12 })
      .map((calls) =>
        calls.flatMap(({ servers, hasClient, parent }, index) => [
          ...(hasClient ? [half(`client 1 c${index}<c${parent} ${index}-${index + 50}`)] : []),
          ...servers.map((isShared, at) =>
            half(
              isShared
                ? `server ${at + 2} c${index}<c${parent} ${index + at}-40`
                : `server ${at + 2} s${index}x${at}<c${index} ${index + at}-40`,
            ),
          ),
        ]),
      );
    const arranged = cluster.chain((halves) => fc.tuple(fc.constant(halves), fc.shuffledSubarray(halves, { minLength: halves.length })));
    const found = (halves: readonly RpcHalf[]): string[] => {
      const { matcher, lines } = matching();
      for (const about of halves) matcher.add(about);
      matcher.end();
      return lines.sort();
    };
    fc.assert(
      fc.property(arranged, ([halves, shuffled]) => {
        expect(found(shuffled)).toEqual(found(halves));
      }),
      { seed: 42, numRuns: 1000 },
    );
  });
});

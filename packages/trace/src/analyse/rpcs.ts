// Remote calls by (method, source → destination): count, total time, time on the server, time on the network. A sink on the merge that
// writes the trace.
//
//   client   ├───────────────── total ─────────────────┤
//   server          ├──────── server ───────┤
//            ├ out ─┤                       ├── back ──┤        network = total − server = out + back
//
// Total and server are lengths on one clock each, so the whole network time needs no aligned clocks. Only its split into out and back
// does: both carry ± epsilon, 0 on one host, and are omitted if a clock is not aligned.
//
// Network time covers only calls with one server, for which the client waited. A server that outlives its client is async: it is longer, which
// is certain, or ends later by more than epsilon. A client with several servers (retries, fan-out) proves nothing about the network.

import { type Nanos, nanos, traceTime } from '@ranktrace/protocol';
import { type MatchedRpc, type RpcHalf, type RpcMatchCounts, RpcMatcher, type RpcMatcherOptions, rpcHalfOf } from '../match/rpc-matcher.ts';
import { epsilonOf } from '../model/epsilon.ts';
import { limits } from '../model/limits.ts';
import { QuantileSketch } from '../model/quantile-sketch.ts';
import { StretchQueue } from '../model/stretch-queue.ts';
import type { TraceEvent, TraceHeader, TraceProcess, TraceSink } from '../model/trace-sink.ts';
import { serviceKey } from '../zipkin/zipkin-source.ts';

/** Quantiles of lengths of time, ns; accurate to 1 %, exact for up to 256 of them. */
export interface LengthQuantiles {
  readonly count: number;
  readonly p50: Nanos;
  readonly p95: Nanos;
  readonly p99: Nanos;
}

/** One side of a route: a rank of the trace, or the other side's name for it if its own half is missing. */
export interface RpcParty {
  /** `rank 3`, the service's name, or the peer as the other side named it; '' for unknown. */
  readonly name: string;
  /** Undefined if no half of that side was recorded. */
  readonly rank: number | undefined;
}

/** All calls of one method from one place to another. */
export interface RpcRoute {
  readonly method: string;
  readonly source: RpcParty;
  readonly destination: RpcParty;
  /** Each client span, and each server span without one, counts once. */
  readonly calls: number;
  /** Calls that ended with an error on the client (if it is missing: on the server). */
  readonly errors: number;
  /** Calls, or further servers of a call, that retry a failed one. */
  readonly retries: number;
  /** Further servers of calls that went to several ranks at once. */
  readonly fanOut: number;
  /** Client spans without a server span, and server spans without a client span. */
  readonly withoutServer: number;
  readonly withoutClient: number;
  /** Calls with a half that never ended. */
  readonly unfinished: number;
  /** Calls with a server that outlived the client. */
  readonly async: number;
  /** Lengths of the client spans; undefined if none ended. */
  readonly total: LengthQuantiles | undefined;
  readonly server: LengthQuantiles | undefined;
  readonly network: LengthQuantiles | undefined;
  /** Server start − client start, client end − server end; undefined if the two clocks are not aligned. */
  readonly out: LengthQuantiles | undefined;
  readonly back: LengthQuantiles | undefined;
  /** ± of `out` and `back`: the largest of all calls; 0 on one host, undefined if they are. */
  readonly epsilon: Nanos | undefined;
  /** Calls with a server that starts before its client or ends after it without being async: clock error, within epsilon if that holds. */
  readonly reversed: number;
}

export interface RpcSummary {
  /** Most total time first. */
  readonly routes: readonly RpcRoute[];
  /** Routes beyond the limit that share the last line, `(other routes)`. */
  readonly routesLeftOut: number;
  readonly halves: RpcMatchCounts;
}

/** Name of the route that collects all beyond `limits.rpcRoutesMax` routes. */
export const otherRoutes = '(other routes)';

interface Route {
  readonly method: string;
  readonly source: RpcParty;
  readonly destination: RpcParty;
  readonly counts: Record<
    'calls' | 'errors' | 'retries' | 'fanOut' | 'withoutServer' | 'withoutClient' | 'unfinished' | 'async' | 'reversed',
    number
  >;
  readonly lengths: Record<'total' | 'server' | 'network' | 'out' | 'back', QuantileSketch>;
  /** Sum over all calls, ns: the order of routes. */
  sum: number;
  epsilon: number;
}

const nobody: RpcParty = { name: '', rank: undefined };

export class RpcSink implements TraceSink {
  readonly #matcher: RpcMatcher;
  readonly #toMatch = new StretchQueue<{ readonly half: RpcHalf; readonly isClose: boolean }>(({ half, isClose }, time) => {
    this.#matcher.advance(time);
    if (isClose) this.#matcher.close(half);
    else this.#matcher.add(half);
  });
  readonly #routes = new Map<string, Route>();
  /** Keys of routes that found no room; at most as many as there are places. */
  readonly #leftOut = new Set<string>();
  #processes: ReadonlyMap<number, TraceProcess> = new Map();

  constructor(options: RpcMatcherOptions = {}) {
    this.#matcher = new RpcMatcher((rpc) => this.#count(rpc), options);
  }

  begin(header: TraceHeader): void {
    this.#toMatch.begin(header);
    this.#processes = new Map(header.processes.map((process) => [process.index, process]));
  }

  lane(): void {}

  event(event: TraceEvent): void {
    if (event.kind !== 'rpc' || (event.side !== 'client' && event.side !== 'server')) return;
    const half = rpcHalfOf(event);
    const isClose = event.state === 'close';
    this.#toMatch.add(isClose ? (half.end as number) : half.start, { half, isClose });
  }

  endStretch(): void {
    this.#toMatch.endStretch();
  }

  end(): void {
    this.#matcher.end();
  }

  get summary(): RpcSummary {
    const routes = [...this.#routes.values()].sort((a, b) => b.sum - a.sum || b.counts.calls - a.counts.calls);
    return { routes: routes.map(summarise), routesLeftOut: this.#leftOut.size, halves: this.#matcher.counts };
  }

  #count(rpc: MatchedRpc): void {
    const { client, server, attempt, isRepeat } = rpc;
    const route = this.#routeOf(rpc);
    const { counts } = route;
    if (isRepeat) {
      if (attempt > 1) counts.retries++;
      else counts.fanOut++;
    } else {
      counts.calls++;
      if (attempt > 1) counts.retries++;
      if ((client ?? server)?.status === 'error') counts.errors++;
      if (server === undefined) counts.withoutServer++;
      if (client === undefined) counts.withoutClient++;
    }
    const total = client === undefined || isRepeat ? undefined : lengthOf(client);
    const onServer = server === undefined ? undefined : lengthOf(server);
    if (isUnfinished(isRepeat ? undefined : client) || isUnfinished(server)) counts.unfinished++;
    if (total !== undefined) route.lengths.total.add(total);
    if (onServer !== undefined) route.lengths.server.add(onServer);
    route.sum += total ?? onServer ?? 0;
    if (client !== undefined && server !== undefined) this.#countNetwork(route, client, server, rpc.servers === 1);
  }

  /** `isOnly`: the client had no other server. */
  #countNetwork(route: Route, client: RpcHalf, server: RpcHalf, isOnly: boolean): void {
    if (client.end === undefined || server.end === undefined) return;
    const network = client.end - client.start - (server.end - server.start);
    const epsilon = this.#epsilon(client, server);
    const [out, back] = [server.start - client.start, client.end - server.end];
    if (network < 0 || (epsilon !== undefined && back < -epsilon)) {
      route.counts.async++;
      return;
    }
    if (!isOnly) return;
    const { lengths, counts } = route;
    lengths.network.add(network);
    if (epsilon === undefined) return;
    lengths.out.add(out);
    lengths.back.add(back);
    if (out < 0 || back < 0) counts.reversed++;
    route.epsilon = Math.max(route.epsilon, epsilon);
  }

  #epsilon(client: RpcHalf, server: RpcHalf): number | undefined {
    const [a, b] = [this.#processes.get(client.member), this.#processes.get(server.member)];
    return a === undefined || b === undefined ? undefined : epsilonOf(a, b, traceTime(client.start));
  }

  #routeOf({ client, server }: MatchedRpc): Route {
    const method = (client ?? server)?.method ?? '';
    const source = client === undefined ? { ...nobody, name: server?.peer ?? '' } : this.#party(client.member);
    const destination = server === undefined ? { ...nobody, name: client?.peer ?? '' } : this.#party(server.member);
    // Encoded as JSON, so that two routes with arbitrary texts never share a key.
    const key = JSON.stringify([method, source.rank, source.name, destination.rank, destination.name]);
    const known = this.#routes.get(key);
    if (known !== undefined) return known;
    if (this.#routes.size < limits.rpcRoutesMax - 1) return this.#addRoute(key, method, source, destination);
    if (this.#leftOut.size < limits.rpcRoutesMax) this.#leftOut.add(key);
    return this.#routes.get(otherRoutes) ?? this.#addRoute(otherRoutes, otherRoutes, nobody, nobody);
  }

  #addRoute(key: string, method: string, source: RpcParty, destination: RpcParty): Route {
    const sketch = (): QuantileSketch => new QuantileSketch();
    const lengths = { total: sketch(), server: sketch(), network: sketch(), out: sketch(), back: sketch() };
    const counts = { calls: 0, errors: 0, retries: 0, fanOut: 0, withoutServer: 0, withoutClient: 0, unfinished: 0, async: 0, reversed: 0 };
    const route: Route = { method, source, destination, counts, lengths, sum: 0, epsilon: 0 };
    this.#routes.set(key, route);
    return route;
  }

  #party(member: number): RpcParty {
    const process = this.#processes.get(member);
    if (process === undefined) return nobody;
    return { name: process.metadata.get(serviceKey) ?? `rank ${process.rank}`, rank: process.rank };
  }
}

function summarise({ method, source, destination, counts, lengths, epsilon }: Route): RpcRoute {
  return {
    method,
    source,
    destination,
    ...counts,
    total: quantilesOf(lengths.total),
    server: quantilesOf(lengths.server),
    network: quantilesOf(lengths.network),
    out: quantilesOf(lengths.out),
    back: quantilesOf(lengths.back),
    epsilon: lengths.out.count === 0 ? undefined : nanos(epsilon),
  };
}

function quantilesOf(sketch: QuantileSketch): LengthQuantiles | undefined {
  const found = sketch.quantiles([0.5, 0.95, 0.99]);
  if (found === undefined) return undefined;
  const [p50, p95, p99] = found;
  return { count: sketch.count, p50: nanos(p50), p95: nanos(p95), p99: nanos(p99) };
}

const isUnfinished = (half: RpcHalf | undefined): boolean => half !== undefined && half.end === undefined;

const lengthOf = ({ start, end }: RpcHalf): number | undefined => (end === undefined ? undefined : end - start);

// Matches the two halves of remote calls, recorded on different ranks, by span context. Feeds the clocks' coupling pass and the report.
//
//   client   span c, parent p   ──────────────────────          the call is named by (trace, c)
//   server   span s, parent c        ──────────────             as in W3C Trace Context and in the SDK's recordings
//   server   span c, parent p        ──────────────             as with Zipkin's `shared: true`: one id on both sides
//
// Once all halves of a call have ended, it waits until the stream has gone on by `waitNs`: a retry under the same client span, or an async
// server that starts after its client returned, still joins it, and nothing is reported twice. Open halves wait for their end.
//
// Invariants: ids alone decide which halves match, never their order: a server goes to the client that has its own
// id, else to the one that has its parent's, as long as neither was reported. Every half that is not reported is counted:
// added = reported + givenUp + pending.

import { limits } from '../model/limits.ts';
import type { TraceEvent } from '../model/trace-sink.ts';
import { DueQueue } from './due-queue.ts';

/** One rank's side of a remote call, on any one axis of the caller's choice, ns. Ids are hex texts, '' for none. */
export interface RpcHalf {
  /** TraceProcess.index. */
  readonly member: number;
  readonly side: 'client' | 'server';
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string;
  readonly method: string;
  /** The other side, as this one names it; '' for unknown. */
  readonly peer: string;
  /** `ok`, `error`, or '' while it is not known. */
  readonly status: string;
  readonly start: number;
  /** Undefined: still open. */
  readonly end: number | undefined;
}

/**
 * A client and one server of it, or a half that never met its other half. A client with several servers is reported once with each, in
 * order of their start.
 */
export interface MatchedRpc {
  readonly client: RpcHalf | undefined;
  readonly server: RpcHalf | undefined;
  /**
   * 1, 2, …: above 1 for a retry, either as one more server under the same client span (on the same rank, or after one that
   * failed), or as one more client span of the same parent and method soon after one that failed. Servers of other ranks are a fan-out:
   * all of them have the client's own attempt.
   */
  readonly attempt: number;
  /** Number of servers of the client. With more than one, the client's length is no measure of the network to any of them. */
  readonly servers: number;
  /** Whether the client was reported before, with an earlier server. */
  readonly isRepeat: boolean;
}

export interface RpcMatcherOptions {
  /** How long a call waits for more halves once all of them have ended, ns of the stream's time. */
  readonly waitNs?: number;
  /** Most halves held: beyond, the call that is due first is reported if it is whole, else given up. */
  readonly pendingHalvesMax?: number;
  /** Most servers of one call. */
  readonly serversPerCallMax?: number;
}

/** Halves by outcome. */
export interface RpcMatchCounts {
  readonly added: number;
  /** Reported halves. A client reported with several servers counts once. */
  readonly reported: number;
  readonly pending: number;
  /** The sum of the next five. */
  readonly givenUp: number;
  /** Evicted alone to make room: whether the other half exists is not known. */
  readonly evicted: number;
  /** A second client with the same id, or the same server again. */
  readonly duplicates: number;
  /** Beyond the servers that one call may have. */
  readonly excess: number;
  /** With times that are no numbers, or an end before the start. */
  readonly invalid: number;
  /** Ends of halves not known as open (any more). They are no halves, so no part of `givenUp`. */
  readonly strayCloses: number;
}

const defaults: Required<RpcMatcherOptions> = {
  waitNs: 5e9,
  pendingHalvesMax: limits.rpcHalvesPendingMax,
  serversPerCallMax: limits.rpcServersPerCallMax,
};

interface Half {
  about: RpcHalf;
  call: Call;
  readonly attempt: number;
}

/** Everything received for one call. */
interface Call {
  /** Undefined: without ids, so nothing can find it. */
  readonly key: string | undefined;
  client: Half | undefined;
  readonly servers: Half[];
  open: number;
  /** The latest end of its halves. */
  latestEnd: number;
  /** Time at which the queue releases it; undefined: it is not queued. */
  queuedFor: number | undefined;
  isOver: boolean;
}

export class RpcMatcher {
  readonly #onMatched: (rpc: MatchedRpc) => void;
  readonly #options: Required<RpcMatcherOptions>;
  readonly #calls = new Map<string, Call>();
  /** By their own ids: a client that shares its id with its server may come after it. */
  readonly #servers = new Map<string, Half[]>();
  readonly #open = new Map<string, Half>();
  readonly #due = new DueQueue<Call>();
  /** From the oldest one on. One iterator for all evictions: a new one steps over every entry deleted before the oldest. */
  #oldestOpen = this.#open.values();
  /** Failed clients: the number of the attempt, and its end. */
  readonly #failures = new Map<string, { readonly attempt: number; readonly end: number }>();
  /** As `#oldestOpen`; it never comes to its end, for it is asked only while there are too many. */
  readonly #oldestFailures = this.#failures.keys();
  readonly #counts = { added: 0, reported: 0, pending: 0, evicted: 0, duplicates: 0, excess: 0, invalid: 0, strayCloses: 0 };

  constructor(onMatched: (rpc: MatchedRpc) => void, options: RpcMatcherOptions = {}) {
    this.#onMatched = onMatched;
    this.#options = { ...defaults, ...options };
  }

  get counts(): RpcMatchCounts {
    const { evicted, duplicates, excess, invalid } = this.#counts;
    return { ...this.#counts, givenUp: evicted + duplicates + excess + invalid };
  }

  /** Takes a half, in any order; an open one has `end` undefined. The object is kept: a caller that reuses its own must pass a copy. */
  add(about: RpcHalf): void {
    this.#counts.added++;
    const { start, end } = about;
    if (!Number.isFinite(start) || (end !== undefined && !(end >= start && end < Number.POSITIVE_INFINITY))) {
      this.#counts.invalid++;
      return;
    }
    if (end === undefined && this.#open.has(openKey(about))) this.#counts.duplicates++;
    else if (about.side === 'client') this.#addClient(about);
    else this.#addServer(about);
    while (this.#counts.pending > this.#options.pendingHalvesMax) this.#evict();
  }

  /** Ends a half that was added as open: the same half with its `end` and `status`. */
  close(about: RpcHalf): void {
    const key = openKey(about);
    const half = this.#open.get(key);
    if (half === undefined || about.end === undefined || !(about.end >= about.start && about.end < Number.POSITIVE_INFINITY)) {
      this.#counts.strayCloses++;
      return;
    }
    this.#open.delete(key);
    half.about = { ...half.about, end: about.end, status: about.status };
    const { call } = half;
    call.open--;
    this.#hasEnded(half);
    this.#queue(call);
  }

  /** Announces that nothing that starts before `time` will come; reports the calls that have waited long enough. */
  advance(time: number): void {
    for (let call = this.#due.pop(time); call !== undefined; call = this.#due.pop(time)) {
      const { queuedFor } = call;
      call.queuedFor = undefined;
      if (call.isOver || call.open > 0) continue;
      // If more halves came while the call waited, it waits again.
      if (this.#dueOf(call) > (queuedFor as number)) this.#queue(call);
      else this.#report(call);
    }
  }

  /** Announces that nothing more will come; reports all that is left, open calls without an end. */
  end(): void {
    this.advance(Number.POSITIVE_INFINITY);
    for (const { call } of this.#open.values()) if (!call.isOver) this.#report(call);
  }

  #addClient(about: RpcHalf): void {
    const key = about.spanId === '' ? undefined : keyOf(about.traceId, about.spanId);
    const call = this.#call(key);
    if (call.client !== undefined) {
      this.#counts.duplicates++;
      return;
    }
    const half: Half = { about, call, attempt: this.#attemptOf(about) };
    call.client = half;
    this.#join(half);
    if (key === undefined) return;
    for (const server of this.#servers.get(key) ?? []) if (server.call !== call) this.#move(server, call);
  }

  #addServer(about: RpcHalf): void {
    const { traceId, spanId, parentSpanId } = about;
    const own = spanId === '' ? undefined : keyOf(traceId, spanId);
    const isShared = own !== undefined && this.#calls.get(own)?.client !== undefined;
    const call = this.#call(isShared || parentSpanId === '' ? own : keyOf(traceId, parentSpanId));
    if (call.servers.some(({ about: other }) => isSame(other, about))) {
      this.#counts.duplicates++;
      return;
    }
    if (call.servers.length >= this.#options.serversPerCallMax) {
      this.#counts.excess++;
      return;
    }
    const half: Half = { about, call, attempt: 1 };
    call.servers.push(half);
    this.#join(half);
    if (own === undefined) return;
    const sharing = this.#servers.get(own);
    if (sharing === undefined) this.#servers.set(own, [half]);
    else if (sharing.length < this.#options.serversPerCallMax) sharing.push(half);
  }

  /** The call of that name, created if needed. */
  #call(key: string | undefined): Call {
    const known = key === undefined ? undefined : this.#calls.get(key);
    if (known !== undefined) return known;
    const call: Call = {
      key,
      client: undefined,
      servers: [],
      open: 0,
      latestEnd: Number.NEGATIVE_INFINITY,
      queuedFor: undefined,
      isOver: false,
    };
    if (key !== undefined) this.#calls.set(key, call);
    return call;
  }

  #join(half: Half): void {
    this.#counts.pending++;
    if (half.about.end === undefined) {
      half.call.open++;
      this.#open.set(openKey(half.about), half);
    } else this.#hasEnded(half);
    this.#queue(half.call);
  }

  #hasEnded({ about, call, attempt }: Half): void {
    const end = about.end as number;
    call.latestEnd = Math.max(call.latestEnd, end);
    if (about.side !== 'client' || about.status !== 'error' || about.traceId === '') return;
    this.#failures.set(retryKey(about), { attempt, end });
    if (this.#failures.size > limits.rpcFailuresMax) this.#failures.delete(this.#oldestFailures.next().value as string);
  }

  /** Attempt number of a client: one more than that of the failed one that it repeats. */
  #attemptOf(about: RpcHalf): number {
    if (about.traceId === '' || this.#failures.size === 0) return 1;
    const key = retryKey(about);
    const failed = this.#failures.get(key);
    if (failed === undefined || failed.end > about.start || about.start - failed.end > this.#options.waitNs) return 1;
    this.#failures.delete(key);
    return failed.attempt + 1;
  }

  /** Moves a server to the client with its own id, which has just come: the two share it, so the call of its parent's id is not its own. */
  #move(server: Half, to: Call): void {
    const from = server.call;
    if (to.servers.length >= this.#options.serversPerCallMax) return;
    from.servers.splice(from.servers.indexOf(server), 1);
    to.servers.push(server);
    server.call = to;
    to.latestEnd = Math.max(to.latestEnd, server.about.end ?? Number.NEGATIVE_INFINITY);
    if (server.about.end === undefined) {
      from.open--;
      to.open++;
    }
    this.#queue(to);
    if (from.client === undefined && from.servers.length === 0) this.#forget(from);
    else this.#queue(from);
  }

  #dueOf = (call: Call): number => call.latestEnd + this.#options.waitNs;

  #queue(call: Call): void {
    if (call.queuedFor !== undefined || call.isOver || call.open > 0) return;
    call.queuedFor = this.#dueOf(call);
    this.#due.push(call.queuedFor, call);
  }

  /** Makes room: drops the call that would be reported first, else the one that has been open for longest. */
  #evict(): void {
    for (let call = this.#due.pop(Number.POSITIVE_INFINITY); call !== undefined; call = this.#due.pop(Number.POSITIVE_INFINITY)) {
      call.queuedFor = undefined;
      if (call.isOver || call.open > 0) continue;
      this.#dismiss(call);
      return;
    }
    let oldest = this.#oldestOpen.next().value;
    if (oldest === undefined) {
      // An iterator that came to its end stays there.
      this.#oldestOpen = this.#open.values();
      oldest = this.#oldestOpen.next().value;
    }
    if (oldest !== undefined) this.#dismiss(oldest.call);
  }

  #dismiss(call: Call): void {
    if (call.client !== undefined && call.servers.length > 0) {
      this.#report(call);
      return;
    }
    this.#counts.evicted += this.#forget(call);
  }

  #report(call: Call): void {
    const { client, servers } = call;
    this.#counts.reported += this.#forget(call);
    const first = client?.attempt ?? 1;
    if (servers.length === 0) this.#onMatched({ client: client?.about, server: undefined, attempt: first, servers: 0, isRepeat: false });
    let attempt = first;
    let hasFailed = false;
    const members = new Set<number>();
    for (const [index, { about }] of inOrder(servers).entries()) {
      const isRetry = hasFailed || members.has(about.member);
      if (isRetry) attempt++;
      members.add(about.member);
      hasFailed ||= about.status === 'error';
      const isRepeat = client !== undefined && index > 0;
      this.#onMatched({ client: client?.about, server: about, attempt: isRetry ? attempt : first, servers: servers.length, isRepeat });
    }
  }

  /** Removes a call from all tables; returns the number of its halves. */
  #forget(call: Call): number {
    call.isOver = true;
    if (call.key !== undefined && this.#calls.get(call.key) === call) this.#calls.delete(call.key);
    const halves = call.client === undefined ? call.servers : [call.client, ...call.servers];
    for (const half of halves) {
      if (half.about.end === undefined) this.#open.delete(openKey(half.about));
      if (half !== call.client) this.#forgetServer(half);
    }
    this.#counts.pending -= halves.length;
    return halves.length;
  }

  #forgetServer(half: Half): void {
    const { traceId, spanId } = half.about;
    if (spanId === '') return;
    const own = keyOf(traceId, spanId);
    const sharing = this.#servers.get(own);
    const at = sharing?.indexOf(half) ?? -1;
    if (sharing === undefined || at < 0) return;
    if (sharing.length === 1) this.#servers.delete(own);
    else sharing.splice(at, 1);
  }
}

const keyOf = (traceId: string, spanId: string): string => `${traceId} ${spanId}`;

const openKey = ({ member, side, traceId, spanId, start }: RpcHalf): string => `${member} ${side} ${traceId} ${spanId} ${start}`;

// Not by peer: a retry mostly goes elsewhere. Calls without a parent are of one trace only if their program says so.
const retryKey = ({ member, traceId, parentSpanId, method }: RpcHalf): string => `${member} ${traceId} ${parentSpanId} ${method}`;

const isSame = (a: RpcHalf, b: RpcHalf): boolean => a.member === b.member && a.spanId === b.spanId && a.start === b.start;

const inOrder = (servers: readonly Half[]): Half[] =>
  [...servers].sort(({ about: a }, { about: b }) => a.start - b.start || a.member - b.member || (a.spanId < b.spanId ? -1 : 1));

/** An `rpc` event of a merge as a half: a copy, as the event is reused. For a `close` event, it goes to `RpcMatcher.close`. */
export function rpcHalfOf(event: TraceEvent): RpcHalf {
  const { side, traceId, spanId, parentSpanId, name, peer, status, start, length, state, lane } = event;
  return {
    member: lane.process.index,
    side: side === 'server' ? 'server' : 'client',
    traceId,
    spanId,
    parentSpanId,
    method: name,
    peer,
    status,
    start,
    end: state === 'open' ? undefined : start + length,
  };
}

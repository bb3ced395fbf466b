// Remote calls between ranks of different hosts, as a Poisson process.
//
//   client   start ─────────────────────────────────────────► end         start < server start < server end < end, in true time
//   server         └► start ──┬─────────────────────► end ──┘
//                             └► a nested call (5 %)                     1 % fail and are retried once, in the same trace
//
// Routes 20 µs + queueing (mean 25 µs), work exp(300 µs), as in the reference's simulation.

import { nanosPerSecond } from '@ranktrace/protocol';
import { queueing } from './host-pinger.ts';
import type { Random } from './random.ts';
import type { SimulatedRank } from './simulated-rank.ts';

const wayNs = 20_000;
const queueNs = 25_000;
const workNs = 300_000;
const nestedShare = 0.05;
const failedShare = 0.01;
const methods = ['GetBatch', 'PushGradients', 'Evaluate', 'Heartbeat'] as const;
const noParent = new Uint8Array(8);

/** A call in true time, ns, even if its halves were not recorded. */
export interface TrueRpc {
  readonly source: number;
  readonly destination: number;
  readonly method: string;
  readonly clientStart: number;
  readonly serverStart: number;
  readonly serverEnd: number;
  readonly clientEnd: number;
  readonly isClientRecorded: boolean;
  readonly isServerRecorded: boolean;
}

interface Call {
  readonly source: SimulatedRank;
  readonly start: number;
  readonly trace: Uint8Array;
  readonly parentSpan: Uint8Array;
  /** The caller's own span around the call, 0 for none. */
  readonly parent: number;
  readonly method: string;
  readonly depth: number;
}

export class RpcTraffic {
  readonly #hosts: readonly (readonly SimulatedRank[])[];
  readonly #gapNs: number;
  readonly #random: Random;
  readonly #onRpc: ((rpc: TrueRpc) => void) | undefined;
  #next: number;

  /** `hosts`: the ranks of each. Calls begin at true time `from`. */
  constructor(
    hosts: readonly (readonly SimulatedRank[])[],
    perSecond: number,
    from: number,
    random: Random,
    onRpc: ((rpc: TrueRpc) => void) | undefined,
  ) {
    this.#hosts = hosts;
    const alone = hosts.length === 1 && hosts[0]?.length === 1;
    this.#gapNs = alone || perSecond === 0 ? Number.POSITIVE_INFINITY : nanosPerSecond / perSecond;
    this.#random = random;
    this.#onRpc = onRpc;
    this.#next = from + random.exponential(this.#gapNs);
  }

  /** Runs calls that begin before true time `horizon`, ns. */
  until(horizon: number): void {
    const random = this.#random;
    for (; this.#next < horizon; this.#next += random.exponential(this.#gapNs)) {
      const ranks = this.#hosts[random.whole(this.#hosts.length)] as readonly SimulatedRank[];
      const source = ranks[random.whole(ranks.length)] as SimulatedRank;
      const about = { source, trace: random.bytes(16), parentSpan: noParent, parent: 0, depth: 0 };
      const call = { ...about, method: methods[random.whole(methods.length)] as string };
      const isOk = !random.chance(failedShare);
      const end = this.#call({ ...call, start: this.#next }, isOk);
      if (!isOk) this.#call({ ...call, start: end + random.exponential(workNs) }, true);
    }
  }

  /** Makes a call with its nested calls; returns the true time of its end. */
  #call({ source, start, trace, parentSpan, parent, method, depth }: Call, isOk: boolean): number {
    const random = this.#random;
    const destination = this.#other(source);
    const [span, serverSpan] = [random.bytes(8), random.bytes(8)];
    const [id, serverId] = [source.nextId(), destination.nextId()];
    const serverStart = start + wayNs + queueing(random, queueNs);
    let serverEnd = serverStart + random.exponential(workNs);
    if (depth === 0 && random.chance(nestedShare)) {
      const begun = serverStart + random.exponential(workNs / 4);
      const nested = { source: destination, start: begun, trace, parentSpan: serverSpan, parent: serverId, method: 'Lookup', depth: 1 };
      serverEnd = Math.max(serverEnd, this.#call(nested, true) + random.exponential(workNs / 4));
    }
    const end = serverEnd + wayNs + queueing(random, queueNs);
    const status = isOk ? 'ok' : 'error';
    const [from, to] = [`rank ${source.about.rank}`, `rank ${destination.about.rank}`];
    const shared = { method, status, trace } as const;
    const isClientRecorded = source.rpc({ ...shared, start, end, side: 'client', peer: to, id, parent, span, parentSpan });
    const server = { side: 'server', peer: from, id: serverId, parent: 0, span: serverSpan, parentSpan: span } as const;
    const isServerRecorded = destination.rpc({ ...shared, ...server, start: serverStart, end: serverEnd });
    this.#onRpc?.({
      source: source.about.rank,
      destination: destination.about.rank,
      method,
      clientStart: start,
      serverStart,
      serverEnd,
      clientEnd: end,
      isClientRecorded,
      isServerRecorded,
    });
    return end;
  }

  /** A rank of another host; with one host, another of its ranks. */
  #other(source: SimulatedRank): SimulatedRank {
    const random = this.#random;
    const hosts = this.#hosts;
    if (hosts.length > 1) {
      const ranks = hosts[(source.about.hostIndex + 1 + random.whole(hosts.length - 1)) % hosts.length] as readonly SimulatedRank[];
      return ranks[random.whole(ranks.length)] as SimulatedRank;
    }
    const ranks = hosts[0] as readonly SimulatedRank[];
    return ranks[(source.about.rank + 1 + random.whole(ranks.length - 1)) % ranks.length] as SimulatedRank;
  }
}

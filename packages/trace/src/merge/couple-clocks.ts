// The merge's coupling pass: feeds collectives and remote calls, on the axis of each host's own evidence, to the coupling of the
// hosts' clocks. It is a sink like any other, so that live and offline runs feed it the same events in the same order.

import { isBarrierLike } from '@ranktrace/protocol';
import { CollectiveMatcher, type CollectivePart, type MatchedCollective } from '../match/collective-matcher.ts';
import { type MatchedRpc, RpcMatcher, rpcHalfOf } from '../match/rpc-matcher.ts';
import type { TraceEvent, TraceSink } from '../model/trace-sink.ts';

/** `ClockCoupling`, or `LastResort`. */
export interface CouplingPort {
  message(from: number, sent: number, to: number, received: number): void;
  collective(group: string, clocks: readonly number[], entries: readonly number[], exits: readonly number[]): void;
  end(): void;
}

export class CoupleClocksSink implements TraceSink {
  readonly #coupling: CouplingPort;
  readonly #clockOf: readonly (number | undefined)[];
  readonly #collectives = new CollectiveMatcher((matched) => this.#couple(matched));
  readonly #rpcs = new RpcMatcher((matched) => this.#coupleCall(matched));

  /** `clockOf`: the clock that each process reads, in order of process index (from 1); undefined for one that is not aligned. */
  constructor(coupling: CouplingPort, clockOf: readonly (number | undefined)[]) {
    this.#coupling = coupling;
    this.#clockOf = clockOf;
  }

  begin(): void {}

  lane(): void {}

  event(event: TraceEvent): void {
    if (this.#clockOf[event.lane.process.index - 1] === undefined) return;
    if (event.kind === 'collective') this.#addPart(event);
    else if (event.kind === 'rpc') this.#addHalf(event);
  }

  end(): void {
    this.#collectives.end();
    this.#rpcs.end();
    this.#coupling.end();
  }

  #addPart({ lane, state, start, length, name: op, group, sequence, peerRank: peer, bytes }: TraceEvent): void {
    const { index: member, rank } = lane.process;
    if (state === 'close') this.#collectives.close(member, group, sequence, peer, op, start + length);
    else
      this.#collectives.add({
        member,
        rank,
        op,
        group,
        sequence,
        peer,
        bytes,
        entry: start,
        exit: state === 'whole' ? start + length : undefined,
      });
  }

  #addHalf(event: TraceEvent): void {
    this.#rpcs.advance(event.state === 'close' ? event.start + event.length : event.start);
    if (event.state === 'close') this.#rpcs.close(rpcHalfOf(event));
    else this.#rpcs.add(rpcHalfOf(event));
  }

  #couple({ group, op, parts, pair }: MatchedCollective): void {
    if (pair !== undefined) {
      const source = parts.find(({ rank }) => rank === pair[0]);
      const destination = parts.find(({ rank }) => rank === pair[1]);
      if (source !== undefined && destination?.exit !== undefined) {
        this.#coupling.message(this.#clock(source), source.entry, this.#clock(destination), destination.exit);
      }
      return;
    }
    if (!isBarrierLike(op)) return;
    const entries = new Map<number, number>();
    const exits = new Map<number, number>();
    for (const part of parts) {
      const clock = this.#clock(part);
      if (part.exit === undefined) continue;
      entries.set(clock, Math.max(entries.get(clock) ?? part.entry, part.entry));
      exits.set(clock, Math.min(exits.get(clock) ?? part.exit, part.exit));
    }
    this.#coupling.collective(group, [...entries.keys()], [...entries.values()], [...exits.values()]);
  }

  #coupleCall({ client, server, servers }: MatchedRpc): void {
    if (client === undefined || server === undefined) return;
    const [from, to] = [this.#clock(client), this.#clock(server)];
    this.#coupling.message(from, client.start, to, server.start);
    // A client that gave up, or called several servers, had its answer before some server's end. One that does not wait at all shows as refuted.
    if (servers > 1 || client.status !== 'ok' || client.end === undefined || server.end === undefined) return;
    this.#coupling.message(to, server.end, from, client.end);
  }

  #clock({ member }: Pick<CollectivePart, 'member'>): number {
    return this.#clockOf[member - 1] as number;
  }
}

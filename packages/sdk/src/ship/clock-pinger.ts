// Pings the aggregator's clock and keeps the most informative answers.
//
//   this host      sent ───────┐                  ┌──────► received
//   aggregator                 └► remoteReceived … remoteSent
//
// The round-trip time bounds the error, so we keep only the half of each burst with the shortest round trips: on loopback the median is
// 110–190 µs and the shortest 60 µs. A burst of 16 when a connection opens, one of 4 now and then after: this shows drift and hides the wire.
// Invariant: one ping at a time, or they would wait for each other; at most limits.clockSamplesMax samples wait for `take`.

import type { ControlMessage } from '@ranktrace/protocol';
import { limits } from '../model/limits.ts';
import { guarded } from '../process/guarded.ts';

/** One answered ping. `sent` and `received`: this host's monotonic clock, ns. The others: the clock of `host`, ns. */
export interface ClockSample {
  readonly sent: bigint;
  readonly received: bigint;
  readonly remoteReceived: bigint;
  readonly remoteSent: bigint;
  readonly host: string;
}

type Pong = Extract<ControlMessage, { type: 'clock_pong' }>;

export class ClockPinger {
  readonly #ping: (id: number) => void;
  readonly #now: () => bigint;
  #samples: ClockSample[] = [];
  #burst: ClockSample[] = [];
  #left = 0;
  #everyMs: number = limits.clockBurstIntervalMs;
  #id = 0;
  #sent: bigint | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(ping: (id: number) => void, now: () => bigint = process.hrtime.bigint) {
    this.#ping = ping;
    this.#now = now;
  }

  /** A connection is open. `everyMs`: between two bursts. */
  start(everyMs: number = limits.clockBurstIntervalMs): void {
    this.stop();
    this.#everyMs = everyMs;
    this.#begin(limits.clockPingsAtConnect);
  }

  /** The connection is gone; keeps the burst's samples so far. */
  stop(): void {
    clearTimeout(this.#timer);
    this.#sent = undefined;
    this.#keepBest();
  }

  pong(pong: Pong): void {
    const received = this.#now();
    // A late answer to an abandoned ping would show a round trip of half a second.
    if (this.#sent === undefined || pong.id !== this.#id) return;
    this.#burst.push({ sent: this.#sent, received, remoteReceived: BigInt(pong.received), remoteSent: BigInt(pong.sent), host: pong.host });
    this.#next();
  }

  /** The samples since the last call. */
  take(): ClockSample[] {
    const taken = this.#samples;
    this.#samples = [];
    return taken;
  }

  #begin(pings: number): void {
    this.#left = pings;
    this.#next();
  }

  #next(): void {
    clearTimeout(this.#timer);
    this.#sent = undefined;
    if (this.#left === 0) {
      this.#keepBest();
      const begin = guarded('asking for the clock', () => this.#begin(limits.clockPingsPerBurst));
      this.#timer = setTimeout(begin, this.#everyMs);
      return;
    }
    this.#left--;
    this.#id++;
    const next = guarded('asking for the clock', () => this.#next());
    this.#timer = setTimeout(next, limits.clockPingTimeoutMs);
    this.#sent = this.#now();
    this.#ping(this.#id);
  }

  #keepBest(): void {
    const burst = this.#burst.sort((a, b) => Number(way(a) - way(b)));
    this.#burst = [];
    this.#samples.push(...burst.slice(0, Math.ceil(burst.length / 2)));
    if (this.#samples.length > limits.clockSamplesMax) this.#samples = this.#samples.slice(-limits.clockSamplesMax);
  }
}

/** Round-trip time, ns, without the aggregator's own part. */
function way(sample: ClockSample): bigint {
  return sample.received - sample.sent - (sample.remoteSent - sample.remoteReceived);
}

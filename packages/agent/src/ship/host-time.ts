// This host's monotonic clock beside two others: its wall clock, on which Kineto writes and is asked, and the aggregator's clock, on which windows are
// agreed.
//
//   aggregator ──pings──► host clock ◄──readings── wall clock
//
// Invariant: a time is moved by the nearest evidence alone; there is no estimate of drift. Errors: half of the shortest round trip, and what the wall
// clock was slewed by since its nearest reading (500 ppm at most).

import type { ClockSample, WallClockReading } from '@ranktrace/sdk/shipping';
import { agentLimits as limits } from '../model/limits.ts';

/** Readings of the wall clock, in order of time. */
export class WallClocks {
  readonly #readings: WallClockReading[] = [];

  add(reading: WallClockReading): void {
    this.#readings.push(reading);
    if (this.#readings.length > limits.wallClocksKept) this.#readings.shift();
  }

  /** ns to add to a wall time near `unixNs` for the host clock's time; undefined before the first reading. */
  aheadAt(unixNs: bigint): bigint | undefined {
    let nearest: { ahead: bigint; distance: bigint } | undefined;
    for (const { time, unixMs } of this.#readings) {
      const unix = BigInt(Math.round(unixMs)) * 1_000_000n;
      const distance = unix > unixNs ? unix - unixNs : unixNs - unix;
      if (nearest === undefined || distance <= nearest.distance) nearest = { ahead: time - unix, distance };
    }
    return nearest?.ahead;
  }

  /** Wall time, ms since 1970, of a time of the host clock that is near now; undefined before the first reading. */
  unixMsOf(hostNs: bigint): number | undefined {
    const last = this.#readings.at(-1);
    return last === undefined ? undefined : last.unixMs + Number(hostNs - last.time) / 1e6;
  }
}

/** Answered pings, the newest last. */
export class RemoteClocks {
  readonly #host: string;
  readonly #samples: ClockSample[] = [];

  /** `host`: identity of this host's clock. */
  constructor(host: string) {
    this.#host = host;
  }

  add(samples: readonly ClockSample[]): void {
    this.#samples.push(...samples);
    this.#samples.splice(0, this.#samples.length - limits.clockSamplesKept);
  }

  /** The host clock's time, ns, at `time` of the clock of `host`; undefined without an answered ping of it. */
  toHost(time: bigint, host: string): bigint | undefined {
    if (host === this.#host) return time;
    let best: { offset: bigint; trip: bigint } | undefined;
    for (const sample of this.#samples) {
      if (sample.host !== host) continue;
      const trip = sample.received - sample.sent - (sample.remoteSent - sample.remoteReceived);
      if (best !== undefined && trip > best.trip) continue;
      best = { trip, offset: (sample.sent + sample.received - sample.remoteReceived - sample.remoteSent) / 2n };
    }
    return best === undefined ? undefined : time + best.offset;
  }

  /** The reverse of `toHost`. */
  fromHost(time: bigint, host: string): bigint | undefined {
    const there = this.toHost(0n, host);
    return there === undefined ? undefined : time - there;
  }
}

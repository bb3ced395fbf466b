// This host's monotonic clock beside two others: its wall clock, on which Kineto writes and is asked, and the aggregator's clock, on which windows are
// agreed.
//
//   aggregator ──pings──► host clock ◄──readings── wall clock
//
// All ranks of a host share the readings, so that a reading which was interrupted moves none against another.
// Invariant: a time is moved by the best evidence alone; there is no estimate of drift. Errors: half of the shortest round trip, and of a reading of the
// wall clock its width and what the clock was slewed by since.

import { type ClockSample, readWallClock, type WallClockReading } from '@ranktrace/sdk/shipping';
import { agentLimits as limits } from '../model/limits.ts';

/** Readings of the wall clock, in order of both times. */
export class WallClocks {
  readonly #now: () => bigint;
  /** Never empty. */
  readonly #readings: WallClockReading[] = [];

  /** `now`: the host's clock, ns. */
  constructor(now: () => bigint) {
    this.#now = now;
    this.read();
  }

  /** Reads it once more; up to a millisecond of work. */
  read(): void {
    const reading = readWallClock(this.#now, Date.now);
    // A clock that was set back has these wall times again: those that come are of the second time.
    while ((this.#readings.at(-1)?.unixMs ?? Number.NEGATIVE_INFINITY) > reading.unixMs) this.#readings.pop();
    this.#readings.push(reading);
    if (this.#readings.length > limits.wallClocksKept) this.#readings.shift();
  }

  get newest(): WallClockReading {
    return this.#readings.at(-1) as WallClockReading;
  }

  /** ns to add to a wall time near `unixNs` for the host clock's time. */
  aheadAt(unixNs: bigint): bigint {
    let best = { ahead: 0n, error: Number.POSITIVE_INFINITY };
    for (const { time, unixMs, widthNs } of this.#readings) {
      const unix = BigInt(Math.round(unixMs)) * 1_000_000n;
      const error = widthNs / 2 + limits.wallClockDriftPpm * 1e-6 * Math.abs(Number(unix - unixNs));
      if (error <= best.error) best = { ahead: time - unix, error };
    }
    return best.ahead;
  }

  /** Wall time, ms since 1970, of a time of the host clock that is near now. */
  unixMsOf(hostNs: bigint): number {
    const ahead = this.aheadAt(BigInt(Date.now()) * 1_000_000n);
    return Number(hostNs - ahead) / 1e6;
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

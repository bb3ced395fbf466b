// Evidence about this host's clock, as rows of a batch: answered pings, and every few seconds the wall clock's reading.

import { recordingLimits } from '../model/recording-limits.ts';
import { readWallClock, type WallClockReading } from '../process/wall-clock.ts';
import type { ClockSample } from '../ship/clock-pinger.ts';
import type { BatchBuilder } from './batch-builder.ts';

export class ClockRows {
  readonly #epochNs: bigint;
  readonly #monotonicNs: () => bigint;
  readonly #wallClock: () => WallClockReading;
  #wallClockMs = Number.NEGATIVE_INFINITY;
  /** By host that answered: ns on its clock that its times count from. */
  readonly #remoteEpochs = new Map<string, bigint>();

  /**
   * `epochNs`: the host's clock at RankTime 0. `monotonicNs`: that clock now. `wallClock`: the newest reading, where several ranks of a host share
   * them; by default a new one is taken.
   */
  constructor(epochNs: bigint, monotonicNs: () => bigint, wallClock: () => WallClockReading = () => readWallClock(monotonicNs, Date.now)) {
    this.#epochNs = epochNs;
    this.#monotonicNs = monotonicNs;
    this.#wallClock = wallClock;
  }

  /** Adds rows for `samples`, and for the wall clock when it is due; returns its reading then. */
  add(builder: BatchBuilder, samples: readonly ClockSample[]): WallClockReading | undefined {
    const reading = this.#addWallClock(builder);
    for (const { sent, received, remoteReceived, remoteSent, host } of samples) {
      // A run sees few hosts; the first answer of each is as good an epoch as any.
      const hostEpoch = this.#remoteEpochs.get(host) ?? remoteReceived;
      this.#remoteEpochs.set(host, hostEpoch);
      builder.append('clockSamples', {
        sent: Number(sent - this.#epochNs),
        received: Number(received - this.#epochNs),
        remoteReceived: Number(remoteReceived - hostEpoch),
        remoteSent: Number(remoteSent - hostEpoch),
        host: builder.string(host),
        hostEpoch: builder.string(String(hostEpoch)),
      });
    }
    return reading;
  }

  #addWallClock(builder: BatchBuilder): WallClockReading | undefined {
    const nowMs = Number(this.#monotonicNs() - this.#epochNs) / 1e6;
    if (nowMs - this.#wallClockMs < recordingLimits.wallClockIntervalMs) return undefined;
    this.#wallClockMs = nowMs;
    const reading = this.#wallClock();
    const { time, widthNs, unixMs } = reading;
    const seconds = Math.floor(unixMs / 1000);
    builder.append('wallClocks', { time: Number(time - this.#epochNs), width: widthNs, seconds, nanos: (unixMs - seconds * 1000) * 1e6 });
    return reading;
  }
}

// A host's clock pings to the aggregator, and its readings of the wall clock.
//
//   host        sent ──── 90 µs + asymmetry + queueing ───► remoteReceived
//   aggregator  received ◄── 90 µs − asymmetry + queueing ─ remoteSent     ~40 µs after
//
// Like the SDK's pinger (packages/sdk/src/ship/clock-pinger.ts): one ping at a time, a burst of 16 when a rank begins, then bursts of 4, keeping
// the half with the shortest routes. Two bursts a second and host, by its ranks in turn: 8 pings asked, 4 kept, as in the reference's simulation.

import { nanosPerSecond } from '@ranktrace/protocol';
import type { Random } from './random.ts';
import type { SimulatedPing, SimulatedRank } from './simulated-rank.ts';

const legNs = 90_000;
const queueNs = 60_000;
const turnaroundNs = 40_000;
const readingNoiseNs = 50;
const pingsAtConnect = 16;
const pingsPerBurst = 4;
const burstIntervalNs = nanosPerSecond / 2;
const wallClockIntervalNs = 10 * nanosPerSecond;
const msNs = 1_000_000n;

/** Queueing time of a message, ns: mostly `mean`, 15 % in a tail around 300 µs, 1 % behind a stall of 1 to 8 ms. */
export function queueing(random: Random, mean: number): number {
  let wait = random.exponential(mean);
  if (random.chance(0.15)) wait += random.lognormal(300_000, 1.2);
  if (random.chance(0.01)) wait += random.uniform(1e6, 8e6);
  return wait;
}

export interface HostPingerAbout {
  /** The host's ranks. */
  readonly ranks: readonly SimulatedRank[];
  /** Half the difference between the two directions' times, ns. */
  readonly asymmetry: number;
  readonly asymmetryMax: number;
  readonly hasPings: boolean;
  /** Unix time at true time 0 by this host's wall clock, ns. */
  readonly unixEpoch: bigint;
  readonly random: Random;
}

export class HostPinger {
  readonly #about: HostPingerAbout;
  readonly #leg: number;
  #burst = 0;
  #nextBurst: number;
  readonly #nextWallClock: number[];

  constructor(about: HostPingerAbout) {
    this.#about = about;
    // However asymmetric, no direction takes a negative time.
    this.#leg = Math.max(legNs, about.asymmetryMax);
    this.#nextBurst = nanosPerSecond + about.random.uniform(0, burstIntervalNs);
    this.#nextWallClock = about.ranks.map((rank) => rank.about.start);
    if (about.hasPings) for (const rank of about.ranks) this.#ping(rank, rank.about.start, pingsAtConnect);
  }

  /** Runs pings and readings that begin before true time `horizon`, ns. */
  until(horizon: number): void {
    const { ranks, hasPings } = this.#about;
    for (; this.#nextBurst < horizon; this.#nextBurst += burstIntervalNs) {
      const rank = ranks[this.#burst++ % ranks.length] as SimulatedRank;
      if (hasPings) this.#ping(rank, this.#nextBurst, pingsPerBurst);
    }
    for (const [index, rank] of ranks.entries()) {
      for (let next = this.#nextWallClock[index] as number; next < horizon; next += wallClockIntervalNs) {
        this.#readWallClock(rank, next);
        this.#nextWallClock[index] = next + wallClockIntervalNs;
      }
    }
  }

  #ping(rank: SimulatedRank, from: number, count: number): void {
    const { random, asymmetry } = this.#about;
    const pings: SimulatedPing[] = [];
    let time = from;
    for (let ping = 0; ping < count; ping++) {
      const sent = time;
      const arrived = sent + this.#leg + asymmetry + queueing(random, queueNs);
      const answered = arrived + random.exponential(turnaroundNs);
      const received = answered + this.#leg - asymmetry + queueing(random, queueNs);
      const noisy = (reading: number): number => Math.round(reading + random.normal(0, readingNoiseNs));
      pings.push({
        at: received,
        sent: noisy(rank.read(sent)),
        received: noisy(rank.read(received)),
        remoteReceived: noisy(arrived),
        remoteSent: noisy(answered),
      });
      time = received + random.exponential(turnaroundNs);
    }
    const best = pings.sort((a, b) => way(a) - way(b)).slice(0, count / 2);
    for (const ping of best) rank.ping(ping);
  }

  /** Reads the wall clock when its millisecond ticks over, as the SDK does. */
  #readWallClock(rank: SimulatedRank, time: number): void {
    const { unixEpoch, random } = this.#about;
    const unix = ((unixEpoch + BigInt(Math.round(time))) / msNs + 1n) * msNs;
    rank.wallClock({ at: Number(unix - unixEpoch), width: Math.round(random.uniform(80, 300)), unix });
  }
}

const way = ({ sent, received, remoteReceived, remoteSent }: SimulatedPing): number => received - sent - (remoteSent - remoteReceived);

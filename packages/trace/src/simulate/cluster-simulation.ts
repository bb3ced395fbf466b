// A whole cluster in simulated time: hosts with their clocks, ranks that train and call each other, and the batches of their SDKs.
//
//   training loop ─ one step of all ranks ─► up to the slowest rank's time:
//       remote calls, pings, wall clocks, in slices of 100 ms ─► batches that are due
//
// The seed determines everything: no real clock, no machine-dependent chance. Memory holds a second of events, for a run of any length.
// Invariant: a slice ends before any event that begins after it is recorded, so a rank's batches come in order.

import { type Batch, nanosPerSecond } from '@ranktrace/protocol';
import type { ClusterTruth, TrueHost } from './cluster-truth.ts';
import { HostPinger } from './host-pinger.ts';
import { Random } from './random.ts';
import { RpcTraffic, type TrueRpc } from './rpc-traffic.ts';
import { SimulatedClock } from './simulated-clock.ts';
import { SimulatedRank } from './simulated-rank.ts';
import { type ClusterOptions, type ResolvedCluster, resolveCluster } from './simulation-options.ts';
import { TrainingLoop, type TrueCollective } from './training-loop.ts';

/** Called for every message in true time, recorded or not; in no particular order. */
export interface ClusterObserver {
  readonly collective?: (collective: TrueCollective) => void;
  readonly rpc?: (rpc: TrueRpc) => void;
}

/** 2026-01-01 00:00 UTC, a plausible date for any run. */
const unixEpoch = 1_767_225_600_000_000_000n;
const startSpreadNs = 0.3 * nanosPerSecond;
const sliceNs = 0.1 * nanosPerSecond;
const wallClockErrorNs = 2e6;
const uptimeSecondsMax = 400 * 24 * 3600;

export class ClusterSimulation {
  readonly cluster: ResolvedCluster;
  readonly #hosts: readonly TrueHost[];
  readonly #reference: ClusterTruth['reference'];
  readonly #ranks: readonly SimulatedRank[];
  readonly #pingers: readonly HostPinger[];
  readonly #rpcs: RpcTraffic;
  readonly #loop: TrainingLoop;
  #now = 0;

  /** Throws TraceError `bad_option`. */
  constructor(options: ClusterOptions, observer: ClusterObserver = {}) {
    const cluster = resolveCluster(options);
    const { seed, hosts } = cluster;
    this.cluster = cluster;
    this.#reference = { host: uuid(new Random(seed, 'aggregator')), epoch: bootEpoch(new Random(seed, 'aggregator epoch')) };
    this.#hosts = Array.from({ length: hosts }, (_, host) => createHost(cluster, host));
    const byHost = this.#hosts.map((_, host) => this.#createRanks(host));
    this.#ranks = byHost.flat();
    this.#pingers = byHost.map((ranks, index) => {
      const { asymmetry, hasPings, wallClockError } = this.#hosts[index] as TrueHost;
      const own = { ranks, asymmetry, asymmetryMax: cluster.asymmetryUs * 1000, hasPings };
      return new HostPinger({ ...own, unixEpoch: unixEpoch + BigInt(wallClockError), random: new Random(seed, 'pings', index) });
    });
    const started = Math.max(...this.#ranks.map((rank) => rank.about.start));
    this.#rpcs = new RpcTraffic(byHost, cluster.rpcsPerSecond, started, new Random(seed, 'rpcs'), observer.rpc);
    const exitBias = Float64Array.from(this.#ranks, ({ about }) => (this.#hosts[about.hostIndex] as TrueHost).exitBias);
    this.#loop = new TrainingLoop(this.#ranks, cluster, exitBias, new Random(seed, 'training'), observer.collective);
  }

  /** Share of the run that has been simulated, 0 to 1. */
  get progress(): number {
    const { seconds, steps } = this.cluster;
    return Math.min(1, steps === undefined ? this.#now / ((seconds as number) * nanosPerSecond) : this.#loop.steps / steps);
  }

  /** The truth so far. */
  get truth(): ClusterTruth {
    const { cluster } = this;
    const losses = this.#ranks.map((rank) => rank.losses);
    return { cluster, reference: this.#reference, unixEpoch, hosts: this.#hosts, losses, until: this.#now, steps: this.#loop.steps };
  }

  /** Events recorded so far, including rows of lost batches. */
  get events(): number {
    return this.#ranks.reduce((sum, rank) => sum + rank.events, 0);
  }

  /** The arriving batches of all ranks, in order of true time; once. Yields undefined if none is due, so that the caller can breathe. */
  *batches(): Generator<Batch | undefined> {
    while (!this.#isOver) {
      this.#loop.step();
      yield* this.#simulateUntil(this.#loop.now.reduce((least, now) => Math.min(least, now)));
    }
    this.#now = this.#loop.now.reduce((most, now) => Math.max(most, now));
    for (const rank of this.#ranks) yield* rank.finish();
  }

  get #isOver(): boolean {
    const { seconds, steps } = this.cluster;
    if (steps !== undefined) return this.#loop.steps >= steps;
    return this.#now >= (seconds as number) * nanosPerSecond;
  }

  *#simulateUntil(horizon: number): Generator<Batch | undefined> {
    while (this.#now < horizon) {
      this.#now = Math.min(horizon, this.#now + sliceNs);
      this.#rpcs.until(this.#now);
      for (const pinger of this.#pingers) pinger.until(this.#now);
      for (const rank of this.#ranks) yield* rank.flushUntil(this.#now);
      yield undefined;
    }
  }

  #createRanks(host: number): SimulatedRank[] {
    const { cluster } = this;
    const { run, seed, lost, tensorParallel, pipeline, flushMs } = cluster;
    const { ranks, clock, epoch, host: id, hostName } = this.#hosts[host] as TrueHost;
    return ranks.map((rank) => {
      const random = new Random(seed, 'rank', rank);
      const replicas = cluster.ranks / (tensorParallel * pipeline);
      const metadata = {
        'simulated.seed': String(seed),
        'simulated.tensor': String(rank % tensorParallel),
        'simulated.data': String(Math.floor(rank / tensorParallel) % replicas),
        'simulated.stage': String(Math.floor(rank / (tensorParallel * replicas))),
      };
      return new SimulatedRank({
        run,
        rank,
        worldSize: cluster.ranks,
        incarnation: `s${seed.toString(36)}-${(4000 + rank).toString(36)}`,
        hostIndex: host,
        host: id,
        hostName,
        pid: 4000 + rank,
        hostEpoch: epoch,
        clock,
        start: random.uniform(0, startSpreadNs),
        lost,
        reference: this.#reference,
        metadata,
        flushNs: flushMs * 1e6,
        random,
      });
    });
  }
}

function createHost(cluster: ResolvedCluster, index: number): TrueHost {
  const { seed, hosts, ranks, driftPpm, asymmetryUs, exitBiasUs, clockSteps, noPings } = cluster;
  const random = new Random(seed, 'host', index);
  const steps = clockSteps
    .filter(({ host }) => host === index)
    .map(({ seconds, micros }) => ({ at: seconds * nanosPerSecond, jump: micros * 1000 }));
  return {
    host: uuid(random),
    hostName: `node-${String(index).padStart(String(hosts - 1).length, '0')}`,
    epoch: bootEpoch(random),
    ranks: Array.from({ length: ranks }, (_, rank) => rank).filter((rank) => Math.floor((rank * hosts) / ranks) === index),
    clock: new SimulatedClock(new Random(seed, 'clock', index), driftPpm, steps),
    asymmetry: random.uniform(-1, 1) * asymmetryUs * 1000,
    exitBias: random.uniform(0, 2) * exitBiasUs * 1000,
    wallClockError: Math.round(random.normal(0, wallClockErrorNs)),
    hasPings: !noPings.includes(index),
  };
}

/** Each host booted on another day: an hour to 400 days of ns, more than a double holds. */
function bootEpoch(random: Random): bigint {
  return BigInt(Math.floor(random.uniform(3600, uptimeSecondsMax))) * BigInt(nanosPerSecond) + BigInt(random.whole(nanosPerSecond));
}

/** An id in the form of Linux's boot ids. */
function uuid(random: Random): string {
  const digits = Array.from(random.bytes(16), (byte) => byte.toString(16).padStart(2, '0')).join('');
  return `${digits.slice(0, 8)}-${digits.slice(8, 12)}-4${digits.slice(13, 16)}-a${digits.slice(17, 20)}-${digits.slice(20)}`;
}

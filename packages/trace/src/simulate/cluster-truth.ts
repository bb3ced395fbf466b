// What is true of a simulated cluster: its clocks, who straggled, what was lost. The file truth.json is this, as `truthLines` writes it;
// docs/simulation.md describes it for readers.

import type { SimulatedClock } from './simulated-clock.ts';
import type { RankLosses } from './simulated-rank.ts';
import type { ResolvedCluster } from './simulation-options.ts';

/** One host. */
export interface TrueHost {
  /** Its clock's identity, as in `BatchHeader.host`. */
  readonly host: string;
  readonly hostName: string;
  /** Its monotonic clock's ns from which `clock`'s readings are counted. */
  readonly epoch: bigint;
  readonly ranks: readonly number[];
  readonly clock: SimulatedClock;
  /** The way to the aggregator is this longer than 90 µs, the way back as much shorter; ns. */
  readonly asymmetry: number;
  /** How late its ranks leave every collective, ns. */
  readonly exitBias: number;
  /** How far its wall clock is ahead of the right time, ns. */
  readonly wallClockError: number;
  readonly hasPings: boolean;
}

export interface ClusterTruth {
  readonly cluster: ResolvedCluster;
  /** The aggregator's clock, which is true time: at true time 0 it read `epoch` ns. */
  readonly reference: { readonly host: string; readonly epoch: bigint };
  /** Unix ns at true time 0. */
  readonly unixEpoch: bigint;
  readonly hosts: readonly TrueHost[];
  /** By rank; grows as the simulation goes on. */
  readonly losses: readonly RankLosses[];
  /** True time up to which the simulation has gone, ns, and the steps it told. */
  readonly until: number;
  readonly steps: number;
}

/** True time, ns, of `time` ns on the clock of a rank whose batches say `epoch` and that runs on `host`. */
export function trueTimeOf(host: TrueHost, epoch: bigint, time: number): number {
  return host.clock.trueTime(Number(epoch - host.epoch) + time);
}

/** truth.json, line by line: one for all that is said once, one for each host. */
export function* truthLines(truth: ClusterTruth): Generator<string> {
  const { cluster, reference, unixEpoch, hosts, losses, until, steps } = truth;
  const { stragglers, clockSteps: _ofHosts, noPings: _hasPings, ...options } = cluster;
  const about = {
    format: 1,
    options,
    reference: { host: reference.host, epoch: String(reference.epoch) },
    unixEpoch: String(unixEpoch),
    untilNs: Math.round(until),
    steps,
    stragglers,
    losses: losses.filter(({ collectives, rpcs, batches }) => collectives + rpcs + batches > 0),
  };
  yield `${JSON.stringify(about).slice(0, -1)},"hosts":[`;
  for (const [index, host] of hosts.entries()) {
    yield `${JSON.stringify(hostData(host, until))}${index === hosts.length - 1 ? '' : ','}`;
  }
  yield ']}';
}

function hostData({ clock, ...host }: TrueHost, until: number): unknown {
  const { at, offset } = clock.knots(until);
  return {
    host: host.host,
    hostName: host.hostName,
    epoch: String(host.epoch),
    ranks: host.ranks,
    asymmetryNs: Math.round(host.asymmetry),
    exitBiasNs: Math.round(host.exitBias),
    wallClockErrorNs: Math.round(host.wallClockError),
    hasPings: host.hasPings,
    clockSteps: clock.steps
      .filter((step) => step.at <= until)
      .map((step) => ({ trueNs: step.at, hostNs: Math.round(clock.read(step.at) - step.jump), jumpNs: step.jump })),
    knots: { at, offset: offset.map((ns) => Math.round(ns * 10) / 10) },
  };
}

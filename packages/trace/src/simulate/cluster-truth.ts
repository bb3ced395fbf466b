// The truth of a simulated cluster: its clocks, its stragglers, its losses. `truthLines` writes it as the file truth.json;
// docs/simulation.md describes it for readers.

import type { SimulatedClock } from './simulated-clock.ts';
import type { RankLosses } from './simulated-rank.ts';
import type { ResolvedCluster } from './simulation-options.ts';

/** One host. */
export interface TrueHost {
  /** Its clock's identity, as in `BatchHeader.host`. */
  readonly host: string;
  readonly hostName: string;
  /** The monotonic clock's ns that `clock`'s readings count from. */
  readonly epoch: bigint;
  readonly ranks: readonly number[];
  readonly clock: SimulatedClock;
  /** The route to the aggregator is this much longer than 90 µs, the route back as much shorter; ns. */
  readonly asymmetry: number;
  /** Delay of its ranks in leaving every collective, ns. */
  readonly exitBias: number;
  /** Its wall clock's lead over the right time, ns. */
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
  /** By rank; grows during the simulation. */
  readonly losses: readonly RankLosses[];
  /** True time up to which the simulation has run, ns, and its steps. */
  readonly until: number;
  readonly steps: number;
}

/** True time, ns, of `time` ns on the clock of a rank on `host` with `epoch` in its batches. */
export function trueTimeOf(host: TrueHost, epoch: bigint, time: number): number {
  return host.clock.trueTime(Number(epoch - host.epoch) + time);
}

/** truth.json, line by line: one for all single facts, one for each host. */
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

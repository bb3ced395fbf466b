// Clock alignment against the truth: the simulation of docs/clock-alignment.md (16 hosts, 600 s, paths up to 30 µs longer there than back, exits
// biased by host), ours and the peers' methods on the same clusters, in one run; clock steps; and the cost of alignment.

import { ClockCoupling, type ClockEvidence, ClusterClocks, type FittedClocks } from '@ranktrace/trace';
import { type ClockMap, type ClockScore, clockBaselines, scoreClocks } from './clock-baselines.ts';
import { type ClockNoise, clockNoise } from './clock-noise.ts';
import { type Figure, figure, median } from './figure.ts';

const seeds = [1, 2, 3, 4, 5, 6, 7, 8];
const stepSeeds = [11, 12, 13, 14];
/** Size, ns, and time, ns: small steps need history, large ones none. */
const steps = [
  ...[-300e3, -100e3, -50e3, 50e3, 100e3, 300e3].map((by) => ({ by, at: 300e9 })),
  ...[-5e6, 50e6, 2e9].flatMap((by) => [1.3e9, 300e9, 597e9].map((at) => ({ by, at }))),
];
/** Hosts of the clusters that are not the example's size. */
const sizes = [4, 8, 32, 64];
const microsecond = 1e3;
/** Instants at which a bound is compared with the truth, per host. */
const instants = 2000;

export async function clock(): Promise<Figure[]> {
  const clusters = seeds.map((seed) => clockNoise({ seed }));
  const ours = clusters.map((noise) => judged(noise, aligned(noise)));
  const peers = clockBaselines.map((peer) => ({ name: peer.name, scores: clusters.map((noise) => scoreClocks(noise, peer.fit(noise))) }));
  const best = peers.find(({ name }) => /minimum round trip|RTT|NTP/i.test(name)) as (typeof peers)[number];
  const worst = (scores: readonly ClockScore[]): number => Math.max(...scores.map(({ crossHost }) => crossHost.max)) / microsecond;
  const violations = (scores: readonly ClockScore[]): number =>
    Math.max(...scores.flatMap((score) => [score.rpcViolations, score.barrierViolations]));
  const scores = ours.map(({ score }) => score);
  return [
    figure({
      name: `largest cross-host error of ${seeds.length} clusters`,
      value: worst(scores),
      unit: 'simulated µs',
      baseline: { name: best.name, value: worst(best.scores) },
      target: { at: 'most', value: 20, of: 'value' },
    }),
    figure({
      name: 'median cross-host error',
      value: median(scores.map(({ crossHost }) => crossHost.median)) / microsecond,
      unit: 'simulated µs',
    }),
    figure({
      name: 'messages and collectives reversed, worst cluster',
      value: violations(scores),
      unit: 'per million',
      baseline: { name: best.name, value: violations(best.scores) },
      target: { at: 'most', value: 0, of: 'value' },
    }),
    figure({
      name: 'published bound holds the truth, worst cluster',
      value: 100 * Math.min(...ours.map(({ coverage }) => coverage)),
      unit: '%',
      target: { at: 'least', value: 99.9, of: 'value' },
    }),
    figure({
      name: 'published bound (±), median over hosts and times',
      value: median(ours.map(({ bound }) => bound)) / microsecond,
      unit: 'simulated µs',
    }),
    ...peers.flatMap(({ name, scores: theirs }) => [
      figure({ name: `${name}: largest cross-host error`, value: worst(theirs), unit: 'simulated µs' }),
      figure({ name: `${name}: reversed, worst cluster`, value: violations(theirs), unit: 'per million' }),
    ]),
    sizesFigure(),
    ...stepFigures(),
    ...costFigures(),
    balancedFigure(),
  ];
}

const second = 1e9;

/** Evidence of a cluster as ranks give it, and the reference's own rank, with which trace time is true time. */
function evidenceOf(noise: ClockNoise): ClockEvidence[] {
  const bare = { epoch: 0n, samples: [], wallClock: undefined, until: noise.seconds * second };
  const hosts = noise.pings.map(({ sent, received, remoteReceived, remoteSent }, rank) => ({
    ...bare,
    rank,
    host: `host ${rank}`,
    samples: Array.from(sent, (time, index) => ({
      sent: time,
      received: received[index] as number,
      remoteReceived: remoteReceived[index] as number,
      remoteSent: remoteSent[index] as number,
      remoteHost: 'aggregator',
      remoteEpoch: 0n,
    })),
  }));
  return [...hosts, { ...bare, rank: noise.hosts, host: 'aggregator' }];
}

/** All three tiers. */
function aligned(noise: ClockNoise): FittedClocks {
  const clocks = new ClusterClocks(evidenceOf(noise));
  const coupling = new ClockCoupling(clocks.coupled);
  feed(noise, clocks.fitted(), coupling);
  return clocks.fitted(coupling);
}

/** Calls and collectives in order of time, on the axis of the first tiers. */
function feed({ rpcs, collectives, hosts }: ClockNoise, { clocks }: FittedClocks, coupling: ClockCoupling): void {
  const all = Array.from({ length: hosts }, (_, host) => host);
  const onAxis = (host: number, local: number): number => (clocks[host] as FittedClocks['clocks'][number]).clock.toTrace(local);
  for (let call = 0, together = 0; call < rpcs.time.length || together < collectives.count; ) {
    if (together >= collectives.count || (rpcs.time[call] as number) < (collectives.time[together] as number)) {
      const [client, server] = [rpcs.client[call] as number, rpcs.server[call] as number];
      coupling.message(client, onAxis(client, rpcs.clientStart[call] as number), server, onAxis(server, rpcs.serverStart[call] as number));
      coupling.message(server, onAxis(server, rpcs.serverEnd[call] as number), client, onAxis(client, rpcs.clientEnd[call] as number));
      call++;
      continue;
    }
    const row = together++ * hosts;
    const entries = all.map((host) => onAxis(host, collectives.entries[row + host] as number));
    const exits = all.map((host) => onAxis(host, collectives.exits[row + host] as number));
    coupling.collective('world', all, entries, exits);
  }
  coupling.end();
}

const mapOf =
  ({ clocks }: FittedClocks): ClockMap =>
  (host, local) =>
    (clocks[host] as FittedClocks['clocks'][number]).clock.toTrace(local);

function judged(noise: ClockNoise, fitted: FittedClocks) {
  const { clocks } = fitted;
  const map = mapOf(fitted);
  let held = 0;
  const bounds: number[] = [];
  for (let host = 0; host < noise.hosts; host++) {
    const { alignment } = (clocks[host] as FittedClocks['clocks'][number]).model;
    for (let instant = 0; instant < instants; instant++) {
      const time = ((instant + 0.5) / instants) * noise.seconds * second;
      const shown = map(host, noise.clock(host, time));
      const bound = alignment.boundAt?.(shown as Parameters<NonNullable<typeof alignment.boundAt>>[0]) ?? alignment.bound ?? 0;
      bounds.push(bound);
      if (Math.abs(shown - time) <= bound) held++;
    }
  }
  return { score: scoreClocks(noise, map), coverage: held / (noise.hosts * instants), bound: median(bounds) };
}

/** Clusters of other sizes, for a minute. */
function sizesFigure(): Figure {
  const scores = sizes.flatMap((hosts) =>
    seeds.slice(0, 5).map((seed) => {
      const noise = clockNoise({ seed: 100 * hosts + seed, hosts, seconds: 60 });
      return scoreClocks(noise, mapOf(aligned(noise)));
    }),
  );
  const value = Math.max(...scores.map(({ crossHost }) => crossHost.max)) / microsecond;
  return figure({
    name: `largest cross-host error of ${scores.length} clusters of ${sizes[0]} to ${sizes.at(-1)} hosts`,
    value,
    unit: 'simulated µs',
    target: { at: 'most', value: 20, of: 'value' },
  });
}

/** Steps of one host's clock: cut within 10 s, and none invented on the others and on clusters without one. */
function stepFigures(): Figure[] {
  let [found, wanted, invented, runs, slowest] = [0, 0, 0, 0, 0];
  for (const { by, at } of [{ by: 0, at: 0 }, ...steps]) {
    for (const seed of stepSeeds) {
      const noise = clockNoise({ seed, ...(by === 0 ? {} : { step: { host: 3, at, by } }) });
      const { clocks } = new ClusterClocks(evidenceOf(noise)).fitted();
      for (let host = 0; host < noise.hosts; host++) {
        const reported = (clocks[host] as FittedClocks['clocks'][number]).model.alignment.clockSteps ?? [];
        if (by === 0) runs++;
        if (by === 0 || host !== 3) {
          invented += reported.length;
          continue;
        }
        wanted++;
        const right = reported.filter((time) => Math.abs(time - at) <= 10 * second + Math.abs(by));
        if (right.length > 0) found++;
        invented += Math.max(reported.length - 1, 0);
        slowest = Math.max(slowest, ...right.map((time) => Math.abs(time - at) - Math.abs(by)));
      }
    }
  }
  return [
    figure({
      name: 'steps of 50 µs to 2 s that were cut',
      value: (100 * found) / wanted,
      unit: '%',
      target: { at: 'least', value: 100, of: 'value' },
    }),
    figure({
      name: 'furthest cut from its step',
      value: slowest / second,
      unit: 'simulated s',
      target: { at: 'most', value: 10, of: 'value' },
    }),
    figure({
      name: `steps invented in ${runs} host-runs and beside real ones`,
      value: invented,
      unit: 'steps',
      target: { at: 'most', value: 0, of: 'value' },
    }),
  ];
}

/** The same with balanced ranks: all enter within microseconds, so that every pair of hosts constrains each other in every collective. */
function balancedFigure(): Figure {
  const hosts = Array.from({ length: 128 }, (_, host) => host);
  const [limits, spread] = [() => ({ lower: -150_000, upper: 150_000 }), () => 150_000];
  const coupling = new ClockCoupling({ count: hosts.length, reference: -1, hub: 0, limits, spread });
  const collectives = 500;
  const began = performance.now();
  for (let collective = 0; collective < collectives; collective++) {
    const time = collective * 20e6;
    const entries = hosts.map((host) => time - 1000 * ((host * 7) % 13));
    coupling.collective(
      'world',
      hosts,
      entries,
      hosts.map((host) => time + 60_000 + 1000 * ((host * 5) % 11)),
    );
  }
  coupling.end();
  const value = ((performance.now() - began) / (collectives * 8 * hosts.length)) * 1e6;
  return figure({ name: 'coupling of 1024 balanced ranks', value, unit: 'ms per million messages' });
}

/** Time per million messages (one direction of a call, or a rank's part of a collective), by the number of ranks. */
function costFigures(): Figure[] {
  return [2, 16, 128].map((hosts) => {
    const noise = clockNoise({ seed: 21, hosts, seconds: 60, rpcsPerSecond: 300 * hosts, collectivesPerSecond: 50 });
    const clocks = new ClusterClocks(evidenceOf(noise));
    const fitted = clocks.fitted();
    const messages = 2 * noise.rpcs.time.length + 8 * hosts * noise.collectives.count;
    const began = performance.now();
    const coupling = new ClockCoupling(clocks.coupled);
    feed(noise, fitted, coupling);
    clocks.fitted(coupling);
    return figure({
      name: `coupling of ${8 * hosts} ranks`,
      value: ((performance.now() - began) / messages) * 1e6,
      unit: 'ms per million messages',
    });
  });
}

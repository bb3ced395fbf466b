// Clock samples of a run → one clock model per host.
//
//   reference = the host that answered most pings (the aggregator's); without pings the lowest rank's host
//   the reference's own ranks: exact · hosts with pings to it: sampled · all others: unaligned, placed by their wall clock
//
// What a ping proves is in host-pings.ts, the model and its bound in offset-envelope.ts, worked numbers in docs/clock-alignment.md.
//
// Invariant: ranks on one host share one model; a host without evidence is labelled, never merged silently; no evidence, however wrong,
// throws.

import { nanos } from '@ranktrace/protocol';
import type { ClockEvidence } from './clock-evidence.ts';
import { ClockModel, type RankClock } from './clock-model.ts';
import { hostPings, isPossible, windowNs } from './host-pings.ts';
import { fitOffset } from './offset-envelope.ts';

export type { ClockEvidence, ClockSample } from './clock-evidence.ts';

export interface FittedClocks {
  /** One per evidence, in its order. */
  readonly clocks: readonly { readonly clock: RankClock; readonly model: ClockModel }[];
  /** Unix time in ns at TraceTime 0. */
  readonly unixEpoch: bigint | undefined;
}

/** One host's ranks and where its clock is counted from. */
interface Host {
  readonly ranks: readonly ClockEvidence[];
  readonly epoch: bigint;
}

/** A rank's last batch may hold events from after its watermark, by the recorder's margin of 100 ms and the time a flush takes. */
const afterWatermarkNs = 200e6;

/** Fits every host's clock. TraceTime 0 is the earliest RankTime 0 among the reference host's ranks (or among all, where it has none). */
export function fitClocks(evidence: readonly ClockEvidence[]): FittedClocks {
  if (evidence.length === 0) return { clocks: [], unixEpoch: undefined };
  const hosts = new Map<string, Host>();
  for (const { host } of evidence) {
    if (hosts.has(host)) continue;
    const ranks = evidence.filter((rank) => rank.host === host);
    hosts.set(host, { ranks, epoch: earliest(ranks.map((rank) => rank.epoch)) });
  }
  const reference = chooseReference(evidence);
  const origin = hosts.get(reference)?.epoch ?? originWithoutRanks(evidence, reference);
  const models = new Map<string, ClockModel>();
  for (const [name, host] of hosts) {
    const model = name === reference ? ClockModel.shifted('exact', 0, nanos(0)) : sampledModel(host, reference, origin);
    if (model !== undefined) models.set(name, model);
  }
  const unixEpoch = placeUnaligned(hosts, models, reference);
  const clocks = evidence.map((rank) => {
    const model = models.get(rank.host) as ClockModel;
    return { model, clock: model.forRank(Number(rank.epoch - (hosts.get(rank.host) as Host).epoch)) };
  });
  return { clocks, unixEpoch };
}

/** The least of `epochs` (at least one), but for those so far from the middle one that no double could count from them. */
function earliest(epochs: readonly bigint[]): bigint {
  const sorted = [...epochs].sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
  const middle = sorted[sorted.length >> 1] as bigint;
  return sorted.find((epoch) => middle - epoch < BigInt(Number.MAX_SAFE_INTEGER) / 2n) as bigint;
}

function chooseReference(evidence: readonly ClockEvidence[]): string {
  const answers = new Map<string, number>();
  for (const sample of evidence.flatMap((rank) => rank.samples)) {
    if (isPossible(sample)) answers.set(sample.remoteHost, (answers.get(sample.remoteHost) ?? 0) + 1);
  }
  const [most] = [...answers].sort(([hostA, a], [hostB, b]) => b - a || (hostA < hostB ? -1 : 1));
  return most?.[0] ?? evidence.reduce((lowest, rank) => (rank.rank < lowest.rank ? rank : lowest)).host;
}

/** TraceTime 0 on the monotonic clock of a reference without ranks: each rank's middle ping says where its RankTime 0 was. */
function originWithoutRanks(evidence: readonly ClockEvidence[], reference: string): bigint {
  const starts: bigint[] = [];
  for (const rank of evidence) {
    const own = rank.samples
      .filter((sample) => sample.remoteHost === reference && isPossible(sample))
      .map(({ remoteEpoch, remoteReceived, sent }) => remoteEpoch + BigInt(Math.round(remoteReceived - sent)))
      .sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
    if (own.length > 0) starts.push(own[own.length >> 1] as bigint);
  }
  return earliest(starts);
}

/** The model of a host that pinged the reference; undefined without a ping to believe. */
function sampledModel({ ranks, epoch }: Host, reference: string, origin: bigint): ClockModel | undefined {
  const pings = hostPings(ranks, epoch, reference, origin);
  const [first, last] = [pings[0], pings.at(-1)];
  if (first === undefined || last === undefined) return undefined;
  let [from, until] = [first.at, last.at];
  for (const rank of ranks) {
    const start = Number(rank.epoch - epoch);
    // Without word of a rank's end, as much as a window after the last ping.
    const end = rank.until === undefined ? last.at + windowNs : start + rank.until + afterWatermarkNs;
    from = Math.min(from, start);
    if (Number.isFinite(end)) until = Math.max(until, start, end);
  }
  const { knots, bound } = fitOffset(pings, from, until);
  return new ClockModel('sampled', knots, bound);
}

/**
 * Gives the hosts without evidence their models: where their wall clocks put them, good for looking at, no more. The wall clock of the trace
 * is the reference's, or the first aligned host's that has one. Returns unix time in ns at TraceTime 0.
 */
function placeUnaligned(hosts: ReadonlyMap<string, Host>, models: Map<string, ClockModel>, reference: string): bigint | undefined {
  const aligned = [reference, ...models.keys()].map((name) => [hosts.get(name), models.get(name)] as const);
  let unixEpoch: bigint | undefined;
  for (const [host, model] of aligned) {
    const reading = host && wallClockOf(host);
    if (reading !== undefined && model !== undefined) unixEpoch ??= reading.unix - BigInt(model.toTrace(reading.time));
  }
  for (const [name, host] of hosts) {
    if (models.has(name)) continue;
    const reading = wallClockOf(host);
    const unixAtEpoch = reading && reading.unix - BigInt(reading.time);
    unixEpoch ??= unixAtEpoch;
    const offset = unixAtEpoch === undefined || unixEpoch === undefined ? 0 : Number(unixAtEpoch - unixEpoch);
    models.set(name, ClockModel.shifted('unaligned', offset, undefined));
  }
  return unixEpoch;
}

/** A host's first wall clock reading, `time` in whole ns after the host's epoch. */
function wallClockOf({ ranks, epoch }: Host): { readonly time: number; readonly unix: bigint } | undefined {
  for (const { wallClock, epoch: own } of ranks) {
    if (wallClock === undefined) continue;
    const time = Math.round(Number(own - epoch) + wallClock.time);
    if (Number.isSafeInteger(time)) return { time, unix: wallClock.unix };
  }
  return undefined;
}

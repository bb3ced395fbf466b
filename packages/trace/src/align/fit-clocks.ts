// Clock samples of a run → one clock model per host.
//
// A ping that left at `sent`, was received at `r`, answered at `s` and came back at `received` proves that the remote clock was ahead by
// between s − received and r − sent. The middle is the estimate, half the width its proven bound; the least wide ping of a 10 s window is
// the window's knot, and away from its ping a bound widens by the drift a healthy oscillator may have.
//
//   reference = the host that answered most pings (the aggregator's); without pings the lowest rank's host
//   the reference's own ranks: exact · hosts with pings to it: sampled · all others: unaligned, placed by their wall clock
//
// Invariant: ranks on one host share one model; a host without evidence is labelled, never merged silently.

import { nanosPerSecond } from '@ranktrace/protocol';
import { ClockModel, type RankClock } from './clock-model.ts';

/** One ping, in ns: on the rank's clock (RankTime) and on the remote host's monotonic clock (absolute, as a bigint epoch plus ns). */
export interface ClockSample {
  readonly sent: number;
  readonly received: number;
  readonly remoteReceived: number;
  readonly remoteSent: number;
  readonly remoteHost: string;
  readonly remoteEpoch: bigint;
}

/** What one rank's life says about clocks. */
export interface ClockEvidence {
  readonly rank: number;
  readonly host: string;
  /** The host's monotonic clock at RankTime 0, ns. */
  readonly epoch: bigint;
  readonly samples: readonly ClockSample[];
  /** A wall clock reading: RankTime `time` was unix time `unix` ns. */
  readonly wallClock: { readonly time: number; readonly unix: bigint } | undefined;
}

export interface FittedClocks {
  /** One per evidence, in its order. */
  readonly clocks: readonly { readonly clock: RankClock; readonly model: ClockModel }[];
  /** Unix time in ns at TraceTime 0. */
  readonly unixEpoch: bigint | undefined;
}

const windowNs = 10 * nanosPerSecond;
/** Oscillators are specified to ±20–50 ppm (FACTS of NTP, RFC 5905 uses 15): between pings the bound grows by this much. */
const driftMax = 50e-6;

/** Fits every host's clock. TraceTime 0 is the earliest RankTime 0 among the reference host's ranks (or among all, where it has none). */
export function fitClocks(evidence: readonly ClockEvidence[]): FittedClocks {
  if (evidence.length === 0) return { clocks: [], unixEpoch: undefined };
  const reference = chooseReference(evidence);
  const onReference = evidence.filter((rank) => rank.host === reference);
  const origin = referenceOrigin(evidence, onReference, reference);
  const models = new Map<string, { model: ClockModel; epoch: bigint }>();
  for (const rank of evidence) {
    if (models.has(rank.host)) continue;
    const ranks = evidence.filter((other) => other.host === rank.host);
    const epoch = ranks.reduce((least, other) => (other.epoch < least ? other.epoch : least), rank.epoch);
    models.set(rank.host, { model: fitHost(ranks, epoch, reference, origin, onReference), epoch });
  }
  const clocks = evidence.map((rank) => {
    const host = models.get(rank.host) as { model: ClockModel; epoch: bigint };
    return { model: host.model, clock: host.model.forRank(Number(rank.epoch - host.epoch)) };
  });
  return { clocks, unixEpoch: unixAtZero(evidence, clocks) };
}

function chooseReference(evidence: readonly ClockEvidence[]): string {
  const answers = new Map<string, number>();
  for (const rank of evidence) {
    for (const sample of rank.samples) answers.set(sample.remoteHost, (answers.get(sample.remoteHost) ?? 0) + 1);
  }
  let reference: string | undefined;
  for (const [host, count] of answers) {
    if (reference === undefined || count > (answers.get(reference) as number)) reference = host;
  }
  if (reference !== undefined) return reference;
  return evidence.reduce((lowest, rank) => (rank.rank < lowest.rank ? rank : lowest)).host;
}

/** TraceTime 0 on the reference's monotonic clock. */
function referenceOrigin(evidence: readonly ClockEvidence[], onReference: readonly ClockEvidence[], reference: string): bigint {
  const least = (epochs: readonly bigint[]): bigint => epochs.reduce((least, epoch) => (epoch < least ? epoch : least));
  if (onReference.length > 0) return least(onReference.map((rank) => rank.epoch));
  const firsts: bigint[] = [];
  for (const rank of evidence) {
    const sample = rank.samples.find((sample) => sample.remoteHost === reference);
    if (sample !== undefined) firsts.push(sample.remoteEpoch + BigInt(Math.round(sample.remoteReceived - sample.sent)));
  }
  return least(firsts);
}

function fitHost(
  ranks: readonly ClockEvidence[],
  epoch: bigint,
  reference: string,
  origin: bigint,
  onReference: readonly ClockEvidence[],
): ClockModel {
  if (ranks[0]?.host === reference) return ClockModel.shifted('exact', Number(epoch - origin));
  const best = bestPerWindow(ranks, epoch, reference, origin);
  if (best.length > 0) return sampledModel(best);
  return ClockModel.shifted('unaligned', wallClockOffset(ranks, epoch, origin, onReference));
}

interface Knot {
  readonly at: number;
  readonly offset: number;
  readonly halfWidth: number;
}

/** The least wide ping of each window, on the host's clock relative to `epoch`. */
function bestPerWindow(ranks: readonly ClockEvidence[], epoch: bigint, reference: string, origin: bigint): Knot[] {
  const windows = new Map<number, Knot>();
  for (const rank of ranks) {
    const shift = Number(rank.epoch - epoch);
    for (const sample of rank.samples) {
      if (sample.remoteHost !== reference || !(sample.received >= sample.sent)) continue;
      const remote = Number(sample.remoteEpoch - origin);
      const upper = remote + sample.remoteReceived - (shift + sample.sent);
      const lower = remote + sample.remoteSent - (shift + sample.received);
      // A ping whose answer took longer at the remote than the whole trip is no measurement.
      if (upper < lower) continue;
      const at = shift + (sample.sent + sample.received) / 2;
      const knot = { at, offset: (upper + lower) / 2, halfWidth: (upper - lower) / 2 };
      const window = Math.floor(at / windowNs);
      const held = windows.get(window);
      if (held === undefined || knot.halfWidth < held.halfWidth) windows.set(window, knot);
    }
  }
  return [...windows.values()].sort((a, b) => a.at - b.at);
}

function sampledModel(knots: readonly Knot[]): ClockModel {
  const at = Float64Array.from(knots, (knot) => knot.at);
  // Half a window beyond each knot (a whole one at the ends) is as far as the model is from a ping.
  const bound = Float64Array.from(knots, (knot, index) => {
    const left = index === 0 ? windowNs : (knot.at - (at[index - 1] as number)) / 2;
    const right = index === knots.length - 1 ? windowNs : ((at[index + 1] as number) - knot.at) / 2;
    return knot.halfWidth + driftMax * Math.max(left, right);
  });
  return new ClockModel('sampled', { at, offset: Float64Array.from(knots, (knot) => knot.offset), bound });
}

/** Where the wall clocks put a host without evidence: good for looking at, no more. */
function wallClockOffset(ranks: readonly ClockEvidence[], epoch: bigint, origin: bigint, onReference: readonly ClockEvidence[]): number {
  const own = ranks.find((rank) => rank.wallClock !== undefined);
  const theirs = onReference.find((rank) => rank.wallClock !== undefined);
  if (own?.wallClock === undefined || theirs?.wallClock === undefined) return 0;
  const unixMinusOwn = own.wallClock.unix - BigInt(Math.round(own.wallClock.time)) - (own.epoch - epoch);
  const unixMinusOrigin = theirs.wallClock.unix - BigInt(Math.round(theirs.wallClock.time)) - (theirs.epoch - origin);
  return Number(unixMinusOwn - unixMinusOrigin);
}

function unixAtZero(evidence: readonly ClockEvidence[], clocks: readonly { readonly clock: RankClock }[]): bigint | undefined {
  for (const [index, rank] of evidence.entries()) {
    if (rank.wallClock === undefined) continue;
    const clock = (clocks[index] as { clock: RankClock }).clock;
    return rank.wallClock.unix - BigInt(clock.toTrace(rank.wallClock.time));
  }
  return undefined;
}

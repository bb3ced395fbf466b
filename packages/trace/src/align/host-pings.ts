// Samples of all ranks of one host → the limits that each proves for the host's clock, without impossible samples. Samples that contradict others
// stay: they show a step of the clock (clock-steps.ts).
//
//   host        sent ─────┐                    ┌────► received       u = remoteReceived − sent      offset ≤ u at `sent`
//   reference             └► remoteReceived … remoteSent             l = remoteSent − received      offset ≥ l at `received`
//
// A clock that is set back shows times twice, so the pings are ordered by the clock that was not set back.
//
// Invariant: the pings come in the order in which they were made, and every one has lower ≤ upper.

import { nanosPerSecond } from '@ranktrace/protocol';
import type { ClockEvidence, ClockSample } from './clock-evidence.ts';

/** Proof by one ping of a host's clock, in ns after the host's epoch and ns of offset. */
export interface HostPing {
  /** The middle of the two times, whole ns: near it the offset was in [lower, upper]. */
  readonly at: number;
  /** When it was sent: at that time the offset was at most `upper`. */
  readonly upperAt: number;
  readonly upper: number;
  /** When its answer was received: at that time the offset was at least `lower`. */
  readonly lowerAt: number;
  readonly lower: number;
  /** The offset at `lowerAt` if the ping is a collective and its ranks left it together. */
  readonly exit?: number;
}

/** Round-trip time of a ping, ns. */
export const wayOf = ({ upperAt, lowerAt }: HostPing): number => Math.abs(lowerAt - upperAt);

/** If a rank's end is unknown, it is taken to have run for this long after its last ping, ns. */
export const windowNs = 10 * nanosPerSecond;

/** Whether a sample is a possible measurement: exact times, received after it was sent, the remote part no longer than the round trip. */
export function isPossible({ sent, received, remoteReceived, remoteSent }: ClockSample): boolean {
  if (![sent, received, remoteReceived, remoteSent].every(isExact)) return false;
  return received >= sent && remoteSent - remoteReceived <= received - sent;
}

/** Beyond 2^53 ns (104 days) a double no longer holds every ns: such times belong to no run. False for NaN, too. */
export const isExact = (time: number): boolean => Math.abs(time) <= Number.MAX_SAFE_INTEGER;

/** The possible pings of one host's ranks to `reference`, as made; times after `epoch` on the host's clock, after `origin` on the reference's. */
export function hostPings(ranks: readonly ClockEvidence[], epoch: bigint, reference: string, origin: bigint): HostPing[] {
  const pings: HostPing[] = [];
  // How far each clock went back between successive pings of a rank, in total.
  let [hostBack, referenceBack] = [0, 0];
  for (const rank of ranks) {
    let before: HostPing | undefined;
    const shift = Number(rank.epoch - epoch);
    for (const sample of rank.samples) {
      if (sample.remoteHost !== reference || !isPossible(sample)) continue;
      const { sent, received } = sample;
      const remote = Number(sample.remoteEpoch - origin);
      // Times are whole ns, rounded down: 1 ns more on either side.
      const upper = remote + sample.remoteReceived - (shift + sent) + 1;
      const lower = remote + sample.remoteSent - (shift + received) - 1;
      const ping = { at: Math.round(shift + sent + (received - sent) / 2), upperAt: shift + sent, upper, lowerAt: shift + received, lower };
      if (!Object.values(ping).every(isExact)) continue;
      if (before !== undefined) {
        hostBack += Math.max(0, before.at - ping.at);
        referenceBack += Math.max(0, referenceTime(before) - referenceTime(ping));
      }
      pings.push(ping);
      before = ping;
    }
  }
  return pings.sort(hostBack > referenceBack + backSlackNs ? inReferenceOrder : inOrder);
}

/** Pings of one burst may come in any order: the most that this makes a clock seem to go back, ns. */
const backSlackNs = 1e6;

/** Approximate time of the ping on the reference's clock, ns. */
export const referenceTime = ({ at, lower, upper }: HostPing): number => at + (lower + upper) / 2;

export const inOrder = (a: HostPing, b: HostPing): number => a.at - b.at || a.lower - b.lower || a.upper - b.upper;

const inReferenceOrder = (a: HostPing, b: HostPing): number => referenceTime(a) - referenceTime(b) || inOrder(a, b);

/**
 * Pings of which no record says in which order they were made, by the clock that was not set back: in the order of the other one, which shows some times
 * twice, they go to and fro by the whole step.
 */
export function asMade(pings: HostPing[]): HostPing[] {
  const byHost = pings.sort(inOrder);
  const byReference = byHost.toSorted(inReferenceOrder);
  return backOf(byHost, referenceTime) > 2 * backOf(byReference, ({ at }) => at) + backSlackNs ? byReference : byHost;
}

/** How far a clock goes back between successive pings, in total, ns. */
function backOf(pings: readonly HostPing[], time: (ping: HostPing) => number): number {
  let [back, before] = [0, Number.NEGATIVE_INFINITY];
  for (const ping of pings) {
    const now = time(ping);
    if (now < before) back += before - now;
    before = now;
  }
  return back;
}

// Samples of all ranks of one host → what each proves about the host's clock, without those that cannot be. What contradicts the others stays:
// it is how a step of the clock shows (clock-steps.ts).
//
//   host        sent ─────┐                    ┌────► received       u = remoteReceived − sent      offset ≤ u at `sent`
//   reference             └► remoteReceived … remoteSent             l = remoteSent − received      offset ≥ l at `received`
//
// A clock that is set back shows times twice, so the order in which the pings were made is that of the clock that was not set back.
//
// Invariant: the pings come in the order in which they were made, and every one has lower ≤ upper.

import { nanosPerSecond } from '@ranktrace/protocol';
import type { ClockEvidence, ClockSample } from './clock-evidence.ts';

/** Proof by a ping of a host's clock, in ns after the host's epoch and ns of offset. */
export interface HostPing {
  /** The middle of the two times, whole ns: about then the offset was in [lower, upper]. */
  readonly at: number;
  /** When it was sent: then the offset was at most `upper`. */
  readonly upperAt: number;
  readonly upper: number;
  /** When its answer was received: then the offset was at least `lower`. */
  readonly lowerAt: number;
  readonly lower: number;
}

/** How long a ping took, ns. */
export const wayOf = ({ upperAt, lowerAt }: HostPing): number => Math.abs(lowerAt - upperAt);

/** Without word of a rank's end, it is taken to have run for this long after its last ping, ns. */
export const windowNs = 10 * nanosPerSecond;

/** Whether a sample can be a measurement at all: exact times, not back before it left, its answer not longer than the whole trip. */
export function isPossible({ sent, received, remoteReceived, remoteSent }: ClockSample): boolean {
  if (![sent, received, remoteReceived, remoteSent].every(isExact)) return false;
  return received >= sent && remoteSent - remoteReceived <= received - sent;
}

/** Beyond 2^53 ns (104 days) a double no longer holds every ns: such times belong to no run. Also false for NaN. */
export const isExact = (time: number): boolean => Math.abs(time) <= Number.MAX_SAFE_INTEGER;

/** The possible pings of one host's ranks to `reference`, as they were made; times after `epoch` on the host's clock, after `origin` on the reference's. */
export function hostPings(ranks: readonly ClockEvidence[], epoch: bigint, reference: string, origin: bigint): HostPing[] {
  const pings: HostPing[] = [];
  // How far each clock went back from one of a rank's pings to its next, in all.
  let [hostBack, referenceBack] = [0, 0];
  for (const rank of ranks) {
    let before: HostPing | undefined;
    const shift = Number(rank.epoch - epoch);
    for (const sample of rank.samples) {
      if (sample.remoteHost !== reference || !isPossible(sample)) continue;
      const { sent, received } = sample;
      const remote = Number(sample.remoteEpoch - origin);
      // Times are whole ns, cut off below: 1 ns more on either side.
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
  return pings.sort(hostBack > referenceBack + backSlackNs ? (a, b) => referenceTime(a) - referenceTime(b) || inOrder(a, b) : inOrder);
}

/** Pings of one burst may come in any order: ns that their order makes a clock go back by, at most. */
const backSlackNs = 1e6;

/** About when it was on the reference's clock, ns. */
export const referenceTime = ({ at, lower, upper }: HostPing): number => at + (lower + upper) / 2;

export const inOrder = (a: HostPing, b: HostPing): number => a.at - b.at || a.lower - b.lower || a.upper - b.upper;

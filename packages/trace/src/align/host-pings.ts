// Samples of all ranks of one host → what each proves about the host's clock, without those that cannot be or that their neighbours refute.
//
//   host        sent ─────┐                    ┌────► received       u = remoteReceived − sent      offset ≤ u at `sent`
//   reference             └► remoteReceived … remoteSent             l = remoteSent − received      offset ≥ l at `received`
//
// Invariant: the pings come in order of time, and every one has lower ≤ upper.

import { nanosPerSecond } from '@ranktrace/protocol';
import type { ClockEvidence, ClockSample } from './clock-evidence.ts';

/** At host time `at` (whole ns after the host's epoch) the offset was in [lower, upper] ns, give or take the drift in `way` / 2 ns. */
export interface HostPing {
  readonly at: number;
  readonly lower: number;
  readonly upper: number;
  /** From `sent` to `received`, ns. */
  readonly way: number;
}

/** Pings this near each other, ns, vote about outliers and share a knot of the model. */
export const windowNs = 10 * nanosPerSecond;
/** What a clock drifts within half a window, ns, at 100 ppm. Where one drifts more, honest pings are outvoted too: that costs width alone. */
const voteSlackNs = (100e-6 * windowNs) / 2;

/** Whether a sample can be a measurement at all: exact times, not back before it left, its answer not longer than the whole trip. */
export function isPossible({ sent, received, remoteReceived, remoteSent }: ClockSample): boolean {
  if (![sent, received, remoteReceived, remoteSent].every(isExact)) return false;
  return received >= sent && remoteSent - remoteReceived <= received - sent;
}

/** Beyond 2^53 ns (104 days) a double no longer holds every ns: such times belong to no run. Also false for NaN. */
export const isExact = (time: number): boolean => Math.abs(time) <= Number.MAX_SAFE_INTEGER;

/** The believable pings of one host's ranks to `reference`; times after `epoch` on the host's clock, after `origin` on the reference's. */
export function hostPings(ranks: readonly ClockEvidence[], epoch: bigint, reference: string, origin: bigint): HostPing[] {
  const pings: HostPing[] = [];
  for (const rank of ranks) {
    const shift = Number(rank.epoch - epoch);
    for (const sample of rank.samples) {
      if (sample.remoteHost !== reference || !isPossible(sample)) continue;
      const { sent, received } = sample;
      const remote = Number(sample.remoteEpoch - origin);
      // Times are whole ns, cut off below: 1 ns more on either side.
      const upper = remote + sample.remoteReceived - (shift + sent) + 1;
      const lower = remote + sample.remoteSent - (shift + received) - 1;
      const at = Math.round(shift + sent + (received - sent) / 2);
      if ([upper, lower, at].every(isExact)) pings.push({ at, lower, upper, way: received - sent });
    }
  }
  pings.sort((a, b) => a.at - b.at || a.lower - b.lower || a.upper - b.upper);
  return windowsOf(pings).flatMap(majority);
}

/** Pings in order of time, cut into windows. */
function windowsOf(pings: readonly HostPing[]): HostPing[][] {
  const windows: HostPing[][] = [];
  let current = Number.NaN;
  for (const ping of pings) {
    const window = Math.floor(ping.at / windowNs);
    if (window !== current) windows.push([]);
    current = window;
    (windows.at(-1) as HostPing[]).push(ping);
  }
  return windows;
}

/** The pings that agree with the offset most of them allow (Marzullo 1984); all, unless those are the greater part. */
function majority(pings: readonly HostPing[]): readonly HostPing[] {
  const edges = pings
    .flatMap(({ lower, upper }) => [
      { at: lower - voteSlackNs, step: 1 },
      { at: upper + voteSlackNs, step: -1 },
    ])
    .sort((a, b) => a.at - b.at || b.step - a.step);
  let [votes, most, best] = [0, 0, 0];
  for (const edge of edges) {
    votes += edge.step;
    if (votes > most) [most, best] = [votes, edge.at];
  }
  if (most === pings.length || most * 2 <= pings.length) return pings;
  return pings.filter(({ lower, upper }) => lower - voteSlackNs <= best && best <= upper + voteSlackNs);
}

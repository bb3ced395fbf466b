// The hosts of a run, by its ranks' evidence.

import type { ClockEvidence } from './clock-evidence.ts';

/** One host's ranks and the epoch of its clock. */
export interface Host {
  readonly name: string;
  readonly ranks: readonly ClockEvidence[];
  readonly epoch: bigint;
  /** The attempt of its first rank. */
  readonly attempt: number;
}

/** Ranks by host; each rank of unknown host has its own clock until evidence says that they share one. */
export function hostsOf(evidence: readonly ClockEvidence[]): Host[] {
  const ranks = new Map<string, ClockEvidence[]>();
  for (const [index, rank] of evidence.entries()) {
    const name = rank.hostUnknown === true ? `unknown ${index}` : rank.host;
    const held = ranks.get(name);
    if (held === undefined) ranks.set(name, [rank]);
    else held.push(rank);
  }
  return [...ranks].map(([name, own]) => {
    return { name, ranks: own, epoch: earliest(own.map(({ epoch }) => epoch)), attempt: own[0]?.attempt ?? 0 };
  });
}

/** The least of `epochs` (at least one), except those so far from the middle one that a double cannot count from them. */
export function earliest(epochs: readonly bigint[]): bigint {
  const sorted = [...epochs].sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
  const middle = sorted[sorted.length >> 1] as bigint;
  return sorted.find((epoch) => middle - epoch < BigInt(Number.MAX_SAFE_INTEGER) / 2n) as bigint;
}

/** The first host of those with the lowest rank. */
export function ofLowestRank(hosts: readonly Host[]): Host | undefined {
  const lowest = (host: Host): number => host.ranks.reduce((least, { rank }) => Math.min(least, rank), Number.POSITIVE_INFINITY);
  return hosts.reduce<Host | undefined>((first, host) => (first === undefined || lowest(host) < lowest(first) ? host : first), undefined);
}

/** A host's first wall clock reading, `time` in whole ns after the host's epoch. */
export function wallClockOf({ ranks, epoch }: Host): { readonly time: number; readonly unix: bigint } | undefined {
  for (const { wallClock, epoch: own } of ranks) {
    if (wallClock === undefined) continue;
    const time = Math.round(Number(own - epoch) + wallClock.time);
    if (Number.isSafeInteger(time)) return { time, unix: wallClock.unix };
  }
  return undefined;
}

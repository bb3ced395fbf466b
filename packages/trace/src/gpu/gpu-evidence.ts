// The work of GPUs in the words of a finding's evidence: how busy they were, where their hosts were meanwhile, what was copied and who communicated.

import type { transfersOnRanks } from '../blame/network.ts';
import type { GpuRank } from './gpu-summary.ts';

/** Names of communicators, such as `all_reduce world`, with ns per step. */
export type Transfers = ReturnType<typeof transfersOnRanks>;

/** Places and groups named in one sentence. */
const namedMax = 2;
/** A group is named beside the one with the longest transfers if its own take this share of theirs. */
const slowShareMin = 0.25;
/** Share of the largest below which a second place of the host, or group, is not worth a word. */
const shareNamed = 0.01;
export const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;
/** Kernels, copies and sets: more than utilisation, which is of kernels alone. */
const busyShare = ({ totals }: GpuRank): number => (totals.length > 0 ? 1 - totals.idle / totals.length : 0);

/** How busy the GPUs of these ranks are, against the others'. */
export function busyEvidence(about: readonly GpuRank[], all: readonly GpuRank[]): string[] {
  const others = all.filter((rank) => !about.includes(rank));
  const range = (ranks: readonly GpuRank[], share: (rank: GpuRank) => number): string => {
    const shares = ranks.map(share).sort((a, b) => a - b);
    const [least, most] = [percent(shares[0] ?? 0), percent(shares.at(-1) ?? 0)];
    return least === most ? least : `${least.replace(' %', '')} to ${most}`;
  };
  const exposed = ({ totals }: GpuRank): number => (totals.length > 0 ? totals.exposed / totals.length : 0);
  if (about.length === 0 || about.length > namedMax) return [];
  const busy = `${about.map(({ rank }) => `rank ${rank}`).join(' and ')}: the GPU is busy for ${range(about, busyShare)} of the time`;
  if (others.length === 0) return [busy];
  return [
    `${busy}, those of the others for ${range(others, busyShare)}; communication alone takes ${range(about, exposed)}, with the others ${range(others, exposed)}`,
  ];
}

interface HostPlace {
  time: number;
  readonly isPhase: boolean;
  readonly ops: Map<string, number>;
}

/** Where the hosts were while their GPUs waited for them: by phase, outside of phases by op, '' in none; and the time of all of it. */
function hostPlaces(ranks: readonly GpuRank[]): { readonly all: number; readonly places: ReadonlyMap<string, HostPlace> } {
  const places = new Map<string, HostPlace>();
  for (const { cause, phase, op, time } of ranks.flatMap(({ idle }) => idle.places)) {
    if (cause !== 'hostLate') continue;
    const key = phase || op;
    const sum = places.get(key) ?? { time: 0, isPhase: phase !== '', ops: new Map<string, number>() };
    places.set(key, sum);
    sum.time += time;
    sum.ops.set(op, (sum.ops.get(op) ?? 0) + time);
  }
  return { all: ranks.reduce((sum, { idle }) => sum + idle.byCause.hostLate, 0), places };
}

/** The place where they were for over half of that time. */
export function mostlyIn(ranks: readonly GpuRank[]): string | undefined {
  const { all, places } = hostPlaces(ranks);
  const [[name, { time }] = ['', { time: 0 }]] = mostOf(places, (place) => place.time, 1);
  return name !== '' && time > all / 2 ? name : undefined;
}

/** Those places in words, with the op that took most of a phase. */
export function hostEvidence(ranks: readonly GpuRank[]): string[] {
  const { all, places } = hostPlaces(ranks);
  if (all === 0 || places.size === 0) return [];
  const most = mostOf(places, ({ time }) => time, namedMax);
  const named = most.flatMap(([where, { time, isPhase, ops }], place) => {
    if (place > 0 && time < shareNamed * all) return [];
    const [[op = ''] = []] = mostOf(ops, (of) => of, 1);
    return `${where || 'none of its phases and ops'} (${percent(time / all)} of it${isPhase && op !== '' ? `, most in ${op}` : ''})`;
  });
  return [`while the GPU had nothing to do the host was in ${named.join(' and ')}`];
}

const mostOf = <T>(sums: ReadonlyMap<string, T>, of: (sum: T) => number, count: number): [string, T][] =>
  [...sums].sort(([, a], [, b]) => of(b) - of(a)).slice(0, count);

/** Copies: the kinds with most time, their bytes and how fast they are. */
export function copyEvidence(ranks: readonly GpuRank[]): string[] {
  const sums = new Map<string, { time: number; bytes: number; calls: number }>();
  for (const { kind, total, bytes, count } of ranks.flatMap(({ copies }) => copies)) {
    const sum = sums.get(kind) ?? { time: 0, bytes: 0, calls: 0 };
    sums.set(kind, sum);
    sum.time += total;
    sum.bytes += bytes;
    sum.calls += count;
  }
  return mostOf(sums, ({ time }) => time, 1).map(([kind, { time, bytes, calls }]) => {
    return `most in ${calls} calls of ${kind}, at ${(bytes / Math.max(1, time)).toFixed(1)} GB/s`;
  });
}

/**
 * Exposed communication by group, against the group's fastest collective. A group that waits for ranks that a slow one holds up is exposed for as long:
 * `transfers` tell them apart.
 */
export function communicationEvidence(ranks: readonly GpuRank[], transfers: Transfers = []): string[] {
  const groups = new Map<string, { exposed: number; total: number; best: number | undefined }>();
  for (const { overlap } of ranks) {
    for (const { group, exposed, total, busBandwidth } of overlap) {
      const of = groups.get(group) ?? { exposed: 0, total: 0, best: undefined };
      groups.set(group, of);
      of.exposed += exposed;
      of.total += total;
      if (busBandwidth !== undefined) of.best = Math.max(of.best ?? 0, busBandwidth);
    }
  }
  const sorted = [...groups].filter(([name]) => !name.startsWith('(')).sort(([, a], [, b]) => b.exposed - a.exposed);
  const timeOf = (name: string): number => {
    const group = ` ${name.replace(/ \[.*/, '')}`;
    return transfers.reduce((sum, [of, ns]) => (of.endsWith(group) ? sum + ns : sum), 0);
  };
  const slow = sorted.toSorted(([a], [b]) => timeOf(b) - timeOf(a));
  const least = slowShareMin * timeOf(slow[0]?.[0] ?? '');
  const known = least > 0 ? slow.filter(([name]) => timeOf(name) >= least) : sorted;
  const named = known.filter(([, { exposed }]) => exposed > shareNamed * (known[0]?.[1].exposed ?? 0));
  return named.slice(0, namedMax).map(([name, { exposed, total, best }]) => {
    const fastest = best === undefined ? '' : `; its fastest collective reaches ${(best / 1e9).toFixed(1)} GB/s`;
    return `group ${name}: ${percent(exposed / Math.max(1, total))} of its communication runs while nothing else does${fastest}`;
  });
}

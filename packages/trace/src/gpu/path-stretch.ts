// The rows of a rank in one stretch of time, of which a path's graph is made.

import type { RankWork } from './device-work.ts';

/**
 * By row, those of the host first, then those of work: 1 for a span that begins, or work that was launched, from `from` to `until`. Events of no length are
 * left out.
 */
export function rowsInside(rank: RankWork, from: number, until: number): Uint8Array {
  const { host, work, names } = rank;
  const inside = new Uint8Array(host.length + work.length);
  for (let row = 0; row < host.length; row++) {
    const start = host.columns.start[row] as number;
    if (start >= from && start <= until && (host.columns.end[row] as number) > start) inside[row] = 1;
  }
  const wait = names.index('Stream Wait Event');
  // HTA links a call to one piece of work alone: the last of a graph's.
  const taken = new Uint8Array(rank.htaCompatible ? host.length : 0);
  for (let row = work.length - 1; row >= 0; row--) {
    const call = rank.callOf(row);
    const isLaunched = call >= 0 && inside[call] === 1 && taken[call] !== 1;
    if (isLaunched || work.columns.name[row] === wait) inside[host.length + row] = 1;
    if (call >= 0) taken[call] = 1;
  }
  return inside;
}

/** Threads that launched work of the stretch; where none did, those that launched any: its time is theirs. */
export function launchingThreads(rank: RankWork, inside: Uint8Array): ReadonlySet<number> {
  const { work, host } = rank;
  const [threads, others] = [new Set<number>(), new Set<number>()];
  for (let row = 0; row < work.length; row++) {
    const call = rank.callOf(row);
    if (call >= 0) (inside[host.length + row] === 1 ? threads : others).add(host.columns.thread[call] as number);
  }
  return threads.size > 0 ? threads : others;
}

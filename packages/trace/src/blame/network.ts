// Transfers of a window by communicator, and the clock error in its waits and transfers.

import { mean } from '../model/robust.ts';
import type { BlameWindow, Meeting } from './blame-window.ts';

const shown = 3;
/** Of the longest one's time, what is worth a word. */
const shownShareMin = 0.01;

/** The communicators with the longest transfers, as sentences. */
export function networkOf(window: BlameWindow): string[] {
  const names = transfersOnRanks(window);
  const least = shownShareMin * (names[0]?.[1] ?? 0);
  return names
    .filter(([, length]) => length > least)
    .slice(0, shown)
    .map(([name, length]) => `${name}: ${(length / 1e6).toFixed(2)} ms per step of transfer on its ranks, after the last one came`);
}

/** Transfer time by communicator, ns per step on each of its ranks, the longest first. */
export const transfersOnRanks = (window: BlameWindow): (readonly [name: string, ns: number])[] =>
  [...timesOf(window)]
    .map(([name, { length, ranks }]) => [name, length / (window.steps.length * ranks.size)] as const)
    .sort(([, a], [, b]) => b - a);

/** Transfer time by communicator, ns per step and rank, so that all of them add up. */
export function transfersOf(window: BlameWindow): Map<string, number> {
  const count = Math.max(1, window.steps.length * window.ranks.length);
  return new Map([...timesOf(window)].map(([name, { length }]) => [name, length / count]));
}

/** By communicator: the transfer time of all steps and ranks, ns, and the ranks that take part. */
function timesOf({ steps }: BlameWindow): ReadonlyMap<string, { readonly length: number; readonly ranks: ReadonlySet<number> }> {
  const names = new Map<string, { length: number; readonly ranks: Set<number> }>();
  for (const step of steps) {
    for (const [rank, { pieces }] of step.ranks.entries()) {
      for (const piece of pieces) {
        if (piece.kind !== 'transfer') continue;
        const of = names.get(piece.meeting.name) ?? { length: 0, ranks: new Set<number>() };
        names.set(piece.meeting.name, of);
        of.length += piece.length;
        of.ranks.add(rank);
      }
    }
  }
  return names;
}

/**
 * Error of waits and transfers, ns per step: the sum of each meeting's clock error; undefined if clocks are not aligned. `transfers`: of transfers alone,
 * to which those add nothing that lengths alone prove.
 */
export function clockShareOf({ steps, ranks }: BlameWindow, transfers = false): number | undefined {
  const sums: number[] = [];
  const seen = new Set<Meeting>();
  for (const rank of ranks.keys()) {
    let sum = 0;
    for (const step of steps) {
      seen.clear();
      for (const piece of step.ranks[rank]?.pieces ?? []) if (piece.kind === 'transfer' && piece.length > 0) seen.add(piece.meeting);
      for (const { epsilon, isTransferSure = false } of seen) {
        if (transfers && isTransferSure) continue;
        if (epsilon === undefined) return undefined;
        sum += epsilon;
      }
    }
    sums.push(sum / Math.max(1, steps.length));
  }
  return mean(sums);
}

// Transfers of a window by communicator, and the clock error in its waits and transfers.

import { mean } from '../model/robust.ts';
import type { BlameWindow, Meeting } from './blame-window.ts';

const shown = 3;
/** Of the longest one's time, what is worth a word. */
const shownShareMin = 0.01;

/** The communicators with the longest transfers, as sentences. */
export function networkOf(window: BlameWindow): string[] {
  const names = [...transfersOf(window)].sort(([, a], [, b]) => b - a);
  const least = shownShareMin * (names[0]?.[1] ?? 0);
  return names
    .filter(([, length]) => length > least)
    .slice(0, shown)
    .map(([name, length]) => `${name}: ${(length / 1e6).toFixed(2)} ms per step of transfer, after the last rank came`);
}

/** Transfer time by communicator, ns per step and rank. */
export function transfersOf({ steps, ranks }: BlameWindow): Map<string, number> {
  const names = new Map<string, number>();
  for (const step of steps) {
    for (const { pieces } of step.ranks) {
      for (const piece of pieces) {
        if (piece.kind === 'transfer') names.set(piece.meeting.name, (names.get(piece.meeting.name) ?? 0) + piece.length);
      }
    }
  }
  const count = Math.max(1, steps.length * ranks.length);
  return new Map([...names].map(([name, length]) => [name, length / count]));
}

/** Error of waits and transfers, ns per step: the sum of each meeting's clock error; undefined if clocks are not aligned. */
export function clockShareOf({ steps, ranks }: BlameWindow): number | undefined {
  const sums: number[] = [];
  const seen = new Set<Meeting>();
  for (const rank of ranks.keys()) {
    let sum = 0;
    for (const step of steps) {
      seen.clear();
      for (const piece of step.ranks[rank]?.pieces ?? []) if (piece.kind === 'transfer' && piece.length > 0) seen.add(piece.meeting);
      for (const { epsilon } of seen) {
        if (epsilon === undefined) return undefined;
        sum += epsilon;
      }
    }
    sums.push(sum / Math.max(1, steps.length));
  }
  return mean(sums);
}

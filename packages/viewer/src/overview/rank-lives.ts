// Names of ranks where some were started again: each life has a row of its own.

import type { OverviewRank } from '@ranktrace/protocol';

/** Number of ranks, however often each was started. */
export const rankCount = (lives: readonly { readonly rank: number }[]): number => new Set(lives.map(({ rank }) => rank)).size;

/** By process, which life of its rank it is, from 2 on: as the timeline numbers them. First lives have none. */
export function laterLives(ranks: readonly Pick<OverviewRank, 'rank' | 'process'>[]): ReadonlyMap<number, number> {
  const lives = new Map<number, number>();
  const later = new Map<number, number>();
  for (const { rank, process } of [...ranks].sort((a, b) => a.process - b.process)) {
    const life = (lives.get(rank) ?? 0) + 1;
    lives.set(rank, life);
    if (life > 1) later.set(process, life);
  }
  return later;
}

/** `3`, or `3, life 2`. */
export const rankName = ({ rank, process }: Pick<OverviewRank, 'rank' | 'process'>, later: ReadonlyMap<number, number>): string =>
  later.has(process) ? `${rank}, life ${later.get(process)}` : String(rank);

/** The same where there is little room: `3`, or `3 (2)`. */
export const shortRankName = ({ rank, process }: Pick<OverviewRank, 'rank' | 'process'>, later: ReadonlyMap<number, number>): string =>
  later.has(process) ? `${rank} (${later.get(process)})` : String(rank);

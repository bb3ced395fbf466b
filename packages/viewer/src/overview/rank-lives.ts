// Names of ranks where some were started again: each life has a row of its own.

import type { OverviewRank } from '@ranktrace/protocol';

/** Number of ranks, however often each was started. */
export const rankCount = (lives: readonly { readonly rank: number }[]): number => new Set(lives.map(({ rank }) => rank)).size;

type Life = Pick<OverviewRank, 'rank' | 'life'>;

/** `3`, or `3, life 2`. */
export const rankName = ({ rank, life }: Life): string => (life === undefined ? String(rank) : `${rank}, life ${life}`);

/** The same where there is little room: `3`, or `3 (2)`. */
export const shortRankName = ({ rank, life }: Life): string => (life === undefined ? String(rank) : `${rank} (${life})`);

// Names of ranks where some were started again: each life has a row of its own.

import { isBeside, type OverviewRank, type RunModel, type ViewProcess } from '@ranktrace/protocol';
import { livesOf } from '../client/track-keys.ts';

/** Number of ranks, however often each was started. */
export const rankCount = (lives: readonly { readonly rank: number }[]): number => new Set(lives.map(({ rank }) => rank)).size;

type Life = Pick<OverviewRank, 'rank' | 'life'>;

/** `3`, or `3, life 2`. */
export const rankName = ({ rank, life }: Life): string => (life === undefined ? String(rank) : `${rank}, life ${life}`);

/** The same where there is little room: `3`, or `3 (2)`. */
export const shortRankName = ({ rank, life }: Life): string => (life === undefined ? String(rank) : `${rank} (${life})`);

/** By index of the process: `3`, `3, life 2`, or `3 · PyTorch` for what an agent recorded beside the rank. */
export const processNames = (processes: readonly ViewProcess[]): ReadonlyMap<number, string> =>
  new Map(
    livesOf(processes).map(({ process: { index, rank, incarnation }, life }) => [
      index,
      isBeside(incarnation) ? `${rank} · PyTorch` : rankName({ rank, ...(life > 1 && { life }) }),
    ]),
  );

/** Whether a process goes on, as far as is known: one without a goodbye does not where its rank was started again, or its run is over. */
export type ProcessState = 'ended' | 'running' | 'no end recorded';

/** By index of the process. */
export function processStates({ live, processes }: Pick<RunModel, 'live' | 'processes'>): ReadonlyMap<number, ProcessState> {
  const states = new Map<number, ProcessState>();
  const before = new Map<number, number>();
  for (const { process } of livesOf(processes)) {
    const { index, rank, ended, incarnation } = process;
    states.set(index, ended ? 'ended' : live ? 'running' : 'no end recorded');
    if (isBeside(incarnation)) continue;
    const earlier = before.get(rank);
    if (earlier !== undefined && states.get(earlier) === 'running') states.set(earlier, 'no end recorded');
    before.set(rank, index);
  }
  return states;
}

// Where each rank's step went: own work by phase, waiting by culprit and collective, transfer, other. Mean over the window's steps.

import { otherPhase } from '@ranktrace/protocol';
import { shareOut } from '../model/robust.ts';
import { blameLimits } from './blame-limits.ts';
import type { BlameWindow } from './blame-window.ts';

export interface WaitedFor {
  /** The rank that came last; −1 for several or unknown. */
  readonly rank: number;
  /** The collective or send; '' for several. */
  readonly name: string;
  /** ns per step. */
  readonly length: number;
}

/** ns per step, whole: `own` + `waits` + `transfer` + `unmatched` + `other` = `step`, exactly. */
export interface RankBreakdown {
  readonly rank: number;
  readonly hostName: string;
  readonly step: number;
  /** By phase, in the order of phases. */
  readonly own: ReadonlyMap<string, number>;
  /** Longest first. */
  readonly waits: readonly WaitedFor[];
  /** Transfer after the last rank came. */
  readonly transfer: number;
  /** Inside collectives with unknown other ranks. */
  readonly unmatched: number;
  /** Outside all phases and collectives. */
  readonly other: number;
}

export function breakdownOf(window: BlameWindow): RankBreakdown[] {
  return window.ranks.map((_, rank) => rankBreakdown(window, rank));
}

function rankBreakdown({ ranks, phases, steps }: BlameWindow, index: number): RankBreakdown {
  const { rank, hostName } = ranks[index] as BlameWindow['ranks'][number];
  const own = new Float64Array(phases.length);
  const waits = new Map<string, { rank: number; name: string; length: number }>();
  let [total, transfer, unmatched] = [0, 0, 0];
  for (const step of steps) {
    const { length, pieces } = step.ranks[index] as BlameWindow['steps'][number]['ranks'][number];
    total += length;
    for (const piece of pieces) {
      if (piece.kind === 'own') own[piece.phase] = (own[piece.phase] as number) + piece.length;
      else if (piece.kind === 'transfer') transfer += piece.length;
      else if (piece.kind === 'unmatched') unmatched += piece.length;
      else if (piece.kind === 'wait') addWait(waits, piece.meeting.lastRank, piece.meeting.name, piece.length);
    }
  }
  const count = Math.max(1, steps.length);
  const mean = Math.round(total / count);
  const named = [...waits.values()].sort((a, b) => b.length - a.length);
  const sizes = [...own, ...named.map(({ length }) => length), transfer, unmatched];
  const shares = shareOut(mean, sizes);
  const [ownShares, waitShares] = [shares.slice(0, phases.length), shares.slice(phases.length, -2)];
  const [transferShare = 0, unmatchedShare = 0] = shares.slice(-2);
  const other = phases.indexOf(otherPhase);
  return {
    rank,
    hostName,
    step: mean,
    own: new Map(phases.flatMap((phase, at) => (at === other || ownShares[at] === 0 ? [] : [[phase, ownShares[at] as number]]))),
    waits: named.map((wait, at) => ({ ...wait, length: waitShares[at] as number })).filter(({ length }) => length > 0),
    transfer: transferShare,
    unmatched: unmatchedShare,
    other: ownShares[other] ?? 0,
  };
}

function addWait(waits: Map<string, { rank: number; name: string; length: number }>, rank: number, name: string, length: number): void {
  const key = `${rank} ${name}`;
  const known = waits.get(key);
  if (known !== undefined) known.length += length;
  else if (waits.size < blameLimits.blameWaitsPerRankMax) waits.set(key, { rank, name, length });
  else {
    const rest = waits.get('') ?? { rank: -1, name: '', length: 0 };
    rest.length += length;
    waits.set('', rest);
  }
}

// A matched collective, or a send and its receive, as a meeting: its last rank, how long each rank waited for it, and the transfer's length.
//
// Where clocks are aligned, times of ranks are compared. Otherwise only lengths count: the rank with the shortest time inside came last, and
// all of that time is transfer.

import { collectiveKind, isBarrierLike } from '@ranktrace/protocol';
import type { CollectivePart, MatchedCollective } from '../match/collective-matcher.ts';
import type { CollectiveTiming } from '../match/collective-timing.ts';
import type { Meeting } from './blame-window.ts';

export interface MeetingPart {
  readonly part: CollectivePart;
  readonly waitedUntil: number;
  /** Undefined: it left without waiting for the last. */
  readonly lag: number | undefined;
}

/** Undefined if a part is missing, or a rank is still inside. */
export function meetingOf(
  matched: MatchedCollective,
  { epsilon }: Pick<CollectiveTiming, 'epsilon'>,
): { readonly meeting: Meeting; readonly parts: readonly MeetingPart[] } | undefined {
  const { parts, missing, pair, group, op: called } = matched;
  if (missing.length > 0 || (pair !== undefined && parts.length < 2) || parts.some(({ exit }) => exit === undefined)) return undefined;
  const op = collectiveKind(called) ?? called;
  const name = pair === undefined ? `${op} ${group}` : `send ${pair[0]} → ${pair[1]} ${group}`;
  const inside = parts.map(({ entry, exit }) => (exit as number) - entry);
  const shortest = Math.min(...inside);
  const isSure = pair === undefined && isBarrierLike(called);
  const about = { name, epsilon, ...(pair && { pair }), ...(isSure && ({ isTransferSure: true } as const)) };
  if (epsilon === undefined) {
    const last = parts[inside.indexOf(shortest)] as CollectivePart;
    const meeting: Meeting = { ...about, lastRank: last.rank, transfer: shortest };
    const waits = parts.map((part) => ({ part, waitedUntil: (part.exit as number) - shortest, lag: 0 }));
    return { meeting, parts: waits };
  }
  const last = parts.reduce((latest, part) => (part.entry > latest.entry ? part : latest));
  // A sender may be done as soon as its data is buffered: the receiver's end counts.
  const receiver = pair === undefined ? undefined : parts.find(({ rank, op }) => rank === pair[1] && collectiveKind(op) !== 'send');
  const firstExit = (receiver?.exit ?? Math.min(...parts.map(({ exit }) => exit as number))) as number;
  const apart = Math.max(0, firstExit - last.entry);
  const transfer = isSure ? Math.min(apart, shortest) : apart;
  const meeting: Meeting = { ...about, lastRank: last.rank, transfer };
  const waits = parts.map((part): MeetingPart => {
    const exit = part.exit as number;
    const left = exit < last.entry - epsilon;
    return { part, waitedUntil: Math.min(exit, last.entry), lag: left ? undefined : Math.max(0, exit - last.entry - transfer) };
  });
  return { meeting, parts: waits };
}

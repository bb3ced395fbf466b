// A window of time, recorded by all ranks whose recorder knows times: PyTorch's Kineto, which an agent asks.
//
//   announced ───── lead ─────► begin ── duration ──► end ── files are read ──► counts agreed ──► detail arrives
//   each second again, to hear how far each rank is          `read`, with `ends`   `cuts`          `shipped`
//
// The begin lies `captureWindowLeadMs` ahead, for Kineto asks for work every 5 s. A rank that has no part answers `missed` with the reason; one that
// says nothing for `captureSilenceMsMax` is dead (`captureAllSilentMsMax` where nobody is heard, as while a broker restarts, after which each rank has
// that time again); and all of it ends `captureGatherMsMax` after the window.
//
// Collectives without a number of their own (gloo's) are counted. Files of windows end at any moment, so the ranks count from a moment between two
// collectives, the cut. The first rank with such a group gives its last ends, and the cut is the middle of their widest gap: all ranks leave a collective
// at almost the same time, so it lies between the same two for each.

import { setTimeout as wait } from 'node:timers/promises';
import { type ControlMessage, limits as protocolLimits, type WindowAnswer } from '@ranktrace/protocol';
import type { LiveState, RankProgress, RankWindow } from '../live/live-state.ts';
import { hostId } from '../model/host-id.ts';
import { aggregatorLimits as limits } from '../model/limits.ts';

export interface WindowParts {
  readonly live: LiveState;
  readonly broadcast: (message: ControlMessage) => void;
  /** Replaces `captureSilenceMsMax`. */
  readonly silenceMsMax: number;
}

export interface RecordedWindow {
  readonly id: number;
  readonly unixMs: number;
  /** By rank. */
  readonly answers: ReadonlyMap<number, RankWindow>;
}

type Cuts = NonNullable<Extract<ControlMessage, { type: 'record_window' }>['cuts']>;

/** JSON bytes of the cuts in one message; the longest one fits. */
const cutBytesMax = protocolLimits.messageBytesMax / 2;

/** Asks for the window until each rank has answered for good, or is no longer waited for. Rejects with the signal's reason when it is aborted. */
export async function recordWindow(
  { live, broadcast, silenceMsMax }: WindowParts,
  run: string,
  durationMs: number,
  signal: AbortSignal,
): Promise<RecordedWindow> {
  const unixMs = Date.now() + limits.captureWindowLeadMs;
  const at = process.hrtime.bigint() + BigInt(limits.captureWindowLeadMs) * 1_000_000n;
  // Two windows of a run cannot begin in the same ms: each is on its way for seconds.
  const id = unixMs;
  const window = { type: 'record_window', run, id, at: `${at}`, host: hostId(), unixMs, durationMs } as const;
  const endsAt = performance.now() + limits.captureWindowLeadMs + durationMs + limits.captureGatherMsMax;
  const cuts = new Map<string, number>();
  const ranks = (): RankProgress[] => live.progress(run).filter(takesWindows);
  const answerOf = ({ windows }: RankProgress): RankWindow | undefined => windows.findLast((answer) => answer.id === id);
  /** The last time that nobody was heard, ms: ranks are back one after the other. */
  let silentAt = Number.NEGATIVE_INFINITY;
  for (let askedAt = Number.NEGATIVE_INFINITY; ; ) {
    const now = performance.now();
    // Where nobody is heard the way is down, not a rank.
    const isSilent = now - live.lastBatchAt(run) > silenceMsMax;
    const isHeard = (rank: RankProgress): boolean =>
      isSilent ? now - heardOf(rank) <= limits.captureAllSilentMsMax : now - Math.max(heardOf(rank), silentAt) <= silenceMsMax;
    const waiting = ranks().filter((rank) => !isOver(answerOf(rank)) && !rank.ended && isHeard(rank));
    if (isSilent) silentAt = now;
    if (waiting.length === 0 || now > endsAt) break;
    const known = cuts.size;
    for (const rank of ranks()) addCuts(cuts, answerOf(rank));
    if (now - askedAt >= limits.captureAskMs || cuts.size > known) {
      for (const part of cutParts(cuts)) broadcast({ ...window, ...(part.length > 0 && { cuts: part }) });
      askedAt = now;
    }
    await wait(limits.captureLookMs, undefined, { signal }).catch(() => signal.throwIfAborted());
  }
  const answers = ranks().flatMap((rank) => {
    const answer = answerOf(rank);
    return answer === undefined ? [] : [[rank.rank, answer] as const];
  });
  return { id, unixMs, answers: new Map(answers) };
}

/** When the recorder was heard that takes a rank's windows. */
const heardOf = ({ beside, heardAt }: RankProgress): number => beside?.heardAt ?? heardAt;

/** Whether a rank can be asked for a window: through its own recorder, or one beside it. */
export const takesWindows = ({ recordsWindows, beside }: RankProgress): boolean => recordsWindows || beside !== undefined;

const isOver = (answer: WindowAnswer | undefined): boolean => answer?.state === 'shipped' || answer?.state === 'missed';

/** Adds a cut for each group that has none. */
function addCuts(cuts: Map<string, number>, answer: WindowAnswer | undefined): void {
  for (const [group, ends] of answer?.ends ?? []) if (!cuts.has(group)) cuts.set(group, cutBetween(ends));
}

/** The cuts of all groups, for as many messages as they take: one message without cuts where there are none. */
function cutParts(cuts: ReadonlyMap<string, number>): Cuts[] {
  let part: Cuts = [];
  const parts = [part];
  let bytes = 0;
  for (const cut of cuts) {
    const more = Buffer.byteLength(JSON.stringify(cut));
    if (part.length === protocolLimits.windowGroupsMax || bytes + more > cutBytesMax) {
      part = [];
      parts.push(part);
      bytes = 0;
    }
    part.push(cut);
    bytes += more;
  }
  return parts;
}

/** The middle of the widest gap between two ends; behind the end where there is only one. */
export function cutBetween(ends: readonly number[]): number {
  let widest = { from: ends.at(-1) ?? 0, gap: 0 };
  for (const [index, end] of ends.entries()) {
    const before = ends[index - 1];
    if (before !== undefined && end - before > widest.gap) widest = { from: before, gap: end - before };
  }
  return Math.round(widest.from + widest.gap / 2);
}

/** The share of the longest recording in which all of them recorded, 0 to 1. */
export function overlapOf(answers: Iterable<WindowAnswer>): number {
  const shipped = [...answers].filter(({ state }) => state === 'shipped');
  const begins = shipped.map(({ begins = 0 }) => begins);
  const ends = shipped.map(({ begins = 0, length = 0 }) => begins + length);
  const longest = Math.max(0, ...shipped.map(({ length = 0 }) => length));
  return longest === 0 ? 0 : Math.max(0, Math.min(...ends) - Math.max(...begins)) / longest;
}

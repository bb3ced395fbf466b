// Ranks whose program ended by an error, or by a signal that nobody asked for: one finding of kind `rank_failed` for all of them, which names the one that
// ended first.
//
//   rank 0   ├──────────────────────┤✕  Connection closed by peer
//   rank 1   ├──────────────────────┤ ✕ Connection closed by peer
//   rank 2   ├────────────────────┤✕    bad batch          the reason: it ended before the others did
//
// Errors that tell of peers alone (peer-errors.ts) come after a rank's own. Where there are no others, the reason may be a rank that left before the first
// one and came no further, or after a timeout the rank that did not come as far as the others: it is named with its place.

import { endedByKey, exitKey, failedKey, stillRunningKey, stoppedKey } from '@ranktrace/protocol';
import { lengthText } from '../model/quantity-text.ts';
import { ranksText } from '../model/ranks-text.ts';
import { displayText, shownEnd } from '../model/shown-name.ts';
import type { ProcessTotals } from '../model/trace-sink.ts';
import { peerErrorOf } from '../steps/peer-errors.ts';
import { phaseRolesOf } from '../steps/phase-role.ts';
import { inStep, placesTexts, ranksBehind } from '../steps/step-places.ts';
import type { RankSummary } from '../steps/step-summary.ts';
import type { Finding } from './findings.ts';

/** Most characters of the first error, and of the next one, which tells what it did to others. */
const [errorChars, nextErrorChars] = [200, 80];

/**
 * A killed rank may have run for so long after the last that it got to send, ns: it sends a batch each second, with a watermark 100 ms behind. An error of
 * a rank's own that comes earlier than that tells nothing of the other one.
 */
const unsentNsMax = 1.2e9;

/** `lives`: each rank's last one. `steps`: the last step of ranks, where it is known. `phases`: of a step, in their order. */
export function failedFindings(
  lives: readonly ProcessTotals[],
  steps: readonly Pick<RankSummary, 'rank' | 'last'>[] = [],
  phases: readonly string[] = [],
): Finding[] {
  const failed = failedOf(lives);
  const [first] = failed;
  if (first === undefined) return [];
  const ranks = firstOf(failed).map(({ process }) => process.rank);
  const of = peerErrorOf(errorOf(first));
  const gone = goneBefore(first, lives);
  const lasts = new Map(steps.map(({ rank, last }) => [rank, last]));
  const furthest = Math.max(...ranks.map((rank) => lasts.get(rank) ?? Number.NEGATIVE_INFINITY));
  const left = lives.filter(
    ({ until, ended, process }) =>
      ended &&
      !process.metadata.has(stillRunningKey) &&
      !isFailed(process) &&
      (until ?? 0) < (first.until ?? 0) &&
      (lasts.get(process.rank) ?? Number.POSITIVE_INFINITY) <= furthest,
  );
  const ranksOf = (some: readonly ProcessTotals[]): number[] => some.map(({ process }) => process.rank);
  const reasons = [
    ...(gone.length === 0 ? [] : [`${ranksText(ranksOf(gone))} ${howOf(gone, 'had stopped')}`]),
    ...(left.length === 0 ? [] : [`${ranksText(ranksOf(left))} ${howOf(left, 'had ended')} after step ${stepsText(ranksOf(left), lasts)}`]),
  ];
  const late = reasons.length === 0 && of === 'timeout' ? lateOf(lives, phases) : undefined;
  if (late !== undefined) {
    const text = `the others waited in vain for ${ranksText(late.ranks)}, which did not come as far: ${late.places.join('; ')}; ${failedText(failed)}`;
    return [
      { kind: 'rank_failed', ranks: late.ranks, text, remedy: `see the output of ${ranksText(late.ranks)}, and where its program stood` },
    ];
  }
  const after = reasons.length === 0 ? '' : `after ${reasons.join(' and ')}, `;
  const earlier = ranksOf([...(of === undefined ? [] : gone), ...left]);
  const remedy = `see the output of ${ranksText([...earlier, ...ranks])}`;
  // A lost connection tells of the rank at its other end.
  const blamed = of !== undefined && left.length > 0 ? ranksOf(left) : ranks;
  return [{ kind: 'rank_failed', ranks: blamed, text: `${after}${failedText(failed)}`, remedy }];
}

/** Whether the first error tells of peers alone, and a rank had stopped before it: then that rank is the reason. */
export function isOfStopped(lives: readonly ProcessTotals[]): boolean {
  const [first] = failedOf(lives);
  if (first === undefined || !isOfPeer(first)) return false;
  return goneBefore(first, lives).length > 0;
}

/** Ranks that fell silent before a life failed: for an error that tells of a peer, shortly before is enough. */
function goneBefore(failed: ProcessTotals, lives: readonly ProcessTotals[]): readonly ProcessTotals[] {
  const before = (failed.until ?? 0) - (isOfPeer(failed) ? 0 : unsentNsMax);
  return lives.filter(
    ({ until, ended, process: { metadata } }) =>
      !ended && !metadata.has(stillRunningKey) && !metadata.has(stoppedKey) && (until ?? 0) < before,
  );
}

/** `had ended`, or `had ended by SIGTERM` where all have one reason for it. */
function howOf(lives: readonly ProcessTotals[], otherwise: string): string {
  const how = new Set(lives.map(({ process }) => process.metadata.get(exitKey) ?? process.metadata.get(endedByKey)));
  const [told] = how;
  if (how.size !== 1 || told === undefined) return otherwise;
  const only = shownEnd(told);
  return only.includes(' ')
    ? lives.length > 1
      ? only.replace(/^was /, 'were ')
      : only
    : `${lives.length > 1 ? 'were' : 'was'} ended by ${only}`;
}

/** Ranks that did not come as far as those whose collectives timed out, and the places of all. */
function lateOf(
  lives: readonly ProcessTotals[],
  phases: readonly string[],
): { ranks: readonly number[]; places: readonly string[] } | undefined {
  const places = new Map(lives.flatMap(({ process, place }) => (place === undefined ? [] : [[process.rank, inStep(place)] as const])));
  const all = lives.map(({ process }) => process.rank);
  const ranks = ranksBehind(places, all, phases, phaseRolesOf(lives.map(({ process }) => process)));
  const isVictim = ({ process }: ProcessTotals): boolean => peerErrorOf(process.metadata.get(failedKey) ?? '') === 'timeout';
  if (ranks.length === 0 || lives.some((life) => ranks.includes(life.process.rank) && isVictim(life))) return undefined;
  return { ranks, places: placesTexts(places, all, ['was', 'were']) };
}

/** `119`, or `99 to 119`. */
function stepsText(ranks: readonly number[], lasts: ReadonlyMap<number, number>): string {
  const steps = ranks.map((rank) => lasts.get(rank) as number);
  const [first, last] = [Math.min(...steps), Math.max(...steps)];
  return first === last ? `${first}` : `${first} to ${last}`;
}

/** Whether its program ended by an error, or said goodbye for an end that nobody had asked for. One that Ctrl-C ends breaks the connections of others. */
export function isFailed({ metadata }: ProcessTotals['process']): boolean {
  if (metadata.has(failedKey)) return !metadata.has(endedByKey);
  return metadata.has(exitKey) && !metadata.has(stoppedKey);
}

/** The lives that ended by an error: by one of their own first, then in order of time. */
export const failedOf = (lives: readonly ProcessTotals[]): readonly ProcessTotals[] =>
  lives
    .filter(({ process, ended }) => isFailed(process) && (ended || process.metadata.has(failedKey)))
    .sort((a, b) => Number(isOfPeer(a)) - Number(isOfPeer(b)) || (a.until ?? 0) - (b.until ?? 0) || a.process.rank - b.process.rank);

const isOfPeer = (life: ProcessTotals): boolean => peerErrorOf(errorOf(life)) !== undefined;

/** `rank 2 failed first: ValueError: bad batch; 31.2 ms later rank 0: RuntimeError: Connection closed by peer, and 1 more`. */
export function failedText(failed: readonly ProcessTotals[], verb = 'failed'): string {
  const first = firstOf(failed);
  const others = failed.slice(first.length);
  const [one, next] = [first[0] as ProcessTotals, others[0]];
  const who = ranksText(first.map(({ process }) => process.rank).sort((a, b) => a - b));
  if (next === undefined) return `${who} ${verb}: ${displayText(errorOf(one), errorChars)}`;
  const more = others.length > 1 ? `, and ${others.length - 1} more` : '';
  const length = (next.until ?? 0) - (one.until ?? 0);
  const when = length < 0 ? `${lengthText(-length)} before that` : `${lengthText(length)} later`;
  const isFirst = length < 0 ? '' : ' first';
  return `${who} ${verb}${isFirst}: ${displayText(errorOf(one), errorChars)}; ${when} rank ${next.process.rank}: ${displayText(errorOf(next), nextErrorChars)}${more}`;
}

const errorOf = ({ process: { metadata } }: ProcessTotals): string =>
  metadata.get(failedKey) ?? metadata.get(exitKey)?.replace(/^was /, '') ?? '';

/** Those that may have failed first, as far as clocks tell. */
function firstOf(failed: readonly ProcessTotals[]): readonly ProcessTotals[] {
  const [first] = failed;
  if (first === undefined) return [];
  const boundOf = ({ process }: ProcessTotals): number => process.alignment.bound ?? Number.POSITIVE_INFINITY;
  const isWithin = (life: ProcessTotals): boolean =>
    isOfPeer(life) === isOfPeer(first) &&
    life.process.host !== first.process.host &&
    (life.until ?? 0) - (first.until ?? 0) <= boundOf(life) + boundOf(first);
  return failed.filter((life) => life === first || isWithin(life));
}

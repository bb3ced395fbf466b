// Ranks whose program ended by an error: one finding of kind `rank_failed` for all of them, which names the one that failed first.
//
//   rank 0   ├──────────────────────┤✕  Connection closed by peer
//   rank 1   ├──────────────────────┤ ✕ Connection closed by peer
//   rank 2   ├────────────────────┤✕    bad batch          the reason: it ended before the others did
//
// A rank that left in good order before the first error, and came no further than those that failed, may be the reason, too: it is named with its last step.

import { failedKey, stillRunningKey } from '@ranktrace/protocol';
import { lengthText } from '../model/quantity-text.ts';
import { ranksText } from '../model/ranks-text.ts';
import { displayText } from '../model/shown-name.ts';
import type { ProcessTotals } from '../model/trace-sink.ts';
import type { RankSummary } from '../steps/step-summary.ts';
import type { Finding } from './findings.ts';

/** Most characters of the first error, and of the next one, which tells what it did to others. */
const [errorChars, nextErrorChars] = [200, 80];

/** `lives`: each rank's last one. `steps`: the last step of ranks, where it is known. */
export function failedFindings(lives: readonly ProcessTotals[], steps: readonly Pick<RankSummary, 'rank' | 'last'>[] = []): Finding[] {
  const failed = failedOf(lives);
  const [first] = failed;
  if (first === undefined) return [];
  const ranks = firstOf(failed).map(({ process }) => process.rank);
  const before = lives.filter(({ until, process }) => !process.metadata.has(stillRunningKey) && (until ?? 0) < (first.until ?? 0));
  const gone = before.filter(({ ended }) => !ended).map(({ process }) => process.rank);
  const lasts = new Map(steps.map(({ rank, last }) => [rank, last]));
  const furthest = Math.max(...ranks.map((rank) => lasts.get(rank) ?? Number.NEGATIVE_INFINITY));
  const left = before.filter(({ ended, process }) => ended && (lasts.get(process.rank) ?? Number.POSITIVE_INFINITY) <= furthest);
  const leftRanks = left.map(({ process }) => process.rank);
  const reasons = [
    ...(gone.length === 0 ? [] : [`${ranksText(gone)} had stopped`]),
    ...(left.length === 0 ? [] : [`${ranksText(leftRanks)} had ended after step ${stepsText(leftRanks, lasts)}`]),
  ];
  const after = reasons.length === 0 ? '' : `after ${reasons.join(' and ')}, `;
  const remedy = `see the output of ${ranksText([...leftRanks, ...ranks])}`;
  return [{ kind: 'rank_failed', ranks, text: `${after}${failedText(failed)}`, remedy }];
}

/** `119`, or `99 to 119`. */
function stepsText(ranks: readonly number[], lasts: ReadonlyMap<number, number>): string {
  const steps = ranks.map((rank) => lasts.get(rank) as number);
  const [first, last] = [Math.min(...steps), Math.max(...steps)];
  return first === last ? `${first}` : `${first} to ${last}`;
}

/** The lives that ended by an error, in order of time. */
export const failedOf = (lives: readonly ProcessTotals[]): readonly ProcessTotals[] =>
  lives
    .filter(({ process }) => process.metadata.has(failedKey))
    .sort((a, b) => (a.until ?? 0) - (b.until ?? 0) || a.process.rank - b.process.rank);

/** `rank 2 failed first: ValueError: bad batch; 31.2 ms later rank 0: RuntimeError: Connection closed by peer, and 1 more`. */
export function failedText(failed: readonly ProcessTotals[], verb = 'failed'): string {
  const first = firstOf(failed);
  const others = failed.slice(first.length);
  const [one, next] = [first[0] as ProcessTotals, others[0]];
  const who = ranksText(first.map(({ process }) => process.rank).sort((a, b) => a - b));
  if (next === undefined) return `${who} ${verb}: ${errorOf(one, errorChars)}`;
  const more = others.length > 1 ? `, and ${others.length - 1} more` : '';
  const after = lengthText((next.until ?? 0) - (one.until ?? 0));
  return `${who} ${verb} first: ${errorOf(one, errorChars)}; ${after} later rank ${next.process.rank}: ${errorOf(next, nextErrorChars)}${more}`;
}

const errorOf = ({ process }: ProcessTotals, chars: number): string => displayText(process.metadata.get(failedKey) as string, chars);

/** Those that may have failed first, as far as clocks tell. */
function firstOf(failed: readonly ProcessTotals[]): readonly ProcessTotals[] {
  const [first] = failed;
  if (first === undefined) return [];
  const boundOf = ({ process }: ProcessTotals): number => process.alignment.bound ?? Number.POSITIVE_INFINITY;
  const isWithin = (life: ProcessTotals): boolean =>
    life.process.host !== first.process.host && (life.until ?? 0) - (first.until ?? 0) <= boundOf(life) + boundOf(first);
  return failed.filter((life) => life === first || isWithin(life));
}

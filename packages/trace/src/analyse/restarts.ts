// Ranks that were started again: findings of kind `restarted`, one for all ranks that begin again together.
//
//   rank 0   ├ step 0 … 59 ┤            ├ step 50 …        began again: 10 steps were trained twice, and no step ran in between
//   rank 1   ├ step 0 … 59 ┤             ├ step 50 …
//   rank 2   ├ step 0 … 58 ✕             ├ step 50 …       stopped without saying goodbye before

import { isBeside, stillRunningKey } from '@ranktrace/protocol';
import { lengthText } from '../model/quantity-text.ts';
import { ranksText } from '../model/ranks-text.ts';
import type { ProcessTotals } from '../model/trace-sink.ts';
import type { LifeSteps } from '../steps/step-summary.ts';
import { failedOf, failedText } from './failed-ranks.ts';
import type { Finding } from './findings.ts';

/** A rank's life that follows others. Times in ns of trace time. */
interface Restart {
  readonly rank: number;
  /** End of the step before, or of the life before where none is known. */
  readonly stopped: number;
  readonly began: number;
  /** When the life that began was last heard of. */
  readonly until: number;
  /** The greatest step so far, and the first and the greatest one since; undefined where a side has none. */
  readonly after: number | undefined;
  readonly first: number | undefined;
  readonly last: number | undefined;
  /** The lives before, since the last restart. */
  readonly before: readonly ProcessTotals[];
}

/** By rank, the life that began last. */
export function lastLives(totals: readonly ProcessTotals[]): ReadonlyMap<number, ProcessTotals> {
  const last = new Map<number, ProcessTotals>();
  for (const life of totals) {
    if (isBeside(life.process.incarnation)) continue;
    const known = last.get(life.process.rank);
    if (known === undefined || beginOf(life) > beginOf(known)) last.set(life.process.rank, life);
  }
  return last;
}

const beginOf = ({ from }: ProcessTotals): number => from ?? Number.NEGATIVE_INFINITY;

/** Ranks that began again together: neither before the other had stopped, nor after the lives of the others were over. */
interface Together {
  readonly ranks: Set<number>;
  readonly restarts: Restart[];
  stopped: number;
  began: number;
  until: number;
}

/** Restarts that are told one by one, the last ones, and groups before the last one in which a rank may belong. */
const [restartsShown, groupsSearched] = [8, 8];

/** `lives`: those that ended a step. */
export function restartFindings(totals: readonly ProcessTotals[], lives: readonly LifeSteps[]): Finding[] {
  if (lives.length === 0) return [];
  const stepsOf = new Map(lives.map((life) => [life.process, life]));
  const byRank = new Map<number, ProcessTotals[]>();
  for (const life of totals) {
    const { rank, incarnation } = life.process;
    if (isBeside(incarnation) || life.from === undefined || life.until === undefined) continue;
    const ofRank = byRank.get(rank);
    if (ofRank === undefined) byRank.set(rank, [life]);
    else ofRank.push(life);
  }
  const restarts = [...byRank.values()].flatMap((ofRank) => restartsOf(ofRank, stepsOf));
  const groups: Together[] = [];
  for (const restart of restarts.sort((a, b) => a.began - b.began)) {
    const { rank, stopped, began, until } = restart;
    const isOf = (group: Together): boolean =>
      !group.ranks.has(rank) && began >= group.stopped && group.began >= stopped && began <= group.until;
    const together = groups.slice(-groupsSearched).findLast(isOf);
    if (together === undefined) groups.push({ ranks: new Set([rank]), restarts: [restart], stopped, began, until });
    else {
      together.ranks.add(rank);
      together.restarts.push(restart);
      together.stopped = Math.max(together.stopped, stopped);
      together.until = Math.max(together.until, until);
    }
  }
  const told = groups.slice(-restartsShown).map(({ restarts: group }) => findingOf(group, byRank.size));
  const before = groups.length - told.length;
  const ranks = [...new Set(groups.slice(0, before).flatMap((group) => [...group.ranks]))].sort((a, b) => a - b);
  const text = `${ranksText(ranks)} began again before: ${before} times in all`;
  return before === 0 ? told : [{ kind: 'restarted', ranks, text, remedy: outputRemedy }, ...told];
}

const outputRemedy = 'their output says why they ended';

/** A life that ended no step tells of no training, unless it is the last one. */
function restartsOf(lives: ProcessTotals[], stepsOf: ReadonlyMap<number, LifeSteps>): Restart[] {
  const found: Restart[] = [];
  let before: ProcessTotals[] = [];
  let after: number | undefined;
  const inTime = lives.sort((a, b) => (a.from as number) - (b.from as number));
  for (const [at, life] of inTime.entries()) {
    const steps = stepsOf.get(life.process.index);
    // Two at a time are no restart, but `rank_twice`; nor are two recordings of one process, unless the thread of the first one was ended.
    const isAnother = before.every((one) => isOther(one, life)) || before.slice(-1).some(isCut);
    const isNext = before.length > 0 && isAnother && before.every((one) => (life.from as number) >= (one.until as number));
    if (isNext && (steps !== undefined || at === inTime.length - 1)) {
      const ends = before.map(
        ({ process, until }) => stepsOf.get(process.index)?.until ?? (after === undefined ? (until as number) : -Infinity),
      );
      found.push({
        rank: life.process.rank,
        stopped: Math.max(...ends),
        began: steps?.from ?? (life.from as number),
        until: life.until as number,
        after,
        first: steps?.first,
        last: steps?.last,
        before,
      });
      before = [];
    }
    before.push(life);
    if (steps !== undefined) after = Math.max(after ?? -1, steps.last);
  }
  return found;
}

const isCut = ({ process, ended, goesOn }: ProcessTotals): boolean => !ended && goesOn !== true && !process.metadata.has(stillRunningKey);

const isOther = ({ process: a }: ProcessTotals, { process: b }: ProcessTotals): boolean => a.pid !== b.pid || a.host !== b.host;

function findingOf(group: readonly Restart[], known: number): Finding {
  const ranks = group.map(({ rank }) => rank).sort((a, b) => a - b);
  const who = ranks.length === known && known > 1 ? `all ${known} ranks` : ranksText(ranks);
  const stopped = Math.max(...group.map((one) => one.stopped));
  const gap = lengthText(Math.max(0, Math.min(...group.map(({ began }) => began)) - stopped));
  const after = Math.max(-1, ...group.map((one) => one.after ?? -1));
  const first = Math.min(...group.map((one) => one.first ?? Number.POSITIVE_INFINITY));
  const failed = failedOf(group.flatMap(({ before }) => before));
  const killed = group
    .filter(({ before }) => before.some(({ ended }) => !ended))
    .map(({ rank }) => rank)
    .sort((a, b) => a - b);
  const isKnown = after >= 0 && Number.isFinite(first);
  /** The last step of both sides. */
  const both = Math.min(after, Math.max(-1, ...group.map((one) => one.last ?? -1)));
  const again = both - first + 1;
  const parts = [
    isKnown
      ? `step ${first} begins ${gap} after the end of step ${after}`
      : after < 0
        ? `${gap} after ${ranks.length === 1 ? 'its life' : 'their lives'} before, which ended no step`
        : `${gap} after the end of step ${after}, and no step has ended since`,
    ...(isKnown && again > 0 ? [again === 1 ? `step ${first} is there twice` : `steps ${first} to ${both} are there twice`] : []),
    ...(failed.length > 0 ? [failedText(failed, 'had failed')] : []),
    ...(killed.length > 0 ? [`${ranksText(killed)} had stopped without saying goodbye`] : []),
  ];
  const text = `${who} began again: ${parts.join('; ')}`;
  const remedy =
    isKnown && first === 0 && again > 0
      ? 'if the training went on from a checkpoint, say with which step: firstStep, or RANKTRACE_FIRST_STEP'
      : outputRemedy;
  return { kind: 'restarted', ranks, text, remedy };
}

// Why ranks stopped: the one that ended first, or that never came, and those that failed because of it.
//
//   rank 1   ├──────────────✕ SIGKILL                      the reason, as the command that started it saw it, or as its silence shows
//   rank 0   ├───────────────✕ Connection closed by peer   what it did to others: an error of this kind names no reason (peer-errors.ts)
//
//   rank 1   ├──────── forward of step 60 ……………            the reason, by its place
//   rank 0   ├────────── backward of step 60 ……… ✕ Timed out waiting
//
// In order: an end that its launcher saw, or silence, before the first error of a rank's own; that error; where all errors are of peers, a rank that had
// ended before, or one that did not come as far; with none of these the first that failed.

import { displayText } from '../model/shown-name.ts';
import { peerErrorOf } from '../steps/peer-errors.ts';
import { ranksText } from './alert-text.ts';

/** `step`: the last that the rank ended, −1 for none; `atMs`: when its end was heard of. */
export interface RankEnd {
  readonly rank: number;
  readonly step: number;
  readonly atMs: number;
  /** It may have ended further steps, which it did not get to tell. */
  readonly mayBeLater?: boolean | undefined;
}

export interface RankFailure extends RankEnd {
  readonly error: string;
}

export interface StopFacts {
  readonly failed: readonly RankFailure[];
  /** Ends that the command that started the ranks saw and did not ask for, of ranks without an error: `ended with exit code 1`. */
  readonly exited: readonly (RankEnd & { readonly how: string })[];
  /** Ranks that were gone without a goodbye by then. */
  readonly lost: (byMs: number) => readonly RankEnd[];
  /** Ranks that had said goodbye by then; `how`: `ended`, or `was ended by SIGTERM`. */
  readonly left: (byMs: number) => readonly (RankEnd & { readonly how: string })[];
  /** Ranks that did not come as far as those that waited, and the places of all. */
  readonly behind: () => { readonly ranks: readonly number[]; readonly places: readonly string[] };
  /** Ranks of the job that were never heard of. */
  readonly absent: () => readonly number[];
}

export interface StopCause {
  /** The reason and the first error, a text each. */
  readonly texts: readonly string[];
  readonly ranks: readonly number[];
  /** Ranks that failed later than the first one named. */
  readonly later: readonly number[];
}

/** Most characters of an error in an alert. */
const errorCharsMax = 200;

/** Undefined where no rank failed or ended so that its end was seen. */
export function stopCause(facts: StopFacts): StopCause | undefined {
  const { exited } = facts;
  const failed = facts.failed
    .map((one) => ({ ...one, of: peerErrorOf(one.error) }))
    .sort((a, b) => Number(a.of !== undefined) - Number(b.of !== undefined) || a.atMs - b.atMs || b.step - a.step);
  const [first] = failed;
  const [seen] = exited.toSorted((a, b) => a.atMs - b.atMs);
  const isOwn = first !== undefined && first.of === undefined;
  if (first === undefined && seen === undefined) return undefined;
  const reason =
    seen !== undefined && !(isOwn && first.atMs <= seen.atMs) ? exitOf(exited, seen) : reasonBefore(first as RankFailure, facts);
  const names = (of: readonly RankFailure[]): number[] => of.map(({ rank }) => rank).sort((a, b) => a - b);
  if (first === undefined) return { texts: reason?.texts ?? [], ranks: reason?.ranks ?? [], later: [] };
  const error = displayText(first.error, errorCharsMax);
  const later = names(failed.slice(1));
  if (reason === undefined) return { texts: [`rank ${first.rank} failed${afterStep(first.step)}: ${error}`], ranks: [first.rank], later };
  return { texts: [...reason.texts, `then rank ${first.rank} failed: ${error}`], ranks: reason.ranks, later };
}

interface Reason {
  readonly texts: readonly string[];
  readonly ranks: readonly number[];
}

/** Several ends of one kind, seen together, are one reason. */
function exitOf(exited: StopFacts['exited'], first: StopFacts['exited'][number]): Reason {
  const alike = exited.filter(({ how }) => how === first.how).map(({ rank }) => rank);
  const ranks = alike.length === exited.length ? alike.sort((a, b) => a - b) : [first.rank];
  return { texts: [`${ranksText(ranks)} ${verbOf(first.how, ranks)}${afterStep(first.step, first.mayBeLater)}`], ranks };
}

function reasonBefore(first: RankFailure, facts: StopFacts): Reason | undefined {
  const lost = facts.lost(first.atMs);
  if (lost.length > 0) {
    const ranks = lost.map(({ rank }) => rank);
    const step = Math.max(...lost.map((one) => one.step));
    return {
      texts: [
        `${ranksText(ranks)} ${lost.length === 1 ? 'was' : 'were'} lost without a goodbye${afterStep(
          step,
          lost.every(({ mayBeLater }) => mayBeLater),
        )}`,
      ],
      ranks,
    };
  }
  const of = peerErrorOf(first.error);
  if (of === undefined) return undefined;
  const left = facts.left(first.atMs).filter(({ step }) => step <= first.step);
  const [gone] = left;
  if (gone !== undefined) {
    const ranks = left.map(({ rank }) => rank).sort((a, b) => a - b);
    const how = left.every((one) => one.how === gone.how) ? gone.how : 'ended';
    return { texts: [`${ranksText(ranks)} ${verbOf(how, ranks)}${afterStep(Math.max(...left.map(({ step }) => step)))}`], ranks };
  }
  if (of !== 'timeout') return undefined;
  const absent = facts.absent();
  if (absent.length > 0)
    return { texts: [`the others waited in vain for ${ranksText(absent)}, of which nothing was ever heard`], ranks: absent };
  const { ranks, places } = facts.behind();
  if (ranks.length === 0) return undefined;
  return { texts: [`the others waited in vain for ${ranksText(ranks)}, which did not come as far`, ...places], ranks };
}

const verbOf = (how: string, ranks: readonly number[]): string => (ranks.length > 1 ? how.replace(/^was /, 'were ') : how);

const afterStep = (step: number, mayBeLater = false): string => (step < 0 ? '' : ` after step ${step}${mayBeLater ? ' or later' : ''}`);

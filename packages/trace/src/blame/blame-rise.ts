// Explains the rise of one watched series, as an alert reports it: the cluster's steps, one rank's own work, a phase.
//
//   series     grows by                      can be caused by
//   cluster    the longest rank's step       all that lengthens steps
//   rank       its own work                  itself, or all ranks; never by others that became faster, by transfers or by waiting
//   phase      its longest rank, of work     the ranks that became longer in it
//
// A rank that hides behind a slower one lengthens no step: steps then say nothing of it. Where threads of most ranks wait for a CPU, a rank is named
// only if it is a straggler in the steps since the rise: otherwise the host is busy.

import { isWaitingRole } from '@ranktrace/protocol';
import { finish } from '../model/finish.ts';
import { judgeWindow } from './blame.ts';
import { type BlameChange, type BlameLevels, blameOf, levelsOf } from './blame-change.ts';
import type { BlameWindow } from './blame-window.ts';
import { cpuWaitOf } from './cpu-wait.ts';
import { explainedText } from './explained-change.ts';
import { isOfMany, isShift, ms, ofMany, ofSome, type Shift, shiftsOf } from './work-shifts.ts';

/** The rise of a series, as its detector measured it. */
export interface Rise {
  readonly series: { readonly kind: 'cluster' | 'rank' | 'phase'; readonly rank?: number | undefined; readonly phase?: string | undefined };
  /** ns per step; undefined: that of the cluster's steps between the windows. */
  readonly change: number | undefined;
}

/** The cause of a rise. */
export interface RiseBlame extends BlameChange {
  /** On a busy host: the ranks that are slower since the rise than chance makes one. */
  readonly stragglers?: readonly number[];
}

/**
 * Explains `rise` by the windows before and since its onset, at most 64 steps each. `kind` is `inconclusive` where nothing accounts for half of it.
 */
export function blameOfRise(before: BlameWindow, now: BlameWindow, rise: Rise): RiseBlame {
  const [was, is] = [levelsOf(before), levelsOf(now)];
  if (was === undefined || is === undefined) return blameOf(before, now, rise.change);
  const found = bySeries(was, is, rise);
  const [waitBefore, wait] = [cpuWaitOf(before.ranks), cpuWaitOf(now.ranks)];
  if (!wait.isBusy || found.change <= 0) return found;
  const slow = finish(judgeWindow(now)).findings.filter(({ kind }) => kind === 'straggler');
  const stragglers = slow.flatMap(({ ranks, mayBeScheduling }) => (mayBeScheduling === true ? [] : ranks));
  const isOfRanks = found.kind === 'straggler' || found.kind === 'stage_imbalance';
  const isOfAll = found.kind === 'cluster_wide' || found.kind === 'data_loading';
  const mayBeChance = isOfAll ? !waitBefore.isBusy : looksBusy.has(found.kind);
  const isSure = isOfRanks ? slow.some(({ ranks }) => ranks.some((rank) => found.ranks.includes(rank))) : !mayBeChance;
  if (isSure) return { ...found, stragglers };
  const nobody = { ...nothing(was, is, found.change), stragglers };
  const more = wait.delay(is.step) - waitBefore.delay(was.step);
  if (2 * more >= found.change) {
    const shareOfChange = Math.min(1, more / found.change);
    const how = Number.isFinite(more)
      ? `that may lengthen the work of the slowest rank by ${ms(more)} more per step than before`
      : undefined;
    return { ...nobody, kind: 'cpu_contention', shareOfChange, evidence: [...wait.text, ...(how === undefined ? [] : [how])] };
  }
  return isOfRanks
    ? { ...nobody, evidence: [`no rank stands out of what a busy host does: ${wait.text.join('; ')}`, ...found.evidence] }
    : { ...found, stragglers };
}

/** Kinds that a busy host looks like. */
const looksBusy: ReadonlySet<BlameChange['kind']> = new Set(['rotating_imbalance', 'inconclusive']);

function bySeries(was: BlameLevels, is: BlameLevels, { series, change }: Rise): BlameChange {
  if (change === undefined || series.kind === 'cluster') return blameOf(was, is, change);
  if (series.kind === 'rank') return ofOneRank(was, is, series.rank as number, change);
  const at = is.phases.indexOf(series.phase ?? '');
  // A phase in which ranks may wait grows with any rank's work.
  const isWork = at >= 0 && !is.hidesWaits && !was.hidesWaits && !isWaitingRole(is.roles?.[at]);
  return isWork ? ofOnePhase(was, is, at, change) : blameOf(was, is, change);
}

function ofOneRank(was: BlameLevels, is: BlameLevels, rank: number, change: number): BlameChange {
  const shifts = shiftsOf(was, is);
  const share = shareOf(change);
  const shifted = shifts.filter(({ total, error }) => isShift(total, error, share));
  const own = shifts.find((one) => one.rank === rank);
  const subject = `the own work of rank ${rank} is`;
  if (own === undefined || !shifted.includes(own)) {
    const part = own === undefined || own.total <= 0 ? [] : [['that', own.total] as const];
    const much = own === undefined ? 'its steps are not known' : `the median of its work changed by ${ms(own.total)}`;
    return { ...nothing(was, is, change), evidence: [`${much}: ${explainedText(change, part, subject)}`] };
  }
  const isMany = isOfMany(shifts, shifted);
  const { total: _, evidence, ...blamed } = isMany ? ofMany(shifts, shifted, is, share) : ofSome(shifted, is, share);
  const texts = [...evidence, explainedText(change, [[isMany ? 'its own part of that' : 'that', own.total]], subject)];
  return {
    ...nothing(was, is, change),
    ...blamed,
    shareOfChange: share(own.total),
    evidence: [...texts, ...(isMany ? [] : [stepsText(was, is, shifts, own)])],
  };
}

function ofOnePhase(was: BlameLevels, is: BlameLevels, at: number, change: number): BlameChange {
  const phase = is.phases[at] as string;
  const share = shareOf(change);
  const shifts = shiftsOf(was, is).map((one): Shift => {
    const inPhase = one.more[at] as number;
    return { ...one, phase, inPhase, total: inPhase };
  });
  const shifted = shifts.filter(({ total, error }) => isShift(total, error, share));
  const subject = `the longest time in ${phase} is`;
  if (shifted.length === 0) {
    const most = Math.max(0, ...shifts.map(({ total }) => total));
    const part = [['the rank that changed most there', most] as const];
    return { ...nothing(was, is, change), phase, evidence: [`no rank accounts for half of it: ${explainedText(change, part, subject)}`] };
  }
  const { total, evidence, ...blamed } = isOfMany(shifts, shifted) ? ofMany(shifts, shifted, is, share) : ofSome(shifted, is, share);
  return { ...nothing(was, is, change), ...blamed, evidence: [...evidence, explainedText(change, [['that', total]], subject)] };
}

const shareOf =
  (change: number) =>
  (of: number): number =>
    change === 0 ? 0 : Math.min(1, Math.max(0, of / change));

function nothing(was: BlameLevels, is: BlameLevels, change: number): BlameChange {
  const nobody = { ranks: [], host: undefined, phase: undefined, communicator: undefined };
  const share = was.step > 0 ? change / was.step : 0;
  return { kind: 'inconclusive', change, share, before: was.step, now: is.step, ...nobody, shareOfChange: 0, evidence: [] };
}

/** How the cluster's steps changed meanwhile; where they did not by as much, the rank for which they are as long. */
function stepsText(was: BlameLevels, is: BlameLevels, shifts: readonly Shift[], own: Shift): string {
  const change = is.step - was.step;
  const text = `steps are ${ms(Math.abs(change))} ${change < 0 ? 'shorter' : 'longer'}`;
  if (change >= own.total / 2) return text;
  const workOf = (rank: number): number => is.ranks.find((one) => one.rank === rank)?.own.reduce((sum, length) => sum + length, 0) ?? 0;
  const peers = shifts.filter(({ rank, peers }) => rank !== own.rank && peers === own.peers);
  const longest = peers.toSorted((a, b) => workOf(b.rank) - workOf(a.rank))[0];
  const longer = longest === undefined ? 0 : workOf(longest.rank) - workOf(own.rank);
  if (longest !== undefined && longer > shiftedShare * own.total)
    return `${text}: it hides behind rank ${longest.rank}, which works ${ms(longer)} longer`;
  const faster = peers.toSorted((a, b) => a.total - b.total)[0];
  if (faster !== undefined && faster.total < -shiftedShare * own.total)
    return `${text}, for rank ${faster.rank} works ${ms(-faster.total)} less`;
  return text;
}

/** Another rank explains that steps did not become longer if its work differs by this share of the rise. */
const shiftedShare = 0.25;

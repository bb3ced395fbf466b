// Ranks whose own work changed from one window to another: which ones, by how much, in which phase, and whether they are few, a stage or most.

import { lowerMedian } from '@ranktrace/protocol';
import { median } from '../model/robust.ts';
import type { BlameLevels } from './blame-change.ts';
import { workText } from './explained-change.ts';

/** A rank shifted if its own work changed by this share of the change, and by this many errors. */
const shiftShareMin = 0.5;
const shiftErrorsMin = 3;
/** From this share of ranks on, the change is cluster-wide. */
const clusterShareMin = 0.5;

/** Share of the change that a length, ns, is; 0 … 1. */
export type ShareOfChange = (of: number) => number;

export const isShift = (length: number, error: number, share: ShareOfChange): boolean =>
  share(length) >= shiftShareMin && Math.abs(length) > shiftErrorsMin * error;

/** Whether those that shifted are at least half of the ranks: then it is none's own fault. */
export const isOfMany = (shifts: readonly Shift[], shifted: readonly Shift[]): boolean =>
  shifts.length > 0 && shifted.length >= clusterShareMin * shifts.length && (shifted.length > 1 || shifts.length === 1);

export const ms = (ns: number): string => `${(ns / 1e6).toFixed(2)} ms`;

/** Change of a rank's own work, ns per step. */
export interface Shift {
  readonly rank: number;
  /** Whether it was not there before: then it is compared with the median of the ranks that did its work. */
  readonly isNew: boolean;
  readonly hostName: string;
  readonly peers: string;
  /** More than before in each phase of now. */
  readonly more: readonly number[];
  /** The phase with most of it. */
  readonly phase: string;
  readonly inPhase: number;
  readonly total: number;
  readonly error: number;
}

export function shiftsOf(before: BlameLevels, now: BlameLevels): Shift[] {
  const was = new Map(before.ranks.map((about) => [about.rank, about]));
  return now.ranks.flatMap(({ rank, hostName, peers, own, error }): Shift[] => {
    const isNew = !was.has(rank);
    const old = was.get(rank) ?? middleOf(before.ranks.filter((about) => about.peers === peers));
    if (old === undefined) return [];
    const more = now.phases.map((phase, at) => {
      const place = before.phases.indexOf(phase);
      return (own[at] as number) - (place < 0 ? 0 : (old.own[place] as number));
    });
    const total = more.reduce((all, length) => all + length, 0);
    const largest = more.indexOf(total < 0 ? Math.min(...more) : Math.max(...more));
    return [
      {
        ...{ rank, isNew, hostName, peers },
        more,
        phase: now.phases[largest] as string,
        inPhase: more[largest] as number,
        total,
        error: Math.hypot(error, old.error),
      },
    ];
  });
}

/** The median rank; undefined of none. */
function middleOf(ranks: BlameLevels['ranks']): Pick<BlameLevels['ranks'][number], 'own' | 'error'> | undefined {
  const [first] = ranks;
  if (first === undefined) return undefined;
  return {
    own: first.own.map((_, phase) => median(ranks.map(({ own }) => own[phase] as number))),
    error: median(ranks.map(({ error }) => error)),
  };
}

export function ofMany(shifts: readonly Shift[], shifted: readonly Shift[], now: BlameLevels, share: ShareOfChange) {
  const phase = commonPhase(shifted);
  const total = median(shifted.map(({ total }) => total));
  const more = `${ms(Math.abs(total))} ${total < 0 ? 'less' : 'more'}`;
  const evidence = [`${shifted.length} of ${shifts.length} ranks work ${more} per step, mostly in ${phase}`];
  const stages = new Set(now.ranks.map(({ peers }) => peers));
  const slow = new Set(shifted.map(({ peers }) => peers));
  const isStage = stages.size > 1 && slow.size === 1 && shifts.filter(({ peers }) => slow.has(peers)).length === shifted.length;
  const kind = isStage ? 'stage_imbalance' : now.roles?.[now.phases.indexOf(phase)] === 'data' ? 'data_loading' : 'cluster_wide';
  const common = lowerMedian(shifts.map(({ total }) => total)) ?? 0;
  return {
    kind,
    ranks: isStage ? shifted.map(({ rank }) => rank) : [],
    phase,
    total,
    ...(kind === 'cluster_wide' && { common }),
    shareOfChange: share(total),
    evidence,
  } as const;
}

/**
 * Where waiting looks like work, all ranks are longer by as much, but not in the same phase: a rank that the others wait for in one phase is longer in
 * another, and they are not. Undefined where no few ranks are, or in several phases.
 */
export function ofApart(shifts: readonly Shift[], phases: readonly string[], share: ShareOfChange) {
  const apart = phases.flatMap((phase, at) => {
    const longer = shifts.filter(({ more, error }) => isShift(more[at] as number, error, share));
    if (longer.length === 0 || longer.length >= clusterShareMin * shifts.length) return [];
    const others = shifts.filter((one) => !longer.includes(one));
    const usual = median(others.map(({ more }) => more[at] as number));
    const beyond = longer.map((one) => ({ ...one, beyond: (one.more[at] as number) - usual }));
    return beyond.every((one) => share(one.beyond) >= shiftShareMin) ? [{ phase, usual, others, longer: beyond }] : [];
  });
  const [only, second] = apart;
  if (only === undefined || second !== undefined) return undefined;
  const { phase, usual, others } = only;
  const worst = only.longer.toSorted((a, b) => Math.abs(b.beyond) - Math.abs(a.beyond));
  const total = worst[0]?.beyond ?? 0;
  const texts = worst
    .slice(0, 5)
    .map(({ rank, beyond }) => `rank ${rank} works ${ms(Math.abs(beyond + usual))} ${total < 0 ? 'less' : 'more'} per step in ${phase}`);
  const where = `the others change by ${ms(usual)} there, and by as much as the step in ${commonPhase(others)}, where they may wait for it`;
  return {
    kind: 'straggler' as const,
    ranks: worst.map(({ rank }) => rank),
    phase,
    total,
    shareOfChange: share(total),
    evidence: [...texts, where],
  };
}

export function ofSome(shifted: readonly Shift[], now: BlameLevels, share: ShareOfChange) {
  const worst = [...shifted].sort((a, b) => Math.abs(b.total) - Math.abs(a.total));
  const hosts = new Set(worst.map(({ hostName }) => hostName));
  const allHosts = new Set(now.ranks.map(({ hostName }) => hostName));
  const slow = new Set(worst.map(({ peers }) => peers));
  const stages = new Set(now.ranks.map(({ peers }) => peers));
  const isStage =
    stages.size > 1 && slow.size === 1 && worst.length > 1 && now.ranks.filter(({ peers }) => slow.has(peers)).length === worst.length;
  const evidence = worst.slice(0, 5).map(({ rank, isNew, phase, inPhase, total }) => {
    return workText(`rank ${rank}${isNew ? ', which is new,' : ''} works`, total, phase, inPhase);
  });
  return {
    kind: isStage ? ('stage_imbalance' as const) : ('straggler' as const),
    ranks: worst.map(({ rank }) => rank),
    host: hosts.size === 1 && allHosts.size > 1 ? [...hosts][0] : undefined,
    phase: sharedPhase(worst),
    total: worst[0]?.total ?? 0,
    shareOfChange: share(worst[0]?.total ?? 0),
    evidence,
  };
}

/** The phase of the first, if the others have half of their shift in it, too; undefined: each is slow in another one. */
function sharedPhase([first, ...others]: readonly Shift[]): string | undefined {
  if (first === undefined) return undefined;
  const at = first.more.indexOf(first.inPhase);
  return others.every(({ more, total }) => (more[at] as number) / total >= shiftShareMin) ? first.phase : undefined;
}

function commonPhase(shifts: readonly Shift[]): string {
  const sums = new Map<string, number>();
  for (const { phase, inPhase } of shifts) sums.set(phase, (sums.get(phase) ?? 0) + Math.abs(inPhase));
  return [...sums].sort(([, a], [, b]) => b - a)[0]?.[0] ?? '';
}

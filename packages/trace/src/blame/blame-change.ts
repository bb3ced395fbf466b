// Explains why steps became longer (or shorter) between two windows, for an alert's text. Levels are medians over each window, so that a
// window of any length is kept as a few numbers a rank.
//
//   Δ step  =  Δ own work of the ranks at the frontier  +  Δ transfer  +  Δ rotating imbalance  +  unexplained rest

import { isWaitingRole, lowerMedian, type PhaseRole } from '@ranktrace/protocol';
import { deviation, mean, median } from '../model/robust.ts';
import type { BlameAlignment, BlameWindow } from './blame-window.ts';
import { type CpuWait, cpuWaitOf } from './cpu-wait.ts';
import { type ChangePart, explainedText, workText } from './explained-change.ts';
import { frontierOf } from './frontier.ts';
import { withLoaderQueues } from './loader-queues.ts';
import { clockShareOf, transfersOf } from './network.ts';
import { OwnWork } from './own-work.ts';
import type { Verdict } from './verdict.ts';

/** A window in a few numbers a rank, as `blameOf` compares them. Lengths in ns per step. */
export interface BlameLevels {
  readonly steps: number;
  /** Median over steps of the longest rank's step. */
  readonly step: number;
  readonly phases: readonly string[];
  /** By phase; undefined in levels saved without it. */
  readonly roles?: readonly PhaseRole[] | undefined;
  readonly ranks: readonly {
    readonly rank: number;
    readonly hostName: string;
    readonly peers: string;
    /** Median own work by phase, and its error (one deviation). */
    readonly own: readonly number[];
    readonly error: number;
  }[];
  /** Mean advance of the frontier by phase. */
  readonly frontier: readonly number[];
  /** By communicator, mean over the ranks. */
  readonly transfers: ReadonlyMap<string, number>;
  /** Mean over steps of the excess of the busiest rank's own work over the median rank's. */
  readonly spread: number;
  readonly alignment: BlameAlignment;
  /** Error of transfers by clocks, ns per step; undefined if they are not aligned. */
  readonly uncertainty: number | undefined;
  /** Only phases are known, and none of them is a collective: ranks may wait inside any. */
  readonly hidesWaits: boolean;
  /** Undefined in levels saved without it. */
  readonly cpuWait?: Pick<CpuWait, 'isBusy' | 'text'> | undefined;
}

export interface BlameChange {
  readonly kind: Exclude<Verdict, 'balanced'>;
  /** ns by which the step became longer; below 0: shorter. */
  readonly change: number;
  /** As a share of the step before. */
  readonly share: number;
  readonly before: number;
  readonly now: number;
  readonly ranks: readonly number[];
  /** The host of all of `ranks`, if it is one of several. */
  readonly host: string | undefined;
  readonly phase: string | undefined;
  /** The group with the longer transfers. */
  readonly communicator: string | undefined;
  /** Least ns by which more than half of the ranks work longer; only if cluster-wide. Single ranks' further excess is their own. */
  readonly common?: number;
  /** Share of the change that this explains, 0 … 1. */
  readonly shareOfChange: number;
  readonly evidence: readonly string[];
}

/** A window as levels; undefined if it holds no steps. */
export function levelsOf(recorded: BlameWindow): BlameLevels | undefined {
  const window = withLoaderQueues(recorded);
  const { steps, ranks, phases, roles, alignment } = window;
  if (steps.length === 0) return undefined;
  const own = new OwnWork(window);
  const totals = ranks.map((_, rank) => own.total(rank));
  const longest = steps.map(({ ranks: of }) => Math.max(...of.map(({ length }) => length)));
  const { isBusy, text } = cpuWaitOf(ranks);
  const spreads = steps.map((_, step) => {
    const works = totals.map((total) => total[step] as number);
    return Math.max(...works) - median(works);
  });
  return {
    steps: steps.length,
    step: median(longest),
    phases,
    roles,
    ranks: ranks.map(({ rank, hostName, peers }, index) => ({
      ...{ rank, hostName, peers },
      own: phases.map((_, phase) => median(own.inPhase(index, phase))),
      error: (1.2533 * deviation(totals[index] as Float64Array)) / Math.sqrt(steps.length),
    })),
    frontier: frontierOf(window).map(({ advance }) => advance),
    transfers: transfersOf(window),
    spread: mean(spreads),
    alignment,
    uncertainty: window.basis === 'phases' ? 0 : clockShareOf(window, true),
    hidesWaits: window.basis === 'phases' && ranks.length > 1 && !roles.some(isWaitingRole),
    cpuWait: { isBusy, text },
  };
}

const asLevels = (window: BlameWindow | BlameLevels): BlameLevels | undefined => ('basis' in window ? levelsOf(window) : window);

/** Warm-up steps at the beginning, unlike the rest of the run; the number of baseline steps after them. */
export const warmUpSteps = 8;
export const baselineSteps = 64;
/** Runs of at least this many steps are checked for a change. */
export const changeStepsMin = 2 * baselineSteps + warmUpSteps;

/** A cause explains a change if it accounts for at least this share of it. */
const explainsMin = 0.5;
/** A rank shifted if its own work changed by this share of the change, and by this many errors. */
const shiftShareMin = 0.5;
const shiftErrorsMin = 3;
/** From this share of ranks on, the change is cluster-wide. */
const clusterShareMin = 0.5;

/**
 * Explains the change from `before` to `now`; for an alert these are the windows before and after its onset. `reported`: the change to explain,
 * ns, if it was measured elsewhere; default: the change between the windows.
 */
export function blameOf(windowBefore: BlameWindow | BlameLevels, windowNow: BlameWindow | BlameLevels, reported?: number): BlameChange {
  const [before, now] = [asLevels(windowBefore), asLevels(windowNow)];
  const change = reported ?? (now?.step ?? 0) - (before?.step ?? 0);
  const base = { change, share: before && before.step > 0 ? change / before.step : 0, before: before?.step ?? 0, now: now?.step ?? 0 };
  const nobody = { ranks: [], host: undefined, phase: undefined, communicator: undefined };
  const inconclusive = (text: string): BlameChange => ({ ...base, ...nobody, kind: 'inconclusive', shareOfChange: 0, evidence: [text] });
  if (before === undefined || now === undefined) return inconclusive('there are no steps that all ranks reported, before or now');
  if (change === 0) return inconclusive('the step did not change');
  const shifts = shiftsOf(before, now);
  const share = (of: number): number => Math.min(1, Math.max(0, of / change));
  const shifted = shifts.filter(({ total, error }) => share(total) >= shiftShareMin && Math.abs(total) > shiftErrorsMin * error);
  const [communicator, transfer] = largestChange(before.transfers, now.transfers);
  const network = sum(now.transfers) - sum(before.transfers);
  // Clocks cannot separate a smaller change from waiting.
  const isNetworkKnown = now.uncertainty !== undefined && Math.abs(network) > now.uncertainty;
  const byTransfers: ChangePart = ['transfers', isNetworkKnown ? network : 0];
  if (shifts.length > 0 && shifted.length >= clusterShareMin * shifts.length && (shifted.length > 1 || shifts.length === 1)) {
    const many = ofMany(shifts, shifted, now, share);
    // If all wait for one rank inside a phase, all are longer by the same.
    if (many.kind === 'cluster_wide' && (now.hidesWaits || before.hidesWaits)) {
      const apart = ofApart(shifts, now.phases, share);
      if (apart !== undefined) {
        const { total, evidence, ...blamed } = apart;
        return { ...base, ...nobody, ...blamed, evidence: [...evidence, explainedText(change, [['that', total]])] };
      }
      return inconclusive(`${many.evidence[0]}: no collectives were recorded, so they may wait for one of them there`);
    }
    const { total, evidence, ...blamed } = many;
    return { ...base, ...nobody, ...blamed, evidence: [...evidence, explainedText(change, [['that', total], byTransfers])] };
  }
  if (shifted.length > 0) {
    const { total, evidence, ...blamed } = ofSome(shifted, now, share);
    return { ...base, ...nobody, ...blamed, evidence: [...evidence, explainedText(change, [['that', total], byTransfers])] };
  }
  const spread = now.spread - before.spread;
  // Hosts that were as busy before explain no change.
  const busier = change > 0 && now.cpuWait?.isBusy && before.cpuWait?.isBusy === false ? now.cpuWait.text : [];
  if (share(network) >= explainsMin && share(network) >= share(spread)) {
    const { uncertainty } = now;
    if (!isNetworkKnown) {
      const bound = uncertainty === undefined ? 'clocks are not aligned' : `clocks are known to ±${ms(uncertainty)} per step`;
      return inconclusive(`transfers take ${ms(network)} more per step, but ${bound}`);
    }
    const part = `${ms(Math.abs(transfer))} ${transfer < 0 ? 'less' : 'more'} in ${communicator}`;
    const evidence = [...busier, `transfers take ${part}, per step`, explainedText(change, [['transfers', network]])];
    const kind = busier.length > 0 ? 'cpu_contention' : 'network';
    return { ...base, ...nobody, kind, communicator, shareOfChange: share(network), evidence };
  }
  if (share(spread) >= explainsMin) {
    const longest = `the rank that works longest in a step, not always the same, does so by ${ms(Math.abs(spread))} ${spread < 0 ? 'less' : 'more'} than before`;
    const evidence = [...busier, longest, explainedText(change, [['that', spread], byTransfers])];
    const kind = busier.length > 0 ? 'cpu_contention' : 'rotating_imbalance';
    return { ...base, ...nobody, kind, phase: frontierPhase(before, now), shareOfChange: share(spread), evidence };
  }
  const most = shifts.reduce((of, { total }) => (share(total) > share(of) ? total : of), 0);
  const parts: ChangePart[] = [['the own work of the rank that changed most', most], byTransfers];
  return inconclusive(`no rank, phase or communicator accounts for half of the change: ${explainedText(change, parts)}`);
}

interface Shift {
  readonly rank: number;
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

function shiftsOf(before: BlameLevels, now: BlameLevels): Shift[] {
  const was = new Map(before.ranks.map((about) => [about.rank, about]));
  return now.ranks.flatMap(({ rank, hostName, peers, own, error }): Shift[] => {
    const old = was.get(rank);
    if (old === undefined) return [];
    const more = now.phases.map((phase, at) => {
      const place = before.phases.indexOf(phase);
      return (own[at] as number) - (place < 0 ? 0 : (old.own[place] as number));
    });
    const total = more.reduce((all, length) => all + length, 0);
    const largest = more.indexOf(total < 0 ? Math.min(...more) : Math.max(...more));
    return [
      {
        rank,
        hostName,
        peers,
        more,
        phase: now.phases[largest] as string,
        inPhase: more[largest] as number,
        total,
        error: Math.hypot(error, old.error),
      },
    ];
  });
}

function ofMany(shifts: readonly Shift[], shifted: readonly Shift[], now: BlameLevels, share: (of: number) => number) {
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
function ofApart(shifts: readonly Shift[], phases: readonly string[], share: (of: number) => number) {
  const apart = phases.flatMap((phase, at) => {
    const longer = shifts.filter(
      ({ more, error }) => share(more[at] as number) >= shiftShareMin && Math.abs(more[at] as number) > shiftErrorsMin * error,
    );
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

function ofSome(shifted: readonly Shift[], now: BlameLevels, share: (of: number) => number) {
  const worst = [...shifted].sort((a, b) => Math.abs(b.total) - Math.abs(a.total));
  const hosts = new Set(worst.map(({ hostName }) => hostName));
  const allHosts = new Set(now.ranks.map(({ hostName }) => hostName));
  const slow = new Set(worst.map(({ peers }) => peers));
  const stages = new Set(now.ranks.map(({ peers }) => peers));
  const isStage =
    stages.size > 1 && slow.size === 1 && worst.length > 1 && now.ranks.filter(({ peers }) => slow.has(peers)).length === worst.length;
  const evidence = worst.slice(0, 5).map(({ rank, phase, inPhase, total }) => workText(`rank ${rank} works`, total, phase, inPhase));
  return {
    kind: isStage ? ('stage_imbalance' as const) : ('straggler' as const),
    ranks: worst.map(({ rank }) => rank),
    host: hosts.size === 1 && allHosts.size > 1 ? [...hosts][0] : undefined,
    phase: worst[0]?.phase,
    total: worst[0]?.total ?? 0,
    shareOfChange: share(worst[0]?.total ?? 0),
    evidence,
  };
}

function commonPhase(shifts: readonly Shift[]): string {
  const sums = new Map<string, number>();
  for (const { phase, inPhase } of shifts) sums.set(phase, (sums.get(phase) ?? 0) + Math.abs(inPhase));
  return [...sums].sort(([, a], [, b]) => b - a)[0]?.[0] ?? '';
}

/** The phase with the largest rise of the frontier's advance. */
function frontierPhase(before: BlameLevels, now: BlameLevels): string | undefined {
  const more = now.phases.map((phase, at) => (now.frontier[at] as number) - (before.frontier[before.phases.indexOf(phase)] ?? 0));
  return now.phases[more.indexOf(Math.max(...more))];
}

/** The name whose length changed most, by how much. Names that one of the two lacks have no length there. */
function largestChange(before: ReadonlyMap<string, number>, now: ReadonlyMap<string, number>): readonly [string | undefined, number] {
  let [name, most]: [string | undefined, number] = [undefined, 0];
  for (const key of new Set([...now.keys(), ...before.keys()])) {
    const more = (now.get(key) ?? 0) - (before.get(key) ?? 0);
    if (Math.abs(more) > Math.abs(most)) [name, most] = [key, more];
  }
  return [name, most];
}

const sum = (lengths: ReadonlyMap<string, number>): number => [...lengths.values()].reduce((all, length) => all + length, 0);
const ms = (ns: number): string => `${(ns / 1e6).toFixed(2)} ms`;

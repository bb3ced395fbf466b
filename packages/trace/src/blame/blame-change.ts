// Explains why steps became longer (or shorter) between two windows, for an alert's text. Levels are medians over each window, so that a
// window of any length is kept as a few numbers a rank.
//
//   Δ step  =  Δ own work of the ranks at the frontier  +  Δ transfer  +  Δ rotating imbalance  +  unexplained rest

import { isWaitingRole, type PhaseRole } from '@ranktrace/protocol';
import { deviation, mean, median } from '../model/robust.ts';
import type { BlameAlignment, BlameWindow } from './blame-window.ts';
import { type CpuWait, cpuWaitOf } from './cpu-wait.ts';
import { type ChangePart, explainedText } from './explained-change.ts';
import { frontierOf } from './frontier.ts';
import { withLoaderQueues } from './loader-queues.ts';
import { clockShareOf, transfersOf } from './network.ts';
import { OwnWork } from './own-work.ts';
import type { Verdict } from './verdict.ts';
import { isOfMany, isShift, ms, ofApart, ofMany, ofSome, shiftsOf } from './work-shifts.ts';

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
  const shifted = shifts.filter(({ total, error }) => isShift(total, error, share));
  const [communicator, transfer] = largestChange(before.transfers, now.transfers);
  const network = sum(now.transfers) - sum(before.transfers);
  // Clocks cannot separate a smaller change from waiting.
  const isNetworkKnown = now.uncertainty !== undefined && Math.abs(network) > now.uncertainty;
  const byTransfers: ChangePart = ['transfers', isNetworkKnown ? network : 0];
  if (isOfMany(shifts, shifted)) {
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

/** The phase of work with the largest rise of the frontier's advance. */
function frontierPhase(before: BlameLevels, now: BlameLevels): string | undefined {
  const more = now.phases.map((phase, at) =>
    isWaitingRole(now.roles?.[at])
      ? Number.NEGATIVE_INFINITY
      : (now.frontier[at] as number) - (before.frontier[before.phases.indexOf(phase)] ?? 0),
  );
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

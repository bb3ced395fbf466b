// Finds the causes of long steps and their cost, and decides whether any rank is to blame at all.
//
//   window ─► own work ─► faults (excess against peers) ─► replays with them mended ─► findings ─► verdict
//
// A finding's cost is the time a step would lose without it, with all other faults mended: a fault hidden behind a larger one is reported
// with its cost once that one is gone. `gain` is the time saved now by mending it alone.
//
// Invariant: no verdict rests on a difference within clock error. Own work is measured by one clock; waits and transfers across hosts count
// only beyond the clocks' bound.

import { isWaitingRole } from '@ranktrace/protocol';
import { finish } from '../model/finish.ts';
import { ranksText } from '../model/ranks-text.ts';
import { median } from '../model/robust.ts';
import { synchronizePhase } from '../steps/phase-role.ts';
import type { BlameChange } from './blame-change.ts';
import { blameLimits } from './blame-limits.ts';
import type { BlameAlignment, BlameWindow, StepRange } from './blame-window.ts';
import { breakdownOf, type RankBreakdown } from './breakdown.ts';
import { cpuWaitOf } from './cpu-wait.ts';
import { findFaults } from './find-faults.ts';
import { type FrontierPhase, frontierOf } from './frontier.ts';
import { areLoadersSlow, loaderDoubt, withLoaderQueues } from './loader-queues.ts';
import { clockShareOf, networkOf } from './network.ts';
import { type Excess, OwnWork } from './own-work.ts';
import { Replay } from './replay.ts';
import { slowOps } from './slow-ops.ts';
import type { Verdict } from './verdict.ts';

export interface BlameFinding {
  readonly kind: Exclude<Verdict, 'balanced'>;
  /** Ranks at fault; empty if the fault is common to all. */
  readonly ranks: readonly number[];
  /** Phase with most of it; undefined if that does not apply. */
  readonly phase: string | undefined;
  /** The phase, or the op, in which the host was for most of the time that GPUs idled for it. Absent: in none for half of it, or no such fault. */
  readonly hostIn?: string | undefined;
  /** ms a step would be shorter without it, all other faults mended. */
  readonly costMsPerStep: number;
  /** Share of the mean step, 0 … 1. */
  readonly shareOfStep: number;
  /** ms a step would be shorter now, if it alone were mended. */
  readonly gainMsPerStep: number;
  /** First and last step that it lengthens, if not all judged steps. */
  readonly stretch?: StepRange | undefined;
  /** Number of steps that it lengthens; undefined: all. */
  readonly affected?: number | undefined;
  /** On a busy host: scheduling may explain it, if it does not last. Absent: no. */
  readonly mayBeScheduling?: true;
  /** The observations behind it, in sentences. */
  readonly evidence: readonly string[];
}

/** The steps' gain if `ranks` worked at the median of their peers. */
export interface WhatIf {
  readonly ranks: readonly number[];
  readonly stepMs: number;
  /** Share of the step, 0 … 1. */
  readonly shorter: number;
  /** Step now ÷ step then. */
  readonly slowdown: number;
}

/** A rank's excess over its peers. */
export interface PeerExcess {
  readonly rank: number;
  readonly peers: string;
  /** Own work beyond the median of its peers', ns per step, and as a share of theirs. */
  readonly excess: number;
  readonly share: number;
  /** Phase with the most excess. */
  readonly phase: string;
}

export interface Blame {
  readonly verdict: Verdict;
  readonly findings: readonly BlameFinding[];
  /** The steps judged. */
  readonly steps: {
    readonly count: number;
    readonly first: number | undefined;
    readonly last: number | undefined;
    /** See `BlameWindow.leftOut`. */
    readonly leftOut: number;
  };
  /** Their mean length over the cluster, ns. */
  readonly step: number;
  readonly basis: BlameWindow['basis'];
  readonly hidden: NonNullable<BlameWindow['hidden']>;
  readonly long: NonNullable<BlameWindow['long']>;
  readonly frontier: readonly FrontierPhase[];
  readonly excess: readonly PeerExcess[];
  /** By phase, largest first: in these steps' noise, an excess of this length over peers would have been found, ns per step. */
  readonly visible: readonly { readonly phase: string; readonly length: number }[];
  readonly breakdown: readonly RankBreakdown[];
  readonly whatIf: readonly WhatIf[];
  readonly alignment: BlameAlignment & {
    /** Total error of waits and transfers, ns per step; undefined if clocks are not aligned. */
    readonly uncertainty: number | undefined;
  };
  /** The change from the run's first steps to the last; undefined in a short run. */
  readonly change: BlameChange | undefined;
}

export interface BlameContext {
  /** Ranks that sent nothing. */
  readonly missing?: readonly number[] | undefined;
  /** Ranks that worked meanwhile, but recorded no steps. */
  readonly stepless?: readonly number[] | undefined;
  readonly change?: BlameChange | undefined;
}

const nanosPerMs = 1e6;
/** Fewer steps prove nothing. */
const stepsMin = 3;
/** A finding, and so a verdict, costs at least this share of a step. */
const findingShareMin = 0.01;
const verdictShareMin = 0.02;
/** Data loading and the network are reported from this share of a step on (XProf's highly input-bound), … */
export const shareToReport = 0.2;
/** … and are the verdict from this share on, for they take some time in any job (XProf suggests looking at collectives from 30 % on). */
const shareToJudge = 0.35;
/** Stages' waits for each other are reported from the first share of the step on, and are the verdict from the second on: 8 microbatches in 3 stages. */
const bubbleShareToReport = 0.1;
const bubbleShareToJudge = 0.2;
/** With more time than this share in unmatched collectives, the causes of waits are unknown. */
const unmatchedShareMax = 0.2;
/** The same for one rank whose device communicates. */
const unmatchedOfRankMax = 0.1;
const changeShareMin = 0.03;

export const blameOfWindow = (window: BlameWindow, context: BlameContext = {}): Blame => finish(judgeWindow(window, context));

/** Blame of a window; yields between its parts. */
export function* judgeWindow(recorded: BlameWindow, context: BlameContext = {}): Generator<void, Blame> {
  const breakdown = breakdownOf(recorded);
  yield;
  const window = withLoaderQueues(recorded);
  const { steps, ranks, phases } = window;
  const replay = new Replay(window);
  const own = new OwnWork(window);
  yield;
  const step = replay.meanStep((_rank, _step, _phase, length) => length);
  yield;
  const excesses = yield* own.excesses(step);
  yield;
  const uncertainty = clockShareOf(window);
  const base = {
    steps: { count: steps.length, first: steps[0]?.step, last: steps.at(-1)?.step, leftOut: window.leftOut },
    step,
    basis: window.basis,
    hidden: window.hidden ?? [],
    long: window.long ?? [],
    frontier: frontierOf(window),
    excess: excesses.map(({ rank, total, phases: by, peers }): PeerExcess => {
      const work = peers.reduce((sum, length) => sum + length, 0);
      const { rank: number, peers: name } = ranks[rank] as (typeof ranks)[number];
      const phase = phases[by.indexOf(Math.max(...by))] as string;
      return { rank: number, peers: name, excess: total, share: work > 0 ? total / work : 0, phase };
    }),
    visible: visibleFrom(phases, excesses),
    breakdown,
    alignment: { ...window.alignment, uncertainty },
    change: context.change,
  };
  const why = whyInconclusive(window, breakdown, context);
  if (steps.length < stepsMin || ranks.length === 0 || step <= 0) {
    return { ...base, verdict: 'inconclusive', findings: why.map(inconclusive), whatIf: [] };
  }
  const { faults, mended, mendedStep } = yield* findFaults(window, own, replay, excesses, step);
  yield;
  const ofRanks: BlameFinding[] = faults
    .filter(({ cost }) => cost >= findingShareMin * step)
    .map(({ kind, ranks: of, phase, cost, gain, stretch, affected, mayBeScheduling, evidence }) => {
      const when = {
        ...(stretch && { stretch }),
        ...(affected !== undefined && { affected }),
        ...(mayBeScheduling && { mayBeScheduling }),
      };
      return {
        kind,
        ranks: of,
        phase,
        ...costs(cost, step),
        gainMsPerStep: ms(gain),
        ...when,
        evidence: [...evidence, ...loaderDoubt(window, of, phase), ...slowOps(window, of, phase, own)],
      };
    });
  const isData = window.roles.map((role) => role === 'data');
  const withoutData = replay.meanStep((rank, at, phase, length) => (isData[phase] === true ? 0 : mended(rank, at, phase, length)));
  yield;
  const copies = window.phases.indexOf(window.copyPhase ?? '');
  const withoutCopies =
    copies < 0 ? mendedStep : replay.meanStep((rank, at, phase, length) => (phase === copies ? 0 : mended(rank, at, phase, length)));
  yield;
  const ofAll = sharesOf(
    window,
    replay,
    mended,
    mendedStep,
    { withoutData, withoutCopies, loadsAhead: areLoadersSlow(window) },
    step,
    uncertainty,
    context.missing ?? [],
  );
  const findings = withContention([...ofRanks, ...ofAll], window);
  const { common = 0, before = 0, phase: where, evidence: changed = [] } = context.change ?? {};
  if (common > 0 && common >= changeShareMin * before) {
    const about = { kind: 'cluster_wide', ranks: [], phase: where, evidence: changed } as const;
    const isExplained = cpuWaitOf(ranks).explains(common, step);
    findings.push({ ...about, ...costs(common, step), gainMsPerStep: ms(common), ...(isExplained && { mayBeScheduling: true }) });
  }
  findings.sort((a, b) => b.costMsPerStep - a.costMsPerStep);
  findings.length = Math.min(findings.length, blameLimits.blameFindingsMax);
  const verdict = verdictOf(findings, why.length > 0);
  if (verdict === 'inconclusive') findings.push(...why.map(inconclusive));
  const whatIf = faults
    .filter(({ kind, cost }) => (kind === 'straggler' || kind === 'stage_imbalance') && cost >= findingShareMin * step)
    .map(({ ranks: of, atMedian }) => ({ ranks: of, stepMs: ms(atMedian), shorter: 1 - atMedian / step, slowdown: step / atMedian }));
  return { ...base, verdict, findings, whatIf };
}

const ms = (ns: number): number => ns / nanosPerMs;
const costs = (cost: number, step: number) => ({ costMsPerStep: ms(cost), shareOfStep: cost / step });

const inconclusive = (text: string): BlameFinding => {
  return { kind: 'inconclusive', ranks: [], phase: undefined, costMsPerStep: 0, shareOfStep: 0, gainMsPerStep: 0, evidence: [text] };
};

/** One that was found widens the noise of its peers: a limit is no longer than what was seen. */
function visibleFrom(phases: readonly string[], excesses: readonly Excess[]): Blame['visible'] {
  if (excesses.length === 0) return [];
  return phases
    .map((phase, at) => {
      const seen = excesses.flatMap(({ slow, phases: more }) => (slow.includes(at) ? [more[at] as number] : []));
      return { phase, length: Math.min(Math.max(...excesses.map(({ sure }) => sure[at] as number)), ...seen) };
    })
    .sort((a, b) => b.length - a.length);
}

const notHeardOf = (missing: readonly number[]): string =>
  `nothing was heard of ${missing.length === 1 ? `rank ${missing[0]}` : `${missing.length} ranks`}`;

function whyInconclusive(
  window: BlameWindow,
  breakdown: readonly RankBreakdown[],
  { missing = [], stepless = [] }: BlameContext,
): string[] {
  const { steps, ranks, roles, basis, hidden = [] } = window;
  const why: string[] = [];
  // No steps is a valid input: there is nothing to judge.
  if (ranks.length === 0) return why;
  if (steps.length < stepsMin)
    why.push(
      `only ${steps.length === 1 ? '1 step was' : `${steps.length} steps were`} reported by all ranks: at least ${stepsMin} are needed`,
    );
  if (ranks.length < 2) why.push('there are no two ranks to compare');
  if (missing.length > 0) {
    why.push(`${notHeardOf(missing)}: what others waited for may be ${missing.length === 1 ? 'its' : 'their'} doing`);
  }
  if (stepless.length > 0) {
    const [who, whose] = stepless.length === 1 ? [`rank ${stepless[0]} has`, 'its'] : [`${stepless.length} ranks have`, 'their'];
    why.push(`${who} no steps to compare with the others': what these waited for may be ${whose} doing`);
  }
  if (steps.length > 0 && basis === 'phases' && ranks.length > 1 && !roles.some(isWaitingRole)) {
    const recorded = hidden.length > 0 ? 'not all' : 'no';
    why.push(`${recorded} collectives were recorded in these steps: waiting inside of a phase looks like work in it`);
  }
  const total = breakdown.reduce((sum, { step }) => sum + step, 0);
  const unmatched = breakdown.reduce((sum, { unmatched: time }) => sum + time, 0);
  if (total > 0 && unmatched > unmatchedShareMax * total) {
    const share = `${Math.round((100 * unmatched) / total)} % of the time is waiting`;
    const waits = window.phases
      .filter((name, phase) => roles[phase] === 'wait' || (roles[phase] === 'collective' && name === synchronizePhase))
      .map((name) => `"${name}"`);
    if (basis === 'phases' && waits.length > 0) {
      // Kernels show for whom a device waits; a host that waits for its peers alone has none.
      const remedy = roles.includes('wait') ? ': a capture, with collectives and kernels, does' : '';
      why.push(`${share} in ${waits.join(', ')}, and lengths of phases do not show for whom${remedy}`);
      why.push(...waitsLeast(breakdown));
    } else if (basis === 'phases') why.push(`${share} or uneven work: lengths of phases alone do not show which rank waits for which`);
    else why.push(`${share} for unknown ranks: their parts of the collectives are missing`);
  }
  // A device's rank without partners keeps its steps long, whatever else is mended.
  const alone = window.isCutByMeetings === true ? breakdown.filter((of) => of.unmatched > unmatchedOfRankMax * of.step) : [];
  if (why.length === 0 && alone.length > 0) {
    const of = alone.map(({ rank }) => rank);
    const most = Math.max(...alone.map(({ unmatched: time, step }) => time / step));
    const who = of.length > 4 ? `${of.length} ranks` : of.length > 1 ? `ranks ${of.join(', ')}` : `rank ${of[0]}`;
    const whose = of.length > 1 ? 'their' : 'its';
    why.push(
      `${who} communicate${of.length > 1 ? '' : 's'} with unknown ranks for up to ${Math.round(100 * most)} % of ${whose} time: the others' parts are missing`,
    );
  }
  return why;
}

/** A rank waits least if it waits for at most this share of what the others do. */
const waitsLeastMax = 0.7;

/** The rank that the others may wait for. */
function waitsLeast(breakdown: readonly RankBreakdown[]): string[] {
  const [least, ...others] = breakdown.toSorted((a, b) => a.unmatched - b.unmatched);
  if (least === undefined || others.length === 0) return [];
  const usual = median(others.map(({ unmatched }) => unmatched));
  const next = (others[0] as RankBreakdown).unmatched;
  if (least.unmatched > waitsLeastMax * next) return [];
  const [own, theirs] = [least.unmatched, usual].map((time) => `${ms(time).toFixed(1)} ms`);
  return [`rank ${least.rank} waits least, ${own} a step, the others ${theirs} at the median: they may wait for it`];
}

/** Causes that take a share of the step without any rank lagging: data loading, copies, and the network. */
function sharesOf(
  window: BlameWindow,
  replay: Replay,
  mended: Parameters<Replay['meanStep']>[0],
  mendedStep: number,
  {
    withoutData,
    withoutCopies,
    loadsAhead,
  }: { readonly withoutData: number; readonly withoutCopies: number; readonly loadsAhead: boolean },
  step: number,
  uncertainty: number | undefined,
  missing: readonly number[],
): BlameFinding[] {
  const found: BlameFinding[] = [];
  const data = mendedStep - withoutData;
  if (data >= shareToReport * mendedStep) {
    const phase = window.phases[window.roles.indexOf('data')];
    const evidence = [
      loadsAhead
        ? `"${phase}" is part of every step, though loaders work ahead: on several ranks they are slower than the loop`
        : `"${phase}" is part of every step: loaded ahead, while other phases run, it would cost nothing`,
    ];
    found.push({ kind: 'data_loading', ranks: [], phase, ...costs(data, step), gainMsPerStep: ms(data), evidence });
  }
  const copies = mendedStep - withoutCopies;
  if (copies >= shareToReport * mendedStep)
    found.push({ kind: 'copy_bound', ranks: [], phase: window.copyPhase, ...costs(copies, step), gainMsPerStep: ms(copies), evidence: [] });
  const withoutTransfers = replay.meanStep(mended, 0);
  const network = mendedStep - withoutTransfers;
  // Kernels of devices spin for a late stage; other waits for sends have reasons of their own.
  const bubble = window.isCutByMeetings === true ? withoutTransfers - replay.meanStep(mended, 0, false) : 0;
  // An offset between two clocks makes sends one way look longer, and those the other way as much shorter.
  const unsure = (): number => (goBothWays(window) ? 0 : (uncertainty ?? Number.POSITIVE_INFINITY));
  const bubbleMin = bubbleShareToReport * mendedStep;
  if (bubble >= bubbleMin && bubble - unsure() >= bubbleMin) {
    const evidence = [...bubbleText(window), 'more and smaller microbatches, or an interleaved schedule, make it shorter'];
    found.push({ kind: 'pipeline_bubble', ranks: [], phase: undefined, ...costs(bubble, step), gainMsPerStep: ms(bubble), evidence });
  }
  if (network < shareToReport * mendedStep) return found;
  const evidence = [...networkOf(window)];
  const gain = { gainMsPerStep: ms(network) };
  const error = window.basis === 'pieces' ? clockShareOf(window, true) : 0;
  if (missing.length > 0) {
    // A collective that lacks one of its ranks may wait for it after the last one that is known.
    evidence.push(`${notHeardOf(missing)}: waiting for ${missing.length === 1 ? 'it' : 'them'} and the network cannot be distinguished`);
    found.push({ kind: 'inconclusive', ranks: [], phase: undefined, ...costs(network, step), ...gain, evidence });
  } else if (error === undefined || network - error < shareToReport * mendedStep) {
    const bound = error === undefined ? 'clocks are not aligned' : `clocks are known to ±${ms(error).toFixed(2)} ms per step`;
    evidence.push(`${bound}: waiting for a late rank and the network cannot be distinguished`);
    found.push({ kind: 'inconclusive', ranks: [], phase: undefined, ...costs(network, step), ...gain, evidence });
  } else found.push({ kind: 'network', ranks: [], phase: undefined, ...costs(network, step), ...gain, evidence });
  return found;
}

/** Whether each rank that sends to another also gets something from it. */
function goBothWays({ steps }: BlameWindow): boolean {
  const pairs = new Set<string>();
  for (const { ranks } of steps) {
    for (const { pieces } of ranks)
      for (const piece of pieces) if (piece.kind === 'enter' && piece.meeting.pair !== undefined) pairs.add(piece.meeting.pair.join());
  }
  return [...pairs].every((pair) => pairs.has(pair.split(',').reverse().join()));
}

/** How long each stage waits for others' sends; of many stages, the one with the most and the one with the least. */
function bubbleText({ ranks, steps }: BlameWindow): string[] {
  const stages = new Map<string, { readonly ranks: Set<number>; waited: number; length: number }>();
  for (const { ranks: parts } of steps) {
    for (const [index, { length, pieces }] of parts.entries()) {
      const name = ranks[index]?.peers || `rank ${ranks[index]?.rank}`;
      const of = stages.get(name) ?? { ranks: new Set<number>(), waited: 0, length: 0 };
      stages.set(name, of);
      of.ranks.add(ranks[index]?.rank ?? -1);
      of.length += length;
      for (const piece of pieces) if (piece.kind === 'wait' && piece.meeting.pair !== undefined) of.waited += piece.length;
    }
  }
  const shares = [...stages.values()].map(({ ranks: of, waited, length }) => {
    return { name: ranksText([...of]), share: length > 0 ? waited / length : 0 };
  });
  shares.sort((a, b) => b.share - a.share);
  const named = shares.length > 2 ? [shares[0], shares.at(-1)] : shares;
  const text = named.flatMap((one) => (one === undefined ? [] : [`${one.name} ${(100 * one.share).toFixed(1)} %`]));
  return [`stages wait for the microbatches of others: ${text.join(', ')} of its steps`];
}

/**
 * On a busy host a transfer looks like a slow network when its threads wait for a CPU. The transfer's cost is added to that of uneven work,
 * which excludes transfers.
 */
function withContention(findings: readonly BlameFinding[], { ranks }: BlameWindow): BlameFinding[] {
  const { explains, text } = cpuWaitOf(ranks);
  const network = findings.find(({ kind }) => kind === 'network');
  const uneven = findings.find(({ kind }) => kind === 'cpu_contention');
  if (network === undefined || !explains(network.costMsPerStep, network.costMsPerStep / network.shareOfStep)) return [...findings];
  const evidence = [...text, ...network.evidence, 'the network and transfers whose threads wait for a CPU cannot be distinguished'];
  const others = findings.filter((finding) => finding !== network && finding !== uneven);
  if (uneven === undefined) return [...others, { ...network, kind: mayBeVerdict(network) ? 'cpu_contention' : 'network', evidence }];
  const joined: BlameFinding = {
    ...uneven,
    costMsPerStep: uneven.costMsPerStep + network.costMsPerStep,
    shareOfStep: uneven.shareOfStep + network.shareOfStep,
    gainMsPerStep: uneven.gainMsPerStep + network.gainMsPerStep,
    evidence: [...new Set([...evidence, ...uneven.evidence])],
  };
  return [...others, joined];
}

/** Whether a finding takes enough of the step to be the verdict. */
export function mayBeVerdict({ kind, shareOfStep }: Pick<BlameFinding, 'kind' | 'shareOfStep'>): boolean {
  const isShare = kind === 'data_loading' || kind === 'copy_bound' || kind === 'network' || kind === 'inconclusive';
  return shareOfStep >= (kind === 'pipeline_bubble' ? bubbleShareToJudge : isShare ? shareToJudge : verdictShareMin);
}

function verdictOf(findings: readonly BlameFinding[], isUncertain: boolean): Verdict {
  return findings.find(mayBeVerdict)?.kind ?? (isUncertain ? 'inconclusive' : 'balanced');
}

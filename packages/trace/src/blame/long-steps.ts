// Steps of another kind: so much longer than those around them (a checkpoint, an evaluation, a stall) that medians and comparisons leave them out.
// Their cost is a finding, with the ranks and the phase that work longer in them.
//
//   steps    ▁▁▁▁▁█▁▁▁▁▁▁▁█▁▁▁▁▁▁▁█▁▁▁     every 8th: rank 0 works 150 ms longer in `other`
//
// A step costs what it is longer than usual, the mean over the ranks: where rank 0 is late from one step to the next, its own step is longer, and then the
// others' next one, but the job loses that time once. The next one is part of the same long step.
//
// Invariant: a cause is named only where it accounts for half of what a step is longer.

import { isWaitingRole, otherPhase, type PhaseRole } from '@ranktrace/protocol';
import { lengthText } from '../model/quantity-text.ts';
import { ranksText } from '../model/ranks-text.ts';
import { median } from '../model/robust.ts';
import { blameLimits as limits } from './blame-limits.ts';
import type { BlameRank, BlameWindow, RankStep, StepRange } from './blame-window.ts';
import type { RawStep } from './raw-steps.ts';

/** Lengths in ns. */
export interface LongStep {
  readonly step: number;
  /** On its slowest rank, and that of the steps around it. */
  readonly length: number;
  readonly usual: number;
  /** By how much it is longer than usual, the mean over the ranks. */
  readonly cost: number;
  /** Ranks that work longer than usual while the others wait; empty: all ranks alike, or unknown. */
  readonly ranks: readonly number[];
  /** Where they do; undefined: unknown, or transfers. */
  readonly phase: string | undefined;
  readonly cause: 'work' | 'transfer' | 'unknown';
}

/** One step by place of the rank: as it was recorded, and cut into pieces where its collectives are matched. */
export interface StepParts {
  readonly step: number;
  readonly raw: readonly RawStep[];
  readonly cut: readonly RankStep[] | undefined;
}

/** A cause accounts for at least this share of what a step is longer. */
const explainsMin = 0.5;

/** `long`: each longer than any of `usual`, the steps around them, which are all cut or none. `phases`: names, the last one `other`. */
export function longStepsOf(
  long: readonly StepParts[],
  usual: readonly StepParts[],
  { ranks, phases, roles }: Pick<BlameWindow, 'ranks' | 'phases' | 'roles'>,
): LongStep[] {
  if (long.length === 0 || usual.length === 0) return [];
  const work = (parts: StepParts, rank: number): Float64Array => workOf(parts, rank, phases, roles);
  const transfer = (parts: StepParts, rank: number): number => transferOf(parts.cut?.[rank]);
  const known = new Map<boolean, Usual>();
  const levels = (isCut: boolean): Usual => {
    const steps = usual.map((parts) => (isCut ? parts : { ...parts, cut: undefined }));
    const level = known.get(isCut) ?? {
      work: ranks.map((_, rank) => {
        const works = steps.map((parts) => work(parts, rank));
        return phases.map((_, phase) => median(works.map((of) => of[phase] as number)));
      }),
      transfer: ranks.map((_, rank) => median(steps.map((parts) => transfer(parts, rank)))),
    };
    known.set(isCut, level);
    return level;
  };
  const lengths = ranks.map((_, rank) => median(usual.map(({ raw }) => (raw[rank] as RawStep).length)));
  const usualStep = median(usual.map(longestOf));
  // Without matched collectives and phases of waiting, ranks wait for each other inside of their phases.
  const hidesWaits = ranks.length > 1 && !roles.some(isWaitingRole);
  return long.map((given): LongStep => {
    const isCut = given.cut !== undefined && usual.every(({ cut }) => cut !== undefined);
    const parts = isCut ? given : { ...given, cut: undefined };
    const level = levels(isCut);
    const cost = mean(ranks.map((_, rank) => (parts.raw[rank] as RawStep).length - (lengths[rank] as number)));
    const about = { step: parts.step, length: longestOf(parts), usual: usualStep, cost };
    const more = ranks.map((_, rank) => work(parts, rank).map((length, phase) => length - (level.work[rank]?.[phase] as number)));
    const totals = more.map((of) => of.reduce((sum, length) => sum + length, 0));
    const most = Math.max(...totals);
    const unknown: LongStep = { ...about, ranks: [], phase: undefined, cause: 'unknown' };
    const extra = about.length - usualStep;
    if (most < explainsMin * extra) {
      const transfers = median(ranks.map((_, rank) => transfer(parts, rank) - (level.transfer[rank] as number)));
      return transfers >= explainsMin * extra ? { ...unknown, cause: 'transfer' } : unknown;
    }
    const longer = ranks.flatMap((_, rank) => ((totals[rank] as number) >= explainsMin * most ? [rank] : []));
    const phase = phases[largestOf(longer.map((rank) => more[rank] as Float64Array))] as string;
    if (hidesWaits && !isCut) {
      const places = longer.map((rank) => ({ rank, phase: phases[largestOf([more[rank] as Float64Array])] as string }));
      return longer.length < ranks.length ? unknown : { ...unknown, ...oddOnesOut(places, ranks) };
    }
    if (2 * longer.length > ranks.length) return { ...about, ranks: [], phase, cause: 'work' };
    return { ...about, ranks: longer.map((rank) => (ranks[rank] as BlameRank).rank), phase, cause: 'work' };
  });
}

/**
 * All ranks are longer by as much: those alone in a phase work in it, and most of the others wait for them in another one. All of them in one phase work there.
 * If there are two ranks in two phases, either may be the one that waits.
 */
function oddOnesOut(
  places: readonly { readonly rank: number; readonly phase: string }[],
  ranks: readonly BlameRank[],
): Partial<Pick<LongStep, 'ranks' | 'phase' | 'cause'>> {
  const byPhase = new Map<string, number[]>();
  for (const { rank, phase } of places) byPhase.set(phase, [...(byPhase.get(phase) ?? []), rank]);
  const [fewest, ...others] = [...byPhase].sort(([, a], [, b]) => a.length - b.length);
  if (fewest === undefined || others.length > 1) return {};
  const [phase, of] = fewest;
  if (others.length === 0) return { phase, cause: 'work' };
  return 2 * of.length < ranks.length ? { ranks: of.map((rank) => (ranks[rank] as BlameRank).rank), phase, cause: 'work' } : {};
}

interface Usual {
  /** Medians by rank, then phase. */
  readonly work: readonly (readonly number[])[];
  /** By rank. */
  readonly transfer: readonly number[];
}

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);
const longestOf = ({ raw }: StepParts): number => Math.max(...raw.map(({ length }) => length));

/** Own work by phase. */
function workOf({ raw, cut }: StepParts, rank: number, phases: readonly string[], roles: readonly PhaseRole[]): Float64Array {
  const work = new Float64Array(phases.length);
  if (cut !== undefined) {
    for (const piece of (cut[rank] as RankStep).pieces)
      if (piece.kind === 'own') work[piece.phase] = (work[piece.phase] as number) + piece.length;
    return work;
  }
  const { length, phases: lengths } = raw[rank] as RawStep;
  let rest = length;
  for (const [place, name] of phases.entries()) {
    const time = name === otherPhase ? 0 : (lengths?.get(name) ?? 0);
    rest -= time;
    if (!isWaitingRole(roles[place])) work[place] = time;
  }
  work[phases.length - 1] = Math.max(0, rest);
  return work;
}

function transferOf(cut: RankStep | undefined): number {
  let sum = 0;
  for (const piece of cut?.pieces ?? []) if (piece.kind === 'transfer') sum += piece.length;
  return sum;
}

/** The phase with most of these together. */
function largestOf(more: readonly Float64Array[]): number {
  const sums = (more[0] as Float64Array).map((_, phase) => more.reduce((sum, of) => sum + (of[phase] as number), 0));
  return sums.indexOf(Math.max(...sums));
}

/** Long steps with one cause, over the whole run. */
export interface LongStepGroup {
  readonly ranks: readonly number[];
  readonly phase: string | undefined;
  readonly cause: LongStep['cause'];
  readonly steps: StepRange;
  readonly count: number;
  /** Those of them that waits for a CPU do not explain: a busy host stops any rank now and then. */
  readonly quiet: number;
  /** ns over all of them. */
  readonly cost: number;
  /** They come every so many steps. */
  readonly isRegular: boolean;
  /** Sentences: how often they come, and the longest. */
  readonly evidence: readonly string[];
}

interface Group extends Pick<LongStepGroup, 'ranks' | 'phase' | 'cause'> {
  first: number;
  last: number;
  count: number;
  quiet: number;
  cost: number;
  longest: LongStep;
  /** Distances from one to the next, with how often each was seen. */
  readonly distances: Map<number, number>;
}

/** Steps at the beginning of a run, unlike all others: programs compile and fill their caches in them. */
const warmUpSteps = 8;
/** They come regularly if at least this share of the distances between them is the same. */
const regularShareMin = 0.8;
const regularDistancesMin = 2;

/** Collects the long steps of a run by their causes, as its windows pass. Memory: `blameLongGroupsMax` groups. */
export class LongSteps {
  readonly #groups = new Map<string, Group>();
  #first = Number.POSITIVE_INFINITY;
  #before: { readonly step: number; readonly group: Group } | undefined;
  /** Length of all of them, ns, and their number; without those of the warm-up. */
  time = 0;
  count = 0;

  /** `first`: the first step of the window; `isScheduling`: waits for a CPU explain them. Windows come in the order of their steps. */
  add(first: number, steps: readonly LongStep[], isScheduling: boolean): void {
    this.#first = Math.min(this.#first, first);
    for (const long of steps) {
      if (long.step < this.#first + warmUpSteps) continue;
      this.time += long.length;
      this.count++;
      const before = this.#before;
      if (long.cause === 'unknown' && before?.step === long.step - 1) {
        before.group.cost += long.cost;
        this.#before = { step: long.step, group: before.group };
        continue;
      }
      this.#before = { step: long.step, group: this.#addTo(long, isScheduling) };
    }
  }

  #addTo(long: LongStep, isScheduling: boolean): Group {
    const key = JSON.stringify([long.cause, long.phase, long.ranks]);
    let group = this.#groups.get(key) ?? (this.#groups.size >= limits.blameLongGroupsMax ? this.#groups.get(restKey) : undefined);
    if (group === undefined) {
      const isRest = this.#groups.size >= limits.blameLongGroupsMax;
      const about = isRest ? noCause : { ranks: long.ranks, phase: long.phase, cause: long.cause };
      group = { ...about, first: long.step, last: long.step, count: 0, quiet: 0, cost: 0, longest: long, distances: new Map() };
      this.#groups.set(isRest ? restKey : key, group);
    }
    const distance = long.step - group.last;
    if (distance > 0 && (group.distances.has(distance) || group.distances.size < limits.blameLongDistancesMax))
      group.distances.set(distance, (group.distances.get(distance) ?? 0) + 1);
    group.last = long.step;
    group.count++;
    if (!isScheduling) group.quiet++;
    group.cost += long.cost;
    if (long.length > group.longest.length) group.longest = long;
    return group;
  }

  /** Groups that cost at least `least` ns each, the most costly first; the others are one, without a cause, if together they do. */
  groups(least: number): LongStepGroup[] {
    const all = [...this.#groups.values()].sort((a, b) => b.cost - a.cost);
    const others = all.filter(({ cost }) => cost < least);
    const joined = others.reduce<Group | undefined>(
      (sum, of) => (sum === undefined ? { ...of, ...noCause } : joinedOf(sum, of)),
      undefined,
    );
    const found = [...all.filter(({ cost }) => cost >= least), ...(joined !== undefined && joined.cost >= least ? [joined] : [])];
    return found.map((group) => {
      const { ranks, phase, cause, first, last, count, quiet, cost } = group;
      const every = distanceOf(group);
      const about = { isRegular: every !== undefined, evidence: evidenceOf(group, every) };
      return { ranks, phase, cause, steps: { first, last }, count, quiet, cost, ...about };
    });
  }
}

const restKey = '';
const noCause: Pick<LongStepGroup, 'ranks' | 'phase' | 'cause'> = { ranks: [], phase: undefined, cause: 'unknown' };

function joinedOf(a: Group, b: Group): Group {
  return {
    ...noCause,
    ...{ first: Math.min(a.first, b.first), last: Math.max(a.last, b.last), count: a.count + b.count },
    ...{ quiet: a.quiet + b.quiet, cost: a.cost + b.cost },
    longest: a.longest.length >= b.longest.length ? a.longest : b.longest,
    distances: new Map(),
  };
}

/** Distance between nearly all of them; undefined if they do not come regularly, or all in a row. */
function distanceOf({ count, distances }: Group): number | undefined {
  const [distance, hits] = [...distances].sort(([, a], [, b]) => b - a)[0] ?? [0, 0];
  return distance > 1 && hits >= regularDistancesMin && hits >= regularShareMin * (count - 1) ? distance : undefined;
}

function evidenceOf({ ranks, phase, cause, count, longest }: Group, every: number | undefined): string[] {
  const isOne = ranks.length === 1;
  const who = ranks.length > 0 ? ranksText(ranks) : 'all ranks';
  const why = {
    work: `${who} work${isOne ? 's' : ''} longer in ${phase} than usual${ranks.length > 0 ? ', and the others wait' : ''}`,
    transfer: 'data is on its way for longer than usual',
    unknown: 'no rank, phase or transfer accounts for half of it',
  }[cause];
  const [length, usual] = [longest.length, longest.usual].map(lengthText);
  return [
    `${every === undefined ? (count === 1 ? 'in it' : 'in them') : `every ${every} steps`} ${why}`,
    `the longest is step ${longest.step}: ${length}, where steps around it take ${usual}`,
  ];
}

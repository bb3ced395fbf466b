// Steps of another kind: so much longer than those around them (a checkpoint, an evaluation, a stall) that medians and comparisons leave them out.
// Their cost is a finding, with the ranks and the phase that work longer in them.
//
//   steps    ▁▁▁▁▁█▁▁▁▁▁▁▁█▁▁▁▁▁▁▁█▁▁▁     every 8th: rank 0 works 150 ms longer in `other`
//
// One such step may have several causes: all ranks evaluate for 200 ms, rank 3 for 300 ms, and after they have met rank 0 saves for 100 ms.
//
//   rank 0   ████████████░░░░░░│██████     ░ it waits
//   rank 3   ██████████████████│░░░░░░     the causes: 200 ms of all ranks, 100 ms of rank 3, and 100 ms of rank 0
//
// A step costs what it is longer than usual, the mean over the ranks: where rank 0 is late from one step to the next, its own step is longer, and then the
// others' next one, but the job loses that time once. The next one is part of the same long step.
//
// Invariant: causes are named only where together they account for half of what a step is longer, and each for a tenth.

import { isWaitingRole, lowerMedian, otherPhase, type PhaseRole } from '@ranktrace/protocol';
import { lengthText } from '../model/quantity-text.ts';
import { ranksText } from '../model/ranks-text.ts';
import { median } from '../model/robust.ts';
import { blameLimits as limits } from './blame-limits.ts';
import type { BlameRank, BlameWindow, Meeting, RankStep, StepRange } from './blame-window.ts';
import type { RawStep } from './raw-steps.ts';

/** Lengths in ns. */
export interface LongStep {
  readonly step: number;
  /** On its slowest rank, and that of the steps around it. */
  readonly length: number;
  readonly usual: number;
  /** By how much it is longer than usual, the mean over the ranks: what its causes cost together. */
  readonly cost: number;
  /** The last one is that for which the others wait to the end, and maybe in the next step. */
  readonly causes: readonly LongStepCause[];
}

export interface LongStepCause {
  /** Ranks that work longer than usual while the others wait; empty: all ranks alike, or unknown. */
  readonly ranks: readonly number[];
  /** Where they do; undefined: unknown, or transfers. */
  readonly phase: string | undefined;
  readonly kind: 'work' | 'transfer' | 'unknown';
  readonly cost: number;
}

const noCause: Omit<LongStepCause, 'cost'> = { ranks: [], phase: undefined, kind: 'unknown' };

/** One step by place of the rank: as it was recorded, and cut into pieces where its collectives are matched. */
export interface StepParts {
  readonly step: number;
  readonly raw: readonly RawStep[];
  readonly cut: readonly RankStep[] | undefined;
}

/** The causes account for at least this share of what a step is longer … */
const explainsMin = 0.5;
/** … and each for this one. */
const causeMin = 0.1;
/** Ranks differ if one works so much longer between two meetings, as a share of the longest: less is chance. */
const differenceMin = 0.25;

/** `long`: each longer than any of `usual`, the steps around them, which are all cut or none. `phases`: names, the last one `other`. */
export function longStepsOf(
  long: readonly StepParts[],
  usual: readonly StepParts[],
  { ranks, phases, roles }: Pick<BlameWindow, 'ranks' | 'phases' | 'roles'>,
): LongStep[] {
  if (long.length === 0 || usual.length === 0) return [];
  const work = (parts: StepParts, rank: number): Float64Array => worksOf(parts, rank, phases, roles, new Set())[0] as Float64Array;
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
    const of = (cause: Partial<LongStepCause>): LongStep => ({ ...about, causes: [{ ...noCause, cost, ...cause }] });
    const stretches = stretchesOf(parts, level.work, phases, roles);
    const extra = about.length - usualStep;
    if (hidesWaits && !isCut) {
      const more = stretches[0] as Float64Array[];
      const totals = more.map(sumOf);
      const longer = placesFrom(totals, explainsMin * Math.max(...totals));
      const places = longer.map((rank) => ({ rank, phase: phases[largestOf(more[rank] as Float64Array)] as string }));
      return of(longer.length < ranks.length ? {} : oddOnesOut(places, ranks));
    }
    const layers = joined(stretches.flatMap((more) => layersOf(more).reverse()));
    const work = layers.reduce((sum, { length }) => sum + length, 0);
    if (work < explainsMin * extra) {
      const transfers = median(ranks.map((_, rank) => transfer(parts, rank) - (level.transfer[rank] as number)));
      return of({ kind: transfers >= explainsMin * extra ? 'transfer' : 'unknown' });
    }
    const kept = layers.filter(({ length }) => length >= causeMin * extra);
    const costs = costsOf(
      kept.map(({ length }) => length),
      cost,
    );
    const causes = kept.map(({ places, phase }, place): LongStepCause => {
      return {
        ranks: places.map((rank) => (ranks[rank] as BlameRank).rank),
        phase: phases[phase],
        kind: 'work',
        cost: costs[place] as number,
      };
    });
    return { ...about, causes };
  });
}

interface Layer {
  /** Places of the ranks; empty: most of them, or all. */
  readonly places: readonly number[];
  /** Place of the phase. */
  readonly phase: number;
  /** ns. */
  readonly length: number;
}

/**
 * Whose work makes a stretch longer: what the ranks that work longest do beyond the others, below it what these do with some of the others, and so on.
 * `more`: by how much longer each works than usual, by rank, then phase.
 */
function layersOf(more: readonly Float64Array[]): Layer[] {
  const layers: Layer[] = [];
  const totals = more.map(sumOf);
  const sorted = totals.toSorted((a, b) => b - a);
  const least = differenceMin * (sorted[0] as number);
  for (let top = sorted[0] as number; top > 0; ) {
    const left = sorted.map((total) => Math.min(total, top));
    const last = left.findIndex((total, at) => total - (left[at + 1] ?? total) >= least);
    const found = placesFrom(totals, last < 0 ? explainsMin * top : (left[last] as number));
    const isMost = 2 * found.length > totals.length;
    // Less than the least difference tells no ranks apart, but is work of all where most have it.
    if (top < least && !isMost) break;
    const others = more.filter((_, rank) => !isMost && !found.includes(rank));
    const beyond = (more[0] as Float64Array).map((_, phase) => {
      const [own, theirs] = [found.map((rank) => more[rank] as Float64Array), others].map((of) => {
        return lowerMedian(of.map((by) => by[phase] as number)) ?? 0;
      });
      return (own as number) - (theirs as number);
    });
    const length = isMost || last < 0 ? top : top - Math.max(0, left[last + 1] as number);
    layers.push({ places: isMost ? [] : found, phase: largestOf(beyond), length });
    top -= length;
  }
  return layers;
}

/** Layers of the same ranks in the same phase are one, in the place of the last of them. */
function joined(layers: readonly Layer[]): Layer[] {
  const byCause = new Map<string, Layer>();
  for (const layer of layers) {
    const key = JSON.stringify([layer.places, layer.phase]);
    const before = byCause.get(key);
    byCause.delete(key);
    byCause.set(key, before === undefined ? layer : { ...layer, length: layer.length + before.length });
  }
  return [...byCause.values()];
}

/** The cost of a step by layer. Where the ranks' steps are not that much longer, the others wait for the last layer in the next step. */
function costsOf(lengths: readonly number[], cost: number): number[] {
  const sum = lengths.reduce((total, length) => total + length, 0);
  if (cost >= sum) return lengths.map((length) => (cost * length) / sum);
  const last = lengths.at(-1) as number;
  const share = Math.min(1, cost / Math.max(1, sum - last));
  return lengths.map((length, place) => (place === lengths.length - 1 ? cost - share * (sum - last) : share * length));
}

const sumOf = (lengths: Float64Array): number => lengths.reduce((sum, length) => sum + length, 0);
const placesFrom = (totals: readonly number[], least: number): number[] =>
  totals.flatMap((total, place) => (total >= least ? [place] : []));

/**
 * All ranks are longer by as much: those alone in a phase work in it, and most of the others wait for them in another one. All of them in one phase work there.
 * If there are two ranks in two phases, either may be the one that waits.
 */
function oddOnesOut(
  places: readonly { readonly rank: number; readonly phase: string }[],
  ranks: readonly BlameRank[],
): Partial<LongStepCause> {
  const byPhase = new Map<string, number[]>();
  for (const { rank, phase } of places) byPhase.set(phase, [...(byPhase.get(phase) ?? []), rank]);
  const [fewest, ...others] = [...byPhase].sort(([, a], [, b]) => a.length - b.length);
  if (fewest === undefined || others.length > 1) return {};
  const [phase, of] = fewest;
  if (others.length === 0) return { phase, kind: 'work' };
  return 2 * of.length < ranks.length ? { ranks: of.map((rank) => (ranks[rank] as BlameRank).rank), phase, kind: 'work' } : {};
}

interface Usual {
  /** Medians by rank, then phase. */
  readonly work: readonly (readonly number[])[];
  /** By rank. */
  readonly transfer: readonly number[];
}

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);
const longestOf = ({ raw }: StepParts): number => Math.max(...raw.map(({ length }) => length));

/** By how much longer each rank works than usual between meetings of all ranks: by stretch, rank and phase. What is usual is that of the first stretches. */
function stretchesOf(
  parts: StepParts,
  usual: Usual['work'],
  phases: readonly string[],
  roles: readonly PhaseRole[],
): (readonly Float64Array[])[] {
  const meetings = meetingsOfAll(parts.cut ?? []);
  const byRank = parts.raw.map((_, rank) => {
    const work = worksOf(parts, rank, phases, roles, meetings);
    const left = Float64Array.from(usual[rank] as readonly number[]);
    for (const [stretch, lengths] of work.entries()) {
      for (const [phase, length] of lengths.entries()) {
        const of = stretch === work.length - 1 ? (left[phase] as number) : Math.min(length, left[phase] as number);
        lengths[phase] = length - of;
        left[phase] = (left[phase] as number) - of;
      }
    }
    return work;
  });
  return (byRank[0] as Float64Array[]).map((_, stretch) => byRank.map((of) => of[stretch] as Float64Array));
}

/** Own work between `meetings`, by stretch and phase; where the step is not cut, all of it is one stretch. */
function worksOf(
  { raw, cut }: StepParts,
  rank: number,
  phases: readonly string[],
  roles: readonly PhaseRole[],
  meetings: ReadonlySet<Meeting>,
): Float64Array<ArrayBuffer>[] {
  const works = [new Float64Array(phases.length)];
  if (cut !== undefined) {
    let work = works[0] as Float64Array<ArrayBuffer>;
    for (const piece of (cut[rank] as RankStep).pieces) {
      if (piece.kind === 'own') work[piece.phase] = (work[piece.phase] as number) + piece.length;
      if (piece.kind !== 'enter' || !meetings.has(piece.meeting)) continue;
      work = new Float64Array(phases.length);
      works.push(work);
    }
    return works;
  }
  const { length, phases: lengths } = raw[rank] as RawStep;
  const work = works[0] as Float64Array;
  let rest = length;
  for (const [place, name] of phases.entries()) {
    const time = name === otherPhase ? 0 : (lengths?.get(name) ?? 0);
    rest -= time;
    if (!isWaitingRole(roles[place])) work[place] = time;
  }
  work[phases.length - 1] = Math.max(0, rest);
  return works;
}

/** Meetings that each rank enters in this step; of many, evenly chosen ones. */
function meetingsOfAll(cut: readonly RankStep[]): ReadonlySet<Meeting> {
  const ranks = new Map<Meeting, number>();
  for (const { pieces } of cut)
    for (const piece of pieces) if (piece.kind === 'enter') ranks.set(piece.meeting, (ranks.get(piece.meeting) ?? 0) + 1);
  const ofAll = [...ranks].flatMap(([meeting, count]) => (count === cut.length ? [meeting] : []));
  const distance = Math.ceil(ofAll.length / limits.blameLongStretchesMax);
  return new Set(distance > 1 ? ofAll.filter((_, at) => at % distance === distance - 1) : ofAll);
}

function transferOf(cut: RankStep | undefined): number {
  let sum = 0;
  for (const piece of cut?.pieces ?? []) if (piece.kind === 'transfer') sum += piece.length;
  return sum;
}

const largestOf = (lengths: Float64Array): number => lengths.indexOf(Math.max(...lengths));

/** Long steps with one cause, over the whole run. */
export interface LongStepGroup {
  readonly ranks: readonly number[];
  readonly phase: string | undefined;
  readonly cause: LongStepCause['kind'];
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

/** Collects the long steps of a run by their causes, as its windows pass. Memory: `blameLongStepsMax` steps and `blameLongGroupsMax` groups. */
export class LongSteps {
  readonly #groups = new Map<string, Group>();
  #first = Number.POSITIVE_INFINITY;
  #before: { readonly step: number; readonly group: Group } | undefined;
  /** The last ones, in no group so far: devices may say more of them. */
  #held: { readonly long: LongStep; readonly isScheduling: boolean }[] = [];
  #time = 0;
  #count = 0;

  /** Length of all of them, ns, without those of the warm-up. */
  get time(): number {
    return this.#held.reduce((sum, { long }) => sum + long.length, this.#time);
  }

  /** Their number. */
  get count(): number {
    return this.#count + this.#held.length;
  }

  /** `first`: the first step of the window; `isScheduling`: waits for a CPU explain them. Windows come in the order of their steps. */
  add(first: number, steps: readonly LongStep[], isScheduling: boolean): void {
    this.#first = Math.min(this.#first, first);
    for (const long of steps) {
      if (long.step < this.#first + warmUpSteps) continue;
      this.#held.push({ long, isScheduling });
    }
    this.#group(this.#held.length - limits.blameLongStepsMax);
  }

  /** Replaces the last ones by what `by` makes of them; returns how many are no long steps. */
  amend(by: (long: readonly LongStep[]) => readonly (LongStep | undefined)[]): number {
    const before = this.#held;
    const amended = by(before.map(({ long }) => long));
    this.#held = before.flatMap(({ isScheduling }, at) => {
      const long = amended[at];
      return long === undefined ? [] : [{ long, isScheduling }];
    });
    return before.length - this.#held.length;
  }

  /** Adds the first ones to their groups. */
  #group(count: number): void {
    for (const { long, isScheduling } of this.#held.splice(0, Math.max(0, count))) {
      this.#time += long.length;
      this.#count++;
      for (const cause of long.causes) {
        const before = this.#before;
        const isRest = cause.kind === 'unknown' && before?.step === long.step - 1;
        if (isRest) before.group.cost += cause.cost;
        this.#before = { step: long.step, group: isRest ? before.group : this.#addTo(long, cause, isScheduling) };
      }
    }
  }

  #addTo(long: LongStep, { kind: cause, ranks, phase, cost }: LongStepCause, isScheduling: boolean): Group {
    const key = JSON.stringify([cause, phase, ranks]);
    let group = this.#groups.get(key) ?? (this.#groups.size >= limits.blameLongGroupsMax ? this.#groups.get(restKey) : undefined);
    if (group === undefined) {
      const isRest = this.#groups.size >= limits.blameLongGroupsMax;
      const about = isRest ? restCause : { ranks, phase, cause };
      group = { ...about, first: long.step, last: long.step, count: 0, quiet: 0, cost: 0, longest: long, distances: new Map() };
      this.#groups.set(isRest ? restKey : key, group);
    }
    const distance = long.step - group.last;
    if (distance > 0 && (group.distances.has(distance) || group.distances.size < limits.blameLongDistancesMax))
      group.distances.set(distance, (group.distances.get(distance) ?? 0) + 1);
    // A restarted run repeats steps.
    group.first = Math.min(group.first, long.step);
    group.last = Math.max(group.last, long.step);
    group.count++;
    if (!isScheduling) group.quiet++;
    group.cost += cost;
    if (long.length > group.longest.length) group.longest = long;
    return group;
  }

  /** Groups that cost at least `least` ns each, the most costly first; the others are one, without a cause, if together they do. */
  groups(least: number): LongStepGroup[] {
    this.#group(this.#held.length);
    const all = [...this.#groups.values()].sort((a, b) => b.cost - a.cost);
    const others = all.filter(({ cost }) => cost < least);
    const joined = others.reduce<Group | undefined>(
      (sum, of) => (sum === undefined ? { ...of, ...restCause } : joinedOf(sum, of)),
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
const restCause: Pick<LongStepGroup, 'ranks' | 'phase' | 'cause'> = { ranks: [], phase: undefined, cause: 'unknown' };

function joinedOf(a: Group, b: Group): Group {
  return {
    ...restCause,
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

// Recorded steps → the window that blame works on: complete ranks and steps, cut into pieces.

import { otherPhase, type PhaseRole, traceTime } from '@ranktrace/protocol';
import { boundAt } from '../model/epsilon.ts';
import { median } from '../model/robust.ts';
import type { TraceProcess } from '../model/trace-sink.ts';
import { phaseRolesOf } from '../steps/phase-role.ts';
import type { BlameAlignment, BlameRank, BlameStep, BlameWindow, Piece, RankStep } from './blame-window.ts';
import { cutStep, type PlacedPhase, type StepCollective, withoutWaiting } from './cut-step.ts';
import type { LoaderTimes } from './loader-queues.ts';
import { longStepsOf, type StepParts } from './long-steps.ts';
import type { OpTimes } from './op-times.ts';
import { hiddenMeetings, phaseSteps, unrecordedMeetings } from './phase-steps.ts';

/** A rank's part of a collective; its meeting is set when the other ranks' parts have come. */
export interface RawCollective {
  readonly lane: number;
  /** Whether its thread may do other work in it. */
  readonly isAsync: boolean;
  readonly entry: number;
  exit: number | undefined;
  meeting: StepCollective['meeting'];
  waitedUntil: number;
  lag: number | undefined;
  exposed: [from: number, until: number][] | undefined;
  /** Number of ranks in its group; 0 if not recorded. */
  readonly size: number;
}

/** A rank's step, times in ns of trace time. */
export interface RawStep {
  readonly start: number;
  readonly length: number;
  /** Since the end of the step before. */
  readonly gap: number;
  readonly phases: ReadonlyMap<string, number> | undefined;
  /** Spans of its phases, as far as they were recorded. */
  readonly placed: readonly { readonly name: string; readonly from: number; readonly until: number; readonly isAsync?: boolean }[];
  readonly collectives: readonly RawCollective[];
  readonly ops?: OpTimes | undefined;
}

/** The length of one step, by process index. */
export interface StepLengths {
  readonly ranks: ReadonlyMap<number, { readonly length: number }>;
}

/** One step, by process index. */
export interface RawRanks {
  readonly step: number;
  readonly ranks: ReadonlyMap<number, RawStep>;
}

/** From this many steps with collectives on, steps without are left out. */
const detailedStepsMin = 4;

export interface CutOptions {
  /** Ranks that meet in parts of the world, for when only these reveal the stages. */
  readonly groups: readonly ReadonlySet<number>[];
  /** By process index. */
  readonly cpuWaits?: ReadonlyMap<number, Pick<BlameRank, 'cpuWait' | 'cpuWaitTime'>>;
  /** Ranks have devices: their hosts wait for these in any phase. */
  readonly hasDevices?: boolean;
  /** By process index. */
  readonly loaders?: LoaderTimes | undefined;
  /** Steps cut before, with the same phases and meetings; further ones are added. */
  readonly known?: Map<RawStep, RankStep> | undefined;
}

/** `phases`: their names in order. Yields after each step. */
export function* cutWindow(
  processes: readonly TraceProcess[],
  phases: readonly string[],
  raw: readonly RawRanks[],
  { groups, cpuWaits, hasDevices = false, loaders: times, known = new Map() }: CutOptions,
): Generator<void, BlameWindow> {
  const taking = processesTaking(processes, raw);
  const reported = raw.filter(({ ranks }) => taking.every(({ index }) => ranks.has(index)));
  const whole = withoutOutliers(reported, taking);
  const leftOut = reported.length - whole.length;
  const others = leftOut === 0 ? [] : reported.filter((step) => !whole.includes(step));
  const isDetailed = ({ ranks }: RawRanks): boolean =>
    taking.length > 0 && taking.every(({ index }) => ranks.get(index)?.collectives.some(({ meeting }) => meeting !== undefined));
  const detailed = whole.filter(isDetailed);
  const names = [...phases.filter((name) => name !== otherPhase), otherPhase];
  const byName = phaseRolesOf(processes);
  const roles = names.map((name) => byName.of(name));
  const ranks = ranksOf(taking, groups).map((rank, place) => ({ ...rank, ...cpuWaits?.get((taking[place] as TraceProcess).index) }));
  const alignment = alignmentOf(taking);
  const loaders = times && taking.map(({ index }) => times.get(index));
  const areRecorded = detailed.length >= Math.min(detailedStepsMin, whole.length) && detailed.length > 0;
  const alike = new Map<string, TraceProcess[]>();
  for (const [place, { peers }] of ranks.entries()) alike.set(peers, [...(alike.get(peers) ?? []), taking[place] as TraceProcess]);
  const meets = !areRecorded
    ? []
    : [...alike.values()].flatMap((of) => [
        hiddenMeetings(detailed, of, names, roles, alignment.bound),
        unrecordedMeetings(detailed, of, names, roles),
      ]);
  const hidden = names.filter((name) => meets.some((of) => of.includes(name)));
  const basis = areRecorded && hidden.length === 0 ? 'pieces' : 'phases';
  const chosen = basis === 'pieces' ? detailed : whole;
  const parts = ({ step, ranks: of }: RawRanks, cutRanks?: readonly RankStep[]): StepParts => {
    return { step, raw: taking.map(({ index }) => of.get(index) as RawStep), cut: hasDevices ? undefined : cutRanks };
  };
  const about = { ranks, phases: names, roles };
  if (basis === 'phases') {
    const usual = others.length === 0 ? [] : chosen.map((step) => parts(step));
    const long = others.map((step) => parts(step));
    const known = phaseSteps(chosen, taking, names, roles, alignment.bound);
    return { ...about, ...known, leftOut, long: longStepsOf(long, usual, about), basis, hidden, alignment, loaders };
  }
  const numbers = new Map(names.map((name, index) => [name, index]));
  const cut = (raw: RawStep): RankStep => {
    let rank = known.get(raw);
    if (rank === undefined) {
      rank = rankStep(raw, numbers, roles);
      known.set(raw, rank);
    }
    return rank;
  };
  const cutRanks = ({ ranks: of }: RawRanks): RankStep[] => taking.map(({ index }) => cut(of.get(index) as RawStep));
  const steps: BlameStep[] = [];
  for (const raw of chosen) {
    const follows = steps.at(-1)?.step === raw.step - 1;
    steps.push({ step: raw.step, follows, ranks: cutRanks(raw) });
    yield;
  }
  const usual = others.length === 0 ? [] : chosen.map((raw, place) => parts(raw, steps[place]?.ranks));
  const long = others.map((raw) => parts(raw, isDetailed(raw) ? cutRanks(raw) : undefined));
  return { ...about, steps, leftOut, long: longStepsOf(long, usual, about), basis, alignment, loaders };
}

/** A step longer than this many medians is an outlier, a step of another kind, … */
export const outlierMin = 2.5;
/** … unless more than this share of steps is: then one longer than so many times as long as the longest of the others. */
const outlierShareMax = 0.125;

/**
 * Without steps of another kind, such as the first or a checkpoint: long ones of these processes, each of which has all of the steps. Where every sixth step takes
 * longer on all ranks, say, these are no outliers, but a stall that takes far longer than they do is one.
 */
export function withoutOutliers<Step extends StepLengths>(raw: readonly Step[], taking: readonly TraceProcess[]): Step[] {
  const longest = raw.map(({ ranks }) => Math.max(0, ...taking.map(({ index }) => (ranks.get(index) as { length: number }).length)));
  const upTo = (level: number): Step[] => raw.filter((_, index) => (longest[index] as number) <= outlierMin * level);
  const usual = upTo(median(longest));
  const outliersMax = Math.floor(Math.max(1, outlierShareMax * raw.length));
  if (raw.length - usual.length <= outliersMax) return usual;
  return upTo(longest.toSorted((a, b) => b - a)[outliersMax] as number);
}

/** For each rank the life with most of these steps; ranks with less than half as many as the top rank are left out. */
export function processesTaking(processes: readonly TraceProcess[], raw: readonly StepLengths[]): TraceProcess[] {
  const counts = new Map<number, number>();
  for (const { ranks } of raw) for (const index of ranks.keys()) counts.set(index, (counts.get(index) ?? 0) + 1);
  const count = ({ index }: TraceProcess): number => counts.get(index) ?? 0;
  const most = Math.max(0, ...counts.values());
  const byRank = new Map<number, TraceProcess>();
  for (const process of processes) {
    const known = byRank.get(process.rank);
    if (count(process) * 2 >= most && most > 0 && (known === undefined || count(process) > count(known))) byRank.set(process.rank, process);
  }
  return [...byRank.values()].sort((a, b) => a.rank - b.rank);
}

function rankStep(
  { start, length, gap, phases, placed, collectives, ops }: RawStep,
  numbers: ReadonlyMap<string, number>,
  roles: readonly PhaseRole[],
): RankStep {
  const other = numbers.get(otherPhase) as number;
  const lying = placed.map(({ name, from, until, isAsync = false }) => ({ phase: numbers.get(name) ?? other, from, until, isAsync }));
  const pieces = cutStep(start, length, lying, collectives, other);
  const all = withUnplaced(pieces, phases, lying, numbers, other);
  return { length: Math.round(length), gap, pieces: withoutWaiting(all, roles), ops };
}

/** Phases without recorded spans: their time is own work, spread evenly over the time of which nothing else is known. */
function withUnplaced(
  pieces: readonly Piece[],
  phases: ReadonlyMap<string, number> | undefined,
  placed: readonly PlacedPhase[],
  numbers: ReadonlyMap<string, number>,
  other: number,
): readonly Piece[] {
  const missing: { readonly phase: number; length: number }[] = [];
  for (const [name, length] of phases ?? []) {
    const phase = numbers.get(name);
    const isPlaced = placed.some((span) => span.phase === phase) || pieces.some((piece) => 'phase' in piece && piece.phase === phase);
    if (phase !== undefined && phase !== other && !isPlaced && length > 0) missing.push({ phase, length: Math.round(length) });
  }
  if (missing.length === 0) return pieces;
  let unknown = pieces.reduce((sum, piece) => sum + (piece.kind === 'own' && piece.phase === other ? piece.length : 0), 0);
  return pieces.flatMap((piece): readonly Piece[] => {
    if (piece.kind !== 'own' || piece.phase !== other) return [piece];
    const made: Piece[] = [];
    let rest = piece.length;
    for (const one of missing) {
      const length = Math.min(rest, Math.round((one.length * piece.length) / unknown));
      if (length <= 0) continue;
      made.push({ kind: 'own', phase: one.phase, length });
      one.length -= length;
      rest -= length;
    }
    unknown -= piece.length;
    return rest > 0 ? [...made, { ...piece, length: rest }] : made;
  });
}

const stageKeys = ['stage', 'pipeline_stage', 'pipeline_parallel_rank', 'pp_rank', 'simulated.stage'] as const;
const roleKeys = ['role', 'job_role'] as const;

/** Ranks of one stage and role do the same work: by their own metadata, else by the groups in which they meet. */
export function ranksOf(processes: readonly TraceProcess[], groups: readonly ReadonlySet<number>[]): BlameRank[] {
  const said = ({ metadata }: TraceProcess, keys: readonly string[]): string =>
    keys.map((key) => metadata.get(key)).find((value) => value !== undefined) ?? '';
  const isSaid = processes.some((process) => said(process, stageKeys) !== '');
  const met = isSaid ? new Map<number, number>() : connected(groups);
  const peers = processes.map((process) => {
    const stage = isSaid ? said(process, stageKeys) : (met.get(process.rank)?.toString() ?? '');
    const role = said(process, roleKeys);
    return [...(stage === '' ? [] : [`stage ${stage}`]), ...(role === '' ? [] : [role])].join(', ');
  });
  const known = new Map(processes.flatMap(({ rank, metadata }, at) => (metadata.size === 0 ? [] : [[rank, peers[at] as string]])));
  return processes.map(({ rank, host, hostName, metadata }, at) => {
    const own = peers[at] as string;
    return { rank, host, hostName, peers: own === '' && metadata.size === 0 ? peersOfMet(rank, groups, known) : own };
  });
}

/** The peers of a rank whose metadata was lost: those of most ranks in its groups, or, where no groups are known, of all others if these are alike. */
function peersOfMet(rank: number, groups: readonly ReadonlySet<number>[], known: ReadonlyMap<number, string>): string {
  const its = groups.filter((group) => group.has(rank) && group.size > 1);
  const others = its.length > 0 ? its.flatMap((group) => [...group]) : [...known.keys()];
  const counts = new Map<string, number>();
  for (const other of others) {
    const peers = known.get(other);
    if (peers !== undefined) counts.set(peers, (counts.get(peers) ?? 0) + 1);
  }
  const [most] = [...counts].sort(([, a], [, b]) => b - a);
  const all = [...counts.values()].reduce((sum, count) => sum + count, 0);
  return most !== undefined && (its.length > 0 ? 2 * most[1] > all : counts.size === 1) ? most[0] : '';
}

/** Rank → the lowest rank that it meets, directly or through others. */
function connected(groups: readonly ReadonlySet<number>[]): Map<number, number> {
  const least = new Map<number, number>();
  const find = (rank: number): number => {
    let at = rank;
    for (let up = least.get(at) ?? at; up !== at; up = least.get(at) ?? at) at = up;
    return at;
  };
  for (const group of groups) {
    const [first] = group;
    for (const rank of group) {
      const [a, b] = [find(rank), find(first as number)];
      least.set(Math.max(a, b), Math.min(a, b));
      least.set(rank, least.get(rank) ?? rank);
    }
  }
  return new Map([...least.keys()].map((rank) => [rank, find(rank)]));
}

/** The clocks of these processes. */
export function alignmentOf(processes: readonly TraceProcess[]): BlameAlignment {
  const bounds = processes.map((process) => ({
    rank: process.rank,
    bound: boundAt(process, traceTime(0)) === undefined ? undefined : process.alignment.bound,
  }));
  const unaligned = bounds.filter(({ bound }) => bound === undefined).map(({ rank }) => rank);
  const bound = unaligned.length > 0 ? undefined : Math.max(0, ...bounds.map(({ bound }) => bound ?? 0));
  return { bound, unaligned };
}

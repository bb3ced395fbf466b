// Steps with only phase lengths known: ranks send no more outside recorded windows.
//
// Waits are inferred. A phase in which ranks meet lets the late catch up: it is a collective, or ranks come out of it much closer
// together than they went in. In such a phase the shortest rank shows the time without waiting; the others' excess, up to their lead at
// the start, is waiting for the rank that came last. A phase of waiting in which they do not come closer waits for unknown ranks.
//
//   rank 0   │ forward │ backward, waits ────────│ optimizer │           clocks tell when steps begin: who is late from the step before
//   rank 1       │ forward │ backward │ (other ─────) optimizer │         is ahead of nobody
//
// Without clocks, the same lengths are those of a rank 0 that is slow in backward, and of a rank 1 that waits. So they are if nothing shows
// where the time outside of phases lies, and ranks differ in it. Then only collectives tell who waits, or that few ranks among many differ.
//
// Where gradients are accumulated and each batch is a step, ranks meet in some steps only, and are ever farther apart in those between.

import { isWaitingRole, type PhaseRole } from '@ranktrace/protocol';
import { mean, median } from '../model/robust.ts';
import type { TraceProcess } from '../model/trace-sink.ts';
import { synchronizePhase } from '../steps/phase-role.ts';
import type { BlameWindow, Meeting, Piece, RankStep } from './blame-window.ts';
import type { RawRanks, RawStep } from './raw-steps.ts';

/** Ranks met in a phase if their distance at its end is at most this share of that at its start, in the steps in which that at the start … */
const closerMax = 0.5;
/** … was above this share of the step and twice what clocks may be wrong by. At least so many steps tell it. */
const apartShareMin = 0.01;
const apartStepsMin = 3;
/** Clocks tell who is late at a step's start if they are known to this share of the step. */
const clockShareMax = 0.05;

/**
 * `phases`: names; the last is the time outside all phases. `roles`: by phase. `bound`: of the clocks, ns; undefined where one is not aligned. Time outside of
 * all phases lies where spans show it, else at the step's end, and ranks are taken to meet in it only where spans and clocks show that.
 */
export function phaseSteps(
  raw: readonly RawRanks[],
  processes: readonly TraceProcess[],
  phases: readonly string[],
  roles: readonly PhaseRole[],
  bound: number | undefined,
): Pick<BlameWindow, 'steps' | 'areWaitsGuessed'> {
  const { hasClock, least } = clockOf(raw, processes, bound);
  const cut = raw.map(({ ranks }) => alignedStretches(ranks, processes, phases, hasClock));
  const last = 2 * phases.length - 2;
  const arePlaced = hasClock && cut.every((ranks) => ranks.every(({ isPlaced }) => isPlaced));
  const [meetsIn, waitsIn] = [collectivesAmong(phases, roles), waitsAmong(phases, roles)];
  const isClear = hasClock && (arePlaced || catchesUp(cut, last, least, waitsIn) === undefined);
  const areWaitsGuessed = !isClear && !roles.includes('collective');
  const { doubt, late } = areWaitsGuessed ? differencesOf(cut) : { doubt: 0, late: [] };
  const steps = areWaitsGuessed ? cut.map((ranks) => ranks.map((rank, at) => ({ ...rank, late: late[at] ?? 0 }))) : cut;
  const meets = Array.from({ length: last + 1 }, (_, stretch): StepTest => {
    const phase = phaseOf(stretch, phases);
    if (meetsIn[stretch] === true) return (step) => !isWaitingRole(roles[phase]) || isEntered(step, stretch);
    const canMeet = (phase < phases.length - 1 || arePlaced) && doubt === 0;
    return (canMeet ? catchesUp(steps, stretch, least, waitsIn) : undefined) ?? (() => false);
  });
  const awaits = meets.map((_, stretch) => {
    return hasClock && roles[phaseOf(stretch, phases)] === 'wait' && areAwaited(steps, stretch, waitsIn);
  });
  const whole = raw.map(({ step: number, ranks: of }, index) => {
    const follows = index > 0 && raw[index - 1]?.step === number - 1;
    const ofStep = steps[index] as Stretches[];
    const cuts = { phases, roles, waitsIn, meets: meets.map((test) => test(ofStep)), awaits, doubt };
    const pieces = withWaits(ofStep, cuts, processes);
    return { step: number, follows, ranks: pieces.map((rank, at) => ({ ...rank, ops: of.get(processes[at]?.index ?? -1)?.ops })) };
  });
  return { steps: whole, ...(areWaitsGuessed && { areWaitsGuessed }) };
}

/** Hidden meetings are looked for in so many steps, the last, and matter from this share of their time on, which is also that of a verdict. */
const hiddenStepsMax = 64;
const hiddenShareMin = 0.02;

/**
 * Phases in which ranks meet without a recorded collective: the late catch up in them, though what was recorded there does not let them. Libraries make such
 * collectives below what a client sees, as PyTorch's DistributedDataParallel does in its backward: then recorded ones do not tell who waits. `processes`: ranks
 * that do the same work; stages of a pipeline catch up as they wait for each other's sends.
 */
export function hiddenMeetings(
  raw: readonly RawRanks[],
  processes: readonly TraceProcess[],
  phases: readonly string[],
  roles: readonly PhaseRole[],
  bound: number | undefined,
): readonly string[] {
  if (processes.length < 2) return [];
  const steps = raw.slice(-hiddenStepsMax);
  const { hasClock, least } = clockOf(steps, processes, bound);
  const time = steps.reduce((sum, { ranks }) => sum + longestOf(ranks, processes), 0);
  const waitsIn = waitsAmong(phases, roles);
  return phases.slice(0, -1).filter((name, phase) => {
    if (isWaitingRole(roles[phase])) return false;
    const apart = steps.flatMap(({ ranks }) => {
      const of = processes.map(({ index }) => ranks.get(index) as RawStep);
      return apartAtSpans(of, name, hasClock) ?? apartAt(alignedStretches(ranks, processes, phases, hasClock), 2 * phase + 1, waitsIn);
    });
    const found = caughtUp(apart, least);
    if (found === undefined || found.time <= hiddenShareMin * time) return false;
    return !found.isInAll || !isOwnWork(apart.filter(({ before }) => before > least));
  });
}

/** Errors by which a rank's time in a phase must not follow its lead. */
const followErrorsMin = 3;

/**
 * Whether work, and no waiting, brings ranks together: one that is further ahead in one step than in another takes as long, where one that waits would take as
 * much longer. So one rank may be slow before the phase, and its peer, by about as much, in it.
 */
function isOwnWork(stretches: readonly Apart[]): boolean {
  const [leads, owns]: [number[], number[]] = [[], []];
  for (const place of new Set(stretches.map((of) => of.place))) {
    const alike = stretches.filter((of) => of.place === place);
    for (const rank of alike[0]?.ahead.keys() ?? []) {
      const [ahead, own] = [alike.map((of) => of.ahead[rank] as number), alike.map((of) => of.own[rank] as number)];
      const [usualLead, usual] = [mean(ahead), mean(own)];
      // The last rank waits for nobody.
      for (const [at, lead] of ahead.entries()) {
        if (lead === 0) continue;
        leads.push(lead - usualLead);
        owns.push((own[at] as number) - usual);
      }
    }
  }
  const sumOf = (of: (at: number) => number): number => leads.reduce((sum, _, at) => sum + of(at), 0);
  const spreadOfLeads = sumOf((at) => (leads[at] as number) ** 2);
  if (spreadOfLeads === 0) return false;
  const follows = sumOf((at) => (leads[at] as number) * (owns[at] as number)) / spreadOfLeads;
  const rest = sumOf((at) => ((owns[at] as number) - follows * (leads[at] as number)) ** 2);
  const error = Math.sqrt(rest / leads.length / spreadOfLeads);
  return follows < 0.5 && follows + followErrorsMin * error < 1;
}

/**
 * Collectives of which a part is not recorded, by phase: ranks spend unlike times in the phase outside of recorded ones, and as much longer ones as hidden
 * meetings need. So do those that wait for the messages of a late peer. Where they wait for longer in recorded ones, as with FSDP, these tell who is late: of
 * lengths alone a phase with such a collective in it would count as work.
 */
export function unrecordedMeetings(
  raw: readonly RawRanks[],
  processes: readonly TraceProcess[],
  phases: readonly string[],
  roles: readonly PhaseRole[],
): readonly string[] {
  const steps = raw.slice(-hiddenStepsMax);
  const time = steps.reduce((sum, { ranks }) => sum + longestOf(ranks, processes), 0);
  const recorded = steps.reduce((sum, { ranks }) => sum + spread(processes.map(({ index }) => waitedIn(ranks.get(index) as RawStep))), 0);
  return phases.filter((name, phase) => {
    if (roles[phase] !== 'collective') return false;
    const unlike = steps.map(({ ranks }) => spread(processes.map(({ index }) => unrecordedIn(ranks.get(index) as RawStep, name))));
    return unlike.reduce((sum, one) => sum + one, 0) > Math.max(recorded, hiddenShareMin * time);
  });
}

/** A rank's waiting for the others in recorded collectives, ns. */
const waitedIn = ({ collectives }: RawStep): number =>
  collectives.reduce((sum, { meeting, entry, waitedUntil }) => (meeting === undefined ? sum : sum + Math.max(0, waitedUntil - entry)), 0);

/** A rank's time in a phase outside of recorded collectives, ns; 0 where its spans are not recorded. */
const unrecordedIn = (step: RawStep, phase: string): number =>
  step.placed.reduce((sum, span) => (span.name === phase ? sum + ownTime(step, span) : sum), 0);

/** At each span of a phase, which a step may enter again and again. Undefined where spans of a rank are missing. */
function apartAtSpans(ranks: readonly RawStep[], phase: string, hasClock: boolean): readonly Apart[] | undefined {
  const spans = ranks.map(({ placed }) => placed.filter(({ name }) => name === phase).sort((a, b) => a.from - b.from));
  const count = spans[0]?.length ?? 0;
  if (count === 0 || spans.some(({ length }) => length !== count)) return undefined;
  return Array.from({ length: count }, (_, at) => {
    const of = spans.map((one) => one[at] as Span);
    const reached = ranks.map(({ start }, rank) => (of[rank] as Span).from - (hasClock ? 0 : start));
    const own = ranks.map((rank, place) => ownTime(rank, of[place] as Span));
    return apartIn(reached, own, at);
  });
}

type Span = RawStep['placed'][number];

/** A rank's time in a span outside of collectives, ns. */
function ownTime({ collectives }: RawStep, { from, until }: Span): number {
  let own = until - from;
  let reached = from;
  for (const { entry, exit = Number.POSITIVE_INFINITY, exposed } of collectives) {
    for (const [begin, end] of exposed ?? [[entry, exit] as const]) {
      if (begin >= until || end <= reached) continue;
      own -= Math.min(until, end) - Math.max(reached, begin);
      reached = Math.min(until, end);
    }
  }
  return own;
}

const longestOf = (ranks: RawRanks['ranks'], processes: readonly TraceProcess[]): number =>
  Math.max(0, ...processes.map(({ index }) => ranks.get(index)?.length ?? 0));

/** Whether clocks tell when steps begin, and by how much ranks must be apart to tell anything, ns. */
function clockOf(raw: readonly RawRanks[], processes: readonly TraceProcess[], bound: number | undefined) {
  const step = median(raw.map(({ ranks }) => longestOf(ranks, processes)));
  return { hasClock: bound !== undefined && bound <= clockShareMax * step, least: Math.max(apartShareMin * step, 2 * (bound ?? 0)) };
}

function alignedStretches(
  ranks: RawRanks['ranks'],
  processes: readonly TraceProcess[],
  phases: readonly string[],
  hasClock: boolean,
): readonly Stretches[] {
  const of = processes.map(({ index }) => ranks.get(index) as RawStep);
  const first = Math.min(...of.map(({ start }) => start));
  return of.map((one) => stretchesOf(one, phases, hasClock ? Math.round(one.start - first) : 0));
}

interface Stretches {
  readonly length: number;
  readonly gap: number;
  /** By how much it begins after the first rank, ns. */
  readonly late: number;
  /** The time outside of phases before each phase, the phase, …, and the time outside behind all; they add up to `length`. */
  readonly lengths: readonly number[];
  /** Whether spans show where the time outside of phases lies. */
  readonly isPlaced: boolean;
}

/** The phase of a stretch: each named one has its own, and all others are time outside. */
const phaseOf = (stretch: number, phases: readonly string[]): number => (stretch % 2 === 1 ? (stretch - 1) / 2 : phases.length - 1);

/** Spans show where the time outside of phases lies if they leave as much of it as the lengths do, within this share of the step. */
const unplacedShareMax = 0.05;

function stretchesOf({ start, length, gap, phases: named, placed }: RawStep, phases: readonly string[], late: number): Stretches {
  const whole = Math.round(length);
  const lengths = new Array<number>(2 * phases.length - 1).fill(0);
  let left = whole;
  for (const [phase, name] of phases.slice(0, -1).entries()) {
    const taken = Math.min(left, Math.round(named?.get(name) ?? 0));
    lengths[2 * phase + 1] = taken;
    left -= taken;
  }
  const outside = new Array<number>(lengths.length).fill(0);
  let [until, found] = [start, 0];
  for (const span of placed.toSorted((a, b) => a.from - b.from)) {
    const phase = phases.indexOf(span.name);
    if (phase < 0) continue;
    const pause = Math.max(0, Math.round(span.from - until));
    outside[2 * phase] = (outside[2 * phase] as number) + pause;
    found += pause;
    until = Math.max(until, span.until);
  }
  const last = lengths.length - 1;
  const behind = Math.max(0, start + length - until);
  // Each length is rounded to a ns by itself.
  const isPlaced =
    placed.length > 0 && found <= left + placed.length + lengths.length && Math.abs(found + behind - left) <= unplacedShareMax * whole;
  if (isPlaced) for (let stretch = 0; stretch < last; stretch += 2) lengths[stretch] = outside[stretch] as number;
  lengths[last] = isPlaced ? Math.max(0, left - found) : left;
  return { length: whole, gap, late, lengths, isPlaced };
}

/** By stretch, whether it is a collective. */
const collectivesAmong = (phases: readonly string[], roles: readonly PhaseRole[]): readonly boolean[] =>
  Array.from({ length: 2 * phases.length - 1 }, (_, stretch) => roles[phaseOf(stretch, phases)] === 'collective');

/** By stretch, whether it is a collective or a wait for something unknown: in neither does a rank get ahead of its peers. */
const waitsAmong = (phases: readonly string[], roles: readonly PhaseRole[]): readonly boolean[] =>
  Array.from({ length: 2 * phases.length - 1 }, (_, stretch) => isWaitingRole(roles[phaseOf(stretch, phases)]));

/** Whether ranks meet in a stretch of a step. */
type StepTest = (step: readonly Stretches[]) => boolean;

/** Whether a rank spends any time in a stretch: a collective that none of them enters in this step is no meeting. */
const isEntered = (step: readonly Stretches[], stretch: number): boolean => step.some(({ lengths }) => (lengths[stretch] as number) > 0);

/** In which steps a stretch lets ranks catch up; undefined: in none. */
function catchesUp(
  steps: readonly (readonly Stretches[])[],
  stretch: number,
  least: number,
  waitsIn: readonly boolean[],
): StepTest | undefined {
  const apart = steps.flatMap((ranks) => apartAt(ranks, stretch, waitsIn));
  const found = caughtUp(apart, least);
  if (found === undefined) return undefined;
  return found.isInAll ? () => true : (step) => apartAt(step, stretch, waitsIn).some((one) => one.before > least && isTogether(one));
}

/** By how much ranks are apart at the start of a stretch of work, and at its end, ns. */
interface Apart {
  readonly before: number;
  readonly after: number;
  /** Which of the step's spans of its phase it is. */
  readonly place: number;
  /** By rank: its lead on the last one, and its time in the stretch, ns. */
  readonly ahead: readonly number[];
  readonly own: readonly number[];
}

const spread = (times: readonly number[]): number => Math.max(...times) - Math.min(...times);

function apartIn(reached: readonly number[], own: readonly number[], place = 0): Apart {
  const last = Math.max(...reached);
  const after = spread(reached.map((time, rank) => time + (own[rank] as number)));
  return { before: spread(reached), after, place, ahead: reached.map((time) => last - time), own };
}

function apartAt(ranks: readonly Stretches[], stretch: number, waitsIn: readonly boolean[]): readonly Apart[] {
  const at = (stretch: number): readonly number[] => ranks.map(({ lengths }) => lengths[stretch] as number);
  let reached: readonly number[] = ranks.map(({ late }) => late);
  for (let earlier = 0; earlier < stretch; earlier++) reached = reachedAfter(reached, at(earlier), waitsIn[earlier] === true);
  return [apartIn(reached, at(stretch))];
}

/**
 * When ranks reach the end of a stretch. A collective, or a wait, lets none get ahead. Where its lengths say so, a step has several of its name, and ranks
 * wait in a later one for work that comes after this stretch.
 */
function reachedAfter(reached: readonly number[], lengths: readonly number[], isWaiting: boolean): readonly number[] {
  const after = reached.map((time, rank) => time + (lengths[rank] as number));
  if (!isWaiting || spread(after) <= spread(reached)) return after;
  const shortest = Math.min(...lengths);
  return reached.map((time) => time + shortest);
}

/** Where ranks meet in some steps only, as where gradients are accumulated, these are told by how close ranks come: to this share of their distance … */
const togetherMax = 0.125;
/** … in so many steps at least, and with so many times as much distance as where they come only somewhat closer, which chance does more often. */
const togetherStepsMin = 6;
const togetherTimesMin = 2;

const isTogether = ({ before, after }: Apart): boolean => after < togetherMax * before;

/**
 * The time by which ranks were apart at the start of stretches that let them catch up, ns over all; undefined if they did not. The more they are apart, the more a
 * stretch tells; below `least` it tells nothing. `isInAll`: they do in most of them, so that they are taken to meet in each.
 */
function caughtUp(stretches: readonly Apart[], least: number): { readonly time: number; readonly isInAll: boolean } | undefined {
  const sumOf = (of: readonly Apart[]): number => of.reduce((sum, { before }) => sum + before, 0);
  const all = stretches.filter(({ before }) => before > least);
  if (all.length === 0 || all.length < Math.min(apartStepsMin, stretches.length)) return undefined;
  const closer = all.filter(({ before, after }) => after < closerMax * before);
  const time = sumOf(closer);
  if (time > sumOf(all) / 2) return { time, isInAll: true };
  const together = closer.filter(isTogether);
  const whole = sumOf(together);
  return together.length >= togetherStepsMin && whole > togetherTimesMin * (time - whole) ? { time: whole, isInAll: false } : undefined;
}

/** A few ranks differ if the median rank does by no more than this share of what the most different does. */
const fewMax = 0.5;

/**
 * What lengths alone tell. A rank that has more of one phase and less of another than its peers may work in the one, or wait in it. If few ranks among many
 * do, the many wait for them where the few have least, and the work behind that makes the few `late` for the next step, ns by rank. Else `doubt` is the share
 * of ranks' excess over the shortest that may be waiting.
 */
function differencesOf(steps: readonly (readonly Stretches[])[]): { readonly doubt: number; readonly late: readonly number[] } {
  const usual = (steps[0] ?? []).map(({ lengths }, rank) =>
    lengths.map((_, stretch) => median(steps.map((ranks) => ranks[rank]?.lengths[stretch] as number))),
  );
  const all = usual.map((lengths) => {
    const more = lengths.map((length, stretch) => length - median(usual.map((other) => other[stretch] as number)));
    const [over, under] = [1, -1].map((sign) => more.reduce((sum, excess) => sum + Math.max(0, sign * excess), 0)) as [number, number];
    return { more, over, both: Math.min(over, under) };
  });
  const most = Math.max(0, ...all.map(({ both }) => both));
  if (median(all.map(({ both }) => both)) > fewMax * most) {
    const [over, both] = [all.reduce((sum, rank) => sum + rank.over, 0), all.reduce((sum, rank) => sum + rank.both, 0)];
    return { doubt: both / over, late: [] };
  }
  const few = all.filter(({ both }) => both > fewMax * most);
  const least = usual[0]?.map((_, stretch) => few.reduce((sum, { more }) => sum + (more[stretch] as number), 0)) ?? [];
  const meeting = least.indexOf(Math.min(...least));
  return { doubt: 0, late: all.map(({ more }) => more.slice(meeting + 1).reduce((sum, excess) => sum + excess, 0)) };
}

interface Cuts {
  readonly phases: readonly string[];
  readonly roles: readonly PhaseRole[];
  /** By stretch, whether ranks wait in it, and whether they meet in it. */
  readonly waitsIn: readonly boolean[];
  readonly meets: readonly boolean[];
  /** By stretch, whether each rank waits in it for one other rank to come. */
  readonly awaits: readonly boolean[];
  readonly doubt: number;
}

function withWaits(ranks: readonly Stretches[], cuts: Cuts, processes: readonly TraceProcess[]): RankStep[] {
  const { phases, roles, waitsIn, meets, awaits, doubt } = cuts;
  const pieces: Piece[][] = ranks.map(() => []);
  let reached: readonly number[] = ranks.map(({ late }) => late);
  for (const stretch of meets.keys()) {
    const phase = phaseOf(stretch, phases);
    const taken = ranks.map(({ lengths }) => lengths[stretch] as number);
    const shortest = Math.min(...taken);
    const after = reachedAfter(reached, taken, waitsIn[stretch] === true);
    // Where a later collective of that name is the one in which ranks wait, they wait for the rank that is inside least.
    const isLater = after.some((time, rank) => time !== (reached[rank] as number) + (taken[rank] as number));
    const last = isLater ? taken.indexOf(shortest) : reached.indexOf(Math.max(...reached));
    // In a collective the shortest time is transfer, in a wait for peers it is not known; in another phase it is own work, and the wait comes after it.
    const isWaiting = isWaitingRole(roles[phase]);
    const name = phases[phase] as string;
    const isOfPeers = isWaiting && name === synchronizePhase;
    const transfer = isWaiting && !isOfPeers ? shortest : 0;
    const meeting: Meeting = { name, lastRank: processes[last]?.rank ?? -1, transfer, epsilon: undefined };
    const awaited = meets[stretch] !== true && awaits[stretch] === true ? awaitedIn(reached, taken) : [];
    const arrivals = awaited.map((other, rank): Meeting | undefined => {
      const left = other === undefined ? 0 : (taken[rank] as number) - ((reached[other] as number) - (reached[rank] as number));
      return other === undefined
        ? other
        : { name, lastRank: processes[other]?.rank ?? -1, transfer: Math.max(0, Math.round(left)), epsilon: undefined };
    });
    for (const [rank, length] of taken.entries()) {
      const line = pieces[rank] as Piece[];
      for (const [other, meeting] of arrivals.entries()) {
        if (meeting !== undefined && awaited[other] === rank) line.push({ kind: 'enter', meeting });
      }
      const arrival = arrivals[rank];
      if (arrival !== undefined) {
        const sent = Math.min(length, arrival.transfer);
        line.push({ kind: 'enter', meeting: arrival }, { kind: 'wait', phase, length: length - sent, meeting: arrival });
        if (sent > 0) line.push({ kind: 'transfer', phase, length: sent, meeting: arrival });
        line.push({ kind: 'leave', meeting: arrival, lag: 0 });
        continue;
      }
      if (meets[stretch] !== true || ranks.length < 2) {
        const unknown = isWaiting ? length : Math.round(doubt * (length - shortest));
        if (length > unknown) line.push({ kind: 'own', phase, length: length - unknown });
        if (unknown > 0) line.push({ kind: 'unmatched', phase, length: unknown });
        continue;
      }
      const ahead = (reached[last] as number) - (reached[rank] as number);
      const wait = Math.round(isWaiting ? length - shortest : Math.min(length - shortest, ahead));
      const own = isWaiting ? 0 : length - wait;
      if (own > 0) line.push({ kind: 'own', phase, length: own });
      line.push({ kind: 'enter', meeting });
      if (wait > 0) line.push({ kind: 'wait', phase, length: wait, meeting });
      if (transfer > 0) line.push({ kind: 'transfer', phase, length: transfer, meeting });
      line.push({ kind: 'leave', meeting, lag: 0 });
      if (isOfPeers && shortest > 0) line.push({ kind: 'unmatched', phase, length: shortest });
    }
    reached = after;
  }
  return ranks.map(({ length, gap }, rank) => ({ length, gap, pieces: pieces[rank] as Piece[] }));
}

/** Among more ranks, the end of a wait is near some rank's arrival by chance. */
const awaitRanksMax = 4;
/** A wait is for a rank if it ends as that comes, up to this share of the wait and the shortest time that any rank takes; such waits explain this share of all. */
const awaitApartMax = 0.125;
const awaitShareMin = 0.75;

/**
 * For whom each rank waits, by its place; undefined: for no rank, or an unknown one. A broadcast is no meeting of all: its root waits for the ranks to which
 * it sends, and another one for the root, and so does each rank of a tree.
 */
function awaitedIn(reached: readonly number[], lengths: readonly number[]): readonly (number | undefined)[] {
  const shortest = Math.min(...lengths);
  return lengths.map((length, rank) => {
    const [start, excess] = [reached[rank] as number, length - shortest];
    const off = reached.map((time) => (time > start ? Math.abs(start + length - time) : Number.POSITIVE_INFINITY));
    const nearest = Math.min(...off);
    return nearest <= shortest + awaitApartMax * excess && nearest < excess ? off.indexOf(nearest) : undefined;
  });
}

/** Whether ranks wait in a stretch for one other rank each, in most of its time beyond the shortest one. */
function areAwaited(steps: readonly (readonly Stretches[])[], stretch: number, waitsIn: readonly boolean[]): boolean {
  if ((steps[0]?.length ?? 0) > awaitRanksMax) return false;
  let [all, known] = [0, 0];
  for (const ranks of steps) {
    const lengths = ranks.map((rank) => rank.lengths[stretch] as number);
    let reached: readonly number[] = ranks.map(({ late }) => late);
    for (let earlier = 0; earlier < stretch; earlier++) {
      reached = reachedAfter(
        reached,
        ranks.map((rank) => rank.lengths[earlier] as number),
        waitsIn[earlier] === true,
      );
    }
    const shortest = Math.min(...lengths);
    for (const [rank, other] of awaitedIn(reached, lengths).entries()) {
      const excess = (lengths[rank] as number) - shortest;
      all += excess;
      if (other !== undefined) known += excess;
    }
  }
  return known > awaitShareMin * all;
}

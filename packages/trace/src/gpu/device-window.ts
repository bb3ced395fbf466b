// The window for blame of ranks whose work runs on GPUs: steps as the devices saw them, cut into pieces at the collectives.
//
//   device     ███ compute ███│NCCL spins for rank 3 │ transfer │██ compute ██│ idle: host late │██
//   pieces     own: compute   │wait                  │ transfer │own: compute │ own: host late  │own: compute
//
// A rank's own work is the compute of its streams, its copies, and the time in which its devices idle: whatever kept them idle is the rank's own. Its
// waiting is the time that its communication kernels spin alone until the last rank is in. Communication behind compute is compute.
//
// Invariant: pieces of a step are whole ns and add up to it (blame-window.ts).

import { otherPhase, type PhaseRole } from '@ranktrace/protocol';
import type { BlameStep, BlameWindow, Meeting, Piece, RankStep } from '../blame/blame-window.ts';
import type { DeviceLength } from '../blame/long-on-devices.ts';
import { alignmentOf, processesTaking, type RawCollective, ranksOf, withoutOutliers } from '../blame/raw-steps.ts';
import { mean } from '../model/robust.ts';
import type { TraceProcess } from '../model/trace-sink.ts';
import type { RankWork, WorkStep } from './device-work.ts';
import { HostWaits, type IdleCause, type IdlePiece, idlePieces } from './idle-time.ts';
import { type Intervals, sweep } from './intervals.ts';
import { classOf } from './kernel-class.ts';
import { lastUpTo } from './path-reasons.ts';

/** The activities of a rank's devices, as phases of blame; the last is empty: nothing lies outside of the others. */
export const devicePhases = [
  'GPU compute',
  'GPU copies',
  'GPU idle, host late',
  'GPU idle, launch',
  'GPU idle, dependency',
  'GPU idle, unknown',
  'GPU idle, pause',
  'GPU communication',
  otherPhase,
] as const;

export const copyPhase = devicePhases[1];
export const hostLatePhase = devicePhases[2];

/** The host's lateness, and its launches into empty queues, are to devices what loading data is to ranks: run ahead, they would cost nothing. */
const roles: readonly PhaseRole[] = ['work', 'work', 'data', 'data', 'work', 'work', 'work', 'collective', 'work'];

/** Where launches do not hold work back, the device pauses. */
const phaseOfCause: Readonly<Record<IdleCause, number>> = { hostLate: 2, launch: 6, dependency: 4, other: 5 };
const launchPhase = 3;
const communicationPhase = 7;
/** Phase by the set of classes that run: bit 0 compute, 1 communication, 2 memory; idle time is split by its causes. */
const phaseOfClasses = [-1, 0, communicationPhase, 0, 1, 0, communicationPhase, 0] as const;

/** One rank with device work. */
export interface DeviceRank {
  readonly process: TraceProcess;
  readonly work: RankWork;
  /** Its steps on the devices, disjoint, in order. */
  readonly windows: readonly WorkStep[];
  /** The parts of its communication kernels, in order of entry. */
  readonly collectives: readonly RawCollective[];
}

type TimedStep = WorkStep & { readonly length: number };

/** A step of all ranks, by index of their process. */
interface WholeStep {
  readonly step: number;
  readonly ranks: ReadonlyMap<number, TimedStep>;
}

/** The steps of ranks that ran together, as the devices saw them, in windows. */
export class DeviceSteps {
  readonly #ranks: readonly DeviceRank[];
  readonly #groups: readonly ReadonlySet<number>[];
  readonly #taking: readonly TraceProcess[];
  readonly #whole: readonly WholeStep[];
  readonly #cutters: StepCutter[] = [];
  /** Numbers of the steps in any window, without those so much longer that they are of another kind. */
  readonly #compared = new Set<number>();
  /** By place of a step: its ranks. */
  readonly #cut = new Map<number, readonly RankStep[]>();
  #cutUpTo = 0;

  constructor(ranks: readonly DeviceRank[], groups: readonly ReadonlySet<number>[]) {
    this.#ranks = ranks;
    this.#groups = groups;
    const byNumber = new Map<number, Map<number, TimedStep>>();
    for (const { process, windows } of ranks) {
      for (const window of windows) {
        const of = byNumber.get(window.number) ?? new Map<number, TimedStep>();
        byNumber.set(window.number, of.set(process.index, { ...window, length: window.end - window.start }));
      }
    }
    const raw = [...byNumber].map(([step, of]) => ({ step, ranks: of })).sort((a, b) => a.step - b.step);
    this.#taking = processesTaking(
      ranks.map(({ process }) => process),
      raw,
    );
    this.#whole = raw.filter(({ ranks: of }) => this.#taking.every(({ index }) => of.has(index)));
  }

  /** Steps that all ranks have. */
  get count(): number {
    return this.#whole.length;
  }

  /** The place of such a step by its number. */
  placeOf(number: number | undefined): number | undefined {
    const place = this.#whole.findIndex(({ step }) => step === number);
    return place < 0 ? undefined : place;
  }

  /** By number of such a step; after the windows. */
  get lengths(): ReadonlyMap<number, DeviceLength> {
    return new Map(
      this.#whole.map(({ step, ranks }) => {
        const lengths = this.#taking.map(({ index }) => (ranks.get(index) as TimedStep).length);
        return [step, { longest: Math.max(...lengths), mean: mean(lengths), isCompared: this.#compared.has(step) }];
      }),
    );
  }

  /**
   * The window of steps `from` to `until` − 1 of them. Windows come in order, and may begin with steps of those before from `keptFrom` on: each step is
   * cut once. Yields after each rank's beginning and after each step.
   */
  *window(from: number, until: number, keptFrom = from): Generator<void, BlameWindow> {
    for (const process of this.#taking.slice(this.#cutters.length)) {
      this.#cutters.push(new StepCutter(this.#ranks.find((rank) => rank.process === process) as DeviceRank));
      yield;
    }
    for (const place of this.#cut.keys()) if (place < Math.min(from, keptFrom)) this.#cut.delete(place);
    for (let place = Math.max(this.#cutUpTo, from); place < until; place++) {
      const { ranks: of } = this.#whole[place] as WholeStep;
      const cut = this.#taking.map(({ index }, at) => (this.#cutters[at] as StepCutter).step(of.get(index) as WorkStep));
      this.#cut.set(place, withReadyEntries(cut));
      yield;
    }
    this.#cutUpTo = Math.max(this.#cutUpTo, until);
    const whole = this.#whole.slice(from, until);
    const kept = new Set(withoutOutliers(whole, this.#taking));
    const steps: BlameStep[] = [];
    for (const [at, one] of whole.entries()) {
      const ranks = this.#cut.get(from + at);
      if (!kept.has(one) || ranks === undefined) continue;
      this.#compared.add(one.step);
      steps.push({ step: one.step, follows: steps.at(-1)?.step === one.step - 1, ranks });
    }
    return {
      ranks: ranksOf(this.#taking, this.#groups),
      ...{ phases: devicePhases, roles, steps, leftOut: whole.length - steps.length, basis: 'pieces' },
      alignment: alignmentOf(this.#taking),
      copyPhase,
      isCutByMeetings: true,
    };
  }
}

/** A rank's entry into a meeting. */
interface Entry {
  readonly meeting: Meeting;
  readonly lane: number;
  /** Share of the step's compute that the rank had done. */
  readonly done: number;
  /** Whether the kernel began when the one before it on its stream ended: it may have been ready long before. */
  readonly isQueued: boolean;
  /** Of a send or receive: the share that was done when the work launched before it had ended. */
  readonly computed: number | undefined;
}

type CutStep = RankStep & { readonly entries: readonly Entry[] };

/** A kernel that begins within this time, ns, after the one before it on its stream was queued behind it. */
const queuedNsMax = 20_000;

/**
 * A communication kernel that is queued behind one that waits for a late rank shows when that rank came, not when it was ready itself. All ranks run one
 * program, so a kernel is ready at the same share of the step's compute as on the rank where it began earliest: there it enters, and where the late rank
 * is mended, its transfer runs behind compute again. A send and its receive lie at different places of two programs: each is ready when its own rank has
 * computed what it launched before.
 */
function withReadyEntries(ranks: readonly CutStep[]): RankStep[] {
  const ready = new Map<Meeting, number>();
  for (const { entries } of ranks) {
    for (const { meeting, done } of entries) ready.set(meeting, Math.min(done, ready.get(meeting) ?? 1));
  }
  return ranks.map(({ entries, ...step }): RankStep => {
    const moved = new Map<Meeting, number>();
    /** By stream: its kernels stay in order. */
    const least = new Map<number, number>();
    for (const { meeting, lane, done, isQueued, computed = ready.get(meeting) as number } of entries) {
      const share = Math.max(least.get(lane) ?? 0, isQueued ? Math.min(done, computed) : done);
      least.set(lane, share);
      if (isQueued && share < done) moved.set(meeting, share);
    }
    return moved.size === 0 ? step : { ...step, pieces: withEntriesAt(step.pieces, moved) };
  });
}

/** The pieces with some entries at these shares of the compute. */
function withEntriesAt(pieces: readonly Piece[], moved: ReadonlyMap<Meeting, number>): Piece[] {
  const total = computeOf(pieces);
  const wanted = pieces
    .flatMap((enter) => {
      const share = enter.kind === 'enter' ? moved.get(enter.meeting) : undefined;
      return share === undefined ? [] : [{ enter, at: Math.round(share * total) }];
    })
    .sort((a, b) => a.at - b.at);
  const made: Piece[] = [];
  let [done, next] = [0, 0];
  for (const piece of pieces) {
    if (piece.kind === 'enter' && moved.has(piece.meeting)) continue;
    if (!isCompute(piece)) {
      made.push(piece);
      continue;
    }
    let left = piece.length;
    for (let one = wanted[next]; one !== undefined && one.at < done + left; one = wanted[++next]) {
      const before = Math.max(0, one.at - done);
      if (before > 0) made.push({ ...piece, length: before });
      done += before;
      left -= before;
      made.push(one.enter);
    }
    if (left > 0) made.push({ ...piece, length: left });
    done += left;
  }
  for (const { enter } of wanted.slice(next)) made.push(enter);
  return made;
}

const computeOf = (pieces: readonly Piece[]): number => pieces.reduce((sum, piece) => (isCompute(piece) ? sum + piece.length : sum), 0);

const isCompute = (piece: Piece): piece is Piece & { readonly kind: 'own'; readonly length: number } =>
  piece.kind === 'own' && piece.phase === 0;

/**
 * When the kernels that compute had ended that a rank launched before a kernel that communicates. Correlations count calls up, and are on the kernel: so
 * the order is known of launches, too, that were not recorded.
 */
class ComputedBefore {
  /** Correlations in order; the latest end of the work that they and those before them launched. */
  readonly #launches: Float64Array;
  readonly #ends: Float64Array;
  /** By start of a kernel that communicates, its correlation. */
  readonly #launched = new Map<number, number>();

  constructor({ work: { columns, length } }: RankWork) {
    const computing: { launch: number; end: number }[] = [];
    for (let row = 0; row < length; row++) {
      const launch = columns.correlation[row] as number;
      if (launch === 0) continue;
      if (columns.class[row] === classOf.communication) this.#launched.set(columns.start[row] as number, launch);
      else if (columns.class[row] === classOf.compute) computing.push({ launch, end: columns.end[row] as number });
    }
    computing.sort((a, b) => a.launch - b.launch);
    this.#launches = Float64Array.from(computing, ({ launch }) => launch);
    let latest = Number.NEGATIVE_INFINITY;
    this.#ends = Float64Array.from(computing, ({ end }) => {
      latest = Math.max(latest, end);
      return latest;
    });
  }

  /** For the kernel that began at `start`; Infinity where its launch is not known. */
  endBefore(start: number): number {
    const launch = this.#launched.get(start);
    if (launch === undefined) return Number.POSITIVE_INFINITY;
    return this.#ends[lastUpTo(this.#launches, launch)] ?? Number.NEGATIVE_INFINITY;
  }
}

/** Cuts the steps of one rank, in order. */
class StepCutter {
  readonly #collectives: readonly RawCollective[];
  readonly #unions: readonly Intervals[];
  readonly #idle: readonly IdlePiece[];
  readonly #work: RankWork;
  #computed: ComputedBefore | undefined;
  #nextCollective = 0;
  #nextIdle = 0;
  #lastEnd = Number.NaN;

  constructor({ work, windows, collectives }: DeviceRank) {
    this.#work = work;
    this.#collectives = collectives;
    this.#unions = [work.unionOf('compute'), work.unionOf('communication'), work.unionOf('memory')];
    this.#idle = idlePieces(work, windows[0]?.start ?? 0, windows.at(-1)?.end ?? 0, new HostWaits(work));
  }

  step({ start, end }: WorkStep): CutStep {
    const length = Math.round(end - start);
    const at = (time: number): number => Math.min(length, Math.max(0, Math.round(time - start)));
    const inside: RawCollective[] = [];
    while (this.#nextCollective < this.#collectives.length && this.#exitOf(this.#nextCollective) <= start) this.#nextCollective++;
    for (let next = this.#nextCollective; next < this.#collectives.length; next++) {
      const collective = this.#collectives[next] as RawCollective;
      if (collective.entry >= end) break;
      if ((collective.exit ?? Number.POSITIVE_INFINITY) > start) inside.push(collective);
    }
    const cuts = new Set([0, length]);
    for (const { entry, exit, waitedUntil } of inside)
      cuts
        .add(at(entry))
        .add(at(waitedUntil))
        .add(at(exit ?? end));
    const times = [...cuts].sort((a, b) => a - b);
    const pieces: Piece[] = [];
    const entries: Entry[] = [];
    /** By stream, when its last communication kernel ended. */
    const exits = new Map<number, number>();
    let active: RawCollective[] = [];
    let next = 0;
    const leave = (from: number): void => {
      active = active.filter(({ exit, meeting, lag }) => {
        if (exit === undefined || exit > end || at(exit) > from) return true;
        if (meeting !== undefined && lag !== undefined) pieces.push({ kind: 'leave', meeting, lag });
        return false;
      });
    };
    for (const [index, from] of times.entries()) {
      leave(from);
      for (; next < inside.length && at((inside[next] as RawCollective).entry) <= from; next++) {
        const entered = inside[next] as RawCollective;
        if (entered.entry >= start && entered.meeting !== undefined) {
          pieces.push({ kind: 'enter', meeting: entered.meeting, lane: entered.lane });
          const before = exits.get(entered.lane) ?? Number.NEGATIVE_INFINITY;
          entries.push({
            meeting: entered.meeting,
            lane: entered.lane,
            done: computeOf(pieces),
            isQueued: entered.entry - before <= queuedNsMax,
            computed: entered.meeting.pair !== undefined ? this.#computedAt(start, entered.entry) : undefined,
          });
        }
        exits.set(entered.lane, entered.exit ?? end);
        active.push(entered);
      }
      leave(from);
      const until = times[index + 1];
      if (until !== undefined) this.#addStretch(pieces, active, start + from, start + until, until - from);
    }
    const gap = start - this.#lastEnd;
    this.#lastEnd = end;
    const compute = Math.max(1, computeOf(pieces));
    const shares = entries.map(({ computed, ...entry }) => {
      return { ...entry, done: entry.done / compute, computed: computed === undefined ? undefined : computed / compute };
    });
    return { length, gap: gap >= 0 && gap < length ? gap : 0, pieces, entries: shares };
  }

  /** Compute since the step's start, ns, when all was done that was launched before the send or receive that began at `entry`. */
  #computedAt(start: number, entry: number): number {
    this.#computed ??= new ComputedBefore(this.#work);
    return (this.#unions[0] as Intervals).covered(start, Math.min(entry, this.#computed.endBefore(entry)));
  }

  #exitOf(collective: number): number {
    return this.#collectives[collective]?.exit ?? Number.POSITIVE_INFINITY;
  }

  /**
   * Adds a stretch between two ends of collectives: exposed communication in its midst, its own work by phase, and last the exposed communication with
   * which it ends, for which the rank waited until that end.
   */
  #addStretch(pieces: Piece[], active: readonly RawCollective[], from: number, until: number, length: number): void {
    const times = new Float64Array(devicePhases.length);
    let [waitedFrom, waitedUntil] = [from, from];
    sweep(this.#unions, from, until, (running, start, end) => {
      const phase = phaseOfClasses[running] as number;
      if (phase >= 0) times[phase] = (times[phase] as number) + (end - start);
      if (phase !== communicationPhase) return;
      if (start > waitedUntil) waitedFrom = start;
      waitedUntil = end;
    });
    const last = waitedUntil < until ? 0 : Math.round(until - waitedFrom);
    while (this.#nextIdle < this.#idle.length && (this.#idle[this.#nextIdle] as IdlePiece).until <= from) this.#nextIdle++;
    for (let next = this.#nextIdle; next < this.#idle.length; next++) {
      const piece = this.#idle[next] as IdlePiece;
      if (piece.from >= until) break;
      const inside = Math.min(until, piece.until) - Math.max(from, piece.from);
      const launching = piece.cause === 'launch' ? piece.hostShare * inside : 0;
      times[launchPhase] = (times[launchPhase] as number) + launching;
      const phase = phaseOfCause[piece.cause];
      times[phase] = (times[phase] as number) + inside - launching;
    }
    const parts = wholeParts(times, length);
    const exposed = parts[communicationPhase] as number;
    const atEnd = Math.min(exposed, last);
    if (exposed > atEnd) pieces.push(exposedPiece(active, from, exposed - atEnd));
    for (const [phase, time] of parts.entries())
      if (time > 0 && phase !== communicationPhase) pieces.push({ kind: 'own', phase, length: time });
    if (atEnd > 0) pieces.push(exposedPiece(active, from, atEnd));
  }
}

/** Exposed communication: waiting for the last rank, its transfer, or unknown. */
function exposedPiece(active: readonly RawCollective[], from: number, length: number): Piece {
  const phase = communicationPhase;
  let late: RawCollective | undefined;
  for (const one of active) {
    if (one.meeting !== undefined && one.waitedUntil > from && one.waitedUntil > (late?.waitedUntil ?? Number.NEGATIVE_INFINITY))
      late = one;
  }
  if (late?.meeting !== undefined) return { kind: 'wait', phase, length, meeting: late.meeting };
  const meeting = active.find((one) => one.meeting !== undefined)?.meeting;
  return meeting === undefined ? { kind: 'unmatched', phase, length } : { kind: 'transfer', phase, length, meeting };
}

/** The times as whole ns that add up to `length`: the largest takes what rounding leaves. */
function wholeParts(times: Float64Array, length: number): number[] {
  const whole = Array.from(times, Math.round);
  const largest = whole.indexOf(Math.max(...whole));
  const rest = length - whole.reduce((sum, time) => sum + time, 0);
  whole[largest] = Math.max(0, (whole[largest] as number) + rest);
  return whole;
}

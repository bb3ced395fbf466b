// Why a rank's devices idle: each gap in which nothing runs is charged to a cause, and the host's time in it to the phase and op that it was in.
//
//   host       ─ data_load ───────────│ aten::linear ─ launch ─│                     launch ─│  (queued long ago)
//   device     ████ last ─┐                            ┌── next ███ ─┐        ┌── next ███
//   gap                   │ host late          │ launch │            │ launch │  up to 30 µs; more: dependency
//
//   host late     from the gap's start until the host began the call that launched the next work
//   dependency    the part of that in which the host itself waited for the device (cudaStreamSynchronize, …); and work that was queued long
//                 before it began, so it waited for an event of another stream, device or rank
//   launch        from the call to the start of its work, up to 100 µs after the call returned; or the device's own pause between queued kernels
//   other         the launch of the next work was not recorded, nor one within 100 µs after its start for the work behind it on its stream
//
// Invariant: causes of a gap add up to it, and gaps add up to the idle time between the two ends.

import { median } from '../model/robust.ts';
import { hostKind, type RankWork } from './device-work.ts';
import { gpuLimits as limits } from './gpu-limits.ts';
import { Intervals } from './intervals.ts';
import { kindOf } from './kernel-class.ts';

export const idleCauses = ['hostLate', 'launch', 'dependency', 'other'] as const;
export type IdleCause = (typeof idleCauses)[number];

/** ns. */
export type IdleParts = Record<IdleCause, number>;

export const noIdle = (): IdleParts => ({ hostLate: 0, launch: 0, dependency: 0, other: 0 });

/** The host's place while the devices waited for it. */
export interface IdlePlace {
  readonly cause: IdleCause;
  /** The phase, '' outside of all. */
  readonly phase: string;
  /** The outermost op of the launching thread; for `dependency` the call that waits; '' between ops. */
  readonly op: string;
  readonly time: number;
  readonly gaps: number;
}

/** A piece of a gap with one cause. */
export interface IdlePiece {
  readonly cause: IdleCause;
  readonly from: number;
  readonly until: number;
  /** Number of the thread that launched the next work, -1: not known. */
  readonly thread: number;
  /** Share of it, 0 … 1, that a host far enough ahead would save: all of `hostLate`, and of `launch` what is longer than the device's own pause. */
  readonly hostShare: number;
}

/** Host calls that wait for the device: of CUDA and ROCm, and of Intel's Unified Runtime and Level Zero. */
export const waitingCall = new RegExp(
  [
    ...['^(?:cuda|hip|cu)(?:Device|Stream|Event|Ctx)Synchronize', '^(?:cuda|hip)Memcpy(?:_v\\d+)?$', '^hipMemcpyWithStream$'],
    ...[
      '^(?:cuda|hip)EventQuery$',
      '^ur(?:QueueFinish|EventWait)$',
      '^ze(?:Device|CommandQueue|CommandList|Event|Fence)(?:Host)?Synchronize$',
    ],
  ].join('|'),
);

/** Calls by which the host of one thread waits for its devices. */
export class HostWaits {
  readonly #work: RankWork;
  readonly #threads = new Map<number, Intervals>();
  readonly #rows = new Map<number, number[]>();

  constructor(work: RankWork) {
    this.#work = work;
    const { columns, length } = work.host;
    const waits = work.names.matching(waitingCall);
    for (let row = 0; row < length; row++) {
      if (columns.kind[row] !== hostKind.call || waits[columns.name[row] as number] !== 1) continue;
      const thread = columns.thread[row] as number;
      let union = this.#threads.get(thread);
      if (union === undefined) {
        union = new Intervals();
        this.#threads.set(thread, union);
        this.#rows.set(thread, []);
      }
      const before = union.length;
      union.add(columns.start[row] as number, columns.end[row] as number);
      if (union.length > before) (this.#rows.get(thread) as number[]).push(row);
    }
  }

  within(thread: number, from: number, until: number, piece: (from: number, until: number, at: number) => void): void {
    this.#threads.get(thread)?.within(from, until, piece);
  }

  /** Name of the thread's wait `at`. */
  nameOf(thread: number, at: number): number {
    return this.#work.host.columns.name[this.#rows.get(thread)?.[at] as number] as number;
  }
}

/** The pieces of all gaps between `from` and `until`, in order; they add up to the idle time. */
export function idlePieces(work: RankWork, from: number, until: number, waits = new HostWaits(work)): readonly IdlePiece[] {
  const pieces: IdlePiece[] = [];
  const launches: LaunchGap[] = [];
  const { start, end } = work.work.columns;
  const { length } = work.work;
  let busyUntil = from;
  let row = 0;
  while (row < length && (end[row] as number) <= from) row++;
  for (; row < length && (start[row] as number) < until; row++) {
    if (!work.isBusy(row) || end[row] === start[row]) continue;
    if ((start[row] as number) > busyUntil) addGap(work, waits, { pieces, launches }, busyUntil, start[row] as number, row);
    busyUntil = Math.max(busyUntil, end[row] as number);
  }
  // Nothing was launched any more: the host was late with what never came.
  const thread = busyUntil < until ? lastThread(work) : -1;
  if (thread >= 0) addLate(waits, pieces, busyUntil, until, thread);
  else if (busyUntil < until) pieces.push({ cause: 'other', from: busyUntil, until, thread, hostShare: 0 });
  return withHostShares(pieces, launches);
}

/** A gap between a launch and its work: place of its piece, and since when the work was queued as the gap began, ns; negative: not yet. */
interface LaunchGap {
  readonly place: number;
  readonly queued: number;
}

/** Gaps before work that was queued for long, from which on their median is the device's own pause. */
const pausesMin = 16;

/**
 * A launch holds its work back where the queue was empty: had the host been ahead, the gap would be the device's own pause, as before work that was
 * queued long ago.
 */
function withHostShares(pieces: IdlePiece[], launches: readonly LaunchGap[]): readonly IdlePiece[] {
  const lengthOf = ({ place }: LaunchGap): number => (pieces[place] as IdlePiece).until - (pieces[place] as IdlePiece).from;
  const isQueued = (gap: LaunchGap): boolean => gap.queued + lengthOf(gap) > limits.gpuKernelGapNsMax;
  const pauses = launches.filter((gap) => gap.queued >= 0 && isQueued(gap)).map(lengthOf);
  const pause = pauses.length >= pausesMin ? median(pauses) : limits.gpuKernelPauseNs;
  for (const gap of launches) {
    const length = lengthOf(gap);
    if (length <= pause || (gap.queued >= 0 && isQueued(gap))) continue;
    pieces[gap.place] = { ...(pieces[gap.place] as IdlePiece), hostShare: (length - pause) / length };
  }
  return pieces;
}

function lastThread(work: RankWork): number {
  for (let row = work.work.length - 1; row >= 0; row--) {
    const call = work.callOf(row);
    if (call >= 0) return work.host.columns.thread[call] as number;
  }
  return -1;
}

/** Work behind one without a launch in which a launch is looked for. */
const lookMax = 64;

/** Row of the call that launched the work in `row`; where none was recorded, that of the work behind it on its stream, launched soon after. -1 for none. */
function nearestCall(work: RankWork, row: number): number {
  const own = work.callOf(row);
  if (own >= 0) return own;
  const { start, stream } = work.work.columns;
  const end = Math.min(work.work.length, row + lookMax);
  for (let next = row + 1; next < end; next++) {
    const call = stream[next] === stream[row] ? work.callOf(next) : -1;
    if (call < 0) continue;
    const called = work.host.columns.start[call] as number;
    return called <= (start[row] as number) + limits.gpuLaunchDelayNsMax ? call : -1;
  }
  return -1;
}

/** A gap that ends with the work in `row`. */
function addGap(
  work: RankWork,
  waits: HostWaits,
  { pieces, launches }: { readonly pieces: IdlePiece[]; readonly launches: LaunchGap[] },
  from: number,
  until: number,
  row: number,
): void {
  const call = nearestCall(work, row);
  if (call < 0) {
    pieces.push({ cause: 'other', from, until, thread: -1, hostShare: 0 });
    return;
  }
  const { columns } = work.host;
  const thread = columns.thread[call] as number;
  const [called, returned] = [columns.start[call] as number, columns.end[call] as number];
  if (called <= from) {
    const cause = until - from <= limits.gpuKernelGapNsMax ? 'launch' : 'dependency';
    if (cause === 'launch') launches.push({ place: pieces.length, queued: from - called });
    pieces.push({ cause, from, until, thread, hostShare: 0 });
    return;
  }
  const late = Math.min(called, until);
  addLate(waits, pieces, from, late, thread);
  if (late === until) return;
  const launched = Math.min(until, Math.max(late, returned) + limits.gpuLaunchDelayNsMax);
  launches.push({ place: pieces.length, queued: from - called });
  pieces.push({ cause: 'launch', from: late, until: launched, thread, hostShare: 0 });
  if (launched < until) pieces.push({ cause: 'dependency', from: launched, until, thread, hostShare: 0 });
}

/** A stretch in which the devices waited for the host. */
function addLate(waits: HostWaits, pieces: IdlePiece[], from: number, until: number, thread: number): void {
  let at = from;
  waits.within(thread, from, until, (start, end) => {
    if (start > at) pieces.push({ cause: 'hostLate', from: at, until: start, thread, hostShare: 1 });
    pieces.push({ cause: 'dependency', from: start, until: end, thread, hostShare: 0 });
    at = end;
  });
  if (until > at) pieces.push({ cause: 'hostLate', from: at, until, thread, hostShare: 1 });
}

/** Time by cause between `from` and `until`, for pieces in order. */
export function idleParts(pieces: readonly IdlePiece[]): IdleParts {
  const parts = noIdle();
  for (const { cause, from, until } of pieces) parts[cause] += until - from;
  return parts;
}

/** Time that devices would not idle if the host were far enough ahead of them, ns. */
export const hostBoundTime = (pieces: readonly IdlePiece[]): number =>
  pieces.reduce((sum, { from, until, hostShare }) => sum + hostShare * (until - from), 0);

/** The pieces inside each window, cut at its ends; windows are disjoint and in order, and so are pieces. */
export function piecesWithin(
  pieces: readonly IdlePiece[],
  windows: readonly { readonly start: number; readonly end: number }[],
): readonly (readonly IdlePiece[])[] {
  let at = 0;
  return windows.map(({ start, end }) => {
    const inside: IdlePiece[] = [];
    while (at < pieces.length && (pieces[at] as IdlePiece).until <= start) at++;
    for (let index = at; index < pieces.length && (pieces[index] as IdlePiece).from < end; index++) {
      const piece = pieces[index] as IdlePiece;
      inside.push({ ...piece, from: Math.max(start, piece.from), until: Math.min(end, piece.until) });
    }
    return inside;
  });
}

/** The host's places in the pieces, the longest time first. */
export function idlePlaces(work: RankWork, pieces: readonly IdlePiece[], waits = new HostWaits(work)): readonly IdlePlace[] {
  const places = new Map<string, { cause: IdleCause; phase: number; op: number; time: number; gaps: number }>();
  const add = (cause: IdleCause, phase: number, op: number, time: number): void => {
    if (time <= 0) return;
    const key = `${cause} ${phase} ${op}`;
    let place = places.get(key);
    if (place === undefined) {
      place = { cause, phase, op, time: 0, gaps: 0 };
      places.set(key, place);
    }
    place.time += time;
    place.gaps++;
  };
  const ops = new TopOps(work);
  for (const { cause, from, until, thread } of pieces) {
    overPhases(work, from, until, (phase, start, end) => {
      if (cause === 'hostLate') ops.within(thread, start, end, (op, time) => add(cause, phase, op, time));
      else if (cause === 'dependency') {
        let left = end - start;
        waits.within(thread, start, end, (waitFrom, waitUntil, at) => {
          add(cause, phase, waits.nameOf(thread, at), waitUntil - waitFrom);
          left -= waitUntil - waitFrom;
        });
        add(cause, phase, 0, left);
      } else add(cause, phase, 0, end - start);
    });
  }
  const { names } = work;
  return [...places.values()]
    .sort((a, b) => b.time - a.time)
    .map(({ cause, phase, op, time, gaps }) => ({ cause, phase: names.text(phase), op: names.text(op), time, gaps }));
}

/** Cuts a stretch at the borders of phases. */
function overPhases(work: RankWork, from: number, until: number, piece: (phase: number, from: number, until: number) => void): void {
  const { phases } = work;
  let at = 0;
  let high = phases.length;
  while (at < high) {
    const middle = (at + high) >> 1;
    if ((phases[middle]?.end as number) <= from) at = middle + 1;
    else high = middle;
  }
  let time = from;
  for (; at < phases.length && time < until; at++) {
    const { start, end, name } = phases[at] as RankWork['phases'][number];
    if (start >= until) break;
    if (start > time) piece(0, time, start);
    piece(name, Math.max(time, start), Math.min(until, end));
    time = Math.max(time, Math.min(until, end));
  }
  if (time < until) piece(0, time, until);
}

/** The outermost ops of each thread. */
class TopOps {
  readonly #threads: { readonly union: Intervals; readonly names: number[] }[] = [];

  constructor(work: RankWork) {
    const { columns, length } = work.host;
    const { topOp } = work.links;
    for (let row = 0; row < length; row++) {
      if (topOp[row] !== row + 1) continue;
      const thread = columns.thread[row] as number;
      while (this.#threads.length <= thread) this.#threads.push({ union: new Intervals(), names: [] });
      const { union, names } = this.#threads[thread] as { union: Intervals; names: number[] };
      // Ops that touch stay apart, so that each keeps its name.
      const before = union.until.at(-1) ?? Number.NEGATIVE_INFINITY;
      const start = Math.max(before, columns.start[row] as number);
      if ((columns.end[row] as number) <= start) continue;
      union.from.push(start);
      union.until.push(columns.end[row] as number);
      names.push(columns.name[row] as number);
    }
  }

  /** Calls back with the time in each op, and with that between them, name 0. */
  within(thread: number, from: number, until: number, piece: (op: number, time: number) => void): void {
    const ops = this.#threads[thread];
    let left = until - from;
    ops?.union.within(from, until, (start, end, at) => {
      piece(ops.names[at] as number, end - start);
      left -= end - start;
    });
    if (left > 0) piece(0, left);
  }
}

export const streamWaitKinds = ['host_wait', 'kernel_wait', 'other'] as const;

/** HTA's idle time of one stream: pauses between its work by HTA's three categories. */
export interface StreamWaits {
  readonly device: number;
  readonly stream: number;
  /** Pauses in order of time, ns; negative where work overlaps. A category that no work of the stream has is absent. */
  readonly pauses: Readonly<Partial<Record<(typeof streamWaitKinds)[number], readonly number[]>>>;
}

/** Pauses of each stream as HTA defines them, streams in order of their first work. */
export function streamWaits(work: RankWork): readonly StreamWaits[] {
  const { columns, length } = work.work;
  const streams = new Map<number, { before: number; pauses: Partial<Record<(typeof streamWaitKinds)[number], number[]>> }>();
  for (let row = 0; row < length; row++) {
    if (columns.kind[row] === kindOf.sync) continue;
    const stream = columns.stream[row] as number;
    const start = columns.start[row] as number;
    let held = streams.get(stream);
    if (held === undefined) {
      // The first work of a stream has no pause before it, but a category.
      held = { before: Number.NaN, pauses: { other: [] } };
      streams.set(stream, held);
    }
    const pause = start - held.before;
    if (!Number.isNaN(pause)) {
      const call = work.callOf(row);
      const isLate = call >= 0 && (work.host.columns.start[call] as number) > held.before;
      const kind = isLate ? 'host_wait' : pause < limits.gpuKernelGapNsMax ? 'kernel_wait' : 'other';
      const { [kind]: pauses = [] } = held.pauses;
      held.pauses[kind] = pauses;
      pauses.push(pause);
    }
    held.before = columns.end[row] as number;
  }
  return [...streams].map(([index, { pauses }]) => ({ ...(work.streams[index] as { device: number; stream: number }), pauses }));
}

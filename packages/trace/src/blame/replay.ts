// Counterfactual: how long a window's steps would have taken with some work shorter. All ranks go through their pieces again, with the
// given lengths. Own work keeps its (new) length, transfers keep theirs, waits are recomputed:
//
//   leaving a meeting  =  the latest entry of its ranks + its transfer + this rank's lag behind the first to leave
//
// A meeting in a lane of its own (a stream) begins when the one before in that lane is over, and holds up only a rank that was seen to wait for it:
//
//   compute   ███ enter a ████████ enter b ██████│ waits for b │███    the end of a holds nobody up: only b's does
//   stream              a ────────────┤ b ─────────────────────┤
//
// Invariant: with measured lengths, times are as measured, except for clock errors and for ranks that left before the last came.

// Pieces are in columns, step after step and rank after rank: a window is replayed some ten times, with other lengths each time.

import type { BlameWindow, Meeting, Piece, RankStep } from './blame-window.ts';

/** New length of own work of rank `rank` (index) in step `step` (index) and phase `phase`, measured as `length` ns. */
export type NewLength = (rank: number, step: number, phase: number, length: number) => number;

/** Numbers of pieces' kinds; waits and transfers follow from the others, and the end of a meeting that runs behind own work from its lane. */
const kindNumber: Readonly<Record<Piece['kind'] | 'hidden', number>> = {
  ...{ own: 0, unmatched: 1, enter: 2, leave: 3, wait: 4, transfer: 4 },
  hidden: 5,
};

/** How far a replay is, by number of a meeting. */
interface Meetings {
  readonly arrived: Uint32Array;
  /** The latest entry so far. */
  readonly latest: Float64Array;
  readonly isOver: Uint8Array;
  readonly waiting: (number[] | undefined)[];
}

const isInLane = (piece: Piece): boolean => piece.kind === 'enter' && piece.lane !== undefined;

/**
 * The kinds of a step's pieces, some of which run in lanes, as they are replayed. A meeting that ends in the midst of own work is hidden, and what was taken
 * for a wait, but ended in own work instead of a meeting's end, was a wait for something else: it keeps its length.
 */
function kindsOf(pieces: readonly Piece[]): readonly number[] {
  const kinds = pieces.map(({ kind }) => kindNumber[kind]);
  let waited: number[] = [];
  const goOn = (): void => {
    for (const at of waited) kinds[at] = kindNumber.unmatched;
    waited = [];
  };
  let isWaiting = false;
  for (const [at, { kind }] of pieces.entries()) {
    if (kind === 'wait' || kind === 'transfer') {
      waited.push(at);
      isWaiting = true;
    } else if (kind === 'leave') {
      if (isWaiting) waited = [];
      else kinds[at] = kindNumber.hidden;
    } else if (kind !== 'enter') {
      goOn();
      isWaiting = false;
    }
  }
  goOn();
  return kinds;
}

export class Replay {
  readonly #window: BlameWindow;
  /** By step × ranks + rank: its first piece. */
  readonly #firsts: Uint32Array;
  readonly #kinds: Uint8Array;
  readonly #phases: Uint32Array;
  /** Of own and unmatched work its length; of the end of a meeting, its transfer and the rank's lag. */
  readonly #lengths: Float64Array;
  /** Numbers of meetings. */
  readonly #meetings: Uint32Array;
  /** By number of a meeting: how many ranks enter it within the window, and 1 for a send. */
  readonly #members: Uint32Array;
  readonly #isSend: Uint8Array;
  /** By number of a meeting: from its latest entry until the last rank has left. */
  readonly #lasting: Float64Array;
  /** By number of a meeting: the one before it in its lane, -1 for none. */
  readonly #before: Int32Array;
  /** [from, until) of consecutive steps. */
  readonly #stretches: (readonly [number, number])[] = [];

  constructor(window: BlameWindow) {
    this.#window = window;
    const all = window.steps.flatMap(({ ranks }) => ranks);
    this.#firsts = new Uint32Array(all.length + 1);
    for (const [at, { pieces }] of all.entries()) this.#firsts[at + 1] = (this.#firsts[at] as number) + pieces.length;
    const count = this.#firsts[all.length] as number;
    this.#kinds = new Uint8Array(count);
    this.#phases = new Uint32Array(count);
    this.#lengths = new Float64Array(count);
    this.#meetings = new Uint32Array(count);
    const { numbers, before } = this.#fill(all);
    this.#members = new Uint32Array(numbers.size);
    for (let piece = 0; piece < count; piece++) {
      const meeting = this.#meetings[piece] as number;
      if (this.#kinds[piece] === kindNumber.enter) this.#members[meeting] = (this.#members[meeting] as number) + 1;
    }
    this.#isSend = Uint8Array.from(numbers.keys(), ({ pair }) => (pair === undefined ? 0 : 1));
    this.#lasting = new Float64Array(numbers.size);
    for (let piece = 0; piece < count; piece++) {
      const [kind, meeting] = [this.#kinds[piece], this.#meetings[piece] as number];
      if (kind !== kindNumber.leave && kind !== kindNumber.hidden) continue;
      this.#lasting[meeting] = Math.max(this.#lasting[meeting] as number, this.#lengths[piece] as number);
    }
    this.#before = Int32Array.from(numbers.values(), (number) => before.get(number) ?? -1);
    for (const [index, { follows }] of window.steps.entries()) {
      const last = this.#stretches.at(-1);
      if (last === undefined || !follows) this.#stretches.push([index, index + 1]);
      else this.#stretches[this.#stretches.length - 1] = [last[0], index + 1];
    }
  }

  /** Mean length of a step of the cluster, ns. `transfers`: factor on the measured transfers and exit lags; `sends` false: no rank waits for a send. */
  meanStep(newLength: NewLength, transfers = 1, sends = true): number {
    const { steps } = this.#window;
    const count = this.#members.length;
    const meetings = {
      arrived: new Uint32Array(count),
      latest: new Float64Array(count),
      isOver: new Uint8Array(count),
      waiting: new Array<number[] | undefined>(count).fill(undefined),
    };
    let total = 0;
    for (const [from, until] of this.#stretches) total += this.#stretch(from, until, meetings, newLength, transfers, sends);
    return steps.length === 0 ? 0 : total / steps.length;
  }

  /** Fills the columns; returns the meetings in order of number, and the number of the one before each in its lane. */
  #fill(all: readonly RankStep[]): { readonly numbers: ReadonlyMap<Meeting, number>; readonly before: ReadonlyMap<number, number> } {
    const { ranks, steps } = this.#window;
    /** By rank and lane, the last meeting. */
    let lasts = new Map<string, number>();
    const before = new Map<number, number>();
    const numbers = new Map<Meeting, number>();
    const numberOf = (meeting: Meeting): number => {
      const number = numbers.get(meeting) ?? numbers.size;
      if (number === numbers.size) numbers.set(meeting, number);
      return number;
    };
    let at = 0;
    for (const [place, { pieces }] of all.entries()) {
      const rank = place % ranks.length;
      if (rank === 0 && steps[place / ranks.length]?.follows !== true) lasts = new Map();
      const kinds = pieces.some(isInLane) ? kindsOf(pieces) : undefined;
      for (const [index, piece] of pieces.entries()) {
        this.#kinds[at] = kinds?.[index] ?? kindNumber[piece.kind];
        if (piece.kind === 'enter') {
          const number = numberOf(piece.meeting);
          this.#meetings[at] = number;
          if (piece.lane !== undefined) {
            const key = `${rank} ${piece.lane}`;
            const last = lasts.get(key);
            if (last !== undefined && !before.has(number)) before.set(number, last);
            lasts.set(key, number);
          }
        } else if (piece.kind === 'leave') {
          this.#meetings[at] = numberOf(piece.meeting);
          this.#lengths[at] = piece.meeting.transfer + piece.lag;
        } else {
          this.#phases[at] = piece.phase;
          this.#lengths[at] = piece.length;
        }
        at++;
      }
    }
    return { numbers, before };
  }

  #stretch(
    from: number,
    until: number,
    { arrived, latest, isOver, waiting }: Meetings,
    newLength: NewLength,
    transfers: number,
    sends: boolean,
  ): number {
    const { ranks, steps } = this.#window;
    const [firsts, kinds, phases, lengths, meetings] = [this.#firsts, this.#kinds, this.#phases, this.#lengths, this.#meetings];
    const clocks = new Float64Array(ranks.length);
    /** By rank: its step, and its next piece. */
    const atStep = new Uint32Array(ranks.length).fill(from);
    const next = firsts.slice(from * ranks.length, (from + 1) * ranks.length);
    const runnable = ranks.map((_, rank) => rank);
    const blocked = new Set<number>();
    for (let piece = firsts[from * ranks.length] as number; piece < (firsts[until * ranks.length] as number); piece++) {
      const kind = kinds[piece] as number;
      if (kind !== kindNumber.enter && kind !== kindNumber.leave) continue;
      const meeting = meetings[piece] as number;
      arrived[meeting] = 0;
      latest[meeting] = Number.NEGATIVE_INFINITY;
      isOver[meeting] = this.#members[meeting] === 0 ? 1 : 0;
    }
    const open = (meeting: number): void => {
      const before = this.#before[meeting] as number;
      if (before >= 0 && isOver[before] === 1) {
        latest[meeting] = Math.max(latest[meeting] as number, (latest[before] as number) + (this.#lasting[before] as number) * transfers);
      }
      isOver[meeting] = 1;
      blocked.delete(meeting);
      runnable.push(...(waiting[meeting] ?? []));
      waiting[meeting] = undefined;
    };
    /** Goes on with the rank's pieces before `end`; returns where it must wait, or `end`. */
    const pass = (rank: number, step: number, begin: number, end: number): number => {
      let clock = clocks[rank] as number;
      let piece = begin;
      for (; piece < end; piece++) {
        const kind = kinds[piece] as number;
        const length = lengths[piece] as number;
        if (kind === kindNumber.own) clock += newLength(rank, step, phases[piece] as number, length);
        else if (kind === kindNumber.unmatched) clock += length;
        else if (kind === kindNumber.enter || kind === kindNumber.leave) {
          const meeting = meetings[piece] as number;
          if (!sends && this.#isSend[meeting] === 1) continue;
          if (kind === kindNumber.enter) {
            latest[meeting] = Math.max(latest[meeting] as number, clock);
            arrived[meeting] = (arrived[meeting] as number) + 1;
            if (arrived[meeting] === this.#members[meeting]) open(meeting);
          } else if (isOver[meeting] === 1) clock = Math.max(clock, (latest[meeting] as number) + length * transfers);
          else {
            const others = waiting[meeting] ?? [];
            waiting[meeting] = others;
            others.push(rank);
            blocked.add(meeting);
            break;
          }
        }
      }
      clocks[rank] = clock;
      return piece;
    };
    for (;;) {
      const rank = runnable.pop();
      if (rank === undefined) {
        // The waits form a circle: clock errors reversed the order of some entries. The rank that came first continues.
        const [first] = blocked;
        if (first === undefined) break;
        open(first);
        continue;
      }
      let step = atStep[rank] as number;
      let piece = next[rank] as number;
      for (; step < until; step++) {
        const place = step * ranks.length + rank;
        const [first, end] = [firsts[place] as number, firsts[place + 1] as number];
        if (step !== atStep[rank]) piece = first;
        if (piece === first && step > from) clocks[rank] = (clocks[rank] as number) + (steps[step]?.ranks[rank]?.gap as number);
        piece = pass(rank, step, piece, end);
        if (piece < end) break;
      }
      atStep[rank] = step;
      next[rank] = piece;
    }
    return Math.max(0, ...clocks);
  }
}

// Counterfactual: how long a window's steps would have taken with some work shorter. All ranks go through their pieces again, with the
// given lengths. Own work keeps its (new) length, transfers keep theirs, waits are recomputed:
//
//   leaving a meeting  =  the latest entry of its ranks + its transfer + this rank's lag behind the first to leave
//
// Invariant: with measured lengths, times are as measured, except for clock errors and for ranks that left before the last came.

import type { BlameStep, BlameWindow, Meeting, Piece, RankStep } from './blame-window.ts';

/** New length of own work of rank `rank` (index) in step `step` (index) and phase `phase`, measured as `length` ns. */
export type NewLength = (rank: number, step: number, phase: number, length: number) => number;

interface State {
  /** How many ranks enter it within the window. */
  readonly members: number;
  arrived: number;
  latest: number;
  isOver: boolean;
  readonly waiting: number[];
}

export class Replay {
  readonly #window: BlameWindow;
  readonly #members = new Map<Meeting, number>();
  /** [from, until) of consecutive steps. */
  readonly #stretches: (readonly [number, number])[] = [];

  constructor(window: BlameWindow) {
    this.#window = window;
    for (const [index, { follows, ranks }] of window.steps.entries()) {
      const last = this.#stretches.at(-1);
      if (last === undefined || !follows) this.#stretches.push([index, index + 1]);
      else this.#stretches[this.#stretches.length - 1] = [last[0], index + 1];
      for (const { pieces } of ranks) {
        for (const piece of pieces) {
          if (piece.kind === 'enter') this.#members.set(piece.meeting, (this.#members.get(piece.meeting) ?? 0) + 1);
        }
      }
    }
  }

  /** Mean length of a step of the cluster, ns. `transfers`: factor on the measured transfers and exit lags; `sends` false: no rank waits for a send. */
  meanStep(newLength: NewLength, transfers = 1, sends = true): number {
    const { steps } = this.#window;
    let total = 0;
    for (const [from, until] of this.#stretches) total += this.#stretch(from, until, newLength, transfers, sends);
    return steps.length === 0 ? 0 : total / steps.length;
  }

  #stretch(from: number, until: number, newLength: NewLength, transfers: number, sends: boolean): number {
    const { ranks, steps } = this.#window;
    const clocks = new Float64Array(ranks.length);
    const places = ranks.map(() => ({ step: from, piece: 0 }));
    const states = new Map<Meeting, State>();
    const runnable = ranks.map((_, rank) => rank);
    const blocked = new Set<Meeting>();
    const state = (meeting: Meeting): State => {
      let about = states.get(meeting);
      if (about === undefined) {
        about = { members: this.#members.get(meeting) ?? 0, arrived: 0, latest: Number.NEGATIVE_INFINITY, isOver: false, waiting: [] };
        about.isOver = about.members === 0;
        states.set(meeting, about);
      }
      return about;
    };
    const open = (meeting: Meeting, about: State): void => {
      about.isOver = true;
      blocked.delete(meeting);
      runnable.push(...about.waiting);
      about.waiting.length = 0;
    };
    /** Whether the rank may continue. */
    const pass = (rank: number, step: number, piece: Piece): boolean => {
      const clock = clocks[rank] as number;
      if (piece.kind === 'own') clocks[rank] = clock + newLength(rank, step, piece.phase, piece.length);
      else if (piece.kind === 'unmatched') clocks[rank] = clock + piece.length;
      else if (!sends && (piece.kind === 'enter' || piece.kind === 'leave') && piece.meeting.pair !== undefined) return true;
      else if (piece.kind === 'enter') {
        const about = state(piece.meeting);
        about.latest = Math.max(about.latest, clock);
        if (++about.arrived === about.members) open(piece.meeting, about);
      } else if (piece.kind === 'leave') {
        const about = state(piece.meeting);
        if (!about.isOver) {
          about.waiting.push(rank);
          blocked.add(piece.meeting);
          return false;
        }
        clocks[rank] = Math.max(clock, about.latest + (piece.meeting.transfer + piece.lag) * transfers);
      }
      return true;
    };
    for (;;) {
      const rank = runnable.pop();
      if (rank === undefined) {
        // The waits form a circle: clock errors reversed the order of some entries. The rank that came first continues.
        const [first] = blocked;
        if (first === undefined) break;
        open(first, state(first));
        continue;
      }
      const place = places[rank] as { step: number; piece: number };
      for (; place.step < until; place.step++, place.piece = 0) {
        const { pieces, gap } = (steps[place.step] as BlameStep).ranks[rank] as RankStep;
        if (place.piece === 0 && place.step > from) clocks[rank] = (clocks[rank] as number) + gap;
        let piece = pieces[place.piece];
        while (piece !== undefined && pass(rank, place.step, piece)) piece = pieces[++place.piece];
        if (piece !== undefined) break;
      }
    }
    return Math.max(0, ...clocks);
  }
}

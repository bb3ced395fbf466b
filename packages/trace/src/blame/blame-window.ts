// What blame is computed from: the last steps of all ranks, each as a sequence of pieces on the rank's own clock.
//
//   rank 0  │ own: data │ own: forward │ enter c │ wait (for 1) │ transfer │ leave c │ own: optimizer │
//   rank 1  │ own: data      │ own: forward       │ enter c │ transfer │ leave c │ own: optimizer │
//
// Own work is what lies outside of collectives, so it is a difference of two readings of one clock: no error of clocks is in it. What of a
// collective was waiting and what transfer compares clocks of several hosts, and carries their bound (`Meeting.epsilon`).
//
// Invariant: the lengths of a step's pieces are whole ns and add up to the step.

import type { NamedOp, OpTimes } from './op-times.ts';

/** Ranks that `peers` names alike do the same work, so they can be compared. */
export interface BlameRank {
  readonly rank: number;
  readonly host: string;
  readonly hostName: string;
  /** Stage and role, as far as known; '' where all ranks do the same. */
  readonly peers: string;
  /** Share, 0 … 1, of the time that its threads wanted a CPU in which they had none; undefined where that was not recorded. */
  readonly cpuWait?: number | undefined;
}

/** A point that ranks pass together: a collective, or a send and its receive. */
export interface Meeting {
  /** What it is called in a report, such as `all_reduce world`. */
  readonly name: string;
  /** The rank that came last. */
  readonly lastRank: number;
  /** From the last entry to the first exit, ns ≥ 0. */
  readonly transfer: number;
  /** ± ns of its waits and of its transfer; undefined where clocks are not aligned: then they come of lengths alone. */
  readonly epsilon: number | undefined;
}

/** One stretch of a rank's step, ns, or one of its ends of a meeting. `phase`: index into `BlameWindow.phases`. */
export type Piece =
  | { readonly kind: 'own'; readonly phase: number; readonly length: number }
  | { readonly kind: 'wait' | 'transfer'; readonly phase: number; readonly length: number; readonly meeting: Meeting }
  /** Inside of a collective whose other ranks are not known. */
  | { readonly kind: 'unmatched'; readonly phase: number; readonly length: number }
  | { readonly kind: 'enter'; readonly meeting: Meeting }
  /** `lag`: how much later than the first this rank leaves, ns. */
  | { readonly kind: 'leave'; readonly meeting: Meeting; readonly lag: number };

export interface RankStep {
  /** ns, whole. */
  readonly length: number;
  /** ns between the step before and this one. */
  readonly gap: number;
  readonly pieces: readonly Piece[];
  /** Undefined where none was recorded. */
  readonly ops?: OpTimes | undefined;
}

export interface BlameStep {
  readonly step: number;
  /** Whether it is the one right after the step before it in the window. */
  readonly follows: boolean;
  /** By index in `BlameWindow.ranks`. */
  readonly ranks: readonly RankStep[];
}

/** Numbers of the first and the last step of a stretch. */
export interface StepRange {
  readonly first: number;
  readonly last: number;
}

export interface BlameAlignment {
  /** The worst bound of any host's clock, ns; undefined when one is not aligned. */
  readonly bound: number | undefined;
  /** Ranks whose clocks are not aligned to the others'. */
  readonly unaligned: readonly number[];
}

export interface BlameWindow {
  readonly ranks: readonly BlameRank[];
  /** In the order in which a step goes through them; the last is `other`, what is in no phase. */
  readonly phases: readonly string[];
  /** Ascending; every rank is in every one. */
  readonly steps: readonly BlameStep[];
  /** Steps that took so much longer than the others (warm-up, checkpoints) that they say nothing of them: not in `steps`. */
  readonly leftOut: number;
  /** `pieces`: from collectives. `phases`: only lengths of phases are known, and where ranks wait is inferred from them. */
  readonly basis: 'pieces' | 'phases';
  readonly alignment: BlameAlignment;
  /** What `RankStep.ops` are called, by number. Absent: there are none. */
  readonly opAt?: ((op: number) => NamedOp | undefined) | undefined;
}

export const otherPhase = 'other';

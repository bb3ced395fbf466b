// The input of blame: the last steps of all ranks, each as a sequence of pieces on the rank's own clock.
//
//   rank 0  │ own: data │ own: forward │ enter c │ wait (for 1) │ transfer │ leave c │ own: optimizer │
//   rank 1  │ own: data      │ own: forward       │ enter c │ transfer │ leave c │ own: optimizer │
//
// Own work lies outside collectives, so it is a difference of two readings of one clock, free of clock error. Splitting a collective into
// waiting and transfer compares clocks of several hosts, and carries their bound (`Meeting.epsilon`).
//
// Invariant: the lengths of a step's pieces are whole ns and add up to the step.

import type { PhaseRole } from '@ranktrace/protocol';
import type { LoaderTime } from './loader-queues.ts';
import type { LongStep } from './long-steps.ts';
import type { NamedOp, OpTimes } from './op-times.ts';

/** A rank. Ranks with equal `peers` do the same work, so they can be compared. */
export interface BlameRank {
  readonly rank: number;
  readonly host: string;
  readonly hostName: string;
  /** Stage and role, as far as known; '' if all ranks do the same. */
  readonly peers: string;
  /** Share, 0 … 1, of the time its threads wanted a CPU in which they had none; absent if not recorded. */
  readonly cpuWait?: number | undefined;
  /** That time, all threads together, as a share of all time; absent if not recorded. */
  readonly cpuWaitTime?: number | undefined;
}

/** A point that ranks pass together: a collective, or a send and its receive. */
export interface Meeting {
  /** Name for reports, such as `all_reduce world`. */
  readonly name: string;
  /** The rank that came last. */
  readonly lastRank: number;
  /** From the last entry to the first exit, ns ≥ 0. */
  readonly transfer: number;
  /** ± ns of its waits and of its transfer; undefined if clocks are not aligned: then both come from lengths alone. */
  readonly epsilon: number | undefined;
  /** No rank leaves it before all are in, so none was inside for less than its transfer: that takes at least so long, whatever the clocks show. */
  readonly isTransferSure?: true;
  /** Of a send: the sending and the receiving rank. */
  readonly pair?: readonly [number, number];
}

/** One stretch of a rank's step, ns, or one end of a meeting. `phase`: index into `BlameWindow.phases`. */
export type Piece =
  | { readonly kind: 'own'; readonly phase: number; readonly length: number }
  | { readonly kind: 'wait' | 'transfer'; readonly phase: number; readonly length: number; readonly meeting: Meeting }
  /** Inside a collective with unknown other ranks, or in a phase of waiting. */
  | { readonly kind: 'unmatched'; readonly phase: number; readonly length: number }
  /** `lane`: of the rank, in which it runs beside own work, after the one before in that lane. Absent: the rank itself is in it. */
  | { readonly kind: 'enter'; readonly meeting: Meeting; readonly lane?: number }
  /** `lag`: how much later than the first rank this one leaves, ns. */
  | { readonly kind: 'leave'; readonly meeting: Meeting; readonly lag: number };

export interface RankStep {
  /** Length, whole ns. */
  readonly length: number;
  /** ns between the step before and this one. */
  readonly gap: number;
  readonly pieces: readonly Piece[];
  /** Undefined if none were recorded. */
  readonly ops?: OpTimes | undefined;
}

export interface BlameStep {
  readonly step: number;
  /** Whether it directly follows the step before it in the window. */
  readonly follows: boolean;
  /** By index in `BlameWindow.ranks`. */
  readonly ranks: readonly RankStep[];
}

/** Numbers of a stretch's first and last step. */
export interface StepRange {
  readonly first: number;
  readonly last: number;
}

export interface BlameAlignment {
  /** The worst bound of any host's clock, ns; undefined if one is not aligned. */
  readonly bound: number | undefined;
  /** Ranks with clocks not aligned to the others'. */
  readonly unaligned: readonly number[];
}

export interface BlameWindow {
  readonly ranks: readonly BlameRank[];
  /** In the order of a step; the last is `other`, the time outside all phases. */
  readonly phases: readonly string[];
  /** By phase. */
  readonly roles: readonly PhaseRole[];
  /** Ascending; every step holds every rank. */
  readonly steps: readonly BlameStep[];
  /** Steps so much longer than the others (warm-up, checkpoints) that they are of another kind: not in `steps`. */
  readonly leftOut: number;
  /** These; absent: they are not looked at. */
  readonly long?: readonly LongStep[] | undefined;
  /** `pieces`: from collectives. `phases`: only phase lengths are known, and waits are inferred from them. */
  readonly basis: 'pieces' | 'phases';
  /** Phases in which ranks meet though no collective was recorded there: why the basis is not `pieces`. */
  readonly hidden?: readonly string[];
  readonly alignment: BlameAlignment;
  /** By rank: what its loader takes for the batches of one step, if loaders work ahead and it is known. */
  readonly loaders?: readonly (LoaderTime | undefined)[] | undefined;
  /** The phase in which devices copy alone; absent: there is none. */
  readonly copyPhase?: string;
  /** Pieces of a phase are stretches between meetings, no units of work. */
  readonly isCutByMeetings?: true;
  /** Neither clocks nor collectives show who waits in a step: only what lasts over steps does. */
  readonly areWaitsGuessed?: true;
  /** Ops of `RankStep.ops`, by number. Absent: there are none. */
  readonly opAt?: ((op: number) => NamedOp | undefined) | undefined;
}

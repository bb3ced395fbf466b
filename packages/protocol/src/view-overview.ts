// The first page of a run: its step times over steps and ranks, what the GPUs did, findings and waits.
//
// Times are ns of the trace axis, lengths ns.

import type { PhaseRole } from './phase-role.ts';

/** Lengths of steps, ns. */
export interface StepPercentiles {
  readonly p50: number;
  readonly p90: number;
  readonly p95: number;
  readonly p99: number;
}

/** The first page: the slow parts of the run, their times and ranks. Bins have equally many steps. */
export interface Overview {
  /** Whether all ranks are read to their end. Until then it has only the steps that every rank has sent, so that ranks compare. */
  readonly allRead: boolean;
  readonly fromStep: number;
  readonly toStep: number;
  readonly steps: number;
  /** First step of each bin. */
  readonly bins: readonly number[];
  /** Trace time at which each bin begins on the first rank to begin it. */
  readonly times: readonly number[];
  /** Cluster step time per bin, ns: the slowest rank's mean; the median rank's; the fastest's; null where there is none. */
  readonly slowest: readonly (number | null)[];
  readonly median: readonly (number | null)[];
  readonly fastest: readonly (number | null)[];
  /** Percentiles of single steps, never of means; null where single steps of the range are not known. */
  readonly percentiles: StepPercentiles | null;
  /** `steps`: a step is as long as its slowest rank's. `rank`: those are not known one by one, so it is the rank whose steps are the longest. */
  readonly percentilesOf: 'steps' | 'rank';
  /**
   * `devices`: hosts run ahead of their devices, and lengths of steps are those on the devices; phases are parts of the hosts' steps. `unknown`: they may,
   * but not all steps of the devices are known. Absent: steps are the hosts'.
   */
  readonly stepsTakenBy?: 'devices' | 'unknown';
  /** Where steps are the devices', the median of the hosts' steps of the whole run, ns. */
  readonly hostMedian?: number;
  readonly ranks: readonly OverviewRank[];
  /** Names of `OverviewRank.phases`, in order of size; last `other`. */
  readonly phases: readonly string[];
  /** By `phases`. */
  readonly phaseRoles: readonly PhaseRole[];
  readonly findings: readonly ViewFinding[];
  /** Measures beside phases that the heat map can show: own work, waiting, busy devices. */
  readonly measures: readonly ('own' | 'waiting' | 'busy')[];
  /** In order of rank; absent where no device work was recorded. */
  readonly gpus?: readonly OverviewGpu[];
  /** Per rank, how it kept others waiting, all of them together: from all collectives whose last rank is certain. */
  readonly waiting: readonly { readonly rank: number; readonly lastIn: number; readonly waitedFor: number; readonly waits: number }[];
  /** All waiting of those ranks, ns, also where no rank was clearly the last. */
  readonly waitingWhole: number;
  /** Total time, ns, of all steps that `waiting` covers, whatever range is asked for, on all ranks together. */
  readonly waitingStepTime: number;
  /** Traces of captures, which `GET /v1/captures/RUN/NAME` gives; absent where there are none. */
  readonly captures?: readonly { readonly name: string; readonly bytes: number }[];
  /** Whether findings and waiting cover all data there is now. */
  readonly analysed: boolean;
  /** They cover only the time after this trace time, in a long run that goes on; null: the whole run. */
  readonly analysedSince: number | null;
}

/** Work of a rank's devices over its recorded steps; lengths in ns. */
export interface OverviewGpu {
  readonly rank: number;
  /** Which life of the rank, from 2 on. Absent: the first. */
  readonly life?: number;
  /** The sum of the parts. */
  readonly length: number;
  /** Compute alone, communication behind compute, communication alone, copies alone. */
  readonly compute: number;
  readonly overlapped: number;
  readonly exposed: number;
  readonly copies: number;
  /** Idle time by cause. */
  readonly hostLate: number;
  readonly launch: number;
  readonly dependency: number;
  readonly unknown: number;
  /** Where the host was while the devices waited for it most; '' where that is not known. */
  readonly hostPlace: string;
  /** Its kernels with most time. */
  readonly top: readonly { readonly name: string; readonly total: number }[];
}

/** Cells of the heat map by one measure. */
export interface HeatCells {
  /** First step of each bin: those of an overview of the same range. */
  readonly bins: readonly number[];
  /** By `OverviewRank.process`: mean ns per step of each bin; null where it is not known. */
  readonly rows: readonly { readonly process: number; readonly cells: readonly (number | null)[] }[];
}

export interface OverviewRank {
  readonly rank: number;
  readonly process: number;
  /** Which life of the rank, from 2 on, as the timeline numbers them: one without steps counts, too. Absent: the first. */
  readonly life?: number;
  readonly steps: number;
  /** ns. */
  readonly mean: number;
  /** Percentiles of single steps; null where those of the range are not known. */
  readonly p50: number | null;
  readonly p95: number | null;
  readonly longest: number;
  /** Where steps are the devices', the mean of the host's, ns. */
  readonly hostMean?: number;
  /** Mean ns per step, by `Overview.phases`. */
  readonly phases: readonly number[];
  /** Median over steps of the ns in each phase, by `Overview.phases`; absent once findings cover all data, which know more. */
  readonly typical?: readonly number[];
  /** Mean step of each bin, ns; null where the bin is empty. */
  readonly cells: readonly (number | null)[];
  /** Longest step of each bin, ns. */
  readonly peaks: readonly (number | null)[];
  /** Start of each bin in this life, trace time in ns, for a rank with several lives; null where the bin is empty. */
  readonly starts?: readonly (number | null)[];
}

/** Cost of a fault: docs/blame.md, "What a fault costs". Lengths in ns. */
export interface FindingCost {
  /** The first and the last step that show it. */
  readonly fromStep: number;
  readonly toStep: number;
  /** Steps that it makes longer, out of the compared steps; all of them where the two are equal. */
  readonly affectedSteps: number;
  readonly comparedSteps: number;
  /** Time by which an affected step would be shorter without it, and the same averaged over all steps. */
  readonly nsPerAffectedStep: number;
  readonly nsPerStep: number;
  /** Share of the time of all steps, 0 … 1. */
  readonly shareOfStep: number;
}

/** Something a person should look at. */
export interface ViewFinding {
  readonly severity: 'alert' | 'warning' | 'note';
  readonly kind: string;
  readonly text: string;
  /** Where to look; each is present only if known. */
  readonly ranks: readonly number[];
  /** The slow phase of the step, where known. */
  readonly phase?: string;
  readonly cost?: FindingCost;
  /** For an alert: its cause (a verdict of blame), and the first affected step. */
  readonly cause?: string;
  /** That cause in words, unless `text` has them. */
  readonly causeText?: string;
  readonly onsetStep?: number;
  /** For an alert: the name of the capture of its steps, one of `Overview.captures`. */
  readonly capture?: string;
  readonly from?: number;
  readonly until?: number;
}

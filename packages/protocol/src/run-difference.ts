// Two runs compared: A is before, B is after, and a difference is B − A. `ranktrace diff --json` and the page's Compare tab show this.
//
// Times are ns per step and rank: a run's times divided by its steps and ranks, so that runs of other lengths and sizes compare.

/** Verdict on the steps of a run against those of another. Only `slower` fails a check. */
export type StepVerdict = 'slower' | 'probably_slower' | 'unchanged' | 'probably_faster' | 'faster';

/** The subject of a line: a phase of a step; an op (any span of a host's thread); a kernel or a copy of a device; a collective; a remote call. */
export type DifferenceKind = 'phase' | 'op' | 'kernel' | 'copy' | 'collective' | 'call';

/**
 * `added`, `gone`: one run has none of it. `unrecorded`: one run recorded nothing of that kind of work at all. `slower`, `faster`: by at least the
 * asked share, and by more than the scatter of steps explains. `probably_…`: by as much, and the 95 % interval is without 0, but among so many names
 * that may be chance. `noise`: less. `unknown`: with fewer than three steps, scatter is not known.
 */
export type DifferenceStatus =
  | 'slower'
  | 'probably_slower'
  | 'probably_faster'
  | 'faster'
  | 'added'
  | 'gone'
  | 'noise'
  | 'unknown'
  | 'unrecorded';

/** One name in one run. */
export interface NameTimes {
  /** Number of them per step and rank. */
  readonly count: number;
  /** Mean time in them. */
  readonly total: number;
  /** Mean time that no span inside of them covers. */
  readonly self: number;
  /** Steps with detail that have it. */
  readonly steps: number;
  /** Middle and 90th percentile over steps of the compared time: self of a span, time of a phase. */
  readonly level: number;
  readonly p90: number;
}

export interface NameDifference {
  readonly kind: DifferenceKind;
  readonly on: 'host' | 'device';
  readonly name: string;
  /** Group of a collective. */
  readonly group: string;
  readonly status: DifferenceStatus;
  readonly a: NameTimes | null;
  readonly b: NameTimes | null;
  /** Difference of the levels, and its 95 % interval; the interval is null where scatter is not known. */
  readonly more: number;
  readonly low: number | null;
  readonly high: number | null;
  /** Share of A: 0.1 is 10 %; null where A has none. */
  readonly part: number | null;
  /** `median` over steps; `mean` of what is in fewer than half of the steps, or whose median few more steps could move far. */
  readonly basis: 'median' | 'mean';
  /** The ranks of both runs with the largest differences: mean self time per step. */
  readonly ranks: readonly { readonly rank: number; readonly a: number; readonly b: number }[];
}

/** One run of a comparison. */
export interface ComparedRun {
  readonly run: string;
  readonly ranks: number;
  /** Ranks that the other run lacks, the first few of them: nothing of theirs is compared rank by rank. */
  readonly ownRanks: readonly number[];
  readonly steps: number;
  /** Steps with detail: names compare over these. 0: none was recorded in steps, so the whole recording counts as one. */
  readonly detailSteps: number;
  /**
   * Steps of single ranks that came when the step was closed: its rank was too many steps behind, or ran it again. They are in sums and times of ranks,
   * not in levels.
   */
  readonly lateParts: number;
  /** Percentiles of the steps, each as long as its slowest rank; null without steps. */
  readonly stepTimes: {
    readonly least: number;
    readonly p10: number;
    readonly p50: number;
    readonly p90: number;
    readonly p99: number;
    readonly most: number;
  } | null;
  /** Steps by length, in bins of equal width between `RunDifference.binsFrom` and `binsUntil`. */
  readonly bins: readonly number[];
  /** Spans of names beyond the limit. */
  readonly leftOut: number;
}

export interface RunDifference {
  /** Null where a run has fewer than three steps that all of its ranks recorded. */
  readonly verdict: StepVerdict | null;
  /** The verdict in words, with change and interval; what long steps add, where they do; and what so many steps can prove. */
  readonly verdictText: string;
  readonly longText: string;
  readonly provableText: string;
  /** Share of the step from which a difference counts. */
  readonly failOn: number;
  /** Whose steps are compared: those of hosts, or as the devices take them, where hosts run ahead of these. */
  readonly stepsTakenBy: 'hosts' | 'devices';
  readonly a: ComparedRun;
  readonly b: ComparedRun;
  /** Lengths of steps, ns, between which `bins` lie. */
  readonly binsFrom: number;
  readonly binsUntil: number;
  /** In order of cost: the size of the difference, phases beside the spans in them. */
  readonly names: readonly NameDifference[];
  /** Lines beyond the limit. */
  readonly namesLeftOut: number;
}

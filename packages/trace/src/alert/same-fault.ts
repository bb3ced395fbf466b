// Whether an alert and a finding concern the same fault: if so, it is reported once, with the facts of both.
//
//   alert     │         onset ^━━━ certain ━━━▶ open …        ranks and onset, from the steps around the onset
//   finding   │           ├─ steps 400 to 999 ──┤             ranks and stretch, from all steps
//
// Ranks match if both name some and share one, or if neither names any and both have the same kind. Times match if the onset lies in the
// finding's steps or close to their beginning. A slow rise is found in the steps in which it has grown out of the noise: the onset lies before them.

import { alertLimits as limits } from './alert-limits.ts';

/** An alert's facts about a fault. */
export interface AlertedFault {
  readonly rule: string;
  /** `Alert.cause.kind`; undefined if it has none. */
  readonly cause: string | undefined;
  readonly ranks: readonly number[];
  readonly onsetStep: number | undefined;
}

/** A finding's facts about it: a verdict of blame, or a gap in a run's data. */
export interface ReportedFault {
  readonly kind: string;
  readonly ranks: readonly number[];
  /** First and last affected step; undefined if it affects none. */
  readonly steps: { readonly first: number; readonly last: number } | undefined;
}

/** Rules about ranks and their data, by the finding of the same meaning. */
const sameKinds: Readonly<Record<string, readonly string[]>> = {
  rank_stopped: ['rank_failed', 'rank_lost', 'restarted'],
  data_loss: ['data_loss'],
  clock_unaligned: ['clock_unaligned'],
  hang: ['hang'],
};

const stepRules: ReadonlySet<string> = new Set(['step_time', 'step_time_drift', 'step_time_limit']);

export function isSameFault({ rule, cause, ranks, onsetStep }: AlertedFault, reported: ReportedFault): boolean {
  const sharesRank = ranks.some((rank) => reported.ranks.includes(rank));
  if (!stepRules.has(rule)) return sameKinds[rule]?.includes(reported.kind) === true && sharesRank;
  if (reported.steps === undefined || onsetStep === undefined || cause === undefined || cause === 'inconclusive') return false;
  const isBefore = rule === 'step_time_drift' || onsetStep >= reported.steps.first - limits.alertOnsetStepsApartMax;
  const isThen = isBefore && onsetStep <= reported.steps.last;
  const isWho =
    ranks.length > 0 && reported.ranks.length > 0 ? sharesRank : ranks.length === reported.ranks.length && cause === reported.kind;
  return isThen && isWho;
}

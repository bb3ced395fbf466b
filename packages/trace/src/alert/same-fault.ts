// Whether an alert and a finding tell the same fault: then it is told once, with what both know.
//
//   alert     │         onset ^━━━ certain ━━━▶ open …        who and since when, from the steps around the onset
//   finding   │           ├─ steps 400 to 999 ──┤             who and from when to when, from all steps
//
// Who is the same where both name ranks and share one, or neither does and both are of one kind; when, where the onset lies in the finding's steps
// or close to their beginning.

import { alertLimits as limits } from './alert-limits.ts';

/** What an alert says of a fault. */
export interface AlertedFault {
  readonly rule: string;
  /** `Alert.cause.kind`; undefined: it has none. */
  readonly cause: string | undefined;
  readonly ranks: readonly number[];
  readonly onsetStep: number | undefined;
}

/** What a finding says of it: a verdict of blame, or what is missing of a run. */
export interface ToldFault {
  readonly kind: string;
  readonly ranks: readonly number[];
  /** The first and the last step that it is about; undefined where it is about none. */
  readonly steps: { readonly first: number; readonly last: number } | undefined;
}

/** Rules about ranks and their data, by the kind of finding that says the same. */
const sameKinds: Readonly<Record<string, string>> = {
  rank_stopped: 'rank_lost',
  data_loss: 'data_loss',
  clock_unaligned: 'clock_unaligned',
  hang: 'hang',
};

const stepRules: ReadonlySet<string> = new Set(['step_time', 'step_time_drift', 'step_time_limit']);

export function isSameFault({ rule, cause, ranks, onsetStep }: AlertedFault, told: ToldFault): boolean {
  const sharesRank = ranks.some((rank) => told.ranks.includes(rank));
  if (!stepRules.has(rule)) return sameKinds[rule] === told.kind && sharesRank;
  if (told.steps === undefined || onsetStep === undefined || cause === undefined || cause === 'inconclusive') return false;
  const isThen = onsetStep >= told.steps.first - limits.alertOnsetStepsApartMax && onsetStep <= told.steps.last;
  const isWho = ranks.length > 0 && told.ranks.length > 0 ? sharesRank : ranks.length === told.ranks.length && cause === told.kind;
  return isThen && isWho;
}

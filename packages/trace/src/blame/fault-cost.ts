// A fault's cost, in two figures that are the same wherever it is reported: in the report, on the page, in an alert and in `top`.
//
//   steps of the run       │ ─ ─ ─ ─ ▲ ▲ ▲ ▲ ▲ ▲ ─ ─ ─ ─ ─ ─ ─ ─ │     6 of 18 are affected
//   of an affected step    its gain without the fault, all other faults mended: 58.5 ms
//   of a step of the run   the same over all steps: 58.5 · 6 / 18 = 19.5 ms
//
// This is not how much longer the rank works than its peers (that is evidence): without the fault the others would wait for the next rank.

import { type FindingCost, nanosPerMs } from '@ranktrace/protocol';
import { lengthText, percentText } from '../model/quantity-text.ts';
import type { StepRange } from './blame-window.ts';

/** One fault's cost over the compared steps: all but those of another kind (`BlameWindow.leftOut`). */
export interface FaultCost {
  /** Steps that it lengthens, of `comparedSteps`. */
  readonly affectedSteps: number;
  readonly comparedSteps: number;
  /** Mean ms that an affected step would be shorter without it. */
  readonly costMsPerAffectedStep: number;
  /** The same over all steps, ms. */
  readonly costMsPerStep: number;
  /** Share of the time of all steps, 0 … 1. */
  readonly shareOfStep: number;
}

/** The cost in the form sent to pages. */
export function findingCostOf(finding: FaultCost & { readonly steps: StepRange }): FindingCost {
  const { steps, affectedSteps, comparedSteps, costMsPerAffectedStep, costMsPerStep, shareOfStep } = finding;
  return {
    ...{ fromStep: steps.first, toStep: steps.last, affectedSteps, comparedSteps, shareOfStep },
    ...{ nsPerAffectedStep: costMsPerAffectedStep * nanosPerMs, nsPerStep: costMsPerStep * nanosPerMs },
  };
}

/** Steps are compared; where the recording has none, windows cut at what repeats, or all of it. */
export type Compared = 'step' | 'window' | 'recording';

export const comparedIn = ({
  cutAt,
  steps,
}: {
  readonly cutAt?: string | undefined;
  readonly steps: { readonly count: number };
}): Compared => (cutAt === undefined ? 'step' : steps.count > 1 ? 'window' : 'recording');

/** `58.5 ms in each of 600 affected steps: 23.4 ms per step of the run, 27.7 % of the mean step`; `58.5 ms per step, 48.9 % of the mean step` if all are affected. */
export function costText(
  { affectedSteps, comparedSteps, nsPerAffectedStep, nsPerStep, shareOfStep }: FindingCost,
  compared: Compared = 'step',
): string {
  if (compared === 'recording') return `${lengthText(nsPerStep)}, ${percentText(shareOfStep)} of the recording`;
  const inAll = `${lengthText(nsPerStep)} per ${compared}`;
  const share = `${percentText(shareOfStep)} of the mean ${compared}`;
  if (affectedSteps >= comparedSteps) return `${inAll}, ${share}`;
  const each = affectedSteps === 1 ? `in one affected ${compared}` : `in each of ${affectedSteps} affected ${compared}s`;
  return `${lengthText(nsPerAffectedStep)} ${each}: ${inAll} of the run, ${share}`;
}

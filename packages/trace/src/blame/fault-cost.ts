// What a fault costs, in two figures that are the same wherever it is told: in the report, on the page, in an alert and in `top`.
//
//   steps of the run       │ ─ ─ ─ ─ ▲ ▲ ▲ ▲ ▲ ▲ ─ ─ ─ ─ ─ ─ ─ ─ │     6 of 18 are affected
//   of an affected step    what it would be shorter without the fault, all other faults mended: 58.5 ms
//   of a step of the run   the same over all steps: 58.5 · 6 / 18 = 19.5 ms
//
// That is not how much longer the rank works than its peers (which is evidence): without it the others would wait for the next rank.

import { type FindingCost, nanosPerMs } from '@ranktrace/protocol';
import { lengthText, percentText } from '../model/quantity-text.ts';
import type { StepRange } from './blame-window.ts';

/** The cost of one fault over the steps that were compared: all but those of another kind (`BlameWindow.leftOut`). */
export interface FaultCost {
  /** Steps that it makes longer, of `comparedSteps`. */
  readonly affectedSteps: number;
  readonly comparedSteps: number;
  /** ms that one of them would be shorter without it, the mean of them. */
  readonly costMsPerAffectedStep: number;
  /** ms: the same, over all steps. */
  readonly costMsPerStep: number;
  /** Of the time of all steps, 0 … 1. */
  readonly shareOfStep: number;
}

/** The cost as it is told to pages. */
export function findingCostOf(finding: FaultCost & { readonly steps: StepRange }): FindingCost {
  const { steps, affectedSteps, comparedSteps, costMsPerAffectedStep, costMsPerStep, shareOfStep } = finding;
  return {
    ...{ fromStep: steps.first, toStep: steps.last, affectedSteps, comparedSteps, shareOfStep },
    ...{ nsPerAffectedStep: costMsPerAffectedStep * nanosPerMs, nsPerStep: costMsPerStep * nanosPerMs },
  };
}

/** `58.5 ms in each of 600 affected steps: 23.4 ms per step of the run, 27.7 % of it`; `58.5 ms per step, 48.9 % of it` where all are affected. */
export function costText({ affectedSteps, comparedSteps, nsPerAffectedStep, nsPerStep, shareOfStep }: FindingCost): string {
  const inAll = `${lengthText(nsPerStep)} per step`;
  const share = `${percentText(shareOfStep)} of it`;
  if (affectedSteps >= comparedSteps) return `${inAll}, ${share}`;
  const each = affectedSteps === 1 ? 'in one affected step' : `in each of ${affectedSteps} affected steps`;
  return `${lengthText(nsPerAffectedStep)} ${each}: ${inAll} of the run, ${share}`;
}

// Puts alerts among the findings of a run's overview: the open ones, the last resolved ones, and steps that became faster. A fault that both an alert
// and the run's analysis report becomes one finding.

import { basename } from 'node:path';
import type { Alert, ViewFinding } from '@ranktrace/protocol';
import { lengthText, percentText } from '@ranktrace/trace';
import { endedHanging, isSameFault } from '@ranktrace/trace/alert';
import type { Improvement } from '@ranktrace/trace/detect';
import { aggregatorLimits as limits } from '../model/limits.ts';

/**
 * The alerts of one run as its page or report shows them: first the firing ones, then the resolved, each newest first; then its improvements.
 * `lastStep`: the run's; Infinity while it is not known.
 */
export function alertFindings(alerts: readonly Alert[], improvements: readonly Improvement[], lastStep: number): ViewFinding[] {
  const faster = improvements.toReversed().map(({ change, before, after, onsetStep }): ViewFinding => {
    const levels = `${lengthText(before)} → ${lengthText(after)}`;
    return {
      severity: 'note',
      kind: 'improvement',
      text: `steps are ${percentText(-change)} faster since step ${onsetStep}: ${levels}`,
      ranks: [],
    };
  });
  const newest = alerts.toReversed();
  const firing = newest.filter(({ state }) => state === 'firing');
  const resolved = newest.filter(({ state }) => state === 'resolved');
  const reported = [...firing, ...resolved].slice(0, limits.alertFindingsMax).map((alert): ViewFinding => {
    const { state, rule, summary, resolution, ranks, cause, onsetStep, capture } = alert;
    const text = state === 'firing' ? summary : `${summary} (over: ${resolution ?? ''})`;
    const phase = cause?.phase ?? undefined;
    return {
      ...{ severity: state === 'firing' || endedHanging(alert, lastStep) ? 'alert' : 'note', kind: rule, text, ranks: [...ranks] },
      ...(phase !== undefined && { phase }),
      ...(cause !== null && { cause: cause.kind, causeText: cause.text }),
      ...(onsetStep !== null && { onsetStep }),
      ...(capture?.state === 'written' && capture.path !== null && { capture: basename(capture.path) }),
      ...placeOf(alert),
    };
  });
  return [...reported, ...faster];
}

/**
 * Alerts, then the findings of the run's analysis. A fault in both appears once: as an alert while that is open, else as a finding that an alert
 * preceded.
 */
export function withAlerts(alerts: readonly ViewFinding[], found: readonly ViewFinding[]): ViewFinding[] {
  const left = [...found];
  const alone = alerts.flatMap((alert): ViewFinding[] => {
    const { kind: rule, cause, ranks, onsetStep } = alert;
    const at = left.findIndex(({ kind, ranks: of, cost }) => {
      const steps = cost === undefined ? undefined : { first: cost.fromStep, last: cost.toStep };
      return isSameFault({ rule, cause, ranks, onsetStep }, { kind, ranks: of, steps });
    });
    const same = left[at];
    if (same === undefined) return [alert];
    if (alert.severity === 'alert') {
      left.splice(at, 1);
      // The finding's words are of all steps, those of the alert's cause of a few around its onset.
      const { causeText: _, ...about } = alert;
      return [{ ...same, ...about, text: `${alert.text}. ${same.text}` }];
    }
    left[at] = {
      ...same,
      ...(alert.onsetStep !== undefined && { onsetStep: alert.onsetStep }),
      ...(alert.capture !== undefined && { capture: alert.capture }),
      text: `${same.text}. It was alerted about: ${alert.text}`,
    };
    return [];
  });
  return [...alone, ...left];
}

/** The time range of the link to the timeline. */
function placeOf({ link }: Alert): { readonly from?: number; readonly until?: number } {
  const [, from, until] = /[?&]from=(-?\d+)&until=(-?\d+)$/.exec(link ?? '') ?? [];
  return from === undefined || until === undefined ? {} : { from: Number(from), until: Number(until) };
}

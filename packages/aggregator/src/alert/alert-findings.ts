// Alerts among the findings of a run's overview: those that are open, the last ones that are over, and steps that became faster.

import type { Alert, ViewFinding } from '@ranktrace/protocol';
import { type Improvement, lengthText, percentText } from '@ranktrace/trace';
import { aggregatorLimits as limits } from '../limits.ts';

/** The alerts of one run as its page shows them: what is firing first, each newest first; then its improvements. */
export function alertFindings(alerts: readonly Alert[], improvements: readonly Improvement[]): ViewFinding[] {
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
  const told = [...firing, ...resolved].slice(0, limits.alertFindingsMax).map((alert): ViewFinding => {
    const { state, rule, summary, resolution, ranks } = alert;
    const text = state === 'firing' ? summary : `${summary} (over: ${resolution ?? ''})`;
    return { severity: state === 'firing' ? 'alert' : 'note', kind: rule, text, ranks: [...ranks], ...placeOf(alert) };
  });
  return [...told, ...faster];
}

/** What the link to the timeline says. */
function placeOf({ link }: Alert): { readonly from?: number; readonly until?: number } {
  const [, from, until] = /[?&]from=(-?\d+)&until=(-?\d+)$/.exec(link ?? '') ?? [];
  return from === undefined || until === undefined ? {} : { from: Number(from), until: Number(until) };
}

// Alerts among the findings of a run's overview: those that are open, and the last ones that are over.

import type { Alert, ViewFinding } from '@ranktrace/protocol';
import { aggregatorLimits as limits } from '../limits.ts';

/** The alerts of one run as its page shows them: what is firing first, each newest first. */
export function alertFindings(alerts: readonly Alert[]): ViewFinding[] {
  const newest = alerts.toReversed();
  const firing = newest.filter(({ state }) => state === 'firing');
  const resolved = newest.filter(({ state }) => state === 'resolved');
  return [...firing, ...resolved].slice(0, limits.alertFindingsMax).map((alert): ViewFinding => {
    const { state, rule, summary, resolution, ranks } = alert;
    const text = state === 'firing' ? summary : `${summary} (over: ${resolution ?? ''})`;
    return { severity: state === 'firing' ? 'alert' : 'note', kind: rule, text, ranks: [...ranks], ...placeOf(alert) };
  });
}

/** What the link to the timeline says. */
function placeOf({ link }: Alert): { readonly from?: number; readonly until?: number } {
  const [, from, until] = /[?&]from=(-?\d+)&until=(-?\d+)$/.exec(link ?? '') ?? [];
  return from === undefined || until === undefined ? {} : { from: Number(from), until: Number(until) };
}

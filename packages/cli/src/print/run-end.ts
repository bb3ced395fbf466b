// Whether a run ended well, for commands that compare its steps: where ranks failed, were lost or hung, its steps are those before that.

import { printable } from '@ranktrace/protocol';
import { hangsOf, type OpenWorkSummary } from '@ranktrace/trace';
import type { RunReport } from './print-summary.ts';

/** One sentence for each way in which the run did not end well, the worst first; none for a run that did. */
export function badEnds(
  { findings, summary, isLive = false }: Pick<RunReport, 'findings' | 'summary' | 'isLive'>,
  openWork: OpenWorkSummary,
): readonly string[] {
  const hangs = hangsOf(openWork, summary, isLive);
  const of = (kind: string): { readonly kind: string; readonly text: string }[] => findings.filter((one) => one.kind === kind);
  const kinds = [hangs.areEndedByKill ? [] : of('rank_lost'), of('rank_failed'), hangs.findings];
  return kinds.flatMap(([first, ...others]) => {
    if (first === undefined) return [];
    return [`${first.kind}: ${printable(first.text)}${others.length > 0 ? `, and ${others.length} more like it` : ''}`];
  });
}

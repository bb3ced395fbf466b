// The report's first statement, by the same priority as the page's headline and `top`: dead or hung, then slow ranks, a regression, another cause, or
// nothing of these.

import { printable, runStateOf, type ViewFinding } from '@ranktrace/protocol';
import type { Finding } from '@ranktrace/trace';
import type { RunBlame } from '@ranktrace/trace/blame';
import { blameHeadline } from './print-blame.ts';

interface Stated extends Pick<ViewFinding, 'kind' | 'severity'> {
  readonly text: string;
}

/** `in short: straggler: rank 2 in forward: 39.3 ms per step`; '' where the recording is too short to say. */
export function inShortLine(
  blame: Pick<RunBlame, 'verdict' | 'findings'>,
  missing: readonly Finding[],
  hanging: readonly ViewFinding[],
): string {
  const lost = missing.map(({ kind, text }): Stated => ({ kind, severity: 'alert', text: `${kind}: ${text}` }));
  const hangs = hanging.map(({ kind, severity, text }): Stated => ({ kind, severity, text: `${kind}: ${text}` }));
  const slow = blame.findings
    .filter(({ kind }) => kind !== 'inconclusive')
    .map((finding): Stated => {
      const isVerdict = finding.kind === 'straggler' || finding.kind === 'cluster_wide' || finding.kind === blame.verdict;
      return { kind: finding.kind, severity: isVerdict ? 'warning' : 'note', text: blameHeadline(finding) };
    });
  const { state, findings } = runStateOf([...lost, ...hangs, ...slow]);
  const [first] = findings;
  if (first !== undefined)
    return `in short: ${printable(first.text)}${findings.length > 1 ? `, and ${findings.length - 1} more like it` : ''}`;
  return state === 'balanced' && blame.verdict === 'balanced' ? 'in short: balanced, no rank is to blame' : '';
}

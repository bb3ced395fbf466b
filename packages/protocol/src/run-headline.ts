// The one statement about a run that comes first, by a fixed priority. The page, `top` and the report make it from the same findings, so they agree.
//
//   dead        a rank ended by an error or without goodbye, or sends nothing any more
//   hung        ranks are inside a collective that others never entered
//   straggler   few ranks make the others wait: by their phases, their GPUs, or what is waited for
//   regression  all became slower, in any window of the run
//   cause       another verdict about the steps: data, network, hosts, communication, imbalance
//   balanced    none of these

import type { ViewFinding } from './view-overview.ts';

export type RunState = 'dead' | 'hung' | 'straggler' | 'regression' | 'cause' | 'balanced';

/** The fields of a finding that decide. */
export type DecidingFinding = Pick<ViewFinding, 'kind' | 'severity' | 'cause'>;

const dead: ReadonlySet<string> = new Set(['rank_failed', 'rank_lost', 'rank_stopped']);
const slower: ReadonlySet<string> = new Set(['cluster_wide', 'step_time', 'step_time_drift', 'step_time_limit']);
const otherCauses: ReadonlySet<string> = new Set([
  ...['stage_imbalance', 'rotating_imbalance', 'cpu_contention', 'data_loading', 'network', 'host_bound', 'communication_bound'],
  ...['copy_bound', 'pipeline_bubble', 'long_steps'],
]);

/** A finding about single slow ranks that is worth a warning, or an open alert about them. */
export const isStraggler = ({ kind, severity, cause }: DecidingFinding): boolean =>
  (severity !== 'note' && kind === 'straggler') || (severity === 'alert' && cause === 'straggler');

/** Whether it charges steps to something other than single ranks. A note is no verdict. */
export const isSharedCause = ({ kind, severity, cause = kind }: DecidingFinding): boolean =>
  severity !== 'note' && [kind, cause].some((of) => of === 'cluster_wide' || otherCauses.has(of));

const deciding: readonly (readonly [RunState, (finding: DecidingFinding) => boolean])[] = [
  ['dead', ({ kind, severity }) => severity === 'alert' && dead.has(kind)],
  ['hung', ({ kind, severity }) => severity === 'alert' && kind === 'hang'],
  ['straggler', isStraggler],
  ['regression', ({ kind, severity }) => severity !== 'note' && slower.has(kind)],
  ['cause', isSharedCause],
];

/** The state of a run, and the findings that decide it, in their order; none for `balanced`. */
export function runStateOf<Finding extends DecidingFinding>(
  findings: readonly Finding[],
): { readonly state: RunState; readonly findings: readonly Finding[] } {
  for (const [state, decides] of deciding) {
    const found = findings.filter(decides);
    if (found.length > 0) return { state, findings: found };
  }
  return { state: 'balanced', findings: [] };
}

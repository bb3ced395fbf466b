// The blames of a job's attempts as one: each attempt was judged on its own, and a fault counts with its cost over the steps of all.
//
//   attempt 0   8 steps   straggler: rank 1, 3.4 ms in each      ─┐
//   attempt 1   6 steps   balanced                               ─┴─► straggler: rank 1, 3.4 ms in each of 8 affected steps of 14

import { nanosPerMs } from '@ranktrace/protocol';
import type { RunBlame, RunFinding } from './run-blame-sink.ts';

/** Joins the blames of attempts, in order of time; at least one. */
export function joinedBlame(parts: readonly RunBlame[]): RunBlame {
  const [last] = parts.slice(-1) as [RunBlame];
  if (parts.length === 1) return last;
  const count = parts.reduce((sum, { steps }) => sum + steps.count, 0);
  /** Length of all steps, ms. */
  const time = parts.reduce((sum, { steps, last: of }) => sum + steps.count * (of.step / nanosPerMs), 0);
  const faults = new Map<string, RunFinding[]>();
  for (const { findings } of parts) {
    for (const finding of findings) {
      const key = `${finding.kind} ${finding.ranks.join()} ${finding.ranks.length === 0 ? finding.phase : ''}`;
      const same = faults.get(key);
      if (same === undefined) faults.set(key, [finding]);
      else same.push(finding);
    }
  }
  const findings = [...faults.values()].map((same) => joinedFinding(same, count, time)).sort((a, b) => b.costMsPerStep - a.costMsPerStep);
  const costOf = ({ findings: of, verdict, steps }: RunBlame): number =>
    (of.find(({ kind }) => kind === verdict)?.costMsPerStep ?? -1) * steps.count;
  const judged = parts.reduce((most, part) => (costOf(part) >= costOf(most) ? part : most));
  const lasts = parts.map(({ steps }) => steps.last);
  const areRepeated = parts.some(({ steps }, at) => lasts.slice(0, at).some((before) => steps.first <= before));
  return {
    verdict: judged.verdict,
    verdictSteps: judged.verdictSteps,
    findings,
    last: last.last,
    steps: {
      ...{ first: Math.min(...parts.map(({ steps }) => steps.first)), last: Math.max(...lasts), count },
      windows: parts.reduce((sum, { steps }) => sum + steps.windows, 0),
      ...(areRepeated && { areRepeated }),
    },
    cutAt: parts.find(({ cutAt }) => cutAt !== undefined)?.cutAt,
  };
}

/** One fault of several attempts, with the words of the one where it costs most. */
function joinedFinding(same: readonly RunFinding[], count: number, time: number): RunFinding {
  const sum = (of: (finding: RunFinding) => number): number => same.reduce((total, finding) => total + of(finding), 0);
  const cost = sum(({ costMsPerStep, comparedSteps }) => costMsPerStep * comparedSteps);
  const affected = sum(({ affectedSteps }) => affectedSteps);
  const worst = same.reduce((most, finding) => (finding.costMsPerStep > most.costMsPerStep ? finding : most));
  return {
    ...worst,
    steps: { first: Math.min(...same.map(({ steps }) => steps.first)), last: Math.max(...same.map(({ steps }) => steps.last)) },
    stretches: sum(({ stretches }) => stretches),
    affectedSteps: affected,
    comparedSteps: count,
    costMsPerAffectedStep: cost / Math.max(1, affected),
    costMsPerStep: cost / Math.max(1, count),
    gainMsPerStep: sum(({ gainMsPerStep, comparedSteps }) => gainMsPerStep * comparedSteps) / Math.max(1, count),
    shareOfStep: time > 0 ? Math.min(1, cost / time) : 0,
  };
}

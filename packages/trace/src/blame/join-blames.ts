// The blames of a job's attempts, or of windows of its steps, as one: each was judged on its own, and a fault counts with its cost over the steps of all.
//
//   attempt 0   8 steps   straggler: rank 1, 3.4 ms in each      ─┐
//   attempt 1   6 steps   balanced                               ─┴─► straggler: rank 1, 3.4 ms in each of 8 affected steps of 14

import { nanosPerMs } from '@ranktrace/protocol';
import type { RunBlame, RunFinding } from './run-blame-sink.ts';

/** Joins blames of different steps, in order of time; at least one. */
export function joinedBlame(parts: readonly RunBlame[]): RunBlame {
  const [last] = parts.slice(-1) as [RunBlame];
  if (parts.length === 1) return last;
  const count = parts.reduce((sum, { steps }) => sum + steps.count, 0);
  /** Length of all steps, ms. */
  const time = parts.reduce((sum, { steps, last: of }) => sum + steps.count * (of.step / nanosPerMs), 0);
  const faults = new Map<string, Found[]>();
  for (const [part, { findings }] of parts.entries()) {
    for (const finding of findings) {
      const key = keyOf(finding);
      const same = faults.get(key);
      if (same === undefined) faults.set(key, [{ finding, part }]);
      else same.push({ finding, part });
    }
  }
  const findings = [...faults.values()].map((same) => joinedFinding(same, count, time)).sort((a, b) => b.costMsPerStep - a.costMsPerStep);
  const verdicts = new Set(parts.flatMap(({ findings: of, verdict }) => of.find(({ kind }) => kind === verdict) ?? []).map(keyOf));
  const judged = findings.find((finding) => verdicts.has(keyOf(finding)));
  const lasts = parts.map(({ steps }) => steps.last);
  const areRepeated = parts.some(({ steps }, at) => lasts.slice(0, at).some((before) => steps.first <= before));
  return {
    verdict: judged?.kind ?? last.verdict,
    verdictSteps: judged?.steps ?? last.verdictSteps,
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

/**
 * The blame of all windows of some steps, with that of the last of these together, which shows what is too small for one window. `last` covers some of
 * the same steps: a fault that both have counts with the larger cost.
 */
export function withLast(windows: RunBlame, last: RunBlame): RunBlame {
  const count = Math.max(1, windows.steps.count, last.steps.count);
  const share = last.steps.count / count;
  const costs = new Map(windows.findings.map((finding) => [keyOf(finding), finding.costMsPerStep]));
  const ofLast = last.findings.flatMap((finding): RunFinding[] => {
    const cost = finding.costMsPerStep * share;
    if (cost <= (costs.get(keyOf(finding)) ?? 0)) return [];
    const about = { costMsPerStep: cost, gainMsPerStep: finding.gainMsPerStep * share, shareOfStep: finding.shareOfStep * share };
    return [{ ...finding, ...about, comparedSteps: count }];
  });
  const isOfLast = new Set(ofLast.map(keyOf));
  const findings = [...windows.findings.filter((finding) => !isOfLast.has(keyOf(finding))), ...ofLast];
  findings.sort((a, b) => b.costMsPerStep - a.costMsPerStep);
  const costOf = ({ verdict }: RunBlame): number => findings.find(({ kind }) => kind === verdict)?.costMsPerStep ?? -1;
  const judged = costOf(last) > costOf(windows) ? last : windows;
  const verdictSteps = findings.find(({ kind }) => kind === judged.verdict)?.steps ?? judged.verdictSteps;
  return { ...windows, verdict: judged.verdict, verdictSteps, findings, last: last.last };
}

/** The same for one fault in several windows. */
const keyOf = ({ kind, ranks, phase }: RunFinding): string => `${kind} ${ranks.join()} ${ranks.length === 0 ? phase : ''}`;

interface Found {
  readonly finding: RunFinding;
  /** Place of its blame. */
  readonly part: number;
}

/** One fault of several blames, with the words of the one where it costs most. In consecutive ones it is one stretch. */
function joinedFinding(found: readonly Found[], count: number, time: number): RunFinding {
  const same = found.map(({ finding }) => finding);
  const goesOn = found.filter(({ part }, at) => at > 0 && part === (found[at - 1] as Found).part + 1).length;
  const sum = (of: (finding: RunFinding) => number): number => same.reduce((total, finding) => total + of(finding), 0);
  const cost = sum(({ costMsPerStep, comparedSteps }) => costMsPerStep * comparedSteps);
  const affected = sum(({ affectedSteps }) => affectedSteps);
  const worst = same.reduce((most, finding) => (finding.costMsPerStep > most.costMsPerStep ? finding : most));
  return {
    ...worst,
    steps: { first: Math.min(...same.map(({ steps }) => steps.first)), last: Math.max(...same.map(({ steps }) => steps.last)) },
    stretches: Math.max(1, sum(({ stretches }) => stretches) - goesOn),
    affectedSteps: affected,
    comparedSteps: count,
    costMsPerAffectedStep: cost / Math.max(1, affected),
    costMsPerStep: cost / Math.max(1, count),
    gainMsPerStep: sum(({ gainMsPerStep, comparedSteps }) => gainMsPerStep * comparedSteps) / Math.max(1, count),
    shareOfStep: time > 0 ? Math.min(1, cost / time) : 0,
  };
}

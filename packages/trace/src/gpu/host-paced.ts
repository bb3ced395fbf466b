// Costs of slow ranks where the others' hosts run ahead: without the slow rank, steps follow each other as fast as the next slowest host goes.
//
//   rank 0   host  1 │ 2 │ 3 │ 4 │ 5 │ …       it is ahead, so its device never waits for it while rank 2 is slow
//   rank 2   host  1   │ 2   │ 3   │ 4 …       mended, it leaves a step as long as that of rank 0's host, and not one without any host
//
// The time by which a mended step is longer so is that of all hosts: it counts to `host_bound`.

import { nanosPerMs } from '@ranktrace/protocol';
import { type Blame, type BlameFinding, mayBeVerdict, shareToReport } from '../blame/blame.ts';

/** A host that takes this share of the step or more is no faster than the slow one, or waits in something that the recording does not show. */
const aheadShareMax = 0.9;

/** `paces`: the mean length of each rank's step on its host, ns: one that waits for anything is as long as the devices' own. `phase`: that of `host_bound`. */
export function withHostPaces(blame: Blame, paces: ReadonlyMap<number, number>, phase: string): Blame {
  const { step } = blame;
  const isSlow = ({ kind, affected }: BlameFinding): boolean => kind === 'straggler' && affected === undefined;
  const slow = new Set(blame.findings.filter(isSlow).flatMap(({ ranks }) => ranks));
  const ahead = [...paces].filter(([, pace]) => pace < aheadShareMax * step);
  const paceOf = (isWanted: (rank: number) => boolean): number =>
    Math.max(0, ...ahead.flatMap(([rank, pace]) => (isWanted(rank) ? [pace] : [])));
  const usual = paceOf((rank) => !slow.has(rank));
  let moved = 0;
  const findings = blame.findings.map((finding): BlameFinding => {
    if (!isSlow(finding)) return finding;
    const costMost = (step - usual) / nanosPerMs;
    const gainMost = (step - paceOf((rank) => !finding.ranks.includes(rank))) / nanosPerMs;
    const cost = Math.min(finding.costMsPerStep, costMost);
    moved = Math.max(moved, finding.costMsPerStep - cost);
    const evidence =
      cost < finding.costMsPerStep
        ? [...finding.evidence, `without it the next slowest host takes ${(usual / nanosPerMs).toFixed(2)} ms for a step`]
        : finding.evidence;
    return {
      ...finding,
      ...{ costMsPerStep: cost, shareOfStep: (cost * nanosPerMs) / step, gainMsPerStep: Math.min(finding.gainMsPerStep, gainMost) },
      evidence,
    };
  });
  if (moved === 0) return blame;
  const hosts = findings.findIndex(({ kind }) => kind === 'data_loading');
  const known = findings[hosts];
  const cost = (known?.costMsPerStep ?? 0) + moved;
  const about = { costMsPerStep: cost, shareOfStep: (cost * nanosPerMs) / step, gainMsPerStep: cost };
  if (known !== undefined) findings[hosts] = { ...known, ...about };
  else findings.push({ kind: 'data_loading', ranks: [], phase, ...about, evidence: [] });
  const told = findings.filter((finding) => finding.kind !== 'data_loading' || finding.shareOfStep >= shareToReport);
  told.sort((a, b) => b.costMsPerStep - a.costMsPerStep);
  const whatIf = blame.whatIf.map((mended) => {
    const pace = paceOf((rank) => !mended.ranks.includes(rank));
    const stepMs = Math.max(mended.stepMs, pace / nanosPerMs);
    return { ...mended, stepMs, shorter: 1 - (stepMs * nanosPerMs) / step, slowdown: step / (stepMs * nanosPerMs) };
  });
  return { ...blame, findings: told, verdict: told.find(mayBeVerdict)?.kind ?? blame.verdict, whatIf };
}

// What to change, from measured rules: each with its evidence, its threshold and what it would save. Where no rule fires, there is none.
//
//   rule             fires, on the mean of a rank's steps                                        saves
//   data_loader      the host is in torch's data loader for over 5 % (TensorBoard plugin), or    the time in which the GPU idles meanwhile
//                    the GPU idles for over 5 % for a host in a loader or in phases of data
//   communication    communication behind no kernel takes over 10 % (TensorBoard plugin)         exposed communication
//   low_utilisation  kernels run for under 50 %, and it idles for most of the rest (plugin)      unknown
//   tensor_cores     no kernel uses tensor cores, and ops that could do (TensorBoard plugin);    unknown
//                    of devices of NVIDIA and AMD, whose kernels tell by their names
//   host_late        the GPU idles for over 10 % for a host that is in no data loader            that time
//   launches         it idles for over 10 % between launches and their kernels, but for its      that time
//                    own pauses before queued work
//   copies           copies and sets behind no kernel take over 10 %                             that time
//
// Communication kernels also spin for ranks that are late, which is no communication. The rank that waits least shows how much of it is: of several ranks,
// `communication` fires for all or for none, by the smallest share.
//
// The plugin's rules about DataParallel, the backend and the size of the device's memory need facts that merged events do not have.

import { percentText } from '../model/quantity-text.ts';
import type { PhaseRoles } from '../steps/phase-role.ts';
import type { RankWork } from './device-work.ts';
import type { GpuRank } from './gpu-summary.ts';
import { dataLoaderName, pluginSteps } from './plugin-compatible.ts';

export const recommendationRules = [
  'data_loader',
  'communication',
  'low_utilisation',
  'tensor_cores',
  'host_late',
  'launches',
  'copies',
] as const;
export type RecommendationRule = (typeof recommendationRules)[number];

export interface Recommendation {
  readonly rule: RecommendationRule;
  /** The ranks for which it fires. */
  readonly ranks: readonly number[];
  /** The largest of their shares, 0 … 1 (`low_utilisation`: the smallest), and the threshold that it passes. */
  readonly share: number;
  readonly threshold: number;
  /** ns per step on the rank with most, without steps of the whole recording; undefined: not known. */
  readonly saves: number | undefined;
  /** What to do, in a sentence. */
  readonly advice: string;
}

/** The rules of the rank with the least communication. */
const leastOf = (ranks: readonly { readonly shares: RuleShares }[]): RuleShares =>
  ranks.reduce((least, one) => (one.shares.communication.share < least.shares.communication.share ? one : least)).shares;

const thresholds: Readonly<Record<RecommendationRule, number>> = {
  ...{ data_loader: 0.05, communication: 0.1, low_utilisation: 0.5, tensor_cores: 0, host_late: 0.1, launches: 0.1, copies: 0.1 },
};

const advice: Readonly<Record<RecommendationRule, string>> = {
  data_loader: 'load batches in other processes and ahead: num_workers and prefetch_factor of the DataLoader',
  communication: 'communicate less or behind compute: larger buckets or batches, gradient accumulation, overlap with backward',
  low_utilisation: 'give the GPU more work at a time: a larger batch',
  tensor_cores: 'compute in mixed precision (torch.amp): these ops can use tensor cores, and none does',
  host_late:
    'launch earlier: compile the model or capture CUDA graphs, and take synchronisation and other work of the host out of the step',
  launches: 'launch less often: fuse small kernels, compile the model or capture CUDA graphs',
  copies:
    'copy behind compute: from pinned memory (pin_memory), ahead, with non_blocking on a stream of its own; or keep the data on the GPU',
};

const evidence: Readonly<Record<RecommendationRule, (share: string) => string>> = {
  data_loader: (share) => `the data loader takes ${share} of the time`,
  communication: (share) => `communication alone takes ${share} of the time`,
  low_utilisation: (share) => `kernels run on the GPU for only ${share} of the time`,
  tensor_cores: (share) => `ops that could use tensor cores take ${share} of the time of kernels, and no kernel uses them`,
  host_late: (share) => `the GPU waits for its host for ${share} of the time`,
  launches: (share) => `the GPU idles between launches and kernels for ${share} of the time`,
  copies: (share) => `the GPU does nothing but copy for ${share} of the time`,
};

/** The evidence in words: `the data loader takes 33.4 % of the time, over 5.0 %`. */
export function evidenceText({ rule, share, threshold }: Pick<Recommendation, 'rule' | 'share' | 'threshold'>): string {
  const limit = threshold === 0 ? '' : `, ${rule === 'low_utilisation' ? 'under' : 'over'} ${percentText(threshold)}`;
  return `${evidence[rule](percentText(share))}${limit}`;
}

/** A rule on one rank: its share, and what it would save, ns per step. */
export type RuleShares = Readonly<Record<RecommendationRule, { readonly share: number; readonly saves: number | undefined }>>;

type Measured = Pick<GpuRank, 'devices' | 'idle' | 'kernels' | 'steps' | 'stepsLeftOut' | 'totals'>;

/** The shares of all rules on one rank, without steps those of the whole recording. `roles`: those of its phases. */
export function ruleShares(
  work: RankWork,
  roles: PhaseRoles,
  { devices, idle, kernels, steps, stepsLeftOut, totals }: Measured,
): RuleShares {
  const hasLoader = work.names.matching(dataLoaderName).includes(1);
  const plugin = pluginSteps(work, hasLoader ? 'dataLoader' : 'communication');
  const length = plugin.reduce((sum, step) => sum + step.length, 0);
  const shareOf = (role: 'dataLoader' | 'communication', ofAll: number): number =>
    length > 0 ? plugin.reduce((sum, step) => sum + step[role], 0) / length : ofAll;
  const count = Math.max(1, steps.length + stepsLeftOut);
  const late = idle.places.filter(({ cause }) => cause === 'hostLate');
  const inLoader = late
    .filter(({ phase, op }) => dataLoaderName.test(phase) || dataLoaderName.test(op) || (phase !== '' && roles.of(phase) === 'data'))
    .reduce((sum, { time }) => sum + time, 0);
  // The device's own pauses before queued work, as between the kernels of a graph, are no launches.
  const launching = Math.max(0, idle.hostBound - idle.byCause.hostLate);
  const outside = Math.max(0, idle.byCause.hostLate - inLoader);
  const ofTotal = (time: number): number => (totals.length > 0 ? time / totals.length : 0);
  const utilisation = Math.min(1, ...devices.map(({ utilisation: of }) => of));
  // More work at a time helps a device that idles, not one that copies or communicates.
  const isIdle = ofTotal(totals.idle) >= (1 - utilisation) / 2;
  const noCores = kernels.tensorCores === 0 && kernels.total > 0;
  return {
    // Data may also be late in phases of the program's own, around torch's loader or on other ranks than it.
    data_loader: { share: Math.max(hasLoader ? shareOf('dataLoader', 0) : 0, ofTotal(inLoader)), saves: inLoader / count },
    communication: { share: shareOf('communication', ofTotal(totals.exposed)), saves: totals.exposed / count },
    low_utilisation: { share: isIdle ? utilisation : 1, saves: undefined },
    tensor_cores: { share: noCores ? kernels.tensorCoreOps / kernels.total : 0, saves: undefined },
    host_late: { share: ofTotal(outside), saves: outside / count },
    launches: { share: ofTotal(launching), saves: launching / count },
    copies: { share: ofTotal(totals.copies), saves: totals.copies / count },
  };
}

/** Communication kernels of a rank wait for all others: where some are not here, nobody knows for how long. */
const adviceBeside = (rule: RecommendationRule, missing: number): string =>
  rule === 'communication' && missing > 0 ? `; part of that time may be waiting for ranks that are not here (${missing})` : '';

/** The rules that fire on any rank, in order of what they save. `missing`: number of the job's ranks of which nothing is known. */
export function recommendations(ranks: readonly { readonly rank: number; readonly shares: RuleShares }[], missing = 0): Recommendation[] {
  return recommendationRules
    .flatMap((rule): Recommendation[] => {
      const [threshold, isLow, isLeast] = [thresholds[rule], rule === 'low_utilisation', rule === 'communication'];
      const judged = isLeast ? ranks.map((one) => ({ ...one, shares: leastOf(ranks) })) : ranks;
      const firing = judged.filter(({ shares }) => (isLow ? shares[rule].share < threshold : shares[rule].share > threshold));
      if (firing.length === 0) return [];
      const shares = firing.map(({ shares: of }) => of[rule].share);
      const saves = firing.flatMap(({ shares: of }) => of[rule].saves ?? []);
      return [
        {
          ...{
            rule,
            ranks: [...new Set(firing.map(({ rank }) => rank))],
            share: isLow ? Math.min(...shares) : Math.max(...shares),
            threshold,
          },
          ...{ saves: saves.length === 0 ? undefined : Math.max(...saves), advice: `${advice[rule]}${adviceBeside(rule, missing)}` },
        },
      ];
    })
    .sort((a, b) => (b.saves ?? 0) - (a.saves ?? 0));
}

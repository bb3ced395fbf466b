// The report's part about blame: the verdict, findings with their costs and steps, the time of each rank's last steps, and the bounds behind them.

import { printable } from '@ranktrace/protocol';
import { ranksText } from '@ranktrace/trace';
import {
  type Blame,
  type Compared,
  comparedIn,
  costText,
  findingCostOf,
  type RankBreakdown,
  type RunBlame,
  type RunFinding,
  type Verdict,
  type WaitedFor,
} from '@ranktrace/trace/blame';
import { formatCount, formatNanos, formatTable, nameInLine, phaseChars } from '../terminal/format.ts';
import { alertLines, noAlerts, type ReportAlerts } from './report-alerts.ts';

const phasesShown = 5;
const ranksShown = 16;
const frontierShown = 8;
/** A phase's name in a sentence. */
const nameChars = 64;
/** Findings below this share of the run's time have lines of their own only among the first, or with an alert. */
const smallShare = 0.001;
const smallShown = 8;

const inWords: Readonly<Record<Verdict, string>> = {
  balanced: 'no rank is to blame: none is slower than its peers, step for step',
  straggler: 'few ranks work longer than their peers, and the others wait for them',
  stage_imbalance: 'a stage works longer than the others',
  rotating_imbalance: 'in each step some rank works longer, not always the same',
  cpu_contention: 'threads of the ranks wait for a CPU, which is no fault of any rank: their hosts are busy',
  cluster_wide: 'all ranks work longer than when the run began',
  long_steps: 'some steps are of another kind, such as checkpoints, and take a large part of the time',
  data_loading: 'getting the next batch is not hidden behind computing',
  network: 'data is on its way for a large part of the step',
  host_bound: 'GPUs have nothing to do because their hosts launch work late',
  pipeline_bubble: 'stages of the pipeline wait for the microbatches of others for a large part of the step',
  communication_bound: 'GPUs communicate for a large part of the step while nothing else runs on them',
  copy_bound: 'GPUs copy data for a large part of the step while nothing else runs on them',
  inconclusive: 'the recording does not show it',
};

/** The part as text, without a final line end; '' for a run without steps. `endedBadly`: ranks failed, were lost or hung. */
export function formatBlame(blame: RunBlame, alerts = noAlerts, endedBadly = false): string {
  const { verdict, findings, last } = blame;
  if (last.steps.count === 0) return '';
  const lines = [`verdict: ${verdict}: ${inWords[verdict]} (${basisOf(blame)})`];
  if (endedBadly) lines.push('  it is about the steps that ended, not about the end of the run, which "in short" tells');
  lines.push(...findingsInLines(findings, alerts, (finding) => findingLines(finding, blame, alerts)).map((line) => `  ${line}`));
  lines.push(...last.whatIf.map(whatIfLine), ...changeLines(last));
  const blocks = [lines.join('\n')];
  if (last.breakdown.length > 0) blocks.push(breakdownTable(last));
  blocks.push([frontierLine(last), visibleLine(last), boundLine(last)].filter((line) => line !== '').join('\n'));
  return blocks.join('\n\n');
}

/** The steps behind the verdict, and those behind everything below it. */
function basisOf({ verdict, verdictSteps, last, steps: all, cutAt }: RunBlame): string {
  const { steps, step } = last;
  if (cutAt !== undefined && steps.count === 1) return `${formatNanos(step)} as one window, as the recording has no steps`;
  if (cutAt !== undefined)
    return `${formatCount(steps.count)} windows of ${formatNanos(step)}, as the recording has no steps: cut at ${cutAt}`;
  const leftOut = steps.leftOut === 0 ? '' : `, without ${formatCount(steps.leftOut)} over 2.5 times the median`;
  const based = `${formatCount(steps.count)} of ${rangeText(steps.first ?? 0, steps.last ?? 0)}, ${formatNanos(step)} each${leftOut}`;
  if (all.first === steps.first && all.areRepeated !== true) return based;
  const whole = `all ${formatCount(all.count)} steps were judged, ${rangeText(all.first, all.last)}`;
  if (verdict === last.verdict || verdictSteps === undefined) return `${based}; ${whole}`;
  return `${rangeText(verdictSteps.first, verdictSteps.last)}; ${last.verdict} at the end, ${based}; ${whole}`;
}

/** The part as data, without the verdict and the findings: lengths in ns, or in ms where the name says so; unknown values are left out. */
export function blameData({ last, steps: judgedSteps, cutAt }: RunBlame): unknown {
  const { step, steps, basis, hidden, whatIf, frontier, excess, visible, breakdown, alignment, change } = last;
  return {
    ...{ judgedSteps, steps, basis, hidden, cutAt, whatIf },
    stepNs: step,
    breakdown: breakdown.map(({ step: stepNs, own, waits, transfer, unmatched, other, ...rank }) => ({
      ...{ ...rank, stepNs, ownNs: Object.fromEntries(own) },
      waitingNs: waits.reduce((sum, { length }) => sum + length, 0),
      waits: waits.map(({ length, ...wait }) => ({ ...wait, lengthNs: length })),
      ...{ transferNs: transfer, unmatchedNs: unmatched, otherNs: other },
    })),
    frontier: frontier.map(({ advance, ...phase }) => ({ ...phase, advanceNs: advance })),
    excess: excess.map(({ excess: length, ...rank }) => ({ ...rank, excessNs: length })),
    visible: visible.map(({ phase, length }) => ({ phase, lengthNs: length })),
    alignment: { boundNs: alignment.bound, uncertaintyNsPerStep: alignment.uncertainty, unaligned: alignment.unaligned },
    ...(change === undefined ? {} : { change: changeData(change) }),
  };
}

function changeData({ change, before, now, ...about }: NonNullable<Blame['change']>): unknown {
  return { ...about, changeNs: change, beforeNs: before, nowNs: now };
}

/** Each finding in its lines; those that hardly cost anything in one. */
export function findingsInLines(
  findings: readonly RunFinding[],
  alerts: ReportAlerts,
  linesOf: (finding: RunFinding) => readonly string[],
): string[] {
  const shown = findings.filter(
    (finding, at) => at < smallShown || !(finding.shareOfStep < smallShare) || alertLines(finding, alerts).length > 0,
  );
  const small = findings.length - shown.length;
  const rest = small === 0 ? [] : [`${small} more that cost less than ${percent(smallShare)} of the run each; all of them with --json`];
  return [...shown.flatMap(linesOf), ...rest];
}

/** One finding in a line: `straggler: rank 2 in forward: 39.3 ms per step, 72.0 % of the mean step`. */
export function blameHeadline(finding: RunFinding, blame: Pick<RunBlame, 'cutAt' | 'steps'>): string {
  const { kind, ranks, phase, hostIn, costMsPerStep } = finding;
  const who = ranks.length === 0 ? '' : `: ${ranksText(ranks)}`;
  const most = hostIn === undefined ? '' : `, most in ${nameInLine(hostIn, nameChars)}`;
  const where = phase === undefined ? '' : ` in ${nameInLine(phase, nameChars)}${most}`;
  return `${kind}${who}${where}${costMsPerStep > 0 ? `: ${costText(findingCostOf(finding), comparedIn(blame))}` : ''}`;
}

function findingLines(finding: RunFinding, blame: RunBlame, alerts: ReportAlerts): string[] {
  const compared = comparedIn(blame);
  const cover = compared === 'recording' ? [] : [coverText(finding, blame.steps, compared)];
  const lines = [...cover, ...finding.evidence.map(printable), ...alertLines(finding, alerts)];
  return [blameHeadline(finding, blame), ...lines.map((line) => `  ${line}`)];
}

const rangeText = (first: number, last: number): string => (first === last ? `step ${first}` : `steps ${first} to ${last}`);

function coverText(finding: RunFinding, all: RunBlame['steps'], compared: Compared): string {
  const { stretches, affectedSteps } = finding;
  const { first, last } = finding.steps;
  const range = first === last ? `${compared} ${first}` : `${compared}s ${first} to ${last}`;
  if (all.areRepeated)
    return `in ${formatCount(affectedSteps)} of ${formatCount(all.count)} ${compared}s, with the numbers ${first} to ${last}`;
  if (stretches > 1) return `in ${stretches} stretches of ${range}`;
  if (first <= all.first && last >= all.last) return `in all ${compared}s, ${first} to ${last}`;
  const share = (last - first + 1) / (all.last - all.first + 1);
  return `in ${range}, ${percent(share)} of the run`;
}

function whatIfLine({ ranks, stepMs, shorter, slowdown }: Blame['whatIf'][number]): string {
  const then = `step ${shorter > 0.0005 ? '−' : ''}${percent(Math.max(0, shorter))}, to ${formatNanos(stepMs * 1e6)}`;
  return `  what if ${ranksText(ranks)} at the median of its peers: ${then} (${slowdown.toFixed(2)} times as fast)`;
}

function changeLines({ change }: Blame): string[] {
  if (change === undefined || Math.abs(change.share) < 0.02) return [];
  const { before, now, share, kind, ranks, phase, communicator, evidence } = change;
  const who = ranks.length > 0 ? ` ${ranksText(ranks)}` : '';
  const where = communicator ?? phase;
  const cause = `${kind}${who}${where === undefined ? '' : ` in ${printable(where)}`}`;
  const length = `${formatNanos(before)} when the run began, ${formatNanos(now)} at its end`;
  return [
    `  change: ${share > 0 ? '+' : '−'}${percent(Math.abs(share))} (${length}): ${cause}`,
    ...evidence.map((text) => `    ${printable(text)}`),
  ];
}

function breakdownTable({ breakdown }: Blame): string {
  const sizes = new Map<string, number>();
  for (const { own } of breakdown) for (const [name, length] of own) sizes.set(name, (sizes.get(name) ?? 0) + length);
  const shown = [...sizes]
    .sort(([, a], [, b]) => b - a)
    .slice(0, phasesShown)
    .map(([name]) => name);
  const worst = [...breakdown].sort((a, b) => ownOf(b) - ownOf(a)).slice(0, ranksShown);
  const listed = breakdown.filter((rank) => worst.includes(rank));
  // Communication, or waiting for ranks whose parts are not here: unknown which.
  const hasUnmatched = listed.some((rank) => rank.unmatched > 0);
  const unmatched = hasUnmatched ? ['unmatched'] : [];
  const rows = listed.map((rank) => {
    const rest = [...rank.own].reduce((sum, [name, length]) => (shown.includes(name) ? sum : sum + length), rank.other);
    const waiting = rank.waits.reduce((sum, { length }) => sum + length, 0);
    const own = shown.map((name) => formatNanos(rank.own.get(name) ?? 0));
    const lengths = [waiting, rank.transfer, ...(hasUnmatched ? [rank.unmatched] : []), rest].map(formatNanos);
    return [`rank ${rank.rank}`, formatNanos(rank.step), ...own, ...lengths, waitText(rank.waits)];
  });
  const head = [
    'own work per step',
    'step',
    ...shown.map((name) => nameInLine(name, phaseChars)),
    'waits',
    'transfer',
    ...unmatched,
    'other',
    'waits for',
  ];
  const text = formatTable([head, ...rows], [false, ...Array(head.length - 2).fill(true), false]);
  const more = breakdown.length - listed.length;
  return more > 0 ? `${text}\n(the ${listed.length} of ${breakdown.length} ranks that work longest; all of them with --json)` : text;
}

const ownOf = ({ own }: RankBreakdown): number => [...own.values()].reduce((sum, length) => sum + length, 0);

function waitText([most]: readonly WaitedFor[]): string {
  if (most === undefined) return '-';
  return most.rank < 0 ? '(several)' : `rank ${most.rank} in ${most.name}`;
}

function frontierLine({ frontier }: Blame): string {
  const phases = frontier.filter(({ advance }) => advance > 0).slice(0, frontierShown);
  if (phases.length === 0) return '';
  const parts = phases.map(({ phase, advance, leader, leaderShare }) => {
    return `${nameInLine(phase, nameChars)} ${formatNanos(advance)}${leader !== undefined && leaderShare > 0.5 ? ` (rank ${leader})` : ''}`;
  });
  return `slowest rank by phase: ${parts.join(', ')}`;
}

/** States the smallest fault visible above the noise, so that nobody takes "balanced" for more than it is. */
function visibleLine({ visible }: Blame): string {
  const shown = visible.filter(({ length }) => length > 0).slice(0, phasesShown);
  if (shown.length === 0) return '';
  const parts = shown.map(({ phase, length }) => `${formatNanos(length)} in ${nameInLine(phase, nameChars)}`);
  return `a rank slower than its peers in each step would be seen from ${parts.join(', ')} on; less is hidden by noise`;
}

function boundLine({ basis, hidden, alignment: { bound, uncertainty, unaligned } }: Blame): string {
  if (hidden.length > 0)
    return `rests on lengths of phases: ranks also meet in ${hidden.map(printable).join(', ')}, where no collective was recorded`;
  if (basis === 'phases') return 'rests on lengths of phases alone: too few of these steps, or none, have collectives of all ranks';
  if (unaligned.length > 0)
    return `rests on clocks that are not all aligned (${ranksText(unaligned)}): waits there come of lengths alone; own work needs no clocks`;
  const waits = uncertainty === undefined || uncertainty === 0 ? '' : `, waits and transfers to ± ${formatNanos(uncertainty)} per step`;
  return `rests on clocks known to ± ${formatNanos(bound ?? 0)}${waits}; own work needs no clocks`;
}

const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;

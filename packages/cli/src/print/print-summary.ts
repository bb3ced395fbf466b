// The end of a run on the terminal: steps, phases per rank, findings. Plain text; `--json` gives the same facts as data.

import { isBeside, printable, stillRunningKey } from '@ranktrace/protocol';
import type { Finding, ProcessTotals, RankSummary, RunSummary, TraceHeader } from '@ranktrace/trace';
import type { RunBlame } from '@ranktrace/trace/blame';
import { formatCount, formatNanos, formatTable, nameInLine, phaseChars } from '../terminal/format.ts';
import { blameHeadline, findingsInLines } from './print-blame.ts';
import { deviceData, deviceLines } from './print-devices.ts';
import { alertLines, aloneLines, noAlerts, type ReportAlerts } from './report-alerts.ts';

export interface RunReport {
  readonly header: TraceHeader;
  readonly totals: readonly ProcessTotals[];
  readonly summary: RunSummary;
  readonly findings: readonly Finding[];
  /** Some of its ranks still run, and are being recorded. */
  readonly isLive?: boolean;
}

/** Findings about events that were not recorded. */
const leftOutKinds: readonly Finding['kind'][] = ['detail_shed', 'detail_sampled'];
const stepsShown = 5;
const phasesShown = 6;
const ranksShown = 16;

const stepEnds =
  "a step ends with prof.step(), with an optimizer's step under `python -m ranktrace`, and in files of torch.profiler with its profiler's step()";

type Judged = Pick<RunBlame, 'verdict' | 'findings' | 'cutAt' | 'steps'>;

/**
 * The report as text, without a final line end; findings about slow steps come from `blame`, those with alerts from `alerts`. `inShort`: the run in one
 * line (print-headline.ts), '' for none.
 */
export function formatReport(report: RunReport, blame: Judged, inShort: string, alerts = noAlerts): string {
  const { header, summary } = report;
  const blocks = [inShort === '' ? headline(report) : `${headline(report)}\n${inShort}`];
  if (summary.median !== undefined && summary.p95 !== undefined) {
    const times = `median ${formatNanos(summary.median)}, p95 ${formatNanos(summary.p95)} (${takenText(summary)})`;
    blocks.push(`steps: ${formatCount(summary.stepCount)}, ${times}`, slowestSteps(summary), phaseTable(summary), recordingLines(report));
  } else blocks.push(noStepsLine(blame));
  blocks.push(
    deviceLines(header.processes).join('\n'),
    `clocks: ${clockLine(header)}`,
    findingLines({ ...report, findings: report.findings.filter(({ kind }) => !leftOutKinds.includes(kind)) }, blame, alerts),
  );
  return blocks.filter((block) => block !== '').join('\n\n');
}

/** How long steps are meant, and whose they are where that is to be said. */
function takenText({ takenBy, hosts }: RunSummary): string {
  if (takenBy !== 'devices' && takenBy !== 'unknown') return 'each step as long as its slowest rank';
  const [who, more] =
    takenBy === 'devices'
      ? ['GPUs', hosts?.median === undefined ? '' : `; the hosts' median is ${formatNanos(hosts.median)}`]
      : ['hosts', '; those of the GPUs are not known of all ranks and steps'];
  return `steps as the ${who} take them, each as long as its slowest rank${more}`;
}

/** The report as data: what `--json` prints. */
export function reportData({ header, totals, summary, findings, isLive }: RunReport): unknown {
  return {
    run: header.run,
    ...(isLive === true && { isLive }),
    worldSize: header.worldSize,
    ranks: totals.map(({ process, ...rest }) => {
      const { rank, incarnation, host, hostName, pid, alignment, metadata } = process;
      const device = deviceData(metadata);
      return { rank, incarnation, host, hostName, pid, alignment, ...(device && { device }), ...rest };
    }),
    stepsTakenBy: summary.takenBy ?? 'hosts',
    steps: summary.steps,
    firstStepNs: summary.firstStart,
    medianNs: summary.median,
    p95Ns: summary.p95,
    phases: summary.ranks.map(({ phases, ...rank }) => ({ ...rank, phases: Object.fromEntries(phases) })),
    findings,
  };
}

/** `2 of 4 ranks`, with ` in 3 lives` where some of them began more than once. */
export function ranksSeen(processes: TraceHeader['processes']): {
  readonly ranks: number;
  readonly lives: string;
} {
  const ranks = new Set(processes.map(({ rank }) => rank)).size;
  const lives = processes.filter(({ incarnation }) => !isBeside(incarnation)).length;
  return { ranks, lives: lives <= ranks ? '' : ` in ${lives} lives` };
}

function headline({ header, totals, isLive }: RunReport): string {
  const events = totals.reduce((sum, { counts }) => sum + Object.values(counts).reduce((a, b) => a + b, 0), 0);
  const hosts = new Set(header.processes.map((process) => process.host)).size;
  const seen = ranksSeen(header.processes);
  const ranks = `${seen.ranks} of ${header.worldSize} ranks${seen.lives}`;
  const isKnown = header.processes.every(({ hostUnknown }) => hostUnknown !== true);
  const where = isKnown ? ` on ${hosts} ${hosts === 1 ? 'host' : 'hosts'}` : '';
  return `run ${printable(header.run)}: ${ranks}${where}, ${formatCount(events)} events${isLive === true ? ' so far: ranks still run' : ''}`;
}

/** Without steps, "findings: none" would look like a run in which nothing is slow. */
function noStepsLine({ cutAt }: Judged): string {
  const judged = cutAt === undefined ? 'so slow ranks are not looked for' : 'so windows of its time are judged';
  return `steps: none in this recording, ${judged}; ${stepEnds}`;
}

function slowestSteps(summary: RunSummary): string {
  const slowest = [...summary.steps].sort((a, b) => b.longest - a.longest).slice(0, stepsShown);
  const rows = slowest.map((step) => [`#${step.step}`, formatNanos(step.longest), `rank ${step.slowestRank}`, formatNanos(step.shortest)]);
  return formatTable([['slowest steps', 'longest', 'by', 'shortest'], ...rows], [false, true, false, true]);
}

function phaseTable(summary: RunSummary): string {
  const sizes = new Map<string, number>();
  for (const { phases } of summary.ranks) for (const [name, length] of phases) sizes.set(name, (sizes.get(name) ?? 0) + length);
  sizes.delete('other');
  const names = [...sizes].sort(([, a], [, b]) => b - a).map(([name]) => name);
  const shown = names.slice(0, phasesShown);
  const { ranks } = summary;
  // A page of ranks at most: of more, those with the longest steps.
  const slowest = [...ranks].sort((a, b) => b.mean - a.mean).slice(0, ranksShown);
  const listed = ranks.filter((rank) => slowest.includes(rank));
  // Phases are parts of the host's step.
  const hasHosts = summary.takenBy === 'devices';
  const rows = listed.map((rank) => {
    const rest = [...rank.phases].reduce((sum, [name, length]) => (shown.includes(name) ? sum : sum + length), 0);
    const cells = shown.map((name) => formatNanos(rank.phases.get(name) ?? 0));
    const host = hasHosts ? [formatNanos(rank.hostMean ?? rank.mean)] : [];
    return [`rank ${rank.rank}`, formatNanos(rank.mean), ...host, ...cells, rank.phases.size === 0 ? '-' : formatNanos(rest)];
  });
  const heads = shown.map((name) => nameInLine(name, phaseChars));
  const head = ['mean per step', 'step', ...(hasHosts ? ['host'] : []), ...heads, 'other'];
  const text = formatTable(
    [head, ...rows],
    head.map((_, column) => column > 0),
  );
  const more = ranks.length - listed.length;
  return more > 0 ? `${text}\n(the ${listed.length} slowest of ${ranks.length} ranks; all of them with --json)` : text;
}

/** Recording's cost on the ranks that report it (a client of another language may not), and the events that it left out to stay within its bound. */
function recordingLines({ summary: { ranks }, findings }: RunReport): string {
  const most = ranks.reduce((most, rank) => (rank.overhead > most.overhead ? rank : most), ranks[0] as RankSummary);
  const mean = ranks.reduce((sum, rank) => sum + rank.overhead, 0) / ranks.length;
  const percent = (share: number): string => `${(100 * share).toFixed(2)} %`;
  const shed = findings.filter(({ kind }) => leftOutKinds.includes(kind)).map(({ text }) => `  ${printable(text)}`);
  if (most.overhead === 0) return '';
  return [`recording: ${percent(mean)} of the steps, at most ${percent(most.overhead)} (rank ${most.rank})`, ...shed].join('\n');
}

function clockLine(header: TraceHeader): string {
  const methods = header.processes.map((process) => process.alignment);
  if (methods.every((alignment) => alignment.method === 'exact')) return 'all ranks read one clock (exact)';
  if (methods.every(({ method }) => method === 'exact' || method === 'shared'))
    return 'as recorded: nothing contradicts that all ranks read one clock';
  const ranks = (processes: TraceHeader['processes']): number => new Set(processes.map(({ rank }) => rank)).size;
  const unaligned = ranks(header.processes.filter(({ alignment }) => alignment.method === 'unaligned'));
  // A bound of zero is the reference's own, and says nothing of the others.
  if (methods.every(({ method }) => method === 'exact' || method === 'unaligned'))
    return `not aligned: ${unaligned} of ${ranks(header.processes)} ranks have the times of their own wall clocks`;
  const worst = Math.max(0, ...methods.map((alignment) => alignment.bound ?? 0));
  return `aligned within ± ${formatNanos(worst)}${unaligned > 0 ? `, ${unaligned} ${unaligned === 1 ? 'rank' : 'ranks'} unaligned` : ''}`;
}

/** A life that was killed had events that it did not get to send: how many, nobody knows. An agent's is judged beside its rank's. */
const isTold = ({ process, ended, goesOn }: ProcessTotals): boolean =>
  ended || goesOn === true || isBeside(process.incarnation) || process.metadata.has(stillRunningKey);

/** Causes of long steps, or why none can be told of several ranks; then losses. Prints "none" only without any. */
function findingLines({ findings, totals, summary }: RunReport, judged: Judged, alerts: ReportAlerts): string {
  const { verdict, findings: found } = judged;
  const named = found.filter(({ kind }) => kind !== 'inconclusive');
  const slow = [...findingsInLines(named, alerts, (finding) => [blameHeadline(finding, judged)]), ...aloneLines(alerts)];
  if (verdict === 'inconclusive' && summary.ranks.length > 1)
    slow.push(...found.filter(({ kind }) => kind === verdict).map(({ kind, evidence }) => printable(`${kind}: ${evidence[0]}`)));
  const missing = findings.flatMap((finding) => {
    const { kind, text, remedy } = finding;
    return [`${kind}: ${printable(text)} (to do: ${printable(remedy)})`, ...alertLines(finding, alerts).map((line) => `  ${line}`)];
  });
  const isWhole = totals.every(isTold) && findings.every(({ kind }) => kind === 'restarted');
  if (slow.length + missing.length === 0) return isWhole ? 'findings: none; nothing was lost' : 'findings: none';
  const whole = isWhole ? ['nothing was lost'] : [];
  return ['findings:', ...[...slow, ...missing, ...whole].map((line) => `  ${line}`)].join('\n');
}

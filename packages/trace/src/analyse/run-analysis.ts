// What a person should look at first in a run, each with its ranks and the time to jump to: where it hangs, which rank keeps the others
// waiting and in which phase, remote calls that fail, and what is missing or uncertain. Made of the analyses that the reports are made of, on one
// merge.
//
// Invariant: a finding says what was seen, in whole sentences, and never more often than `findingsPerKindMax` of one kind.

import { nanosPerMs, nanosPerSecond, type Overview, type TraceTime, type ViewFinding } from '@ranktrace/protocol';
import type { BlameFinding } from '../blame/blame.ts';
import type { BlameLevels } from '../blame/blame-change.ts';
import { costText, findingCostOf } from '../blame/fault-cost.ts';
import { type RunBlame, RunBlameSink } from '../blame/run-blame-sink.ts';
import type { AlignedRun } from '../merge/align-run.ts';
import { type MergeProgress, mergeAligned } from '../merge/merge-run.ts';
import { finish } from '../model/finish.ts';
import { ranksText } from '../model/ranks-text.ts';
import { teeSink } from '../model/tee-sink.ts';
import type { ProcessTotals, TraceEvent, TraceHeader, TraceLane, TraceSink } from '../model/trace-sink.ts';
import { type RunSummary, StepSummarySink } from '../steps/step-summary.ts';
import { type Finding, findCompleteness } from './findings.ts';
import { type OpenCollective, type OpenRank, OpenWorkSink, type OpenWorkSummary } from './open-work.ts';
import { RpcSink, type RpcSummary } from './rpcs.ts';
import { type WaitingOfRank, WaitingSink } from './waiting.ts';

/** The findings of a run, alerts first, and who kept others waiting, those that were waited for longest first. */
export interface RunAnalysis {
  readonly findings: readonly ViewFinding[];
  readonly waiting: Overview['waiting'];
  /** ns: all steps that they are of, on the rank with the longest. */
  readonly stepTime: number;
  /** They are of what came after this; undefined: of all. */
  readonly since: TraceTime | undefined;
  /** For the analysis of a later part. */
  readonly beginning: BlameLevels | undefined;
}

export interface RunAnalysisOptions {
  /** The run goes on: a rank that did not end is no loss, and work that is open is not yet a hang. */
  readonly isLive?: boolean;
  /** What is analysed begins here; undefined: with the run. */
  readonly since?: TraceTime | undefined;
  /** What the run began with, as an earlier analysis gave it. */
  readonly beginning?: BlameLevels | undefined;
}

/** Analyses a run, as far as it was aligned, in one merge; yields after every batch. */
export function* analyseRun(run: AlignedRun, options: RunAnalysisOptions = {}): Generator<MergeProgress, RunAnalysis> {
  const sink = analysisSink(options);
  const total = run.surveys.reduce((sum, { order }) => sum + order.length, 0);
  const progress = { done: 0, total };
  yield* mergeAligned(run, sink, progress);
  return yield* sink.analysing(progress);
}

/** The same of whatever else tells a sink, such as a trace file. */
export function analysisSink(options: RunAnalysisOptions = {}): RunAnalysisSink {
  return new RunAnalysisSink(options);
}

/** More of one kind are one finding with the ranks of all of them. */
const findingsPerKindMax = 8;

export class RunAnalysisSink implements TraceSink {
  readonly #isLive: boolean;
  readonly #since: TraceTime | undefined;
  readonly #steps = new StepSummarySink();
  readonly #waiting = new WaitingSink();
  readonly #rpcs = new RpcSink();
  readonly #openWork = new OpenWorkSink();
  readonly #blame: RunBlameSink;
  readonly #all: TraceSink;
  #header: TraceHeader | undefined;
  #totals: readonly ProcessTotals[] = [];

  constructor({ isLive = false, since, beginning }: RunAnalysisOptions) {
    this.#isLive = isLive;
    this.#since = since;
    this.#blame = new RunBlameSink({ beginning });
    this.#all = teeSink(this.#steps, this.#waiting, this.#rpcs, this.#openWork, this.#blame);
  }

  begin(header: TraceHeader): void {
    this.#header = header;
    this.#all.begin(header);
  }

  lane(lane: TraceLane): void {
    this.#all.lane(lane);
  }

  event(event: TraceEvent): void {
    this.#all.event(event);
  }

  end(totals: readonly ProcessTotals[]): void {
    this.#totals = totals;
    this.#all.end(totals);
  }

  /** After `end`. */
  get analysis(): RunAnalysis {
    return finish(this.analysing(undefined));
  }

  /** The same; yields `progress` as often as it can. */
  *analysing<Progress>(progress: Progress): Generator<Progress, RunAnalysis> {
    if (this.#header === undefined) return { findings: [], waiting: [], stepTime: 0, since: this.#since, beginning: undefined };
    const judging = this.#blame.judging();
    let judged = judging.next();
    for (; judged.done !== true; judged = judging.next()) yield progress;
    const [steps, waiting, openWork] = [this.#steps.summary, this.#waiting.summary, this.#openWork.summary];
    const findings = [
      ...hangs(openWork, steps, this.#isLive),
      ...blamed(judged.value, waiting),
      ...failingCalls(this.#rpcs.summary),
      ...completeness(this.#header, this.#totals, openWork, this.#isLive),
    ];
    const bySeverity = severities.flatMap((severity) => findings.filter((finding) => finding.severity === severity));
    return {
      findings: fewOfAKind(bySeverity),
      waiting: waiting.map(({ rank, lastIn, waitedFor, waits }) => ({ rank, lastIn, waitedFor, waits })),
      stepTime: steps.ranks.reduce((most, { mean, steps: count }) => Math.max(most, mean * count), 0),
      since: this.#since,
      beginning: this.#blame.beginning,
    };
  }
}

const severities: readonly ViewFinding['severity'][] = ['alert', 'warning', 'note'];

const severityOf: Readonly<Record<Finding['kind'], ViewFinding['severity']>> = {
  rank_lost: 'alert',
  rank_missing: 'alert',
  rank_twice: 'alert',
  data_loss: 'warning',
  clock_unaligned: 'warning',
  clock_conflict: 'warning',
  stacks_uncertain: 'warning',
  collectives_miscounted: 'warning',
  clock_step: 'note',
  clock_drift: 'note',
  detail_shed: 'note',
  detail_sampled: 'note',
  pruned: 'note',
  left_out: 'note',
};

/** How long a collective has to be open to be called a hang: a run that goes on may still come out of it. */
const hangNsMin = { live: 10 * nanosPerSecond, ended: nanosPerSecond } as const;
/** And so many times a long step. */
const hangStepsMin = 5;

function hangs({ until, collectives }: OpenWorkSummary, { p95 = undefined }: RunSummary, isLive: boolean): ViewFinding[] {
  if (until === undefined) return [];
  const least = Math.max(isLive ? hangNsMin.live : hangNsMin.ended, hangStepsMin * (p95 ?? 0));
  return collectives
    .map((collective) => ({ collective, since: collective.inside[0]?.since ?? until }))
    .filter(({ since }) => until - since >= least)
    .map(({ collective, since }): ViewFinding => {
      const ranks = collective.missing.length > 0 ? collective.missing : collective.inside.map(({ rank }) => rank);
      return { severity: 'alert', kind: 'hang', text: hangText(collective, until - since), ranks, from: since, until };
    });
}

function hangText({ group, op, sequence, inside, left, missing }: OpenCollective, length: number): string {
  const name = `${op} ${sequence} of group ${group}`;
  const who = ranksText(inside.map(({ rank }) => rank));
  const others = [
    ...(missing.length > 0 ? [`${ranksText(missing)} never entered it`] : []),
    ...(left.length > 0 ? [`${ranksText(left)} left it`] : []),
  ];
  return `${who} ${inside.length === 1 ? 'is' : 'are'} inside of ${name} for ${seconds(length)}${others.length > 0 ? `; ${others.join(', ')}` : ''}`;
}

/** What steps are to be charged to, worst first; it leads to the longest single wait for the rank that is named. */
function blamed({ verdict, findings, steps: all }: RunBlame, waiting: readonly WaitingOfRank[]): ViewFinding[] {
  return findings
    .filter(({ kind }) => kind !== 'inconclusive' || verdict === 'inconclusive')
    .map((finding): ViewFinding => {
      const { kind, ranks, phase, steps, evidence } = finding;
      const what = blameText[kind](ranksText(ranks), phase === undefined ? '' : ` in ${phase}`);
      const isWhole = steps.first <= all.first && steps.last >= all.last;
      const when = isWhole ? '' : ` from step ${steps.first} to ${steps.last}`;
      const isShared = kind === 'data_loading' || kind === 'network' || kind === 'inconclusive';
      const cost = findingCostOf(finding);
      const place = waiting.find(({ rank }) => ranks.includes(rank))?.worst ?? {};
      return {
        severity: isShared && verdict !== kind ? 'note' : 'warning',
        kind,
        text: [`${what}${when}${finding.costMsPerStep > 0 ? `: ${costText(cost)}` : ''}`, ...evidence.slice(0, 1)].join('. '),
        ranks,
        ...(phase === undefined ? {} : { phase }),
        cost,
        ...place,
      };
    });
}

/** `who`: its ranks; `where`: ` in PHASE` or nothing. */
const blameText: Readonly<Record<BlameFinding['kind'], (who: string, where: string) => string>> = {
  straggler: (who, where) => `${who} slow${where}, and the others wait`,
  stage_imbalance: (who, where) => `the stage of ${who} has more to do${where}`,
  cpu_contention: () => 'ranks wait for a CPU: their hosts are busy',
  rotating_imbalance: (_, where) => `another rank is slow in each step${where}`,
  cluster_wide: (_, where) => `all ranks became slower${where}`,
  data_loading: (_, where) => `steps wait for data${where}`,
  network: (_, where) => `steps wait for the network${where}`,
  inconclusive: () => 'who waits for whom cannot be told',
};

function failingCalls({ routes }: RpcSummary): ViewFinding[] {
  const methods = [...new Set(routes.map(({ method }) => method))].map((method) => {
    const ofMethod = routes.filter((route) => route.method === method);
    const sum = (count: 'calls' | 'errors'): number => ofMethod.reduce((total, route) => total + route[count], 0);
    const failed = ofMethod.filter(({ errors }) => errors > 0);
    const ranks = new Set(
      failed.flatMap(({ source, destination }) => [source.rank, destination.rank]).filter((rank) => rank !== undefined),
    );
    return { method, calls: sum('calls'), errors: sum('errors'), ranks: [...ranks].sort((a, b) => a - b) };
  });
  return methods
    .filter(({ errors }) => errors > 0)
    .sort((a, b) => b.errors - a.errors)
    .map(({ method, calls, errors, ranks }): ViewFinding => {
      return { severity: 'note', kind: 'failed_calls', text: `${errors} of ${calls} calls of ${method} failed`, ranks };
    });
}

/** What is missing or uncertain, with where that shows. */
function completeness(header: TraceHeader, totals: readonly ProcessTotals[], openWork: OpenWorkSummary, isLive: boolean): ViewFinding[] {
  return findCompleteness(header, totals)
    .filter(({ kind }) => !(isLive && kind === 'rank_lost'))
    .map(({ kind, ranks, text }): ViewFinding => {
      const lost = kind === 'rank_lost' ? openWork.ranks.find(({ rank }) => rank === ranks[0]) : undefined;
      const place = lost === undefined ? clockPlace(kind, ranks, header) : { from: lost.lastStep?.end ?? lost.until, until: lost.until };
      return { severity: severityOf[kind], kind, text: lost === undefined ? text : `${text}${insideOf(lost)}`, ranks, ...place };
    });
}

/** What a rank was inside of when it was last heard of. */
function insideOf({ open, until }: OpenRank): string {
  const [longest] = open;
  if (longest === undefined) return '';
  const path = [...longest.around, longest.name].slice(-3).join(' › ');
  // A span may be told of as it begins, after all that is promised.
  return `, inside of ${path}${until > longest.since ? ` for ${seconds(until - longest.since)}` : ''}`;
}

/** How far about a clock's step or a conflict to look, ns: they are known to within 10 s. */
const clockMargin = 10 * nanosPerSecond;

function clockPlace(kind: Finding['kind'], ranks: readonly number[], header: TraceHeader): { from?: number; until?: number } {
  let time: number | undefined;
  if (kind === 'clock_step') {
    time = header.processes.find(({ rank, alignment }) => ranks.includes(rank) && alignment.clockSteps !== undefined)?.alignment
      .clockSteps?.[0];
  } else if (kind === 'clock_conflict') {
    const conflicts = (header.clockConflicts ?? []).filter(({ isAtStep }) => !isAtStep);
    time = conflicts.sort((a, b) => b.slack - a.slack)[0]?.time;
  }
  return time === undefined ? {} : { from: time - clockMargin, until: time + clockMargin };
}

/** Of each kind the first few, and one more for the rest of them. */
function fewOfAKind(findings: readonly ViewFinding[]): ViewFinding[] {
  return [...new Set(findings.map(({ kind }) => kind))].flatMap((kind) => {
    const ofKind = findings.filter((finding) => finding.kind === kind);
    if (ofKind.length <= findingsPerKindMax) return ofKind;
    const [shown, rest] = [ofKind.slice(0, findingsPerKindMax - 1), ofKind.slice(findingsPerKindMax - 1)];
    const { severity } = rest[0] as ViewFinding;
    const ranks = [...new Set(rest.flatMap((finding) => finding.ranks))].sort((a, b) => a - b);
    return [...shown, { severity, kind, text: `${rest.length} more like these, of ${ranksText(ranks)}`, ranks }];
  });
}

const ms = (length: number): string => `${(length / nanosPerMs).toFixed(length < nanosPerMs ? 3 : 1)} ms`;
const seconds = (length: number): string => (length < nanosPerSecond ? ms(length) : `${(length / nanosPerSecond).toFixed(1)} s`);

// The first things to look at in a run, each with its ranks and the time to jump to: hangs, the rank and phase that keep others waiting,
// failing remote calls, missing or uncertain data. Built from the reports' analyses, on one merge.
//
// Invariant: a finding states an observation in whole sentences, and one kind has at most `findingsPerKindMax` findings.

import { nanos, nanosPerSecond, type Overview, type StepPercentiles, type TraceTime, type ViewFinding } from '@ranktrace/protocol';
import { type BlameFinding, mayBeVerdict } from '../blame/blame.ts';
import type { BlameLevels } from '../blame/blame-change.ts';
import { CollectiveParts } from '../blame/collective-parts.ts';
import { comparedIn, costText, findingCostOf } from '../blame/fault-cost.ts';
import { type RunBlame, RunBlameSink } from '../blame/run-blame-sink.ts';
import { GpuBlameSink } from '../gpu/gpu-blame.ts';
import { GpuSink } from '../gpu/gpu-sink.ts';
import type { GpuSummary } from '../gpu/gpu-summary.ts';
import type { PathSegments } from '../gpu/path-segments.ts';
import type { AlignedRun } from '../merge/align-run.ts';
import { type MergeProgress, mergeAligned } from '../merge/merge-run.ts';
import { finish } from '../model/finish.ts';
import { lengthText } from '../model/quantity-text.ts';
import { ranksText } from '../model/ranks-text.ts';
import { displayName } from '../model/shown-name.ts';
import { teeSink } from '../model/tee-sink.ts';
import type { ProcessTotals, TraceEvent, TraceHeader, TraceLane, TraceSink } from '../model/trace-sink.ts';
import { countedSteps } from '../steps/counted-steps.ts';
import { quantile, type RunSummary, StepSummarySink, type StepTakers } from '../steps/step-summary.ts';
import { analyseLimits as limits } from './analyse-limits.ts';
import { type Finding, findCompleteness } from './findings.ts';
import { hangsOf } from './hangs.ts';
import { OpSumsSink } from './op-sums.ts';
import { type OpenRank, OpenWorkSink, type OpenWorkSummary } from './open-work.ts';
import { RpcSink, type RpcSummary } from './rpcs.ts';
import { RunProfiles } from './run-profile.ts';
import { StepMeasures } from './step-measures.ts';
import { type WaitingOfRank, WaitingSink } from './waiting.ts';

/** The findings of a run, alerts first, and the waits by rank, the longest waited for first. */
export interface RunAnalysis {
  readonly findings: readonly ViewFinding[];
  readonly waiting: Overview['waiting'];
  /** All waiting, ns: `Overview.waitingWhole`. */
  readonly waitingWhole: number;
  /** Work of the devices; undefined without any. */
  readonly gpus?: Overview['gpus'] | undefined;
  /** The critical path of one step; undefined without device work, or without a step. */
  readonly path?: PathSegments | undefined;
  /** Tables of operators, kernels, memory, …, of each rank and of all. */
  readonly profiles?: RunProfiles | undefined;
  /** Own work, waiting and busy devices by rank and step. */
  readonly measures?: StepMeasures | undefined;
  /** Total length of the judged steps, on all ranks together, ns. */
  readonly stepTime: number;
  /** Whose steps count. Absent: those of hosts, or it is not known. */
  readonly stepsTakenBy?: StepTakers | undefined;
  /** Where those of devices count, the median of the hosts' steps, ns. */
  readonly hostMedian?: number | undefined;
  /** Percentiles of all steps of the run as they count, each as long as its slowest rank's; undefined where not all are known one by one. */
  readonly stepTimes?: StepPercentiles | undefined;
  /** Number of those steps; a step that a later life of its ranks repeats counts again. */
  readonly stepCount?: number | undefined;
  /** The findings cover the time after this; undefined: all. */
  readonly since: TraceTime | undefined;
  /** The run's beginning, for the analysis of a later part. */
  readonly beginning: BlameLevels | undefined;
}

export interface RunAnalysisOptions {
  /** The run continues: a rank that did not end is no loss, and open work is not yet a hang. */
  readonly isLive?: boolean;
  /** Start of the analysed time; undefined: the start of the run. */
  readonly since?: TraceTime | undefined;
  /** The run's beginning, from an earlier analysis. */
  readonly beginning?: BlameLevels | undefined;
}

/** Analyses an aligned run in one merge; yields after every batch. */
export function* analyseRun(run: AlignedRun, options: RunAnalysisOptions = {}): Generator<MergeProgress, RunAnalysis> {
  const sink = analysisSink(options);
  const total = run.surveys.reduce((sum, { order }) => sum + order.length, 0);
  const progress = { done: 0, total };
  yield* mergeAligned(run, sink, progress);
  return yield* sink.analysing(progress);
}

/** The same analysis as a sink, for other sources such as a trace file. */
export function analysisSink(options: RunAnalysisOptions = {}): RunAnalysisSink {
  return new RunAnalysisSink(options);
}

/** Further findings of one kind become one, with all their ranks. */
const findingsPerKindMax = 8;

export class RunAnalysisSink implements TraceSink {
  readonly #isLive: boolean;
  readonly #since: TraceTime | undefined;
  readonly #steps = new StepSummarySink();
  readonly #parts = new CollectiveParts();
  readonly #waiting = new WaitingSink(this.#parts);
  readonly #rpcs = new RpcSink();
  readonly #openWork = new OpenWorkSink(this.#parts);
  readonly #blame: RunBlameSink;
  readonly #gpus = new GpuSink();
  readonly #deviceBlame: GpuBlameSink;
  readonly #ops = new OpSumsSink();
  readonly #measures = new StepMeasures();
  readonly #all: TraceSink;
  #header: TraceHeader | undefined;
  #totals: readonly ProcessTotals[] = [];

  constructor({ isLive = false, since, beginning }: RunAnalysisOptions) {
    this.#isLive = isLive;
    this.#since = since;
    this.#blame = new RunBlameSink({ beginning, onStep: (...of) => this.#measures.host(...of), parts: this.#parts });
    this.#deviceBlame = new GpuBlameSink(this.#gpus, this.#parts);
    this.#all = teeSink(
      this.#parts,
      this.#steps,
      this.#waiting,
      this.#rpcs,
      this.#openWork,
      this.#blame,
      this.#gpus,
      this.#deviceBlame,
      this.#ops,
    );
  }

  begin(header: TraceHeader): void {
    this.#header = header;
    this.#all.begin(header);
  }

  lane(lane: TraceLane): void {
    this.#all.lane(lane);
  }

  /** Each kind goes only to the sinks that take it. */
  event(event: TraceEvent): void {
    const { kind } = event;
    if (kind === 'collective') this.#parts.event(event);
    else if (kind === 'step') this.#steps.event(event);
    else if (kind === 'rpc') this.#rpcs.event(event);
    else if (kind === 'span' || kind === 'instant') this.#ops.event(event);
    this.#openWork.event(event);
    if (kind === 'instant') return;
    this.#blame.event(event);
    if (kind === 'span' || kind === 'step' || kind === 'collective') this.#gpus.event(event);
    if (kind === 'collective') this.#deviceBlame.event(event);
  }

  endStretch(): void {
    this.#parts.endStretch();
    this.#rpcs.endStretch();
  }

  end(totals: readonly ProcessTotals[]): void {
    this.#totals = totals;
    this.#all.end(totals);
  }

  /** Available after `end`. */
  get analysis(): RunAnalysis {
    return finish(this.analysing(undefined));
  }

  /** The same; yields `progress` as often as it can. */
  *analysing<Progress>(progress: Progress): Generator<Progress, RunAnalysis> {
    if (this.#header === undefined)
      return { findings: [], waiting: [], waitingWhole: 0, stepTime: 0, since: this.#since, beginning: undefined };
    // Where work runs on GPUs, hosts only launch it.
    const ofDevices = yield* during(this.#deviceBlame.judging(), progress);
    const blame =
      ofDevices === undefined
        ? yield* during(this.#blame.judging(), progress)
        : this.#blame.addLongSteps(ofDevices, this.#deviceBlame.stepLengths);
    const gpus = yield* during(this.#gpus.summing(), progress);
    const [steps, waiting, openWork] = [this.#steps.summary, this.#waiting.summary, this.#openWork.summary];
    const counted = countedOf(steps, gpus, this.#header.processes);
    const hangs = hangsOf(openWork, steps, this.#isLive);
    const missing = completeness(this.#header, this.#totals, steps, openWork, this.#isLive);
    const findings = [
      ...hangs.findings,
      ...blamed(blame, waiting),
      ...failingCalls(this.#rpcs.summary),
      ...missing.map((one): ViewFinding => (hangs.areEndedByKill && one.kind === 'rank_lost' ? { ...one, severity: 'note' } : one)),
    ];
    this.#measures.devices(gpus);
    yield progress;
    const bySeverity = severities.flatMap((severity) => findings.filter((finding) => finding.severity === severity));
    return {
      findings: fewOfAKind(bySeverity),
      waiting: waiting.map(({ rank, lastIn, waitedFor, waits }) => ({ rank, lastIn, waitedFor, waits })),
      waitingWhole: this.#waiting.whole,
      gpus: overviewGpus(gpus),
      path: gpus.segments,
      profiles: new RunProfiles(gpus, this.#ops.ranks, steps.firstStart),
      measures: this.#measures,
      stepsTakenBy: counted.takenBy,
      hostMedian: counted.hosts?.median,
      stepTimes: this.#since === undefined ? stepTimesOf(counted) : undefined,
      stepCount: this.#since === undefined ? counted.stepCount : undefined,
      stepTime: counted.ranks.reduce((sum, { mean, steps: count }) => sum + mean * count, 0),
      since: this.#since,
      beginning: this.#blame.beginning,
    };
  }
}

/** The steps as they count, by those that the devices' analysis has. */
function countedOf(hosts: RunSummary, { ranks }: GpuSummary, processes: TraceHeader['processes']): RunSummary {
  if (ranks.length === 0) return hosts;
  const devices = new StepSummarySink();
  for (const { rank, incarnation, steps } of ranks) {
    const process = processes.find((one) => one.rank === rank && one.incarnation === incarnation);
    if (process === undefined) continue;
    for (const { step, start, length } of steps)
      devices.add(process, { step, start, length: nanos(length), overhead: nanos(0), phases: undefined });
  }
  return countedSteps(hosts, devices.summary);
}

function stepTimesOf({ steps, stepCount }: RunSummary): StepPercentiles | undefined {
  if (steps.length < stepCount) return undefined;
  const sorted = steps.map(({ longest }) => longest).sort((a, b) => a - b);
  const [p50, p90, p95, p99] = [0.5, 0.9, 0.95, 0.99].map((share) => quantile(sorted, share));
  return p50 === undefined || p90 === undefined || p95 === undefined || p99 === undefined ? undefined : { p50, p90, p95, p99 };
}

const overviewGpus = ({ ranks }: GpuSummary): Overview['gpus'] =>
  ranks.length === 0
    ? undefined
    : ranks.map(({ rank, attempt, totals, idle, kernels }) => {
        const { length, compute, overlapped, exposed, copies } = totals;
        const { hostLate, launch, dependency, other: unknown } = idle.byCause;
        const place = idle.places.find(({ cause }) => cause === 'hostLate');
        const hostPlace = [place?.phase ?? '', place?.op ?? '']
          .filter((name) => name !== '')
          .map(displayName)
          .join(', ');
        const top = kernels.byName.lines
          .slice(0, limits.profileTopKernelsMax)
          .map(({ name, total }) => ({ name: displayName(name), total }));
        const life = attempt > 0 ? { life: attempt + 1 } : {};
        const parts = { length, compute, overlapped, exposed, copies, hostLate, launch, dependency, unknown };
        return { rank, ...life, ...parts, hostPlace, top };
      });

/** Yields `progress` whenever `steps` yields. */
function* during<Progress, Answer>(steps: Generator<void, Answer>, progress: Progress): Generator<Progress, Answer> {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
    yield progress;
  }
}

const severities: readonly ViewFinding['severity'][] = ['alert', 'warning', 'note'];

const severityOf: Readonly<Record<Finding['kind'], ViewFinding['severity']>> = {
  rank_lost: 'alert',
  rank_failed: 'alert',
  rank_missing: 'alert',
  rank_twice: 'alert',
  restarted: 'note',
  rank_ended_early: 'note',
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

/** The causes of long steps, worst first; each points to the longest single wait for the blamed rank. */
function blamed(blame: RunBlame, waiting: readonly WaitingOfRank[]): ViewFinding[] {
  const { verdict, findings, steps: all } = blame;
  return reasonsTogether(findings)
    .filter(({ kind }) => kind !== 'inconclusive' || verdict === 'inconclusive')
    .map((finding): ViewFinding => {
      const { kind, ranks, phase, hostIn, steps, evidence } = finding;
      const where = hostIn === undefined ? phase : `${phase}, most in ${hostIn}`;
      const what = blameText[kind](ranksText(ranks), where === undefined ? '' : ` in ${where}`);
      const isWhole = steps.first <= all.first && steps.last >= all.last;
      const when = isWhole ? '' : ` from step ${steps.first} to ${steps.last}`;
      const isShared = sharedKinds.has(kind);
      const cost = findingCostOf(finding);
      const place = waiting.find(({ rank }) => ranks.includes(rank))?.worst ?? {};
      return {
        severity: verdict !== kind && (isShared || !mayBeVerdict(finding)) ? 'note' : 'warning',
        kind,
        text: [`${what}${when}${finding.costMsPerStep > 0 ? `: ${costText(cost, comparedIn(blame))}` : ''}`, ...evidence.slice(0, 1)].join(
          '. ',
        ),
        ranks,
        ...(phase === undefined ? {} : { phase }),
        cost,
        ...place,
      };
    });
}

/** Several reasons why nothing is known are one finding. */
function reasonsTogether<Found extends Pick<BlameFinding, 'kind' | 'evidence'>>(findings: readonly Found[]): readonly Found[] {
  const [first, ...others] = findings.filter(({ kind }) => kind === 'inconclusive');
  if (first === undefined || others.length === 0) return findings;
  const reasons = [first, ...others].flatMap(({ evidence }) => evidence.slice(0, 1)).join('; ');
  return findings.flatMap((finding) =>
    finding === first ? [{ ...first, evidence: [reasons] }] : others.includes(finding) ? [] : [finding],
  );
}

/** Causes that take some of any step: a warning only where they are the verdict. */
const sharedKinds: ReadonlySet<string> = new Set([
  ...['data_loading', 'network', 'host_bound', 'communication_bound', 'copy_bound'],
  ...['pipeline_bubble', 'long_steps', 'inconclusive'],
]);

/** `who`: its ranks; `where`: ` in PHASE` or nothing. */
const blameText: Readonly<Record<BlameFinding['kind'], (who: string, where: string) => string>> = {
  straggler: (who, where) => `${who} slow${where}, and the others wait`,
  stage_imbalance: (who, where) => `the stage of ${who} has more to do${where}`,
  cpu_contention: () => 'ranks wait for a CPU: their hosts are busy',
  rotating_imbalance: (_, where) => `another rank is slow in each step${where}`,
  cluster_wide: (_, where) => `all ranks became slower${where}`,
  long_steps: (who, where) => `some steps are much longer than the others${who === '' ? '' : `, because of ${who}`}${where}`,
  data_loading: (_, where) => `steps wait for data${where}`,
  network: (_, where) => `steps wait for the network${where}`,
  host_bound: (who) => `${who === '' ? 'GPUs wait for their hosts' : `the GPU of ${who} waits for its host`}`,
  communication_bound: () => 'GPUs wait for communication',
  copy_bound: (who) => `${who === '' ? 'GPUs wait' : `the GPU of ${who} waits`} for copies`,
  pipeline_bubble: () => 'stages of the pipeline wait for each other',
  inconclusive: () => 'which rank waits for which is unknown',
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

/** Missing or uncertain data, with the time at which it shows. */
function completeness(
  header: TraceHeader,
  totals: readonly ProcessTotals[],
  summary: RunSummary,
  openWork: OpenWorkSummary,
  isLive: boolean,
): ViewFinding[] {
  return findCompleteness(header, totals, summary)
    .filter(({ kind }) => !(isLive && kind === 'rank_lost'))
    .map(({ kind, ranks, text }): ViewFinding => {
      const lost = kind === 'rank_lost' ? openWork.ranks.find(({ rank }) => rank === ranks[0]) : undefined;
      const place = lost === undefined ? clockPlace(kind, ranks, header) : { from: lost.lastStep?.end ?? lost.until, until: lost.until };
      return { severity: severityOf[kind], kind, text: lost === undefined ? text : `${text}${insideOf(lost)}`, ranks, ...place };
    });
}

/** Open spans of a rank at its last sign of life. */
function insideOf({ open, until }: OpenRank): string {
  const [longest] = open;
  if (longest === undefined) return '';
  const path = [...longest.around, longest.name].slice(-3).join(' › ');
  // A span may be reported at its begin, later than the rank's watermark.
  return `, inside of ${path}${until > longest.since ? ` for ${lengthText(until - longest.since)}` : ''}`;
}

/** Time shown around a clock's step or a conflict, ns: their times are known to within 10 s. */
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

/** The first few of each kind, and one more for the rest. */
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

// Device work of one rank, summed up as plain data for reports and pages. Times in ns.

import { phaseRolesOf } from '../steps/phase-role.ts';
import type { ClusterPath } from './cluster-path.ts';
import { type CriticalPath, criticalPath } from './critical-path.ts';
import { type DeviceAnnotation, deviceAnnotations } from './device-annotations.ts';
import { type DeviceUsage, deviceUsage } from './device-usage.ts';
import type { RankWork } from './device-work.ts';
import { gpuLimits as limits } from './gpu-limits.ts';
import {
  HostWaits,
  hostBoundTime,
  type IdleParts,
  type IdlePlace,
  idleParts,
  idlePieces,
  idlePlaces,
  piecesWithin,
  streamWaits,
} from './idle-time.ts';
import { type CopyLine, copyLines, type KernelTables, kernelSequences, kernelTables, type SequenceLine } from './kernel-sums.ts';
import { type LaunchSummary, launchSummary, type QueueSummary, queueSummaries } from './launch-queue.ts';
import { type OpTable, opTable } from './op-table.ts';
import { type CommunicationOverlap, communicationOverlap } from './overlap.ts';
import { type PathBound, pathBounds } from './path-edges.ts';
import type { PathSegments } from './path-segments.ts';
import type { PathWorth } from './path-worth.ts';
import { type Recommendation, type RuleShares, ruleShares } from './recommendations.ts';
import type { RankRecord } from './record-work.ts';
import {
  breakdownBetween,
  noParts,
  type StepBreakdown,
  type StepParts,
  stepBreakdown,
  type TemporalBreakdown,
  temporalBreakdown,
} from './step-breakdown.ts';

/** One step, with the causes of its idle time. */
export interface GpuStep extends StepBreakdown {
  readonly idleBy: IdleParts;
}

/** Total of HTA's pauses of one stream. */
export interface StreamIdle {
  readonly device: number;
  readonly stream: number;
  readonly hostWait: number;
  readonly kernelWait: number;
  readonly other: number;
}

export interface GpuRank {
  readonly rank: number;
  readonly host: string;
  readonly hostName: string;
  readonly incarnation: string;
  /** The attempt of its job: 0, 1, … where ranks were started again. */
  readonly attempt: number;
  readonly devices: readonly DeviceUsage[];
  /** The stretch of all figures, ns on the trace's axis: the steps' windows, else from the first work to the end of the last. */
  readonly from: number;
  readonly until: number;
  /** All steps together; without steps, the stretch. */
  readonly totals: StepParts;
  /** HTA's own breakdown of the rank. */
  readonly temporal: TemporalBreakdown;
  /** The last steps; `stepsLeftOut` earlier ones are in the totals alone. */
  readonly steps: readonly GpuStep[];
  readonly stepsLeftOut: number;
  readonly idle: {
    readonly byCause: IdleParts;
    /** The part of it that a host far enough ahead would save: of `hostLate` and `launch` all but the device's own pauses. */
    readonly hostBound: number;
    readonly places: readonly IdlePlace[];
    readonly placesLeftOut: number;
    readonly streams: readonly StreamIdle[];
  };
  readonly overlap: readonly CommunicationOverlap[];
  readonly kernels: KernelTables;
  readonly ops: OpTable;
  readonly sequences: readonly SequenceLine[];
  /** The program's spans as the devices saw them; empty where the recording lacks them. */
  readonly annotations: readonly DeviceAnnotation[];
  readonly launches: LaunchSummary;
  readonly queues: readonly QueueSummary[];
  readonly copies: readonly CopyLine[];
  /** The rules of recommendations.ts, whether they fire or not. */
  readonly rules: RuleShares;
  /** The critical path of the step of median length, as HTA defines it; undefined without steps. Made when it is first read: the summary's mostly stands for it. */
  readonly path: GpuPath | undefined;
}

export interface GpuPath {
  readonly step: number;
  readonly byBound: CriticalPath['byBound'];
  /** Its heaviest parts by name and bound. */
  readonly lines: readonly { readonly name: string; readonly bound: PathBound; readonly total: number; readonly count: number }[];
}

export interface GpuSummary {
  /** Rules that fire; empty where none does. */
  readonly recommendations: readonly Recommendation[];
  /** The attempt that they and the critical path are of, where there are several: the one with most ranks, and of those the last. */
  readonly attempt?: number;
  /** Processes with device work, in order of rank, then of attempt. */
  readonly ranks: readonly GpuRank[];
  /**
   * The critical path of one step, across the ranks of one attempt; undefined without a common step, and by HTA's conventions for one rank: then that
   * rank's own counts.
   */
  readonly path: ClusterPath | undefined;
  /** The same in pieces. */
  readonly segments?: PathSegments | undefined;
  /** Worth of each part of that path, most first; empty without a path. */
  readonly worth: readonly PathWorth[];
  /** Events that were left out at a limit. */
  readonly leftOut: number;
  /** HTA's conventions hold (docs/gpu.md). */
  readonly htaCompatible: boolean;
  /** By those, HTA's potential stragglers: ranks. */
  readonly potentialStragglers?: readonly number[] | undefined;
}

/** Undefined for a process without device work. Yields after each table: each takes one pass over the rank's events. */
export function* gpuRank(
  { process }: RankRecord,
  work: RankWork,
  { worldSize, attempt }: { readonly worldSize: number; readonly attempt: number },
): Generator<void, GpuRank | undefined> {
  const temporal = temporalBreakdown(work);
  const extent = work.extent;
  if (temporal === undefined || extent === undefined) return undefined;
  yield;
  const steps = stepBreakdown(work);
  yield;
  const [from, until] =
    steps.length > 0 ? [(steps[0] as StepBreakdown).start, (steps.at(-1) as StepBreakdown).end] : [extent.start, extent.end];
  const waits = new HostWaits(work);
  yield;
  const whole = idlePieces(work, from, until, waits);
  yield;
  const ofSteps = piecesWithin(whole, steps);
  const causes = ofSteps.map(idleParts);
  const pieces = steps.length > 0 ? ofSteps.flat() : whole;
  const totals = steps.length > 0 ? sumOf(steps) : breakdownBetween(work, from, until);
  const places = idlePlaces(work, pieces, waits);
  yield;
  const devices = deviceUsage(work, steps.length > 0 ? steps : [{ start: from, end: until }]);
  yield;
  const streams = streamIdle(work);
  yield;
  const overlap = communicationOverlap(work, worldSize).slice(0, limits.gpuLinesMax);
  yield;
  const kernels = kernelTables(work);
  yield;
  const ops = opTable(work);
  yield;
  const sequences = kernelSequences(work);
  const annotations = deviceAnnotations(work);
  yield;
  const launches = launchSummary(work);
  const queues = queueSummaries(work).slice(0, limits.gpuLinesMax);
  yield;
  const copies = copyLines(work);
  yield;
  const { rank, host, hostName, incarnation } = process;
  let path: { readonly known: GpuPath | undefined } | undefined;
  const about = {
    ...{ rank, host, hostName, incarnation, attempt, from, until, totals, temporal },
    ...{ devices, overlap, kernels, ops, sequences, annotations, launches, queues, copies },
    get path() {
      path ??= { known: medianPath(work) };
      return path.known;
    },
    steps: steps.map((step, index) => ({ ...step, idleBy: causes[index] as IdleParts })).slice(-limits.gpuStepLinesMax),
    stepsLeftOut: Math.max(0, steps.length - limits.gpuStepLinesMax),
    idle: {
      byCause: idleParts(pieces),
      hostBound: hostBoundTime(pieces),
      places: places.slice(0, limits.gpuLinesMax),
      placesLeftOut: Math.max(0, places.length - limits.gpuLinesMax),
      streams,
    },
  };
  return Object.assign(about, { rules: ruleShares(work, phaseRolesOf([process]), about) });
}

function medianPath(work: RankWork): GpuPath | undefined {
  const step = work.steps.toSorted((a, b) => a.end - a.start - (b.end - b.start))[(work.steps.length - 1) >> 1];
  const path = step && criticalPath(work, step.start, step.end);
  if (step === undefined || path === undefined) return undefined;
  const lines = new Map<number, { name: string; bound: PathBound; total: number; count: number }>();
  for (const { name, bound, weight } of path.path) {
    const key = name * pathBounds.length + pathBounds.indexOf(bound);
    const line = lines.get(key) ?? { name: work.names.text(name), bound, total: 0, count: 0 };
    lines.set(key, line);
    line.total += weight;
    line.count++;
  }
  const heaviest = [...lines.values()].sort((a, b) => b.total - a.total).slice(0, limits.gpuPathLinesMax);
  return { step: step.number, byBound: path.byBound, lines: heaviest };
}

function sumOf(steps: readonly StepBreakdown[]): StepParts {
  const sum = noParts();
  for (const step of steps) for (const part of Object.keys(sum) as (keyof StepParts)[]) sum[part] += step[part];
  return sum;
}

function streamIdle(work: RankWork): readonly StreamIdle[] {
  const sum = (pauses: readonly number[] = []): number => pauses.reduce((total, pause) => total + pause, 0);
  return streamWaits(work)
    .slice(0, limits.gpuLinesMax)
    .map(({ device, stream, pauses }) => {
      return { device, stream, hostWait: sum(pauses.host_wait), kernelWait: sum(pauses.kernel_wait), other: sum(pauses.other) };
    });
}

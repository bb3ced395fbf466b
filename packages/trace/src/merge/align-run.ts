// The clocks of a run, from its sources: while they grow, and once they are complete. Live and offline runs use the same code on the same batches.
//
//   survey            pings, wall clocks, metadata             all new batches
//   shared events     events shared between ranks, by key      hosts without pings, once the run is complete; times around a clock step
//   couple            collectives and calls, in order of time  only up to `finalAfterNs` back: there the hosts' own clocks are final
//   last resort       the same again, by the coupled clocks    near conflicts between them
//
// Invariant: knots solved while a run grows equal those of a merge from scratch. Where that is impossible (a host or a life
// of a rank joined, held-back detail came, samples were thinned), coupling starts again.

import { rankTime, type TableName, type TraceTime, traceTime } from '@ranktrace/protocol';
import { ClockCoupling } from '../align/clock-coupling.ts';
import type { ClockEvidence, SharedEvents } from '../align/clock-evidence.ts';
import { type ClockModel, ownClock, type RankClock } from '../align/clock-model.ts';
import { ClusterClocks, type FittedClocks } from '../align/fit-clocks.ts';
import { windowNs } from '../align/host-pings.ts';
import { LastResort } from '../align/last-resort.ts';
import type { BatchSource } from '../model/batch-source.ts';
import type { ClockConflictAt, TraceProcess } from '../model/trace-sink.ts';
import { CoupleClocksSink } from './couple-clocks.ts';
import { BatchMerger } from './merge-batches.ts';
import { sharedEvents } from './shared-events.ts';
import { SourceSurvey, type Survey } from './survey.ts';

/** Batches read so far, and batches to read in total. */
export interface MergeProgress {
  done: number;
  total: number;
}

export interface AlignedRun {
  /** In order of rank, then of incarnation. */
  readonly surveys: readonly Survey[];
  /** One clock per survey. */
  readonly fitted: FittedClocks;
  readonly conflicts: readonly ClockConflictAt[];
}

/**
 * The last part of a run, with about `batchesMax` batches over all ranks; the whole of one that has no more. For a long run that goes on,
 * it shows the current state at a constant cost. `since`: its start; undefined for the whole.
 */
export function lastPartOf(run: AlignedRun, batchesMax: number): AlignedRun & { readonly since: TraceTime | undefined } {
  const { surveys, fitted } = run;
  const clockAt = (at: number) => fitted.clocks[at] as FittedClocks['clocks'][number];
  if (surveys.reduce((sum, { order }) => sum + order.length, 0) <= batchesMax) return { ...run, since: undefined };
  const each = Math.ceil(batchesMax / surveys.length);
  const begins = surveys.flatMap(({ order }, at) => {
    const first = order.at(Math.max(0, order.length - each));
    return first === undefined ? [] : [clockAt(at).clock.toTrace(rankTime(order.watermark(first)))];
  });
  // The middle one: a rank that stopped long ago, or joined late, does not move it.
  const since = begins.sort((a, b) => a - b)[begins.length >> 1] ?? traceTime(0);
  const parts = surveys.map((survey, at): Survey => {
    const { model, epoch } = clockAt(at);
    const own = model.toHost(since) - epoch;
    // The recorder's counts cover the whole run.
    return { ...survey, order: survey.order.only(survey.order.within(own)), recorded: undefined };
  });
  return { ...run, surveys: parts, since };
}

/** A host's own clock depends on evidence up to this much later, ns of its time: smoothing, the drift of the window after, steps. */
const finalAfterNs = 6 * windowNs;
/** A batch may hold events from after its watermark, ns. */
const afterWatermarkNs = 200e6;
const coupledTables: readonly TableName[] = ['tracks', 'collectives', 'rpcs'];

type StepWindow = ClusterClocks['stepWindows'][number][number];

export class RunAlignment {
  readonly #surveys = new Map<string, SourceSurvey>();
  /** Events read around steps, by source, so that a run that goes on reads them once. */
  readonly #duringStepsOf = new Map<string, { readonly batches: string; readonly shared: SharedEvents }>();
  #coupled: { readonly basis: string; readonly coupling: ClockCoupling; readonly events: CoupledEvents } | undefined;

  /** The clocks of a run that goes on, after reading the new batches of `sources`: all of its sources, each at least as long as before. */
  *update(sources: readonly BatchSource[], progress: MergeProgress): Generator<MergeProgress, AlignedRun> {
    const surveys = yield* this.#survey(sources, progress);
    const clocks = new ClusterClocks(surveys.map(({ evidence }) => evidence));
    return yield* this.#align(surveys, yield* this.#withSteps(surveys, clocks), finalAfterNs, progress);
  }

  /** The clocks of a complete run. Nothing may follow. */
  *finish(sources: readonly BatchSource[], progress: MergeProgress): Generator<MergeProgress, AlignedRun> {
    const surveys = yield* this.#survey(sources, progress);
    let clocks = new ClusterClocks(surveys.map(({ evidence }) => evidence));
    if (clocks.wantsSharedEvents) {
      for (const survey of surveys) {
        progress.total += survey.batches;
        survey.evidence = { ...survey.evidence, shared: yield* counted(sharedEvents(survey.source), progress) };
      }
      clocks = new ClusterClocks(surveys.map(({ evidence }) => evidence));
    }
    return yield* this.#align(surveys, yield* this.#withSteps(surveys, clocks), Number.POSITIVE_INFINITY, progress);
  }

  /** The clocks, with their steps located by shared events. */
  *#withSteps(surveys: readonly Survey[], clocks: ClusterClocks): Generator<MergeProgress, ClusterClocks> {
    const windows = clocks.stepWindows;
    if (windows.every(({ length }) => length === 0)) return clocks;
    const evidence: ClockEvidence[] = [];
    for (const [at, survey] of surveys.entries())
      evidence.push({ ...survey.evidence, shared: yield* this.#duringSteps(survey, windows[at] ?? []) });
    return new ClusterClocks(evidence);
  }

  *#duringSteps({ source, order, header }: Survey, windows: readonly StepWindow[]): Generator<MergeProgress, SharedEvents> {
    const key = `${header.rank} ${header.incarnation}`;
    const chosen = new Set(windows.flatMap(({ from, until }) => order.within(from - afterWatermarkNs, until)));
    const wanted = String([...chosen]);
    const known = this.#duringStepsOf.get(key);
    if (known?.batches === wanted) return known.shared;
    const progress = { done: 0, total: chosen.size };
    const shared = yield* counted(
      sharedEvents(source, (index) => chosen.has(index)),
      progress,
    );
    this.#duringStepsOf.set(key, { batches: wanted, shared });
    return shared;
  }

  *#survey(sources: readonly BatchSource[], progress: MergeProgress): Generator<MergeProgress, Survey[]> {
    const surveys: Survey[] = [];
    for (const source of sources) {
      const key = `${source.rank} ${source.incarnation}`;
      const known = this.#surveys.get(key) ?? new SourceSurvey(source);
      this.#surveys.set(key, known);
      const survey = yield* counted(known.read(source), progress);
      if (survey !== undefined) surveys.push(survey);
    }
    return surveys.sort((a, b) => a.header.rank - b.header.rank || (a.header.incarnation < b.header.incarnation ? -1 : 1));
  }

  /** Couples the events older than `back` ns before each rank's latest. */
  *#align(surveys: readonly Survey[], clocks: ClusterClocks, back: number, progress: MergeProgress): Generator<MergeProgress, AlignedRun> {
    const { clockOf } = clocks;
    const fitted = clocks.fitted();
    if (new Set(clockOf.filter((clock) => clock !== undefined)).size < 2) return { surveys, fitted, conflicts: [] };
    const basis = basisOf(surveys, clocks);
    if (this.#coupled?.basis !== basis) {
      const coupling = new ClockCoupling(clocks.coupled);
      this.#coupled = { basis, coupling, events: new CoupledEvents(surveys, new CoupleClocksSink(coupling, clockOf)) };
    }
    const { coupling, events } = this.#coupled;
    coupling.replaceHosts(clocks.coupled);
    yield* events.read(surveys, fitted, back, progress);
    const { conflicts } = coupling;
    const named = conflicts.map((conflict) => ({ ...conflict, hosts: conflict.hosts.map((host) => clocks.nameOf(host)) }));
    // Where a clock stepped, its own events have changed places: shifting others after them would shift everything for nothing.
    const shiftable = conflicts.filter(({ isAtStep }) => !isAtStep);
    if (shiftable.length === 0) return { surveys, fitted: clocks.fitted(coupling), conflicts: named };
    const resort = new LastResort(clocks.coupled.count, shiftable);
    const again = new CoupledEvents(surveys, new CoupleClocksSink(resort, clockOf), (from, until) => resort.reaches(from, until));
    yield* again.read(surveys, clocks.fitted(coupling), back, progress);
    again.end();
    return { surveys, fitted: clocks.fitted(coupling, resort), conflicts: named };
  }
}

/** The basis of coupling: when it changes, solved knots no longer hold. */
function basisOf(surveys: readonly Survey[], clocks: ClusterClocks): string {
  const sources = surveys.map(({ header, heldBack, thinned }) => [header.rank, header.incarnation, heldBack, thinned]);
  return JSON.stringify([sources, clocks.basis]);
}

function* counted<Result>(steps: Generator<void, Result>, progress: MergeProgress): Generator<MergeProgress, Result> {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
    progress.done++;
    yield progress;
  }
}

/** Shared events of ranks, merged into a sink in order of time as far as the clocks are final. */
class CoupledEvents {
  readonly #merger: BatchMerger;
  readonly #sink: CoupleClocksSink;
  readonly #isWanted: (from: number, until: number) => boolean;
  readonly #clocks: GrowingClock[];
  readonly #read: Uint32Array;
  #hasEnded = false;

  /** `isWanted`: whether events between two times of the axis are needed; default all. */
  constructor(surveys: readonly Survey[], sink: CoupleClocksSink, isWanted: (from: number, until: number) => boolean = () => true) {
    this.#sink = sink;
    this.#isWanted = isWanted;
    this.#merger = new BatchMerger(sink);
    this.#clocks = surveys.map(() => new GrowingClock());
    this.#read = new Uint32Array(surveys.length);
    for (const [index, { header, heldBack }] of surveys.entries()) {
      const { rank, incarnation, host, hostName, pid } = header;
      const alignment = { method: 'exact', bound: undefined } as const;
      const process: TraceProcess = { index: index + 1, rank, incarnation, host, hostName, pid, alignment, metadata: new Map() };
      this.#merger.add(process, this.#clocks[index] as GrowingClock, heldBack > 0);
    }
  }

  /** Reads up to `back` ns before each rank's latest watermark; Infinity: everything, and ends. */
  *read(surveys: readonly Survey[], { clocks }: FittedClocks, back: number, progress: MergeProgress): Generator<MergeProgress> {
    const isWhole = back === Number.POSITIVE_INFINITY;
    for (const [index, { clock }] of clocks.entries()) (this.#clocks[index] as GrowingClock).clock = clock;
    if (isWhole) for (const [index, { order }] of surveys.entries()) progress.total += order.length - (this.#read[index] as number);
    const merger = this.#merger;
    for (let index = merger.slowest; index !== undefined; index = merger.slowest) {
      const { source, order, evidence } = surveys[index] as Survey;
      const next = order.at(this.#read[index] as number);
      if (next === undefined && !isWhole) return;
      if (next === undefined) {
        merger.finish(index);
        for (const _ of merger.advance()) yield progress;
        continue;
      }
      const [since, until] = [order.since(next), order.watermark(next) + afterWatermarkNs];
      if (!isWhole && until > (evidence.until ?? 0) - back) return;
      this.#read[index] = (this.#read[index] as number) + 1;
      const clock = this.#clocks[index] as GrowingClock;
      const isWanted = this.#isWanted(clock.toTrace(since), clock.toTrace(until));
      const batch = isWanted ? source.batch(next, coupledTables) : undefined;
      if (batch !== undefined) merger.push(index, batch, rankTime(since));
      for (const _ of merger.advance()) yield progress;
      progress.done++;
      yield progress;
    }
    this.end();
  }

  /** Ends the sink. */
  end(): void {
    if (!this.#hasEnded) this.#sink.end();
    this.#hasEnded = true;
  }
}

/** A rank's clock by current knowledge. */
class GrowingClock implements RankClock {
  clock: RankClock | undefined;
  readonly exact = undefined;

  toTrace(time: number): ReturnType<ClockModel['toTrace']> {
    return (this.clock ?? ownClock).toTrace(time);
  }
}

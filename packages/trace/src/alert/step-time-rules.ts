// Slower steps: the cluster's, a rank's own work, a phase. One detector per series; step-incidents.ts makes one incident of one fault.
//
//   cluster    longest rank of each step                          alerts: every step takes longer
//   rank       its work outside phases of waiting, as far as phases reveal those
//   phase      its longest rank; for a phase of waiting its shortest: its time without waiting
//   all steps  the mean of ranks: long steps, which the others leave out, may take more of the time (long-step-incident.ts)

import { isWaitingRole } from '@ranktrace/protocol';
import { contextKeyOf } from '../detect/context-key.ts';
import { DetectorPlan, detectorOptionsFor } from '../detect/detector-options.ts';
import type { DetectorState } from '../detect/detector-state.ts';
import { SeriesDetector } from '../detect/series-detector.ts';
import type { Improvement, StepTimeFinding } from '../detect/step-time-finding.ts';
import type { PhaseRoles } from '../steps/phase-role.ts';
import type { OpenAlert, ReportChange } from './alert-change.ts';
import { alertLimits as limits } from './alert-limits.ts';
import type { AlertRules } from './alert-rules.ts';
import { LongStepIncident, type LongStepIncidentState } from './long-step-incident.ts';
import type { RankStepFact } from './step-assembly.ts';
import { type StepSeries, seriesKey } from './step-findings.ts';
import { StepIncidents, type StepIncidentsState, type StepSeriesFacts } from './step-incidents.ts';

interface Series {
  readonly about: StepSeries;
  readonly detector: SeriesDetector;
}

/** The rules' whole state, in JSON's types. */
export interface StepTimeState {
  readonly series: readonly (readonly [StepSeries, DetectorState])[];
  /** Incidents in older services' form: by the reported series. */
  readonly told?: readonly (readonly [string, OpenAlert])[];
  /** Absent in states of older services. */
  readonly open?: StepIncidentsState;
  readonly usual: number;
  /** Absent in states of older services. */
  readonly improvements?: readonly Improvement[];
  readonly long?: LongStepIncidentState;
}

/** The usual length of a step is the mean of about this many. */
const usualSteps = 32;

export class StepTimeRules {
  readonly #plan: DetectorPlan;
  readonly #incidents: StepIncidents;
  readonly #long: LongStepIncident;
  readonly #roles: PhaseRoles;
  readonly #series = new Map<string, Series>();
  #phases = 0;
  #ranks = 0;
  #improvements: readonly Improvement[] = [];
  #usual = 0;
  #contexts = '';
  #context = 0;

  /** @throws TraceError `bad_option` */
  constructor(run: string, rules: AlertRules, roles: PhaseRoles, report: ReportChange) {
    this.#roles = roles;
    this.#incidents = new StepIncidents(run, rules, roles, report);
    this.#long = new LongStepIncident(run, rules, report);
    const { stepTimeChangeMin: minChange, stepTimeSensitivity: sensitivity, driftChangeMin: driftMin } = rules;
    const { alertWarmUpBlocks: warmUpBlocksMax } = limits;
    this.#plan = new DetectorPlan({ ...detectorOptionsFor({ minChange, sensitivity }), driftMin, warmUpBlocksMax });
  }

  /** Usual length of a step, ns; 0 before the first. */
  get usual(): number {
    return this.#usual;
  }

  /** Takes one step as reported by all ranks. Returns its length and whether it is an ordinary one. */
  step(step: number, ranks: ReadonlyMap<number, RankStepFact>, nowMs: number): { readonly length: number; readonly isOrdinary: boolean } {
    let [length, sum, tag]: [number, number, RankStepFact['tag']] = [0, 0, undefined];
    for (const fact of ranks.values()) {
      length = Math.max(length, fact.length);
      sum += fact.length;
      tag ??= fact.tag;
    }
    // Findings wait for the whole step: until each series has it, the first rank to be certain looks as if it alone were slower.
    const findings: (readonly [Series, StepTimeFinding])[] = [];
    const found = (series: Series, finding: StepTimeFinding | undefined): void => {
      if (finding !== undefined) findings.push([series, finding]);
    };
    const works: { readonly rank: number; readonly time: number }[] = [];
    if (ranks.size > 1) {
      for (const [rank, { phases, length: whole, context, tag: own }] of ranks) {
        let waits = -1;
        for (const [name, time] of phases) if (this.#isWaiting(name)) waits = Math.max(0, waits) + time;
        if (waits >= 0) works.push({ rank, time: whole - waits });
        const series = waits < 0 ? undefined : this.#seriesOf({ kind: 'rank', rank });
        if (series !== undefined) found(series, series.detector.add(step, whole - waits, context, own ?? tag));
      }
    }
    const context = this.#contextOf(ranks);
    const phases = this.#phasesOf(ranks);
    for (const [phase, time] of phases) {
      const series = this.#seriesOf({ kind: 'phase', phase });
      if (series !== undefined) found(series, series.detector.add(step, time, context, tag));
    }
    const cluster = this.#seriesOf({ kind: 'cluster' }) as Series;
    found(cluster, cluster.detector.add(step, length, context, tag));
    for (const [series, finding] of findings) this.#found(series, finding, nowMs);
    const isOrdinary = tag === undefined && length > 0;
    if (isOrdinary) this.#usual += (length - this.#usual) / (this.#usual === 0 ? 1 : usualSteps);
    this.#incidents.settle(step, this.#facts(), nowMs);
    const isKnown = (onsetStep: number): boolean => this.#incidents.isKnown(onsetStep);
    if (isOrdinary || tag === 'checkpoint')
      this.#long.step({ step, context, passed: sum / ranks.size, own: works, phases }, isKnown, nowMs);
    return { length, isOrdinary };
  }

  /** Ids of open alerts. */
  get open(): string[] {
    const long = this.#long.alert;
    return [...this.#incidents.ids, ...(long === undefined ? [] : [long.id])];
  }

  /** The latest lasting speed-ups of the cluster's steps, oldest first. */
  get improvements(): readonly Improvement[] {
    return this.#improvements;
  }

  /** Ends the input. */
  close(nowMs: number, resolution: string): void {
    this.#incidents.close(nowMs, resolution);
    this.#long.close(nowMs, resolution);
  }

  state(): StepTimeState {
    return {
      series: [...this.#series.values()].map(({ about, detector }) => [about, detector.state()]),
      open: this.#incidents.state(),
      usual: this.#usual,
      improvements: this.#improvements,
      long: this.#long.state(),
    };
  }

  /** @throws TraceError `bad_option` if the states are not of such rules */
  restore({ series, told = [], open, usual, improvements = [], long }: StepTimeState): void {
    for (const [about, state] of series) this.#addSeries(about, SeriesDetector.restore(state, this.#plan));
    const incidents = told.map(([lead, alert]) => ({ lead, alert, reportedStep: alert.step ?? 0, isOnTop: false, parts: [] }));
    this.#incidents.restore(open ?? { incidents, waiting: [] });
    this.#usual = usual;
    this.#improvements = improvements;
    if (long !== undefined) this.#long.restore(long);
  }

  #found({ about }: Series, finding: StepTimeFinding, nowMs: number): void {
    switch (finding.kind) {
      case 'improvement':
        // An improvement is only a note, never an alert.
        if (about.kind === 'cluster') this.#improvements = [...this.#improvements, finding].slice(-limits.alertImprovementsMax);
        this.#incidents.faster(about, finding, nowMs);
        return;
      case 'went_away':
      case 'rebaselined':
        this.#incidents.over(about, finding, nowMs);
        return;
      default:
        this.#incidents.slower({ about, finding }, this.#facts(), nowMs);
    }
  }

  #facts(): StepSeriesFacts {
    const clusterRise = (onsetStep: number): number | undefined => this.#series.get('cluster')?.detector.riseSince(onsetStep);
    const latest = (about: StepSeries): number | undefined => this.#series.get(seriesKey(about))?.detector.latest;
    const risen = (onsetStep: number, least: number): number[] =>
      [...this.#series.values()].flatMap(({ about: { kind, rank }, detector }) =>
        kind === 'rank' && rank !== undefined && (riseOf(detector, onsetStep) ?? 0) >= least ? [rank] : [],
      );
    return { ranks: this.#ranks, usual: this.#usual, clusterRise, latest, risen };
  }

  #seriesOf(about: StepSeries): Series | undefined {
    const known = this.#series.get(seriesKey(about));
    if (known !== undefined) return known;
    if (about.kind === 'rank' && this.#ranks >= limits.alertRanksWatchedMax) return undefined;
    if (about.kind === 'phase' && this.#phases >= limits.alertPhasesMax) return undefined;
    return this.#addSeries(about, new SeriesDetector(this.#plan));
  }

  #addSeries(about: StepSeries, detector: SeriesDetector): Series {
    const series = { about, detector };
    if (about.kind === 'rank') this.#ranks++;
    if (about.kind === 'phase') this.#phases++;
    this.#series.set(seriesKey(about), series);
    return series;
  }

  #phasesOf(ranks: ReadonlyMap<number, RankStepFact>): Map<string, number> {
    const times = new Map<string, number>();
    for (const { phases } of ranks.values()) {
      for (const [name, time] of phases) {
        const known = times.get(name);
        if (known === undefined) times.set(name, time);
        else times.set(name, this.#isWaiting(name) ? Math.min(known, time) : Math.max(known, time));
      }
    }
    return times;
  }

  #isWaiting(phase: string): boolean {
    return isWaitingRole(this.#roles.of(phase));
  }

  /** The context of a step: its ranks' common one, else one that stands for all of theirs. */
  #contextOf(ranks: ReadonlyMap<number, RankStepFact>): number {
    let first: number | undefined;
    let isSame = true;
    for (const { context } of ranks.values()) {
      first ??= context;
      if (context !== first) isSame = false;
    }
    if (isSame) return first ?? 0;
    const contexts = [...new Set([...ranks.values()].map(({ context }) => context))].sort((a, b) => a - b).join(' ');
    if (contexts !== this.#contexts) [this.#contexts, this.#context] = [contexts, contextKeyOf(contexts)];
    return this.#context;
  }
}

/** Rise of a series since about this step, certain or not: a detector that found it keeps no blocks from before. */
function riseOf(detector: SeriesDetector, onsetStep: number): number | undefined {
  const { incident } = detector;
  const isFound = incident !== undefined && Math.abs(incident.onsetStep - onsetStep) <= limits.alertRankOnsetStepsApartMax;
  return isFound ? incident.slowest - incident.before : detector.riseSince(onsetStep);
}

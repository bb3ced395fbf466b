// Steps that became slower: the cluster's, a rank's own work, a phase. One detector per series, and one alert per onset.
//
//   cluster    longest rank of each step                          pages: somebody waits longer for every step
//   rank       what it works outside of collectives, as far as phases say where those are
//   phase      its longest rank; of a collective its shortest: what it takes without waiting
//
//   rank 2 ──────found──┐
//   forward ─────found──┤ settle ──► the cluster is slower, too: its alert, with rank and phase as hint
//   cluster ──────found─┘        └─► it is not: one alert of what changed most, if that is much of a step
//
// Invariant: of one series one alert is open at most, and the detector's incident is open with it.

import type { Alert } from '@ranktrace/protocol';
import { contextKeyOf } from '../detect/context-key.ts';
import { DetectorPlan } from '../detect/detector-options.ts';
import type { DetectorState } from '../detect/detector-state.ts';
import { SeriesDetector } from '../detect/series-detector.ts';
import type { Drift, Improvement, Regression, StepTimeFinding } from '../detect/step-time-finding.ts';
import { isBarrierLike } from '../match/collective-kind.ts';
import { type AlertHint, isoTime, type OpenAlert, resolveAlert, type TellChange } from './alert-change.ts';
import { alertLimits as limits } from './alert-limits.ts';
import type { AlertRules } from './alert-rules.ts';
import { lengthText, nameText, percentText } from './alert-text.ts';
import type { RankStepFact } from './step-assembly.ts';

type About = Alert['series'];
type Slower = Regression | Drift;

interface Series {
  readonly key: string;
  readonly about: About;
  readonly detector: SeriesDetector;
}

interface Found {
  readonly series: Series;
  readonly finding: Slower;
}

/** Everything that the rules know, as JSON can hold it. */
export interface StepTimeState {
  readonly series: readonly (readonly [About, DetectorState])[];
  readonly told: readonly (readonly [string, OpenAlert])[];
  readonly usual: number;
  /** Not in states of older services. */
  readonly improvements?: readonly Improvement[];
}

/** Severity of a cluster that is slower by more is critical. */
const criticalShare = 0.1;
/** The mean of about so many steps is what a step usually takes. */
const usualSteps = 32;

const keyOf = ({ kind, rank, phase }: About): string => (kind === 'cluster' ? kind : `${kind}-${rank ?? phase}`);
const slowerBy = ({ finding }: Found): number => finding.after - finding.before;

export class StepTimeRules {
  readonly #run: string;
  readonly #rules: AlertRules;
  readonly #tell: TellChange;
  readonly #plan: DetectorPlan;
  readonly #series = new Map<string, Series>();
  #phases = 0;
  #ranks = 0;
  readonly #meets = new Map<string, boolean>();
  /** Alerts that are open, by the series they were told of. */
  readonly #told = new Map<string, OpenAlert>();
  #improvements: readonly Improvement[] = [];
  /** Slower ranks and phases of which it is not yet clear whether the cluster is, too. */
  #settling: Found[] = [];
  #usual = 0;
  #contexts = '';
  #context = 0;

  /** @throws TraceError `bad_option` */
  constructor(run: string, rules: AlertRules, tell: TellChange) {
    this.#run = run;
    this.#rules = rules;
    this.#tell = tell;
    const { stepTimeChangeMin: changeMin, driftChangeMin: driftMin } = rules;
    const { alertWarmUpBlocks: warmUpBlocksMax } = limits;
    this.#plan = new DetectorPlan({ changeMin, changeMinQuiet: changeMin / 2, driftMin, warmUpBlocksMax });
  }

  /** What a step usually takes, ns; 0 before the first. */
  get usual(): number {
    return this.#usual;
  }

  /** One step as all ranks told it. Gives its length and whether it is an ordinary one. */
  step(step: number, ranks: ReadonlyMap<number, RankStepFact>, nowMs: number): { readonly length: number; readonly isOrdinary: boolean } {
    let [length, tag]: [number, RankStepFact['tag']] = [0, undefined];
    for (const fact of ranks.values()) {
      length = Math.max(length, fact.length);
      tag ??= fact.tag;
    }
    const found = (series: Series, finding: StepTimeFinding | undefined): void => {
      if (finding !== undefined) this.#found(series, finding, nowMs);
    };
    if (ranks.size > 1) {
      for (const [rank, { phases, length: whole, context, tag: own }] of ranks) {
        let waits = -1;
        for (const [name, time] of phases) if (this.#isMeeting(name)) waits = Math.max(0, waits) + time;
        const series = waits < 0 ? undefined : this.#seriesOf({ kind: 'rank', rank });
        if (series !== undefined) found(series, series.detector.add(step, whole - waits, context, own ?? tag));
      }
    }
    const context = this.#contextOf(ranks);
    for (const [phase, time] of this.#phasesOf(ranks)) {
      const series = this.#seriesOf({ kind: 'phase', phase });
      if (series !== undefined) found(series, series.detector.add(step, time, context, tag));
    }
    const cluster = this.#seriesOf({ kind: 'cluster' }) as Series;
    found(cluster, cluster.detector.add(step, length, context, tag));
    const isOrdinary = tag === undefined && length > 0;
    if (isOrdinary) this.#usual += (length - this.#usual) / (this.#usual === 0 ? 1 : usualSteps);
    this.#settle(step, nowMs);
    return { length, isOrdinary };
  }

  /** Ids of the alerts that are open. */
  get open(): string[] {
    return [...this.#told.values()].map(({ id }) => id);
  }

  /** The last times that the cluster's steps became faster and stayed so, oldest first. */
  get improvements(): readonly Improvement[] {
    return this.#improvements;
  }

  /** Nothing more comes. */
  close(nowMs: number, resolution: string): void {
    for (const alert of this.#told.values()) resolveAlert(alert, nowMs, resolution, this.#tell);
    this.#told.clear();
    this.#settling = [];
  }

  state(): StepTimeState {
    return {
      series: [...this.#series.values()].map(({ about, detector }) => [about, detector.state()]),
      told: [...this.#told].map(([key, alert]) => [key, { ...alert }]),
      usual: this.#usual,
      improvements: this.#improvements,
    };
  }

  /** @throws TraceError `bad_option` when the states are not of such rules */
  restore({ series, told, usual, improvements = [] }: StepTimeState): void {
    for (const [about, state] of series) this.#addSeries(about, SeriesDetector.restore(state, this.#plan));
    for (const [key, alert] of told) this.#told.set(key, { ...alert });
    this.#usual = usual;
    this.#improvements = improvements;
  }

  #found(series: Series, finding: StepTimeFinding, nowMs: number): void {
    const { key, about } = series;
    if (finding.kind === 'improvement') {
      // Nobody is woken for it.
      if (about.kind === 'cluster') this.#improvements = [...this.#improvements, finding].slice(-limits.alertImprovementsMax);
      return;
    }
    const told = this.#told.get(key);
    if (finding.kind === 'went_away' || finding.kind === 'rebaselined') {
      this.#settling = this.#settling.filter((one) => one.series !== series);
      if (told === undefined) return;
      this.#told.delete(key);
      resolveAlert(told, nowMs, resolutionOf(finding), this.#tell);
      return;
    }
    if (this.#rules.off.includes(ruleOf(finding))) return;
    if (told !== undefined) {
      if (finding.isFurther) this.#further(told, about, finding);
      return;
    }
    if (about.kind === 'cluster') this.#fire({ series, finding }, nowMs);
    else if (!finding.isFurther) this.#settling.push({ series, finding });
  }

  /** Tells a slower cluster, with the ranks and the phase that are slower since about the same step; or one of those alone. */
  #fire(lead: Found, nowMs: number): void {
    const { series, finding } = lead;
    const near = this.#settling.filter((one) => isNear(one.finding.onsetStep, finding.onsetStep));
    this.#settling = this.#settling.filter((one) => !near.includes(one));
    const hint = hintOf(series.about.kind === 'cluster' ? near : [lead, ...near], this.#ranks);
    if (series.about.kind === 'cluster' && this.#promote(lead, hint)) return;
    const alert: OpenAlert = {
      id: `${this.#run}/${ruleOf(finding)}/${key(series)}/${finding.onsetStep}`,
      run: this.#run,
      rule: ruleOf(finding),
      state: 'firing',
      severity: severityOf(series.about, finding),
      summary: summaryOf(series.about, finding, finding.before),
      series: series.about,
      firedAt: isoTime(nowMs),
      resolvedAt: null,
      resolution: null,
      step: finding.step,
      onsetStep: finding.onsetStep,
      onsetAt: null,
      unit: 'ns',
      before: finding.before,
      after: finding.after,
      change: finding.change,
      confidence: { ...finding.confidence },
      ranks: hint === null ? [] : [...hint.ranks],
      hint,
    };
    this.#told.set(series.key, alert);
    this.#tell('fired', alert);
  }

  /** The alert of a rank or a phase becomes that of the cluster, where it is the same onset: the cluster's noise made it certain later. */
  #promote({ series, finding }: Found, hint: AlertHint | null): boolean {
    for (const [key, alert] of this.#told) {
      if (alert.rule !== ruleOf(finding) || !isNear(alert.onsetStep ?? Number.NaN, finding.onsetStep)) continue;
      this.#told.delete(key);
      alert.hint = alert.hint ?? hint;
      alert.series = series.about;
      alert.severity = severityOf(series.about, finding);
      alert.before = finding.before;
      alert.after = finding.after;
      alert.change = finding.change;
      alert.confidence = { ...finding.confidence };
      alert.summary = summaryOf(series.about, finding, finding.before);
      this.#told.set(series.key, alert);
      this.#tell('updated', alert);
      return true;
    }
    return false;
  }

  /** Still slower: the same alert, from the level before all of it. */
  #further(alert: OpenAlert, about: About, finding: Slower): void {
    const before = alert.before ?? finding.before;
    alert.after = finding.after;
    alert.change = finding.after / before - 1;
    alert.step = finding.step;
    alert.confidence = { ...finding.confidence };
    alert.summary = summaryOf(about, { ...finding, change: alert.change, onsetStep: alert.onsetStep ?? finding.onsetStep }, before);
    this.#tell('updated', alert);
  }

  #settle(step: number, nowMs: number): void {
    if (this.#settling.length === 0) return;
    const cluster = this.#told.get('cluster');
    if (cluster !== undefined) this.#join(cluster);
    const due = this.#settling.filter(({ finding }) => step - finding.step >= limits.alertSettleSteps);
    if (due.length === 0) return;
    const [most] = due.toSorted((a, b) => slowerBy(b) - slowerBy(a));
    this.#settling = this.#settling.filter((one) => one !== most);
    if (most !== undefined && slowerBy(most) >= this.#rules.stepTimeChangeMin * this.#usual) this.#fire(most, nowMs);
    this.#settling = this.#settling.filter((one) => !due.includes(one));
  }

  /** What became slower when the cluster did is part of its alert. */
  #join(cluster: OpenAlert): void {
    const near = this.#settling.filter(({ finding }) => isNear(finding.onsetStep, cluster.onsetStep ?? Number.NaN));
    if (near.length === 0) return;
    this.#settling = this.#settling.filter((one) => !near.includes(one));
    if (cluster.hint !== null && cluster.hint.ranks.length > 0) return;
    const hint = hintOf(near, this.#ranks);
    if (hint === null) return;
    cluster.hint = { ranks: hint.ranks, phase: cluster.hint?.phase ?? hint.phase };
    cluster.ranks = [...hint.ranks];
    this.#tell('updated', cluster);
  }

  #seriesOf(about: About): Series | undefined {
    const known = this.#series.get(keyOf(about));
    if (known !== undefined) return known;
    if (about.kind === 'rank' && this.#ranks >= limits.alertRanksWatchedMax) return undefined;
    if (about.kind === 'phase' && this.#phases >= limits.alertPhasesMax) return undefined;
    return this.#addSeries(about, new SeriesDetector(this.#plan));
  }

  #addSeries(about: About, detector: SeriesDetector): Series {
    const series = { key: keyOf(about), about, detector };
    if (about.kind === 'rank') this.#ranks++;
    if (about.kind === 'phase') this.#phases++;
    this.#series.set(series.key, series);
    return series;
  }

  #phasesOf(ranks: ReadonlyMap<number, RankStepFact>): Map<string, number> {
    const times = new Map<string, number>();
    for (const { phases } of ranks.values()) {
      for (const [name, time] of phases) {
        const known = times.get(name);
        if (known === undefined) times.set(name, time);
        else times.set(name, this.#isMeeting(name) ? Math.min(known, time) : Math.max(known, time));
      }
    }
    return times;
  }

  #isMeeting(phase: string): boolean {
    let meets = this.#meets.get(phase);
    if (meets === undefined) {
      meets = isBarrierLike(phase);
      if (this.#meets.size < limits.alertPhasesMax) this.#meets.set(phase, meets);
    }
    return meets;
  }

  /** The context of a step: that of its ranks, or of all that they have. */
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

const key = (series: Series): string => nameText(series.key);
const severityOf = ({ kind }: About, finding: Slower): Alert['severity'] =>
  kind === 'cluster' && finding.kind === 'regression' && finding.change >= criticalShare ? 'critical' : 'warning';
const isNear = (a: number, b: number): boolean => Math.abs(a - b) <= limits.alertOnsetStepsApartMax;
const ruleOf = ({ kind }: Slower) => (kind === 'drift' ? 'step_time_drift' : 'step_time');

function resolutionOf(finding: Extract<StepTimeFinding, { kind: 'went_away' | 'rebaselined' }>): string {
  if (finding.kind === 'went_away') return `it went away: ${lengthText(finding.after)} since step ${finding.onsetStep}`;
  if (finding.reason === 'asked') return 'what steps take now was accepted as usual';
  return `a new context since step ${finding.step}: there is nothing to compare with any more`;
}

/** The ranks that are slower by most, unless they are half of all, and the phase. */
function hintOf(found: readonly Found[], ranks: number): AlertHint | null {
  const of = (kind: About['kind']): Found[] =>
    found.filter(({ series }) => series.about.kind === kind).sort((a, b) => slowerBy(b) - slowerBy(a));
  const [slowRanks, slowPhases] = [of('rank'), of('phase')];
  const most = slowRanks[0] === undefined ? 0 : slowerBy(slowRanks[0]);
  const named = slowRanks.filter((one) => slowerBy(one) >= most / 2).map(({ series }) => series.about.rank as number);
  const phase = slowPhases[0]?.series.about.phase;
  if (named.length === 0 && phase === undefined) return null;
  return { ranks: 2 * named.length >= Math.max(ranks, 2) && named.length > 1 ? [] : named.sort((a, b) => a - b), phase };
}

function summaryOf(about: About, { kind, change, after, onsetStep }: Slower, before: number): string {
  const what =
    about.kind === 'cluster' ? 'steps are' : about.kind === 'rank' ? `rank ${about.rank} is` : `phase "${nameText(about.phase ?? '')}" is`;
  const slowly = kind === 'drift' ? ', little by little,' : '';
  return `${what} ${percentText(change)} slower${slowly} since step ${onsetStep}: ${lengthText(before)} → ${lengthText(after)}`;
}

// Incidents of slower steps: one fault makes many series slower, and is one incident.
//
//   rank 2 ──────found──┐
//   forward ─────found──┤ wait ──► the cluster is slower, too: one incident, with rank and phase as its cause
//   cluster ──────found─┘      └─► it is not: one incident of the series that changed most, if that is much of a step
//
// A finding belongs to an open incident where
//   - both are jumps and their onsets lie close together,
//   - or one of them is a drift and the other's onset lies in the stretch over which it was seen to rise: a jump in noise looks like a rise, too,
//   - or the cluster (or a phase) takes no longer than the own work of a rank that has an incident: all ranks wait for the slowest,
// and no other rank is concerned. Then it refines that incident: numbers, cause, severity. Everything else is another fault. A further rise of the cluster
// belongs to the rank or phase that became slower with it; without one it is the same incident, still slower. A jump on top of a drift is a new one.
//
// Invariant: an incident has one lead, the series whose return ends it, and any number of parts. Its id and its rule never change; its severity never
// falls.

import type { Alert } from '@ranktrace/protocol';
import type { Drift, Improvement, Rebaselined, Regression, WentAway } from '../detect/step-time-finding.ts';
import { isBarrierLike } from '../match/collective-kind.ts';
import { type AlertHint, isoTime, type OpenAlert, resolveAlert, type TellChange } from './alert-change.ts';
import { alertLimits as limits } from './alert-limits.ts';
import type { AlertRules } from './alert-rules.ts';
import { lengthText, nameText, percentText } from './alert-text.ts';

/** A series of step times: the cluster's, a rank's own work, a phase. */
export type StepSeries = Alert['series'];
export type Slower = Regression | Drift;

/** What one series found. */
export interface Found {
  readonly about: StepSeries;
  readonly finding: Slower;
}

/** An open incident as JSON can hold it. */
export interface StepIncidentState {
  readonly lead: string;
  readonly alert: OpenAlert;
  readonly toldStep: number;
  readonly parts: readonly Found[];
}

/** Everything that is open, as JSON can hold it. */
export interface StepIncidentsState {
  readonly incidents: readonly StepIncidentState[];
  readonly waiting: readonly Found[];
}

/** What incidents ask of the series. */
export interface StepSeriesFacts {
  /** Ranks whose own work is known. */
  readonly ranks: number;
  /** What a step usually takes, ns. */
  readonly usual: number;
  /** ns that the cluster's steps take longer since this step, certain or not; undefined where that is not known. */
  readonly clusterRise: (onsetStep: number) => number | undefined;
}

interface Incident {
  lead: string;
  readonly alert: OpenAlert;
  /** The step with which it was told first. */
  readonly toldStep: number;
  readonly parts: Map<string, Found>;
}

/** Of a rise of the cluster, what the own work of a slow rank need not explain: transfer and noise. */
const unexplainedShare = 0.25;

/** Names a series in ids and states. */
export const seriesKey = ({ kind, rank, phase }: StepSeries): string => (kind === 'cluster' ? kind : `${kind}-${rank ?? phase}`);

const cluster = 'cluster';
const slowerBy = ({ finding }: Found): number => finding.after - finding.before;

export class StepIncidents {
  readonly #run: string;
  readonly #rules: AlertRules;
  readonly #tell: TellChange;
  #open: Incident[] = [];
  /** Findings that are no incident yet: it is not clear what they belong to. */
  #waiting: Found[] = [];

  constructor(run: string, rules: AlertRules, tell: TellChange) {
    this.#run = run;
    this.#rules = rules;
    this.#tell = tell;
  }

  /** Ids of what is open. */
  get ids(): string[] {
    return this.#open.map(({ alert }) => alert.id);
  }

  /** A series became slower. */
  slower(found: Found, facts: StepSeriesFacts, nowMs: number): void {
    const { about, finding } = found;
    const key = seriesKey(about);
    if (this.#rules.off.includes(ruleOf(finding))) return;
    const known = finding.isFurther ? this.#open.findLast((one) => isPart(one, key)) : undefined;
    const same = known === undefined ? this.#open.findLast((one) => isSame(one, found)) : undefined;
    if (known !== undefined && !isOnTopOfDrift(known, finding)) {
      // Whose it is becomes clear with the ranks and phases that are slower since then.
      if (about.kind === 'cluster' && finding.kind === 'regression') this.#waiting.push(found);
      else this.#further(known, found);
    } else if (same !== undefined) this.#join(same, found, facts);
    else if (about.kind === 'cluster') this.#fire(found, facts, nowMs);
    else this.#waiting.push(found);
  }

  /** What the series found is over. */
  over(about: StepSeries, finding: WentAway | Rebaselined, nowMs: number): void {
    const key = seriesKey(about);
    this.#waiting = this.#waiting.filter((one) => seriesKey(one.about) !== key);
    const withIt = this.#open.filter((one) => isPart(one, key));
    for (const incident of withIt) incident.parts.delete(key);
    // The cluster may stay slow for another rank that has an incident of its own.
    const isElsewhere = (incident: Incident): boolean =>
      about.kind === 'rank' && ranksOf(incident).length === 0 && this.#open.some((one) => one !== incident && ranksOf(one).length > 0);
    for (const incident of withIt) {
      if (incident.lead === key || isElsewhere(incident)) this.#resolve(incident, nowMs, resolutionOf(finding));
    }
  }

  /** The series became faster, but not as fast as before everything that is open: what came last on top of it may be over. */
  faster(about: StepSeries, { after }: Improvement, nowMs: number): void {
    const led = this.#open.filter(({ lead }) => lead === seriesKey(about));
    const last = led.at(-1);
    if (led.length < 2 || last === undefined) return;
    if (after > (last.alert.before ?? 0) * (1 + this.#rules.stepTimeChangeMin)) return;
    this.#resolve(last, nowMs, `it went away: ${lengthText(after)}`);
  }

  /** Looks, after each step, what the findings that wait belong to. */
  settle(step: number, facts: StepSeriesFacts, nowMs: number): void {
    if (this.#waiting.length === 0) return;
    for (const found of this.#waiting) {
      const same = found.about.kind === 'cluster' ? undefined : this.#open.findLast((one) => isSame(one, found));
      if (same !== undefined) this.#join(same, found, facts);
    }
    const further = this.#waiting.find(({ about }) => about.kind === 'cluster');
    if (further !== undefined) {
      const lead = leadOf(this.#near(further).filter((one) => one !== further));
      if (lead !== undefined) this.#fire(lead, facts, nowMs);
    }
    const due = this.#waiting.filter(({ finding }) => step - finding.step >= limits.alertSettleSteps);
    const still = due.find(({ about }) => about.kind === 'cluster');
    const known = still && this.#open.findLast((one) => isPart(one, cluster));
    if (still !== undefined && known !== undefined) this.#further(known, still);
    const lead = leadOf(due);
    if (lead !== undefined && this.#isWorthIt(lead, facts)) this.#fire(lead, facts, nowMs);
    this.#waiting = this.#waiting.filter((one) => !due.includes(one));
  }

  /** Nothing more comes. */
  close(nowMs: number, resolution: string): void {
    for (const incident of [...this.#open]) this.#resolve(incident, nowMs, resolution);
    this.#waiting = [];
  }

  state(): StepIncidentsState {
    return {
      incidents: this.#open.map(({ lead, alert, toldStep, parts }) => ({
        lead,
        alert: { ...alert },
        toldStep,
        parts: [...parts.values()],
      })),
      waiting: this.#waiting,
    };
  }

  restore({ incidents, waiting }: StepIncidentsState): void {
    this.#open = incidents.map(({ lead, alert, toldStep, parts }) => {
      return { lead, alert: { ...alert }, toldStep, parts: new Map(parts.map((part) => [seriesKey(part.about), part])) };
    });
    this.#waiting = [...waiting];
  }

  /** Tells a new incident: of the cluster with what became slower about then, or of a rank or phase alone. */
  #fire(lead: Found, facts: StepSeriesFacts, nowMs: number): void {
    const { about, finding } = lead;
    const near = this.#near(lead);
    this.#waiting = this.#waiting.filter((one) => one !== lead && !near.includes(one));
    const parts = new Map([lead, ...near].map((one) => [seriesKey(one.about), one]));
    const hint = hintOf(parts.values(), facts.ranks);
    const key = seriesKey(about);
    const alert: OpenAlert = {
      id: `${this.#run}/${ruleOf(finding)}/${nameText(key)}/${finding.onsetStep}`,
      run: this.#run,
      rule: ruleOf(finding),
      state: 'firing',
      severity: severityOf(parts.values()),
      summary: summaryOf(about, finding, finding.before),
      series: about,
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
    this.#open.push({ lead: key, alert, toldStep: finding.step, parts });
    this.#tell('fired', alert);
  }

  /** Evidence of the same fault: what it says better than what was known is told. */
  #join(incident: Incident, found: Found, facts: StepSeriesFacts): void {
    const { alert, parts } = incident;
    const { about, finding } = found;
    this.#waiting = this.#waiting.filter((one) => one !== found);
    const before = JSON.stringify(alert);
    parts.set(seriesKey(about), found);
    // The cluster's noise made it certain later; where it takes no longer than the slow rank alone says, the rank knows better since when, and by how much.
    if (about.kind === 'cluster' && isNear(alert.onsetStep ?? Number.NaN, finding.onsetStep)) {
      incident.lead = cluster;
      alert.series = about;
      this.#say(alert, finding, alert.onsetStep ?? finding.onsetStep);
    } else if (alert.rule === 'step_time_drift' && finding.kind === 'regression') {
      alert.onsetStep = finding.onsetStep;
      alert.summary = summaryOf(alert.series, { ...finding, change: alert.change ?? 0, after: alert.after ?? 0 }, alert.before ?? 0);
    }
    const hint = hintOf(parts.values(), facts.ranks);
    if (hint !== null && (hint.ranks.length > 0 || alert.hint === null)) {
      alert.hint = { ranks: hint.ranks, phase: alert.hint?.phase ?? hint.phase };
      alert.ranks = [...hint.ranks];
    }
    escalate(incident);
    if (JSON.stringify(alert) !== before) this.#tell('updated', alert);
  }

  /** Still slower: the same incident, from the level before all of it. */
  #further(incident: Incident, found: Found): void {
    const { alert, lead, parts } = incident;
    const { about, finding } = found;
    const key = seriesKey(about);
    this.#waiting = this.#waiting.filter((one) => one !== found);
    const first = parts.get(key)?.finding ?? finding;
    const whole: Slower = {
      ...finding,
      kind: first.kind,
      before: first.before,
      change: finding.after / first.before - 1,
      onsetStep: first.onsetStep,
    };
    parts.set(key, { about, finding: whole });
    escalate(incident);
    if (key === lead) {
      const from = alert.onsetStep ?? finding.onsetStep;
      this.#say(
        alert,
        { ...whole, before: alert.before ?? whole.before, change: finding.after / (alert.before ?? whole.before) - 1 },
        from,
      );
      alert.step = finding.step;
    }
    this.#tell('updated', alert);
  }

  #say(alert: OpenAlert, finding: Slower, onsetStep: number): void {
    alert.before = finding.before;
    alert.after = finding.after;
    alert.change = finding.change;
    alert.confidence = { ...finding.confidence };
    alert.summary = summaryOf(alert.series, { ...finding, onsetStep }, finding.before);
  }

  #resolve(incident: Incident, nowMs: number, resolution: string): void {
    this.#open = this.#open.filter((one) => one !== incident);
    resolveAlert(incident.alert, nowMs, resolution, this.#tell);
  }

  /** What waits and became slower when `lead` did, but for other ranks than one that leads. */
  #near(lead: Found): Found[] {
    const { about, finding } = lead;
    return this.#waiting.filter((one) => {
      const apart =
        about.kind === 'rank' && one.about.kind === 'rank' ? limits.alertRankOnsetStepsApartMax : limits.alertOnsetStepsApartMax;
      return one !== lead && Math.abs(one.finding.onsetStep - finding.onsetStep) <= apart;
    });
  }

  /** Much of a step, and somebody's: that all ranks, or a phase of whoever, became slower shows in the cluster's steps, or costs nothing. */
  #isWorthIt(lead: Found, { usual, ranks, clusterRise }: StepSeriesFacts): boolean {
    if (slowerBy(lead) < this.#rules.stepTimeChangeMin * usual) return false;
    if ((hintOf([lead, ...this.#near(lead)], ranks)?.ranks.length ?? 0) > 0) return true;
    return (clusterRise(lead.finding.onsetStep) ?? 0) >= slowerBy(lead) / 2;
  }
}

const isNear = (a: number, b: number): boolean => Math.abs(a - b) <= limits.alertOnsetStepsApartMax;
const ruleOf = ({ kind }: Slower) => (kind === 'drift' ? 'step_time_drift' : 'step_time');
const ranksOf = ({ parts }: Incident): number[] =>
  [...parts.values()].flatMap(({ about }) => (about.kind === 'rank' ? [about.rank as number] : []));

const isPart = ({ lead, parts }: Incident, key: string): boolean => lead === key || parts.has(key);

/** A jump that began after the drift was told is no part of it. */
const isOnTopOfDrift = ({ alert, toldStep }: Incident, { kind, onsetStep }: Slower): boolean =>
  alert.rule === 'step_time_drift' && kind === 'regression' && onsetStep > toldStep - limits.alertRankOnsetStepsApartMax;

/** Whether a finding is of the fault that `incident` tells. */
function isSame(incident: Incident, { about, finding }: Found): boolean {
  const { alert, toldStep, parts } = incident;
  const { onsetStep, step, after } = finding;
  const onset = alert.onsetStep ?? Number.NaN;
  const ranks = ranksOf(incident);
  const areJumps = alert.rule === 'step_time' && finding.kind === 'regression';
  if (about.kind === 'rank' && ranks.length > 0 && !ranks.includes(about.rank as number)) {
    return areJumps && Math.abs(onset - onsetStep) <= limits.alertRankOnsetStepsApartMax;
  }
  if (areJumps ? isNear(onset, onsetStep) : overlaps(incident, finding)) return true;
  if (about.kind === 'rank' || onset > step) return false;
  const isWaiting = about.kind === 'phase' && isBarrierLike(about.phase ?? '');
  const allowed = about.kind === 'cluster' ? unexplainedShare * (after - finding.before) : 0;
  return (
    !isWaiting &&
    [...parts.values()].some((part) => part.about.kind === 'rank' && after <= part.finding.after + allowed) &&
    toldStep <= step
  );
}

/** Whether the one's onset lies in the stretch over which the other, a drift, was seen. */
function overlaps({ alert, toldStep }: Incident, { kind, onsetStep, step }: Slower): boolean {
  const { alertOnsetStepsApartMax: apart } = limits;
  const onset = alert.onsetStep ?? Number.NaN;
  const inFinding = kind === 'drift' && onset >= onsetStep - apart && onset <= step;
  const inIncident = alert.rule === 'step_time_drift' && onsetStep >= onset - apart && onsetStep <= toldStep;
  return inFinding || inIncident;
}

/** What is told first: the rank that changed most, or the phase, where that changed more than twice as much. */
function leadOf(found: readonly Found[]): Found | undefined {
  const sorted = found.filter(({ about }) => about.kind !== 'cluster').sort((a, b) => slowerBy(b) - slowerBy(a));
  const [most] = sorted;
  return most && (sorted.find((one) => one.about.kind === 'rank' && slowerBy(one) >= slowerBy(most) / 2) ?? most);
}

/** A cluster that is slower by this share is critical. */
const criticalShare = 0.1;

/** `critical` where the cluster's steps jumped by a tenth or more; docs/alerting.md has the rules of all severities. */
function severityOf(parts: Iterable<Found>): Alert['severity'] {
  for (const { about, finding } of parts) {
    if (about.kind === 'cluster' && finding.kind === 'regression' && finding.change >= criticalShare) return 'critical';
  }
  return 'warning';
}

function escalate({ alert, parts }: Incident): void {
  if (severityOf(parts.values()) === 'critical') alert.severity = 'critical';
}

function resolutionOf(finding: WentAway | Rebaselined): string {
  if (finding.kind === 'went_away') return `it went away: ${lengthText(finding.after)} since step ${finding.onsetStep}`;
  if (finding.reason === 'asked') return 'what steps take now was accepted as usual';
  return `a new context since step ${finding.step}: there is nothing to compare with any more`;
}

/** The ranks that are slower by most, unless they are half of all, and the phase. */
function hintOf(found: Iterable<Found>, ranks: number): AlertHint | null {
  const all = [...found];
  const of = (kind: StepSeries['kind']): Found[] =>
    all.filter(({ about }) => about.kind === kind).sort((a, b) => slowerBy(b) - slowerBy(a));
  const [slowRanks, slowPhases] = [of('rank'), of('phase')];
  const most = slowRanks[0] === undefined ? 0 : slowerBy(slowRanks[0]);
  const named = slowRanks.filter((one) => slowerBy(one) >= most / 2).map(({ about }) => about.rank as number);
  const phase = slowPhases[0]?.about.phase;
  if (named.length === 0 && phase === undefined) return null;
  return { ranks: 2 * named.length >= Math.max(ranks, 2) && named.length > 1 ? [] : named.sort((a, b) => a - b), phase };
}

function summaryOf(about: StepSeries, { kind, change, after, onsetStep }: Slower, before: number): string {
  const what =
    about.kind === 'cluster' ? 'steps are' : about.kind === 'rank' ? `rank ${about.rank} is` : `phase "${nameText(about.phase ?? '')}" is`;
  const slowly = kind === 'drift' ? ', little by little,' : '';
  return `${what} ${percentText(change)} slower${slowly} since step ${onsetStep}: ${lengthText(before)} → ${lengthText(after)}`;
}

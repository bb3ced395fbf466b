// Incidents of slower steps: one fault slows many series, and is one incident.
//
//   rank 2 ──────found──┐
//   forward ─────found──┤ wait ──► the cluster is slower, too: one incident, with rank and phase as its cause
//   cluster ──────found─┘      └─► it is not: one incident of the series that changed most, if that is a large share of a step
//
// A finding belongs to an open incident if
//   - both are jumps and their onsets lie close together,
//   - or one of them is a drift and the other's onset lies in the stretch of its rise: a jump in noise looks like a rise, too,
//   - or the cluster (or a phase) takes no longer than the own work of a rank with an incident: all ranks wait for the slowest,
// and no other rank is involved. Then it refines that incident: numbers, cause, severity. Any other finding is another fault. A further rise of
// the cluster belongs to the rank or phase that became slower with it; without one it is the same incident, still slower. A jump on top of a
// drift is a new one.
//
// Invariant: an incident has one lead, the series that ends it by its return, and any number of parts. Its id and its rule never change; its
// severity never falls.

import { isWaitingRole } from '@ranktrace/protocol';
import type { Improvement, Rebaselined, WentAway } from '../detect/step-time-finding.ts';
import { lengthText } from '../model/quantity-text.ts';
import type { PhaseRoles } from '../steps/phase-role.ts';
import { isoTime, type OpenAlert, type ReportChange, resolveAlert } from './alert-change.ts';
import { alertLimits as limits } from './alert-limits.ts';
import type { AlertRules } from './alert-rules.ts';
import { nameText } from './alert-text.ts';
import {
  type Found,
  hintOf,
  leadOf,
  type RankFacts,
  resolutionOf,
  ruleOf,
  type Slower,
  type StepSeries,
  seriesKey,
  severityOf,
  slowerBy,
  summaryOf,
} from './step-findings.ts';

/** An open incident in JSON's types. */
export interface StepIncidentState {
  readonly lead: string;
  readonly alert: OpenAlert;
  /** Older services named it `toldStep`. */
  readonly reportedStep?: number;
  readonly toldStep?: number;
  readonly isOnTop: boolean;
  readonly parts: readonly Found[];
  readonly risen?: RisenLevel | undefined;
}

/** All open incidents, in JSON's types. */
export interface StepIncidentsState {
  readonly incidents: readonly StepIncidentState[];
  readonly waiting: readonly Found[];
}

/** Facts about the series that incidents need. */
export interface StepSeriesFacts extends RankFacts {
  /** Usual length of a step, ns. */
  readonly usual: number;
  /** Rise of the cluster's steps since this step, ns, certain or not; undefined if unknown. */
  readonly clusterRise: (onsetStep: number) => number | undefined;
  /** The level of a series now, ns; undefined if unknown. */
  readonly latest: (about: StepSeries) => number | undefined;
}

/** A level, ns, that an incident had risen to at a step. */
interface RisenLevel {
  readonly step: number;
  readonly level: number;
}

interface Incident {
  lead: string;
  readonly alert: OpenAlert;
  /** The step at which it was first reported. */
  readonly reportedStep: number;
  /** A further rise of an already slower series: it ends when that series returns to the level before this rise. */
  readonly isOnTop: boolean;
  readonly parts: Map<string, Found>;
  /** Where it rose on: what to report next, if that lasts and no other finding explains it. */
  risen?: RisenLevel | undefined;
}

/** Share of a cluster's rise that a slow rank's own work need not explain: transfer and noise. */
const unexplainedShare = 0.25;
/** A rise seen only in a rank or a phase, not in the cluster, must be this share of a step. */
const aloneShare = 0.03;
/** The cluster's steps show at least this share of a phase's rise: a noisy host hides some of it, and sleep leaves others its CPU. */
const shownShare = 0.25;
/** An incident that rises on is reported again when it has risen by this share of what it had. */
const againShare = 0.25;
/** Steps whose level is the latest one of a series. */
const levelSteps = 32;
/** A rise on top is over when at most this share of it is left. */
const returnedShare = 0.25;

const cluster = 'cluster';

export class StepIncidents {
  readonly #run: string;
  readonly #rules: AlertRules;
  readonly #roles: PhaseRoles;
  readonly #report: ReportChange;
  #open: Incident[] = [];
  /** Findings without an incident yet: it is unclear where they belong. */
  #waiting: Found[] = [];

  constructor(run: string, rules: AlertRules, roles: PhaseRoles, report: ReportChange) {
    this.#run = run;
    this.#roles = roles;
    this.#rules = rules;
    this.#report = report;
  }

  /** Ids of open incidents. */
  get ids(): string[] {
    return this.#open.map(({ alert }) => alert.id);
  }

  /** Whether an incident began at about this step. */
  isKnown(onsetStep: number): boolean {
    return this.#open.some(({ alert }) => isNear(alert.onsetStep ?? Number.NaN, onsetStep));
  }

  /** With the ranks that were slow before, and became slower still. */
  #withFurther(facts: StepSeriesFacts): StepSeriesFacts {
    const further = this.#open.flatMap(({ parts }) => [...parts.values()]);
    const risen = (onsetStep: number, least: number): number[] => [
      ...facts.risen(onsetStep, least),
      ...further.flatMap(({ about: { rank }, latest }) => {
        const isThen = latest !== undefined && Math.abs(latest.onsetStep - onsetStep) <= limits.alertRankOnsetStepsApartMax;
        return rank !== undefined && isThen && latest.by >= least ? [rank] : [];
      }),
    ];
    return { ...facts, risen };
  }

  /** Takes a slow-down of a series. */
  slower(found: Found, known: StepSeriesFacts, nowMs: number): void {
    const facts = this.#withFurther(known);
    const { about, finding } = found;
    const key = seriesKey(about);
    if (this.#rules.off.includes(ruleOf(finding))) return;
    const risen = finding.isFurther ? this.#open.findLast((one) => isPart(one, key)) : undefined;
    const same = risen === undefined ? this.#open.findLast((one) => this.#isSame(one, found)) : undefined;
    if (risen !== undefined && !isOnTopOfDrift(risen, finding)) {
      // Ranks and phases that become slower from then on reveal its cause.
      if (about.kind === 'cluster' && finding.kind === 'regression') this.#waiting.push(found);
      else this.#further(risen, found);
    } else if (same !== undefined) this.#join(same, found, facts);
    else if (about.kind === 'cluster') this.#fire(found, facts, nowMs);
    else this.#waiting.push(found);
  }

  /** Takes the end of a series' incident. */
  over(about: StepSeries, finding: WentAway | Rebaselined, nowMs: number): void {
    const key = seriesKey(about);
    this.#waiting = this.#waiting.filter((one) => seriesKey(one.about) !== key);
    const withIt = this.#open.filter((one) => isPart(one, key));
    for (const incident of withIt) incident.parts.delete(key);
    // The cluster may stay slow because of another rank with its own incident.
    const isElsewhere = (incident: Incident): boolean =>
      about.kind === 'rank' && ranksOf(incident).length === 0 && this.#open.some((one) => one !== incident && ranksOf(one).length > 0);
    for (const incident of withIt) {
      if (incident.lead === key || isElsewhere(incident)) this.#resolve(incident, nowMs, resolutionOf(finding));
    }
  }

  /** Takes a speed-up of a series that does not undo everything open: the last rise on top may be over. */
  faster(about: StepSeries, { after, onsetStep }: Improvement, nowMs: number): void {
    const last = this.#open.findLast(({ lead, isOnTop }) => isOnTop && lead === seriesKey(about));
    if (last === undefined) return;
    const { before, after: slowest } = last.alert;
    const allowed = Math.max(this.#aloneShare * (before ?? 0), returnedShare * ((slowest ?? 0) - (before ?? 0)));
    if (after > (before ?? 0) + allowed) return;
    this.#resolve(last, nowMs, `it went away: ${lengthText(after)} since step ${onsetStep}`);
  }

  /** Assigns waiting findings to incidents, after each step. */
  settle(step: number, known: StepSeriesFacts, nowMs: number): void {
    for (const incident of this.#open) this.#follow(incident, step, known);
    if (this.#waiting.length === 0) return;
    const facts = this.#withFurther(known);
    for (const found of this.#waiting) {
      const same = found.about.kind === 'cluster' ? undefined : this.#open.findLast((one) => this.#isSame(one, found));
      if (same !== undefined) this.#join(same, found, facts);
    }
    for (const further of this.#waiting.filter(({ about }) => about.kind === 'cluster')) {
      const near = this.#near(further);
      const lead = leadOf(near);
      if (lead === undefined || slowerBy(lead) < slowerBy(further) / 2) continue;
      this.#fire(hintOf(near, facts)?.isOfAll === true ? further : lead, facts, nowMs);
    }
    const waited = this.#waiting.filter(({ finding }) => step - finding.step >= limits.alertSettleSteps);
    const due = waited.filter((one) => !isBack(one, facts));
    for (const still of due.filter(({ about }) => about.kind === 'cluster')) {
      const known = this.#open.findLast((one) => isPart(one, cluster));
      if (known !== undefined && (ranksOf(known).length === 0 || this.#isWaitedFor(known, still))) this.#further(known, still);
      else this.#fire(still, facts, nowMs);
    }
    const most = leadOf(due);
    const lead = most && leadOf([most, ...this.#near(most)]);
    if (lead !== undefined && this.#waiting.includes(lead) && this.#isWorthIt(lead, facts)) this.#fire(lead, facts, nowMs);
    this.#waiting = this.#waiting.filter((one) => !waited.includes(one));
  }

  /** Ends the input. */
  close(nowMs: number, resolution: string): void {
    for (const incident of [...this.#open]) this.#resolve(incident, nowMs, resolution);
    this.#waiting = [];
  }

  state(): StepIncidentsState {
    const incidents = this.#open.map(({ alert, parts, ...rest }) => ({ ...rest, alert: { ...alert }, parts: [...parts.values()] }));
    return { incidents, waiting: this.#waiting };
  }

  restore({ incidents, waiting }: StepIncidentsState): void {
    this.#open = incidents.map(({ alert, parts, reportedStep, toldStep, ...rest }) => {
      const step = reportedStep ?? toldStep ?? alert.step ?? 0;
      return { ...rest, reportedStep: step, alert: { ...alert }, parts: new Map(parts.map((part) => [seriesKey(part.about), part])) };
    });
    this.#waiting = [...waiting];
  }

  /** Fires a new incident: of the cluster with the series that became slower about then, or of a rank or phase alone. */
  #fire(lead: Found, facts: StepSeriesFacts, nowMs: number): void {
    const { about, finding } = lead;
    const near = this.#near(lead);
    this.#waiting = this.#waiting.filter((one) => one !== lead && !near.includes(one));
    const parts = new Map([lead, ...near].map((one) => [seriesKey(one.about), one]));
    const hint = hintOf(parts.values(), facts);
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
    this.#open.push({ lead: key, alert, reportedStep: finding.step, isOnTop: finding.isFurther, parts });
    this.#report('fired', alert);
  }

  /** Adds evidence of the same fault, and reports it where it improves on what was known. */
  #join(incident: Incident, found: Found, facts: StepSeriesFacts): void {
    const { alert, parts } = incident;
    const { about, finding } = found;
    this.#waiting = this.#waiting.filter((one) => one !== found);
    const before = JSON.stringify(alert);
    parts.set(seriesKey(about), found);
    // Noise delays the cluster's finding; if it is explained by the slow rank alone, the rank's onset and size are better.
    if (about.kind === 'cluster' && isNear(alert.onsetStep ?? Number.NaN, finding.onsetStep)) {
      incident.lead = cluster;
      alert.series = about;
      this.#say(alert, finding, alert.onsetStep ?? finding.onsetStep);
    } else if (alert.rule === 'step_time_drift' && finding.kind === 'regression') {
      alert.onsetStep = finding.onsetStep;
      alert.summary = summaryOf(alert.series, { ...finding, change: alert.change ?? 0, after: alert.after ?? 0 }, alert.before ?? 0);
    }
    const hint = hintOf(parts.values(), facts);
    if (hint !== null && (ranksOf(incident).length > 0 || alert.hint === null)) {
      alert.hint = { ...hint, phase: alert.hint?.phase ?? hint.phase };
      alert.ranks = [...hint.ranks];
    }
    escalate(incident);
    if (JSON.stringify(alert) !== before) this.#report('updated', alert);
  }

  /** A further slow-down: the same incident, measured from the level before all of it. */
  #further(incident: Incident, found: Found): void {
    const { alert, lead, parts } = incident;
    const { about, finding } = found;
    const key = seriesKey(about);
    const before = JSON.stringify(alert);
    this.#waiting = this.#waiting.filter((one) => one !== found);
    const first = parts.get(key)?.finding ?? finding;
    const whole: Slower = {
      ...finding,
      kind: first.kind,
      before: first.before,
      change: finding.after / first.before - 1,
      onsetStep: first.onsetStep,
    };
    parts.set(key, { about, finding: whole, latest: { onsetStep: finding.onsetStep, by: finding.after - finding.before } });
    escalate(incident);
    if (key === lead) {
      const from = alert.onsetStep ?? finding.onsetStep;
      alert.latestOnsetStep = finding.kind === 'drift' ? Math.max(finding.onsetStep, finding.step - levelSteps) : finding.onsetStep;
      this.#say(
        alert,
        { ...whole, before: alert.before ?? whole.before, change: finding.after / (alert.before ?? whole.before) - 1 },
        from,
        finding.kind === 'drift' ? undefined : finding.onsetStep,
      );
      alert.step = finding.step;
    }
    if (JSON.stringify(alert) !== before) this.#report('updated', alert);
  }

  /** `latest`: the onset of a further jump. */
  #say(alert: OpenAlert, finding: Slower, onsetStep: number, latest?: number): void {
    alert.before = finding.before;
    alert.after = finding.after;
    alert.change = finding.change;
    alert.confidence = { ...finding.confidence };
    alert.summary = summaryOf(alert.series, { ...finding, onsetStep }, finding.before, latest);
  }

  /** Reports an incident again that has risen on little by little: of the level that held since, so that a stretch of slow steps does not count. */
  #follow(incident: Incident, step: number, facts: StepSeriesFacts): void {
    const { alert, lead, risen } = incident;
    const level = facts.latest(alert.series);
    const [before, told] = [alert.before ?? 0, alert.after ?? 0];
    const isDrift = alert.rule === 'step_time_drift';
    const least = Math.max(againShare * (told - before), isDrift ? 0 : this.#aloneShare * before);
    const isOfOthers = this.#open.some((one) => one !== incident && (isPart(one, lead) || (lead === cluster && ranksOf(one).length > 0)));
    if (level === undefined || level - told < least || isOfOthers || this.#waiting.some(({ about }) => seriesKey(about) === lead)) {
      incident.risen = undefined;
    } else if (risen === undefined) incident.risen = { step, level };
    else if (step - risen.step >= limits.alertSettleSteps) {
      incident.risen = undefined;
      this.#raise(incident, { ...risen, level: Math.min(level, risen.level) });
      this.#report('updated', alert);
    }
  }

  #raise({ alert, parts }: Incident, { step, level }: RisenLevel): void {
    const before = alert.before ?? level;
    const change = level / before - 1;
    const by = change - (alert.change ?? change);
    const { t, low, high } = alert.confidence ?? { t: 0, low: change, high: change };
    const confidence = { t, low: low + by, high: high + by };
    const onsetStep = alert.onsetStep ?? step;
    // A jump that joined a drift gave it its onset.
    const isJump = [...parts.values()].some(({ finding }) => finding.kind === 'regression' && finding.onsetStep === onsetStep);
    const kind = alert.rule === 'step_time_drift' && !isJump ? 'drift' : 'regression';
    alert.latestOnsetStep = Math.max(onsetStep, step - levelSteps);
    this.#say(alert, { kind, isFurther: false, step, onsetStep, before, after: level, change, confidence }, onsetStep);
    alert.step = step;
  }

  #resolve(incident: Incident, nowMs: number, resolution: string): void {
    this.#open = this.#open.filter((one) => one !== incident);
    resolveAlert(incident.alert, nowMs, resolution, this.#report);
  }

  /** Waiting findings with a slow-down at the same time as `lead`. */
  #near(lead: Found): Found[] {
    return this.#waiting.filter((one) => one !== lead && isTogether(lead, one));
  }

  get #aloneShare(): number {
    return Math.max(aloneShare, this.#rules.stepTimeChangeMin);
  }

  /** Whether it is a large share of a step, and either points to ranks or shows in the cluster's steps: otherwise it costs nothing. */
  #isWorthIt(lead: Found, facts: StepSeriesFacts): boolean {
    const least = this.#aloneShare * facts.usual;
    if (slowerBy(lead) < least) return false;
    const hint = hintOf([lead, ...this.#near(lead)], facts);
    if ((hint?.ranks.length ?? 0) > 0) return true;
    // No rank is slower than its peers: the cluster's own finding is due.
    if (hint?.isOfAll === true && lead.about.kind === 'rank') return false;
    return (facts.clusterRise(lead.finding.onsetStep) ?? 0) >= Math.max(least, shownShare * slowerBy(lead));
  }

  /** Whether a finding belongs to the fault of `incident`. */
  #isSame(incident: Incident, found: Found): boolean {
    const { alert, reportedStep } = incident;
    const { about, finding } = found;
    const { kind, onsetStep, step } = finding;
    const onset = alert.onsetStep ?? Number.NaN;
    const ranks = ranksOf(incident);
    const isDrift = alert.rule === 'step_time_drift';
    if (about.kind === 'rank' && ranks.length > 0 && !ranks.includes(about.rank as number)) {
      if (isDrift !== (kind === 'drift')) return false;
      return isDrift
        ? step - reportedStep <= limits.alertDriftStepsApartMax
        : Math.abs(onset - onsetStep) <= limits.alertRankOnsetStepsApartMax;
    }
    if (isDrift || kind === 'drift' ? overlaps(incident, finding) : isNear(onset, onsetStep)) return true;
    return about.kind !== 'rank' && onset <= step && this.#isWaitedFor(incident, found);
  }

  /** Whether the cluster, or a phase, takes no longer than the own work of a rank of the incident, for which all others wait. */
  #isWaitedFor({ parts }: Incident, { about, finding }: Found): boolean {
    if (about.kind === 'phase' && isWaitingRole(this.#roles.of(about.phase ?? ''))) return false;
    const allowed = about.kind === 'cluster' ? unexplainedShare * (finding.after - finding.before) : 0;
    return [...parts.values()].some((part) => part.about.kind === 'rank' && finding.after <= part.finding.after + allowed);
  }
}

/** Whether a series is nearer to its level before the slow-down again: a busy host comes and goes. */
const isBack = ({ about, finding }: Found, { latest }: StepSeriesFacts): boolean =>
  (latest(about) ?? finding.after) < (finding.before + finding.after) / 2;

const isNear = (a: number, b: number): boolean => Math.abs(a - b) <= limits.alertOnsetStepsApartMax;
const ranksOf = ({ parts }: Incident): number[] =>
  [...parts.values()].flatMap(({ about }) => (about.kind === 'rank' ? [about.rank as number] : []));

const isPart = ({ lead, parts }: Incident, key: string): boolean => lead === key || parts.has(key);

/** A jump that began after the drift was reported is not part of it. */
const isOnTopOfDrift = ({ alert, reportedStep }: Incident, { kind, onsetStep }: Slower): boolean =>
  alert.rule === 'step_time_drift' && kind === 'regression' && onsetStep > reportedStep - limits.alertRankOnsetStepsApartMax;

/** Whether two series slowed at once: jumps by onset; drifts by detection time, which differs with each series' noise. */
function isTogether(a: Found, b: Found): boolean {
  if (a.finding.kind === 'drift' && b.finding.kind === 'drift')
    return Math.abs(a.finding.step - b.finding.step) <= limits.alertDriftStepsApartMax;
  const apart = a.about.kind === 'rank' && b.about.kind === 'rank' ? limits.alertRankOnsetStepsApartMax : limits.alertOnsetStepsApartMax;
  return Math.abs(a.finding.onsetStep - b.finding.onsetStep) <= apart;
}

/** Whether the onset of one lies in the stretch over which the other, a drift, was seen. */
function overlaps({ alert, reportedStep }: Incident, { kind, onsetStep, step }: Slower): boolean {
  const { alertOnsetStepsApartMax: apart } = limits;
  const onset = alert.onsetStep ?? Number.NaN;
  // Each series shows only the last part of a long rise.
  if (kind === 'drift' && alert.rule === 'step_time_drift') return true;
  const inFinding = kind === 'drift' && onset >= onsetStep - apart && onset <= step;
  const inIncident = alert.rule === 'step_time_drift' && onsetStep >= onset - apart && onsetStep <= reportedStep;
  return inFinding || inIncident;
}

function escalate({ alert, parts }: Incident): void {
  if (severityOf(parts.values()) === 'critical') alert.severity = 'critical';
}

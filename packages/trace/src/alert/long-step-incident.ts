// Long steps that take more of the time than before: one incident, of the cluster.
//
// Its cause is what was longer than usual in those steps: a rank's own work if no other rank's was as long, and a phase.

import { LongStepDetector, type LongStepState, type LongStepsRise, longStepsChangeMin } from '../detect/long-step-detector.ts';
import { lengthText, percentText } from '../model/quantity-text.ts';
import { type AlertHint, isoTime, type OpenAlert, type ReportChange, resolveAlert } from './alert-change.ts';
import { alertLimits as limits } from './alert-limits.ts';
import type { AlertRules } from './alert-rules.ts';
import { alertSeverities, criticalShare } from './alert-severity.ts';
import { nameText, ranksText } from './alert-text.ts';
import { newContextSince } from './step-findings.ts';

/** One step over the cluster, ns. */
export interface PassedStep {
  readonly step: number;
  /** Steps of another context are not compared. */
  readonly context: number;
  /** The time that passed: the mean of the ranks' lengths. */
  readonly passed: number;
  /** Own work of each rank, as far as phases reveal it. */
  readonly own: readonly { readonly rank: number; readonly time: number }[];
  /** Phases: the longest rank of each; of a phase of waiting the shortest. */
  readonly phases: ReadonlyMap<string, number>;
}

/** The time beyond the usual one in a step, ns, and the rank and phase that it was in. */
interface Excess {
  readonly step: number;
  readonly length: number;
  readonly rank?: number | undefined;
  readonly phase?: string | undefined;
}

/** In JSON's types. */
export interface LongStepIncidentState {
  readonly context: number;
  readonly detector: LongStepState;
  readonly usual: number;
  readonly usualOwn: number;
  readonly usualPhases: readonly (readonly [string, number])[];
  readonly excesses: readonly Excess[];
  readonly alert: OpenAlert | null;
}

/** A usual time is the mean of about so many steps. */
const usualSteps = 32;
/** A rank or a phase is the cause if it has at least this share of all that was longer. */
const causeShare = 0.6;

export class LongStepIncident {
  readonly #run: string;
  readonly #report: ReportChange;
  readonly #changeMin: number;
  #detector: LongStepDetector;
  #context = 0;
  readonly #usualPhases = new Map<string, number>();
  #usual = 0;
  #usualOwn = 0;
  /** The last ones. */
  #excesses: Excess[] = [];
  #alert: OpenAlert | undefined = undefined;

  constructor(run: string, { stepTimeChangeMin }: AlertRules, report: ReportChange) {
    this.#run = run;
    this.#report = report;
    this.#changeMin = Math.max(stepTimeChangeMin, longStepsChangeMin);
    this.#detector = new LongStepDetector(this.#changeMin);
  }

  /** The open incident. */
  get alert(): OpenAlert | undefined {
    return this.#alert;
  }

  /** Takes a step. `isKnown`: whether steps that became slower about then have an incident. */
  step(passed: PassedStep, isKnown: (onsetStep: number) => boolean, nowMs: number): void {
    if (passed.context !== this.#context) {
      this.#context = passed.context;
      this.#detector = new LongStepDetector(this.#changeMin);
      this.#usual = 0;
      this.close(nowMs, newContextSince(passed.step));
    }
    this.#note(passed);
    const found = this.#detector.add(passed.step, passed.passed);
    if (found?.kind === 'long_steps' && !isKnown(found.onsetStep)) this.#fire(found, nowMs);
    if (found?.kind === 'long_steps_refined') this.#refine(found);
    if (found?.kind === 'long_steps_over') this.close(nowMs, `long steps add ${percentText(found.added)} again`);
  }

  close(nowMs: number, resolution: string): void {
    const alert = this.#alert;
    this.#alert = undefined;
    if (alert !== undefined) resolveAlert(alert, nowMs, resolution, this.#report);
  }

  state(): LongStepIncidentState {
    return {
      context: this.#context,
      detector: this.#detector.state(),
      usual: this.#usual,
      usualOwn: this.#usualOwn,
      usualPhases: [...this.#usualPhases],
      excesses: this.#excesses,
      alert: this.#alert === undefined ? null : { ...this.#alert },
    };
  }

  restore({ context, detector, usual, usualOwn, usualPhases, excesses, alert }: LongStepIncidentState): void {
    this.#context = context;
    this.#detector.restore(detector);
    this.#usual = usual;
    this.#usualOwn = usualOwn;
    for (const [name, time] of usualPhases.slice(0, limits.alertPhasesMax)) this.#usualPhases.set(name, time);
    this.#excesses = [...excesses];
    this.#alert = alert === null ? undefined : { ...alert };
  }

  /** Notes what took longer than usual, or what is usual. */
  #note({ step, passed, own, phases }: PassedStep): void {
    const [most, second] = twoLongest(own);
    const length = most === undefined ? passed - this.#usual : most.time - this.#usualOwn;
    if (this.#usual > 0 && Math.max(length, passed - this.#usual) > this.#usual / 2) {
      const isAlone = most !== undefined && most.time - second > length / 2 && length > this.#usual / 2;
      const longer = [...phases].map(([name, time]) => ({ name, more: time - (this.#usualPhases.get(name) ?? 0) }));
      const phase = longer.reduce<(typeof longer)[number] | undefined>((top, one) => (one.more > (top?.more ?? 0) ? one : top), undefined);
      this.#excesses.push({ step, length: phase?.more ?? length, rank: isAlone ? most.rank : undefined, phase: phase?.name });
      if (this.#excesses.length > limits.alertLongStepsKept) this.#excesses.shift();
      return;
    }
    const moved = (usual: number, time: number): number => (usual === 0 ? time : usual + (time - usual) / usualSteps);
    this.#usual = moved(this.#usual, passed);
    if (most !== undefined) this.#usualOwn = moved(this.#usualOwn, most.time);
    for (const [name, time] of phases) {
      const known = this.#usualPhases.get(name);
      if (known !== undefined || this.#usualPhases.size < limits.alertPhasesMax) this.#usualPhases.set(name, moved(known ?? 0, time));
    }
  }

  #fire(found: LongStepsRise, nowMs: number): void {
    const { step, onsetStep, every, change } = found;
    const since = this.#excesses.filter((one) => one.step >= onsetStep - 1);
    const rank = causeOf(since, (one) => one.rank);
    const phase = causeOf(since, (one) => one.phase);
    const ranks = rank === undefined ? [] : [rank];
    this.#alert = {
      id: `${this.#run}/step_time/long/${onsetStep}`,
      run: this.#run,
      rule: 'step_time',
      state: 'firing',
      severity: change >= criticalShare ? 'critical' : alertSeverities.step_time.first,
      series: { kind: 'cluster' },
      firedAt: isoTime(nowMs),
      resolvedAt: null,
      resolution: null,
      step,
      onsetStep,
      onsetAt: null,
      unit: 'ns',
      ...numbersOf(found),
      ranks,
      hint: hintOf(ranks, phase, every),
    };
    this.#report('fired', this.#alert);
  }

  /** Corrects the numbers. Ranks and phase stay those of the steps that fired the alert: only the last excesses are kept. */
  #refine(found: LongStepsRise): void {
    const alert = this.#alert;
    if (alert?.onsetStep !== found.onsetStep) return;
    Object.assign(alert, numbersOf(found));
    alert.hint = hintOf(alert.ranks, alert.hint?.phase, found.every);
    if (found.change >= criticalShare) alert.severity = 'critical';
    this.#report('updated', alert);
  }
}

const oftenText = (every: number): string => (every === 1 ? 'nearly each step' : `about one step in ${every}`);

function hintOf(ranks: readonly number[], phase: string | undefined, every: number): AlertHint {
  const who = ranks.length === 0 ? 'ranks take' : `${ranksText(ranks)} takes`;
  const where = phase === undefined ? '' : `, mostly in ${nameText(phase)}`;
  return { ranks, phase, stated: { kind: 'long_steps', text: `${who} longer in ${oftenText(every)}${where}` } };
}

function numbersOf({ onsetStep, before, after, change, confidence, every }: LongStepsRise) {
  const levels = `${lengthText(before)} → ${lengthText(after)}`;
  const summary = `long steps, ${oftenText(every)}, make the mean of all steps ${percentText(change)} longer since step ${onsetStep}: ${levels}`;
  return { summary, before, after, change, confidence: { ...confidence } };
}

/** The rank with the most work, and the work of the next. */
function twoLongest(own: PassedStep['own']): [PassedStep['own'][number] | undefined, number] {
  let most: PassedStep['own'][number] | undefined;
  let second = 0;
  for (const one of own) {
    if (one.time > (most?.time ?? 0)) [most, second] = [one, most?.time ?? 0];
    else second = Math.max(second, one.time);
  }
  return [most, second];
}

/** The rank or the phase that most of the excess has in common. */
function causeOf<T>(excesses: readonly Excess[], of: (excess: Excess) => T | undefined): T | undefined {
  const sums = new Map<T, number>();
  let all = 0;
  for (const excess of excesses) {
    const cause = of(excess);
    all += excess.length;
    if (cause !== undefined) sums.set(cause, (sums.get(cause) ?? 0) + excess.length);
  }
  for (const [cause, sum] of sums) if (sum >= causeShare * all) return cause;
  return undefined;
}

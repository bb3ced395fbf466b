// The absolute limit: most of the last few steps take longer than allowed.
//
//   warm-up │ the last 8 steps: 6 over ─► fired ─► updated, when their median differs by a fifth ─► resolved: at most 2 over
//
// The first steps after a start compile and fill caches: they are not judged, or each start would page somebody.

import { lengthText } from '../model/quantity-text.ts';
import { isoTime, type OpenAlert, type ReportChange, resolveAlert } from './alert-change.ts';
import { alertLimits as limits } from './alert-limits.ts';
import { alertSeverities } from './alert-severity.ts';

export type StepLimitState = {
  readonly last: readonly (readonly [number, number])[];
  readonly alert: OpenAlert | null;
  /** Steps that are still of the warm-up. Absent in states of older services: none. */
  readonly warmUp?: number;
};

/** A median is told again when it differs by this share from the one that was told. */
const toldAgainShare = 0.2;

export class StepLimit {
  readonly #run: string;
  /** Limit, ns. */
  readonly #limit: number;
  readonly #report: ReportChange;
  /** The last steps: number and ns. */
  #last: (readonly [number, number])[] = [];
  #warmUp: number = limits.alertLimitWarmUpSteps;
  #alert: OpenAlert | undefined = undefined;

  constructor(run: string, limitMs: number, report: ReportChange) {
    this.#run = run;
    this.#limit = limitMs * 1e6;
    this.#report = report;
  }

  /** The job was started again. */
  restarted(): void {
    this.#last = [];
    this.#warmUp = limits.alertLimitWarmUpSteps;
  }

  step(step: number, length: number, nowMs: number): void {
    if (this.#warmUp > 0) {
      this.#warmUp--;
      return;
    }
    this.#last.push([step, length]);
    if (this.#last.length > limits.alertLimitSteps) this.#last.shift();
    if (this.#last.length < limits.alertLimitSteps) return;
    const over = this.#last.filter(([, time]) => time > this.#limit);
    if (this.#alert !== undefined) {
      if (over.length > limits.alertLimitStepsUnder) {
        this.#refine(this.#alert);
        return;
      }
      const alert = this.#alert;
      this.#alert = undefined;
      resolveAlert(alert, nowMs, `steps take ${lengthText(this.#middle())}, below ${lengthText(this.#limit)} again`, this.#report);
      return;
    }
    if (over.length < limits.alertLimitStepsOver) return;
    const onset = (over[0] as readonly [number, number])[0];
    const middle = this.#middle();
    this.#alert = {
      id: `${this.#run}/step_time_limit/cluster/${onset}`,
      run: this.#run,
      rule: 'step_time_limit',
      state: 'firing',
      severity: alertSeverities.step_time_limit.first,
      summary: this.#summary(middle, onset),
      series: { kind: 'cluster' },
      firedAt: isoTime(nowMs),
      resolvedAt: null,
      resolution: null,
      step,
      onsetStep: onset,
      onsetAt: null,
      unit: 'ns',
      before: this.#limit,
      after: middle,
      change: middle / this.#limit - 1,
      confidence: null,
      ranks: [],
      hint: null,
    };
    this.#report('fired', this.#alert);
  }

  /** Reports the median again where it is no longer about the one that was reported. */
  #refine(alert: OpenAlert): void {
    const middle = this.#middle();
    const reported = alert.after ?? middle;
    if (middle <= this.#limit || Math.abs(middle / reported - 1) < toldAgainShare) return;
    alert.after = middle;
    alert.change = middle / this.#limit - 1;
    alert.summary = this.#summary(middle, alert.onsetStep ?? 0);
    this.#report('updated', alert);
  }

  #summary(middle: number, onset: number): string {
    return `steps take ${lengthText(middle)}, over the limit of ${lengthText(this.#limit)}, since step ${onset}`;
  }

  close(nowMs: number, resolution: string): void {
    if (this.#alert === undefined) return;
    const alert = this.#alert;
    this.#alert = undefined;
    resolveAlert(alert, nowMs, resolution, this.#report);
  }

  state(): StepLimitState {
    return { last: this.#last, warmUp: this.#warmUp, alert: this.#alert === undefined ? null : { ...this.#alert } };
  }

  restore({ last, alert, warmUp = 0 }: StepLimitState): void {
    this.#last = [...last];
    this.#warmUp = warmUp;
    this.#alert = alert === null ? undefined : { ...alert };
  }

  #middle(): number {
    const times = this.#last.map(([, time]) => time).sort((a, b) => a - b);
    return times[times.length >> 1] as number;
  }
}

// The absolute limit: most of the last few steps take longer than allowed.

import { lengthText } from '../model/quantity-text.ts';
import { isoTime, type OpenAlert, type ReportChange, resolveAlert } from './alert-change.ts';
import { alertLimits as limits } from './alert-limits.ts';
import { alertSeverities } from './alert-severity.ts';

export type StepLimitState = { readonly last: readonly (readonly [number, number])[]; readonly alert: OpenAlert | null };

export class StepLimit {
  readonly #run: string;
  /** Limit, ns. */
  readonly #limit: number;
  readonly #report: ReportChange;
  /** The last steps: number and ns. */
  #last: (readonly [number, number])[] = [];
  #alert: OpenAlert | undefined = undefined;

  constructor(run: string, limitMs: number, report: ReportChange) {
    this.#run = run;
    this.#limit = limitMs * 1e6;
    this.#report = report;
  }

  step(step: number, length: number, nowMs: number): void {
    this.#last.push([step, length]);
    if (this.#last.length > limits.alertLimitSteps) this.#last.shift();
    if (this.#last.length < limits.alertLimitSteps) return;
    const over = this.#last.filter(([, time]) => time > this.#limit);
    if (this.#alert !== undefined) {
      if (over.length > limits.alertLimitStepsUnder) return;
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
      summary: `steps take ${lengthText(middle)}, over the limit of ${lengthText(this.#limit)}, since step ${onset}`,
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

  close(nowMs: number, resolution: string): void {
    if (this.#alert === undefined) return;
    const alert = this.#alert;
    this.#alert = undefined;
    resolveAlert(alert, nowMs, resolution, this.#report);
  }

  state(): StepLimitState {
    return { last: this.#last, alert: this.#alert === undefined ? null : { ...this.#alert } };
  }

  restore({ last, alert }: StepLimitState): void {
    this.#last = [...last];
    this.#alert = alert === null ? undefined : { ...alert };
  }

  #middle(): number {
    const times = this.#last.map(([, time]) => time).sort((a, b) => a - b);
    return times[times.length >> 1] as number;
  }
}

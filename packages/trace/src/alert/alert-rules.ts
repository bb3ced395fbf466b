// Alert thresholds: the settings of all rules, checked once.

import { type AlertRule, alertRules } from '@ranktrace/protocol';
import { type Sensitivity, sensitivities } from '../detect/detector-options.ts';
import { TraceError } from '../model/errors.ts';

/** Settings of the rules. Shares: 0.03 is 3 %. */
export interface AlertRules {
  /** Disabled rules. */
  readonly off: readonly AlertRule[];
  /** `step_time`: smallest reported change of the step; it must also exceed the series' usual behaviour. */
  readonly stepTimeChangeMin: number;
  /** `step_time`, `step_time_drift`: how certain a change must be. */
  readonly stepTimeSensitivity: Sensitivity;
  /** `step_time_drift`: a slow rise above the level at the run's beginning. */
  readonly driftChangeMin: number;
  /** `step_time_limit`: longest allowed step, ms; undefined: no limit. */
  readonly stepTimeLimitMs: number | undefined;
  /** `rank_stopped`: ms of silence from a rank that did not say goodbye. */
  readonly rankStoppedMs: number;
  /** `hang`: ms inside a collective that others never entered, or without the end of a step; at least a few steps' time. */
  readonly hangMs: number;
  /** `memory_growth`: least growth in bytes per step, and the number of steps with a continuous rise. */
  readonly memoryGrowthBytesMin: number;
  readonly memoryGrowthStepsMin: number;
  /** `data_loss`: ms without further loss until it is resolved. */
  readonly dataLossQuietMs: number;
  /** `clock_unaligned`: ms without clock evidence of a host, if there are several. */
  readonly clockUnalignedMs: number;
  /** `overhead`: share of the steps that recording may take, and the multiple of it that is too much. */
  readonly overheadBudget: number;
  readonly overheadFactor: number;
}

export const defaultAlertRules: AlertRules = {
  off: [],
  stepTimeChangeMin: 0.015,
  stepTimeSensitivity: 'normal',
  driftChangeMin: 0.05,
  stepTimeLimitMs: undefined,
  rankStoppedMs: 30_000,
  hangMs: 60_000,
  memoryGrowthBytesMin: 1024 * 1024,
  memoryGrowthStepsMin: 200,
  dataLossQuietMs: 60_000,
  clockUnalignedMs: 60_000,
  overheadBudget: 0.005,
  overheadFactor: 1.5,
};

/**
 * The defaults with the given settings applied, checked.
 * @throws TraceError `bad_option`
 */
export function resolveAlertRules(given: Partial<AlertRules> = {}): AlertRules {
  const rules = { ...defaultAlertRules, ...given };
  const within = (name: keyof AlertRules, min: number, max: number): void => {
    const value = rules[name];
    if (typeof value === 'number' && value >= min && value <= max) return;
    throw new TraceError('bad_option', `Cannot alert with ${name} ${String(value)}: it must be ${min} to ${max}`);
  };
  for (const rule of rules.off) {
    if (!alertRules.includes(rule)) {
      throw new TraceError('bad_option', `Cannot turn off rule "${String(rule)}": it must be one of ${alertRules.join(', ')}`);
    }
  }
  if (!sensitivities.includes(rules.stepTimeSensitivity)) {
    const what = String(rules.stepTimeSensitivity);
    throw new TraceError('bad_option', `Cannot alert with stepTimeSensitivity "${what}": it must be one of ${sensitivities.join(', ')}`);
  }
  const dayMs = 24 * 3_600_000;
  within('stepTimeChangeMin', 0.001, 9);
  within('driftChangeMin', 0.001, 9);
  if (rules.stepTimeLimitMs !== undefined) within('stepTimeLimitMs', 0.001, dayMs);
  for (const name of ['rankStoppedMs', 'hangMs', 'clockUnalignedMs', 'dataLossQuietMs'] as const) within(name, 100, dayMs);
  within('memoryGrowthBytesMin', 1, 2 ** 40);
  within('memoryGrowthStepsMin', 8, 1e6);
  within('overheadBudget', 0, 1);
  within('overheadFactor', 1, 1000);
  return rules;
}

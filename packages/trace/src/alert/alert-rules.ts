// What is alerted about and from when on: the settings of all rules, checked once.

import { type AlertRule, alertRules } from '@ranktrace/protocol';
import { type Sensitivity, sensitivities } from '../detect/detector-options.ts';
import { TraceError } from '../model/errors.ts';

/** Settings of the rules. Shares: 0.03 is 3 %. */
export interface AlertRules {
  /** Rules that say nothing. */
  readonly off: readonly AlertRule[];
  /** `step_time`: no smaller change of the step is told, nor one that is within what the series does anyhow. */
  readonly stepTimeChangeMin: number;
  /** `step_time`, `step_time_drift`: how sure a change must be. */
  readonly stepTimeSensitivity: Sensitivity;
  /** `step_time_drift`: a slow rise over the level that the run began with. */
  readonly driftChangeMin: number;
  /** `step_time_limit`: ms that a step may take; undefined: any time. */
  readonly stepTimeLimitMs: number | undefined;
  /** `rank_stopped`: ms without a word of a rank that did not say goodbye. */
  readonly rankStoppedMs: number;
  /** `hang`: ms inside of a collective that others never entered, or without the end of a step; never less than a few steps take. */
  readonly hangMs: number;
  /** `memory_growth`: bytes per step, over so many steps and rising throughout. */
  readonly memoryGrowthBytesMin: number;
  readonly memoryGrowthStepsMin: number;
  /** `data_loss`: ms after the last loss until it is resolved. */
  readonly dataLossQuietMs: number;
  /** `clock_unaligned`: ms without clock evidence of a host, where there are several. */
  readonly clockUnalignedMs: number;
  /** `overhead`: what of the steps recording may take, and how many times that is too much. */
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
 * The defaults with what is given, checked.
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

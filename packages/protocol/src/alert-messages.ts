// An alert as the service keeps, sends and shows it: one incident of one rule, from when it fires until it is resolved.

import { z } from 'zod';
import { limits } from './limits.ts';

/** The rules that can raise an alert. */
export const alertRules = [
  /** Steps became slower and stayed so. */
  'step_time',
  /** Steps became slower little by little. */
  'step_time_drift',
  /** Steps take longer than the configured limit. */
  'step_time_limit',
  /** A rank sends nothing any more. */
  'rank_stopped',
  /** Some ranks are inside a collective that others never entered. */
  'hang',
  /** A rank's memory grows step by step. */
  'memory_growth',
  'data_loss',
  'clock_unaligned',
  /** Recording takes a larger share of the steps than its budget. */
  'overhead',
] as const;

export type AlertRule = (typeof alertRules)[number];

const ranks = z.array(z.number().int().min(0).max(limits.rankMax));
const seconds = z.iso.datetime();

export const alertSchema = z.strictObject({
  /** The same in every message about this incident: run, rule, series and onset. */
  id: z.string().min(1).max(256),
  run: z.string().min(1).max(limits.runNameCharsMax),
  rule: z.enum(alertRules),
  state: z.enum(['firing', 'resolved']),
  severity: z.enum(['critical', 'warning']),
  /** One line for a person: the problem, its size, its onset, the ranks. */
  summary: z.string().max(1024),
  /** The watched series: the cluster's steps, a rank's own work, a phase of it. */
  series: z.strictObject({ kind: z.enum(['cluster', 'rank', 'phase']), rank: z.number().int().optional(), phase: z.string().optional() }),
  /** When it fired and was resolved, by the aggregator's wall clock. */
  firedAt: seconds,
  resolvedAt: seconds.nullable(),
  /** Reason for the resolution: steps are as fast again, a new context, the rank is back … */
  resolution: z.string().max(256).nullable(),
  /** The step that made the alert certain, and the first affected step; null where no step is involved. */
  step: z.number().int().nullable(),
  onsetStep: z.number().int().nullable(),
  /** Wall-clock time of the onset. */
  onsetAt: seconds.nullable(),
  /** ns per step (bytes per step, a share …: `unit`) before and after; `change` is after ÷ before − 1. */
  unit: z.enum(['ns', 'bytes', 'share', 'count']),
  before: z.number().nullable(),
  after: z.number().nullable(),
  change: z.number().nullable(),
  confidence: z.strictObject({ t: z.number(), low: z.number(), high: z.number() }).nullable(),
  /** The cause, as far as the clocks can determine it. */
  cause: z
    .strictObject({
      kind: z.string().max(64),
      ranks,
      hosts: z.array(z.string()),
      phase: z.string().nullable(),
      /** Share of the change, 0 … 1. */
      share: z.number().nullable(),
      text: z.string().max(1024),
    })
    .nullable(),
  /** Ranks concerned. */
  ranks,
  /** Link to the timeline at the onset; null without a page. */
  link: z.string().nullable(),
  /** The trace of the slow steps themselves. */
  capture: z
    .strictObject({
      state: z.enum(['pending', 'written', 'failed']),
      path: z.string().nullable(),
      fromStep: z.number().int().nullable(),
      toStep: z.number().int().nullable(),
      /** Ranks whose steps are in the trace, and those that did not answer. */
      ranks,
      ranksMissing: ranks,
      text: z.string().max(1024),
    })
    .nullable(),
});

export type Alert = z.infer<typeof alertSchema>;

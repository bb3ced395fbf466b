// An alert as it is kept, sent and shown: one incident of one rule, from when it fires until it is resolved.

import { z } from 'zod';
import { limits } from './limits.ts';

/** What can be alerted about. */
export const alertRules = [
  /** Steps became slower and stayed so. */
  'step_time',
  /** Steps became slower little by little. */
  'step_time_drift',
  /** Steps take longer than was allowed. */
  'step_time_limit',
  /** A rank says nothing any more. */
  'rank_stopped',
  /** Ranks are inside of a collective that others never entered. */
  'hang',
  /** A rank's memory grows step by step. */
  'memory_growth',
  'data_loss',
  'clock_unaligned',
  /** Recording takes more of the steps than it may. */
  'overhead',
] as const;

export type AlertRule = (typeof alertRules)[number];

const ranks = z.array(z.number().int().min(0).max(limits.rankMax));
const seconds = z.iso.datetime();

export const alertSchema = z.strictObject({
  /** The same for all that is ever said of this incident: run, rule, series and onset. */
  id: z.string().min(1).max(256),
  run: z.string().min(1).max(limits.runNameCharsMax),
  rule: z.enum(alertRules),
  state: z.enum(['firing', 'resolved']),
  severity: z.enum(['critical', 'warning']),
  /** One line for a person: what, by how much, since when, whose. */
  summary: z.string().max(1024),
  /** What was watched: the cluster's steps, a rank's own work, a phase of it. */
  series: z.strictObject({ kind: z.enum(['cluster', 'rank', 'phase']), rank: z.number().int().optional(), phase: z.string().optional() }),
  /** When it fired and was resolved, by the aggregator's wall clock. */
  firedAt: seconds,
  resolvedAt: seconds.nullable(),
  /** Why it is resolved: steps are as fast again, a new context, the rank is back … */
  resolution: z.string().max(256).nullable(),
  /** The step with which it was certain, and the first one concerned; null where steps have nothing to do with it. */
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
  /** Who or what is to blame, as far as the clocks can tell. */
  cause: z
    .strictObject({
      kind: z.string().max(64),
      ranks,
      hosts: z.array(z.string()),
      phase: z.string().nullable(),
      /** Of the change, 0 … 1. */
      share: z.number().nullable(),
      text: z.string().max(1024),
    })
    .nullable(),
  /** Ranks concerned. */
  ranks,
  /** The timeline at that place; null without a page. */
  link: z.string().nullable(),
  /** The trace of the slow steps themselves. */
  capture: z
    .strictObject({
      state: z.enum(['pending', 'written', 'failed']),
      path: z.string().nullable(),
      fromStep: z.number().int().nullable(),
      toStep: z.number().int().nullable(),
      /** Ranks whose steps are in it, and those that did not answer. */
      ranks,
      ranksMissing: ranks,
      text: z.string().max(1024),
    })
    .nullable(),
});

export type Alert = z.infer<typeof alertSchema>;

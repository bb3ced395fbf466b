// What `POST /v1/capture` of the service is asked and answers: the trace of the same steps on all ranks.

import { z } from 'zod';
import { limits } from './limits.ts';

const step = z.number().int().min(0).max(limits.capturedStepMax);
const ranks = z.array(z.number().int().min(0).max(limits.rankMax));

export const captureRequestSchema = z.strictObject({
  /** Default: the only run whose ranks go on. */
  run: z.string().min(1).max(limits.runNameCharsMax).optional(),
  /** The first step to record. Default: as soon as all ranks can. */
  fromStep: step.optional(),
  /** How many. */
  steps: z.number().int().min(1).max(limits.capturedStepsMax),
  /** Steps, both included, that are over: what the flight recorders have of them comes into the trace, too. */
  pull: z.strictObject({ fromStep: step, toStep: step }).optional(),
  /**
   * Nothing is waited for: of these steps (default: the last ones) those that every rank has ended, out of the flight recorders, and the one
   * that runs as far as it came. Of a job that hangs, or whose ranks stopped.
   */
  last: z.boolean().optional(),
});

export const captureResultSchema = z.strictObject({
  run: z.string(),
  /** The trace file, on the service's host. */
  path: z.string(),
  /** The steps that were to be recorded, both included. */
  fromStep: step,
  toStep: step,
  /** Ranks that recorded all of them. */
  ranks,
  /** Ranks that recorded some of them or none, and go on. */
  late: ranks,
  /** Ranks that ended or say nothing. */
  dead: ranks,
  /** A line for each of those, for a person. */
  notes: z.array(z.string()),
});

export type CaptureRequest = z.infer<typeof captureRequestSchema>;
export type CaptureResult = z.infer<typeof captureResultSchema>;

// Request and answer of the service's `POST /v1/capture`: the trace of the same steps on all ranks.

import { z } from 'zod';
import { limits } from './limits.ts';

const step = z.number().int().min(0).max(limits.capturedStepMax);
const ranks = z.array(z.number().int().min(0).max(limits.rankMax));

export const captureRequestSchema = z.strictObject({
  /** Default: the only run with live ranks. */
  run: z.string().min(1).max(limits.runNameCharsMax).optional(),
  /** The first step to record. Default: as soon as all ranks can. */
  fromStep: step.optional(),
  /** Number of steps to record. Either this or `seconds`. */
  steps: z.number().int().min(1).max(limits.capturedStepsMax).optional(),
  /** Length of a window to record, s: of ranks whose recorder knows times, such as PyTorch's beside an agent. */
  seconds: z
    .number()
    .min(0.001)
    .max(limits.windowMsMax / 1000)
    .optional(),
  /** Past steps, both included: the trace also gets the flight recorders' detail of them. */
  pull: z.strictObject({ fromStep: step, toStep: step }).optional(),
  /**
   * Waits for nothing: takes those of these steps (default: the last ones) that every rank has ended, from the flight recorders, and the
   * running step so far. For a job that hangs, or whose ranks stopped.
   */
  last: z.boolean().optional(),
});

export const captureResultSchema = z.strictObject({
  run: z.string(),
  /** The trace file, on the service's host. */
  path: z.string(),
  /** The requested steps, both included; absent from a capture of a window. */
  fromStep: step.optional(),
  toStep: step.optional(),
  /** Of a capture of a window: its begin, ms since 1970, its length, s, and the share of it in which all its ranks recorded. */
  window: z.strictObject({ unixMs: z.number().int().min(0), seconds: z.number().min(0), overlap: z.number().min(0).max(1) }).optional(),
  /** Ranks that recorded all of them. */
  ranks,
  /** Ranks that recorded some or none of them, and are still live. */
  late: ranks,
  /** Ranks that ended or are silent. */
  dead: ranks,
  /** A line for a person about each late or dead rank, and each that lost something in that time. */
  notes: z.array(z.string()),
});

export type CaptureRequest = z.infer<typeof captureRequestSchema>;
export type CaptureResult = z.infer<typeof captureResultSchema>;

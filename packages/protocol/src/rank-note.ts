// A rank's note to the command that started it, written before the rank sends anything: one JSON file per life in `RANKTRACE_LAUNCH_DIRECTORY`.

import { z } from 'zod';
import { limits } from './limits.ts';

const text = z.string().max(limits.stringBytesMax);

export const rankNoteSchema = z.strictObject({
  /** The run that the rank records, with a given or a generated name. */
  run: z.string().min(1).max(limits.runNameCharsMax),
  rank: z.number().int().min(0).max(limits.rankMax),
  /** Destination of its batches, without user and password; null: files in `spool`. */
  url: text.nullable(),
  /** The directory of this life's spool. */
  spool: text,
  /** The process that records; absent: an older SDK. */
  pid: z.number().int().min(1).optional(),
});

export type RankNote = z.infer<typeof rankNoteSchema>;
